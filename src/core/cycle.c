/* SPDX-License-Identifier: MIT
 * See cycle.h. A walk along dependencies from what the tasks are to wait for, which ends where it meets one of them. It goes
 * through tasks that wait and jobs that have such elements: what runs or has ended waits for nothing any more.
 */
#include "core/cycle.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/scope.h"

#include <stdlib.h>

#define MOST 1000000

struct cycle_step { task_id task, from; };

struct cycle_walk {
	const struct tasks *ts;
	struct idmap changed, seen;	/* tasks; tasks and jobs */
	struct idmap specs;		/* whose elements wait as one, and were followed */
	struct cycle_step *steps;
	size_t n, cap, n_deps;		/* n_deps: that were looked at */
};

static void *const there = (void *)1;

/* Returns whether the ring is closed. */
static bool walk_to(struct cycle_walk *w, task_id id, task_id from)
{
	if (!idmap_get(&w->seen, id)) {
		idmap_put(&w->seen, id, there);
		alloc_grow(w->steps, w->n, w->cap);
		w->steps[w->n++] = (struct cycle_step){ id, from };
	}
	return idmap_get(&w->changed, id);
}

static bool walk_deps(struct cycle_walk *w, task_id id, const struct dependency *deps, size_t n, task_id from, task_id *met)
{
	for (size_t i = 0; i < n; i++)
		if (walk_to(w, *met = task_dependency_target(id, &deps[i]), from))
			return true;
	return false;
}

/* From a job to its elements, in whose name they are waited for; from a task to what it waits for. */
static bool walk_on(struct cycle_walk *w, struct cycle_step at, task_id *met)
{
	scoped_free task_id *elements = NULL;
	const struct task *t = tasks_find(w->ts, at.task);
	size_t n = t || TASK_INDEX(at.task) >= 0 ? 0 : tasks_of_job(w->ts, TASK_JOB(at.task), &elements);
	for (size_t i = 0; i < n; i++)
		if (walk_to(w, *met = elements[i], at.from))
			return true;
	if (!t || !t->waiting_for_deps || t->retrying)
		return false;
	const struct dependency *deps = task_deps(t, &n);
	int64_t shared = (int64_t)(intptr_t)t->spec;
	if (!task_waits_alone(t) && idmap_get(&w->specs, shared))
		return false;
	if (!task_waits_alone(t))
		idmap_put(&w->specs, shared, there);
	w->n_deps += n;
	return walk_deps(w, t->id, deps, n, t->id, met);
}

enum cycle_found cycle_find(const struct tasks *ts, const task_id *ids, size_t n, const struct dependency *deps, size_t n_deps,
		struct cycle *out)
{
	struct cycle_walk w = { .ts = ts };
	bool found = false;
	const struct task *t;
	for (size_t i = 0; i < n; i++)
		if ((t = tasks_find(ts, ids[i])) && t->state != TASK_RUNNING)
			idmap_put(&w.changed, ids[i], there);
	for (size_t i = 0; i < n && !found; i++)
		if (idmap_get(&w.changed, ids[i]))
			found = walk_deps(&w, ids[i], deps, n_deps, 0, &out->of);
	out->by = 0;
	for (size_t at = 0; at < w.n && !found && w.n_deps < MOST; at++) {
		const struct cycle_step s = w.steps[at];
		found = walk_on(&w, s, &out->of);
		out->by = tasks_find(ts, s.task) ? s.task : s.from;
	}
	idmap_free(&w.changed);
	idmap_free(&w.seen);
	idmap_free(&w.specs);
	free(w.steps);
	return found ? CYCLE_CLOSED : w.n_deps < MOST ? CYCLE_NONE : CYCLE_TOO_MANY;
}
