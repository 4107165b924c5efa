/* SPDX-License-Identifier: MIT
 *
 * Whose GPU time it is: each GPU on which attempts run is parted among them by the memory that placement held for them, and
 * queue/fair.h sums that up by user. What was held at the placement counts, not what the ledger holds later, so that a part
 * changes only where somebody comes or goes.
 */
#include "core/fleet_private.h"

static double part_of(uint64_t weight_mib, uint64_t all_mib)
{
	return all_mib ? (double)weight_mib / (double)all_mib : 0;
}

/* All but `r`, whose coming or going changes the sum from `was` to `is`. */
static void change_others(struct fleet *f, struct slot *s, const struct run *r, uint64_t was, uint64_t is, int64_t mono_ms)
{
	for (size_t i = 0; i < s->n_runs; i++) {
		const struct run *o = s->runs[i];
		if (o != r)
			fair_change_rate(f->fair, o->t->spec->uid, part_of(o->weight_mib, is) - part_of(o->weight_mib, was), mono_ms);
	}
}

/* An attempt without a claim weighs what is kept free for it; never nothing, or a GPU with such attempts alone would be
 * parted by zero. */
uint64_t fleet_weight_mib(const struct fleet *f, const struct attempt *a)
{
	uint64_t held_mib = a->claim_mib ? a->claim_mib : f->config->map.min_free_mib;
	return held_mib ? held_mib : 1;
}

void fleet_part_join(struct fleet *f, struct slot *s, const struct run *r, int64_t mono_ms)
{
	uint64_t was = s->weight_mib, is = was + r->weight_mib;
	s->weight_mib = is;
	change_others(f, s, r, was, is, mono_ms);
	fair_change_rate(f->fair, r->t->spec->uid, part_of(r->weight_mib, is), mono_ms);
}

/* The exact mirror of joining, by the same weights: check_fair in core.c asserts that the parts of every busy GPU add up to
 * one. */
void fleet_part_leave(struct fleet *f, struct slot *s, const struct run *r, int64_t mono_ms)
{
	uint64_t was = s->weight_mib, is = was - r->weight_mib;
	s->weight_mib = is;
	change_others(f, s, r, was, is, mono_ms);
	fair_change_rate(f->fair, r->t->spec->uid, -part_of(r->weight_mib, was), mono_ms);
}

size_t fleet_count_busy(const struct fleet *f)
{
	size_t n = 0;
	for (size_t i = 0; i < f->n_slots; i++)
		n += f->slots[i]->n_runs > 0;
	return n;
}

struct fair_taken fleet_taken_by(const struct run *r)
{
	return (struct fair_taken){ 1, r->n_slots, r->weight_mib * r->n_slots, !r->t->gpus };
}
