/* SPDX-License-Identifier: MIT
 * A ring of samples with running sums. Sums are whole numbers (millionths times milliseconds), so that what is added and
 * later taken off cancels exactly, however long the daemon runs.
 */
#include "monitor/window.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MILLION 1000000
#define FINEST_MS 250
#define LONGEST_MS 3600000

enum { GRACT, SMACT, FIELDS };
static const uint32_t field_bit[FIELDS] = { GPU_GRACT, GPU_SMACT };

struct sample {
	int64_t mono_ms;
	int32_t for_ms;			/* the time it speaks for */
	int32_t millionths[FIELDS];	/* -1: not known */
};

struct sum {
	int64_t weighted;	/* millionths * ms */
	int64_t ms;		/* over this time */
	bool settling;		/* a change came, and too little is known since: `expected` holds */
	bool expected_known;
	double expected;	/* not clamped, so that coming and going add up */
};

struct window {
	int64_t span_ms, settle_ms;
	int64_t last_ms, change_ms;	/* newest sample (INT64_MIN: none); last change */
	struct sum sum[FIELDS];
	size_t first, n, cap;
	struct sample ring[];
};

static int64_t between(int64_t v, int64_t low, int64_t high)
{
	return v < low ? low : v > high ? high : v;
}

struct window *window_create(const struct window_config *config)
{
	int64_t span_ms = between(config->span_ms, FINEST_MS, LONGEST_MS);
	size_t cap = (size_t)(span_ms / FINEST_MS);
	struct window *w = alloc_zero(sizeof *w + cap * sizeof *w->ring);
	w->span_ms = span_ms;
	w->settle_ms = between(config->settle_ms, 1, span_ms);
	w->last_ms = w->change_ms = INT64_MIN;
	w->cap = cap;
	return w;
}

void window_destroy(struct window *w)
{
	free(w);
}

/* Adds (sign 1) or takes off (sign -1) what a sample contributes. */
static void account(struct window *w, const struct sample *s, int sign)
{
	for (int f = 0; f < FIELDS; f++) {
		if (s->millionths[f] < 0)
			continue;
		w->sum[f].weighted += (int64_t)sign * s->millionths[f] * s->for_ms;
		w->sum[f].ms += sign * s->for_ms;
	}
}

static void drop_oldest(struct window *w)
{
	account(w, &w->ring[w->first], -1);
	w->first = (w->first + 1) % w->cap;
	w->n--;
}

/* A sample that reaches back over the edge keeps the part that does not. */
static void forget_before(struct window *w, int64_t edge_ms)
{
	while (w->n && w->ring[w->first].mono_ms <= edge_ms)
		drop_oldest(w);
	struct sample *s = &w->ring[w->first];
	if (!w->n || s->mono_ms - s->for_ms >= edge_ms)
		return;
	account(w, s, -1);
	s->for_ms = (int32_t)(s->mono_ms - edge_ms);
	account(w, s, 1);
}

/* By comparisons, and rounded by a cast: lround, fmin and fmax are calls, and each sample of each GPU comes by here. */
static double clamped(double v)
{
	return v > 0 ? v < 1 ? v : 1 : 0;
}

static int32_t to_millionths(double v)
{
	return isfinite(v) ? (int32_t)(clamped(v) * MILLION + 0.5) : -1;
}

static struct sample sample_of(const struct gpu_reading *r, int64_t mono_ms, int64_t for_ms)
{
	const double value[FIELDS] = { r->gract, r->smact };
	struct sample s = { .mono_ms = mono_ms, .for_ms = (int32_t)for_ms };
	for (int f = 0; f < FIELDS; f++)
		s.millionths[f] = r->valid & field_bit[f] ? to_millionths(value[f]) : -1;
	return s;
}

static void push(struct window *w, int64_t mono_ms, int64_t for_ms, const struct gpu_reading *r)
{
	if (w->n == w->cap)
		drop_oldest(w);
	struct sample *s = &w->ring[(w->first + w->n++) % w->cap];
	*s = sample_of(r, mono_ms, for_ms);
	account(w, s, 1);
}

static void add(struct window *w, int64_t mono_ms, const struct gpu_reading *r, int64_t most_ms)
{
	int64_t last_ms = w->last_ms;
	assert(most_ms > 0 && w->n <= w->cap);
	if (mono_ms <= last_ms)
		return;
	w->last_ms = mono_ms;
	forget_before(w, mono_ms - w->span_ms);
	if (last_ms != INT64_MIN && last_ms >= w->change_ms)
		push(w, mono_ms, between(mono_ms - last_ms, 0, most_ms), r);
	for (int f = 0; f < FIELDS; f++)
		if (w->sum[f].ms >= w->settle_ms || mono_ms - w->span_ms >= w->change_ms)
			w->sum[f].settling = false;
}

void window_add(struct window *w, int64_t mono_ms, const struct gpu_reading *r)
{
	add(w, mono_ms, r, w->span_ms / 10);
}

void window_add_span(struct window *w, int64_t mono_ms, const struct gpu_reading *r)
{
	add(w, mono_ms, r, w->span_ms);
}

/* The load of one field, not clamped. */
static bool field_load(const struct sum *s, double *value)
{
	if (s->settling)
		*value = s->expected;
	else if (s->ms)
		*value = (double)s->weighted / (double)s->ms / MILLION;
	return s->settling ? s->expected_known : s->ms > 0;
}

void window_idle(struct window *w)
{
	for (int f = 0; f < FIELDS; f++)
		if (!w->sum[f].ms && !w->sum[f].settling)
			w->sum[f] = (struct sum){ .settling = true, .expected_known = true };
}

void window_change(struct window *w, int64_t mono_ms, struct load delta)
{
	const double expected[FIELDS] = { delta.gract, delta.smact };
	const bool known[FIELDS] = { delta.gract_known, delta.smact_known };
	for (int f = 0; f < FIELDS; f++) {
		double before = 0;
		bool before_known = field_load(&w->sum[f], &before) && isfinite(expected[f]);
		w->sum[f] = (struct sum){
			.settling = true,
			.expected_known = before_known && known[f],
			.expected = before + expected[f],
		};
	}
	w->n = 0;
	if (mono_ms > w->change_ms)
		w->change_ms = mono_ms;
}

struct load window_load(const struct window *w)
{
	struct load load = { 0 };
	load.gract_known = field_load(&w->sum[GRACT], &load.gract);
	load.smact_known = field_load(&w->sum[SMACT], &load.smact);
	load.gract = load.gract_known ? clamped(load.gract) : 0;
	load.smact = load.smact_known ? clamped(load.smact) : 0;
	return load;
}

static void sum_add(struct sum sum[FIELDS], const struct sample *s, int64_t for_ms)
{
	for (int f = 0; f < FIELDS; f++)
		if (s->millionths[f] >= 0) {
			sum[f].weighted += s->millionths[f] * for_ms;
			sum[f].ms += for_ms;
		}
}

/* As window_add_span would make the sums, without the ring: whole numbers, so it comes to the same however many samples the
 * time is cut into. What is expected after a change stands; that it settles is an event of its own. */
struct load window_load_at(const struct window *w, int64_t mono_ms, const struct gpu_reading *r)
{
	const int64_t edge_ms = mono_ms - w->span_ms, from_ms = w->last_ms > edge_ms ? w->last_ms : edge_ms;
	const struct sample new = sample_of(r, mono_ms, 0);
	struct window then = { .span_ms = w->span_ms };
	assert(w->last_ms != INT64_MIN && mono_ms >= w->last_ms);
	memcpy(then.sum, w->sum, sizeof then.sum);
	sum_add(then.sum, &new, mono_ms - from_ms);
	for (size_t i = 0; i < w->n; i++) {
		const struct sample *s = &w->ring[(w->first + i) % w->cap];
		int64_t out_ms = edge_ms - (s->mono_ms - s->for_ms);
		if (out_ms <= 0)
			break;
		sum_add(then.sum, s, -(out_ms < s->for_ms ? out_ms : s->for_ms));
	}
	return window_load(&then);
}

bool window_expects(const struct window *w)
{
	return w->sum[SMACT].settling && w->sum[SMACT].expected_known;
}
