/* SPDX-License-Identifier: MIT
 * Who may, and whether there is room: asked by several operations before they do anything. A refusal names whose limit it is
 * and what to do, since whoever meets it cannot look into rad.conf.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/words.h"

#include <string.h>

#define MAX_CHANGES 1000	/* of one task by people */
#define MAX_IDS 10000		/* of one request */

int request_id(const struct message *m, task_id *id, struct error *err)
{
	const char *text = json_string_value(json_object_get(m->json, "id"));
	return text ? task_id_parse(text, id, err) : error_set(err, ERR_INVALID, "'id' must be a task id as text");
}

/* A list that is empty is refused and never taken for all there are: it is what a script passes whose search found nothing. */
size_t request_ids(const struct message *m, task_id **ids, struct error *err)
{
	const json_t *list = json_object_get(m->json, "ids");
	size_t n = json_array_size(list);
	*ids = NULL;
	if (list && (!n || n > MAX_IDS)) {
		error_set(err, ERR_INVALID, "'ids' must be a list of 1 to %d task ids", MAX_IDS);
		return 0;
	}
	*ids = alloc_zero((n + 1) * sizeof **ids);
	if (!list)
		return !request_id(m, *ids, err);
	for (size_t i = 0; i < n; i++)
		if (task_id_parse(json_string_value(json_array_get(list, i)), &(*ids)[i], err))
			return 0;
	return task_ids_sort(*ids, n);	/* one named twice would meet the second time what was done to it the first */
}

int request_need_owner(const struct message *m, const struct task *t, struct error *err)
{
	char id[TASK_ID_TEXT];
	if (request_is_admin(m->uid) || t->spec->uid == m->uid)
		return 0;
	return error_set(err, ERR_DENIED, "task %s: belongs to %s; only they and the administrator may do that",
			 task_id_text(t->id, id), t->spec->user);
}

/* By uid as the socket has it, never by a name or a group, which a slow or absent user database could leave open. */
int request_need_admin(const struct message *m, const char *what, struct error *err)
{
	if (request_is_admin(m->uid))
		return 0;
	return error_set(err, ERR_DENIED, "%s is for the administrator (root, or the user that radd runs as)", what);
}

int request_need_room(const struct requests *q, struct error *err)
{
	if (store_has_room(q->store))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "the disk of %s is full: nothing can be accepted until there is room", q->state_dir);
}

/* Every task costs everybody a line of `rad queue` and a look at each placement. */
int request_need_user_room(const struct requests *q, const struct message *m, uid_t uid, size_t more, struct error *err)
{
	size_t max = q->config->user_tasks, has = core_user_tasks(q->core, uid);
	if (!max || request_is_admin(m->uid) || has + more <= max)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "%zu more tasks: you have %zu unfinished ones, and a user may have %zu at a time "
			 "(user_tasks in rad.conf): wait for some to end, or cancel some", more, has, max);
}

/* Memory as `rad limit` shows it, but to the MiB where both would look alike. */
static void amounts_text(enum allowance_kind kind, uint64_t wanted, uint64_t most, char wants[32], char may[32])
{
	if (kind == ALLOWANCE_MEM && strcmp(units_format_mib((double)wanted, wants, 32), units_format_mib((double)most, may, 32)))
		return;
	snprintf(wants, 32, "%llu%s", (unsigned long long)wanted, kind == ALLOWANCE_MEM ? "M" : "");
	snprintf(may, 32, "%llu%s", (unsigned long long)most, kind == ALLOWANCE_MEM ? "M" : "");
}

/* One that he may never run would wait for ever. */
static int need_ever(const struct requests *q, uid_t uid, const struct spec *s, struct error *err)
{
	const struct allowance may = allowing_of(q->allowing, uid);
	const struct fair_taken none = { 0 }, one = { 1, s->gpus, s->gpu_mem_mib * s->gpus };
	bool never;
	enum allowance_kind kind = allowance_refuses(&may, &none, &one, &never);
	if (kind == ALLOWANCE_COUNT)
		return 0;
	char wants[32], most[32];
	amounts_text(kind, kind == ALLOWANCE_MEM ? one.mib : one.gpus, may.most[kind], wants, most);
	return error_set(err, ERR_DENIED, "the task asks for %s%s, and you may have %s at a time (%s: %s): ask for less, or the "
			 "administrator for more", wants, kind == ALLOWANCE_MEM ? " of GPU memory" : one.gpus == 1 ? " GPU" : " GPUs",
			 most, allowance_word(kind), allowing_source(q->allowing, uid, kind));
}

int request_need_allowance(const struct requests *q, const struct message *m, uid_t uid, size_t more, const struct spec *s,
			   struct error *err)
{
	size_t has = core_user_tasks(q->core, uid), most = allowing_of(q->allowing, uid).most[ALLOWANCE_QUEUED];
	if (most && !request_is_admin(m->uid) && has + more > most)
		return error_set(err, ERR_UNAVAILABLE, "%zu more task%s: you have %zu unfinished ones, and may have %zu (max_queued: %s): "
				 "wait for some to end, or cancel some", more, more == 1 ? "" : "s", has, most,
				 allowing_source(q->allowing, uid, ALLOWANCE_QUEUED));
	return s ? need_ever(q, uid, s, err) : 0;
}

/* Of what is unfinished: it is in our memory. What ended is in the store, which has a bound of its own (user_store). */
int request_need_size(const struct requests *q, const struct message *m, size_t more, struct error *err)
{
	size_t has = core_user_bytes(q->core, m->uid), max = (size_t)q->config->user_size_mib << 20;
	if (!max || request_is_admin(m->uid) || has + more <= max)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "%.1f MiB more: what you submitted for unfinished tasks takes %.1f MiB, and may take "
			 "%llu (user_size in rad.conf): wait for some to end, or submit an array, which is stored once", (double)more / MIB,
			 (double)has / MIB, (unsigned long long)q->config->user_size_mib);
}

/* Bytes as time in a leaky bucket: what a day allows refills evenly, and a burst of all of it is allowed. */
int request_need_store(const struct requests *q, const struct message *m, struct error *err)
{
	int64_t rest = q->config->user_store_mib && !request_is_admin(m->uid) ?
		       usages_rest_us(q->stored, m->uid, clock_mono_us()) : 0;
	if (!rest)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "your submissions and changes filled what a user may add to the store in a day, %llu "
			 "MiB (user_store in rad.conf): try again in %lld s", (unsigned long long)q->config->user_store_mib,
			 (long long)(rest / 1000000 + 1));
}

void request_spend_store(const struct requests *q, const struct message *m, size_t bytes)
{
	double day = (double)q->config->user_store_mib * MIB;
	if (day > 0 && !request_is_admin(m->uid))
		usages_spend(q->stored, m->uid, (int64_t)((double)bytes / day * STORED_BURST_US) + 1, clock_mono_us());
}

int request_need_changes(const struct task *t, struct error *err)
{
	char id[TASK_ID_TEXT];
	if (!t || t->n_changes < MAX_CHANGES)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "task %s: was changed %u times, which is all that is kept of one task: cancel it "
			 "and submit it anew", task_id_text(t->id, id), t->n_changes);
}

/* It goes into logs and tables, where a line end would make a line of its own that looks like ours. */
void request_make_line(char *text)
{
	if (text)
		words_replace_controls(text, '?');
}

static int check_first(void *ctx, task_id id, enum task_state state)
{
	(void)state;
	*(task_id *)ctx = id;
	return 1;
}

/* Any one will do: elements share script, user and environment. */
task_id request_any_element(const struct requests *q, task_id id)
{
	task_id first = id;
	if (TASK_INDEX(id) < 0)
		store_states(q->store, id, check_first, &first, NULL);
	return first;
}

/* *old is the caller's to destroy, where it is not NULL: a task of the core is the core's, one of the store was loaded for this
 * question alone. */
const struct task *request_any_task(const struct requests *q, task_id id, struct task **old, struct error *err)
{
	const struct task *t = core_task(q->core, id);
	*old = NULL;
	return t ? t : (*old = store_load_task(q->store, id, err));
}
