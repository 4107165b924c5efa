/* SPDX-License-Identifier: MIT
 * What the tasks on a GPU do to it and to each other, as far as it is known, for the model of sharing (map/forecast.c).
 *
 * Four sources know a load, and they are asked in the order of what they are worth: runs of the same signature that had a GPU
 * to themselves, this run while it was alone, what inference makes of company, and what was guessed before it ran. Where all
 * are silent a task is not taken for idle: it counts as an equal part of what the GPU shows beyond those that are known, and on
 * a full GPU, which may hide more, as no less than an unknown load. To err to the busy side costs a place; to the idle side,
 * everybody's time there.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"
#include "share/power.h"

#include <math.h>
#include <string.h>

#define MOST_METERED 64	/* tasks on one GPU; of more, each counts as an equal part */
#define EXPECTED_SMACT 0.26	/* of 38 public training scripts alone on an H200 */
#define FULL 0.9	/* from here on a GPU may hide that its tasks would take more */

struct measured fleet_metered(const struct run *r)
{
	struct measured m = meter_read(&r->meter);
	m.warm = r->warm;
	m.pace = r->pace;
	m.begin_s = r->begin_s;
	m.host_peak_mib = r->host_peak_mib;
	m.cpu = r->cpu;
	m.pace.ran_s = r->meter.ran_ms / 1000;
	return m;
}

/* What this attempt showed in company so far, that of before a restart included. */
static struct load_belief evidence_of(const struct fleet *f, const struct run *r)
{
	struct load_belief e = r->evidence;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		struct load_belief here = s->infer ? infer_evidence(s->infer, r->t->id) : load_unknown();
		if (here.source != LOAD_UNKNOWN)
			e = infer_combine(&e, &here);
	}
	return e;
}

struct measured fleet_measure(const struct fleet *f, const struct run *r)
{
	struct measured m = fleet_metered(r);
	m.inferred = evidence_of(f, r);
	return m;
}

/* What it showed itself while it was alone for as long as a window needs to settle, over what `b` knows less well. */
static bool seen_alone(const struct fleet *f, const struct run *r, struct load_belief *b)
{
	struct measured m = fleet_metered(r);
	bool keep = b->source == LOAD_MEASURED;
	if (!(m.alone_s * 1000 >= (double)f->config->window.settle_ms) || (isnan(m.alone_gract) && isnan(m.alone_smact)))
		return false;
	if (isfinite(m.alone_gract) && !(keep && isfinite(b->load.gract)))
		b->load.gract = m.alone_gract, b->gract_sd = LOAD_LEAST_SD;
	if (isfinite(m.alone_smact) && !(keep && isfinite(b->load.smact)))
		b->load.smact = m.alone_smact, b->smact_sd = LOAD_LEAST_SD;
	if (isfinite(m.alone_dram))
		b->dram = m.alone_dram, b->dram_sd = LOAD_LEAST_SD;
	if (isfinite(m.alone_watts))
		b->watts = m.alone_watts;
	b->source = LOAD_MEASURED;
	return true;
}

/* Asked for each run at each sample, so what cannot change any more answers first. Several slots of one run may have inferred
 * something: the first that did speaks, since inference leaves runs of several GPUs out (fleet_infer.c) and there is one at
 * most. */
struct load_belief fleet_belief(const struct fleet *f, const struct run *r)
{
	struct load_belief b = r->known, in;
	if (b.source == LOAD_MEASURED && isfinite(b.load.gract) && isfinite(b.load.smact))
		return b;
	if (seen_alone(f, r, &b) || b.source == LOAD_MEASURED)
		return b;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		if (s->infer && infer_belief(s->infer, r->t->id, &in) && in.source == LOAD_INFERRED)
			return in;
	}
	return b;
}

static struct share_task own_load(const struct fleet *f, const struct run *r)
{
	return fleet_belief(f, r).load;
}

/* Where nothing is known, what training scripts do on average, so that four such runs may meet, and a fifth waits (decisions 94
 * and 258). Two without a ledger, as the next is to come when the driver has shown what they take, and where a GPU does not
 * tell its activity, as they are never seen. */
struct share_task fleet_expected(const struct fleet *f, const struct slot *s, struct share_task known)
{
	double smact = f->config->map.ledger && s->r.valid & GPU_SMACT ? EXPECTED_SMACT : SHARE_UNKNOWN_LOAD;
	return (struct share_task){ share_filled(known, SHARE_UNKNOWN_LOAD).gract, share_filled(known, smact).smact, known.kernels };
}

bool fleet_unseen(const struct fleet *f, const struct run *r, struct now now)
{
	return now.mono_ms - r->placed_ms < f->config->window.settle_ms && (isnan(r->known.load.gract) || isnan(r->known.load.smact));
}

/* An equal part of what the known ones leave of the GPU's load. */
static double part(bool known, double load, double sum, size_t unknown)
{
	if (!known || !unknown)
		return NAN;
	double each = fmax(load - sum, 0) / (double)unknown;
	return load >= FULL ? fmax(each, SHARE_UNKNOWN_LOAD) : each;
}

/* Loads that are known, and how many are not. */
struct known { struct share_task sum; size_t no_gract, no_smact; };

/* GRACT and SMACT apart: a GPU may tell one of them alone, and so may what was learnt. */
static struct known add_up(const struct fleet *f, const struct slot *s, struct now now)
{
	struct known k = { 0 };
	for (size_t i = 0; i < s->n_runs; i++) {
		struct share_task l = own_load(f, s->runs[i]);
		if (fleet_unseen(f, s->runs[i], now))
			l = fleet_expected(f, s, l);	/* as the GPU's load has it */
		if (isfinite(l.gract))
			k.sum.gract += l.gract;
		else
			k.no_gract++;
		if (isfinite(l.smact))
			k.sum.smact += l.smact;
		else
			k.no_smact++;
	}
	return k;
}

bool fleet_predicts(const struct fleet *f)
{
	return map_predicts(&f->config->map) || f->config->order == ORDER_PLAN || f->slow_limits;
}

/* What a task there is taken to do of which nothing is known. */
static struct share_task of_unknown(const struct fleet *f, const struct slot *s, struct now now)
{
	struct load load = window_load(s->window);
	struct known k = add_up(f, s, now);
	return (struct share_task){ part(load.gract_known, load.gract, k.sum.gract, k.no_gract),
				    part(load.smact_known, load.smact, k.sum.smact, k.no_smact) };
}

/* What is expected of a run that was not seen yet is to let others join, and no figure to predict by: the law takes its own. */
static struct share_task load_of(const struct fleet *f, const struct run *r, struct share_task unknown, struct now now)
{
	struct share_task own = own_load(f, r);
	if (fleet_unseen(f, r, now))
		return own;
	return (struct share_task){ isfinite(own.gract) ? own.gract : unknown.gract,
				    isfinite(own.smact) ? own.smact : unknown.smact, own.kernels };
}

static void need_speeds(struct slot *s)
{
	if (s->cap_speeds >= s->n_runs)
		return;
	s->cap_speeds = s->cap_runs;
	s->speeds = alloc_resize(s->speeds, s->cap_speeds, sizeof *s->speeds);
	s->parts = alloc_resize(s->parts, s->cap_speeds, sizeof *s->parts);
	s->solved = alloc_resize(s->solved, s->cap_speeds, sizeof *s->solved);
}

/* One solution of the law for all on the slot, since each is asked for its own at the same moment; and for as long as the loads
 * are the same, compared as memory: most moments at which a GPU is looked at change nothing on it. */
static void fill_speeds(const struct fleet *f, struct slot *s, struct now now)
{
	struct share_task loads[MOST_METERED], unknown = of_unknown(f, s, now);
	enum share_mode mode = task_attempt(s->runs[0]->t)->mode;
	need_speeds(s);
	for (size_t i = 0; i < s->n_runs; i++)	/* who is suspended is in nobody's way now; placement counts with its return */
		loads[i] = s->runs[i]->t->suspended ? (struct share_task){ 0 } : load_of(f, s->runs[i], unknown, now);
	if (s->n_speeds == s->n_runs && s->solved_mode == mode && !memcmp(loads, s->solved, s->n_runs * sizeof *loads))
		return;
	share_speeds(loads, s->n_runs, mode, s->speeds);
	power_parts(loads, s->speeds, s->n_runs, s->parts);
	memcpy(s->solved, loads, s->n_runs * sizeof *loads);
	s->solved_mode = mode;
	s->n_speeds = s->n_runs;
}

/* Where that run stands among those of the slot, with the law solved for them; n_runs: they count as equal parts. */
static size_t solved(const struct fleet *f, struct slot *s, const struct run *r, struct now now)
{
	size_t i = 0;
	if (s->n_runs < 2 || s->n_runs > MOST_METERED)
		return s->n_runs;
	/* All runs of a slot are metered at the same moments; whoever came at this one was not there before it. */
	if (s->speeds_ms != now.mono_ms || s->n_speeds != s->n_runs)
		fill_speeds(f, s, now);
	s->speeds_ms = now.mono_ms;
	while (i < s->n_runs && s->runs[i] != r)
		i++;
	return i;
}

double fleet_speed(const struct fleet *f, struct slot *s, const struct run *r, struct now now)
{
	size_t i = solved(f, s, r, now);
	return i < s->n_runs ? s->speeds[i] : 1 / fmax((double)s->n_runs, 1);
}

double fleet_power_part(const struct fleet *f, struct slot *s, const struct run *r, struct now now)
{
	size_t i = solved(f, s, r, now);
	return i < s->n_runs ? s->parts[i] : 1 / fmax((double)s->n_runs, 1);
}

/* In the order of the slot's runs, which fleet_gpu_without and fleet_next_run rely on. Not filled at all while no policy asks
 * for it: it is the dearest part of a look at a slot. */
bool fleet_fill_tenants(const struct fleet *f, struct slot *s, struct now now)
{
	if (!fleet_predicts(f))
		return false;
	struct share_task each = of_unknown(f, s, now);
	bool changed = s->n_tenants != s->n_runs;
	if (s->cap_tenants < s->n_runs)
		s->tenants = alloc_resize(s->tenants, s->cap_tenants = s->cap_runs, sizeof *s->tenants);
	s->n_tenants = s->n_runs;
	for (size_t i = 0; i < s->n_runs; i++) {
		struct map_tenant t = { load_of(f, s->runs[i], each, now), s->runs[i]->t->max_slowdown };
		changed = changed || memcmp(&t, &s->tenants[i], sizeof t);
		s->tenants[i] = t;
	}
	return changed;
}
