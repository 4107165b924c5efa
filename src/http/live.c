/* SPDX-License-Identifier: MIT
 * See live.h.
 */
#include "http/live.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/member.h"
#include "http/gather.h"
#include "submit/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS 2000		/* at most so often, */
#define SHARE 20		/* and so that radd spends no more than one part in 20 of its time on it, */
#define SELDOM_MS 30000		/* but this often at least */
#define PROCESSES 20		/* of one GPU */

enum topic { GPUS, QUEUE, TOPICS };
enum { STATUS, FLEET, USERS, TASKS, STARTS };	/* what is asked */

struct live {
	uv_loop_t *loop;
	const char *socket;
	void (*changed)(void *ctx);
	void *ctx;
	size_t watchers;
	struct gather *gather;
	uv_timer_t *timer;		/* closed by the loop */
	struct topic_text { char *text; unsigned version; } topics[TOPICS];
	json_t *rows;			/* all of them; n: so many elements of an array are one row */
};

/* Rows ------------------------------------------------------------------------------------------------------------------ */

json_t *live_row(const json_t *t)
{
	static const char *const keys[] = { "id", "name", "user", "state", "reason", "reason_text", "priority",
					    "gpus_requested", "submit_time", "start_time", "end_time" };
	const json_t *a = member_last_attempt(t), *p = json_object_get(t, "progress");
	json_t *row = json_object();
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		if (json_object_get(t, keys[i]))
			json_object_set(row, keys[i], json_object_get(t, keys[i]));
	json_object_set_new(row, "claim_mib", json_round3(member_number(json_object_get(t, "estimate"), "claim_mib")));
	json_object_set_new(row, "peak_mib", json_round3(member_number(a, "peak_mib")));
	json_object_set_new(row, "percent", json_round3(floor(member_number(p, "percent"))));
	json_object_set_new(row, "left_s", json_round3(member_number(p, "left_s")));
	if (a)
		json_object_set(row, "gpus", json_object_get(a, "gpus"));
	return row;
}

/* When tasks are expected to start, by id; to the minute, for a second more or less is no news. That --begin puts one off, its
 * reason says. */
static json_t *starts_of(const json_t *list)
{
	json_t *starts = json_object(), *s;
	size_t i;
	json_array_foreach(list, i, s)
		if (*member_text(s, "start_time") && strcmp(member_text(s, "source"), "begin"))
			json_object_set_new(starts, member_text(s, "id"), json_printf("%.16s:00Z", member_text(s, "start_time")));
	return starts;
}

static json_t *rows_of(const json_t *tasks, const json_t *told)
{
	scoped_json *starts = starts_of(told);
	json_t *rows = json_array(), *t;
	size_t i;
	json_array_foreach(tasks, i, t) {
		json_t *row = live_row(t), *start = json_object_get(starts, member_text(t, "id"));
		json_int_t n = member_int(t, "count");
		json_object_set_new(row, "n", json_integer(n ? n : 1));
		if (start)
			json_object_set(row, "expected_start", start);
		json_array_append_new(rows, row);
	}
	return rows;
}

static bool holds(const json_t *row, const char *word)
{
	static const char *const keys[] = { "id", "name", "user", "state", "reason" };
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		if (strcasestr(member_text(row, keys[i]), word))
			return true;
	return false;
}

/* The first rows of those that hold the word (NULL: all), and how many tasks are in the others. */
static json_t *bounded(const json_t *rows, const char *word)
{
	json_t *shown = json_array(), *row;
	size_t i, room[2] = { LIVE_WAITING, LIVE_RUNNING };
	json_int_t more = 0;
	json_array_foreach(rows, i, row) {
		size_t *left = &room[member_state(row) == TASK_RUNNING];
		if (word && !holds(row, word))
			continue;
		if (*left)
			json_array_append(shown, row);
		else
			more += member_int(row, "n");
		*left -= *left > 0;
	}
	return json_pack("{so, sI}", "rows", shown, "more", more);
}

json_t *live_find(const struct live *l, const char *word)
{
	return l->rows ? bounded(l->rows, word) : NULL;
}

/* GPUs ------------------------------------------------------------------------------------------------------------------ */

void live_strip(json_t *processes)
{
	size_t i;
	json_t *p;
	json_array_foreach(processes, i, p)
		json_object_del(p, "command");
}

/* Those that are no task's; tasks are shown by name. */
static json_t *foreign_of(const json_t *processes)
{
	json_t *list = json_array(), *p;
	size_t i;
	json_array_foreach(processes, i, p)
		if (!*member_text(p, "task") && json_array_size(list) < PROCESSES)
			json_array_append(list, p);
	live_strip(list);
	return list;
}

static json_t *gpus_of(const json_t *answer)
{
	json_t *list = json_array(), *g;
	size_t i;
	json_array_foreach(json_object_get(answer, "gpus"), i, g) {
		json_t *copy = json_copy(g);
		json_object_set_new(copy, "foreign", foreign_of(json_object_get(g, "processes")));
		json_object_del(copy, "processes");
		json_object_del(copy, "claims");
		json_array_append_new(list, copy);
	}
	return list;
}

/* What is told ---------------------------------------------------------------------------------------------------------- */

/* Takes the reference. */
static bool publish(struct live *l, enum topic which, json_t *what)
{
	struct topic_text *t = &l->topics[which];
	char *text = json_to_text(what);
	json_decref(what);
	bool same = t->text && !strcmp(t->text, text);
	free(same ? text : t->text);
	if (same)
		return false;
	t->text = text;
	t->version++;
	return true;
}

static bool publish_gpus(struct live *l, json_t *const replies[], const char *why)
{
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	bool up = replies[STATUS] && replies[FLEET];
	return publish(l, GPUS, json_pack("{ss, sb, so, sO?, sO?, sO?, so?}", "host", host, "up", up,
		"why", json_text_or_null(up ? NULL : why), "version", json_object_get(replies[STATUS], "version"),
		"tasks", json_object_get(replies[STATUS], "tasks"), "troubles", json_object_get(replies[STATUS], "troubles"),
		"gpus", up ? gpus_of(replies[FLEET]) : NULL));
}

static bool publish_queue(struct live *l, json_t *const replies[])
{
	if (!replies[TASKS])
		return false;
	json_decref(l->rows);
	l->rows = rows_of(json_object_get(replies[TASKS], "tasks"), json_object_get(replies[STARTS], "starts"));
	json_t *shown = bounded(l->rows, NULL);
	json_object_update_new(shown, json_pack("{sO?, sO?, sO?}", "truncated", json_object_get(replies[TASKS], "truncated"),
		"users", json_object_get(replies[USERS], "users"), "fair", json_object_get(replies[USERS], "fair")));
	return publish(l, QUEUE, shown);
}

bool live_fill(struct live *l, unsigned seen[2], struct buf *out)
{
	static const char *const names[] = { [GPUS] = "gpus", [QUEUE] = "queue" };
	size_t before = out->len;
	for (unsigned i = 0; i < TOPICS; i++) {
		const struct topic_text *t = &l->topics[i];
		if (!t->text || seen[i] == t->version)
			continue;
		seen[i] = t->version;
		buf_printf(out, "event: %s\ndata: ", names[i]);
		buf_add_text(out, t->text);	/* JSON of ours has no line in it */
		buf_add_text(out, "\n\n");
	}
	return out->len > before;
}

/* Asking ---------------------------------------------------------------------------------------------------------------- */

static void ask(struct live *l);

static void on_timer(uv_timer_t *t)
{
	ask(t->data);
}

static void on_gathered(void *ctx, json_t *const replies[], const struct error *why, double took_s)
{
	struct live *l = ctx;
	double next_ms = took_s * 1000 * SHARE;
	l->gather = NULL;
	bool news = publish_gpus(l, replies, why ? why->text : NULL);
	if (publish_queue(l, replies) || news)
		l->changed(l->ctx);
	next_ms = next_ms < EVERY_MS ? EVERY_MS : next_ms > SELDOM_MS ? SELDOM_MS : next_ms;
	uv_timer_start(l->timer, on_timer, (uint64_t)next_ms, 0);
}

/* What was last known gets old when nobody looks: whoever comes next is not to take it for what is. */
static void forget(struct live *l)
{
	for (unsigned i = 0; i < TOPICS; i++) {
		free(l->topics[i].text);
		l->topics[i].text = NULL;
	}
	json_decref(l->rows);
	l->rows = NULL;
}

static void ask(struct live *l)
{
	if (!l->watchers)
		forget(l);
	if (l->gather || !l->watchers)
		return;
	json_t *requests[] = { [STATUS] = wire_request("status"), [FLEET] = wire_request("gpus"), [USERS] = wire_request("users"),
			       [TASKS] = wire_request("list"), [STARTS] = wire_request("starts") };
	json_object_set_new(requests[TASKS], "members", json_pack("[s, s, s, s, s, s, s, s, s, s, s, s, s]", "id", "name",
		"user", "state", "reason", "reason_text", "priority", "gpus_requested", "submit_time", "start_time", "estimate",
		"attempts", "progress"));
	json_object_set_new(requests[TASKS], "fold", json_true());
	l->gather = gather_ask(l->loop, l->socket, requests, COUNT_OF(requests), LIVE_DEADLINE_MS, on_gathered, l);
}

void live_watch(struct live *l, size_t n)
{
	bool first = !l->watchers && n;
	l->watchers = n;
	if (first && !uv_is_active((uv_handle_t *)l->timer))
		ask(l);
}

struct live *live_create(uv_loop_t *loop, const char *socket, void (*changed)(void *ctx), void *ctx)
{
	struct live *l = alloc_zero(sizeof *l);
	l->loop = loop;
	l->socket = socket;
	l->changed = changed;
	l->ctx = ctx;
	l->timer = alloc_zero(sizeof *l->timer);
	uv_timer_init(loop, l->timer);
	l->timer->data = l;
	return l;
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h);
}

void live_destroy(struct live *l)
{
	if (!l)
		return;
	gather_drop(l->gather);
	uv_close((uv_handle_t *)l->timer, on_timer_closed);
	forget(l);
	free(l);
}
