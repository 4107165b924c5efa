/* SPDX-License-Identifier: MIT
 *
 * A graph of two kinds of nodes: targets (what is waited for) and groups (who waits: the tasks of one spec), joined by one edge
 * a dependency. Each group counts its edges that are open and those that can never be met, so that news of a target costs its
 * own edges and no look at anybody else: an array of a thousand on which nine thousand tasks depend ends in as many steps.
 *
 * A target is looked up when its first edge comes and forgotten with its last. The last group that was joined stays while it is
 * empty, because the elements of an array whose dependencies are met come and go one after another.
 */
#include "queue/waiting.h"

#include "base/alloc.h"
#include "base/idmap.h"

#include <stdlib.h>
#include <string.h>

struct awaited {
	task_id id;
	bool exists;
	enum task_state state;
	struct edge *edges;
	size_t n_after;		/* of its edges wait for its start */
};

/* In the list of its target; its place in group.edges is the dependency's place in the spec. */
struct edge {
	struct group *group;
	struct awaited *target;
	struct edge *before, *after;
};

struct group {
	int64_t key;
	struct spec *spec;	/* one reference */
	struct dependency *own;	/* of a task of which they were changed; NULL: the spec's are what is waited for */
	const struct dependency *deps;
	size_t n_deps;
	size_t open, never;	/* how many edges are */
	size_t from;		/* no edge before this place is open */
	task_id *tasks;		/* who joined, in order; those who left stay in the list */
	size_t n, cap;
	size_t n_waiting;	/* how many have not left */
	bool listed;	/* they wait in vain, and stand in waiting.vain */
	struct edge edges[];
};

struct waiting {
	waiting_state_of state_of;
	void *ctx;
	struct idmap targets;	/* id -> struct awaited */
	struct idmap groups;	/* address of the spec -> struct group */
	struct idmap members;	/* id of a waiting task -> struct group */
	struct group *last;	/* joined last; may be empty */
	task_id *vain;	/* who began to wait in vain since it was asked; may have left */
	size_t n_vain, cap_vain;
};

static enum dependency_kind edge_kind(const struct edge *e)
{
	return e->group->deps[e - e->group->edges].kind;
}

static int edge_is(const struct edge *e)
{
	const struct awaited *t = e->target;
	if (!t->exists)
		return WAITING_NEVER;
	if (edge_kind(e) == DEP_AFTER)
		return t->state == TASK_PENDING || t->state == TASK_HELD ? WAITING_OPEN : WAITING_MET;
	if (!task_state_terminal(t->state))
		return WAITING_OPEN;
	switch (edge_kind(e)) {
	case DEP_AFTER: case DEP_AFTERANY: return WAITING_MET;
	case DEP_AFTEROK: case DEP_AFTERCORR: return t->state == TASK_COMPLETED ? WAITING_MET : WAITING_NEVER;
	case DEP_AFTERNOTOK: return t->state == TASK_COMPLETED ? WAITING_NEVER : WAITING_MET;
	case DEPENDENCY_KIND_COUNT: break;
	}
	return WAITING_NEVER;
}

static int group_is(const struct group *g)
{
	return g->never ? WAITING_NEVER : g->open ? WAITING_OPEN : WAITING_MET;
}

static void group_count(struct group *g, const struct edge *e, int by)
{
	int is = edge_is(e);
	if (is == WAITING_OPEN && (size_t)(e - g->edges) < g->from)
		g->from = (size_t)(e - g->edges);
	g->open += (size_t)(is == WAITING_OPEN ? by : 0);
	g->never += (size_t)(is == WAITING_NEVER ? by : 0);
}

static struct awaited *target_of(struct waiting *w, task_id id)
{
	struct awaited *t = idmap_get(&w->targets, id);
	if (t)
		return t;
	t = alloc_zero(sizeof *t);
	t->id = id;
	t->exists = w->state_of(id, &t->state, w->ctx);
	idmap_put(&w->targets, id, t);
	return t;
}

static void edge_link(struct waiting *w, struct group *g, struct edge *e, task_id id)
{
	e->group = g;
	e->target = target_of(w, id);
	e->after = e->target->edges;
	if (e->after)
		e->after->before = e;
	e->target->edges = e;
	e->target->n_after += edge_kind(e) == DEP_AFTER;
	group_count(g, e, 1);
}

static void edge_unlink(struct waiting *w, struct edge *e)
{
	if (e->before)
		e->before->after = e->after;
	else
		e->target->edges = e->after;
	if (e->after)
		e->after->before = e->before;
	e->target->n_after -= edge_kind(e) == DEP_AFTER;
	if (!e->target->edges)
		free(idmap_remove(&w->targets, e->target->id));
}

/* Elements of an array wait as one, unless each waits for another element, or for what was said of it alone. */
static int64_t key_of(const struct task *t)
{
	return task_waits_alone(t) ? -t->id : (int64_t)(uintptr_t)t->spec;
}

static void group_free(struct group *g)
{
	spec_unref(g->spec);
	free(g->own);
	free(g->tasks);
	free(g);
}

static void group_destroy(struct waiting *w, struct group *g)
{
	for (size_t i = 0; i < g->n_deps; i++)
		edge_unlink(w, &g->edges[i]);
	idmap_remove(&w->groups, g->key);
	group_free(g);
}

static struct group *group_of(struct waiting *w, const struct task *t)
{
	size_t n;
	const struct dependency *deps = task_deps(t, &n);
	struct group *g = idmap_get(&w->groups, key_of(t));
	if (g)
		return g;
	g = alloc_zero(sizeof *g + n * sizeof *g->edges);
	g->key = key_of(t);
	g->spec = spec_ref(t->spec);
	g->deps = deps;
	g->n_deps = n;
	if (t->deps)
		g->deps = g->own = memcpy(alloc_zero((n + 1) * sizeof *deps), deps, n * sizeof *deps);
	for (size_t i = 0; i < n; i++)
		edge_link(w, g, &g->edges[i], task_dependency_target(t->id, &g->deps[i]));
	idmap_put(&w->groups, g->key, g);
	return g;
}

struct waiting *waiting_create(waiting_state_of state_of, void *ctx)
{
	struct waiting *w = alloc_zero(sizeof *w);
	w->state_of = state_of;
	w->ctx = ctx;
	return w;
}

/* All of it goes, so nothing is taken off one by one. */
void waiting_destroy(struct waiting *w)
{
	size_t at = 0;
	if (!w)
		return;
	for (struct group *g; (g = idmap_next(&w->groups, &at));)
		group_free(g);
	idmap_free_all(&w->targets);
	idmap_free(&w->groups);
	idmap_free(&w->members);
	free(w->vain);
	free(w);
}

static void note_vain(struct waiting *w, task_id id)
{
	alloc_grow(w->vain, w->n_vain, w->cap_vain);
	w->vain[w->n_vain++] = id;
}

int waiting_add(struct waiting *w, const struct task *t)
{
	struct group *g = group_of(w, t), *was = w->last;
	if (idmap_get(&w->members, t->id))
		return group_is(g);
	idmap_put(&w->members, t->id, g);
	alloc_grow(g->tasks, g->n, g->cap);
	g->tasks[g->n++] = t->id;
	g->n_waiting++;
	w->last = g;
	if (was && was != g && !was->n_waiting)
		group_destroy(w, was);
	if (group_is(g) == WAITING_NEVER)
		note_vain(w, t->id);
	return group_is(g);
}

void waiting_remove(struct waiting *w, const struct task *t)
{
	struct group *g = idmap_remove(&w->members, t->id);
	if (!g || --g->n_waiting)
		return;
	g->n = 0;
	if (g != w->last)
		group_destroy(w, g);
}

void waiting_forget(struct waiting *w, const struct task *t)
{
	waiting_remove(w, t);
	struct group *g = w->last;
	if (!g || g->n_waiting || g->key != key_of(t))
		return;
	w->last = NULL;
	group_destroy(w, g);
}

/* Those who left are no members any more; who left and came again stands in the list twice. */
static size_t list_members(const struct waiting *w, const struct group *g, task_id **ready, size_t n, size_t *cap)
{
	for (size_t i = 0; i < g->n; i++)
		if (idmap_get(&w->members, g->tasks[i]) == g) {
			alloc_grow(*ready, n, *cap);
			(*ready)[n++] = g->tasks[i];
		}
	return n;
}

static void list_vain(struct waiting *w, struct group *g)
{
	bool never = group_is(g) == WAITING_NEVER;
	for (size_t i = 0; i < g->n && never && !g->listed; i++)
		if (idmap_get(&w->members, g->tasks[i]) == g)
			note_vain(w, g->tasks[i]);
	g->listed = never;
}

size_t waiting_take_vain(struct waiting *w, task_id **ids)
{
	size_t n = task_ids_sort(w->vain, w->n_vain);
	*ids = w->vain;
	w->vain = NULL;
	w->n_vain = w->cap_vain = 0;
	return n;
}

void waiting_list_vain(struct waiting *w)
{
	size_t at = 0;
	for (struct group *g; (g = idmap_next(&w->groups, &at));) {
		g->listed = false;
		list_vain(w, g);
	}
}

size_t waiting_told(struct waiting *w, task_id id, const enum task_state *state, task_id **ready)
{
	struct awaited *t = idmap_get(&w->targets, id);
	size_t n = 0, cap = 0;
	*ready = NULL;
	if (!t)
		return 0;
	for (struct edge *e = t->edges; e; e = e->after)
		group_count(e->group, e, -1);
	if (state)
		t->exists = true, t->state = *state;
	else
		t->exists = w->state_of(id, &t->state, w->ctx);
	for (struct edge *e = t->edges; e; e = e->after)
		group_count(e->group, e, 1);
	for (struct edge *e = t->edges; e; e = e->after)
		list_vain(w, e->group);
	/* A group's edges of one target follow each other: those of who names it a thousand times, too. */
	for (struct edge *e = t->edges; e; e = e->after)
		if (group_is(e->group) == WAITING_MET && (!e->before || e->before->group != e->group))
			n = list_members(w, e->group, ready, n, &cap);
	return task_ids_sort(*ready, n);
}

bool waiting_for_start(const struct waiting *w, task_id id)
{
	const struct awaited *t = idmap_get(&w->targets, id);
	return t && t->n_after;
}

int waiting_is(const struct waiting *w, const struct task *t)
{
	const struct group *g = idmap_get(&w->members, t->id);
	return g ? group_is(g) : WAITING_MET;
}

const struct dependency *waiting_for(const struct waiting *w, const struct task *t, bool *never)
{
	struct group *g = idmap_get(&w->members, t->id);
	*never = g && g->never;
	if (!g || group_is(g) == WAITING_MET)
		return NULL;
	/* It is asked along chains, for each who waits for their end, after every turn. */
	size_t i = *never ? 0 : g->from;
	while (edge_is(&g->edges[i]) != group_is(g))
		i++;
	if (!*never)
		g->from = i;
	return &g->deps[i];
}

bool waiting_names(const struct waiting *w, task_id id)
{
	const struct awaited *targets[] = { idmap_get(&w->targets, id), idmap_get(&w->targets, TASK_ID(TASK_JOB(id), -1)) };
	for (size_t i = 0; i < 2; i++)
		for (const struct edge *e = targets[i] ? targets[i]->edges : NULL; e; e = e->after)
			if (e->group->n_waiting)
				return true;
	return false;
}
