/* SPDX-License-Identifier: MIT
 * Long lists in pieces: see walk.h. Ids are kept, not tasks: a task may end, and be freed, between two pieces. So a list is not
 * of one moment; each line of it is true when it is written, which is all that `rad queue` can promise of a living queue.
 */
#include "daemon/walk.h"

#include "base/alloc.h"
#include "daemon/listing.h"
#include "daemon/now.h"

#include <stdlib.h>

struct walk {
	struct core *core;
	struct store *store;	/* NULL: of the living only */
	task_id *ids;		/* of tasks, and of whole jobs, which are looked into when it is their turn */
	size_t n, cap, at;
	struct walk *inside;	/* of the job at ids[at - 1]; NULL: none */
	json_t *members;	/* that are told of each task; NULL: all */
	struct listing list;
};

static int walk_add_one(void *ctx, task_id id, enum task_state state)
{
	struct walk *w = ctx;
	(void)state;
	alloc_grow(w->ids, w->n, w->cap);
	w->ids[w->n++] = id;
	return 0;
}

static void walk_add_living(void *ctx, const struct task *t)
{
	walk_add_one(ctx, t->id, t->state);
}

struct walk *walk_living(struct core *core)
{
	struct walk *w = walk_create(core, NULL);
	core_each_task(core, walk_add_living, w);
	return w;
}

struct walk *walk_create(struct core *core, struct store *store)
{
	struct walk *w = alloc_zero(sizeof *w);
	*w = (struct walk){ .core = core, .store = store };
	return w;
}

void walk_destroy(struct walk *w)
{
	if (!w)
		return;
	walk_destroy(w->inside);
	listing_clear(&w->list);
	json_decref(w->members);
	free(w->ids);
	free(w);
}

static int walk_count_one(void *ctx, task_id id, enum task_state state)
{
	(void)id, (void)state;
	++*(size_t *)ctx;
	return 0;
}

int walk_count(struct store *store, task_id id, size_t *n, struct error *err)
{
	char text[TASK_ID_TEXT];
	*n = TASK_INDEX(id) >= 0;
	if (!*n && store_job_states(store, TASK_JOB(id), walk_count_one, n, err))
		return -1;
	return *n ? 0 : error_set(err, ERR_NOT_FOUND, "task %s: there is none", task_id_text(id, text));
}

void walk_add(struct walk *w, task_id id)
{
	walk_add_one(w, id, TASK_PENDING);
}

/* The elements of a job, in a walk of their own. */
static int walk_enter(struct walk *w, task_id id, struct error *err)
{
	char text[TASK_ID_TEXT];
	w->inside = walk_create(w->core, w->store);
	if (store_job_states(w->store, TASK_JOB(id), walk_add_one, w->inside, err))
		return -1;
	return w->inside->n ? 0 : error_set(err, ERR_NOT_FOUND, "task %s: there is none", task_id_text(id, text));
}

/* The next task; 0: there is none, *err when that is for a failure. */
static task_id walk_next(struct walk *w, struct error *err)
{
	for (;;) {
		if (w->inside && w->inside->at < w->inside->n)
			return w->inside->ids[w->inside->at++];
		walk_destroy(w->inside);
		w->inside = NULL;
		if (w->at == w->n)
			return 0;
		task_id id = w->ids[w->at++];
		if (TASK_INDEX(id) >= 0 || !w->store || core_task(w->core, id))
			return id;
		if (walk_enter(w, id, err))
			return 0;
	}
}

void walk_only(struct walk *w, json_t *members)
{
	json_decref(w->members);
	w->members = members;
}

/* Takes over one reference, and gives one. */
static json_t *walk_pick(const struct walk *w, json_t *task)
{
	size_t i;
	json_t *name, *value, *some;
	if (!w->members)
		return task;
	some = json_object();
	json_array_foreach(w->members, i, name)
		if ((value = json_object_get(task, json_string_value(name))))
			json_object_set(some, json_string_value(name), value);
	json_decref(task);
	return some;
}

/* One of the living that has ended meanwhile is no task of the queue any more; one that was asked for by its id has to come. */
static int walk_tell(struct walk *w, task_id id, struct error *err)
{
	const struct task *t = core_task(w->core, id);
	struct task *old = t || !w->store ? NULL : store_load_task(w->store, id, err);
	if (t || old)
		listing_add(&w->list, walk_pick(w, core_task_json(w->core, t ? t : old, now_read())));
	task_destroy(old);
	return t || old || !w->store ? 0 : -1;
}

int walk_step(struct walk *w, int64_t until_us, struct error *err)
{
	while (!w->list.truncated) {
		struct error why = ERROR_INIT;
		task_id id = walk_next(w, &why);
		if (why.code || (id && walk_tell(w, id, &why))) {
			if (err)
				*err = why;
			return -1;
		}
		if (!id)
			break;
		if (clock_mono_us() >= until_us)
			return 0;
	}
	return 1;
}

struct buf walk_finish(struct walk *w)
{
	return listing_finish(&w->list, NULL);
}
