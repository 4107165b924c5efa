/* SPDX-License-Identifier: MIT
 * See web.h.
 */
#include "http/web.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/event_text.h"
#include "cli/feeds.h"
#include "http/gather.h"
#include "http/live.h"
#include "http/log_end.h"
#include "submit/wire.h"
#include "task/task.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define TASK_MS 5000
#define HISTORY_MS 30000	/* it is read from the store */
#define HISTORY_FRESH_MS 20000
#define HISTORY_TASKS 500
#define HISTORY_NEVER_RAN 50
#define SHORTEST 4
#define EVENTS 200		/* of a task, the last ones */
#define QUESTIONS 32		/* under way at a time, */
#define LOGS 8			/* of which so many may wait for a file system */
#define WHAT_MAX (TASK_ID_TEXT + 16)

static const int spans_h[] = { 1, 24, 168 };

struct inquiry {
	struct web *web;
	struct serve_call *call;	/* NULL: the slot is free */
	char what[WHAT_MAX];		/* is asked; "": nobody else can want the same */
	struct serve_call **others;	/* who wanted the same meanwhile */
	size_t n_others, cap_others;
	struct gather *gather;
	bool of_log;
	struct worker *reader;		/* of that log, once radd has told where it is */
	size_t span;			/* of a history, */
	int shorter;			/* of which the tasks are asked for one part in 8 to that power, */
	json_t *users, *series;		/* and the answers to the rest */
};

struct web {
	uv_loop_t *loop;
	const char *socket;
	struct live *live;
	struct serve *serve;
	bool logs;
	struct inquiry questions[QUESTIONS];
	struct span { char *text; uint64_t until_ms; } spans[COUNT_OF(spans_h)];
};

/* Answers --------------------------------------------------------------------------------------------------------------- */

static void answer_text(struct serve_call *call, const char *json)
{
	serve_answer(call, MHD_HTTP_OK, "application/json", json, strlen(json));
}

static void answer_json(struct serve_call *call, json_t *o)
{
	scoped_free char *text = json_to_text(o);
	json_decref(o);
	answer_text(call, text);
}

/* Pages that show the same ask for it in the same moment, when each is told of news: radd is asked once for all of them, for
 * they have the same rights here. True: it is asked already, and the call is answered with the others. */
static bool inquiry_join(struct web *w, const char *what, struct serve_call *call)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		struct inquiry *q = &w->questions[i];
		if (!q->call || strcmp(q->what, what))
			continue;
		alloc_grow(q->others, q->n_others, q->cap_others);
		q->others[q->n_others++] = call;
		return true;
	}
	return false;
}

static struct inquiry *inquiry_begin(struct web *w, const char *what, struct serve_call *call)
{
	for (size_t i = 0; i < QUESTIONS; i++)
		if (!w->questions[i].call) {
			w->questions[i] = (struct inquiry){ .web = w, .call = call };
			snprintf(w->questions[i].what, WHAT_MAX, "%s", what);
			return &w->questions[i];
		}
	serve_fail(call, MHD_HTTP_SERVICE_UNAVAILABLE, "too many questions at once: try again");
	return NULL;
}

/* It is over; all who wait for it are told. */
static void inquiry_end(struct inquiry *q, void (*tell)(struct serve_call *call, unsigned status, const char *text),
			unsigned status, const char *text)
{
	struct inquiry over = *q;
	*q = (struct inquiry){ .web = over.web };
	tell(over.call, status, text);
	for (size_t i = 0; i < over.n_others; i++)
		tell(over.others[i], status, text);
	free(over.others);
	json_decref(over.users);
	json_decref(over.series);
}

static void tell_answer(struct serve_call *call, unsigned status, const char *text)
{
	(void)status;
	answer_text(call, text);
}

static void inquiry_fail(struct inquiry *q, unsigned status, const char *text)
{
	inquiry_end(q, serve_fail, status, text);
}

static void inquiry_answer(struct inquiry *q, json_t *o)
{
	scoped_free char *text = json_to_text(o);
	json_decref(o);
	inquiry_end(q, tell_answer, MHD_HTTP_OK, text);
}

/* One task -------------------------------------------------------------------------------------------------------------- */

/* The last ones of a long log, in words. */
static json_t *last_events(json_t *reply, const json_t *gpus)
{
	const json_t *events = json_object_get(reply, "events");
	size_t n = json_array_size(events);
	json_t *list = json_array();
	for (size_t i = n > EVENTS ? n - EVENTS : 0; i < n; i++) {
		const json_t *e = json_array_get(events, i);
		scoped_free char *said = event_text(e, json_object_get(gpus, "gpus"));
		json_array_append_new(list, json_pack("{sO?, sO?, ss?}", "time", json_object_get(e, "time"), "event",
						      json_object_get(e, "event"), "text", said));
	}
	return list;
}

static void on_task_told(void *ctx, json_t *const replies[], const struct error *why, double took_s)
{
	struct inquiry *q = ctx;
	json_t *task = json_array_get(json_object_get(replies[0], "tasks"), 0), *reason = replies[1], *g;
	size_t i;
	(void)took_s;
	if (!task) {
		bool none = replies[0] || (why && why->code == ERR_NOT_FOUND);
		inquiry_fail(q, none ? MHD_HTTP_NOT_FOUND : MHD_HTTP_BAD_GATEWAY, why ? why->text : "there is no such task");
		return;
	}
	json_array_foreach(json_object_get(reason, "gpus"), i, g)
		live_strip(json_object_get(g, "foreign"));
	feeds_tell(json_object_get(replies[0], "tasks"));	/* of whoever runs this: with his rights, and his tasks alone */
	inquiry_answer(q, json_pack("{sO, sO?, so}", "task", task, "why", reason, "events", last_events(replies[2], replies[3])));
}

/* NULL: none that could be one, and that was answered. */
static const char *task_asked_for(struct serve_call *call)
{
	const char *id = serve_query(call, "id");
	task_id parsed;
	if (id && !task_id_parse(id, &parsed, NULL))
		return id;
	serve_fail(call, MHD_HTTP_BAD_REQUEST, "?id= wants a task's id, such as 12 or 12_3");
	return NULL;
}

static json_t *task_request(const char *op, const char *id)
{
	json_t *request = wire_request(op);
	json_object_set_new(request, "id", json_text(id));
	return request;
}

static void on_task(void *ctx, struct serve_call *call)
{
	static const char *const ops[] = { "show", "why", "events", "gpus" };
	struct web *w = ctx;
	const char *id = task_asked_for(call);
	char what[WHAT_MAX];
	json_t *requests[COUNT_OF(ops)];
	if (!id)
		return;
	snprintf(what, sizeof what, "task %s", id);
	struct inquiry *q = inquiry_join(w, what, call) ? NULL : inquiry_begin(w, what, call);
	if (!q)
		return;
	for (size_t i = 0; i < COUNT_OF(ops); i++)
		requests[i] = task_request(ops[i], id);
	q->gather = gather_ask(w->loop, w->socket, requests, COUNT_OF(ops), TASK_MS, on_task_told, q);
}

/* Its log ------------------------------------------------------------------------------------------------------------------ */

static void on_log_read(void *ctx, const struct buf *answer, const char *why)
{
	inquiry_answer(ctx, log_end_told(answer, why));
}

static void on_log_known(void *ctx, json_t *const replies[], const struct error *why, double took_s)
{
	struct inquiry *q = ctx;
	struct error err = ERROR_INIT;
	const json_t *task = json_array_get(json_object_get(replies[0], "tasks"), 0);
	(void)took_s;
	q->gather = NULL;
	if (task)
		q->reader = log_end_ask(q->web->loop, task, on_log_read, q, &err);
	if (!q->reader)
		inquiry_fail(q, MHD_HTTP_BAD_GATEWAY, why ? why->text : *err.text ? err.text : "there is no such task");
}

static size_t logs_under_way(const struct web *w)
{
	size_t n = 0;
	for (size_t i = 0; i < QUESTIONS; i++)
		n += w->questions[i].call && w->questions[i].of_log;
	return n;
}

/* What a task prints is more than radd tells, and is read with the rights of who began this: for who has the token alone. */
static void on_log(void *ctx, struct serve_call *call)
{
	struct web *w = ctx;
	const char *id = task_asked_for(call);
	struct inquiry *q;
	if (!id)
		return;
	if (!w->logs)
		serve_fail(call, MHD_HTTP_FORBIDDEN, "logs are shown by a rad web whose address has a token");
	else if (logs_under_way(w) == LOGS)
		serve_fail(call, MHD_HTTP_SERVICE_UNAVAILABLE, "logs are being read, and file systems do not answer: try again");
	else if ((q = inquiry_begin(w, "", call))) {
		q->of_log = true;
		q->gather = gather_ask(w->loop, w->socket, (json_t *[]){ task_request("show", id) }, 1, TASK_MS, on_log_known, q);
	}
}

/* History --------------------------------------------------------------------------------------------------------------- */

static json_t *history_row(const json_t *t)
{
	static const char *const wanted[] = { "start", "end", "gpus", "verdict", "evidence", "peak_mib" };
	json_t *row = live_row(t), *attempts = json_array(), *a;
	size_t k;
	json_array_foreach(json_object_get(t, "attempts"), k, a) {
		json_t *one = json_object();
		for (size_t i = 0; i < COUNT_OF(wanted); i++)
			if (json_object_get(a, wanted[i]))
				json_object_set(one, wanted[i], json_object_get(a, wanted[i]));
		json_array_append_new(attempts, one);
	}
	json_object_set_new(row, "attempts", attempts);
	return row;
}

/* The last ones; of those that never ran (a large array that was cancelled) fewer, so that they do not crowd out the others. */
static json_t *history_tasks(const json_t *answer)
{
	const json_t *tasks = json_object_get(answer, "tasks");
	size_t room[2] = { HISTORY_NEVER_RAN, HISTORY_TASKS };
	json_t *list = json_array();
	json_int_t left_out = 0;
	for (size_t i = json_array_size(tasks); i-- > 0;) {
		const json_t *t = json_array_get(tasks, i);
		size_t *left = &room[json_array_size(json_object_get(t, "attempts")) > 0];
		left_out += !*left;
		if (*left)
			json_array_append_new(list, history_row(t));
		*left -= *left > 0;
	}
	return json_pack("{so, sI}", "tasks", list, "left_out", left_out);
}

static json_t *span_request(const char *op, const char *by, const struct inquiry *q)
{
	json_t *request = wire_request(op);
	int64_t now = clock_wall_ms();
	json_object_set_new(request, "from_ms", json_integer(now - (INT64_C(3600000) * spans_h[q->span] >> 3 * q->shorter)));
	json_object_set_new(request, "to_ms", json_integer(now));
	json_object_set_new(request, "uid", json_integer(-1));
	if (by)
		json_object_set_new(request, "by", json_text(by));
	return request;
}

static void history_tell(struct inquiry *q, json_t *accounts)
{
	struct web *w = q->web;
	struct span *span = &w->spans[q->span];
	scoped_json *o = history_tasks(accounts);
	bool shorter = q->shorter || json_is_true(json_object_get(accounts, "truncated"));
	json_object_update_new(o, json_pack("{si, sI, sb, sO?, sO?, sO?}", "hours", spans_h[q->span], "now_ms",
		(json_int_t)clock_wall_ms(), "shorter", (int)shorter, "users", json_object_get(q->users, "groups"), "gpus",
		json_object_get(q->series, "gpus"), "series", json_object_get(q->series, "series")));
	free(span->text);
	span->text = json_to_text(o);
	span->until_ms = uv_now(w->loop) + HISTORY_FRESH_MS;
	inquiry_end(q, tell_answer, MHD_HTTP_OK, span->text);
}

/* radd tells so many tasks at most, the oldest ones: of a span with more, the last part is asked for. */
static void on_history_told(void *ctx, json_t *const replies[], const struct error *why, double took_s)
{
	struct inquiry *q = ctx;
	bool first = !q->users;
	(void)took_s;
	q->gather = NULL;
	if (!replies[0] || (first && (!replies[1] || !replies[2]))) {
		inquiry_fail(q, MHD_HTTP_BAD_GATEWAY, why ? why->text : "radd did not answer");
		return;
	}
	if (first) {
		q->users = json_incref(replies[1]);
		q->series = json_incref(replies[2]);
	}
	if (!json_is_true(json_object_get(replies[0], "truncated")) || q->shorter == SHORTEST) {
		history_tell(q, replies[0]);
		return;
	}
	q->shorter++;
	json_t *again = span_request("acct", NULL, q);
	q->gather = gather_ask(q->web->loop, q->web->socket, &again, 1, HISTORY_MS, on_history_told, q);
}

static void on_history(void *ctx, struct serve_call *call)
{
	struct web *w = ctx;
	const char *hours = serve_query(call, "hours");
	size_t span = 0;
	while (span < COUNT_OF(spans_h) && (!hours || atoi(hours) != spans_h[span]))
		span++;
	if (span == COUNT_OF(spans_h)) {
		serve_fail(call, MHD_HTTP_BAD_REQUEST, "?hours= is 1, 24 or 168");
		return;
	}
	if (w->spans[span].text && uv_now(w->loop) < w->spans[span].until_ms) {
		answer_text(call, w->spans[span].text);
		return;
	}
	char what[WHAT_MAX];
	snprintf(what, sizeof what, "history %d", spans_h[span]);
	struct inquiry *q = inquiry_join(w, what, call) ? NULL : inquiry_begin(w, what, call);
	if (!q)
		return;
	q->span = span;
	json_t *requests[] = { span_request("acct", NULL, q), span_request("acct", "user", q), span_request("series", NULL, q) };
	q->gather = gather_ask(w->loop, w->socket, requests, COUNT_OF(requests), HISTORY_MS, on_history_told, q);
}

/* The queue ------------------------------------------------------------------------------------------------------------- */

static void on_find(void *ctx, struct serve_call *call)
{
	struct web *w = ctx;
	const char *word = serve_query(call, "q");
	json_t *found = live_find(w->live, word ? word : "");
	if (found)
		answer_json(call, found);
	else
		serve_fail(call, MHD_HTTP_SERVICE_UNAVAILABLE, "the queue has not been read yet");
}

static void on_events(void *ctx, struct serve_call *call)
{
	(void)ctx;
	serve_stream(call);
}

bool web_fill(void *ctx, unsigned seen[SERVE_TOPICS], struct buf *out)
{
	return live_fill(((struct web *)ctx)->live, seen, out);
}

void web_streams(void *ctx, size_t n)
{
	live_watch(((struct web *)ctx)->live, n);
}

static void on_changed(void *ctx)
{
	struct web *w = ctx;
	if (w->serve)
		serve_wake(w->serve);
}

/* The page -------------------------------------------------------------------------------------------------------------- */

static void on_page(void *ctx, struct serve_call *call)
{
	static const char text[] =
#include "http/web.html.inc"
	;
	(void)ctx;
	serve_answer(call, MHD_HTTP_OK, "text/html; charset=utf-8", text, strlen(text));
}

static void on_style(void *ctx, struct serve_call *call)
{
	static const char text[] =
#include "http/report.css.inc"
#include "http/web.css.inc"
	;
	(void)ctx;
	serve_answer(call, MHD_HTTP_OK, "text/css; charset=utf-8", text, strlen(text));
}

static void on_script(void *ctx, struct serve_call *call)
{
	static const char text[] =
#include "http/draw.js.inc"
#include "http/web.js.inc"
	;
	(void)ctx;
	serve_answer(call, MHD_HTTP_OK, "text/javascript; charset=utf-8", text, strlen(text));
}

/* What stands in the page itself is nobody's secret; what it asks for is. */
const struct serve_route web_routes[] = {
	{ "/", .run = on_page }, { "/web.css", .run = on_style }, { "/web.js", .run = on_script },
	{ "/api/events", true, on_events }, { "/api/task", true, on_task }, { "/api/log", true, on_log },
	{ "/api/find", true, on_find }, { "/api/history", true, on_history }, { 0 },
};

/* Life ------------------------------------------------------------------------------------------------------------------ */

struct web *web_create(uv_loop_t *loop, const char *socket, bool logs)
{
	struct web *w = alloc_zero(sizeof *w);
	w->loop = loop;
	w->socket = socket;
	w->logs = logs;
	w->live = live_create(loop, socket, on_changed, w);
	return w;
}

void web_serve(struct web *w, struct serve *s)
{
	w->serve = s;
	for (size_t i = 0; !s && i < QUESTIONS; i++) {
		struct inquiry *q = &w->questions[i];
		if (!q->call)
			continue;
		gather_drop(q->gather);
		worker_stop(q->reader);
		inquiry_fail(q, MHD_HTTP_SERVICE_UNAVAILABLE, "rad web is ending");
	}
}

void web_destroy(struct web *w)
{
	live_destroy(w->live);
	for (size_t i = 0; i < COUNT_OF(w->spans); i++)
		free(w->spans[i].text);
	free(w);
}
