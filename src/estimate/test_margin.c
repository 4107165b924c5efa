/* SPDX-License-Identifier: MIT
 * Margins against quantiles worked out by hand.
 */
#include "base/scope.h"
#include "estimate/margin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define ADA "u1000-0123456789abcdef"
#define BOB "u1001-0123456789abcdef"
#define EVE "u1002-0123456789abcdef"

#define NEAR(a, b) assert_true(fabs((double)(a) - (b)) < 1e-9)

/* n residuals of 0.001, 0.002, ... in an order that is not theirs. */
static struct margins *ramp(unsigned n)
{
	struct margins *m = margins_create();

	for (unsigned i = 0; i < n; i++)
		margins_note(m, "history", ADA, (i * 7 % n + 1) / 1000.0);
	return m;
}

static const struct { unsigned n; double margin; } ramps[] = {
	{ 0, 0 },
	{ 5, 0 },
	{ 18, 0 },	/* ceil(19 * 0.95) = 19 of 18: too few */
	{ 19, 0.02 },	/* the 19th of 19 is 0.019, below the least */
	{ 39, 0.038 },	/* the 38th */
	{ 100, 0.096 },	/* ceil(95.95) = 96 */
	{ 200, 0.191 },	/* ceil(190.95) = 191 */
};

static void the_finite_sample_quantile(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(ramps); i++) {
		struct margins *m = ramp(ramps[i].n);

		print_message("n = %u\n", ramps[i].n);
		NEAR(margins_of(m, "history", ADA), ramps[i].margin);
		NEAR(margins_of(m, "replay", ADA), 0);
		margins_destroy(m);
	}
	NEAR(margins_of(NULL, "history", ADA), 0);
}

static void margins_have_bounds(void **state)
{
	struct margins *m = margins_create();

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		margins_note(m, "far above", ADA, -0.4);
	NEAR(margins_of(m, "far above", ADA), MARGIN_LEAST);
	for (unsigned i = 0; i < 100; i++)
		margins_note(m, "far below", ADA, i % 2 ? 3 : INFINITY);
	NEAR(margins_of(m, "far below", ADA), MARGIN_MOST);
	margins_note(m, "nothing", ADA, NAN);
	for (unsigned i = 0; i < 30; i++)
		margins_note(m, "one in thirty", ADA, i ? 0.03 : INFINITY);
	NEAR(margins_of(m, "one in thirty", ADA), MARGIN_MOST);	/* ceil(31 * 0.95) = 30: all of them must be covered */
	margins_destroy(m);
}

/* What an estimator did long ago no longer counts. */
static void only_the_newest_count(void **state)
{
	struct margins *m = margins_create();

	(void)state;
	for (unsigned i = 0; i < MARGIN_KEPT; i++)
		margins_note(m, "history", ADA, 0.4);
	NEAR(margins_of(m, "history", ADA), 0.4);
	for (unsigned i = 0; i < 189; i++)
		margins_note(m, "history", ADA, 0.1);
	NEAR(margins_of(m, "history", ADA), 0.4);
	for (unsigned i = 0; i < 2; i++)
		margins_note(m, "history", ADA, 0.1);	/* now 191 of 200 are 0.1 */
	NEAR(margins_of(m, "history", ADA), 0.1);
	margins_destroy(m);
}

static void note(struct margins *m, const char *whose, unsigned n, double residual)
{
	for (unsigned i = 0; i < n; i++)
		margins_note(m, "replay", whose, residual);
}

/* Her odd task, five hundred times: it is hers alone, however the others' runs stand, and they keep what they taught. */
static void one_user_moves_nobody_elses(void **state)
{
	struct margins *m = margins_create();

	(void)state;
	note(m, EVE, 500, 0.4);
	NEAR(margins_of(m, "replay", EVE), 0.4);
	NEAR(margins_of(m, "replay", ADA), 0);	/* as shipped */
	note(m, ADA, 30, 0.1);
	note(m, BOB, 10, 0.06);
	note(m, EVE, 500, 0.4);
	NEAR(margins_of(m, "replay", EVE), 0.4);
	NEAR(margins_of(m, "replay", ADA), 0.1);
	NEAR(margins_of(m, "replay", BOB), 0.1);	/* ten are too few of his own: Ada's and his */
	NEAR(margins_of(m, "replay", NULL), 0.1);
	note(m, BOB, 9, 0.06);
	NEAR(margins_of(m, "replay", BOB), 0.06);
	NEAR(margins_of(m, "replay", NULL), 0.1);
	/* Nor do many small ones of hers. */
	note(m, EVE, 500, -0.3);
	NEAR(margins_of(m, "replay", NULL), 0.06);
	NEAR(margins_of(m, "replay", ADA), 0.1);
	margins_destroy(m);
}

static void estimators_are_bounded(void **state)
{
	struct margins *m = margins_create();
	char name[16];

	(void)state;
	for (unsigned e = 0; e < MARGIN_ESTIMATORS + 3; e++) {
		snprintf(name, sizeof name, "e%u", e);
		for (unsigned i = 0; i < 50; i++)
			margins_note(m, name, ADA, 0.1);
		NEAR(margins_of(m, name, ADA), e < MARGIN_ESTIMATORS ? 0.1 : 0);
	}
	margins_destroy(m);
	margins_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_finite_sample_quantile), cmocka_unit_test(margins_have_bounds),
		cmocka_unit_test(only_the_newest_count),
		cmocka_unit_test(one_user_moves_nobody_elses), cmocka_unit_test(estimators_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
