/* SPDX-License-Identifier: MIT
 * What people look at and wait for. Whatever may be long comes as a walk, or by a lookup, and never at once: the queue of a
 * busy server takes longer to tell than others should have to wait, and years of history longer than anybody.
 */
#include "daemon/requests_internal.h"

#include "base/json.h"
#include "base/scope.h"
#include "daemon/now.h"
#include "daemon/sums.h"

#include <string.h>

#define MAX_MEMBERS 64		/* that a list may be asked for, more than a task has, */
#define MAX_MEMBER 64		/* and bytes of each */
#define MAX_EVENTS_HERE 200	/* of a task, that are read in the loop: some milliseconds */
#define MAX_WAIT_TASKS 100000	/* that the ids of one wait may stand for */

/* NULL: all are wanted. Borrowed. */
static int look_members(const struct message *m, json_t **members, struct error *err)
{
	size_t i;
	json_t *name;
	*members = json_object_get(m->json, "members");
	if (!*members || json_is_null(*members))
		return *members = NULL, 0;
	bool good = json_is_array(*members) && json_array_size(*members) <= MAX_MEMBERS;
	json_array_foreach(*members, i, name)
		good = good && json_is_string(name) && json_string_length(name) <= MAX_MEMBER;
	return good ? 0 : error_set(err, ERR_INVALID, "'members' must be a list of at most %d names of at most %d bytes each",
				    MAX_MEMBERS, MAX_MEMBER);
}

/* Everybody sees the whole queue: who waits wants to know behind whom. */
int request_list(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	json_t *members;
	if (look_members(m, &members, err))
		return -1;
	*reply = (struct reply){ .kind = REPLY_WALK, .walk = walk_living(q->core) };
	walk_only(reply->walk, json_incref(members));
	if (json_is_true(json_object_get(m->json, "fold")))
		walk_fold(reply->walk);
	return 0;
}

/* Counted first, which tells whether there is such a task at all, here or in the history. */
int request_show(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	size_t n;
	json_t *members;
	if (request_id(m, &id, err) || look_members(m, &members, err) || walk_count(q->store, id, &n, err))
		return -1;
	*reply = (struct reply){ .kind = REPLY_WALK, .walk = walk_create(q->core, q->store) };
	walk_add(reply->walk, id);
	walk_only(reply->walk, json_incref(members));
	if (q->untold)
		walk_add_member(reply->walk, "notice_failed",
				untold_json(q->untold, id, request_is_admin(m->uid) ? -1 : (int64_t)m->uid));
	return 0;
}

static int look_event(void *ctx, const struct event *ev)
{
	json_array_append_new(ctx, event_told(ev));
	return 0;
}

/* A long log is told by a process beside us, like all that is long. */
int request_events(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	if (request_id(m, &id, err))
		return -1;
	if (store_has_more_events(q->store, id, MAX_EVENTS_HERE)) {
		scoped_json *o = json_pack("{ss, sI}", "op", "events", "task", (json_int_t)id);
		*reply = (struct reply){ .kind = REPLY_LOOKUP, .lookup = json_to_text(o) };
		return 0;
	}
	json_t *events = json_array();
	if (!store_load_events(q->store, id, look_event, events, err))
		return request_answer(reply, json_pack("{si, so}", "schema", 1, "events", events));
	json_decref(events);
	return -1;
}

/* What runs, as it was submitted: its owner's alone, since a script may hold what is nobody else's business. */
int request_script(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	struct task *old = NULL;
	if (request_id(m, &id, err))
		return -1;
	const struct task *t = request_any_task(q, request_any_element(q, id), &old, err);	/* all have the same script */
	int failed = !t || request_need_owner(m, t, err);
	if (!failed && old && store_is_folded(q->store, TASK_JOB(id)))
		failed = error_set(err, ERR_CONFLICT, "it ended so long ago that its script is no longer kept (fold_after in rad.conf)");
	if (!failed) {
		scoped_json *spec = spec_to_json(t->spec);
		request_answer(reply, json_pack("{si, sO, so, ss, so}", "schema", 1, "argv", json_object_get(spec, "argv"), "script",
						json_text_or_null(t->spec->script), "name", task_name(t), "cwd", json_text_or_null(t->spec->cwd)));
	}
	task_destroy(old);
	return failed ? -1 : 0;
}

int request_why(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	task_id id;
	json_t *why = request_id(m, &id, err) ? NULL : core_why_json(q->core, id, now_read(), err);
	request_explain(q, m, json_object_get(why, "gpus"));
	return request_answer(reply, why);
}

/* Bounded by itself, to some milliseconds. */
int request_starts(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	(void)m;
	(void)err;
	return request_answer(reply, core_starts_json(q->core, now_read()));
}

/* Waiting -------------------------------------------------------------------------------------------------------------- */

/* Whether all are there, and can be told at the end. */
static int look_check_wait(const struct requests *q, const task_id *ids, size_t n, struct error *err)
{
	size_t all = 0, some;
	for (size_t i = 0; i < n; i++, all += some) {
		if (walk_count(q->store, ids[i], &some, err))
			return -1;
		if (all + some > MAX_WAIT_TASKS)
			return error_set(err, ERR_INVALID, "these ids stand for more than %d tasks: wait for fewer at a time",
					 MAX_WAIT_TASKS);
	}
	return 0;
}

int request_wait(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const char *until = json_string_value(json_object_get(m->json, "until"));
	scoped_free task_id *ids = NULL;
	size_t n = request_ids(m, &ids, err);
	if (!n || look_check_wait(q, ids, n, err))
		return -1;
	enum awaiting_until what = AWAITING_END;
	if (until && !strcmp(until, "start"))
		what = AWAITING_START;
	else if (until && !strcmp(until, "estimate"))
		what = AWAITING_ESTIMATE;
	*reply = (struct reply){ .kind = REPLY_WAIT, .awaiting = awaiting_create(q->core, q->store, ids, n, what) };
	return 0;
}

/* The history ---------------------------------------------------------------------------------------------------------- */

/* The span and the user of a request, for a lookup, which checks them. Nothing long is passed on: it may have to wait. */
static json_t *look_up(const struct message *m, const char *op, struct error *err)
{
	static const char *const keys[] = { "from_ms", "to_ms", "uid" };
	json_t *o = json_pack("{ss}", "op", op);
	int64_t value;
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		if (json_read_int(m->json, keys[i], INT64_MIN, INT64_MAX, &value, err)) {
			json_decref(o);
			return NULL;
		}
		json_object_set(o, keys[i], json_object_get(m->json, keys[i]));
	}
	return o;
}

int request_acct(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const char *by = json_string_value(json_object_get(m->json, "by"));
	const char *after = json_string_value(json_object_get(m->json, "after"));
	json_t *members, *months = json_object_get(m->json, "months");
	unsigned parsed;
	task_id id;
	(void)q;
	if (by && sums_parse(by, &parsed, err))
		return error_wrap(err, "--by");
	if (sums_check_months(months, err))
		return -1;
	if (after && task_id_parse(after, &id, err))
		return error_wrap(err, "'after'");
	if (look_members(m, &members, err))
		return -1;
	scoped_json *o = look_up(m, "acct", err);
	if (!o)
		return -1;
	if (by)
		json_object_set_new(o, "by", json_text(by));
	if (months)
		json_object_set(o, "months", months);
	if (after)
		json_object_set_new(o, "after", json_text(after));
	json_object_set(o, "members", members);
	if (json_is_false(json_object_get(m->json, "totals")))
		json_object_set_new(o, "totals", json_false());
	*reply = (struct reply){ .kind = REPLY_LOOKUP, .lookup = json_to_text(o) };
	return 0;
}

/* What the recording has not stored yet goes along, or the last minute would be missing from every picture. */
int request_series(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	scoped_json *o = look_up(m, "series", err);
	if (!o)
		return -1;
	json_object_set_new(o, "unstored", recording_unstored(q->recording, now_read()));
	*reply = (struct reply){ .kind = REPLY_LOOKUP, .lookup = json_to_text(o) };
	return 0;
}
