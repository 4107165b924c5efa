/* SPDX-License-Identifier: MIT
 * Processes of an attempt: see processes.h. Three ways to find them, since each misses some: descent ends where a parent died,
 * a cgroup may not be there, and a program can begin a session of its own. What any of them finds is the attempt's.
 */
#include "launch/processes.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "launch/cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void family_cgroup_name(const char *label, struct proc_id shim, char *name, size_t size)
{
	snprintf(name, size, "rad-%.80s-%d-%llu", label, (int)shim.pid, (unsigned long long)shim.start_ticks);
}

void family_of(struct proc_id shim, const char *label, struct family *f)
{
	char name[128];
	family_cgroup_name(label, shim, name, sizeof name);
	f->shim = shim;
	/* The shim stands where the daemon stood when it started it. */
	if (cgroup_path(proc_alive(shim) ? shim.pid : getpid(), name, f->cgroup) || access(f->cgroup, F_OK))
		f->cgroup[0] = 0;
}

/* A pid is not given out again while a session bears it, so a dead leader still names its session: unless the session
 * ended and another process has the pid now. */
static bool session_is_ours(const struct family *f)
{
	uint64_t start;
	return f->shim.pid > 1 && (proc_stat(f->shim.pid, &start, NULL) || start == f->shim.start_ticks);
}

static bool in_session(const struct family *f, pid_t pid)
{
	uint64_t start;
	return getsid(pid) == f->shim.pid && !proc_stat(pid, &start, NULL) && start >= f->shim.start_ticks;
}

struct pid_list { pid_t *pids; size_t n, cap; };

static void list_add(struct pid_list *l, pid_t pid)
{
	alloc_grow(l->pids, l->n, l->cap);
	l->pids[l->n++] = pid;
}

static void add_session(const struct family *f, struct pid_list *l)
{
	scoped_dir DIR *dir = opendir("/proc");
	const struct dirent *entry;
	if (!session_is_ours(f))
		return;
	while (dir && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		if (pid > 1 && in_session(f, pid))
			list_add(l, pid);
	}
}

/* For dropping what two ways found. */
static int by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
	return (x > y) - (x < y);
}

size_t family_list(const struct family *f, pid_t **pids)
{
	struct pid_list l = { 0 };
	scoped_free pid_t *some = NULL, *others = NULL;
	size_t n = proc_alive(f->shim) ? proc_descendants(f->shim.pid, &some) : 0;
	for (size_t i = 0; i < n; i++)
		list_add(&l, some[i]);
	n = f->cgroup[0] ? cgroup_members(f->cgroup, &others) : 0;
	for (size_t i = 0; i < n; i++)
		list_add(&l, others[i]);
	add_session(f, &l);
	if (l.n)
		qsort(l.pids, l.n, sizeof *l.pids, by_pid);
	size_t kept = 0;
	for (size_t i = 0; i < l.n; i++)
		if ((!kept || l.pids[i] != l.pids[kept - 1]) && l.pids[i] != f->shim.pid && l.pids[i] != getpid())
			l.pids[kept++] = l.pids[i];
	*pids = l.pids;
	return kept;
}

static bool is_member(const struct family *f, pid_t pid)
{
	return (proc_alive(f->shim) && proc_descends(pid, f->shim.pid)) || (session_is_ours(f) && in_session(f, pid)) ||
	       (f->cgroup[0] && cgroup_holds(f->cgroup, pid));
}

int family_signal(const struct family *f, pid_t pid, int signal)
{
	if (pid <= 1 || pid == getpid() || pid == f->shim.pid)
		return -1;
	scoped_fd int fd = proc_pidfd(pid);
	if (fd < 0 || !is_member(f, pid))
		return -1;
	return proc_pidfd_signal(fd, signal);
}
