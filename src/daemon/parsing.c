/* SPDX-License-Identifier: MIT
 * One large message in a thread of libuv's: see parsing.h. What comes while it runs gathers at the client, and is put behind
 * what was left, so the thread has its bytes for itself and nothing is locked.
 */
#include "daemon/parsing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "submit/wire.h"

#include <stdlib.h>

struct parsing {
	uv_work_t work;
	parsing_done done;	/* NULL: nobody waits for it any more */
	void *ctx;
	struct buf bytes;
	size_t held;		/* by `bytes`, which is the thread's */
	json_t *message;
	struct error err;
	int64_t took_us;
};

static void parsing_in_thread(uv_work_t *work)
{
	struct parsing *p = work->data;
	int64_t began = clock_mono_us();
	if (wire_decode_request(&p->bytes, &p->message, &p->err) != 1)
		p->message = NULL;
	p->took_us = clock_mono_us() - began;
}

/* In the loop again. Where nobody waits any more everything is freed here, and only here, since a thread that has begun cannot
 * be stopped. */
static void parsing_ended(uv_work_t *work, int status)
{
	struct parsing *p = work->data;
	if (p->done && !status)
		p->done(p->ctx, json_incref(p->message), &p->bytes, p->took_us, &p->err);
	json_decref(p->message);
	buf_free(&p->bytes);
	free(p);
}

/* The bytes are handed over whole, and what the thread leaves of them comes back: a message of megabytes is never
 * copied. */
struct parsing *parsing_start(uv_loop_t *loop, struct buf *bytes, parsing_done done, void *ctx)
{
	struct parsing *p = alloc_zero(sizeof *p);
	*p = (struct parsing){ .work.data = p, .done = done, .ctx = ctx, .bytes = *bytes, .held = bytes->cap };
	if (uv_queue_work(loop, &p->work, parsing_in_thread, parsing_ended)) {
		free(p);
		return NULL;
	}
	*bytes = (struct buf){ 0 };
	return p;
}

/* One that has not begun never does: messages of who is gone are bounded by nothing, and launches wait for the same threads. */
void parsing_cancel(struct parsing *p)
{
	if (!p)
		return;
	p->done = NULL;
	uv_cancel((uv_req_t *)&p->work);
}

size_t parsing_bytes(const struct parsing *p)
{
	return p ? p->held : 0;
}
