/* SPDX-License-Identifier: MIT
 * What company cost, from what is known of rates; and that the store keeps it.
 */
#include "task/pace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct case_of { struct pace p; double alone_s, work_s, slowdown; const char *source; };

static void test_slowdown(void **state)
{
	static const struct case_of cases[] = {
		{ { .ran_s = 100 }, 100, 100, 1, "alone" },
		{ { .ran_s = 100 }, 99.5, 80, 1, "alone" },
		/* 50 s at half its rate: 25 s of work lost */
		{ { .ran_s = 100, .alone_units = 400, .alone_s = 40, .company_units = 200, .company_s = 40 }, 50, 90, 100 / 75., "measured" },
		{ { .ran_s = 100, .alone_units = 10, .alone_s = 1, .company_units = 200, .company_s = 40 }, 2, 80, 1.25, "law" },
		{ { .ran_s = 100, .company_units = 200, .company_s = 40, .before_per_s = 10 }, 0, 80, 2, "history" },
		{ { .ran_s = 100, .company_units = 200, .company_s = 40 }, 0, 80, 1.25, "law" },
		{ { .ran_s = 100, .before_per_s = 10 }, 0, 80, 1.25, "law" },
		{ { .ran_s = 100 }, 0, NAN, NAN, NULL }, { { .ran_s = 100 }, NAN, 80, NAN, NULL }, { { .ran_s = 0 }, 0, 0, NAN, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *source = "";
		double s = pace_slowdown(&cases[i].p, cases[i].alone_s, cases[i].work_s, &source);
		if (isnan(cases[i].slowdown) ? !isnan(s) : fabs(s - cases[i].slowdown) > 1e-9)
			fail_msg("case %zu: %g", i, s);
		assert_true(source == cases[i].source || !strcmp(source, cases[i].source));
	}
}

static void test_kept(void **state)
{
	struct pace a = { 100, 1000, 400, 40, 200, 40.125, 10.0625 }, b;
	(void)state;
	json_t *v = pace_to_json(&a);
	assert_int_equal(pace_from_json(v, &b, NULL), 0);
	assert_memory_equal(&a, &b, sizeof a);
	json_decref(v);
	struct pace none = { .ran_s = 0 };
	v = pace_to_json(&none);
	assert_true(json_is_null(v));
	assert_int_equal(pace_from_json(v, &b, NULL), 0);
	assert_memory_equal(&b, &none, sizeof b);
	assert_int_equal(pace_from_json(NULL, &b, NULL), 0);	/* of an earlier version */
	json_decref(v);
}

static void test_what_cannot_be(void **state)
{
	struct error err = ERROR_INIT;
	struct pace p;
	(void)state;
	json_t *v = json_pack("{sf, sf, sf}", "ran_s", -5., "alone_s", 1e300, "company_units", 3.);
	assert_int_equal(pace_from_json(v, &p, &err), 0);
	assert_true(p.ran_s == 0 && p.alone_s == 0 && p.company_units == 3);
	json_object_set_new(v, "ran_s", json_string("long"));
	assert_int_equal(pace_from_json(v, &p, &err), -1);
	json_decref(v);
	v = json_integer(3);
	assert_int_equal(pace_from_json(v, &p, &err), -1);
	json_decref(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slowdown), cmocka_unit_test(test_kept), cmocka_unit_test(test_what_cannot_be),
	};
	return cmocka_run_group_tests_name("task/pace", tests, NULL, NULL);
}
