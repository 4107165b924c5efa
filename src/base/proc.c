/* SPDX-License-Identifier: MIT
 * Reading /proc: identity, parents, environment.
 */
#include "base/proc.h"

#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define STATUS_MAX ((size_t)1 << 20)	/* with room for somebody in thousands of groups */

/* Fields 3, 4, 6, 14 to 17, 20, 22 and 24. The command name may hold anything, parentheses too: what counts begins after the
 * last ')'. */
bool proc_parse_stat(const char *text, struct proc_figures *f)
{
	unsigned long long ticks[4], start, pages;
	const char *p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %ld %*d %llu %*u %llu",
			 &f->state, &f->parent, &f->session, &ticks[0], &ticks[1], &ticks[2], &ticks[3], &f->threads, &start,
			 &pages) != 10)
		return false;
	f->cpu_ticks = ticks[0] + ticks[1] + ticks[2] + ticks[3];
	f->start_ticks = start;
	f->rss_pages = pages;
	return true;
}

ssize_t proc_read(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	return n;
}

int proc_see(pid_t pid, struct proc_seen *seen)
{
	char text[1024];
	struct proc_figures f;
	if (proc_read(pid, "stat", text, sizeof text) < 0)
		return -1;
	errno = ESRCH;
	if (!proc_parse_stat(text, &f) || f.state == 'X' || (f.state == 'Z' && f.threads <= 1))
		return -1;
	*seen = (struct proc_seen){ { pid, f.start_ticks }, f.parent, f.session };
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

/* What stands behind that name, which a line begins with. In a program's name the kernel writes a line break as two letters. */
static const char *line_of(const char *text, const char *name)
{
	const char *line = text;
	size_t n = strlen(name);
	while (line && strncmp(line, name, n))
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
	return line ? line + n : NULL;
}

bool proc_parse_owned(const char *text, uid_t uid)
{
	unsigned u[4];
	const char *line = line_of(text, "Uid:");
	return line && sscanf(line, "%u %u %u %u", &u[0], &u[1], &u[2], &u[3]) == 4 && u[0] == uid && u[1] == uid && u[2] == uid &&
	       u[3] == uid;
}

bool proc_parse_catches(const char *text, int signal)
{
	const char *line = line_of(text, "SigCgt:");
	return signal >= 1 && signal <= 64 && line && strtoull(line, NULL, 16) >> (signal - 1) & 1;
}

static int read_status(pid_t pid, struct buf *text)
{
	char path[40];
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	return io_read_file(path, STATUS_MAX, text, NULL);
}

bool proc_owned(pid_t pid, uid_t uid)
{
	scoped_buf text = { 0 };
	return !read_status(pid, &text) && proc_parse_owned(buf_text(&text), uid);
}

bool proc_catches(pid_t pid, int signal)
{
	scoped_buf text = { 0 };
	return !read_status(pid, &text) && proc_parse_catches(buf_text(&text), signal);
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
