/* SPDX-License-Identifier: MIT
 * Estimators: the table's contract for every row, what `declared` and `none` say, and what `auto` makes of them.
 */
#include "base/scope.h"
#include "estimate/estimate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_every_row_keeps_the_contract(void **state)
{
	struct estimate_context c = { .gpu_name = "NVIDIA H200", .gpu_total_mib = 143771 };
	struct spec *s = spec_create();
	unsigned rows = 0;

	(void)state;
	for (const struct estimator *e = estimators; e->name; e++, rows++) {
		for (uint64_t declared = 0; declared <= 9000; declared += 9000) {
			struct estimate_result r;
			bool spoke = estimate_ask(e, s, declared, &c, &r);

			assert_string_equal(r.value.estimator, e->name);
			assert_true(r.note[0] != '\0');
			assert_true(strlen(e->help) > 0);
			if (!spoke)
				continue;
			assert_true(r.value.need_mib <= r.value.comfort_mib);
			assert_true(r.value.comfort_mib <= r.value.claim_mib);
		}
		assert_ptr_equal(estimate_find(e->name, NULL), e);
	}
	assert_true(rows >= 2);
	spec_unref(s);
}

static void test_unknown_name_lists_the_known(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_null(estimate_find("oracle", &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.text, "'oracle'"));
	assert_non_null(strstr(err.text, "auto, declared"));
}

struct auto_case {
	const char *what;
	uint64_t declared_mib, floor_mib;
	const char *estimator;
	uint64_t claim_mib;
	bool fenced;
	const char *note;	/* a part of it */
};

static const struct auto_case auto_cases[] = {
	{ "declared is taken", 12000, 0, "declared", 12000, true, "declared" },
	{ "nothing known", 0, 0, "none", 0, false, "nothing is known" },
	{ "a floor refutes a smaller declaration", 8000, 11000, "declared", 11000, true, "11000 MiB before" },
	{ "a floor below says nothing", 12000, 11000, "declared", 12000, true, "declared" },
	{ "a floor is better than nothing", 0, 11000, "none", 11000, false, "11000 MiB before" },
};

static void test_auto(void **state)
{
	struct spec *s = spec_create();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(auto_cases); i++) {
		const struct auto_case *k = &auto_cases[i];
		struct estimate_history h = { .oom_floor_mib = k->floor_mib };
		struct estimate_context c = { .history = k->floor_mib ? &h : NULL };
		struct estimate_result r;

		print_message("%s\n", k->what);
		memset(&r, 0xff, sizeof r);
		estimate_auto(s, k->declared_mib, &c, &r);
		assert_string_equal(r.value.estimator, k->estimator);
		assert_int_equal(r.value.claim_mib, k->claim_mib);
		assert_int_equal(r.value.need_mib, k->claim_mib);
		assert_int_equal(r.value.comfort_mib, k->claim_mib);
		assert_int_equal(r.value.fenced, k->fenced);
		assert_int_equal(r.value.enforced_for_life, k->fenced);
		assert_non_null(strstr(r.note, k->note));
	}
	spec_unref(s);
}

/* The spec's own figure is what was asked at submission; the task's, which may have been updated, is what counts. */
static void test_updated_declaration_counts(void **state)
{
	struct spec *s = spec_create();
	struct estimate_context c = { 0 };
	struct estimate_result r;

	(void)state;
	s->gpu_mem_mib = 4000;
	estimate_auto(s, 6000, &c, &r);
	assert_int_equal(r.value.claim_mib, 6000);
	estimate_auto(s, 0, &c, &r);
	assert_string_equal(r.value.estimator, "none");
	spec_unref(s);
}

/* A chosen estimator alone is asked; what it cannot say, nobody says; floors hold all the same. */
static void test_one_by_choice(void **state)
{
	struct spec *s = spec_create();
	struct estimate_history h = { .oom_floor_mib = 7000 };
	struct estimate_context c = { 0 };
	struct estimate_result r;

	(void)state;
	estimate_by(estimate_find("none", NULL), s, 6000, &c, &r);
	assert_string_equal(r.value.estimator, "none");
	assert_int_equal(r.value.claim_mib, 0);
	estimate_by(estimate_find("declared", NULL), s, 0, &c, &r);
	assert_string_equal(r.value.estimator, "none");
	c.history = &h;
	estimate_by(estimate_find("declared", NULL), s, 6000, &c, &r);
	assert_int_equal(r.value.claim_mib, 7000);
	estimate_by(NULL, s, 8000, &c, &r);
	assert_string_equal(r.value.estimator, "declared");
	assert_int_equal(r.value.claim_mib, 8000);
	spec_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_keeps_the_contract),
		cmocka_unit_test(test_unknown_name_lists_the_known),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_updated_declaration_counts),
		cmocka_unit_test(test_one_by_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
