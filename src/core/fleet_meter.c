/* SPDX-License-Identifier: MIT
 *
 * Sums over time. Where readings are samples (a real driver), each one speaks for the time before it, and meters add up once a
 * snapshot. Where readings stand (simulated devices, read at every change), everything is constant between changes: sums come
 * up to now just before something changes, so that no sample is needed in between.
 */
#include "core/fleet_private.h"

#include "base/least.h"

#include <math.h>

#define LOW_WATER_MS 30000	/* the lowest free memory is kept for this and the interval before it */

uint64_t fleet_low_water(const struct slot *s, int64_t mono_ms)
{
	bool said = !s->r.fallen && mono_ms / LOW_WATER_MS <= s->low_interval + 1;
	return said ? least_of(s->low_mib[0], s->low_mib[1]) : UINT64_MAX;
}

/* Two intervals, the one under way and the one before it, cover the last 30 to 60 s without a ring of samples. A gap between
 * them says nothing of the time in it, but where readings stand. */
void fleet_note_low_water(struct slot *s, int64_t mono_ms, bool stood)
{
	const unsigned needed = GPU_MEM_TOTAL | GPU_MEM_USED;
	if ((s->r.valid & needed) != needed || s->r.mem_used_mib > s->r.mem_total_mib)
		return;
	uint64_t free_mib = s->r.mem_total_mib - s->r.mem_used_mib;
	int64_t interval = mono_ms / LOW_WATER_MS;
	if (interval != s->low_interval) {
		s->low_mib[0] = interval == s->low_interval + 1 ? s->low_mib[1] : stood ? free_mib : UINT64_MAX;
		s->low_mib[1] = UINT64_MAX;
		s->low_interval = interval;
	}
	if (free_mib < s->low_mib[1])
		s->low_mib[1] = free_mib;
}

/* Of the energy of one GPU since the last sample of that attempt: what it draws idle in equal parts among those present, the
 * rest by what each of them adds (share/power.h). The parts of all add up to the energy of the GPU. A counter that started over
 * (driver reload) says nothing of that time, and must take away nothing of what other GPUs of the attempt used. */
static double energy_part(const struct fleet *f, struct slot *s, const struct run *r, struct now now)
{
	double energy_j = NAN, since_s = (double)(now.mono_ms - r->meter.last_ms) / 1000;
	if (!(s->r.valid & (f->config->readings_stand ? GPU_POWER | GPU_ENERGY : GPU_ENERGY)))
		return NAN;
	if (f->config->readings_stand && s->r.valid & GPU_POWER)
		energy_j = s->r.power_w * since_s;
	else if (s->r.valid & GPU_ENERGY)
		energy_j = s->r.energy_j < s->energy_j ? 0 : s->r.energy_j - s->energy_j;
	double idle_j = fmin(s->idle_w * since_s, energy_j);
	double part = s->n_runs > 1 ? fleet_power_part(f, s, r, now) : 1;
	return idle_j / (double)s->n_runs + (energy_j - idle_j) * part;
}

/* What the meter takes of a reading; NaN: not said. */
enum { SMACT, GRACT, DRAM, WATTS, SMOCC, PCIE_RX, PCIE_TX, SAID };

/* The fields that say something of now: of a GPU that was not listed, none does. */
static uint32_t says(const struct slot *s)
{
	return s->in_snapshot ? s->r.valid : 0;
}

static void said_by(const struct slot *s, double out[SAID])
{
	const struct gpu_reading *g = &s->r;
	uint32_t valid = says(s);
	out[SMACT] = valid & GPU_SMACT ? g->smact : NAN;
	out[GRACT] = valid & GPU_GRACT ? g->gract : NAN;
	out[DRAM] = valid & GPU_DRAM ? g->dram : NAN;
	out[WATTS] = valid & GPU_POWER ? g->power_w : NAN;
	out[SMOCC] = valid & GPU_SMOCC ? g->smocc : NAN;
	out[PCIE_RX] = valid & GPU_PCIE ? g->pcie_rx_mib_s : NAN;
	out[PCIE_TX] = valid & GPU_PCIE ? g->pcie_tx_mib_s : NAN;
}

/* The means over the GPUs of an attempt that say it. With one, as most have, nothing is added up. */
static void said_of(const struct fleet *f, const struct run *r, double out[SAID])
{
	double sum[SAID] = { 0 }, one[SAID];
	unsigned n[SAID] = { 0 };
	said_by(f->slots[r->slots[0]], out);
	if (r->n_slots == 1)
		return;
	for (unsigned i = 0; i < r->n_slots; i++) {
		said_by(f->slots[r->slots[i]], one);
		for (unsigned k = 0; k < SAID; k++) {
			sum[k] += isnan(one[k]) ? 0 : one[k];
			n[k] += !isnan(one[k]);
		}
	}
	for (unsigned k = 0; k < SAID; k++)
		out[k] = n[k] ? sum[k] / n[k] : NAN;
}

/* What a task does alone is what it does from when it computes: it may have loaded for half a minute before. */
static bool note_computes(const struct fleet *f, struct run *r, const struct meter_sample *m, struct now now)
{
	bool waited = r->active_since_ms && now.mono_ms - r->active_since_ms >= f->config->warm_ms;
	r->computes = r->computes || waited || isnan(m->smact) || (m->active && m->alone && m->smact >= FLEET_BUSY);
	return m->active && r->computes;
}

/* A sample speaks for the time since the one before it, but not for a silence in which that grew old and a whole window went
 * by: radd, the driver or the machine stood still. */
static bool was_silent(const struct fleet *f, const struct run *r, struct now now)
{
	int64_t most_ms = f->config->stale_ms + f->config->window.span_ms;
	return !f->config->readings_stand && r->meter.last_ms && now.mono_ms - r->meter.last_ms > most_ms;
}

/* One sample of one attempt, over all its GPUs: activities and power are means of those that tell them, memory is that of
 * the GPU where it has most (a claim is per GPU), energy is a sum, and it is as fast as on the slowest, for which the
 * others wait. It was alone only if it was on each. Where processes cannot be listed it counts as active: unknown is not
 * idle. */
void fleet_meter_run(struct fleet *f, struct run *r, struct now now)
{
	struct meter_sample m = { .mono_ms = now.mono_ms, .mem_known = true, .energy_j = 0, .alone = true, .speed = 1,
				  .suspended = r->t->suspended };
	double said[SAID];
	if (!r->n_slots)
		return;
	said_of(f, r, said);
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = f->slots[r->slots[i]];
		const struct slot_seen *seen = fleet_seen(s, r->t->id);
		if (!(says(s) & GPU_PROC_MEM))
			m.mem_known = false;
		else if (seen && seen->mib > m.mem_mib)
			m.mem_mib = seen->mib;
		m.alone = m.alone && s->n_runs == 1 && s->foreign_mib <= MAP_FOREIGN_MIB;
		m.active = m.active || seen || !(says(s) & GPU_PROCS);
		m.energy_j += energy_part(f, s, r, now);
		m.speed = s->n_runs > 1 ? fmin(m.speed, fleet_speed(f, s, r, now)) : m.speed;
	}
	m.smact = said[SMACT];
	m.gract = said[GRACT];
	m.dram = said[DRAM];
	m.watts = said[WATTS];
	m.smocc = said[SMOCC];
	m.pcie_rx_mib_s = said[PCIE_RX];
	m.pcie_tx_mib_s = said[PCIE_TX];
	bool active = m.active;
	m.active = note_computes(f, r, &m, now);
	if (was_silent(f, r, now))
		m.smact = m.gract = m.dram = m.watts = m.smocc = m.pcie_rx_mib_s = m.pcie_tx_mib_s = NAN;
	meter_add(&r->meter, &m);
	fleet_note_warm(f, r, active, m.mem_known, now);
}

/* The order matters: the window first, since speeds may hang on its mean; inference before the meters, which ask for beliefs.
 * Where readings are samples there is nothing to bring up to now: the next one will speak for the time before it. */
void fleet_advance(struct fleet *f, struct slot *s, struct now now)
{
	if (!f->config->readings_stand || !s->in_snapshot)
		return;
	window_add_span(s->window, now.mono_ms, &s->r);
	fleet_note_low_water(s, now.mono_ms, true);
	fleet_infer_sample(f, s, now);
	for (size_t i = 0; i < s->n_runs; i++)
		fleet_meter_run(f, s->runs[i], now);
}
