/* SPDX-License-Identifier: MIT
 * Windows of load: scripts of samples and changes, each with the load expected after it.
 */
#include "monitor/window.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

enum what { END, SAMPLE, SPAN, NO_SMACT, NOTHING, COME, GO, GO_UNKNOWN, LOAD, UNKNOWN, EXPECTS };

/* One line of a script. Samples: `every` ms apart until `at`, each with that value. LOAD, UNKNOWN and EXPECTS check. */
struct step { enum what what; int64_t at, every; double value; };

static void sample(struct window *w, int64_t from, const struct step *s)
{
	struct gpu_reading r = { .gract = s->value, .smact = s->value, .valid = GPU_GRACT | GPU_SMACT };
	if (s->what == SPAN) {
		window_add_span(w, s->at, &r);
		return;
	}
	if (s->what == NO_SMACT)
		r.valid = GPU_GRACT, r.smact = 0;
	if (s->what == NOTHING)
		r.valid = GPU_MEM_USED, r.gract = r.smact = 0;
	for (int64_t t = from + s->every; t <= s->at; t += s->every)
		window_add(w, t, &r);
}

static void check(struct window *w, const char *name, int line, const struct step *s)
{
	struct load load = window_load(w);
	if (s->what == UNKNOWN) {
		if (load.smact_known)
			fail_msg("%s, step %d: SMACT is known: %.3f", name, line, load.smact);
		return;
	}
	if (!load.smact_known || fabs(load.smact - s->value) > 1e-6)
		fail_msg("%s, step %d: SMACT is %s %.6f, not %.6f", name, line, load.smact_known ? "" : "unknown",
			 load.smact, s->value);
}

static void run(const char *name, const struct step *steps)
{
	struct window *w = window_create(&(struct window_config){ 90000, 30000 });
	int64_t now = 0;
	for (int i = 0; steps[i].what != END; i++) {
		const struct step *s = &steps[i];
		switch (s->what) {
		case SAMPLE: case SPAN: case NO_SMACT: case NOTHING:
			sample(w, now, s);
			break;
		case COME: case GO: case GO_UNKNOWN:
			window_change(w, s->at, (struct load){ s->value, s->value, true, s->what != GO_UNKNOWN });
			break;
		case EXPECTS:
			assert_int_equal(window_expects(w), s->at);
			continue;
		default:
			check(w, name, i, s);
			continue;
		}
		now = s->at;
	}
	window_destroy(w);
}

static void test_scripts(void **state)
{
	(void)state;
	static const struct { const char *name; struct step steps[16]; } scripts[] = {
		{ "nothing is not zero", { { UNKNOWN } } },
		{ "one sample speaks for no time", { { SAMPLE, 1000, 1000, .7 }, { UNKNOWN } } },
		{ "before a change: the plain mean", {
			{ SAMPLE, 1000, 1000, .7 }, { SAMPLE, 2000, 1000, .7 }, { LOAD, .value = .7 } } },
		{ "a full window forgets what is older than its span", {
			{ SAMPLE, 100000, 1000, 1 }, { LOAD, .value = 1 },
			{ SAMPLE, 145000, 1000, 0 }, { LOAD, .value = .5 },
			{ SAMPLE, 190000, 1000, 0 }, { LOAD, .value = 0 } } },
		{ "an arrival: expected until settled, then measured", {
			{ SAMPLE, 91000, 1000, .3 }, { EXPECTS, 0 }, { COME, 91000, 0, .5 }, { LOAD, .value = .8 }, { EXPECTS, 1 },
			{ SAMPLE, 120000, 1000, .1 }, { LOAD, .value = .8 }, { EXPECTS, 1 },
			{ SAMPLE, 121000, 1000, .1 }, { LOAD, .value = .1 }, { EXPECTS, 0 } } },
		{ "a leaver takes its load with it, at once", {
			{ SAMPLE, 91000, 1000, .9 }, { GO, 91000, 0, -.4 }, { LOAD, .value = .5 } } },
		{ "a sample that reaches back over a change does not count", {
			{ SAMPLE, 60000, 1000, .9 }, { GO, 60500, 0, -.9 }, { LOAD, .value = 0 },
			{ SAMPLE, 61500, 1000, .8 }, { SAMPLE, 90500, 1000, 0 }, { EXPECTS, 1 }, { SAMPLE, 91500, 1000, 0 },
			{ EXPECTS, 0 }, { LOAD, .value = 0 } } },
		{ "expectations add up over several changes, and clamp only when read", {
			{ SAMPLE, 91000, 1000, .9 }, { COME, 91000, 0, .5 }, { LOAD, .value = 1 }, { COME, 92000, 0, .5 },
			{ LOAD, .value = 1 }, { GO, 93000, 0, -.5 }, { GO, 94000, 0, -.5 }, { LOAD, .value = .9 },
			{ GO, 95000, 0, -2 }, { LOAD, .value = 0 } } },
		{ "a settled window starts the next expectation from its mean", {
			{ SAMPLE, 91000, 1000, .2 }, { COME, 91000, 0, .5 }, { SAMPLE, 131000, 1000, .4 },
			{ LOAD, .value = .4 }, { COME, 131000, 0, .3 }, { LOAD, .value = .7 } } },
		{ "a change before anything is known", {
			{ COME, 1000, 0, .5 }, { UNKNOWN }, { SAMPLE, 31000, 1000, .6 }, { UNKNOWN },
			{ SAMPLE, 32000, 1000, .6 }, { LOAD, .value = .6 } } },
		{ "a leaver of unknown load", {
			{ SAMPLE, 91000, 1000, .9 }, { GO_UNKNOWN, 91000 }, { UNKNOWN },
			{ SAMPLE, 121000, 1000, .2 }, { LOAD, .value = .2 } } },
		{ "readings without the bit are not zeros", {
			{ SAMPLE, 50000, 1000, .6 }, { NO_SMACT, 80000, 1000, .6 }, { LOAD, .value = .6 },
			{ NOTHING, 100000, 1000, 0 }, { LOAD, .value = .6 } } },
		{ "and do not settle", {
			{ SAMPLE, 91000, 1000, .2 }, { COME, 91000, 0, .5 }, { NO_SMACT, 131000, 1000, .3 },
			{ LOAD, .value = .7 }, { SAMPLE, 160000, 1000, .3 }, { LOAD, .value = .7 },
			{ SAMPLE, 161000, 1000, .3 }, { LOAD, .value = .3 } } },
		{ "an expectation does not outlive a span without readings", {
			{ SAMPLE, 91000, 1000, .2 }, { COME, 91000, 0, .5 }, { NOTHING, 180000, 1000, 0 },
			{ LOAD, .value = .7 }, { NOTHING, 182000, 1000, 0 }, { UNKNOWN },
			{ SAMPLE, 183000, 1000, .4 }, { LOAD, .value = .4 } } },
		{ "readings that stop become unknown, not zero", {
			{ SAMPLE, 91000, 1000, .6 }, { NOTHING, 185000, 1000, 0 }, { UNKNOWN } } },
		{ "a silence is not filled with what comes after it", {
			{ SAMPLE, 31000, 1000, 0 }, { SAMPLE, 91000, 60000, 1 },
			{ LOAD, .value = 9. / 39 } } },
		{ "a silence longer than the span leaves only what is new", {
			{ SAMPLE, 91000, 1000, .9 }, { SAMPLE, 991000, 900000, .1 }, { LOAD, .value = .1 },
			{ SAMPLE, 1000000, 1000, 1 }, { LOAD, .value = .55 } } },
		{ "samples weigh by their time", {
			{ SAMPLE, 11000, 1000, 1 }, { SAMPLE, 16000, 5000, 0 }, { LOAD, .value = 10. / 15 } } },
		{ "a reading that stood speaks for all of its time", {
			{ SAMPLE, 31000, 1000, 0 }, { SPAN, 61000, 0, 1 }, { LOAD, .value = .5 } } },
		{ "and is cut at the edge of the window", {
			{ SAMPLE, 1000, 1000, 0 }, { SPAN, 61000, 0, 1 }, { SPAN, 121000, 0, 0 },
			{ LOAD, .value = 30. / 90 }, { SPAN, 131000, 0, 0 }, { LOAD, .value = 20. / 90 } } },
		{ "one that stood settles a change as samples do", {
			{ SAMPLE, 91000, 1000, .2 }, { COME, 91000, 0, .5 }, { SPAN, 120000, 0, .4 }, { LOAD, .value = .7 },
			{ SPAN, 121000, 0, .4 }, { LOAD, .value = .4 } } },
		{ "values out of range are clamped", { { SAMPLE, 91000, 1000, 7 }, { LOAD, .value = 1 } } },
	};
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
		run(scripts[i].name, scripts[i].steps);
}

static void test_time_that_does_not_go_forward(void **state)
{
	(void)state;
	struct window *w = window_create(&(struct window_config){ 90000, 30000 });
	struct gpu_reading r = { .smact = .5, .valid = GPU_SMACT };
	for (int64_t t = 1000; t <= 5000; t += 1000)
		window_add(w, t, &r);
	r.smact = 1;
	window_add(w, 5000, &r);
	window_add(w, 2000, &r);
	struct load load = window_load(w);
	assert_true(fabs(load.smact - .5) < 1e-6 && !load.gract_known);
	window_add(w, 6000, &r);
	assert_true(fabs(window_load(w).smact - .6) < 1e-6);	/* one second beside the four before */
	window_destroy(w);
}

static void test_not_a_number_is_unknown(void **state)
{
	(void)state;
	struct window *w = window_create(&(struct window_config){ 90000, 30000 });
	struct gpu_reading r = { .smact = NAN, .gract = .25, .valid = GPU_SMACT | GPU_GRACT };
	for (int64_t t = 1000; t <= 60000; t += 1000)
		window_add(w, t, &r);
	struct load load = window_load(w);
	assert_true(load.gract_known && !load.smact_known && load.gract == .25);
	window_change(w, 60000, (struct load){ NAN, NAN, true, true });
	assert_false(window_load(w).gract_known);
	window_destroy(w);
}

static void test_an_idle_gpu_has_no_load(void **state)
{
	(void)state;
	const struct window_config config = { .span_ms = 90000, .settle_ms = 30000 };
	struct window *w = window_create(&config);
	assert_false(window_load(w).smact_known);
	window_idle(w);
	assert_true(window_load(w).smact_known && window_load(w).smact == 0);
	window_change(w, 1000, (struct load){ 0.5, 0.5, true, true });
	assert_true(window_load(w).smact_known && window_load(w).smact == 0.5);
	/* What was measured is not forgotten. */
	struct gpu_reading busy = { .valid = GPU_SMACT | GPU_GRACT, .smact = 0.7, .gract = 0.9 };
	for (int64_t t = 2000; t <= 60000; t += 1000)
		window_add(w, t, &busy);
	window_idle(w);
	assert_true(fabs(window_load(w).smact - 0.7) < 1e-6);
	window_destroy(w);
}

/* Faster than the ring holds: the window gets shorter, the memory does not grow, and sums stay exact over many wraps. */
static void test_ring_wraps(void **state)
{
	(void)state;
	struct window *w = window_create(&(struct window_config){ 10000, 3000 });
	struct gpu_reading r = { .valid = GPU_SMACT };
	int64_t t = 0;
	for (int i = 0; i < 200000; i++) {
		r.smact = i % 3 / 3.0;
		window_add(w, t += 100, &r);
	}
	r.smact = .125;
	for (int i = 0; i < 40; i++)
		window_add(w, t += 100, &r);
	assert_true(window_load(w).smact == .125);
	r.smact = .625;
	for (int i = 0; i < 20; i++)
		window_add(w, t += 100, &r);
	assert_true(window_load(w).smact == .375);	/* as many as 250 ms apart fit: four seconds of these */
	window_destroy(w);
}

/* The mean that was foretold is the one that comes, wherever the time until then is cut, and the window is as before. */
static void test_what_is_foretold_comes(void **state)
{
	(void)state;
	uint64_t dice = 7;
	for (int round = 0; round < 500; round++) {
		struct window *w = window_create(&(struct window_config){ 5000 + (int64_t)(dice >> 40) % 90000, 1000 });
		struct gpu_reading r = { .valid = GPU_SMACT | GPU_GRACT };
		int64_t t = 1000;
		for (int i = 0; i < 12; i++) {
			dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
			r.smact = (double)(dice >> 33) / 2147483648.0;
			r.gract = (double)(dice >> 50) / 16384.0;
			r.valid = dice >> 60 ? GPU_SMACT | GPU_GRACT : GPU_GRACT;
			if (i == 4)
				window_change(w, t, (struct load){ .2, .2, true, true });
			window_add_span(w, t += 1 + (int64_t)(dice >> 48) % 30000, &r);
		}
		struct load before = window_load(w);
		int64_t then = t + (int64_t)(dice >> 44) % 200000;
		struct load foretold = window_load_at(w, then, &r), again = window_load(w);
		assert_memory_equal(&before, &again, sizeof before);
		for (; t < then; t += 700)
			window_add_span(w, t, &r);
		window_add_span(w, then, &r);
		struct load came = window_load(w);
		assert_int_equal(came.smact_known, foretold.smact_known);
		assert_true(came.smact == foretold.smact && came.gract == foretold.gract);
		window_destroy(w);
	}
}

static void test_absurd_configuration(void **state)
{
	(void)state;
	const struct window_config configs[] = { { 0, 0 }, { -5, -5 }, { INT64_MAX, INT64_MAX }, { 90000, INT64_MAX } };
	struct gpu_reading r = { .smact = .5, .valid = GPU_SMACT };
	for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
		struct window *w = window_create(&configs[i]);
		for (int64_t t = 1000; t <= 9000000; t += 1000)
			window_add(w, t, &r);
		assert_true(window_load(w).smact == .5);
		window_destroy(w);
	}
	window_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_an_idle_gpu_has_no_load),
		cmocka_unit_test(test_time_that_does_not_go_forward),
		cmocka_unit_test(test_not_a_number_is_unknown),
		cmocka_unit_test(test_ring_wraps),
		cmocka_unit_test(test_what_is_foretold_comes),
		cmocka_unit_test(test_absurd_configuration),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
