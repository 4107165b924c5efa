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
	task_id *ids;
	size_t n, cap, at;
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
	listing_clear(&w->list);
	json_decref(w->members);
	free(w->ids);
	free(w);
}

int walk_add(struct walk *w, task_id id, struct error *err)
{
	char text[TASK_ID_TEXT];
	size_t before = w->n;
	if (TASK_INDEX(id) >= 0)
		return walk_add_one(w, id, TASK_PENDING);
	if (store_job_states(w->store, TASK_JOB(id), walk_add_one, w, err))
		return -1;
	return w->n > before ? 0 : error_set(err, ERR_NOT_FOUND, "task %s: there is none", task_id_text(id, text));
}

size_t walk_count(const struct walk *w)
{
	return w->n;
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
	while (w->at < w->n && !w->list.truncated) {
		if (walk_tell(w, w->ids[w->at++], err))
			return -1;
		if (clock_mono_us() >= until_us)
			break;
	}
	return w->at == w->n || w->list.truncated;
}

struct buf walk_finish(struct walk *w)
{
	return listing_finish(&w->list, NULL);
}
