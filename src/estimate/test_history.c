/* SPDX-License-Identifier: MIT
 * History: what each kind of ending teaches, what the estimator `history` makes of it, bounds, and forged signatures.
 */
#include "base/hash.h"
#include "base/scope.h"
#include "estimate/history.h"
#include "models/margins.h"
#include "estimate/margin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((double)(a) - (b)) < 1e-9)
#define SIGNATURE "u1000-0123456789abcdef"
#define A100 "NVIDIA A100-SXM4-40GB"
#define H200 "NVIDIA H200"

/* One attempt of a life, in few words. */
struct lived {
	enum verdict verdict;
	bool warm, fenced;
	uint64_t claim_mib, peak_mib, retry_mib;
	const char *gpu_name;	/* NULL: A100 */
};

static struct outcome outcome(const struct lived *l, int64_t told_ms)
{
	return (struct outcome){
		.told_ms = told_ms, .signature = SIGNATURE, .gpu_name = l->gpu_name ? l->gpu_name : A100, .estimator = "none",
		.verdict = l->verdict, .fenced = l->fenced, .claim_mib = l->claim_mib, .retry_mib = l->retry_mib,
		.seen = { .peak_mib = l->peak_mib, .warm = l->warm, .mean_smact = NAN, .alone_s = NAN, .energy_j = NAN,
			  .alone_gract = NAN, .alone_smact = NAN } };
}

#define OK(...) { VERDICT_OK, true, __VA_ARGS__ }
#define LIVES 4

static const struct rule {
	const char *what;
	struct lived lives[LIVES];
	/* What the table knows. */
	uint64_t peak_mib, bound_mib, limit_mib, floor_mib;
	/* What the estimator makes of it; speaks: need != 0. */
	uint64_t need_mib, comfort_mib, claim_mib;
	bool fenced;
} rules[] = {
	{ "nothing", { { 0 } }, 0, 0, 0, 0, 0, 0, 0, false },
	{ "a whole run", { OK(false, 9000, 10000) }, 10000, 0, 0, 0, 10000, 10000, 10501, true },
	{ "the larger of two", { OK(false, 0, 10000), OK(false, 0, 8000) }, 10000, 0, 0, 0, 10000, 10000, 10501, true },
	{ "a small one keeps a margin", { OK(false, 0, 600) }, 600, 0, 0, 0, 600, 600, 856, true },
	{ "a run that grew to its end", { { VERDICT_OK, .peak_mib = 10000 } }, 0, 10000, 0, 0, 10000, 10000, 13001, false },
	{ "a short run that took more", { OK(false, 0, 8000), { VERDICT_OK, .peak_mib = 10000 } }, 8000, 10000, 0, 0,
	  10000, 10000, 10501, true },
	{ "cancelled when cold", { { VERDICT_CANCELLED, .peak_mib = 10000 } }, 0, 10000, 0, 0, 0, 0, 0, false },
	{ "cancelled when warm", { { VERDICT_CANCELLED, true, .peak_mib = 10000 } }, 0, 10000, 0, 0, 10000, 10000, 13001, false },
	{ "failed", { { VERDICT_FAILED, true, .peak_mib = 10000 } }, 0, 10000, 0, 0, 10000, 10000, 13001, false },
	{ "at its time limit", { { VERDICT_TIMEOUT, true, .peak_mib = 10000 } }, 0, 10000, 0, 0, 10000, 10000, 13001, false },
	{ "neighbour's fault", { { VERDICT_NEIGHBOUR, true, .peak_mib = 10000 } }, 0, 10000, 0, 0, 10000, 10000, 13001, false },
	{ "a cut run after a whole one", { OK(false, 0, 8000), { VERDICT_CANCELLED, true, .peak_mib = 7000 } }, 8000, 7000, 0, 0,
	  8000, 8000, 8401, true },
	{ "completed under a limit", { OK(true, 9000, 8800) }, 0, 8800, 9000, 0, 9000, 9000, 9000, true },
	{ "the smallest limit", { OK(true, 9000, 8800), OK(true, 8500, 8400) }, 0, 8800, 8500, 0, 8800, 8800, 8800, true },
	{ "a limit below a whole run", { OK(false, 0, 10000), OK(true, 9000, 8900) }, 10000, 8900, 9000, 0,
	  9000, 10000, 10501, true },
	{ "out of memory at its limit", { { VERDICT_OOM, true, true, 8000, 7900, 12000 } }, 0, 7900, 0, 12000,
	  12000, 12000, 12000, false },
	{ "out of memory among others", { { VERDICT_OOM, false, false, 5000, 3000, 10120 } }, 0, 3000, 0, 10120, 0, 0, 0, false },
	{ "the whole run after that took less", { { VERDICT_OOM, false, false, 5000, 3000, 10120 }, OK(false, 0, 6000) },
	  6000, 3000, 0, 6000, 6000, 6000, 6301, true },
	{ "but never less than was refuted", { { VERDICT_OOM, true, true, 8000, 7900, 12000 }, OK(false, 0, 7000) },
	  7000, 7900, 0, 8000, 8000, 8000, 8296, true },
	{ "after an out-of-memory far below its new limit", { { VERDICT_OOM, false, true, 400, 0, 5520 }, OK(true, 5520, 726) },
	  0, 726, 5520, 982, 5520, 5520, 5520, true },
	{ "and not so far", { { VERDICT_OOM, false, true, 8000, 0, 12000 }, OK(true, 12000, 9601) }, 0, 9601, 12000, 12000,
	  12000, 12000, 12000, true },
	{ "on another GPU", { { VERDICT_OK, true, .peak_mib = 10000, .gpu_name = H200 } }, 10000, 0, 0, 0, 10000, 10000, 12501, true },
	{ "on its own rather than on another", { { VERDICT_OK, true, .peak_mib = 20000, .gpu_name = H200 }, OK(false, 0, 8000) },
	  8000, 0, 0, 0, 8000, 8000, 8401, true },
	{ "a cold run here does not hide a whole one there",
	  { { VERDICT_OK, true, .peak_mib = 10000, .gpu_name = H200 }, { VERDICT_FAILED, .peak_mib = 500 } }, 10000, 0, 0, 0,
	  10000, 10000, 12501, true },
	{ "it never took any", { { VERDICT_LAUNCH } }, 0, 0, 0, 0, 0, 0, 0, false },
};

static void what_each_ending_teaches(void **state)
{
	struct spec *s = spec_create();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rules); i++) {
		const struct rule *k = &rules[i];
		struct history *h = history_create(10);
		struct estimate_result r;

		print_message("%s\n", k->what);
		for (unsigned n = 0; n < LIVES && k->lives[n].verdict; n++) {
			struct outcome o = outcome(&k->lives[n], n + 1);
			history_note(h, &o);
		}
		struct estimate_history known = history_lookup(h, SIGNATURE, A100);
		struct estimate_context c = { .gpu_name = A100, .history = &known, .margins = history_margins(h) };
		assert_int_equal(known.peak_mib, k->peak_mib);
		assert_int_equal(known.bound_mib, k->bound_mib);
		assert_int_equal(known.limit_mib, k->limit_mib);
		assert_int_equal(known.oom_floor_mib, k->floor_mib);
		assert_int_equal(estimate_ask(estimate_find("history", NULL), s, 0, &c, &r), k->need_mib != 0);
		estimate_conclude(&c, &r);
		if (k->need_mib) {
			assert_int_equal(r.value.need_mib, k->need_mib);
			assert_int_equal(r.value.comfort_mib, k->comfort_mib);
			assert_int_equal(r.value.claim_mib, k->claim_mib);
			assert_int_equal(r.value.fenced, k->fenced);
			assert_int_equal(r.value.enforced_for_life, k->fenced);
		}
		assert_int_equal(strstr(r.note, H200) != NULL, known.other_gpu && k->need_mib);
		history_destroy(h);
	}
	spec_unref(s);
}

/* Of runs that were cut short the margin that was learnt counts where it is wider. */
static void a_learnt_margin_is_the_least_for_cut_runs(void **state)
{
	static const struct { double learnt; uint64_t claim_mib; } margins[] = { { 0.1, 13001 }, { 0.4, 14001 } };
	const struct estimate_history known = { .cut_mib = 10000, .cut = 1 };
	struct estimate_result r;
	(void)state;
	for (size_t i = 0; i < COUNT_OF(margins); i++) {
		struct estimate_context c = { .gpu_name = A100, .history = &known, .margin = margins[i].learnt };
		assert_true(estimate_ask(estimate_find("history", NULL), &(struct spec){ 0 }, 0, &c, &r));
		assert_int_equal(r.value.claim_mib, margins[i].claim_mib);
	}
}

/* A server of several models of GPU: what took most counts, with the wider margin. */
static void an_unknown_gpu_takes_the_most(void **state)
{
	const struct lived lives[] = { OK(false, 0, 8000), { VERDICT_OK, true, .peak_mib = 9000, .gpu_name = H200 } };
	struct history *h = history_create(10);

	(void)state;
	for (unsigned i = 0; i < COUNT_OF(lives); i++) {
		struct outcome o = outcome(&lives[i], i + 1);
		history_note(h, &o);
	}
	struct estimate_history known = history_lookup(h, SIGNATURE, NULL);
	assert_int_equal(known.peak_mib, 9000);
	assert_true(known.other_gpu);
	assert_int_equal(history_told_ms(h, SIGNATURE), 2);
	assert_int_equal(history_told_ms(h, "u1000-fedcba9876543210"), 0);
	assert_int_equal(history_told_ms(h, NULL), 0);
	history_destroy(h);
}

static void loads_count_only_alone(void **state)
{
	const struct { double alone_s, gract, smact; } seen[] = {
		{ 30, 0.9, 0.6 }, { 1, 0.1, 0.1 }, { NAN, 0.1, 0.1 }, { 90, 0.5, NAN },
	};
	const struct lived l = { VERDICT_CANCELLED, .peak_mib = 100 };
	struct history *h = history_create(10);

	(void)state;
	assert_true(isnan(history_lookup(h, SIGNATURE, A100).load.load.gract));
	for (size_t i = 0; i < COUNT_OF(seen); i++) {
		struct outcome o = outcome(&l, 1);
		o.seen.alone_s = seen[i].alone_s;
		o.seen.alone_gract = seen[i].gract;
		o.seen.alone_smact = seen[i].smact;
		history_note(h, &o);
	}
	NEAR(history_lookup(h, SIGNATURE, A100).load.load.gract, 0.6);	/* (30 * 0.9 + 90 * 0.5) / 120 */
	NEAR(history_lookup(h, SIGNATURE, A100).load.load.smact, 0.6);
	history_destroy(h);
}

static struct outcome in_company(double smact, double sd)
{
	const struct lived l = { VERDICT_OK, true, .peak_mib = 100 };
	struct outcome o = outcome(&l, 1);
	o.seen.inferred = (struct load_belief){ { NAN, smact }, NAN, sd, NAN, NAN, NAN, LOAD_INFERRED };
	return o;
}

static void company_counts_by_its_spread_until_one_was_alone(void **state)
{
	(void)state;
	struct history *h = history_create(10);
	struct outcome far = in_company(0.8, 0.2), near = in_company(0.3, 0.1), alone = in_company(0.9, 0.03);
	history_note(h, &far);
	history_note(h, &near);
	struct load_belief b = history_lookup(h, SIGNATURE, A100).load;
	assert_int_equal(b.source, LOAD_INFERRED);
	NEAR(b.load.smact, 0.4);	/* (25 * 0.8 + 100 * 0.3) / 125 */
	NEAR(b.smact_sd, 1 / sqrt(125));
	assert_true(isnan(b.load.gract));
	alone.seen.alone_s = 5;
	alone.seen.alone_smact = 0.35;
	history_note(h, &alone);
	b = history_lookup(h, SIGNATURE, A100).load;
	assert_int_equal(b.source, LOAD_MEASURED);
	NEAR(b.load.smact, 0.35);
	history_destroy(h);
}

/* However short: the time that it took and what it did are known. The mean follows what runs take now. */
static void every_completed_run_teaches_its_time(void **state)
{
	(void)state;
	const struct lived l = { VERDICT_OK, .peak_mib = 0 };
	struct history *h = history_create(10);
	struct outcome o = outcome(&l, 1);
	o.seen.work_s = 2;
	assert_true(history_tells(&o));
	for (int i = 0; i < 50; i++)
		history_note(h, &o);
	NEAR(history_lookup(h, SIGNATURE, A100).work_s, 2);
	o.seen.work_s = 100;
	for (int i = 0; i < 50; i++)
		history_note(h, &o);
	assert_true(history_lookup(h, SIGNATURE, A100).work_s > 99);
	o.verdict = VERDICT_FAILED;
	assert_false(history_tells(&o));
	history_destroy(h);
}

static void residuals_correct_the_margin(void **state)
{
	struct history *h = history_create(10);
	struct margins *m = history_margins(h);
	struct outcome o = outcome(&(struct lived)OK(false, 0, 1100), 1);

	(void)state;
	o.comfort_mib = 1000;
	for (unsigned i = 0; i < 40; i++) {
		o.estimator = "declared";
		history_note(h, &o);
		o.estimator = "replay";
		history_note(h, &o);
		o.seen.warm = false;		/* what a short run did not reach is no residual */
		o.seen.peak_mib = 10;
		history_note(h, &o);
		o.verdict = VERDICT_FAILED;
		o.seen.warm = true;
		history_note(h, &o);
		o.verdict = VERDICT_OK;
		o.seen.peak_mib = 1100;
	}
	NEAR(margins_of(m, "declared", SIGNATURE), 0);
	NEAR(margins_of(m, "replay", SIGNATURE), 0.1);
	/* Tasks without a signature speak of their estimator too; an estimate that was refuted counts as far off. */
	o.signature = "";
	o.verdict = VERDICT_OOM;
	o.fenced = true;
	for (unsigned i = 0; i < 40; i++)
		history_note(h, &o);
	NEAR(margins_of(m, "replay", ""), MARGIN_MOST);
	NEAR(margins_of(m, "replay", SIGNATURE), 0.1);
	assert_int_equal(history_count(h), 1);
	history_destroy(h);
}

static void the_oldest_signatures_are_forgotten(void **state)
{
	struct history *h = history_create(100);
	char signature[40];

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct outcome o = outcome(&(struct lived)OK(false, 0, 1000), i + 1);
		snprintf(signature, sizeof signature, "u1-%016x", i);
		o.signature = signature;
		history_note(h, &o);
		o.signature = "u1-often";
		history_note(h, &o);
		assert_true(history_count(h) <= 100);
	}
	assert_int_equal(history_count(h), 100);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(signature, sizeof signature, "u1-%016x", i);
		assert_int_equal(history_lookup(h, signature, A100).peak_mib, i >= 901 ? 1000 : 0);
	}
	assert_int_equal(history_lookup(h, "u1-often", A100).runs, 1000);
	history_destroy(h);
}

static void models_of_a_signature_are_bounded(void **state)
{
	struct history *h = history_create(10);
	char name[40];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof name, "GPU %u", i);
		struct outcome o = outcome(&(struct lived){ VERDICT_OK, true, .peak_mib = 1000 + i, .gpu_name = name }, i + 1);
		history_note(h, &o);
	}
	assert_int_equal(history_lookup(h, SIGNATURE, "GPU 16").peak_mib, 1016);
	assert_false(history_lookup(h, SIGNATURE, "GPU 16").other_gpu);
	assert_true(history_lookup(h, SIGNATURE, "GPU 15").other_gpu);
	history_destroy(h);
}

static void one_hash_is_not_one_signature(void **state)
{
	/* Two texts of one hash. */
	const char *mine = "8yn0iYCKYHlIj4-BwPqk", *theirs = "GReLUrM4wMqfg9yzV3KQ";
	struct history *h = history_create(10);

	(void)state;
	assert_true(hash_key(mine) == hash_key(theirs));
	struct outcome o = outcome(&(struct lived)OK(false, 0, 1000), 1);
	o.signature = mine;
	history_note(h, &o);
	assert_int_equal(history_lookup(h, theirs, A100).peak_mib, 0);
	o.signature = theirs;
	o.seen.peak_mib = 5000;
	history_note(h, &o);
	assert_int_equal(history_lookup(h, mine, A100).peak_mib, 1000);
	assert_int_equal(history_lookup(h, theirs, A100).peak_mib, 5000);
	assert_int_equal(history_count(h), 2);
	history_destroy(h);
}

/* A run of that kind, of that user. */
static void took_of(struct history *h, unsigned user, unsigned kind, const struct lived *l)
{
	char signature[40];
	snprintf(signature, sizeof signature, "u%u-%016x", user, kind);
	struct outcome o = outcome(l, 1);
	o.signature = signature;
	history_note(h, &o);
}

static void took(struct history *h, unsigned kind, const struct lived *l)
{
	took_of(h, 1, kind, l);
}

/* However many kinds one of them tries. */
static void nobodys_many_kinds_push_out_others_few(void **state)
{
	struct history *h = history_create(1000);
	(void)state;
	for (unsigned i = 0; i < 6; i++)
		took_of(h, 2, i, &(struct lived)OK(false, 0, 10000));
	for (unsigned i = 0; i < 3 * HISTORY_USUAL; i++)
		took(h, i, &(struct lived)OK(false, 0, 1000));
	assert_int_equal(history_usual(h).most_mib, 10500);
	history_destroy(h);
}

static void what_is_usual_is_told_by_kinds(void **state)
{
	struct history *h = history_create(1000);
	(void)state;
	for (unsigned i = 0; i < HISTORY_USUAL_LEAST - 1; i++)
		for (unsigned k = 0; k < 50; k++)
			took(h, i, &(struct lived)OK(false, 0, 1000));
	took(h, 900, &(struct lived){ VERDICT_CANCELLED, .peak_mib = 1000 });	/* not seen whole */
	assert_int_equal(history_usual(h).most_mib, MARGIN_USUAL_MIB);	/* too few to tell */
	assert_int_equal(history_usual(h).mean_mib, MARGIN_USUAL_MEAN_MIB);
	took(h, 4, &(struct lived)OK(false, 0, 10000));
	assert_int_equal(history_usual(h).most_mib, 10500);	/* of a few, the largest */
	assert_int_equal(history_usual(h).mean_mib, 2800 + 256);
	for (unsigned i = 5; i < 21; i++)
		took(h, i, &(struct lived)OK(false, 0, 1000));
	assert_int_equal(history_usual(h).most_mib, 1256);	/* one in more than twenty does not count */
	assert_int_equal(history_usual(h).mean_mib, 1256);	/* nor in the mean, where that were more */
	took(h, 21, &(struct lived){ VERDICT_OOM, false, false, 5000, 3000, 9000 });
	assert_int_equal(history_usual(h).most_mib, 9450);	/* one in 22 above what was out of memory and is to have that */
	for (unsigned i = 22; i < 22 + HISTORY_USUAL; i++)
		took(h, i, &(struct lived)OK(false, 0, 2000));
	assert_int_equal(history_usual(h).most_mib, 2256);	/* the others are too long ago */
	history_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_each_ending_teaches), cmocka_unit_test(an_unknown_gpu_takes_the_most),
		cmocka_unit_test(loads_count_only_alone), cmocka_unit_test(company_counts_by_its_spread_until_one_was_alone),
		cmocka_unit_test(a_learnt_margin_is_the_least_for_cut_runs),
		cmocka_unit_test(every_completed_run_teaches_its_time), cmocka_unit_test(residuals_correct_the_margin),
		cmocka_unit_test(the_oldest_signatures_are_forgotten), cmocka_unit_test(models_of_a_signature_are_bounded),
		cmocka_unit_test(one_hash_is_not_one_signature), cmocka_unit_test(what_is_usual_is_told_by_kinds),
		cmocka_unit_test(nobodys_many_kinds_push_out_others_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
