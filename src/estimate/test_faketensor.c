/* SPDX-License-Identifier: MIT
 * `faketensor`: bytes of the passes, counted by hand; what it needs to speak; and that `auto` leaves it alone.
 */
#include "base/scope.h"
#include "estimate/estimate.h"
#include "tests/capture_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Records in a few words: "a5" ALLOC of 5 bytes, "f0" FREE of number 0, "mi" MARK ITERATION, and so "mf" FORWARD, "mb"
 * BACKWARD, "ms" STEP, "mz" ZERO_GRAD, "me" EVAL, "g" GEMM. */
static void write_words(struct capture_writer *w, const char *words)
{
	char *end;

	for (const char *p = words; *p; p += strspn(p, " ")) {
		char what = *p++;

		if (what == 'm') {
			write_record(w, WRITE_MARK, (uint64_t)(strchr(".ifbsze", *p++) - ".ifbsze"));
		} else if (what == 'g') {
			write_gemm(w, 0, 0);
		} else {
			uint64_t n = strtoull(p, &end, 10);

			p = end;
			if (what == 'a')
				write_alloc(w, n);
			else
				write_free(w, n);
		}
	}
}

static struct spec *spec_of(const char *words)
{
	const struct capture_texts texts = { "2.11.0+cu130", "", "Net" };
	struct spec *s = spec_create();
	struct capture_writer w;

	write_begin(&w, &texts, 0, 0, 0);
	write_words(&w, words);
	write_end(&w);
	s->capture = write_base64(&w.out);
	buf_free(&w.out);
	return s;
}

static const struct { const char *what, *words; uint64_t bytes; const char *note; } cases[] = {
	{ "weights, batch, output, gradient", "a1000 a7 mi mf a300 mb a1000 f2", 2307, "2307 bytes" },
	{ "what is given back counts until then", "a1000 mi mf a50 f1 a20 mb a30 f2", 1050, "1050 bytes" },
	{ "sizes as they are, no library", "a1 mi mf g a513 mb", 514, "514 bytes" },
	{ "no step of the optimizer", "a10 mi mf a5 mb a10 ms a80 f3 a20 mi mf a5 mb", 25, "25 bytes" },
	{ "nor its state in a later pass", "a10 mi mf mb a1 ms a70 mf a5 mb a2", 18, "18 bytes" },
	{ "state that is given back", "a10 mi mf mb ms a70 mf f1 a5 mb", 15, "15 bytes" },
	{ "the first iteration alone", "a10 mi mf a5 mb mi mf a99 mb", 15, "15 bytes" },
	{ "no evaluation, no zeroed gradients", "a10 mi me a90 f1 mf a5 mb f2 mz a80", 15, "15 bytes" },
	{ "what an evaluation left", "a10 mi me a90 mf a5 mb", 105, "105 bytes" },
	{ "a pass before the first iteration", "a10 mf a90 f1 mb mi mf a5 mb", 15, "15 bytes" },
	{ "no forward pass marked", "a10 mi a5 mb a1", 16, "the forward pass is not marked" },
	{ "no backward pass", "a10 mi mf a5 mi mf mb", 0, "no backward pass" },
	{ "no marks", "a10 a5", 0, "no backward pass" },
};

static void test_bytes(void **state)
{
	const struct estimator *faketensor = estimate_find("faketensor", NULL);
	const struct estimate_context c = { 0 };

	(void)state;
	assert_non_null(faketensor);
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct spec *s = spec_of(cases[i].words);
		struct estimate_result r;
		bool spoke = estimate_ask(faketensor, s, 0, &c, &r);

		print_message("%s: %s\n", cases[i].what, r.note);
		assert_int_equal(spoke, cases[i].bytes > 0);
		assert_non_null(strstr(r.note, cases[i].note));
		assert_int_equal(strtoull(r.note, NULL, 10), cases[i].bytes);
		assert_int_equal(r.value.claim_mib, cases[i].bytes > 0);
		assert_false(r.value.fenced || r.value.enforced_for_life);
		assert_true(faketensor->slow(s));
		spec_unref(s);
	}
}

static void test_mebibytes(void **state)
{
	static const struct { const char *words; uint64_t mib; } sizes[] = {
		{ "a104857600 mi mf mb", 100 }, { "a104857601 mi mf mb", 101 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct spec *s = spec_of(sizes[i].words);
		const struct estimate_context c = { .gpu_name = "NVIDIA H200", .margin = 0.5 };
		struct estimate_result r;

		assert_true(estimate_ask(estimate_find("faketensor", NULL), s, 0, &c, &r));
		assert_int_equal(r.value.need_mib, sizes[i].mib);
		assert_int_equal(r.value.comfort_mib, sizes[i].mib);
		assert_int_equal(r.value.claim_mib, sizes[i].mib);
		spec_unref(s);
	}
}

static void test_silent(void **state)
{
	static const struct { const char *capture, *note; } bad[] = {
		{ NULL, "no capture (capture: FILE, --capture FILE)" }, { "!", "not base64" }, { "YWJj", "not a capture file" },
	};
	const struct estimate_context c = { 0 };
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct spec *s = spec_create();

		s->capture = alloc_string_or_null(bad[i].capture);
		assert_false(estimate_ask(estimate_find("faketensor", NULL), s, 0, &c, &r));
		assert_non_null(strstr(r.note, bad[i].note));
		spec_unref(s);
	}
}

static void test_auto_does_not_ask_it(void **state)
{
	struct spec *s = spec_of(cases[0].words);
	const struct estimate_context c = { 0 };
	struct estimate_result r;

	(void)state;
	estimate_auto(estimators, SLOW_ASK, s, 0, &c, &r);
	assert_string_equal(r.value.estimator, "replay");
	spec_unref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_mebibytes),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_auto_does_not_ask_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
