/* SPDX-License-Identifier: MIT
 * When a run's peak is believed. Training takes its memory in the first steps and keeps it; but a model that is on the GPU
 * before it trains stands just as still. So a run is warm when both its memory and its work are seen to be what they will be:
 * it has the GPUs to itself and computes, or it has taken what was expected of it; and its memory has not grown meanwhile, for
 * ten seconds and for half the time since it came. Where that cannot be told (company, no SM activity), time alone decides:
 * `warm` seconds of activity and a full window. A task of minutes is so believed within seconds, and one whose memory grows
 * slowly, late.
 *
 * What the ledger holds for others hangs on it, so each of the rules errs to the late side.
 */
#include "core/fleet_private.h"

#define STEADY_MS 10000		/* nothing is believed that stood still for less */
#define WHOLE_MS 2000		/* the same, of a run that completed: two samples */
#define NEARLY 0.8		/* of what was expected: it is at work */
#define GREW 1.01		/* times; less is not growth */
#define GREW_MIB 32

/* As of the snapshot: the meter's peak may be of the one before. */
static void note_growth(const struct fleet *f, struct run *r, struct now now)
{
	uint64_t mib = 0;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot_seen *seen = fleet_seen(f->slots[r->slots[i]], r->t->id);
		mib = seen && seen->mib > mib ? seen->mib : mib;
	}
	if (mib <= r->grown_mib || mib <= (uint64_t)((double)r->grown_mib * GREW) + (r->grown_mib ? GREW_MIB : 0))
		return;
	r->grown_mib = mib;
	r->grown_ms = r->steady_since_ms = now.mono_ms;
	for (unsigned i = 0; i < r->n_slots; i++)
		fleet_infer_restart(f, f->slots[r->slots[i]], now);
}

static bool computes_alone(const struct fleet *f, const struct run *r)
{
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		if (s->n_runs > 1 || s->foreign_mib > MAP_FOREIGN_MIB || !(s->r.valid & GPU_SMACT) || !(s->r.smact >= FLEET_BUSY))
			return false;
	}
	return true;
}

static bool has_what_was_expected(const struct run *r)
{
	return r->t->estimate.comfort_mib && (double)r->grown_mib >= NEARLY * (double)r->t->estimate.comfort_mib;
}

int64_t fleet_warm_due_ms(const struct fleet *f, const struct run *r)
{
	if (r->warm || !r->active_since_ms)
		return INT64_MAX;
	int64_t active = r->active_since_ms + f->config->warm_ms, window = r->placed_ms + f->config->window.span_ms;
	int64_t due = active > window ? active : window;
	if (!r->steady)
		return due;
	int64_t half = 2 * r->steady_since_ms - r->active_since_ms, least = r->steady_since_ms + STEADY_MS;
	int64_t steady = half > least ? half : least;
	return steady < due ? steady : due;
}

void fleet_note_warm(struct fleet *f, struct run *r, bool active, bool mem_known, struct now now)
{
	if (active && !r->active_since_ms)
		r->active_since_ms = now.mono_ms;
	note_growth(f, r, now);
	if (r->warm)	/* it stays so, whatever its memory does now */
		return;
	bool steady = mem_known && r->grown_ms && (computes_alone(f, r) || has_what_was_expected(r));
	if (steady && !r->steady)
		r->steady_since_ms = now.mono_ms;
	r->steady = steady;
	if (now.mono_ms < fleet_warm_due_ms(f, r))
		return;
	r->warm = true;
	for (unsigned i = 0; i < r->n_slots; i++)
		fleet_touch_slot(f, f->slots[r->slots[i]]);
}

bool fleet_stood_still(const struct run *r, struct now now)
{
	return r->warm || (r->grown_ms && now.mono_ms - r->grown_ms >= WHOLE_MS);
}
