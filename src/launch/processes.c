/* SPDX-License-Identifier: MIT
 * Processes of an attempt: see processes.h. Three ways to find them, since each misses some: descent ends where a parent died
 * (unless a shim lives, which gets the orphans), a cgroup may not be there, and a program can begin a session of its own. What
 * any of them finds is the attempt's.
 */
#include "launch/processes.h"

#include "base/alloc.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "launch/attempt.h"
#include "launch/cgroup.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 10	/* of a signal, to who forks on and on */

void family_cgroup_name(const char *label, struct proc_id shim, char *name, size_t size)
{
	snprintf(name, size, CGROUP_PREFIX "%.80s-%d-%llu", label, (int)shim.pid, (unsigned long long)shim.start_ticks);
}

void family_of(struct proc_id shim, int folder, struct family *f)
{
	scoped_free char *cgroup = NULL;
	attempt_cgroup(folder, &cgroup);
	f->shim = shim;
	f->keeps = true;
	snprintf(f->cgroup, sizeof f->cgroup, "%s", cgroup ? cgroup : "");
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
struct member { pid_t pid; struct proc_node *node; };	/* node NULL: made since, in the cgroup */

struct family_look {
	struct proc_tree tree;
	bool small;		/* only the family was read, which costs little */
	bool shim, session;	/* the shim was alive after the look; its session its own */
	struct member *list;
	size_t n, cap;
};

static void look_add(const struct family *f, struct family_look *l, pid_t pid, struct proc_node *node)
{
	if ((node && node->taken) || pid <= 1 || pid == f->shim.pid || pid == getpid())
		return;
	if (node)
		node->taken = true;
	alloc_grow(l->list, l->n, l->cap);
	l->list[l->n++] = (struct member){ pid, node };
}

static bool look_has(const struct family_look *l, pid_t pid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->list[i].pid == pid)
			return true;
	return false;
}

/* Some were made since the others were read. */
static void look_at_cgroup(const struct family *f, struct family_look *l)
{
	scoped_free pid_t *pids = NULL;
	size_t n = f->cgroup[0] ? cgroup_members(f->cgroup, &pids) : 0;
	for (size_t i = 0; i < n; i++) {
		struct proc_node *node = proc_tree_find(&l->tree, pids[i]);
		if (node || !look_has(l, pids[i]))
			look_add(f, l, pids[i], node);
	}
}

/* All processes of the machine are read only where its session must be searched. */
static void look_read(const struct family *f, struct family_look *l)
{
	*l = (struct family_look){ 0 };
	if (f->keeps && proc_alive(f->shim))
		l->small = proc_tree_read_below(&l->tree, f->shim.pid);
	l->shim = proc_alive(f->shim);
	if (l->small && !l->shim) {	/* it has just ended, and keeps nobody any more */
		proc_tree_free(&l->tree);
		l->small = false;
	}
	if (!l->tree.n)
		proc_tree_read(&l->tree);
	if (!l->small)
		l->session = session_is_ours(f);
}

/* Who descends from the shim comes first, and after its parent. */
static void look_begin(const struct family *f, struct family_look *l)
{
	scoped_free struct proc_node **below = NULL;
	look_read(f, l);
	size_t n = l->shim ? proc_tree_below(&l->tree, f->shim.pid, &below) : 0;
	for (size_t i = 0; i < n; i++)
		look_add(f, l, below[i]->seen.id.pid, below[i]);
	for (size_t i = 0; l->session && i < l->tree.n; i++)
		if (in_session(f, &l->tree.all[i].seen))
			look_add(f, l, l->tree.all[i].seen.id.pid, &l->tree.all[i]);
	look_at_cgroup(f, l);
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
		(*pids)[i] = l.list[i].pid;
	look_end(&l);
	return l.n;
}

static bool is_member(const struct family *f, const struct family_look *l, const struct member *m)
{
	struct proc_seen now;
	return (l->shim && m->node && proc_tree_confirm(&l->tree, m->node, f->shim)) ||
	       (l->session && !proc_see(m->pid, &now) && in_session(f, &now)) || (f->cgroup[0] && cgroup_holds(f->cgroup, m->pid));
}

static bool signal_member(const struct family *f, const struct family_look *l, const struct member *m, int signal, int handled)
{
	scoped_fd int fd = proc_pidfd(m->pid);
	return fd >= 0 && is_member(f, l, m) && (!handled || proc_catches(m->pid, handled)) && !proc_pidfd_signal(fd, signal);
}

static bool was_there(const struct family_look *before, const struct member *m)
{
	const struct proc_node *old = proc_tree_find(&before->tree, m->pid);
	if (!old || !m->node || old->seen.id.start_ticks != m->node->seen.id.start_ticks || !old->taken)
		return !old && look_has(before, m->pid);
	m->node->sure = old->sure;	/* it holds on */
	return true;
}

/* Those that were there at the look before stand first, each of them and of the others in the order of this look. Returns how
 * many these are. */
static size_t put_first(struct family_look *l, const struct family_look *before)
{
	struct member *list = alloc_zero((l->n + 1) * sizeof *list);
	size_t n = 0, first = 0;
	for (int others = 0; others < 2; others++) {
		first = others ? n : 0;
		for (size_t i = 0; i < l->n; i++)
			if (was_there(before, &l->list[i]) == !others)
				list[n++] = l->list[i];
	}
	free(l->list);
	l->list = list;
	l->cap = l->n + 1;
	return first;
}

/* Returns where those stand that are new. To read all processes again would cost too much: then only the cgroup tells. */
static size_t look_again(const struct family *f, struct family_look *l)
{
	struct family_look before = *l;
	if (!l->small) {
		look_at_cgroup(f, l);
		return before.n;
	}
	look_begin(f, l);
	size_t first = put_first(l, &before);
	look_end(&before);
	return first;
}

/* Who was made before his parent got the signal gets it in a further round. */
int family_signal(const struct family *f, int signal, int handled)
{
	struct family_look l;
	int got = 0, rounds = 0;
	size_t next = 0;
	look_begin(f, &l);
	do {
		for (; next < l.n; next++)
			got += signal_member(f, &l, &l.list[next], signal, handled);
		next = look_again(f, &l);
	} while (next < l.n && ++rounds < ROUNDS);
	look_end(&l);
	return got;
}
