/* SPDX-License-Identifier: MIT
 * Reading /proc: identity, parents, environment.
 */
#include "base/proc.h"

#include "base/io.h"
#include "base/scope.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int proc_see(pid_t pid, struct proc_seen *seen)
{
	char path[40], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, text, sizeof text - 1);
	if (n < 0)
		return -1;
	text[n] = 0;
	errno = ESRCH;
	/* The command name may hold anything, parentheses too: what counts begins after the last ')'. */
	const char *p = strrchr(text, ')');
	char state;
	int parent, session;
	long threads;
	unsigned long long start;
	if (!p || sscanf(p + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
			 &state, &parent, &session, &threads, &start) != 5)
		return -1;
	if (state == 'X' || (state == 'Z' && threads <= 1))
		return -1;
	*seen = (struct proc_seen){ { pid, start }, parent, session };
	return 0;
}

int proc_stat(pid_t pid, uint64_t *start_ticks, pid_t *parent)
{
	struct proc_seen seen;
	if (proc_see(pid, &seen))
		return -1;
	*start_ticks = seen.id.start_ticks;
	if (parent)
		*parent = seen.parent;
	return 0;
}

bool proc_alive(struct proc_id id)
{
	uint64_t start;
	return id.pid > 0 && !proc_stat(id.pid, &start, NULL) && start == id.start_ticks;
}

bool proc_gone(struct proc_id id)
{
	uint64_t start;
	if (id.pid <= 0)
		return true;
	if (!proc_stat(id.pid, &start, NULL))
		return start != id.start_ticks;
	return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
}

uid_t proc_uid(pid_t pid)
{
	char path[40];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &st) ? (uid_t)-1 : st.st_uid;
}

bool proc_catches(pid_t pid, int signal)
{
	char path[40];
	scoped_buf text = { 0 };
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (signal < 1 || signal > 64 || io_read_file(path, 65536, &text, NULL))
		return false;
	const char *line = strstr(buf_text(&text), "\nSigCgt:");
	return line && strtoull(line + strlen("\nSigCgt:"), NULL, 16) >> (signal - 1) & 1;
}

int proc_pidfd(pid_t pid)
{
	/* The C library's wrapper is younger than the oldest system we run on. */
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int proc_pidfd_signal(int fd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

int proc_signal(struct proc_id id, int signal)
{
	scoped_fd int fd = id.pid > 1 ? proc_pidfd(id.pid) : -1;
	return fd >= 0 && proc_alive(id) ? proc_pidfd_signal(fd, signal) : -1;
}

int proc_environ(pid_t pid, const char *name, char *value, size_t size)
{
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	scoped_buf env = { 0 };
	if (io_read_file(path, 4 << 20, &env, NULL) || !env.len)
		return -1;
	size_t len = strlen(name);
	for (const char *p = env.data, *end = env.data + env.len; p < end; p += strlen(p) + 1)
		if (!strncmp(p, name, len) && p[len] == '=')
			return (size_t)snprintf(value, size, "%s", p + len + 1) < size ? 0 : -1;
	return -1;
}

int proc_boot(struct buf *out)
{
	return io_read_file("/proc/sys/kernel/random/boot_id", 64, out, NULL);
}

bool proc_descends(pid_t pid, pid_t ancestor)
{
	for (int depth = 0; depth < 64 && pid > 1; depth++) {
		if (pid == ancestor)
			return true;
		uint64_t start;
		if (proc_stat(pid, &start, &pid))
			return false;
	}
	return false;
}
