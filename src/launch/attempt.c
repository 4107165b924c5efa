/* SPDX-License-Identifier: MIT
 * Attempt folders and claim files: see attempt.h. A claim is made by link(2), which makes a whole file appear or fails because
 * there is one: O_EXCL would let a reader meet a file that is still empty, and take its owner for nobody.
 */
#include "launch/attempt.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int attempt_open(const char *path, struct error *err)
{
	scoped_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ERR_NOT_FOUND, "%s: no such folder", path);
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "%s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, ERR_DENIED, "%s: must belong to uid %u with mode 700: others could forge what is run",
				 path, (unsigned)geteuid());
	return steal_fd(fd);
}

ssize_t attempt_read(int folder, const char *name, char *text, size_t size)
{
	scoped_fd int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* The folder for the new name, its parent for the folder: after a power cut a claim that was acted upon must be there, or the
 * task would be started a second time. */
static int sync_around(int folder)
{
	scoped_fd int parent = openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fsync(folder) || parent < 0 || fsync(parent) ? -1 : 0;
}

static int write_draft(int folder, const char *draft, struct proc_id self, struct error *err)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%d %llu\n", (int)self.pid, (unsigned long long)self.start_ticks);
	scoped_fd int fd = openat(folder, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || io_write_full(fd, text, (size_t)n) || fsync(fd))
		return error_errno(err, "%s", draft);
	return 0;
}

int attempt_cgroup(int folder, char **path)
{
	char noted[PATH_MAX];
	*path = NULL;
	if (attempt_read(folder, ATTEMPT_CGROUP, noted, sizeof noted) < 0)
		return errno == ENOENT ? 0 : -1;
	const char *name = strrchr(noted, '/');
	if (name && !strncmp(name + 1, CGROUP_PREFIX, strlen(CGROUP_PREFIX)))
		*path = alloc_string(noted);
	return 0;
}

int claim_create(int folder, struct proc_id self, struct error *err)
{
	char draft[64];
	/* Named by pid: of two that race for the claim each writes a draft of its own. */
	snprintf(draft, sizeof draft, ATTEMPT_CLAIM ".%d", (int)self.pid);
	int result = write_draft(folder, draft, self, err);
	if (!result && linkat(folder, draft, folder, ATTEMPT_CLAIM, 0)) {
		int why = errno;
		result = error_errno(err, ATTEMPT_CLAIM);
		if (why == EEXIST)
			error_set(err, ERR_CONFLICT, ATTEMPT_CLAIM ": exists: this was started before");
	}
	unlinkat(folder, draft, 0);
	/* A claim that may not last is taken back: nothing was started by it yet. */
	if (!result && sync_around(folder)) {
		result = error_errno(err, ATTEMPT_CLAIM);
		unlinkat(folder, ATTEMPT_CLAIM, 0);
	}
	return result;
}

int claim_read(int folder, const char *name, struct proc_id *id, struct error *err)
{
	char text[64];
	unsigned long long start;
	*id = (struct proc_id){ 0 };
	if (attempt_read(folder, name, text, sizeof text) < 0)
		return errno == ENOENT ? 0 : error_errno(err, "%s", name);
	/* 0 and less would mean whole groups to kill(2), and 1 is nobody's shim. */
	if (sscanf(text, "%d %llu", &id->pid, &start) != 2 || id->pid <= 1)
		return error_set(err, ERR_CORRUPT, "%s: '%.40s' is not a pid and a start time", name, text);
	id->start_ticks = start;
	return 1;
}
