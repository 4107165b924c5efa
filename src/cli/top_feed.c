/* SPDX-License-Identifier: MIT
 * See top_feed.h. Both questions go over one connection, whose answers come in their order. A radd that hangs is asked once,
 * and waited for: a new connection every second would only fill its queue.
 */
#include "cli/top_feed.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/queue_table.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdio.h>

#define PATIENCE_MS 3000
#define REST 9		/* of ten parts of the time */

struct top_asking {
	int fd;
	struct buf in;
	json_t *gpus;		/* the first answer */
	int64_t from_ms;
};

static void end_asking(struct top_feed *f)
{
	struct top_asking *a = steal(f->asking);
	if (!a)
		return;
	close(a->fd);
	buf_free(&a->in);
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
	scoped_buf out = { 0 };
	json_t *gpus = wire_request("gpus"), *list = list_request();
	int fd = client_connect(err);
	int rc = fd < 0 || wire_encode(gpus, &out, err) || wire_encode(list, &out, err) ? -1 : 0;
	json_decref(gpus);
	json_decref(list);
	if (!rc && (io_write_full(fd, out.data, out.len) || io_set_nonblocking(fd, true)))
		rc = error_errno(err, "radd");
	if (rc) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	f->asking = alloc_zero(sizeof *f->asking);
	f->asking->fd = fd;
	f->asking->from_ms = clock_mono_ms();
	return 0;
}

/* 1: the member of one whole answer is in *list; 0: not yet; -1. */
static int take_answer(struct top_asking *a, const char *member, json_t **list, bool *truncated, struct error *err)
{
	json_t *reply = NULL;
	int rc = wire_decode(&a->in, &reply, err);
	if (rc == 1 && wire_check(reply, err))
		rc = -1;
	if (rc == 1) {
		*list = json_incref(json_object_get(reply, member));
		*truncated = json_is_true(json_object_get(reply, "truncated"));
	}
	json_decref(reply);
	return rc;
}

/* 1: both answers are there; 0: not yet; -1. */
static int take(struct top_feed *f, struct error *err)
{
	struct top_asking *a = f->asking;
	char chunk[65536];
	ssize_t n;
	while ((n = read(a->fd, chunk, sizeof chunk)) > 0)
		buf_add(&a->in, chunk, (size_t)n);
	bool away = !n || (n < 0 && errno != EAGAIN && errno != EINTR), truncated = false;
	json_t *tasks = NULL;
	int rc = a->gpus ? 1 : take_answer(a, "gpus", &a->gpus, &truncated, err);
	rc = rc == 1 ? take_answer(a, "tasks", &tasks, &truncated, err) : rc;
	if (rc == 1) {
		json_decref(f->gpus);
		json_decref(f->tasks);
		f->gpus = steal(a->gpus);
		f->tasks = tasks;
		f->truncated = truncated;
	}
	return rc || !away ? rc : error_set(err, ERR_UNAVAILABLE, "radd went away before it had answered");
}

int top_feed_fd(const struct top_feed *f)
{
	return f->asking ? f->asking->fd : -1;
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
