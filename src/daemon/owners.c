/* SPDX-License-Identifier: MIT
 * Whose process is whose: see owners.h.
 *
 * The way up the parents costs a read of /proc for each step, so an answer is kept by pid and start time. "Somebody's" stays
 * true; "nobody's" may have been asked before the shim was known, so it is asked again after the next one is.
 */
#include "daemon/owners.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/proc.h"
#include "daemon/outsiders.h"
#include "daemon/sweeping.h"

#include <stdlib.h>

#define MAX_DEPTH 32	/* of parents between a process and its shim */

struct owned { uint64_t start_ticks; task_id owner; uint64_t generation; };

struct owners {
	const struct core *core;
	struct outsiders *outsiders;
	struct idmap shims;	/* pid of the shim -> its task, in place of a pointer */
	struct idmap known;	/* pid -> struct owned */
	uint64_t generation;	/* counts shims that came */
};

struct owners *owners_create(const struct core *core, struct outsiders *outsiders)
{
	struct owners *o = alloc_zero(sizeof *o);
	o->core = core;
	o->outsiders = outsiders;
	return o;
}

void owners_destroy(struct owners *o)
{
	if (!o)
		return;
	idmap_free_all(&o->known);
	idmap_free(&o->shims);
	free(o);
}

static task_id shim_of(const struct owners *o, pid_t pid)
{
	return (task_id)(uintptr_t)idmap_get(&o->shims, pid);
}

/* Whoever was nobody's may be its child: those answers are asked for again, which the number of the generation says without
 * a walk over all of them. */
void owners_shim(struct owners *o, pid_t shim, task_id task)
{
	idmap_put(&o->shims, shim, (void *)(uintptr_t)task);
	o->generation++;
}

/* Its pid may be the shim of another by now, which was heard of before the end of this one was. */
void owners_shim_gone(struct owners *o, pid_t shim, task_id task)
{
	if (shim_of(o, shim) == task)
		idmap_remove(&o->shims, shim);
}

void owners_let_go(struct owners *o, task_id task)
{
	size_t at = 0;
	for (struct owned *k; (k = idmap_next(&o->known, &at));)
		if (k->owner == task)
			k->owner = 0;
	o->generation++;
}

/* Up the parents to a shim of ours; else the task that the process names in its environment, if it has the attempt's token or
 * its user is the task's, and it is younger than the task's shim: the task of that id of another store may still have
 * processes. */
static task_id find(const struct owners *o, const struct sweeping *sweeping, const struct proc_reading *p)
{
	pid_t pid = p->id.pid, parent;
	uint64_t start;
	for (int depth = 0; depth < MAX_DEPTH && pid > 1; depth++, pid = parent) {
		task_id task = shim_of(o, pid);
		if (task)
			return task;
		if (proc_stat(pid, &start, &parent))
			break;
		if (sweeping_is_stray(sweeping, (struct proc_id){ pid, start }))
			return 0;
	}
	const struct task *t = p->claimed ? core_task(o->core, p->claimed) : NULL;
	struct proc_id shim = t && t->state == TASK_RUNNING ? task_attempt(t)->shim : (struct proc_id){ 0 };
	if (!shim.pid || p->id.start_ticks < shim.start_ticks)
		return 0;
	return outsiders_prove(o->outsiders, t, p) || t->spec->uid == p->uid ? t->id : 0;
}

/* Entries of processes that are gone stay until their pid comes again: no more than there are pids, and most of a server's
 * come back soon. */
task_id owners_of(struct owners *o, const struct sweeping *sweeping, const struct proc_reading *p)
{
	struct owned *k = idmap_get(&o->known, p->id.pid);
	if (k && k->start_ticks == p->id.start_ticks && (k->owner || k->generation == o->generation))
		return k->owner;
	if (!k)
		idmap_put(&o->known, p->id.pid, k = alloc_zero(sizeof *k));
	*k = (struct owned){ p->id.start_ticks, find(o, sweeping, p), o->generation };
	return k->owner;
}
