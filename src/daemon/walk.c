/* SPDX-License-Identifier: MIT
 * Long lists in pieces: see walk.h. Ids are kept, not tasks: a task may end, and be freed, between two pieces. So a list is not
 * of one moment; each line of it is true when it is written, which is all that `rad queue` can promise of a living queue.
 */
#include "daemon/walk.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/listing.h"
#include "daemon/now.h"

#include <stdlib.h>
#include <string.h>

struct walk {
	struct core *core;
	struct store *store;	/* NULL: of the living only */
	task_id *ids;		/* of tasks, and of whole jobs, which are looked into when it is their turn */
	size_t n, cap, at;
	struct walk *inside;	/* of the job at ids[at - 1]; NULL: none */
	json_t *members;	/* that are told of each task; NULL: all */
	struct task_wants wants;	/* of these */
	const char *extra;	/* a member that some have more, as `extras` has it by their ids */
	json_t *extras;		/* NULL: none has */
	struct listing list;
	bool fold;
	struct walk_fold {		/* of the array that is being folded */
		json_t *told;		/* its first element; NULL: there is none */
		task_id first;
		enum task_state state;
		int64_t priority;
		const char *reason;	/* a word that stays */
		char *name;
		int *indices;
		size_t n, cap;
	} open;
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

/* ---- arrays as one task ---- */

static int compare_indices(const void *a, const void *b)
{
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* What was folded is whole. An element that made place comes behind the others in the queue, and is told in its place. */
static void walk_close_fold(struct walk *w)
{
	struct walk_fold *f = &w->open;
	scoped_buf text = { 0 };
	if (!f->told)
		return;
	qsort(f->indices, f->n, sizeof *f->indices, compare_indices);
	for (size_t i = 0, k; i < f->n; i = k) {
		for (k = i + 1; k < f->n && f->indices[k] == f->indices[k - 1] + 1; k++)
			;
		buf_printf(&text, "%s%d", i ? "," : "", f->indices[i]);
		if (k - i > 1)
			buf_printf(&text, "-%d", f->indices[k - 1]);
	}
	if (f->n > 1) {
		char id[TASK_ID_TEXT];
		json_object_set_new(f->told, "id", json_text(task_id_text(TASK_ID(TASK_JOB(f->first), f->indices[0]), id)));
		json_object_set_new(f->told, "elements", json_text(buf_text(&text)));
		json_object_set_new(f->told, "count", json_integer((json_int_t)f->n));
	}
	listing_add(&w->list, f->told);
	f->told = NULL;
	free(f->name);
	f->name = NULL;
}

/* Whether a table would show it as the same line as the one before it, but for its index. Those that run have GPUs and times of
 * their own. */
static bool walk_folds(const struct walk *w, const struct task *t, const char *reason)
{
	const struct walk_fold *f = &w->open;
	return f->told && TASK_JOB(t->id) == TASK_JOB(f->first) && t->state == f->state && t->priority == f->priority &&
	       f->reason && reason && !strcmp(f->reason, reason) && !strcmp(task_name(t), f->name);
}

static void walk_add_index(struct walk_fold *f, task_id id)
{
	alloc_grow(f->indices, f->n, f->cap);
	f->indices[f->n++] = TASK_INDEX(id);
}

/* `told` is taken over. */
static void walk_open_fold(struct walk *w, const struct task *t, const char *reason, json_t *told)
{
	struct walk_fold *f = &w->open;
	walk_close_fold(w);
	if (TASK_INDEX(t->id) < 0 || (t->state != TASK_PENDING && t->state != TASK_HELD)) {
		listing_add(&w->list, told);
		return;
	}
	f->told = told;
	f->first = t->id;
	f->state = t->state;
	f->priority = t->priority;
	f->reason = reason;
	f->name = alloc_string(task_name(t));
	f->n = 0;
	walk_add_index(f, t->id);
}

void walk_fold(struct walk *w)
{
	w->fold = true;
}

/* ---- the walk ---- */

void walk_destroy(struct walk *w)
{
	if (!w)
		return;
	walk_destroy(w->inside);
	listing_clear(&w->list);
	json_decref(w->members);
	json_decref(w->extras);
	json_decref(w->open.told);
	free(w->open.name);
	free(w->open.indices);
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
	if (!*n && store_states(store, id, walk_count_one, n, err))
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
	if (store_states(w->store, id, walk_add_one, w->inside, err))
		return -1;
	return w->inside->n ? 0 : error_set(err, ERR_NOT_FOUND, "task %s: there is none", task_id_text(id, text));
}

/* The next task; 0: there is none, *err when that is for a failure. A job's elements are looked up when it is their turn and
 * not before, so that of thousands of jobs those of one lie in memory. */
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

/* Takes over `members`. */
void walk_only(struct walk *w, json_t *members)
{
	json_decref(w->members);
	w->members = members;
	w->wants = task_wants_of(members);
}

void walk_add_member(struct walk *w, const char *name, json_t *by_id)
{
	w->extra = name;
	w->extras = by_id;
}

/* `told` is taken over, and given. */
static json_t *walk_extend(const struct walk *w, json_t *told)
{
	json_t *value = json_object_get(w->extras, json_string_value(json_object_get(told, "id")));
	if (value)
		json_object_set(told, w->extra, value);
	return told;
}

/* One of the living that has ended meanwhile is no task of the queue any more; one that was asked for by its id has to
 * come. */
static int walk_tell(struct walk *w, task_id id, struct error *err)
{
	const struct task *t = core_task(w->core, id);
	struct task *old = t || !w->store ? NULL : store_load_ended(w->store, id, err);
	const struct task_wants *wants = w->members ? &w->wants : NULL;
	struct now now = now_read();
	const char *reason = w->fold && t ? core_task_reason(w->core, t, now) : NULL;
	if (w->fold && t && walk_folds(w, t, reason))
		walk_add_index(&w->open, t->id);
	else if (w->fold && t)
		walk_open_fold(w, t, reason, listing_pick(w->members, core_task_json(w->core, t, now, wants)));
	else if (t || old)
		listing_add(&w->list, listing_pick(w->members, walk_extend(w, core_task_json(w->core, t ? t : old, now, wants))));
	task_destroy(old);
	return t || old || !w->store ? 0 : -1;
}

/* At least one task a piece, so that a list of slow ones comes to its end. */
int walk_step(struct walk *w, int64_t until_us, struct error *err)
{
	while (!w->list.truncated) {
		struct error why = ERROR_INIT;
		task_id id = walk_next(w, &why);
		if (why.code || (id && walk_tell(w, id, &why)))
			return error_pass(err, &why);
		if (!id)
			break;
		if (clock_mono_us() >= until_us)
			return 0;
	}
	return 1;
}

size_t walk_bytes(const struct walk *w)
{
	return w ? w->list.text.cap + w->cap * sizeof *w->ids + walk_bytes(w->inside) : 0;
}

struct buf walk_finish(struct walk *w)
{
	walk_close_fold(w);
	return listing_finish(&w->list, NULL);
}
