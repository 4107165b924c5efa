/* SPDX-License-Identifier: MIT
 * Reading /proc: identity, parents, environment.
 */
#include "base/proc.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int proc_stat(pid_t pid, uint64_t *start_ticks, pid_t *parent)
{
	char path[40], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : io_read_full(fd, text, sizeof text - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	/* The command name may hold anything, parentheses too: what counts begins after the last ')'. */
	const char *p = strrchr(text, ')');
	char state;
	int ppid;
	unsigned long long start;
	if (!p || sscanf(p + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			 &state, &ppid, &start) != 3)
		return -1;
	if (state == 'Z' || state == 'X')
		return -1;
	*start_ticks = start;
	if (parent)
		*parent = ppid;
	return 0;
}

bool proc_alive(struct proc_id id)
{
	uint64_t start;
	return id.pid > 0 && !proc_stat(id.pid, &start, NULL) && start == id.start_ticks;
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

struct parentage { pid_t pid, parent; };

static size_t read_all(struct parentage **all)
{
	scoped_dir DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t n = 0, cap = 0;
	*all = NULL;
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		struct parentage one = { .pid = atoi(entry->d_name) };
		uint64_t start;
		if (proc_stat(one.pid, &start, &one.parent))
			continue;
		alloc_grow(*all, n, cap);
		(*all)[n++] = one;
	}
	return n;
}

size_t proc_descendants(pid_t ancestor, pid_t **pids)
{
	scoped_free struct parentage *all = NULL;
	size_t n = read_all(&all), found = 0, cap = 0;
	*pids = NULL;
	/* Breadth first: `next` walks the ones found; each round adds the children of one. */
	for (size_t next = 0; next <= found; next++) {
		pid_t of = next ? (*pids)[next - 1] : ancestor;
		for (size_t i = 0; i < n; i++) {
			if (all[i].parent != of)
				continue;
			alloc_grow(*pids, found, cap);
			(*pids)[found++] = all[i].pid;
		}
	}
	return found;
}
