/* SPDX-License-Identifier: MIT
 * See capturing.h. A list: as many questions as jobs wait at a time, each for seconds.
 *
 * The one place that changes a spec. It may, since all who read captures and waits do so in this thread, and since no task of
 * the spec has been asked about with a capture yet: that is what they wait for, or what those that run do without.
 */
#include "daemon/capturing.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/timer.h"
#include "estimate/margin.h"

#include <assert.h>
#include <stdlib.h>

#define MOST_WAIT_MS (3600 * INT64_C(1000))

struct capturing_question {
	struct capturing_question *next;
	int64_t number;
	const struct estimator *row;
	struct spec *spec;		/* one reference */
	uint64_t declared_mib;
	struct estimate_context context;	/* of this question alone */
	char gpu_name[64];
	int64_t until_ms;		/* mono */
};

struct capturing {
	capturing_ask ask;
	estimating_done done;
	void *ctx;
	struct capturing_question *first;
	uv_timer_t timer;
};

static void on_timer(uv_timer_t *t);

static void capturing_free(struct capturing_question *q)
{
	spec_unref(q->spec);
	free(q);
}

static void capturing_set_timer(struct capturing *c)
{
	int64_t until = INT64_MAX;
	for (const struct capturing_question *q = c->first; q; q = q->next)
		until = q->until_ms < until ? q->until_ms : until;
	timer_set(&c->timer, on_timer, until, clock_mono_ms());
}

static void capturing_decline(struct capturing *c, const struct capturing_question *q, const char *why)
{
	struct estimate_result said = { .note[0] = 0 };
	snprintf(said.value.estimator, sizeof said.value.estimator, "%s", q->row->name);
	text_printf(said.note, sizeof said.note, "%s: no capture: %.150s", q->row->name, *why ? why : "it failed");
	c->done(c->ctx, q->number, false, &said);
}

/* Takes a question about that spec, or with NULL one whose time is over, out of the list; NULL if there is none. One at a time,
 * since the list may change while somebody is told. */
static struct capturing_question *capturing_take(struct capturing *c, const struct spec *spec, int64_t due_ms)
{
	for (struct capturing_question **at = &c->first; *at; at = &(*at)->next) {
		struct capturing_question *q = *at;
		if (spec ? q->spec != spec : q->until_ms > due_ms)
			continue;
		*at = q->next;
		return q;
	}
	return NULL;
}

static void on_timer(uv_timer_t *t)
{
	struct capturing *c = t->data;
	struct capturing_question *q;
	while ((q = capturing_take(c, NULL, clock_mono_ms()))) {
		capturing_decline(c, q, q->spec->capture_turn_s ? "its turn did not come in time" : "it was not there in time");
		capturing_free(q);
	}
	capturing_set_timer(c);
}

/* A wall clock that was set back makes nobody wait for more than MOST_WAIT_MS. */
static int64_t capturing_left_ms(const struct spec *spec)
{
	int64_t left = spec->capture_until_s * 1000 - clock_wall_ms();
	return left < MOST_WAIT_MS ? left : MOST_WAIT_MS;
}

/* Whoever has one waits for none, whatever time was set. */
bool capturing_may_come(const struct spec *spec)
{
	return !spec->capture && capturing_left_ms(spec) > 0;
}

struct capturing *capturing_create(uv_loop_t *loop, capturing_ask ask, estimating_done done, void *ctx)
{
	struct capturing *c = alloc_zero(sizeof *c);
	*c = (struct capturing){ .ask = ask, .done = done, .ctx = ctx };
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	return c;
}

void capturing_wait(struct capturing *c, int64_t question, const struct estimator *row, struct spec *spec,
		    uint64_t declared_mib, const struct estimate_context *context)
{
	struct capturing_question *q = alloc_zero(sizeof *q);
	assert(!spec->capture);
	*q = (struct capturing_question){ .next = c->first, .number = question, .row = row, .spec = spec_ref(spec),
					  .declared_mib = declared_mib, .until_ms = clock_mono_ms() + capturing_left_ms(spec) };
	snprintf(q->gpu_name, sizeof q->gpu_name, "%s", context->gpu_name ? context->gpu_name : "");
	q->context = (struct estimate_context){ .gpu_total_mib = context->gpu_total_mib, .margin = context->margins ?
						margins_of(context->margins, row->name, spec->signature) : context->margin,
						.gpu_name = context->gpu_name ? q->gpu_name : NULL };
	c->first = q;
	capturing_set_timer(c);
}

/* By the spec itself and not by its text: elements of an array share one, and two submissions of the same script wait for
 * captures of their own. */
bool capturing_awaits(const struct capturing *c, const struct spec *spec)
{
	for (const struct capturing_question *q = c->first; q; q = q->next)
		if (q->spec == spec)
			return true;
	return false;
}

bool capturing_goes_on(struct capturing *c, struct spec *spec, int64_t wait_ms, bool begun, bool aside)
{
	int64_t until_s = (clock_wall_ms() + wait_ms + 999) / 1000;
	bool news = aside && !spec->capture_aside;
	spec->capture_aside |= aside;
	if (begun)
		spec->capture_turn_s = 0;
	spec->capture_until_s = begun || until_s < spec->capture_turn_s ? until_s : spec->capture_turn_s;
	for (struct capturing_question *q = c->first; q; q = q->next)
		if (q->spec == spec)
			q->until_ms = clock_mono_ms() + capturing_left_ms(spec);
	capturing_set_timer(c);
	return news;
}

/* In the spec before anybody is told, since all elements of an array share it, and who is asked next reads it there. */
void capturing_came(struct capturing *c, struct spec *spec, char *capture, const char *said)
{
	struct capturing_question *q;
	spec->capture_until_s = spec->capture_turn_s = 0;
	if (capture) {
		free(spec->capture);
		free(spec->capture_notes);
		spec->capture = capture;
		spec->capture_notes = *said ? alloc_string(said) : NULL;
	}
	while ((q = capturing_take(c, spec, 0))) {
		if (capture)
			c->ask(c->ctx, q->number, q->row, spec, q->declared_mib, &q->context);
		else
			capturing_decline(c, q, said);
		capturing_free(q);
	}
	capturing_set_timer(c);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

/* Nobody is told: the tasks wait in the store, and the next radd asks for them anew. */
void capturing_destroy(struct capturing *c)
{
	if (!c)
		return;
	for (struct capturing_question *q = c->first, *next; q; q = next) {
		next = q->next;
		capturing_free(q);
	}
	uv_close((uv_handle_t *)&c->timer, on_closed);
}
