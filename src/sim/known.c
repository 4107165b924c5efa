/* SPDX-License-Identifier: MIT
 * Dice around the truth, and memories of runs that never were.
 */
#include "sim/known.h"

#include "sim/dice.h"

#include <math.h>
#include <string.h>

#define GUESS_SD 0.09		/* of loads as a capture tells them: models/activity.h's spreads, rounded */
#define STEP_SD 0.2		/* relative, of the time of a step: of families left out of the fit (doc/results/load) */
#define GOLDEN 0x9e3779b97f4a7c15u

/* Each task of each seed has a die of its own. */
int64_t known_solo_ms(const struct sim_options *o, size_t place)
{
	const struct sim_arrival *a = &o->trace->list[place];
	int64_t solo_ms = a->solo_ms ? a->solo_ms : o->workloads->list[a->workload].solo_ms;
	struct dice d = { o->seed + place * GOLDEN };
	int64_t parts = (int64_t)dice_below(&d, 40001) - 20000;	/* millionths */
	int64_t ms = o->seed ? solo_ms + solo_ms / 1000000 * parts + solo_ms % 1000000 * parts / 1000000 : solo_ms;
	return ms > 0 ? ms : 1;
}

/* Sum of three even throws. */
static double throw(struct dice *d)
{
	double sum = 0;
	for (int i = 0; i < 3; i++)
		sum += (double)dice_below(d, 2000001) / 1e6 - 1;
	return sum;
}

double known_throw(uint64_t seed, uint64_t number)
{
	struct dice d = { seed * GOLDEN + number };
	return throw(&d);
}

static struct load_belief guess(const struct sim_options *o, uint32_t workload)
{
	const struct sim_workload *w = &o->workloads->list[workload];
	struct dice d = { o->seed * GOLDEN + (w->variant_of ? w->variant_of - 1 : workload) };
	struct load_belief b = load_unknown();
	b.source = LOAD_GUESSED;
	b.load = (struct share_task){ .gract = fmin(fmax(w->gract + GUESS_SD * throw(&d), 0.02), 1), .kernels = w->kernels };
	b.load.smact = fmin(fmax(w->smact + GUESS_SD * throw(&d), 0.01), b.load.gract);
	b.gract_sd = b.smact_sd = GUESS_SD;
	b.run_s = (double)w->solo_ms / 1000 * exp(STEP_SD * throw(&d));
	return b;
}

static bool always(const struct spec *s) { (void)s; return true; }

struct estimator known_estimator(const struct sim_options *o, const struct estimator *e)
{
	struct estimator row = *e;
	if (o->loads == SIM_LOADS_GUESSED)
		row.slow = always;
	return row;
}

bool known_answer(const struct sim_options *o, const struct spec *spec, uint32_t workload, struct estimate_result *out)
{
	bool spoke = estimate_ask(estimate_find("declared", NULL), spec, spec->gpu_mem_mib, &(struct estimate_context){ 0 }, out);
	out->value.prior = guess(o, workload);
	return spoke;
}

/* As if each had run there alone for an hour. */
static void remember_one(const struct sim_workload *w, const struct device_model *device, struct core *core)
{
	struct outcome o = { .signature = w->name, .gpu_name = device->gpu_name, .estimator = "", .verdict = VERDICT_OK,
			     .seen = { .peak_mib = w->mem_mib, .alone_s = 3600, .warm = true, .alone_gract = w->gract,
				       .alone_smact = w->smact, .alone_dram = NAN, .alone_watts = NAN,
				       .work_s = (double)w->solo_ms / 1000 } };
	core_remember(core, &o);
}

static bool was_told(const struct device_model *devices, const struct device_model *of)
{
	for (const struct device_model *d = devices; d < of; d++)
		if (!strcmp(d->gpu_name, of->gpu_name))
			return true;
	return false;
}

void known_remember(const struct sim_options *o, const struct device_model *devices, size_t n, struct core *core)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < o->workloads->n && !was_told(devices, &devices[i]); k++)
			if (!o->workloads->list[k].missing && !o->workloads->list[k].variant_of)
				remember_one(&o->workloads->list[k], &devices[i], core);
}
