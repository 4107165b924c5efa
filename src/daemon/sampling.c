/* SPDX-License-Identifier: MIT
 * Watches the sampler: see sampling.h. Its deadline is some intervals, at least 10 s; after that it is replaced, with
 * growing pauses, for as long as it takes.
 *
 * A driver that hangs may come back, and one that is being exchanged always does: giving up would leave a server without
 * readings until somebody notices. Pauses grow because each attempt may leave a process behind that hangs in the driver.
 */
#include "daemon/sampling.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/polling.h"
#include "device/device.h"
#include "monitor/sampler.h"

#include <poll.h>
#include <stdlib.h>

#define MIN_DEADLINE_MS 10000
#define FIRST_PAUSE_MS 1000
#define MAX_PAUSE_MS 60000

struct sampling {
	uv_loop_t *loop;
	sampling_take take;
	void *ctx;
	struct sampler *sampler;
	struct polling *polling;	/* of its pipe; NULL: in the pause before the next start */
	uv_timer_t timer;		/* the deadline while it runs, else the pause */
	int64_t deadline_ms, pause_ms, last_ms;
	unsigned restarts;
	const struct device *device;
	uint32_t n_gpus, n_others;	/* of the last snapshot */
	char *gpus;			/* which these are, for people; NULL: there was none yet */
};

/* Says so when other GPUs are read than before: one came, or went, or the first reading came late. */
static void sampling_note_gpus(struct sampling *s, const struct snapshot *snap)
{
	if (s->gpus && snap->n_gpus == s->n_gpus && snap->n_others == s->n_others)
		return;
	bool changed = s->gpus || s->polling;
	free(s->gpus);
	s->gpus = snapshot_describe(snap);
	s->n_gpus = snap->n_gpus;
	s->n_others = snap->n_others;
	if (changed)
		log_info("devices %s: %s", device_setting(s->device), s->gpus);
}

/* One that came says that the driver answers: the next pause is a short one again. */
static void sampling_snapshot(struct sampling *s, struct snapshot *snap)
{
	sampling_note_gpus(s, snap);
	s->take(s->ctx, snap);
	snapshot_clear(snap);
	s->last_ms = clock_mono_ms();
	s->pause_ms = FIRST_PAUSE_MS;
}

/* 0: all read for now; -1: the process is of no more use. */
static int sampling_drain(struct sampling *s, struct error *err)
{
	struct snapshot snap = { 0 };
	int rc;
	while ((rc = sampler_read(s->sampler, &snap, err)) == 1)
		sampling_snapshot(s, &snap);
	return rc;
}

static void on_timer(uv_timer_t *t);

/* The pipe is closed by sampler_stop, so nothing may watch it any more (polling.h). */
static void sampling_restart_later(struct sampling *s)
{
	polling_stop(s->polling);
	s->polling = NULL;
	sampler_stop(s->sampler);
	s->restarts++;
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->pause_ms, 0);
	s->pause_ms = s->pause_ms * 2 > MAX_PAUSE_MS ? MAX_PAUSE_MS : s->pause_ms * 2;
}

static void on_readable(void *ctx)
{
	struct sampling *s = ctx;
	struct error err = ERROR_INIT;
	if (sampling_drain(s, &err)) {
		log_warn_limited("sampler: %s", err.text);
		sampling_restart_later(s);
		return;
	}
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->deadline_ms, 0);
}

static int sampling_watch(struct sampling *s, struct error *err)
{
	s->polling = polling_start(s->loop, sampler_fd(s->sampler), on_readable, s, err);
	if (!s->polling)
		return -1;
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->deadline_ms, 0);
	return 0;
}

static void on_timer(uv_timer_t *t)
{
	struct sampling *s = t->data;
	struct error err = ERROR_INIT;
	if (s->polling)
		log_warn("sampler: no reading for %lld s: the driver may hang; starting another", (long long)s->deadline_ms / 1000);
	else if (!sampler_start(s->sampler, &err) && !sampling_watch(s, &err))
		return;
	else
		log_warn_limited("sampler: %s", err.text);
	sampling_restart_later(s);
}

/* Before the loop runs: waits for the first frame. 1: have one; 0: none in time; -1: the process ended. In the loop
 * nobody could be answered meanwhile, so this is before it; and bounded, since a driver that is being exchanged may take
 * minutes. */
static int sampling_wait_first(struct sampling *s, int first_ms, struct error *err)
{
	int64_t until = clock_mono_ms() + first_ms;
	while (!s->last_ms) {
		int64_t left = until - clock_mono_ms();
		struct pollfd p = { .fd = sampler_fd(s->sampler), .events = POLLIN };
		if (left <= 0)
			return 0;
		poll(&p, 1, (int)left);
		if (sampling_drain(s, err))
			return -1;
	}
	return 1;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct sampling *s = h->data;
	free(s->gpus);
	free(s);
}

/* A sampler that ends before its first frame ends the start (there is no driver, or no GPU), one that is slow does not:
 * nothing is placed until it has spoken. */
struct sampling *sampling_create(uv_loop_t *loop, const struct sampling_plan *plan, sampling_take take, void *ctx,
				 struct error *err)
{
	struct sampling *s = alloc_zero(sizeof *s);
	*s = (struct sampling){ .loop = loop, .take = take, .ctx = ctx, .pause_ms = FIRST_PAUSE_MS,
				.device = plan->device };
	s->deadline_ms = plan->interval_ms * 5 > MIN_DEADLINE_MS ? plan->interval_ms * 5 : MIN_DEADLINE_MS;
	s->sampler = sampler_create(plan->program, plan->device, plan->interval_ms);
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	int first = sampler_start(s->sampler, err) ? -1 : sampling_wait_first(s, plan->first_ms, err);
	if (!first)
		log_warn("no reading from '%s' yet: nothing is placed until there is one", device_setting(plan->device));
	if (first >= 0 && !sampling_watch(s, err))
		return s;
	sampling_destroy(s);
	return NULL;
}

void sampling_destroy(struct sampling *s)
{
	if (!s)
		return;
	polling_stop(s->polling);
	sampler_destroy(s->sampler);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

long long sampling_age_ms(const struct sampling *s)
{
	return s && s->last_ms ? clock_mono_ms() - s->last_ms : -1;
}

unsigned sampling_restarts(const struct sampling *s)
{
	return s ? s->restarts : 0;
}

const char *sampling_gpus(const struct sampling *s)
{
	return s->gpus ? s->gpus : "no reading yet";
}

unsigned sampling_others(const struct sampling *s)
{
	return s ? s->n_others : 0;
}
