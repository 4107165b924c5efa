/* SPDX-License-Identifier: MIT
 * See track_sync.h.
 */
#include "cli/track_sync.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/track_mlflow.h"
#include "cli/track_run.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>

#define SETTLED_MS ((int64_t)3000)	/* after its end, a slot has the reading that ends it */
#define LATE_MS ((int64_t)60000)	/* an end that radd found out late, after its restart, lies back */
#define FINE_MS ((int64_t)23 * 3600000)	/* later radd joins means to minutes */
/* Asked for at once, such that radd's answer has parts of a length that a slot is made of (2 s and 4 s). */
#define WINDOW_MS ((int64_t)960000)
#define OLD_WINDOW_MS ((int64_t)1920000)

/* What radd has --------------------------------------------------------------------------------------------------------- */

static json_t *ask(struct track *t, json_t *request, struct error *err)
{
	json_t *reply = client_call(request, err);
	t->radd_failed = !reply;
	return reply;
}

/* Of a radd that was just started the tasks that ended without it may not all be known. */
static int look_at_radd(struct track *t, int64_t now_ms, struct error *err)
{
	scoped_json *status = ask(t, wire_request("status"), err);
	if (!status)
		return -1;
	if (t->cursor.radd_pid != member_int(status, "pid"))
		t->cursor.radd_since_ms = now_ms;
	t->cursor.radd_pid = member_int(status, "pid");
	return 0;
}

static bool is_wanted(const struct track *t, const json_t *task)
{
	return (!t->user || !strcmp(t->user, member_text(task, "user"))) && json_array_size(json_object_get(task, "attempts"));
}

static void take_task(struct track *t, json_t *task)
{
	scoped_free char *key = track_run_key(task, t->host);
	int64_t from = track_run_span(task, 0).from_ms;
	struct track_entry *e = track_cursor_find(&t->cursor, key);
	if (!e)
		e = track_cursor_add(&t->cursor, member_text(task, "id"), steal(key),
				     from / TRACK_OLD_STEP_MS * TRACK_OLD_STEP_MS);
	json_decref(e->task);
	e->task = json_incref(task);
}

/* What a run is made of. */
static const char *const wanted[] = {
	"submit_time", "start_time", "end_time", "wait_s", "held_s", "run_s", "lost_s", "jct_s", "slowdown", "gpus_requested", "share",
	"command", "cwd", "log_path", "attempts", "estimate", "exit_code",
};

static int take_living(struct track *t, struct error *err)
{
	json_t *request = wire_request("list"), *task;
	size_t i;
	member_want(request, wanted, COUNT_OF(wanted));
	scoped_json *reply = ask(t, request, err);
	const json_t *tasks = json_object_get(reply, "tasks");
	json_array_foreach(tasks, i, task)
		if (is_wanted(t, task))
			take_task(t, task);
	return reply ? 0 : -1;
}

/* What is looked at at once: as many of the tasks that ended in a span as one answer holds. */
struct slice {
	struct track_span span;
	char after[TASK_ID_TEXT];	/* of those that ended when it begins, the ones behind this; "": all */
};

/* Ends the slice where the answer ends, and has the next go on behind its last task. */
static void cut_slice(struct slice *s, const json_t *tasks)
{
	const json_t *last = json_array_get(tasks, json_array_size(tasks) - 1);
	s->span.to_ms = member_ms(last, "end_time", s->span.to_ms);
	snprintf(s->after, sizeof s->after, "%s", member_text(last, "id"));
}

static int take_ended(struct track *t, struct slice *s, struct error *err)
{
	size_t i;
	json_t *task, *request = wire_request("acct");
	member_want(request, wanted, COUNT_OF(wanted));
	json_object_set_new(request, "from_ms", json_integer(s->span.from_ms));
	json_object_set_new(request, "to_ms", json_integer(s->span.to_ms));
	json_object_set_new(request, "uid", json_integer(t->uid));
	json_object_set_new(request, "totals", json_false());
	if (*s->after)
		json_object_set_new(request, "after", json_text(s->after));
	scoped_json *reply = ask(t, request, err);
	const json_t *tasks = json_object_get(reply, "tasks");
	if (!reply)
		return -1;
	if (json_is_true(json_object_get(reply, "truncated")) && json_array_size(tasks))
		cut_slice(s, tasks);
	json_array_foreach(tasks, i, task)
		if (is_wanted(t, task) && !track_cursor_is_done(&t->cursor, member_text(task, "id"), member_ms(task, "end_time", 0)))
			take_task(t, task);
	return 0;
}

/* One that neither list has: it ended before the cursor's time. */
static int take_missing(struct track *t, struct track_entry *e, struct error *err)
{
	struct error why = ERROR_INIT;
	scoped_json *reply = client_call_id("show", e->id, &why);
	json_t *task = json_array_get(json_object_get(reply, "tasks"), 0);
	scoped_free char *key = task ? track_run_key(task, t->host) : NULL;
	if (key && !strcmp(key, e->key)) {
		e->task = json_incref(task);
		return 0;
	}
	if (!reply && why.code != ERR_NOT_FOUND) {
		t->radd_failed = true;
		return error_pass(err, &why);
	}
	cli_note("task %s: radd knows it no more (rad purge): its run stays as it is", e->id);
	return 0;
}

static int take_all(struct track *t, struct slice *slice, struct error *err)
{
	for (size_t i = 0; i < t->cursor.n; i++) {
		json_decref(t->cursor.entries[i].task);
		t->cursor.entries[i].task = NULL;
	}
	if (take_living(t, err) || take_ended(t, slice, err))
		return -1;
	for (size_t i = t->cursor.n; i-- > 0;) {
		struct track_entry *e = &t->cursor.entries[i];
		if (!e->task && take_missing(t, e, err))
			return -1;
		if (!e->task)
			track_cursor_finish(&t->cursor, e, 0);
	}
	return 0;
}

/* What MLflow gets ------------------------------------------------------------------------------------------------------ */

/* A refusal concerns that run alone; whatever else went wrong, the round. */
static int refuse(struct track_entry *e, const struct error *why, struct error *err)
{
	if (why->code != ERR_INVALID && why->code != ERR_NOT_FOUND && why->code != ERR_CONFLICT)
		return error_pass(err, why);
	cli_note("task %s: left out: %s", e->id, why->text);
	e->refused = true;
	return 0;
}

static int send_runs(struct track *t, struct error *err)
{
	for (size_t i = 0; i < t->cursor.n; i++) {
		struct track_entry *e = &t->cursor.entries[i];
		struct error why = ERROR_INIT;
		if (e->refused)
			continue;
		if ((track_mlflow_ensure(t, e, &why) || track_mlflow_tell(t, e, &why)) && refuse(e, &why, err))
			return -1;
	}
	return 0;
}

/* From when on there are points to send of it, those that can be known by now; INT64_MAX: there are none. */
static int64_t next_of(const struct track_entry *e, int64_t now_ms, int64_t *limit_ms)
{
	int64_t settled = now_ms - SETTLED_MS, next = INT64_MAX;
	bool over = track_run_is_over(e->task) && track_run_span(e->task, now_ms).to_ms <= settled;
	size_t i;
	json_t *a;
	const json_t *attempts = json_object_get(e->task, "attempts");
	*limit_ms = over ? INT64_MAX : settled / TRACK_STEP_MS * TRACK_STEP_MS;
	json_array_foreach(attempts, i, a) {
		int64_t from = member_ms(a, "start", -1), to = member_ms(a, "end", now_ms);
		if (from < 0)
			continue;
		from = from / TRACK_STEP_MS * TRACK_STEP_MS;
		from = from > e->sent_ms ? from : e->sent_ms;
		if (from < to && from < *limit_ms && from < next)
			next = from;
	}
	return next;
}

static json_t *ask_series(struct track *t, struct track_span w, struct error *err)
{
	json_t *request = wire_request("series");
	json_object_set_new(request, "from_ms", json_integer(w.from_ms));
	json_object_set_new(request, "to_ms", json_integer(w.to_ms));
	return ask(t, request, err);
}

static int send_entry(struct track *t, struct track_entry *e, const json_t *series, struct track_span w, int64_t step_ms,
		      int64_t now_ms, struct error *err)
{
	struct error why = ERROR_INIT;
	int64_t limit, next = next_of(e, now_ms, &limit), from = e->sent_ms > w.from_ms ? e->sent_ms : w.from_ms;
	struct track_span span = { from, limit < w.to_ms ? limit : w.to_ms };
	if (e->refused || next >= w.to_ms)
		return 0;
	scoped_json *points = json_array();
	track_run_points(e->task, series, span, step_ms, now_ms, points);
	if (track_mlflow_send(t, e, points, &why))
		return refuse(e, &why, err);
	e->sent_ms = span.to_ms > e->sent_ms ? span.to_ms : e->sent_ms;
	return 0;
}

/* One window after the other, each from where the first point is missing; no more than one is held. */
static int send_series(struct track *t, int64_t now_ms, struct error *err)
{
	while (!*t->stop) {
		int64_t from = INT64_MAX, limit;
		for (size_t i = 0; i < t->cursor.n; i++) {
			const struct track_entry *e = &t->cursor.entries[i];
			int64_t next = e->refused ? INT64_MAX : next_of(e, now_ms, &limit);
			from = next < from ? next : from;
		}
		if (from == INT64_MAX)
			return 0;
		bool old = from < now_ms - FINE_MS;
		int64_t step = old ? TRACK_OLD_STEP_MS : TRACK_STEP_MS;
		struct track_span w = { from / step * step, from / step * step + (old ? OLD_WINDOW_MS : WINDOW_MS) };
		scoped_json *series = ask_series(t, w, err);
		if (!series)
			return -1;
		for (size_t i = 0; i < t->cursor.n && !*t->stop; i++)
			if (send_entry(t, &t->cursor.entries[i], series, w, step, now_ms, err))
				return -1;
		if (track_cursor_save(&t->cursor, err))
			return -1;
	}
	return error_set(err, ERR_UNAVAILABLE, "interrupted");
}

/* Tasks that are over and have no points to come are done. Returns in how many ms the last of the others will have theirs. */
static int64_t settle(struct track *t, int64_t now_ms)
{
	int64_t left = 0, limit;
	for (size_t i = t->cursor.n; i-- > 0;) {
		struct track_entry *e = &t->cursor.entries[i];
		int64_t end_ms = member_ms(e->task, "end_time", 0), to_ms = track_run_span(e->task, now_ms).to_ms + SETTLED_MS;
		if (!track_run_is_over(e->task))
			continue;
		if (e->refused || (next_of(e, now_ms, &limit) == INT64_MAX && to_ms <= now_ms))
			track_cursor_finish(&t->cursor, e, end_ms);
		else if (to_ms - now_ms > left)
			left = to_ms - now_ms;
	}
	return left;
}

static int send_slice(struct track *t, struct slice *slice, int64_t now_ms, int64_t *left_ms, struct error *err)
{
	if (take_all(t, slice, err))
		return -1;
	if (send_runs(t, err) || send_series(t, now_ms, err)) {
		track_cursor_save(&t->cursor, NULL);
		return -1;
	}
	*left_ms = settle(t, now_ms);
	return track_cursor_save(&t->cursor, err);
}

int track_sync_round(struct track *t, int64_t *left_ms, struct error *err)
{
	int64_t now_ms = clock_wall_ms();
	struct slice slice = { .span = { 0, t->cursor.from_ms } };
	t->radd_failed = false;
	if (look_at_radd(t, now_ms, err))
		return -1;
	while (slice.span.to_ms <= now_ms && !*t->stop) {
		slice.span = (struct track_span){ slice.span.to_ms, now_ms + 1 };
		if (send_slice(t, &slice, now_ms, left_ms, err))
			return -1;
	}
	if (now_ms - t->cursor.radd_since_ms >= LATE_MS)
		track_cursor_advance(&t->cursor, now_ms - LATE_MS);
	return track_cursor_save(&t->cursor, err);
}
