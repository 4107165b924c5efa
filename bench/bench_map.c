/* SPDX-License-Identifier: MIT
 * How long one placement decision takes, on GPUs that are idle, shared, full or busy; each decision finds another state.
 * Prints one JSON object.
 */
#include "bench.h"

#include "base/scope.h"
#include "map/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DECISIONS 100000

static uint64_t seed = 7;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static void any_state(struct map_gpu *g)
{
	g->n_tasks = (unsigned)draw(4);
	g->available_mib = g->n_tasks ? draw(g->total_mib) : g->total_mib;
	g->mode = draw(4) ? SHARE_MPS : SHARE_STREAMS;
	g->load.smact = g->load.gract = (double)draw(101) / 100;
}

/* `fit`: claims that somebody has room for; else claims above every GPU, so that all are asked in vain. */
static void measure(size_t n, bool fit, const char *before)
{
	scoped_free struct map_gpu *gpus = calloc(n, sizeof *gpus);
	scoped_free int64_t *took = calloc(DECISIONS, sizeof *took);
	if (!gpus || !took)
		exit(1);
	for (size_t i = 0; i < n; i++) {
		gpus[i] = (struct map_gpu){ .slot = (uint32_t)i, .index = (uint32_t)i, .total_mib = 40448, .mps_uid = 1000,
			.mps_capable = true, .load = { 0, 0, true, true } };
		any_state(&gpus[i]);
	}
	const struct map_policy p = map_policy_default();
	uint32_t turn = 0, placed = 0;
	int64_t total = 0;
	for (size_t i = 0; i < DECISIONS; i++) {
		struct map_request r = { .task = (task_id)i, .gpus = draw(10) ? 1 : 2, .uid = 1000,
			.claim_mib = (fit ? 0 : 50000) + draw(30000), .claim_is_declared = true };
		struct placement out;
		any_state(&gpus[draw(n)]);
		int64_t began = bench_now_ns();
		placed += map_place(&(struct map_scene){ &p, gpus, n, &turn }, &r, &out, NULL);
		took[i] = bench_now_ns() - began;
		total += took[i];
	}
	bench_sort(took, DECISIONS);
	printf("%s{\"gpus\":%zu,\"room\":%s,\"decisions\":%d,\"placed\":%u,\"median_ns\":%jd,\"p99_ns\":%jd,\"total_s\":%.3f}",
	       before, n, fit ? "true" : "false", DECISIONS, placed, (intmax_t)took[DECISIONS / 2],
	       (intmax_t)took[DECISIONS / 100 * 99], (double)total / 1e9);
}

int main(void)
{
	printf("{\"bench\":\"map_place\",\"results\":[");
	measure(64, true, "");
	measure(64, false, ",");
	measure(1000, true, ",");
	measure(1000, false, ",");
	printf("]}\n");
	return 0;
}
