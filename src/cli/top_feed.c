/* SPDX-License-Identifier: MIT
 * See top_feed.h. Both questions go over one connection, whose answers come in their order. A radd that hangs is asked once,
 * and waited for: a new connection every second would only fill its queue.
 */
#include "cli/top_feed.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/queue_table.h"
#include "submit/wire.h"

#include <stdio.h>

#define PATIENCE_MS 3000
#define REST 9		/* of ten parts of the time */

struct top_asking {
	struct client_asked *asked;
	json_t *gpus;		/* the first answer */
	int64_t from_ms;
};

static void end_asking(struct top_feed *f)
{
	struct top_asking *a = steal(f->asking);
	if (!a)
		return;
	client_asked_end(a->asked);
	json_decref(a->gpus);
	free(a);
}

static json_t *list_request(void)
{
	json_t *request = wire_request("list");
	member_want(request, queue_table_members, QUEUE_TABLE_MEMBERS);
	json_object_set_new(request, "fold", json_true());
	return request;
}

static int ask(struct top_feed *f, struct error *err)
{
	scoped_json *gpus = wire_request("gpus"), *list = list_request();
	struct client_asked *asked = client_ask((json_t *const[]){ gpus, list }, 2, err);
	if (!asked)
		return -1;
	f->asking = alloc_zero(sizeof *f->asking);
	f->asking->asked = asked;
	f->asking->from_ms = clock_mono_ms();
	return 0;
}

/* 1: both answers are there; 0: not yet; -1. */
static int take(struct top_feed *f, struct error *err)
{
	struct top_asking *a = f->asking;
	scoped_json *first = NULL, *second = NULL;
	int rc = a->gpus ? 1 : client_asked_take(a->asked, &first, err);
	if (first)
		a->gpus = json_incref(json_object_get(first, "gpus"));
	rc = rc == 1 ? client_asked_take(a->asked, &second, err) : rc;
	if (rc == 1) {
		json_decref(f->gpus);
		json_decref(f->tasks);
		f->gpus = steal(a->gpus);
		f->tasks = json_incref(json_object_get(second, "tasks"));
		f->truncated = json_is_true(json_object_get(second, "truncated"));
	}
	return rc || !client_asked_away(a->asked) ? rc : error_set(err, ERR_UNAVAILABLE, "radd went away before it had answered");
}

int top_feed_fd(const struct top_feed *f)
{
	return f->asking ? client_asked_fd(f->asking->asked) : -1;
}

int64_t top_feed_due_ms(const struct top_feed *f)
{
	return f->asking ? f->asking->from_ms + PATIENCE_MS : f->due_ms;
}

static bool fail(struct top_feed *f, const struct error *err, int64_t every_ms)
{
	text_printf(f->why, sizeof f->why, "%.399s", err->text);
	end_asking(f);
	f->due_ms = clock_mono_ms() + every_ms;
	return true;
}

/* Nothing more has come: said once it takes too long. */
static bool wait_on(struct top_feed *f)
{
	struct top_asking *a = f->asking;
	int64_t now = clock_mono_ms();
	if (now - a->from_ms < PATIENCE_MS)
		return false;
	a->from_ms = now;	/* looked at again after as long */
	snprintf(f->why, sizeof f->why, "radd has not answered for some seconds");
	return true;
}

bool top_feed_turn(struct top_feed *f, int64_t every_ms)
{
	struct error err = ERROR_INIT;
	int64_t now = clock_mono_ms();
	if (!f->asking && now < f->due_ms)
		return false;
	if (!f->asking)
		return ask(f, &err) ? fail(f, &err, every_ms) : false;
	int rc = take(f, &err);
	if (rc < 0)
		return fail(f, &err, every_ms);
	if (!rc)
		return wait_on(f);
	int64_t took_ms = clock_mono_ms() - f->asking->from_ms;
	f->due_ms = clock_mono_ms() + (took_ms * REST > every_ms ? took_ms * REST : every_ms);
	f->why[0] = 0;
	end_asking(f);
	return true;
}

void top_feed_clear(struct top_feed *f)
{
	end_asking(f);
	json_decref(f->gpus);
	json_decref(f->tasks);
	*f = (struct top_feed){ 0 };
}
