/* SPDX-License-Identifier: MIT
 * Replays of captures: what libraries add, need and comfort, fixed costs, and what the estimator makes of them.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "estimate/estimate.h"
#include "estimate/replay.h"
#include "models/margins.h"
#include "tests/capture_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct capture_texts texts = { "2.11.0+cu130", "", "Net" };

/* A file from a few words: "a5" ALLOC of 5 MiB, "f0" FREE of number 0, "g01" GEMM of thread 0 through Lt, "s9" SCRATCH of
 * 9 MiB, "t3" STREAM 3, "e" EMPTY, "i" MARK ITERATION. */
static void write_words(struct capture_writer *w, const char *words)
{
	char *end = NULL;

	for (const char *p = words; *p; p = end + strspn(end, " ")) {
		uint64_t n = strtoull(p + 1, &end, 10);

		switch (*p) {
		case 'a':
			write_alloc(w, n * MIB);
			break;
		case 'f':
			write_free(w, n);
			break;
		case 'g':
			write_gemm(w, n / 10, n % 10);
			break;
		case 's':
			write_record(w, WRITE_OP, WRITE_SCRATCH);
			write_varint(&w->out, n * MIB);
			break;
		case 't':
			write_record(w, WRITE_STREAM, n);
			break;
		case 'e':
			write_record(w, WRITE_EMPTY, 0);
			break;
		default:
			write_record(w, WRITE_MARK, 1);
		}
	}
}

/* Replays what was written and ends the writer. */
static struct replay_figures replay(struct capture_writer *w, const char *conf_text, const char *gpu, uint64_t total)
{
	struct replay_figures f = { 0 };
	scoped_capture c = { 0 };
	struct alloc_conf conf;
	struct error err;

	write_end(w);
	if (capture_read(w->out.data, w->out.len, &c, &err) || alloc_conf_parse(conf_text, 211, &conf, &err) ||
	    replay_capture(&c, &conf, &(struct replay_environment){ 0 }, replay_overheads(gpu), total, &f, &err))
		fail_msg("%s", err.text);
	buf_free(&w->out);
	return f;
}

struct play_case {
	const char *what, *torch, *gpu, *conf, *words;
	uint64_t comfort_mib, need_mib;
};

static const struct play_case plays[] = {
	{ "nothing", "2.11", "H200", "", "", 0, 0 },
	{ "one segment", "2.11", "H200", "", "a30", 30, 30 },
	{ "what is free can go", "2.11", "H200", "", "a30 f0 a36", 66, 36 },
	{ "unless a part is in use", "2.11", "H200", "", "a9 a9 f1 a36", 56, 56 },
	{ "emptied by the script", "2.11", "H200", "", "a30 f0 e a36", 36, 36 },
	{ "scratch memory is not needed", "2.11", "H200", "", "a30 s100", 130, 30 },
	{ "but taken where there is room", "2.11", "H200", "", "a30 s100 a40", 130, 70 },
	{ "expandable segments hardly scatter", "2.11", "H200", "expandable_segments:True", "a30 f0 a36", 40, 40 },
	{ "asynchronous: what is in use", "2.11", "H200", "backend:cudaMallocAsync", "a30 f0 a36 s5", 41, 42 },
	{ "cuBLAS, both threads, once each", "2.11", "H200", "", "g00 g10 g00", 64, 64 },
	{ "of each stream", "2.11", "H200", "", "g00 t1 g00 g10 t0 g00 t1 g00", 96, 96 },
	{ "that of a stream with the largest number", "2.11", "H200", "", "t255 g11 g11", 34, 34 },
	{ "cuBLASLt: a MiB each, kept", "2.11", "H200", "", "g01 g01 g11", 66, 66 },
	{ "from 2.9 on", "2.9.0", "H200", "", "g01", 34, 34 },
	{ "until 2.8 for the call", "2.8.0", "H200", "", "g01", 34, 32 },
	{ "from 2.12 on in cuBLAS's", "2.12", "H200", "", "g01 g11", 64, 64 },
	{ "version not known: kept", "", "H200", "", "g01", 34, 34 },
	{ "before Hopper", "2.11", "NVIDIA A100-SXM4-40GB", "", "g00", 20, 20 },
	{ "another card: as the largest", "2.11", "NVIDIA B300", "", "g00", 32, 32 },
	{ "no card", "2.11", NULL, "", "g00", 32, 32 },
};

static void test_plays(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(plays); i++) {
		const struct play_case *k = &plays[i];
		const struct capture_texts t = { k->torch, "", "" };
		struct replay_figures f;
		struct capture_writer w;

		print_message("%s\n", k->what);
		write_begin(&w, &t, 0, 0, 0);
		write_words(&w, k->words);
		f = replay(&w, k->conf, k->gpu, 0);
		assert_int_equal(f.comfort, k->comfort_mib * MIB);
		assert_int_equal(f.need, k->need_mib * MIB);
		assert_false(f.capped);
	}
}

/* direction, in, out, weight, taps, groups, layout; scratch memory that it takes, in MiB (more in test_workspace.c) */
static const struct { const char *what; uint64_t flags, figures[7], mib; } convs[] = {
	{ "copies of all three", 0, { 0, 20 * MIB, 40 * MIB, 10 * MIB, 9, 1, 0 }, 72 },
	{ "none", 0, { 0, 20 * MIB, 40 * MIB, 10 * MIB, 1, 1, 0 }, 0 },
	{ "without cuDNN", CAPTURE_CUDNN_OFF, { 0, 20 * MIB, 40 * MIB, 10 * MIB, 9, 1, 0 }, 0 },
};

static void test_convolutions(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(convs); i++) {
		struct replay_figures f;
		struct capture_writer w;

		print_message("%s\n", convs[i].what);
		write_begin(&w, &texts, convs[i].flags, 0, 0);
		write_alloc(&w, 30 * MIB);
		write_conv(&w, convs[i].figures);
		f = replay(&w, "", "H200", 0);
		assert_int_equal(f.comfort, (30 + convs[i].mib) * MIB);
		assert_in_range(f.high, f.comfort, f.comfort + convs[i].mib * MIB / REPLAY_GUESS_PART + REPLAY_GRID);
		assert_int_equal(f.need, 30 * MIB);
	}
}

static void test_fixed_costs(void **state)
{
	static const struct { const char *gpu, *words; uint64_t flags, communicators, mib; } costs[] = {
		{ "NVIDIA H200", "g00", 0, 0, 760 }, { "NVIDIA H200", "g10", 0, 0, 760 }, { "NVIDIA H200", "a1", 0, 0, 632 },
		{ "NVIDIA A100-SXM4-40GB", "g00", 0, 0, 560 }, { "NVIDIA GeForce RTX 3090", "g00", 0, 0, 760 }, { NULL, "g00", 0, 0, 760 },
		{ "NVIDIA H200", "g00", 0, 2, 760 + 2 * 1011 }, { "NVIDIA H200", "g00", CAPTURE_ALL_TO_ALL, 1, 760 + 1011 + 3128 },
		{ "NVIDIA H200", "g00", CAPTURE_ALL_TO_ALL, 0, 760 }, { "NVIDIA H200", "g00", CAPTURE_PAIR, 0, 760 },
		{ "NVIDIA A100-SXM4-40GB", "g00", 0, 2, 560 + 2 * 657 }, { "NVIDIA A100-SXM4-40GB", "g00", CAPTURE_PAIR, 2, 560 + 2 * 519 },
		{ "NVIDIA H200", "g00", CAPTURE_PAIR, 1, 760 + 1011 }, { NULL, "g00", CAPTURE_PAIR, 1, 760 + 1011 },
		{ "NVIDIA H200", "a1", CAPTURE_SOLVER, 0, 632 + 100 }, { "NVIDIA H200", "g00", CAPTURE_SOLVER, 0, 760 + 100 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(costs); i++) {
		struct capture_writer w;

		write_begin(&w, &texts, costs[i].flags, 0, costs[i].communicators);
		write_words(&w, costs[i].words);
		assert_int_equal(replay(&w, "", costs[i].gpu, 0).fixed, costs[i].mib * MIB);
	}
}

/* A card or version that is not known must not be cheaper than one that is. */
static void test_last_row_is_largest(void **state)
{
	const struct overheads *last = replay_overheads(NULL);

	(void)state;
	assert_string_equal(last->card, "");
	for (const struct overheads *o = overheads_table; o->card[0]; o++) {
		assert_true(o->context_mib <= last->context_mib && o->context_plain_mib <= last->context_plain_mib);
		assert_true(o->cublas_bytes <= last->cublas_bytes && o->nccl_mib <= last->nccl_mib);
		assert_true(o->all_to_all_mib <= last->all_to_all_mib && o->context_plain_mib <= o->context_mib);
		assert_true(o->nccl_pair_mib <= last->nccl_pair_mib && o->nccl_pair_mib <= o->nccl_mib);
	}
}

static void test_own_fraction(void **state)
{
	static const struct { uint64_t total_mib; bool capped; uint64_t comfort_mib; } fractions[] = {
		{ 0, false, 66 }, { 200, false, 66 }, { 100, false, 36 }, { 60, true, 66 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(fractions); i++) {
		struct replay_figures f;
		struct capture_writer w;

		write_begin(&w, &texts, 0, 0, 0);
		write_words(&w, "a30 f0 a36");
		f = replay(&w, "per_process_memory_fraction:0.5", "H200", fractions[i].total_mib * MIB);
		assert_int_equal(f.capped, fractions[i].capped);
		assert_int_equal(f.comfort, fractions[i].comfort_mib * MIB);
		assert_int_equal(f.need, 36 * MIB);
	}
}

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static void write_random(struct capture_writer *w)
{
	uint64_t live[200], n = 0;

	for (int i = 0; i < 1500; i++) {
		if (n && (n == COUNT_OF(live) || draw(2))) {
			uint64_t k = draw(n);

			write_free(w, live[k]);
			live[k] = live[--n];
		} else {
			live[n++] = write_alloc(w, 1 + draw((uint64_t)1 << (6 + draw(21))));
		}
	}
}

/* The same capture with a cap of the job's own. */
static struct replay_figures replay_capped(uint64_t round, const char *conf, uint64_t cap)
{
	scoped_free char *capped = alloc_printf("per_process_memory_fraction:0.5,%s", conf);
	struct capture_writer w;

	seed = round;
	write_begin(&w, &texts, 0, 0, 0);
	write_random(&w);
	return replay(&w, capped, "H200", cap * 2);
}

/* The capture's requests under one cap from its first to its last, and nothing else: whether they get through, and the most
 * that they reserve. */
static bool play_plainly(uint64_t round, const char *conf_text, uint64_t cap, uint64_t *reserved)
{
	struct capture_writer w;
	scoped_capture c = { 0 };
	struct alloc_conf conf;
	struct alloc_sim *a;
	bool survived = true;

	seed = round;
	write_begin(&w, &texts, 0, 0, 0);
	write_random(&w);
	write_end(&w);
	assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
	assert_int_equal(alloc_conf_parse(conf_text, 211, &conf, NULL), 0);
	a = alloc_sim_create(&conf, NULL);
	alloc_sim_reset(a, cap);
	for (size_t i = 0; i < c.n_records && survived; i++) {
		const struct capture_record *r = &c.records[i];

		if (r->kind == CAPTURE_FREE)
			alloc_sim_free(a, r->id);
		else
			survived = alloc_sim_request(a, r->id, r->bytes, r->what);
	}
	*reserved = alloc_sim_stats(a)->peak_reserved;
	alloc_sim_destroy(a);
	buf_free(&w.out);
	return survived;
}

static void test_random_captures(void **state)
{
	static const char *const confs[] = { "", "expandable_segments:True", "max_split_size_mb:24", "roundup_power2_divisions:4",
					     "garbage_collection_threshold:0.7" };
	unsigned rounds = 60, smallest = 0;
	uint64_t reserved;

	(void)state;
	for (uint64_t round = 0; round < rounds; round++) {
		const char *conf = confs[round % COUNT_OF(confs)];
		struct replay_figures f = replay_capped(round, conf, (uint64_t)1 << 40), under;

		assert_true(f.allocated <= f.comfort);
		assert_true(f.need < f.comfort + REPLAY_GRID);
		assert_int_equal(f.need % REPLAY_GRID, 0);
		assert_true(play_plainly(round, conf, round % 5 == 4 ? (uint64_t)1 << 40 : ALLOC_NO_CAP, &reserved));
		assert_int_equal(reserved, f.comfort);
		assert_true(play_plainly(round, conf, f.need, &reserved));
		assert_true(reserved <= f.need);
		under = replay_capped(round, conf, f.need);
		assert_false(under.capped);
		assert_true(under.comfort <= f.need && under.need <= f.need);
		smallest += replay_capped(round, conf, f.need - REPLAY_GRID).capped;
	}
	/* a smaller cap can work where more is released earlier: rarely */
	print_message("%u of %u are smallest\n", smallest, rounds);
	assert_true(smallest >= rounds * 9 / 10);
}

/* Made to be slow: so many scattered blocks that looking at them again and again takes minutes; */
static void write_scattered(struct capture_writer *w)
{
	for (int i = 0; i < 100000; i++)
		write_alloc(w, 512);
	for (uint64_t i = 0; i < 100000; i += 2)
		write_free(w, i);
	for (int i = 0; i < 20000; i++)
		write_record(w, WRITE_EMPTY, 0);
}

/* or so many streams without any. */
static void write_streams(struct capture_writer *w)
{
	for (uint64_t stream = 0; stream <= CAPTURE_MAX_STREAM; stream++) {
		write_record(w, WRITE_STREAM, stream);
		write_alloc(w, 512);
		write_free(w, stream);
	}
	for (int i = 0; i < 500000; i++)
		write_record(w, WRITE_EMPTY, 0);
}

static void test_endless_is_refused(void **state)
{
	void (*const writes[])(struct capture_writer *) = { write_scattered, write_streams };
	struct alloc_conf conf = alloc_conf_default();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(writes); i++) {
		struct capture_writer w;
		struct replay_figures f;
		struct error err;
		scoped_capture c = { 0 };

		write_begin(&w, &texts, 0, 0, 0);
		writes[i](&w);
		write_end(&w);
		assert_int_equal(capture_read(w.out.data, w.out.len, &c, NULL), 0);
		assert_int_equal(replay_capture(&c, &conf, &(struct replay_environment){ 0 }, replay_overheads(NULL), 0, &f, &err), -1);
		assert_non_null(strstr(err.text, "takes too long"));
		buf_free(&w.out);
	}
}

/* --- the estimator --- */

static bool ask(struct spec *s, const char *gpu, struct estimate_result *r)
{
	const struct estimator *e = estimate_find("replay", NULL);
	struct estimate_context c = { .gpu_name = gpu, .gpu_total_mib = 143771 };
	bool spoke;

	assert_non_null(e);
	spoke = estimate_ask(e, s, 0, &c, r);
	print_message("%s\n", r->note);
	assert_true(r->note[0] && strlen(r->note) < sizeof r->note - 1);
	if (spoke)
		assert_true(r->value.need_mib <= r->value.comfort_mib && r->value.comfort_mib <= r->value.claim_mib);
	return spoke;
}

/* A spec with a capture of those words. The model's name gives it a length: each remainder of 3 has its own end in base64. */
static struct spec *spec_of(const char *words, uint64_t flags, uint64_t growth, const char *model)
{
	const struct capture_texts t = { "2.11.0+cu130", "", model };
	struct spec *s = spec_create();
	struct capture_writer w;

	write_begin(&w, &t, flags, growth, 0);
	write_words(&w, words);
	write_end(&w);
	s->capture = write_base64(&w.out);
	buf_free(&w.out);
	return s;
}

static void test_estimate(void **state)
{
	struct estimate_result r;

	(void)state;
	for (int padding = 0; padding < 3; padding++) {
		struct spec *s = spec_of("a1000 f0 a1200 i i i g00", 0, 0, &"abc"[padding]);

		assert_true(ask(s, "NVIDIA H200", &r));
		assert_int_equal(r.value.comfort_mib, 2200 + 760);
		assert_int_equal(r.value.need_mib, 1200 + 32 + 760);
		assert_int_equal(r.value.claim_mib, 2960 + (uint64_t)(2960 * MARGIN_REPLAY) + 1);
		assert_true(r.low_mib < r.value.comfort_mib && r.high_mib == r.value.claim_mib);
		assert_true(r.value.fenced && r.value.enforced_for_life);
		assert_non_null(strstr(r.note, "2200 MiB reserved for 1232 in use"));
		assert_non_null(strstr(r.note, "760 outside (H200)"));
		spec_unref(s);
	}
}

/* What rules say of convolutions is less sure than what was captured. */
static void test_convolutions_have_a_margin_of_their_own(void **state)
{
	const struct capture_texts t = { "2.11.0+cu130", "", "conv" };
	struct spec *s = spec_create();
	struct capture_writer w;
	struct estimate_result r;

	(void)state;
	write_begin(&w, &t, 0, 0, 0);
	write_words(&w, "a1000 i i i");
	write_conv(&w, convs[0].figures);
	write_end(&w);
	s->capture = write_base64(&w.out);
	buf_free(&w.out);
	assert_true(ask(s, "NVIDIA H200", &r));
	assert_int_equal(r.value.comfort_mib, 1000 + 72 + 632);
	assert_int_equal(r.value.claim_mib, 1704 + (uint64_t)(1704 * MARGIN_REPLAY_CONVOLUTIONS) + 1);
	assert_non_null(strstr(r.note, "up to 71 for a convolution"));
	spec_unref(s);
}

static void test_doubtful_estimates(void **state)
{
	static const struct { const char *words; uint64_t flags, growth; const char *note; } doubts[] = {
		{ "a100 i i i", CAPTURE_DATA_DEPENDENT, 0, "depends on its data" }, { "a100 i i i", CAPTURE_UNKNOWN_OP, 0, "not known" },
		{ "a100 i i i", CAPTURE_VARIABLE_SHAPES, 0, "vary" }, { "a100 i i i", CAPTURE_COMPILED, 0, "compiled" },
		{ "a100 i i i", CAPTURE_CUT_SHORT, 0, "cut short" }, { "a100 i i i", CAPTURE_MAY_LEARN, 0, "may do so later" },
		{ "a100 i i i", 0, 4096, "grows" }, { "a100 i i", 0, 0, "fewer than 3" },
	};
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(doubts); i++) {
		struct spec *s = spec_of(doubts[i].words, doubts[i].flags, doubts[i].growth, "");

		assert_true(ask(s, "NVIDIA H200", &r));
		assert_non_null(strstr(r.note, doubts[i].note));
		assert_int_equal(r.value.claim_mib, 732 + (uint64_t)(732 * MARGIN_REPLAY_DOUBTFUL) + 1);
		assert_false(r.value.fenced || r.value.enforced_for_life);
		spec_unref(s);
	}
}

/* What was learnt of all replays is no less true of those. */
static void test_a_doubt_takes_no_learnt_margin_away(void **state)
{
	static const struct { double learnt, margin; } margins[] = { { 0.1, MARGIN_REPLAY_DOUBTFUL }, { 0.4, 0.4 } };
	struct spec *s = spec_of("a100 i i", 0, 0, "");
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(margins); i++) {
		struct estimate_context c = { .gpu_name = "NVIDIA H200", .gpu_total_mib = 143771, .margin = margins[i].learnt };

		assert_true(estimate_ask(estimate_find("replay", NULL), s, 0, &c, &r));
		assert_int_equal(r.value.claim_mib, 732 + (uint64_t)(732 * margins[i].margin) + 1);
	}
	spec_unref(s);
}

/* PyTorch takes another kernel where a fence refuses it one, and without a fence all that is free. */
static void test_cudnn_benchmark_is_fenced(void **state)
{
	struct spec *s = spec_of("a100 i i i", CAPTURE_CUDNN_BENCHMARK, 0, "");
	struct estimate_result r;

	(void)state;
	assert_true(ask(s, "NVIDIA H200", &r));
	assert_int_equal(r.value.claim_mib, 732 + (uint64_t)(732 * MARGIN_REPLAY) + 1);
	assert_true(r.value.fenced && r.value.enforced_for_life);
	assert_non_null(strstr(r.note, "cudnn.benchmark"));
	spec_unref(s);
}

/* A doubt about sizes leaves the fence, since without one it takes all for sure; what has no bound does not. */
static void test_cudnn_benchmark_with_a_doubt(void **state)
{
	static const struct { const char *words; uint64_t flags; const char *note; bool fenced; } doubts[] = {
		{ "a100 i i i", CAPTURE_DATA_DEPENDENT, "; what it runs depends on its data; cudnn.benchmark takes more where", true },
		{ "a100 i i i", CAPTURE_VARIABLE_SHAPES, "; its shapes vary; cudnn.benchmark takes more where", true },
		{ "a100 i i i", CAPTURE_MAY_LEARN, "may do so later; cudnn.benchmark takes more where", true },
		{ "a100 i i i", CAPTURE_CUT_SHORT | CAPTURE_VARIABLE_SHAPES, "cut short; cudnn.benchmark takes what is free", false },
		{ "a100 i i i", CAPTURE_UNKNOWN_OP, "not known; cudnn.benchmark takes what is free", false },
		{ "a100 i i", 0, "fewer than 3 iterations were captured; cudnn.benchmark takes what is free", false },
	};
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(doubts); i++) {
		struct spec *s = spec_of(doubts[i].words, CAPTURE_CUDNN_BENCHMARK | doubts[i].flags, 0, "");

		assert_true(ask(s, "NVIDIA H200", &r));
		assert_non_null(strstr(r.note, doubts[i].note));
		assert_int_equal(r.value.claim_mib, 732 + (uint64_t)(732 * MARGIN_REPLAY_DOUBTFUL) + 1);
		assert_true(r.value.fenced == doubts[i].fenced && r.value.enforced_for_life == doubts[i].fenced);
		spec_unref(s);
	}
}

/* Growth of so many bytes a step; steps of 0: not known. */
static void test_little_growth_is_added(void **state)
{
	static const struct { uint64_t growth, steps, more; bool doubt; } tasks[] = {
		{ 0, 1000, 0, false }, { 512, 1000, 1, false }, { 512, 0, 49, false }, { 1024, 0, 0, true }, { 1024, 50000, 49, false },
		{ 72 * MIB, 1, 72, false }, { 74 * MIB, 1, 0, true }, { 1 * MIB, CAPTURE_MAX_COUNT, 0, true },
		{ CAPTURE_MAX_LIVE, CAPTURE_MAX_COUNT, 0, true },
	};
	const struct capture_texts t = { "2.11.0+cu130", "", "" };
	const uint64_t host[10] = { 0 };
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(tasks); i++) {
		struct spec *s = spec_create();
		struct capture_writer w;

		write_begin(&w, &t, 0, tasks[i].growth, 0);
		write_words(&w, "a100 i i i");
		write_end_steps(&w, host, NULL, 0, tasks[i].steps);
		s->capture = write_base64(&w.out);
		buf_free(&w.out);
		assert_true(ask(s, "NVIDIA H200", &r));
		assert_int_equal(r.value.claim_mib, 732 + 1 + tasks[i].more +
				 (uint64_t)(732 * (tasks[i].doubt ? MARGIN_REPLAY_DOUBTFUL : MARGIN_REPLAY)));
		assert_true(r.value.fenced != tasks[i].doubt && !strstr(r.note, "grows") != tasks[i].doubt);
		spec_unref(s);
	}
}

static void set_environ(struct spec *s, const char *first, const char *second)
{
	spec_set_environ(s, (char *[]){ (char *)first, (char *)second, NULL });
}

static void test_environment_decides(void **state)
{
	struct spec *s = spec_of("a1000 f0 a1200 i i i", 0, 0, "");
	struct estimate_result r;

	(void)state;
	set_environ(s, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", NULL);
	assert_true(ask(s, "NVIDIA H200", &r));
	assert_int_equal(r.value.comfort_mib, 1200 + 632);
	spec_unref(s);
	s = spec_of("a1000 i i i", 0, 0, "");
	set_environ(s, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "PYTORCH_ALLOC_CONF=");
	assert_false(ask(s, "NVIDIA H200", &r));
	assert_non_null(strstr(r.note, "differ"));
	spec_unref(s);
	s = spec_of("a1000 i i i", 0, 0, "");
	set_environ(s, "PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.001", NULL);
	assert_true(ask(s, "NVIDIA H200", &r));
	assert_non_null(strstr(r.note, "too small"));
	assert_false(r.value.fenced);
	spec_unref(s);
}

/* Blocks that nothing later fits into. */
static void test_one_range_in_their_place_is_told(void **state)
{
	static const struct { const char *words, *conf; unsigned mib; } jobs[] = {
		{ "a1000 f0 a1200 f1 a1400 f2 a1600 i i i", NULL, 1600 + 632 },
		{ "a1000 f0 a1200 f1 a1400 f2 a1600 i i i", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", 0 },
		{ "a1000 a1200 f0 f1 a1100 f2 a900 i i i", NULL, 0 },		/* into what the larger one left */
		{ "a100 f0 a120 f1 a140 i i i", NULL, 0 },			/* which is little beside what is outside */
	};
	struct estimate_result r;
	char said[32];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(jobs); i++) {
		struct spec *s = spec_of(jobs[i].words, 0, 0, "");

		set_environ(s, jobs[i].conf, NULL);
		assert_true(ask(s, "NVIDIA H200", &r));
		snprintf(said, sizeof said, "; %u MiB with PYTORCH_", jobs[i].mib);
		assert_true(strstr(r.note, jobs[i].mib ? said : "with PYTORCH_") ? jobs[i].mib : !jobs[i].mib);
		spec_unref(s);
	}
}

static void test_blas_workspaces(void **state)
{
	static const struct { const char *torch, *config, *lt_size, *unified; uint64_t kib, lt_kib; int lt; } rows[] = {
		{ "2.11", NULL, NULL, NULL, 32768, 1024, REPLAY_LT_KEPT },
		{ "2.11", ":4096:2:16:8", "2048", "0", 8320, 2048, REPLAY_LT_KEPT },
		{ "2.11", ":16:8", "0", "1", 128, 0, REPLAY_LT_SHARED }, { "2.11", ":0:0", "-1", "yes", 0, 1024, REPLAY_LT_KEPT },
		{ "2.11", "4096:8", "many", "", 32768, 1024, REPLAY_LT_KEPT }, { "2.11", "", "", NULL, 32768, 1024, REPLAY_LT_KEPT },
		{ "2.11", "a:8:2b:c:4:4:9", " 12k", NULL, 32, 12, REPLAY_LT_KEPT },
		{ "2.11", "::8:2", "3000000000", NULL, 16, 1024, REPLAY_LT_KEPT },
		{ "2.11", ":99999999999999999999999:9999999999999999999999", NULL, NULL, (uint64_t)1 << 36, 1024, REPLAY_LT_KEPT },
		{ "2.11", ":1:99999999999999999999999:16:8", NULL, NULL, (uint64_t)1 << 36, 1024, REPLAY_LT_KEPT },
		{ "2.11", ":4096:0", NULL, NULL, 0, 1024, REPLAY_LT_KEPT }, { "2.7", NULL, NULL, "1", 32768, 1024, REPLAY_LT_CALL },
		{ "2.8", NULL, NULL, "1", 32768, 1024, REPLAY_LT_SHARED }, { "2.12", NULL, NULL, NULL, 32768, 1024, REPLAY_LT_SHARED },
		{ "2.12", NULL, NULL, "0", 32768, 1024, REPLAY_LT_KEPT }, { "", NULL, NULL, "1", 32768, 1024, REPLAY_LT_KEPT },
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct replay_environment env = { rows[i].config, rows[i].lt_size, rows[i].unified };
		struct replay_blas b = replay_blas_of(replay_overheads("H200"), alloc_torch_parse(rows[i].torch), &env);

		print_message("row %zu\n", i);
		assert_int_equal(b.bytes, rows[i].kib * 1024);
		assert_int_equal(b.lt_bytes, rows[i].lt_kib * 1024);
		assert_int_equal(b.lt, rows[i].lt);
	}
}

static void test_environment_sets_workspaces(void **state)
{
	static const struct { const char *first, *second; uint64_t mib; } jobs[] = {
		{ "CUBLAS_WORKSPACE_CONFIG=:4096:16", NULL, 64 + 64 + 2 },
		{ "CUBLAS_WORKSPACE_CONFIG=:0:0", NULL, 2 },
		{ "CUBLAS_WORKSPACE_CONFIG=:4096:16", "CUBLASLT_WORKSPACE_SIZE=32768", 64 + 64 + 32 },
		{ "TORCH_CUBLASLT_UNIFIED_WORKSPACE=1", "CUBLASLT_WORKSPACE_SIZE=32768", 32 + 32 },
	};
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(jobs); i++) {
		struct spec *s = spec_of("a1000 i i i g01 g10", 0, 0, "");

		set_environ(s, jobs[i].first, jobs[i].second);
		assert_true(ask(s, "NVIDIA H200", &r));
		assert_int_equal(r.value.comfort_mib, 1000 + jobs[i].mib + 760);
		spec_unref(s);
	}
}

static void test_refused(void **state)
{
	static const struct { const char *capture, *note; } bad[] = {
		{ NULL, "no capture" }, { "", "not base64" }, { "abc", "not base64" }, { "ab!d", "not base64" }, { "====", "not base64" },
		{ "YWJj", "not a capture file" },
	};
	struct estimate_result r;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct spec *s = spec_create();

		s->capture = alloc_string_or_null(bad[i].capture);
		assert_false(ask(s, NULL, &r));
		assert_non_null(strstr(r.note, bad[i].note));
		assert_int_equal(r.value.claim_mib, 0);
		spec_unref(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plays),
		cmocka_unit_test(test_convolutions), cmocka_unit_test(test_convolutions_have_a_margin_of_their_own),
		cmocka_unit_test(test_fixed_costs),
		cmocka_unit_test(test_last_row_is_largest),
		cmocka_unit_test(test_own_fraction),
		cmocka_unit_test(test_random_captures),
		cmocka_unit_test(test_endless_is_refused),
		cmocka_unit_test(test_estimate),
		cmocka_unit_test(test_doubtful_estimates),
		cmocka_unit_test(test_a_doubt_takes_no_learnt_margin_away),
		cmocka_unit_test(test_cudnn_benchmark_is_fenced),
		cmocka_unit_test(test_cudnn_benchmark_with_a_doubt),
		cmocka_unit_test(test_little_growth_is_added),
		cmocka_unit_test(test_environment_decides),
		cmocka_unit_test(test_one_range_in_their_place_is_told),
		cmocka_unit_test(test_blas_workspaces),
		cmocka_unit_test(test_environment_sets_workspaces),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
