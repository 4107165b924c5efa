/* SPDX-License-Identifier: MIT
 * Removing what attempts left: see forgetting.h. One thread at a time goes through what is due, and nobody waits in it: what
 * cannot go yet is due again later, by the loop's timer. While a thread is at a list, what comes meanwhile goes to another.
 */
#include "daemon/forgetting.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <stdlib.h>

#define AGAIN_MIN_MS 20
#define AGAIN_MAX_MS 5000
#define LEAVE_MS 2000

struct remain { forgetting_way way; char *path; int64_t due_ms, pause_ms; bool gone; };
struct remains { struct remain *list; size_t n, cap; };

struct forgetting {
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_work_t work;
	struct remains waiting, at_work;
	bool working, leaving;
	int64_t leave_ms;	/* when it is left for the next radd */
};

static void remains_add(struct remains *to, struct remain one)
{
	alloc_grow(to->list, to->n, to->cap);
	to->list[to->n++] = one;
}

static void remains_clear(struct remains *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->list[i].path);
	free(r->list);
	*r = (struct remains){ 0 };
}

static void on_closed(uv_handle_t *h)
{
	struct forgetting *f = h->data;
	remains_clear(&f->waiting);
	free(f);
}

static void work_there(uv_work_t *work)
{
	struct forgetting *f = work->data;
	for (size_t i = 0; i < f->at_work.n; i++)
		f->at_work.list[i].gone = f->at_work.list[i].way(f->at_work.list[i].path);
}

/* Returns in how many ms the first of those that stay is due; -1: none stays. */
static int64_t take_due(struct forgetting *f)
{
	int64_t now = clock_mono_ms(), next = -1;
	size_t kept = 0;
	for (size_t i = 0; i < f->waiting.n; i++) {
		struct remain *one = &f->waiting.list[i];
		if (one->due_ms <= now) {
			remains_add(&f->at_work, *one);
			continue;
		}
		if (next < 0 || one->due_ms < next)
			next = one->due_ms;
		f->waiting.list[kept++] = *one;
	}
	f->waiting.n = kept;
	return next < 0 ? -1 : next - now;
}

static void go_on(struct forgetting *f);

static void on_timer(uv_timer_t *t)
{
	go_on(t->data);
}

static void on_worked(uv_work_t *work, int status)
{
	struct forgetting *f = work->data;
	(void)status;		/* it is never cancelled */
	f->working = false;
	for (size_t i = 0; i < f->at_work.n; i++) {
		struct remain *one = &f->at_work.list[i];
		if (one->gone)
			continue;
		one->pause_ms = !one->pause_ms ? AGAIN_MIN_MS : one->pause_ms < AGAIN_MAX_MS / 2 ? 2 * one->pause_ms : AGAIN_MAX_MS;
		one->due_ms = clock_mono_ms() + one->pause_ms;
		remains_add(&f->waiting, *one);
		one->path = NULL;
	}
	remains_clear(&f->at_work);
	go_on(f);
}

static void go_on(struct forgetting *f)
{
	if (f->working)
		return;
	int64_t wait_ms = take_due(f);
	f->working = f->at_work.n;
	if (f->working)
		uv_queue_work(f->loop, &f->work, work_there, on_worked);
	else if (f->leaving && (wait_ms < 0 || clock_mono_ms() + wait_ms > f->leave_ms))
		uv_close((uv_handle_t *)&f->timer, on_closed);
	else if (wait_ms >= 0)
		uv_timer_start(&f->timer, on_timer, (uint64_t)wait_ms, 0);
}

void forgetting_add(struct forgetting *f, forgetting_way way, char *path)
{
	remains_add(&f->waiting, (struct remain){ .way = way, .path = path });
	go_on(f);
}

struct forgetting *forgetting_create(uv_loop_t *loop)
{
	struct forgetting *f = alloc_zero(sizeof *f);
	f->loop = loop;
	uv_timer_init(loop, &f->timer);
	f->timer.data = f->work.data = f;
	return f;
}

void forgetting_destroy(struct forgetting *f)
{
	if (!f)
		return;
	f->leaving = true;
	f->leave_ms = clock_mono_ms() + LEAVE_MS;
	go_on(f);
}
