/* SPDX-License-Identifier: MIT */
#include "task/load.h"

#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct load_belief typical = { { 0.75, 0.5 }, 0.05, 0.0625, 0.25, NAN, 400, LOAD_INFERRED };

static void what_is_written_is_read_again(void **unused)
{
	(void)unused;
	struct error err = ERROR_INIT;
	struct load_belief back;
	scoped_json *v = load_to_json(&typical);
	assert_int_equal(load_from_json(v, &back, &err), 0);
	assert_int_equal(back.source, LOAD_INFERRED);
	assert_true(back.load.gract == 0.75 && back.load.smact == 0.5 && back.gract_sd == 0.05);
	assert_true(back.dram == 0.25 && isnan(back.dram_sd) && back.watts == 400);
}

static void a_zeroed_one_is_unknown(void **unused)
{
	(void)unused;
	struct load_belief zero = { 0 }, clean = load_clean(&zero), back;
	scoped_json *v = load_to_json(&zero);
	assert_true(json_is_null(v));
	assert_true(isnan(clean.load.gract) && isnan(clean.load.smact) && isnan(clean.watts));
	assert_int_equal(load_from_json(v, &back, NULL), 0);
	assert_int_equal(load_from_json(NULL, &back, NULL), 0);
	assert_int_equal(back.source, LOAD_UNKNOWN);
}

static void what_cannot_be_a_load_is_not_known(void **unused)
{
	(void)unused;
	struct load_belief b = typical;
	b.load.gract = 1.5, b.gract_sd = -1, b.watts = INFINITY, b.load.kernels = -1;
	struct load_belief c = load_clean(&b);
	assert_true(isnan(c.load.gract) && isnan(c.gract_sd) && isnan(c.watts) && c.load.kernels == 0);
	b.load.kernels = 40000;
	scoped_json *v = load_to_json(&b);
	struct load_belief back;
	assert_int_equal(load_from_json(v, &back, NULL), 0);
	assert_true(back.load.kernels == 40000);
	assert_true(c.load.smact == 0.5);
	const double runs[] = { 86400, -1, NAN, INFINITY, 1e30 };
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
		b.run_s = b.limit_s = runs[i];
		scoped_json *said = load_to_json(&b);
		assert_int_equal(load_from_json(said, &back, NULL), 0);
		assert_true(back.run_s == (i ? 0 : 86400) && load_clean(&b).run_s == back.run_s);
		assert_true(back.limit_s == back.run_s && load_clean(&b).limit_s == back.run_s);
	}
	const double cores[] = { 3.5, -1, NAN, INFINITY, 1e30 };
	for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
		b.cores = cores[i], b.loader = i ? cores[i] : 1.0 / 3;
		scoped_json *said = load_to_json(&b);
		assert_int_equal(load_from_json(said, &back, NULL), 0);
		assert_true(back.cores == (i ? 0 : 3.5) && load_clean(&b).cores == back.cores);
		assert_true(back.loader == (i ? 0 : 1.0 / 3) && load_clean(&b).loader == back.loader);
	}
	b.load.smact = -0.1;
	assert_int_equal(load_clean(&b).source, LOAD_UNKNOWN);
	b.source = (enum load_source)77;
	assert_int_equal(load_clean(&b).source, LOAD_UNKNOWN);
}

static void what_is_no_belief_is_refused_with_a_reason(void **unused)
{
	(void)unused;
	static const char *const wrong[] = {
		"[]", "7", "{\"gract\": 0.5}", "{\"source\": \"seen\"}", "{\"source\": \"guessed\", \"smact\": \"much\"}",
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct error err = ERROR_INIT;
		struct load_belief b;
		scoped_json *v = json_loads(wrong[i], JSON_DECODE_ANY, NULL);
		assert_int_equal(load_from_json(v, &b, &err), -1);
		assert_true(*err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(a_zeroed_one_is_unknown),
		cmocka_unit_test(what_cannot_be_a_load_is_not_known),
		cmocka_unit_test(what_is_no_belief_is_refused_with_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
