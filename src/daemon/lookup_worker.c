/* SPDX-License-Identifier: MIT
 * What a lookup does, in its process: the accounts of tasks that ended, the log of one task, and what GPUs showed
 * over time, as whole replies.
 *
 * It opens the store beside the daemon, for reading alone, and each task comes as it was committed last. Whatever a history
 * that nobody thought of costs, time or memory, is this process's, and not the daemon's.
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
#include "daemon/sharing.h"
#include "daemon/sums.h"
#include "store/store.h"
#include "submit/wire.h"

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
	struct store_span span;
	bool rest;		/* sums are not asked for, or were told before: as many tasks as an answer holds, and no more */
	struct account sums;
	struct sums_table *by;	/* instead of tasks; NULL: those */
	struct sharing sharing;	/* first of the tasks that count, then of those beside them */
	struct task **told;	/* until it is known what they shared; as JSON they are several times as large */
	size_t n_told, cap_told;
	const json_t *members;	/* of each of them; NULL: all */
	bool truncated;
	int64_t now_ms;
};

/* A record that cannot be read is left out: accounts of a year must not fail for one task. The log says which it is when it
 * is looked at by itself. Where there are no sums, the span ends before the first task that the answer does not hold. */
static int lookup_account_one(void *ctx, struct task *t, const char *broken)
{
	struct accounting *a = ctx;
	bool full = a->n_told == MAX_ACCT_TASKS;
	if (!broken && a->rest && full) {
		a->truncated = true;
		a->span.to_ms = t->end_ms;
		a->span.to = t->id;
	} else if (!broken) {
		account_add(&a->sums, t, a->now_ms);
		unsigned row = a->by ? sums_add(a->by, t, a->now_ms) : 0;
		sharing_add(&a->sharing, t, row, a->now_ms);
		a->truncated = !a->by && full;
		if (!a->by && !full) {
			alloc_grow(a->told, a->n_told, a->cap_told);
			a->told[a->n_told++] = t;
			return 0;
		}
	}
	task_destroy(t);
	return a->rest && a->truncated;
}

static int lookup_beside_one(void *ctx, struct task *t, const char *broken)
{
	struct accounting *a = ctx;
	if (!broken)
		sharing_add(&a->sharing, t, 0, a->now_ms);
	task_destroy(t);
	return 0;
}

/* What each had of the GPUs hangs on all that were there with it, counted or not. */
static int lookup_share_out(struct store *s, struct accounting *a, struct error *err)
{
	size_t counted = a->sharing.n;
	if (counted && store_load_beside(s, &a->span, a->sharing.first_ms, a->sharing.last_ms, lookup_beside_one, a, err))
		return -1;
	shares_split(a->sharing.list, a->sharing.n);
	for (size_t i = 0; i < counted; i++) {
		const struct shares_span *x = &a->sharing.list[i];
		a->sums.gpu_share_s += x->share_s;
		if (a->by)
			sums_add_share(a->by, x->owner, x->share_s);
	}
	return 0;
}

static void lookup_tell_accounts(struct accounting *a, struct buf *reply)
{
	struct listing list = { .n = 0 };
	scoped_json *asked = json_copy((json_t *)a->members);
	json_array_append_new(asked, json_text("attempts[].gpus"));	/* for sharing_tell */
	const struct task_wants wants = task_wants_of(asked);
	size_t at = 0;
	for (size_t i = 0; i < a->n_told; i++) {
		json_t *t = task_to_json_some(a->told[i], a->now_ms, &wants);
		sharing_tell(&a->sharing, &at, t);
		listing_add(&list, listing_pick(a->members, t));
	}
	list.truncated = list.truncated || a->truncated;
	*reply = listing_finish(&list, json_pack("{so, so*}", "totals", a->rest ? json_null() : account_to_json(&a->sums),
						 "groups", a->by ? sums_json(a->by) : NULL));
}

/* Whether no log is to be read for them. */
static bool lookup_is_brief(const json_t *members)
{
	size_t i;
	json_t *name;
	json_array_foreach(members, i, name)
		if (!store_account_has(json_string_value(name)))
			return false;
	return members;
}

static int lookup_read_span(struct accounting *a, const json_t *request, struct error *err)
{
	const char *after = json_string_value(json_object_get(request, "after"));
	task_id last = 0;
	a->span = (struct store_span){ 0, INT64_MAX, -1, 0, 0, a->by, lookup_is_brief(a->members) };
	if (json_read_int(request, "from_ms", 0, INT64_MAX, &a->span.from_ms, err) ||
	    json_read_int(request, "to_ms", 0, INT64_MAX, &a->span.to_ms, err) ||
	    json_read_int(request, "uid", -1, UINT32_MAX, &a->span.uid, err) || (after && task_id_parse(after, &last, err)))
		return -1;
	a->rest = after || json_is_false(json_object_get(request, "totals"));
	a->span.from = after ? last + 1 : 0;
	return 0;
}

static int lookup_read_accounts(struct store *s, const json_t *request, struct buf *reply, struct error *err)
{
	struct accounting a = { .now_ms = clock_wall_ms(), .members = json_object_get(request, "members") };
	const char *text = json_string_value(json_object_get(request, "by"));
	const json_t *months = json_object_get(request, "months");
	unsigned by;
	if (text && (sums_parse(text, &by, err) || sums_check_months(months, err)))
		return -1;
	a.by = text ? sums_create(by, months) : NULL;
	int rc = lookup_read_span(&a, request, err) || store_load_finished(s, &a.span, lookup_account_one, &a, err) ||
		 lookup_share_out(s, &a, err) ? -1 : 0;
	if (!rc)
		lookup_tell_accounts(&a, reply);
	sums_destroy(a.by);
	for (size_t i = 0; i < a.n_told; i++)
		task_destroy(a.told[i]);
	free(a.told);
	sharing_clear(&a.sharing);
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
	const char *state = getenv("RAD_STATE");
	if (!op || !state)
		return error_set(err, ERR_INVALID, "radd --read is for radd's own use; if it was radd that asked, its program was "
				 "replaced by another release: restart radd (tasks go on)");
	struct store *s = store_open_reader(state, err);
	int rc = !s ? -1 : !strcmp(op, "acct") ? lookup_read_accounts(s, request, reply, err)
			 : !strcmp(op, "events") ? lookup_read_events(s, request, reply, err)
			 : recording_read(s, request, reply, err);
	store_close(s);
	return rc;
}

/* Errors are answered like everything else, since radd passes on what this says; a limit that is met ends the process, and
 * that is told in its place. */
int lookup_worker(void)
{
	struct error err = ERROR_INIT;
	scoped_buf reply = { 0 };
#ifndef RAD_SANITIZE_ADDRESS	/* whose shadow is larger */
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
