/* SPDX-License-Identifier: MIT
 * One daemon per state folder: an flock that the kernel drops when its holder dies, however it dies.
 *
 * Not a pid in a file: pids come round again, and a stale file would keep a server from starting after a power loss. Not
 * SQLite's own lock: it says "busy", not who, and only when something is written. O_CLOEXEC, since a task that inherited the
 * descriptor would hold the lock for as long as it runs.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOCK_WAIT_MS 500
#define LOCK_LOOK_MS 20

/* The lock, once a radd that was killed is gone with what it was just forking: such a child has a copy of the descriptor until
 * its exec. Whoever holds it longer than that is at work. */
static int lock_take(int fd)
{
	for (int left_ms = LOCK_WAIT_MS;; left_ms -= LOCK_LOOK_MS) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK || left_ms <= 0)
			return -1;
		usleep(LOCK_LOOK_MS * 1000);
	}
}

static int lock_refuse(int fd, const char *dir, struct error *err)
{
	char text[32] = "";
	if (pread(fd, text, sizeof text - 1, 0) < 0)
		text[0] = 0;
	long pid = strtol(text, NULL, 10);
	if (pid <= 0)	/* it has the lock and has not written its pid yet */
		return error_set(err, ERR_CONFLICT, "another radd already runs on this state directory: %s", dir);
	return error_set(err, ERR_CONFLICT, "radd (pid %ld) already runs on this state directory: %s: use it (by the RAD_SOCKET that "
			 "it was started with), or end it first (kill %ld; tasks go on)", pid, dir, pid);
}

int store_lock(const char *dir, struct error *err)
{
	if (store_place(dir, err))
		return -1;
	scoped_free char *path = alloc_printf("%s/lock", dir);
	scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0)
		return error_errno(err, "%s", path);
	if (lock_take(fd))
		return errno == EWOULDBLOCK ? lock_refuse(fd, dir, err) : error_errno(err, "%s", path);
	/* The pid is for people only; a full disk must not keep the daemon from starting. */
	char text[32];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) || io_write_full(fd, text, (size_t)n))
		errno = 0;
	return steal_fd(fd);
}

bool store_is_locked(const char *dir)
{
	scoped_free char *path = alloc_printf("%s/lock", dir);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}
