/* SPDX-License-Identifier: MIT
 * The outer scheduler: order, backfill, what fits where, and that the quick ways (the tree, the bits) find what looking at
 * everything finds.
 */
#include "sim/outer.h"

#include "base/scope.h"
#include "sim/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GPUS 2
#define SECOND 1000

static const uint32_t forty[GPUS] = { 40, 40 };

static struct outer_config config(size_t nodes, size_t jobs)
{
	return (struct outer_config){ .n_nodes = nodes, .n_jobs = jobs, .gpus = GPUS, .shards = forty, .mem = 80, .cpus = 16,
				      .backfill_ms = 30 * SECOND, .backfill_depth = 500 };
}

static struct outer *scene(size_t nodes, size_t jobs)
{
	const struct outer_config c = config(nodes, jobs);
	return outer_create(&c);
}

static struct outer_ask gpus(uint32_t n, int64_t limit_s)
{
	return (struct outer_ask){ .gpus = n, .limit_ms = limit_s * SECOND };
}

static struct outer_ask shards(uint32_t n, int64_t limit_s)
{
	return (struct outer_ask){ .shards = n, .limit_ms = limit_s * SECOND };
}

static struct outer_ask mem(uint32_t n, int64_t limit_s)
{
	return (struct outer_ask){ .mem = n, .limit_ms = limit_s * SECOND };
}

static struct outer_ask whole_nodes(uint32_t n, int64_t limit_s)
{
	return (struct outer_ask){ .nodes = n, .limit_ms = limit_s * SECOND };
}

static void queue(struct outer *o, uint32_t job, struct outer_ask ask)
{
	outer_queue(o, job, &ask);
}

/* The jobs that start at that second, in order: "0 2". */
static void assert_starts(struct outer *o, int64_t at_s, const char *jobs)
{
	const uint32_t *started;
	char text[200] = "", *p = text;
	size_t n = outer_pass(o, at_s * SECOND, &started);
	for (size_t i = 0; i < n; i++)
		p += snprintf(p, (size_t)(text + sizeof text - p), "%s%u", i ? " " : "", started[i]);
	assert_string_equal(text, jobs);
}

static void first_come_first_served(void **state)
{
	(void)state;
	struct outer *o = scene(1, 8);
	queue(o, 0, gpus(1, 100));
	queue(o, 1, gpus(1, 100));
	queue(o, 2, gpus(1, 100));
	queue(o, 3, gpus(1, 100));
	assert_starts(o, 0, "0 1");
	assert_starts(o, 1, "");
	outer_release(o, 0);
	assert_starts(o, 50, "2");
	outer_release(o, 1);
	outer_release(o, 2);
	assert_starts(o, 60, "3");
	assert_int_equal(outer_place(o, 3).gpus, 1);
	outer_destroy(o);
}

/* Job 1 waits for both GPUs of one of two nodes; node 1 is expected first. */
static void backfill_leaves_the_head_its_nodes(void **state)
{
	(void)state;
	struct outer *o = scene(2, 8);
	queue(o, 0, gpus(1, 1000));
	assert_starts(o, 0, "0");
	queue(o, 1, gpus(2, 100));
	assert_starts(o, 0, "1");
	queue(o, 2, gpus(2, 100));
	queue(o, 3, gpus(1, 5000));	/* beside job 0, on a node that nobody waits for */
	queue(o, 4, gpus(1, 50));	/* over before job 1 is, but nothing is free */
	assert_starts(o, 10, "3");
	assert_int_equal(outer_place(o, 3).nodes[0], 0);
	outer_release(o, 3);
	queue(o, 5, gpus(1, 1200));
	assert_starts(o, 20, "");	/* the next backfill is not due */
	assert_int_equal(outer_due(o), 40 * SECOND);
	assert_starts(o, 40, "4");
	outer_release(o, 1);
	assert_starts(o, 70, "2");
	outer_release(o, 4);
	assert_starts(o, 80, "5");
	outer_destroy(o);
}

static void backfill_fits_before_the_head_on_its_own_node(void **state)
{
	(void)state;
	struct outer *o = scene(1, 8);
	queue(o, 0, gpus(1, 100));
	assert_starts(o, 0, "0");
	queue(o, 1, gpus(2, 100));
	queue(o, 2, gpus(1, 101));	/* a second too long */
	queue(o, 3, gpus(1, 100));
	assert_starts(o, 0, "3");
	outer_release(o, 0);
	outer_release(o, 3);
	assert_starts(o, 90, "1");
	outer_destroy(o);
}

static void without_backfill_nobody_passes(void **state)
{
	(void)state;
	struct outer_config c = config(2, 8);
	c.backfill_depth = 0;
	struct outer *o = outer_create(&c);
	queue(o, 0, gpus(1, 10));
	queue(o, 1, gpus(1, 10));
	queue(o, 2, gpus(1, 10));
	assert_starts(o, 0, "0 1 2");
	queue(o, 3, gpus(2, 10));
	queue(o, 4, gpus(1, 1));
	assert_starts(o, 1, "");
	assert_int_equal(outer_due(o), INT64_MAX);
	outer_destroy(o);
}

/* 40 shards a GPU: 30 and 30 leave 10 and 10, which are no 20. */
static void shards_are_of_one_gpu_and_memory_is_of_a_node(void **state)
{
	(void)state;
	struct outer *o = scene(1, 8);
	queue(o, 0, shards(30, 100));
	queue(o, 1, shards(30, 100));
	queue(o, 2, shards(20, 100));
	queue(o, 3, shards(10, 50));
	assert_starts(o, 0, "0 1 3");
	assert_int_equal(outer_place(o, 0).gpus, 1);
	assert_int_equal(outer_place(o, 1).gpus, 2);
	assert_int_equal(outer_place(o, 3).gpus, 1);	/* the first that fits, however full it is */
	outer_destroy(o);

	o = scene(1, 8);
	queue(o, 0, mem(30, 100));
	queue(o, 1, mem(30, 100));
	queue(o, 2, mem(20, 100));	/* the total has it: whether a GPU does, only the node knows */
	queue(o, 3, mem(1, 100));
	assert_starts(o, 0, "0 1 2");
	outer_destroy(o);
}

static void a_gpu_is_shared_or_whole(void **state)
{
	(void)state;
	struct outer *o = scene(1, 8);
	queue(o, 0, shards(1, 100));
	queue(o, 1, gpus(1, 100));
	queue(o, 2, gpus(1, 50));
	queue(o, 3, shards(40, 100));
	assert_starts(o, 0, "0 1");
	outer_release(o, 1);
	assert_starts(o, 10, "2");
	outer_release(o, 0);
	assert_starts(o, 20, "3");
	outer_destroy(o);
}

static void cpus_are_counted(void **state)
{
	(void)state;
	struct outer *o = scene(2, 8);
	for (uint32_t i = 0; i < 3; i++)
		queue(o, i, (struct outer_ask){ .shards = 1, .cpus = 10, .limit_ms = SECOND });
	assert_starts(o, 0, "0 1");
	assert_int_equal(outer_place(o, 1).nodes[0], 1);
	outer_destroy(o);
}

static void spread_takes_the_emptiest(void **state)
{
	(void)state;
	struct outer_config c = config(3, 8);
	c.spread = true;
	struct outer *o = outer_create(&c);
	queue(o, 0, mem(30, 100));
	queue(o, 1, mem(20, 100));
	queue(o, 2, mem(10, 100));
	queue(o, 3, mem(10, 100));
	assert_starts(o, 0, "0 1 2 3");
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(outer_place(o, i).nodes[0], i);
	assert_int_equal(outer_place(o, 3).nodes[0], 2);
	outer_destroy(o);
}

static void shards_on_the_least_used_gpu(void **state)
{
	(void)state;
	struct outer_config c = config(1, 8);
	c.least_gpu = true;
	struct outer *o = outer_create(&c);
	for (uint32_t i = 0; i < 4; i++)
		queue(o, i, shards(i < 1 ? 15 : 10, 100));
	assert_starts(o, 0, "0 1 2 3");
	static const uint64_t want[] = { 1, 2, 2, 1 };
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(outer_place(o, i).gpus, want[i]);
	outer_destroy(o);
}

static void whole_nodes_wait_for_empty_ones(void **state)
{
	(void)state;
	struct outer *o = scene(3, 8);
	queue(o, 0, shards(1, 500));
	queue(o, 1, whole_nodes(3, 100));
	queue(o, 2, whole_nodes(2, 400));
	queue(o, 3, whole_nodes(2, 600));
	assert_starts(o, 0, "0 2");
	outer_release(o, 2);
	assert_starts(o, 30, "");
	outer_release(o, 0);
	assert_starts(o, 100, "1");
	assert_int_equal(outer_place(o, 1).n_nodes, 3);
	outer_release(o, 1);
	assert_starts(o, 200, "3");
	outer_destroy(o);
}

/* As under priority/basic: a job that comes back goes before those that were submitted after it. */
static void one_that_comes_back_keeps_its_place(void **state)
{
	(void)state;
	struct outer *o = scene(1, 8);
	queue(o, 0, gpus(2, 100));
	queue(o, 1, gpus(2, 100));
	queue(o, 2, gpus(2, 100));
	assert_starts(o, 0, "0");
	outer_release(o, 0);
	assert_starts(o, 1, "1");
	queue(o, 0, gpus(2, 100));
	outer_release(o, 1);
	assert_starts(o, 2, "0");
	outer_release(o, 0);
	assert_starts(o, 3, "2");
	outer_destroy(o);
}

static void what_no_empty_cluster_could_run(void **state)
{
	(void)state;
	struct outer *o = scene(2, 1);
	const struct { struct outer_ask ask; bool can; } asks[] = {
		{ gpus(2, 1), true }, { gpus(3, 1), false }, { shards(40, 1), true }, { shards(41, 1), false }, { mem(80, 1), true },
		{ mem(81, 1), false }, { whole_nodes(2, 1), true }, { whole_nodes(3, 1), false },
		{ { .shards = 1, .cpus = 17 }, false },
	};
	for (size_t i = 0; i < COUNT_OF(asks); i++)
		assert_int_equal(outer_feasible(o, &asks[i].ask), asks[i].can);
	outer_destroy(o);
}

/* A cluster beside it, of which everything is looked at. */
#define NODES 37
#define JOBS 600

struct plain { uint32_t shards[NODES][GPUS], cpus[NODES]; };

static bool fits_plainly(const struct plain *p, const struct outer_ask *ask, uint32_t node)
{
	unsigned idle = 0;
	bool fits = !ask->shards;
	for (unsigned i = 0; i < GPUS; i++) {
		idle += p->shards[node][i] == 40;
		fits = fits || p->shards[node][i] >= ask->shards;
	}
	return fits && idle >= (ask->nodes ? GPUS : ask->gpus) && p->cpus[node] >= (ask->nodes ? 16 : ask->cpus);
}

static void count(struct plain *p, const struct outer_ask *ask, const struct outer_place *at, int sign)
{
	for (uint32_t n = 0; n < at->n_nodes; n++) {
		uint32_t node = at->nodes[n];
		p->cpus[node] -= (uint32_t)sign * (ask->nodes ? 16 : ask->cpus);
		for (unsigned i = 0; i < GPUS; i++)
			if (ask->nodes || at->gpus >> i & 1)
				p->shards[node][i] -= (uint32_t)sign * (ask->shards ? ask->shards : 40);
	}
}

static struct outer_ask any_ask(struct dice *d)
{
	struct outer_ask ask = { .limit_ms = (int64_t)(1 + dice_below(d, 50)) * SECOND, .cpus = (uint32_t)dice_below(d, 9) };
	switch (dice_below(d, 8)) {
	case 0: ask.nodes = 1 + (uint32_t)dice_below(d, 5); ask.cpus = 0; break;
	case 1: case 2: ask.gpus = 1 + (uint32_t)dice_below(d, GPUS); break;
	default: ask.shards = 1 + (uint32_t)dice_below(d, 40);
	}
	return ask;
}

/* Nobody gets what somebody has, and the first that waits is one that fits nowhere. */
static void random_jobs_start_as_they_must(uint64_t seed)
{
	struct dice d = { seed };
	struct outer *o = scene(NODES, JOBS);
	struct plain p;
	struct outer_ask asks[JOBS];
	int64_t ends_ms[JOBS];
	size_t next = 0, left = JOBS;
	for (uint32_t i = 0; i < NODES; i++) {
		memcpy(p.shards[i], forty, sizeof forty);
		p.cpus[i] = 16;
	}
	enum { TO_COME, WAITS, RUNS, GONE } is[JOBS] = { 0 };
	for (int64_t now_ms = 0; left; now_ms += SECOND) {
		for (uint32_t i = 0; i < JOBS; i++)
			if (is[i] == RUNS && ends_ms[i] <= now_ms) {
				const struct outer_place at = outer_place(o, i);
				count(&p, &asks[i], &at, -1);
				outer_release(o, i);
				is[i] = GONE;
				left--;
			}
		for (uint64_t n = dice_below(&d, 9); n && next < JOBS; n--, next++) {
			asks[next] = any_ask(&d);
			queue(o, (uint32_t)next, asks[next]);
			is[next] = WAITS;
		}
		const uint32_t *started;
		size_t n = outer_pass(o, now_ms, &started);
		for (size_t i = 0; i < n; i++) {
			const struct outer_place at = outer_place(o, started[i]);
			for (uint32_t k = 0; k < at.n_nodes; k++)
				assert_true(fits_plainly(&p, &asks[started[i]], at.nodes[k]));
			count(&p, &asks[started[i]], &at, 1);
			is[started[i]] = RUNS;
			ends_ms[started[i]] = now_ms + asks[started[i]].limit_ms / (int64_t)(1 + dice_below(&d, 3));
		}
		uint32_t head = 0, fitting = 0;
		while (head < JOBS && is[head] != WAITS)
			head++;
		for (uint32_t i = 0; head < JOBS && i < NODES; i++)
			fitting += fits_plainly(&p, &asks[head], i);
		assert_true(head == JOBS || fitting < (asks[head].nodes ? asks[head].nodes : 1));
	}
	outer_destroy(o);
}

static void random_jobs(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++)
		random_jobs_start_as_they_must(seed);
}

/* The head's start without the jobs behind it is its start with them, whatever they are: each ends exactly at its limit. */
static int64_t head_starts_ms(uint64_t seed, size_t behind)
{
	struct dice d = { seed };
	struct outer *o = scene(NODES, JOBS);
	int64_t ends_ms[JOBS];
	bool runs[JOBS] = { false };
	size_t first = NODES * GPUS, at_ms = 0;	/* as many have a GPU each, so the next is the head */
	for (uint32_t i = 0; i < first; i++)
		queue(o, i, (struct outer_ask){ .shards = 21 + (uint32_t)dice_below(&d, 20),
						.limit_ms = (int64_t)(1 + dice_below(&d, 90)) * SECOND });
	queue(o, (uint32_t)first, seed % 2 ? whole_nodes(1 + (uint32_t)dice_below(&d, 6), 10) : gpus(2, 10));
	for (uint32_t i = 1; i <= behind; i++)
		queue(o, (uint32_t)first + i, any_ask(&d));
	for (;; at_ms += SECOND) {
		const uint32_t *started;
		for (uint32_t i = 0; i < JOBS; i++)
			if (runs[i] && ends_ms[i] <= (int64_t)at_ms) {
				outer_release(o, i);
				runs[i] = false;
			}
		size_t n = outer_pass(o, (int64_t)at_ms, &started);
		for (size_t i = 0; i < n; i++) {
			if (started[i] == first) {
				outer_destroy(o);
				return (int64_t)at_ms;
			}
			runs[started[i]] = true;
			ends_ms[started[i]] = outer_place(o, started[i]).end_ms;
		}
	}
}

static void backfill_never_delays_the_head(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++)
		assert_true(head_starts_ms(seed, 300) <= head_starts_ms(seed, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_come_first_served), cmocka_unit_test(backfill_leaves_the_head_its_nodes),
		cmocka_unit_test(backfill_fits_before_the_head_on_its_own_node), cmocka_unit_test(without_backfill_nobody_passes),
		cmocka_unit_test(shards_are_of_one_gpu_and_memory_is_of_a_node), cmocka_unit_test(a_gpu_is_shared_or_whole),
		cmocka_unit_test(cpus_are_counted), cmocka_unit_test(shards_on_the_least_used_gpu),
		cmocka_unit_test(spread_takes_the_emptiest),
		cmocka_unit_test(whole_nodes_wait_for_empty_ones), cmocka_unit_test(one_that_comes_back_keeps_its_place),
		cmocka_unit_test(what_no_empty_cluster_could_run), cmocka_unit_test(random_jobs),
		cmocka_unit_test(backfill_never_delays_the_head),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
