/* SPDX-License-Identifier: MIT
 * Processes of an attempt: see processes.h. Three ways to find them, since each misses some: descent ends where a parent died,
 * a cgroup may not be there, and a program can begin a session of its own. What any of them finds is the attempt's.
 */
#include "launch/processes.h"

#include "base/alloc.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "launch/cgroup.h"

#include <stdio.h>
#include <stdlib.h>

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

static bool in_session(const struct family *f, const struct proc_seen *p)
{
	return p->session == f->shim.pid && p->id.start_ticks >= f->shim.start_ticks;
}

/* Its members at one look. */
struct family_look {
	struct proc_tree tree;
	bool shim, session;	/* the shim was alive after the look; its session its own */
	struct proc_node **list;
	size_t n, cap;
};

static void look_add(const struct family *f, struct family_look *l, struct proc_node *p)
{
	if (!p || p->taken || p->seen.id.pid <= 1 || p->seen.id.pid == f->shim.pid || p->seen.id.pid == getpid())
		return;
	p->taken = true;
	alloc_grow(l->list, l->n, l->cap);
	l->list[l->n++] = p;
}

/* Who descends from the shim comes first, and after its parent. */
static void look_begin(const struct family *f, struct family_look *l)
{
	scoped_free struct proc_node **below = NULL;
	scoped_free pid_t *pids = NULL;
	*l = (struct family_look){ 0 };
	proc_tree_read(&l->tree);
	l->shim = proc_alive(f->shim);
	l->session = session_is_ours(f);
	size_t n = l->shim ? proc_tree_below(&l->tree, f->shim.pid, &below) : 0;
	for (size_t i = 0; i < n; i++)
		look_add(f, l, below[i]);
	n = f->cgroup[0] ? cgroup_members(f->cgroup, &pids) : 0;
	for (size_t i = 0; i < n; i++)
		look_add(f, l, proc_tree_find(&l->tree, pids[i]));
	for (size_t i = 0; l->session && i < l->tree.n; i++)
		if (in_session(f, &l->tree.all[i].seen))
			look_add(f, l, &l->tree.all[i]);
}

static void look_end(struct family_look *l)
{
	proc_tree_free(&l->tree);
	free(l->list);
}

size_t family_list(const struct family *f, pid_t **pids)
{
	struct family_look l;
	look_begin(f, &l);
	*pids = alloc_zero((l.n + 1) * sizeof **pids);
	for (size_t i = 0; i < l.n; i++)
		(*pids)[i] = l.list[i]->seen.id.pid;
	look_end(&l);
	return l.n;
}

static bool is_member(const struct family *f, const struct family_look *l, struct proc_node *p)
{
	struct proc_seen now;
	pid_t pid = p->seen.id.pid;
	return (l->shim && proc_tree_confirm(&l->tree, p, f->shim)) || (l->session && !proc_see(pid, &now) && in_session(f, &now)) ||
	       (f->cgroup[0] && cgroup_holds(f->cgroup, pid));
}

int family_signal(const struct family *f, int signal, bool handled)
{
	struct family_look l;
	int got = 0;
	look_begin(f, &l);
	for (size_t i = 0; i < l.n; i++) {
		pid_t pid = l.list[i]->seen.id.pid;
		scoped_fd int fd = proc_pidfd(pid);
		if (fd >= 0 && is_member(f, &l, l.list[i]) && (!handled || proc_catches(pid, signal)))
			got += !proc_pidfd_signal(fd, signal);
	}
	look_end(&l);
	return got;
}
