/* SPDX-License-Identifier: MIT
 * Watches the sampler: see sampling.h. Its deadline is some intervals, at least 10 s; after that it is replaced, with
 * growing pauses, for as long as it takes.
 */
#include "daemon/sampling.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/recording.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#define MIN_DEADLINE_MS 10000
#define MAX_PAUSE_MS 60000

struct sampling {
	struct daemon *d;
	struct sampler *sampler;
	uv_poll_t poll;
	uv_timer_t timer;	/* the deadline while it runs, the pause before the next start otherwise */
	bool polling, closing;
	int64_t deadline_ms, pause_ms, last_ms;
	unsigned restarts;
	int open_handles;
};

static void start(struct sampling *s);

static void take_snapshot(struct sampling *s, struct snapshot *snap)
{
	core_snapshot(s->d->core, snap, daemon_has_mps(s->d), daemon_now());
	recording_note(s->d->recording, snap, daemon_now());
	snapshot_clear(snap);
	s->last_ms = clock_mono_ms();
	s->pause_ms = 1000;
}

/* 0: all read for now; -1: the process is of no more use. */
static int drain(struct sampling *s, struct error *err)
{
	struct snapshot snap = { 0 };
	int rc;
	while ((rc = sampler_read(s->sampler, &snap, err)) == 1)
		take_snapshot(s, &snap);
	return rc;
}

static void stop_polling(struct sampling *s)
{
	if (s->polling)
		uv_poll_stop(&s->poll);
	s->polling = false;
}

static void on_timer(uv_timer_t *t);

static void restart_later(struct sampling *s)
{
	stop_polling(s);
	sampler_stop(s->sampler);
	s->restarts++;
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->pause_ms, 0);
	s->pause_ms = s->pause_ms * 2 > MAX_PAUSE_MS ? MAX_PAUSE_MS : s->pause_ms * 2;
}

static void on_timer(uv_timer_t *t)
{
	struct sampling *s = t->data;
	if (!s->polling) {
		start(s);
		return;
	}
	log_warn("sampler: no reading for %lld s: the driver may hang; starting another", (long long)s->deadline_ms / 1000);
	restart_later(s);
}

static void on_readable(uv_poll_t *p, int status, int events)
{
	struct sampling *s = p->data;
	struct error err = ERROR_INIT;
	(void)events;
	int rc = status < 0 ? error_set(&err, ERR_SYSTEM, "%s", uv_strerror(status)) : drain(s, &err);
	if (rc) {
		log_warn_limited("sampler: %s", err.text);
		restart_later(s);
		return;
	}
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->deadline_ms, 0);
}

static void on_poll_closed(uv_handle_t *h)
{
	struct sampling *s = h->data;
	int rc = uv_poll_init(s->d->loop, &s->poll, sampler_fd(s->sampler));
	s->poll.data = s;
	if (rc || uv_poll_start(&s->poll, UV_READABLE, on_readable)) {
		log_warn_limited("sampler: cannot watch its pipe");
		restart_later(s);
		return;
	}
	s->polling = true;
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->deadline_ms, 0);
}

/* The descriptor changes with every start, so the handle is closed and made again. */
static void start(struct sampling *s)
{
	struct error err = ERROR_INIT;
	if (s->closing)
		return;
	if (sampler_start(s->sampler, &err)) {
		log_warn_limited("sampler: %s", err.text);
		restart_later(s);
		return;
	}
	uv_close((uv_handle_t *)&s->poll, on_poll_closed);
}

/* Before the loop runs: waits for the first frame. 1: have one; 0: none in time; -1: the process ended. */
static int wait_first(struct sampling *s, int first_ms, struct error *err)
{
	int64_t until = clock_mono_ms() + first_ms;
	while (!s->last_ms) {
		int64_t left = until - clock_mono_ms();
		struct pollfd p = { .fd = sampler_fd(s->sampler), .events = POLLIN };
		if (left <= 0)
			return 0;
		poll(&p, 1, (int)left);
		if (drain(s, err))
			return -1;
	}
	return 1;
}

struct sampling *sampling_create(struct daemon *d, int first_ms, struct error *err)
{
	struct sampling *s = alloc_zero(sizeof *s);
	s->d = d;
	s->deadline_ms = d->config.interval_ms * 5 > MIN_DEADLINE_MS ? d->config.interval_ms * 5 : MIN_DEADLINE_MS;
	s->pause_ms = 1000;
	s->sampler = sampler_create(d->program, d->config.devices, d->config.interval_ms);
	if (sampler_start(s->sampler, err))
		goto fail;
	int first = wait_first(s, first_ms, err);
	if (first < 0)
		goto fail;
	if (!first)
		log_warn("no reading from '%s' yet: nothing is placed until there is one", d->config.devices);
	uv_timer_init(d->loop, &s->timer);
	uv_poll_init(d->loop, &s->poll, sampler_fd(s->sampler));
	s->timer.data = s->poll.data = s;
	uv_poll_start(&s->poll, UV_READABLE, on_readable);
	s->polling = true;
	uv_timer_start(&s->timer, on_timer, (uint64_t)s->deadline_ms, 0);
	return s;
fail:
	sampler_destroy(s->sampler);
	free(s);
	return NULL;
}

static void on_closed(uv_handle_t *h)
{
	struct sampling *s = h->data;
	if (--s->open_handles)
		return;
	sampler_destroy(s->sampler);
	free(s);
}

void sampling_destroy(struct sampling *s)
{
	if (!s)
		return;
	s->closing = true;
	s->open_handles = 2;
	uv_close((uv_handle_t *)&s->timer, on_closed);
	uv_close((uv_handle_t *)&s->poll, on_closed);
}

long long sampling_age_ms(const struct sampling *s)
{
	return s->last_ms ? clock_mono_ms() - s->last_ms : -1;
}

unsigned sampling_restarts(const struct sampling *s)
{
	return s->restarts;
}
