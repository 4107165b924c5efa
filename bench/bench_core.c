/* SPDX-License-Identifier: MIT
 * One scheduling pass of the whole core with 100,000 tasks queued on 64 GPUs: a sample that changes nothing, an end that
 * makes room, and a submission; of one user, and of 25 who take turns; and with 10,000 queued under what ships, where earlier
 * runs told times and loads of all, so that an end has a plan made; and a submission while all GPUs are drained, or while one
 * is and 10,000 wait for it. Prints one JSON object.
 *
 *	bench-core [ORDER USERS]	of so many users under that order alone: what is compared with a build before orders
 */
#include "bench.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "core/core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GPUS 64
#define QUEUED 100000
#define ROUNDS 2000
#define USERS 25
#define PLANNED 10000
#define PLANNED_ROUNDS 100
#define LACKING 10000
#define DRAINED_ROUNDS 20
#define KINDS 12

/* What is measured. `known`: earlier runs tell times and loads. */
struct scene { enum core_order order; enum map_rank rank; uid_t users; uint32_t queued; size_t rounds; bool known; };

struct world {
	struct core *c;
	struct now now;
	struct snapshot snap;
	uint32_t jobs;
	uid_t users;
	bool known;
	task_id placed[GPUS + ROUNDS + USERS];	/* in the order of their starts */
	size_t n_placed;
};

static void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct world *w = ctx;
	if (ev->kind == EV_PLACED && w->n_placed < sizeof w->placed / sizeof *w->placed)
		w->placed[w->n_placed++] = t->id;
}

static void on_trouble(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "bench-core: %s\n", text);
}

static bool state_of(task_id id, enum task_state *state, void *ctx)
{
	(void)id;
	(void)state;
	(void)ctx;
	return false;
}

static double at(int64_t *took, size_t rounds, double q)
{
	bench_sort(took, rounds);
	return (double)took[(size_t)((double)(rounds - 1) * q)] / 1000;
}

static void submit(struct world *w, unsigned gpus)
{
	struct spec *s = spec_create();
	s->gpus = gpus;
	s->gpu_mem_mib = 30000;
	s->uid = 1000 + w->jobs % w->users;
	s->signature = w->known ? alloc_printf("kind-%u", w->jobs % KINDS) : NULL;
	core_submit(w->c, ++w->jobs, s, w->now);
}

static void tick(struct world *w, int64_t ms)
{
	w->now.mono_ms += ms;
	w->now.wall_ms += ms;
}

static void sample(struct world *w)
{
	w->snap.mono_ms = w->now.mono_ms;
	core_snapshot(w->c, &w->snap, CORE_MPS_TOGETHER, w->now);
	core_turn(w->c, w->now);
}

static void make_gpus(struct world *w)
{
	for (uint32_t i = 0; i < GPUS; i++) {
		struct gpu_reading *g = snapshot_add_gpu(&w->snap);
		snprintf(g->uuid, sizeof g->uuid, "GPU-%u", i);
		g->index = i;
		g->mps_capable = true;
		g->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM | GPU_SMACT | GPU_GRACT;
		g->mem_total_mib = 40960;
		g->smact = g->gract = 0.3;
	}
}

static void remember(struct world *w)
{
	for (unsigned i = 0; w->known && i < KINDS; i++) {
		scoped_free char *signature = alloc_printf("kind-%u", i);
		struct outcome o = { .signature = signature, .gpu_name = "", .estimator = "", .verdict = VERDICT_OK,
				     .seen = { .peak_mib = 10000, .alone_s = 3600, .warm = true, .alone_gract = .4 + .04 * i,
					       .alone_smact = .3 + .03 * i, .alone_dram = NAN, .alone_watts = NAN,
					       .work_s = 600 + 100 * i } };
		core_remember(w->c, &o);
	}
}

static enum core_order order_by_name(const char *word)
{
	for (unsigned i = 0; i < CORE_ORDER_COUNT; i++)
		if (!strcmp(word, core_order_name((enum core_order)i)))
			return (enum core_order)i;
	fprintf(stderr, "bench-core: order '%s': there is none\n", word);
	exit(2);
}

/* Submissions while the first GPUs are drained. */
static double drained(struct world *w, int64_t *took, unsigned drained, unsigned gpus)
{
	for (unsigned i = 0; i < drained; i++)
		core_drain(w->c, w->snap.gpus[i].uuid, true);
	core_turn(w->c, w->now);
	for (size_t i = 0; i < DRAINED_ROUNDS; i++) {
		tick(w, 10);
		int64_t t0 = bench_now_ns();
		submit(w, gpus);
		core_turn(w->c, w->now);
		took[i] = bench_now_ns() - t0;
	}
	return at(took, DRAINED_ROUNDS, 0.5);
}

/* All GPUs are taken, and many wait for more of them than are not drained. */
static void measure_lacking(struct scene of, const char *after)
{
	static struct world w;
	struct core_config config = core_config_default();
	struct core_ops ops = { .ctx = &w, .event = on_event, .state_of = state_of, .trouble = on_trouble };
	scoped_free int64_t *took = alloc_zero(DRAINED_ROUNDS * sizeof *took);
	config.order = of.order;
	config.map.rank = of.rank;
	w = (struct world){ .now = { 1000000, 1700000000000 }, .users = of.users };
	w.c = core_create(&config, &ops);
	make_gpus(&w);
	sample(&w);
	for (uint32_t i = 0; i < GPUS; i++)
		submit(&w, 1);
	core_turn(w.c, w.now);
	for (uint32_t i = 0; i < of.queued; i++)
		submit(&w, GPUS);
	core_turn(w.c, w.now);
	printf("\"queued\":%zu,\"submit_us_median\":%.1f%s", core_count(w.c, TASK_PENDING), drained(&w, took, 1, 1), after);
	core_destroy(w.c);
	snapshot_clear(&w.snap);
}

static void measure(struct scene of, const char *after)
{
	static struct world w;
	struct core_config config = core_config_default();
	struct core_ops ops = { .ctx = &w, .event = on_event, .state_of = state_of, .trouble = on_trouble };
	scoped_free int64_t *sampled = alloc_zero(ROUNDS * sizeof *sampled), *ended = alloc_zero(ROUNDS * sizeof *ended);
	scoped_free int64_t *submitted = alloc_zero(ROUNDS * sizeof *submitted);
	config.order = of.order;
	config.map.rank = of.rank;
	w = (struct world){ .now = { 1000000, 1700000000000 }, .users = of.users, .known = of.known };
	w.c = core_create(&config, &ops);
	remember(&w);
	make_gpus(&w);
	sample(&w);
	for (uint32_t i = 0; i < of.queued + GPUS; i++) {
		submit(&w, 1);
		if (i < GPUS)
			core_turn(w.c, w.now);
	}
	for (size_t i = 0; i < of.rounds; i++) {
		tick(&w, 1000);
		int64_t t0 = bench_now_ns();
		sample(&w);
		sampled[i] = bench_now_ns() - t0;

		struct exit_report done = { .have_record = true };
		core_exited(w.c, w.placed[i], &done, w.now);
		tick(&w, 1000);
		t0 = bench_now_ns();
		sample(&w);	/* sees the memory free, and places the next */
		ended[i] = bench_now_ns() - t0;

		t0 = bench_now_ns();
		submit(&w, 1);
		core_turn(w.c, w.now);
		submitted[i] = bench_now_ns() - t0;
	}
	printf("\"gpus\":%d,\"queued\":%zu,\"sample_us_median\":%.1f,\"sample_us_p99\":%.1f,"
	       "\"place_us_median\":%.1f,\"place_us_p99\":%.1f,\"submit_us_median\":%.1f,\"submit_us_p99\":%.1f",
	       GPUS, core_count(w.c, TASK_PENDING), at(sampled, of.rounds, 0.5), at(sampled, of.rounds, 0.99),
	       at(ended, of.rounds, 0.5), at(ended, of.rounds, 0.99), at(submitted, of.rounds, 0.5), at(submitted, of.rounds, 0.99));
	printf(",\"drained_submit_us_median\":%.1f%s", drained(&w, submitted, GPUS, 1), after);
	core_destroy(w.c);
	snapshot_clear(&w.snap);
}

int main(int argc, char **argv)
{
	enum core_order order = argc > 1 ? order_by_name(argv[1]) : core_config_default().order;
	printf("{\"bench\":\"core\",");
	/* As in builds before `gain` was what ships: those are compared with. */
	struct scene of = { order, RANK_MAGM, 1, QUEUED, ROUNDS, false };
	if (argc > 2) {
		of.users = (uid_t)strtoul(argv[2], NULL, 10);
		measure(of, "}\n");
		return 0;
	}
	measure(of, ",\"many_users\":{");
	of.users = USERS;
	measure(of, "},\"planned\":{");
	measure((struct scene){ ORDER_PLAN, RANK_GAIN, 1, PLANNED, PLANNED_ROUNDS, true }, "},\"lacking\":{");
	of = (struct scene){ order, RANK_MAGM, 1, LACKING, 0, false };
	measure_lacking(of, ",\"many_users\":{");
	of.users = USERS;
	measure_lacking(of, "}}}\n");
	return 0;
}
