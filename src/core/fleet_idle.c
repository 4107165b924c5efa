/* SPDX-License-Identifier: MIT
 * Places that somebody holds and does not use: leases, sessions, adopted processes. Told, and never ended: what a notebook
 * keeps in GPU memory may be hours of somebody's work.
 *
 * Only what is certain counts as idle: no process of it is on its GPU, or nothing at all was computed there. Beside a
 * neighbour that computes nobody can say that it does not, nor on a GPU that does not tell its activity. A restart of the
 * daemon begins anew.
 */
#include "core/fleet_private.h"

#include <math.h>

/* What the sample says of the whole GPU; NaN: nothing. */
static double activity(const struct gpu_reading *g)
{
	return g->valid & GPU_SMACT ? g->smact : g->valid & GPU_GRACT ? g->gract : g->valid & GPU_UTIL ? g->gpu_util : NAN;
}

static bool may_compute_on(struct slot *s, task_id id)
{
	if (!s->in_snapshot || s->r.fallen)
		return true;
	if (s->r.valid & GPU_PROCS && !fleet_seen(s, id))
		return false;
	return !(activity(&s->r) < FLEET_BUSY);
}

void fleet_note_idle(struct fleet *f, struct now now)
{
	size_t at = 0;
	for (struct run *r; f->n_attended && (r = idmap_next(&f->runs, &at));) {
		if (!spec_is_attended(r->t->spec) || !r->n_slots)
			continue;
		bool busy = !r->busy_ms;
		for (unsigned i = 0; i < r->n_slots; i++)
			busy = busy || may_compute_on(f->slots[r->slots[i]], r->t->id);
		if (!busy)
			continue;
		r->busy_ms = now.mono_ms;
		r->idle_told = false;
	}
}

int64_t fleet_idle_ms(const struct fleet *f, task_id id, struct now now)
{
	const struct run *r = fleet_run(f, id);
	return r && r->busy_ms && spec_is_attended(r->t->spec) ? now.mono_ms - r->busy_ms : 0;
}

task_id fleet_idle_due(struct fleet *f, struct now now)
{
	size_t at = 0;
	for (struct run *r; f->n_attended && f->config->lease_idle_ms && (r = idmap_next(&f->runs, &at));)
		if (!r->idle_told && fleet_idle_ms(f, r->t->id, now) >= f->config->lease_idle_ms) {
			r->idle_told = true;
			return r->t->id;
		}
	return 0;
}
