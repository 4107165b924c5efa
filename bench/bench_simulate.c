/* SPDX-License-Identifier: MIT
 * The cost of a simulation against the number of tasks and of GPUs, under `magm` and `fifo`, and under what ships, beyond
 * what a plan can hold. Tasks come as fast as the GPUs can take them, and at the end twice as fast, so that a queue builds up.
 * Prints one JSON object.
 *	bench-simulate [TASKS GPUS [ships]]
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Times, memory and loads of the evaluation's kinds of tasks: light, medium and heavy ones, one of them on two GPUs. */
static const struct { double solo_s; uint64_t mib; unsigned gpus; double gract, smact, part; } kinds[] = {
	{ 400, 800, 1, .30, .14, .40 }, { 900, 1900, 1, .35, .20, .25 }, { 2100, 6700, 1, .66, .51, .15 },
	{ 2700, 11800, 1, .80, .75, .10 }, { 1500, 20000, 1, .99, .94, .06 }, { 4200, 10000, 2, .99, .88, .04 },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static uint64_t dice = 1;

static double draw(void)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (double)(dice >> 11) / 9007199254740992.0;
}

static uint32_t any_kind(void)
{
	double at = draw();
	for (uint32_t i = 0; i < KINDS; i++)
		if ((at -= kinds[i].part) < 0)
			return i;
	return 0;
}

static void fill(struct sim_workloads *w, struct sim_trace *t, size_t n, size_t gpus)
{
	double load = 0, at_s = 0;
	for (size_t i = 0; i < KINDS; i++) {
		alloc_grow(w->list, w->n, w->cap);
		w->list[w->n++] = (struct sim_workload){ .name = alloc_printf("kind-%zu", i), .gpus = kinds[i].gpus,
			.solo_ms = (int64_t)(kinds[i].solo_s * 1000), .mem_mib = kinds[i].mib, .gract = kinds[i].gract,
			.smact = kinds[i].smact };
		load += kinds[i].part * kinds[i].solo_s * kinds[i].gpus * kinds[i].smact;
	}
	for (size_t i = 0; i < n; i++) {
		alloc_grow(t->list, t->n, t->cap);
		t->list[t->n++] = (struct sim_arrival){ .submit_ms = (int64_t)(at_s * 1000), .workload = any_kind(),
							 .line = (uint32_t)i + 2 };
		at_s += 2 * draw() * load / (double)gpus / (i < n / 2 ? .9 : 1.8);
	}
}

static void measure(size_t n, size_t gpus, bool ships, const char *before)
{
	struct sim_workloads w = { .path = alloc_string("W") };
	struct sim_trace t = { .path = alloc_string("T") };
	struct device_model *devices = alloc_zero(gpus * sizeof *devices);
	struct sim_result r;
	struct error err;
	struct rusage usage;
	fill(&w, &t, n, gpus);
	for (size_t i = 0; i < gpus; i++)
		devices[i] = simdev_models[0];
	struct sim_options o = { .core = core_config_default(), .estimator = "oracle", .devices = devices, .n_devices = gpus,
				 .workloads = &w, .trace = &t };
	if (!ships) {
		o.core.map.rank = RANK_MAGM;
		o.core.order = ORDER_FIFO;
	}
	int64_t began = clock_mono_ms();
	if (sim_run(&o, &r, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	double took_s = (double)(clock_mono_ms() - began) / 1000;
	getrusage(RUSAGE_SELF, &usage);
	printf("%s{\"policy\":\"%s\",\"tasks\":%zu,\"gpus\":%zu,\"took_s\":%.3f,\"peak_rss_mib\":%ld,\"moments\":%zu,"
	       "\"simulated_s\":%.0f,\"avg_wait_s\":%.0f}", before, map_rank_name(o.core.map.rank), n, gpus, took_s,
	       usage.ru_maxrss / 1024, r.events, (double)(r.account.last_end_ms - r.account.first_submit_ms) / 1000,
	       r.account.wait_s / (double)n);
	fflush(stdout);
	sim_result_clear(&r);
	sim_trace_clear(&t);
	sim_workloads_clear(&w);
	free(devices);
}

int main(int argc, char **argv)
{
	printf("{\"bench\":\"simulate\",\"results\":[");
	if (argc >= 3) {
		measure(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10), argc > 3, "");
	} else {
		measure(1000, 10, false, "");
		measure(10000, 10, false, ",");
		measure(10000, 100, false, ",");
		measure(100000, 100, false, ",");
		measure(100000, 1000, false, ",");
		measure(10000, 100, true, ",");
		measure(100000, 1000, true, ",");
	}
	printf("]}\n");
	return 0;
}
