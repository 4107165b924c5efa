/* SPDX-License-Identifier: MIT
 * Inference: random tasks share a GPU by the law, the GPU shows their sums with noise, and what is believed of each must be
 * right within what is said about its error. Then everything that must teach nothing.
 */
#include "share/infer.h"

#include "models/infer.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#define ROUNDS 400

static uint64_t seed;

/* splitmix64 */
static double next_unit(void)
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* Near enough to a normal one. */
static double noise(double sd)
{
	double sum = -6;
	for (int i = 0; i < 12; i++)
		sum += next_unit();
	return sum * sd;
}

static double in_range(double v)
{
	return fmin(fmax(v, 0.01), 1);
}

struct truth { struct share_task load; double dram; };

static struct truth random_task(void)
{
	double g = in_range(next_unit()), s = in_range(g * (0.4 + 0.5 * next_unit()));
	return (struct truth){ { g, s }, in_range(s * next_unit() / 2) };
}

/* What the GPU shows of those tasks: written down here once more. */
static struct infer_reading show(const struct truth *t, const unsigned *who, size_t n, enum share_mode mode, double off)
{
	struct share_task loads[8] = { { 0 } };
	double speed[8], dram = 0, idle = 1;
	for (size_t i = 0; i < n; i++)
		loads[i] = t[who[i]].load;
	share_speeds(loads, n, mode, speed);
	struct share_activity a = share_activity(loads, n, speed);
	for (size_t i = 0; i < n; i++)
		dram += speed[i] * t[who[i]].dram, idle *= 1 - speed[i] * loads[i].gract;
	if (n > 1)
		a.smact *= 1 + (mode == SHARE_MPS ? INFER_MPS_LINGER : INFER_STREAMS_LINGER) * (1 - a.smact);
	a.gract = mode == SHARE_MPS && n > 1 ? (a.gract + 1 - idle) / 2 : a.gract;
	return (struct infer_reading){ in_range(a.gract + noise(off)), in_range(a.smact + noise(off)), in_range(dram + noise(off)),
				       60 };
}

struct score { double error[ROUNDS * 4]; unsigned n, within; };

static int by_size(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;
	return (a > b) - (a < b);
}

static void note(struct score *s, const struct load_belief *b, const struct truth *t)
{
	double error = fabs(b->load.smact - t->load.smact);
	s->error[s->n++] = error;
	s->within += error <= 2 * b->smact_sd;
}

static void check_score(struct score *s, double most, const char *what)
{
	qsort(s->error, s->n, sizeof *s->error, by_size);
	double median = s->error[s->n / 2], within = (double)s->within / s->n;
	if (median > most || within < 0.9)
		fail_msg("%s: SMACT is %.3f off in the median (%.3f is allowed), %.0f %% within two standard deviations", what, median,
			 most, 100 * within);
}

static const struct load_belief nothing;

static struct load_belief as_measured(const struct truth *t)
{
	return (struct load_belief){ t->load, 0.03, 0.03, t->dram, 0.03, NAN, LOAD_MEASURED };
}

/* One equation in one unknown. */
static void an_unknown_task_beside_known_ones(void **unused)
{
	(void)unused;
	static const enum share_mode modes[] = { SHARE_MPS, SHARE_STREAMS };
	for (int m = 0; m < 2; m++) {
		struct score s = { .n = 0 };
		seed = 1;
		for (int round = 0; round < ROUNDS; round++) {
			struct infer *f = infer_create();
			struct truth t[4];
			unsigned who[4], n = 2 + (unsigned)(next_unit() * 3);
			for (unsigned i = 0; i < n; i++) {
				t[i] = random_task();
				struct load_belief b = as_measured(&t[i]);
				infer_join(f, i + 1, i ? &b : &nothing);
				who[i] = i;
			}
			struct infer_reading r = show(t, who, n, modes[m], 0.02);
			struct load_belief b;
			infer_span(f, modes[m], &r);
			assert_true(infer_belief(f, 1, &b));
			note(&s, &b, &t[0]);
			infer_destroy(f);
		}
		check_score(&s, modes[m] == SHARE_MPS ? 0.10 : 0.16, m ? "streams" : "mps");
	}
}

/* Of four tasks nothing is known; they come and go one by one. */
static void several_unknown_ones_over_spans(void **unused)
{
	(void)unused;
	static const struct { unsigned who[4], n; } spans[] = {
		{ { 0, 1 }, 2 }, { { 0, 1, 2 }, 3 }, { { 1, 2 }, 2 }, { { 1, 2, 3 }, 3 }, { { 2, 3 }, 2 },
	};
	struct score s = { .n = 0 };
	seed = 2;
	for (int round = 0; round < ROUNDS; round++) {
		struct infer *f = infer_create();
		struct truth t[4];
		bool here[4] = { false };
		for (unsigned i = 0; i < 4; i++)
			t[i] = random_task();
		for (size_t k = 0; k < sizeof spans / sizeof *spans; k++) {
			bool now[4] = { false };
			for (unsigned i = 0; i < spans[k].n; i++)
				now[spans[k].who[i]] = true;
			for (unsigned i = 0; i < 4; i++) {
				if (now[i] && !here[i])
					infer_join(f, i + 1, &nothing);
				else if (!now[i] && here[i])
					infer_leave(f, i + 1);
				here[i] = now[i];
			}
			struct infer_reading r = show(t, spans[k].who, spans[k].n, SHARE_MPS, 0.02);
			infer_span(f, SHARE_MPS, &r);
		}
		for (unsigned i = 0; i < 4; i++) {
			struct load_belief b;
			assert_true(infer_belief(f, i + 1, &b));
			note(&s, &b, &t[i]);
		}
		infer_destroy(f);
	}
	check_score(&s, 0.12, "a chain of unknown ones");
}

/* The same readings for an hour are not worth more than for ten minutes: the law is wrong by as much. */
static void a_span_counts_once(void **unused)
{
	(void)unused;
	struct infer *f = infer_create();
	struct infer_reading r = { 0.9, 0.7, 0.2, 600 };
	struct load_belief first, later;
	infer_join(f, 1, &nothing);
	infer_join(f, 2, &nothing);
	infer_span(f, SHARE_MPS, &r);
	infer_belief(f, 1, &first);
	for (int i = 0; i < 100; i++)
		infer_span(f, SHARE_MPS, &r);
	infer_belief(f, 1, &later);
	assert_true(first.smact_sd == later.smact_sd && first.load.smact == later.load.smact);
	assert_int_equal(later.source, LOAD_INFERRED);
	infer_destroy(f);
}

/* What the prior and the evidence come to is what is believed. */
static void evidence_is_without_the_prior(void **unused)
{
	(void)unused;
	struct infer *f = infer_create();
	struct load_belief prior = { { 0.5, 0.3 }, 0.2, 0.2, NAN, NAN, 300, LOAD_GUESSED };
	struct load_belief other = as_measured(&(struct truth){ { .4, .2 }, .1 });
	struct load_belief b, e, c;
	infer_join(f, 1, &prior);
	infer_join(f, 2, &other);
	assert_int_equal(infer_evidence(f, 1).source, LOAD_UNKNOWN);
	infer_span(f, SHARE_MPS, &(struct infer_reading){ 0.99, 0.55, 0.2, 60 });
	assert_true(infer_belief(f, 1, &b));
	e = infer_evidence(f, 1);
	c = infer_combine(&prior, &e);
	assert_int_equal(e.source, LOAD_INFERRED);
	assert_true(fabs(c.load.smact - b.load.smact) < 0.01 && fabs(c.smact_sd - b.smact_sd) < 0.01);
	assert_true(b.watts == 300);
	infer_leave(f, 1);
	assert_true(infer_belief(f, 1, &c) && fabs(c.load.smact - b.load.smact) < 0.02);	/* it stays for a while */
	infer_leave(f, 2);
	assert_false(infer_belief(f, 1, &c));
	infer_destroy(f);
}

/* Readings show loads and no kernels: those that a capture told of go on counting, also once the loads are inferred. */
static void kernels_are_those_of_the_prior(void **unused)
{
	(void)unused;
	const struct load_belief captured = { { 0.5, 0.3, 40000 }, 0.2, 0.2, NAN, NAN, 300, LOAD_GUESSED };
	struct infer *f = infer_create();
	struct load_belief b;
	infer_join(f, 1, &captured);
	infer_join(f, 2, &nothing);
	assert_true(infer_belief(f, 1, &b) && b.source == LOAD_GUESSED && b.load.kernels == 40000);
	infer_span(f, SHARE_MPS, &(struct infer_reading){ 0.99, 0.9, 0.2, 60 });
	assert_true(infer_belief(f, 1, &b) && b.source == LOAD_INFERRED && b.load.kernels == 40000);
	assert_true(infer_belief(f, 2, &b) && b.source == LOAD_INFERRED && !(b.load.kernels > 0));
	infer_destroy(f);
}

static void what_cannot_be_teaches_nothing(void **unused)
{
	(void)unused;
	static const struct infer_reading bad[] = {
		{ NAN, NAN, NAN, 60 }, { 0.9, 1.5, 0.2, 60 }, { 0.9, -0.1, 0.2, 60 }, { 0.9, INFINITY, 0.2, 60 },
		{ 0.9, 0.5, 0.2, 0 }, { 0.9, 0.5, 0.2, NAN }, { 0.9, 0.5, 0.2, -7 },
	};
	struct infer *f = infer_create();
	struct load_belief b;
	infer_join(f, 1, &nothing);
	infer_join(f, 2, &nothing);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		infer_span(f, SHARE_MPS, &bad[i]);
		assert_true(infer_belief(f, 1, &b));
		assert_int_equal(b.source, LOAD_UNKNOWN);
		assert_int_equal(infer_evidence(f, 1).source, LOAD_UNKNOWN);
	}
	infer_span(f, SHARE_MPS, &(struct infer_reading){ NAN, 0.5, NAN, 60 });	/* SMACT alone is enough */
	assert_true(infer_belief(f, 1, &b));
	assert_int_equal(b.source, LOAD_INFERRED);
	infer_destroy(f);
}

/* Crowds, comers and goers in any order: figures stay figures, and too many are not guessed about. */
static void any_traffic(void **unused)
{
	(void)unused;
	struct infer *f = infer_create();
	bool here[40] = { false };
	struct load_belief b;
	seed = 3;
	for (int round = 0; round < 20000; round++) {
		unsigned i = (unsigned)(next_unit() * (round % 2000 < 1500 ? 6 : 40));
		if (here[i])
			infer_leave(f, i + 1);
		else
			infer_join(f, i + 1, &nothing);
		here[i] = !here[i];
		infer_span(f, next_unit() < 0.5 ? SHARE_MPS : SHARE_STREAMS,
			   &(struct infer_reading){ next_unit(), next_unit(), next_unit(), 1 + 100 * next_unit() });
		for (unsigned k = 0; k < 40; k++)
			if (infer_belief(f, k + 1, &b))
				assert_true(b.load.smact > 0 && b.load.smact <= b.load.gract && b.load.gract <= 1 && b.smact_sd > 0 &&
					    b.smact_sd < 1 && b.dram >= 0 && b.dram <= 1);
	}
	infer_destroy(f);
	infer_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_task_beside_known_ones), cmocka_unit_test(several_unknown_ones_over_spans),
		cmocka_unit_test(a_span_counts_once), cmocka_unit_test(evidence_is_without_the_prior),
		cmocka_unit_test(kernels_are_those_of_the_prior),
		cmocka_unit_test(what_cannot_be_teaches_nothing), cmocka_unit_test(any_traffic),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
