/* SPDX-License-Identifier: MIT
 * The lower bound: one walk over the trace from its end, as the sums of `demand` are over all that comes later.
 */
#include "sim/bound.h"

#include <math.h>
#include <stdbool.h>

struct sums { double time, gract, smact, mem; };	/* each times milliseconds */

/* Until the end of its ramp a task may hold less than what it must have then. */
static int64_t with_all_memory(int64_t solo_ms)
{
	return solo_ms - simdev_ramp_ms(solo_ms);
}

static void add(struct sums *s, const struct sim_workload *w, int64_t solo_ms)
{
	int64_t works_ms = w->start_ms < solo_ms ? solo_ms - w->start_ms : solo_ms;
	s->time += (double)solo_ms * w->gpus;
	s->gract += (double)works_ms * w->gpus * w->gract;
	s->smact += (double)works_ms * w->gpus * fmin(w->smact, w->gract);
	s->mem += (double)with_all_memory(works_ms) * w->gpus * (double)(w->need_mib ? w->need_mib : w->mem_mib);
}

/* What the devices have together. */
struct capacity { double gpus, sms, mib; };

static double demand_ms(const struct sums *s, const struct capacity *have, enum share_mode mode)
{
	double gpus = have->gpus, worst = fmax(s->smact / have->sms, s->mem / have->mib);
	if (mode == SHARE_NEVER || mode == SHARE_MIG)
		return fmax(worst, s->time / gpus);
	return mode == SHARE_MPS ? worst : fmax(worst, s->gract / gpus);
}

double bound_total_s(const struct sim_trace *t, const struct sim_workloads *w, const struct device_model *devices, size_t n,
		     enum share_mode mode, const int64_t *solo_ms)
{
	struct sums later = { 0 };
	struct capacity have = { .gpus = (double)n };
	double bound_ms = 0;
	bool all_mig = true;
	for (size_t i = 0; i < n; i++) {
		have.mib += (double)(devices[i].mem_total_mib - devices[i].mem_reserved_mib);
		have.sms += devices[i].sm_part;
		all_mig = all_mig && *devices[i].profile;
	}
	mode = all_mig ? SHARE_MIG : mode;
	for (size_t i = t->n; i-- > 0;) {
		const struct sim_arrival *a = &t->list[i];
		int64_t solo = solo_ms ? solo_ms[i] : w->list[a->workload].solo_ms;
		double since = (double)(a->submit_ms - t->list[0].submit_ms);
		add(&later, &w->list[a->workload], solo);
		bound_ms = fmax(bound_ms, since + (double)solo);
		bound_ms = fmax(bound_ms, since + demand_ms(&later, &have, mode));
	}
	return bound_ms / 1000;
}
