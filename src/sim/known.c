/* SPDX-License-Identifier: MIT
 * Dice around the truth, and memories of runs that never were.
 */
#include "sim/known.h"

#include "base/hash.h"
#include "estimate/activity.h"
#include "models/guesses.h"
#include "sim/dice.h"

#include <math.h>
#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15u
#define SEED_APART 64

/* Work that its own clock allows for. */
static int64_t within_clock(const struct sim_workload *w, int64_t solo_ms)
{
	int64_t most_ms = w->start_ms + w->clock_ms;
	return w->clock_ms && most_ms < solo_ms ? most_ms : solo_ms;
}

/* Each task of each seed has a die of its own. */
int64_t known_solo_ms(const struct sim_options *o, size_t place)
{
	const struct sim_arrival *a = &o->trace->list[place];
	int64_t solo_ms = a->solo_ms ? a->solo_ms : o->workloads->list[a->workload].solo_ms;
	struct dice d = { o->seed + place * GOLDEN };
	int64_t parts = (int64_t)dice_below(&d, 40001) - 20000;	/* millionths */
	int64_t ms = o->seed ? solo_ms + solo_ms / 1000000 * parts + solo_ms % 1000000 * parts / 1000000 : solo_ms;
	return ms > 0 ? within_clock(&o->workloads->list[a->workload], ms) : 1;
}

/* Sum of three even throws. */
static double throw(struct dice *d)
{
	double sum = 0;
	for (int i = 0; i < 3; i++)
		sum += (double)dice_below(d, 2000001) / 1e6 - 1;
	return sum;
}

/* Throws of different seeds have no part in common: each takes fewer of the dice's numbers than lie between two seeds. */
double known_throw(uint64_t seed, uint64_t number)
{
	struct dice d = { (seed * SEED_APART + 1) * GOLDEN + number };
	return throw(&d);
}

/* Hashed, as names are: none is near another. */
static struct dice dice_named(uint64_t seed, const char *what, const char *name, size_t n)
{
	uint64_t own = dice_next(&(struct dice){ seed });
	return (struct dice){ own + hash_bytes(hash_bytes(HASH_SEED, what, strlen(what)), name, n) };
}

/* As programs are named: resnet18-cifar100-b64 is of the family resnet. A name that begins otherwise is a family of its own. */
static size_t family_length(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	return n ? n : strlen(name);
}

/* What a capture is off by. */
struct off { struct dice family, own; };

static double off_by(struct off *o, double family_sd, double own_sd)
{
	double common = family_sd * throw(&o->family);
	return common + own_sd * throw(&o->own);
}

/* The part of the SMs that is active while the GPU is busy, as that capture tells it: a logit is off, so it stays a part. */
static double active_told(struct off *o, double gract, double smact)
{
	double part = fmin(fmax(smact / gract, 0.01), 0.99);
	return 1 / (1 + (1 - part) / part * exp(-off_by(o, GUESSES_ACTIVE_KIND, GUESSES_ACTIVE)));
}

/* A step takes 1, of which the GPU is busy for its GRACT; the host takes what, beside that, comes to 1 (activity_larger). */
static struct load_belief guess(const struct sim_options *o, uint32_t workload)
{
	const struct sim_workload *w = &o->workloads->list[workload];
	struct off off = { .family = dice_named(o->seed, "family", w->name, family_length(w->name)),
			   .own = dice_named(o->seed, "task", w->name, strlen(w->name)) };
	struct dice machine = dice_named(o->seed, "machine", "", 0);
	double gract = fmin(fmax(w->gract, 0.01), 1), slower = GUESSES_PACE + GUESSES_PACE_SD * throw(&machine);
	double busy = gract * exp(off_by(&off, GUESSES_BUSY_KIND, GUESSES_BUSY));
	double host = activity_other(1, gract) * exp(off_by(&off, GUESSES_HOST_KIND, GUESSES_HOST) - slower);
	double step = activity_larger(busy, host);
	struct load_belief b = load_unknown();
	b.source = LOAD_GUESSED;
	b.load = (struct share_task){ .gract = fmin(busy / step, 1), .kernels = w->kernels };
	b.load.smact = b.load.gract * active_told(&off, gract, w->smact);
	b.gract_sd = GUESSES_GRACT_SD;
	b.smact_sd = GUESSES_SMACT_SD;
	b.host = host / step;
	b.run_s = (double)(w->solo_ms > w->start_ms ? w->solo_ms - w->start_ms : w->solo_ms) / 1000 * step;
	b.limit_s = (double)w->clock_ms / 1000;
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
				       .work_s = (double)within_clock(w, w->solo_ms) / 1000 } };
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
