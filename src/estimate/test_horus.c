/* SPDX-License-Identifier: MIT
 * `horus`: the formula's arithmetic, what it needs to speak, and that `auto` leaves it alone.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "estimate/estimate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TABLE "        Layer (type)               Output Shape         Param #\n====\n"
/* 1,000,000 activations without those of pooling, 3,000,000 parameters. */
#define MODEL \
	TABLE "            Conv2d-1        [-1, 9, 333, 333]       2,000,000\n" \
	"         MaxPool2d-2        [-1, 9, 111, 111]               0\n" \
	"            Linear-3                 [-1, 1999]       1,000,000\n====\nTotal params: 3,000,000\n"

struct horus_case {
	const char *what, *model;
	int64_t batch;
	uint64_t mib;		/* 0: says nothing */
	const char *note;	/* a part of it */
};

static const struct horus_case cases[] = {
	/* 4 x (B x 1000000 + 3000000 + B x 3000000) bytes + 800 MiB, rounded up */
	{ "one sample", MODEL, 1, 827, "3000000 parameters, 1000000 activations, batch 1" },
	{ "a batch", MODEL, 64, 1789, "batch 64" },
	{ "no summary", NULL, 32, 0, "no model summary (model: FILE, --model FILE)" },
	{ "no batch size", MODEL, 0, 0, "no batch size (batch_size: N, --batch-size N)" },
	{ "a batch size from the table", TABLE "            Linear-1                   [32, 10]             100\n====\nTotal "
	  "params: 100\n",
	  0, 801, "batch 32" },
	{ "a summary that is none", "hello\n", 32, 0, "net.model:1: 'hello': begins no model summary" },
	{ "no shapes", "Layer (type:depth-idx)       Param #\n====\nNet         --\n====\nTotal params: 0\n", 32, 0, "no output "
	  "shapes" },
	{ "a guess is told of", "Net(\n  (embed): Embedding(10, 4)\n)\n", 8, 801, "sequence length taken as 512" },
	{ "beyond any machine", TABLE "   Linear-1     [-1, 999999999999]     999999999999999\n====\nTotal params: 1\n",
	  INT64_MAX, 0, "more memory than" },
};

static struct spec *spec_of(const struct horus_case *k)
{
	struct spec *s = spec_create();
	s->model = alloc_string_or_null(k->model);
	s->model_name = alloc_string("net.model");
	s->batch_size = k->batch;
	return s;
}

static void test_formula(void **state)
{
	const struct estimator *horus = estimate_find("horus", NULL);
	(void)state;
	assert_non_null(horus);
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct spec *s = spec_of(&cases[i]);
		struct estimate_context c = { 0 };
		struct estimate_result r;
		print_message("%s\n", cases[i].what);
		assert_int_equal(estimate_ask(horus, s, 0, &c, &r), cases[i].mib > 0);
		assert_int_equal(r.value.need_mib, cases[i].mib);
		assert_int_equal(r.value.comfort_mib, cases[i].mib);
		assert_int_equal(r.value.claim_mib, cases[i].mib);
		assert_false(r.value.fenced);
		if (!strstr(r.note, cases[i].note))
			fail_msg("'%s' lacks '%s'", r.note, cases[i].note);
		spec_unref(s);
	}
}

static void test_auto_does_not_ask_it(void **state)
{
	struct spec *s = spec_of(&cases[0]);
	struct estimate_context c = { 0 };
	struct estimate_result r;
	(void)state;
	estimate_auto(estimators, SLOW_SKIP, s, 0, &c, &r);
	assert_string_not_equal(r.value.estimator, "horus");
	spec_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formula),
		cmocka_unit_test(test_auto_does_not_ask_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
