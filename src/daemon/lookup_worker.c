/* SPDX-License-Identifier: MIT
 * What a lookup does, in its process: the accounts of tasks that ended, the log of one task, and what GPUs showed
 * over time, as whole replies.
 */
#include "daemon/lookup.h"

#include "account/account.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/listing.h"
#include "daemon/recording.h"
#include "daemon/sums.h"
#include "store/store.h"
#include "submit/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_ACCT_TASKS 10000
#define MAX_EVENTS 20000
#define MAX_REQUEST ((size_t)64 << 20)
#define MEMORY ((rlim_t)2 << 30)

/* Accounts ------------------------------------------------------------------------------------------------------------- */

struct events_told { json_t *list; size_t n; };

struct accounting {
	struct account sums;
	struct sums_table *by;	/* instead of tasks; NULL: those */
	struct listing list;
	size_t n;
	int64_t now_ms;
};

static int lookup_account_one(void *ctx, struct task *t, const char *broken)
{
	struct accounting *a = ctx;
	if (!broken) {
		account_add(&a->sums, t, a->now_ms);
		if (a->by)
			sums_add(a->by, t, a->now_ms);
		else if (a->n++ < MAX_ACCT_TASKS)
			listing_add(&a->list, task_to_json(t, a->now_ms));
		else
			a->list.truncated = true;
	}
	task_destroy(t);
	return 0;
}

static int lookup_read_accounts(struct store *s, const json_t *request, struct buf *reply, struct error *err)
{
	int64_t from = 0, to = INT64_MAX, uid = -1;
	struct accounting a = { .now_ms = clock_wall_ms() };
	const char *text = json_string_value(json_object_get(request, "by"));
	unsigned by;
	if (text && sums_parse(text, &by, err))
		return -1;
	a.by = text ? sums_create(by) : NULL;
	int rc = json_read_int(request, "from_ms", 0, INT64_MAX, &from, err) ||
		 json_read_int(request, "to_ms", 0, INT64_MAX, &to, err) || json_read_int(request, "uid", -1, UINT32_MAX, &uid, err) ||
		 store_load_finished(s, from, to, uid, 0, lookup_account_one, &a, err) ? -1 : 0;
	if (!rc)
		*reply = listing_finish(&a.list, json_pack("{so, so*}", "totals", account_to_json(&a.sums), "groups",
							   a.by ? sums_json(a.by) : NULL));
	sums_destroy(a.by);
	listing_clear(&a.list);
	account_clear(&a.sums);
	return rc;
}

/* Events --------------------------------------------------------------------------------------------------------------- */

/* A log is read from its beginning: what does not fit is cut at the end, and said. */
static int lookup_add_event(void *ctx, const struct event *ev)
{
	struct events_told *told = ctx;
	if (told->n++ < MAX_EVENTS)
		json_array_append_new(told->list, event_told(ev));
	return 0;
}

static int lookup_read_events(struct store *s, const json_t *request, struct buf *reply, struct error *err)
{
	int64_t id = 0;
	struct events_told told = { .list = json_array() };
	int rc = json_read_int(request, "task", 0, INT64_MAX, &id, err) ||
		 store_load_events(s, id, lookup_add_event, &told, err) ? -1 : 0;
	scoped_json *o = json_pack("{si, si, so, sb}", "v", WIRE_VERSION, "schema", 1, "events", told.list, "truncated",
				   told.n > MAX_EVENTS);
	scoped_free char *text = rc ? NULL : json_to_text(o);
	if (text)
		buf_add_text(reply, text);
	return rc;
}

/* The worker ----------------------------------------------------------------------------------------------------------- */

static json_t *lookup_read_request(void)
{
	scoped_buf text = { 0 };
	json_error_t why;
	return io_read_fd(STDIN_FILENO, "request", MAX_REQUEST, &text, NULL) ? NULL : json_loads(buf_text(&text), 0, &why);
}

static int lookup_make_reply(const json_t *request, struct buf *reply, struct error *err)
{
	const char *op = json_string_value(json_object_get(request, "op"));
	const char *state = json_string_value(json_object_get(request, "state"));
	if (!op || !state)
		return error_set(err, ERR_INVALID, "radd --read is for radd's own use");
	struct store *s = store_open_reader(state, err);
	int rc = !s ? -1 : !strcmp(op, "acct") ? lookup_read_accounts(s, request, reply, err)
			 : !strcmp(op, "events") ? lookup_read_events(s, request, reply, err)
			 : recording_read(s, request, reply, err);
	store_close(s);
	return rc;
}

int lookup_worker(void)
{
	struct error err = ERROR_INIT;
	scoped_buf reply = { 0 };
#ifndef __SANITIZE_ADDRESS__	/* whose shadow is larger */
	setrlimit(RLIMIT_AS, &(struct rlimit){ MEMORY, MEMORY });
#endif
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	setpriority(PRIO_PROCESS, 0, 10);	/* tasks and their placement come first */
	scoped_json *request = lookup_read_request();
	if (lookup_make_reply(request, &reply, &err)) {
		scoped_json *refusal = wire_error(&err);
		scoped_free char *text = json_to_text(refusal);
		buf_drop(&reply, reply.len);
		buf_add_text(&reply, text);
	}
	return io_write_full(STDOUT_FILENO, reply.data, reply.len) ? 1 : 0;
}
