/* SPDX-License-Identifier: MIT
 * Estimators: the table's contract for every row, what `declared` and `none` say, and what `auto` makes of them.
 */
#include "base/scope.h"
#include "estimate/estimate.h"
#include "estimate/margin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
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
	{ "a floor refutes a smaller declaration", 8000, 11000, "declared", 11000, true, "raised to 11000 MiB: " },
	{ "a floor below says nothing", 12000, 11000, "declared", 12000, true, "declared" },
	{ "a floor is better than nothing", 0, 11000, "none", 11000, false, "raised to 11000 MiB: " },
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
		assert_null(estimate_auto(estimators, SLOW_STOP, s, k->declared_mib, &c, &r));
		estimate_conclude(&c, &r);
		assert_string_equal(r.value.estimator, k->estimator);
		assert_int_equal(r.value.claim_mib, k->claim_mib);
		assert_int_equal(r.value.need_mib, k->claim_mib);
		assert_int_equal(r.value.comfort_mib, k->claim_mib);
		assert_int_equal(r.value.fenced, k->fenced);
		assert_int_equal(r.value.enforced_for_life, k->fenced);
		assert_non_null(strstr(r.value.note, k->note));
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
	estimate_auto(estimators, SLOW_ASK, s, 6000, &c, &r);
	assert_int_equal(r.value.claim_mib, 6000);
	estimate_auto(estimators, SLOW_ASK, s, 0, &c, &r);
	assert_string_equal(r.value.estimator, "none");
	spec_unref(s);
}

static bool is_slow(const struct spec *s)
{
	return s->batch_size == 1;
}

static bool silent(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	(void)s, (void)declared_mib, (void)c;
	snprintf(out->note, sizeof out->note, "knows nothing");
	return false;
}

static bool loud(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	(void)s, (void)declared_mib;
	out->value.need_mib = out->value.comfort_mib = 100;
	out->value.claim_mib = (uint64_t)(100 * (1 + c->margin));
	snprintf(out->note, sizeof out->note, "caf\xc3\xa9\n");
	return true;
}

static const struct estimator table[] = {
	{ "baseline", NULL, loud, true }, { "silent", NULL, silent },
	{ "slow", is_slow, loud }, { "fast", NULL, loud }, { NULL },
};

static void test_slow_rows_are_asked_elsewhere(void **state)
{
	struct spec *s = spec_create();
	struct estimate_context c = { 0 };
	struct estimate_result r;

	(void)state;
	assert_null(estimate_auto(table, SLOW_STOP, s, 0, &c, &r));	/* nothing slow about this one */
	assert_string_equal(r.value.estimator, "slow");
	s->batch_size = 1;
	assert_ptr_equal(estimate_auto(table, SLOW_STOP, s, 0, &c, &r), &table[2]);
	assert_null(estimate_auto(table, SLOW_SKIP, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "fast");
	assert_null(estimate_auto(table, SLOW_ASK, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "slow");
	assert_null(estimate_auto(&table[3], SLOW_STOP, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "fast");
	assert_null(estimate_auto(&table[4], SLOW_STOP, s, 0, &c, &r));
	assert_string_equal(r.value.estimator, "none");
	spec_unref(s);
}

static void test_notes_are_printable_and_margins_reach_their_estimator(void **state)
{
	struct spec *s = spec_create();
	struct margins *m = margins_create();
	struct estimate_context c = { .margins = m };
	struct estimate_result r;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		margins_note(m, "fast", "", 0.25);
		margins_note(m, "slow", "", 0.5);
	}
	estimate_auto(&table[3], SLOW_ASK, s, 0, &c, &r);
	assert_int_equal(r.value.claim_mib, 125);
	estimate_conclude(&c, &r);
	assert_string_equal(r.value.note, "caf???");
	margins_destroy(m);
	spec_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_keeps_the_contract),
		cmocka_unit_test(test_unknown_name_lists_the_known),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_updated_declaration_counts),
		cmocka_unit_test(test_slow_rows_are_asked_elsewhere),
		cmocka_unit_test(test_notes_are_printable_and_margins_reach_their_estimator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
