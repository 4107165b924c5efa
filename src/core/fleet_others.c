/* SPDX-License-Identifier: MIT
 *
 * Other daemons of this machine: what they hold on our GPUs is foreign, as far as it is not seen to be used yet:
 *	not used = sum over users of max(0, held - min(what they say they use, what we see their processes use))
 * Both, since a user has other processes too, and since what they say may be newer than what we saw: what is taken off twice
 * would be room for everything. Where memory per process cannot be read, any foreign memory may be theirs:
 *	not used = max(0, sum of held - foreign)
 * A GPU where they have tasks is not idle, and by default not used, however little those hold: as with any foreign process.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"
#include "base/least.h"

#include <string.h>

/* Only what is booked to none of ours, or our own task's memory would pay for what another daemon holds for the same user. */
static uint64_t seen_of(const struct slot *s, uid_t uid)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < s->n_procs; i++)
		if (s->procs[i].uid == uid && !s->procs[i].claimed && !s->procs[i].mps_server)
			sum += s->procs[i].mem_mib;
	return sum;
}

void fleet_count_others(struct slot *s)
{
	uint64_t held = 0, unused = 0, capacity = ledger_capacity(&s->ledger);
	unsigned tasks = 0;
	s->ledger.claimed_mib = 0;
	for (size_t i = 0; i < s->n_others; i++) {
		const struct core_claim *o = &s->others[i];
		uint64_t most = least_of(o->held_mib, capacity);
		held += most;
		unused += less_or_zero(most, least_of(o->observed_mib, seen_of(s, o->uid)));
		tasks += o->n_tasks;
	}
	if (!tasks)
		return;
	uint64_t foreign = ledger_foreign(&s->ledger);
	if (!(s->r.valid & GPU_PROC_MEM))
		unused = less_or_zero(held, foreign);
	/* At least so much that the GPU counts as used by others, however little they hold. */
	s->ledger.claimed_mib = largest_of(least_of(unused, capacity), less_or_zero(MAP_FOREIGN_MIB + 1, foreign));
}

/* Adds it to the row of that user there, or makes one. False: there is no room for one. */
static bool add_claim(struct core_claim *rows, size_t *n, size_t most, const struct core_claim *c)
{
	size_t i = 0;
	while (i < *n && (rows[i].uid != c->uid || strcmp(rows[i].uuid, c->uuid)))
		i++;
	if (i == most)
		return false;
	if (i == *n) {
		rows[(*n)++] = *c;
		return true;
	}
	rows[i].held_mib += c->held_mib;
	rows[i].observed_mib += c->observed_mib;
	rows[i].n_tasks += c->n_tasks;
	return true;
}

static void slot_set_others(struct fleet *f, struct slot *s, const struct core_claim *claims, size_t n)
{
	uint64_t before = s->ledger.claimed_mib;
	s->n_others = 0;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(claims[i].uuid, s->r.uuid))
			continue;
		alloc_grow(s->others, s->n_others, s->cap_others);
		add_claim(s->others, &s->n_others, s->cap_others, &claims[i]);
	}
	fleet_count_others(s);
	if (before != s->ledger.claimed_mib)
		fleet_touch_slot(f, s);
}

void fleet_set_others(struct fleet *f, const struct core_claim *claims, size_t n)
{
	for (size_t i = 0; i < f->n_slots; i++)
		slot_set_others(f, f->slots[i], claims, n);
}

/* One of an attempt that has ended counts until its memory is seen free, for nobody in particular: another daemon must not
 * start there sooner than we would. */
static struct core_claim claim_of(const struct fleet *f, const struct slot *s, const struct ledger_entry *e)
{
	const struct run *r = fleet_run(f, e->task);
	bool alone = r && task_attempt(r->t)->mode == SHARE_NEVER;
	struct core_claim c = { .uid = r ? r->t->spec->uid : (uid_t)-1, .observed_mib = e->observed_mib, .n_tasks = 1,
				.held_mib = alone ? ledger_capacity(&s->ledger) : ledger_held_of(e) };
	memcpy(c.uuid, s->r.uuid, sizeof c.uuid);
	return c;
}

/* Where there are too few rows for all users of a GPU, what is left goes to the last of them: it must not look free. Each GPU
 * has its share of the rows, and what those before it did not need. */
size_t fleet_claims(const struct fleet *f, struct core_claim *out, size_t most)
{
	size_t n = 0;
	for (size_t i = 0; i < f->n_slots && n < most; i++) {
		const struct slot *s = f->slots[i];
		size_t rows = 0, share = largest_of((most - n) / (f->n_slots - i), 1);
		for (size_t k = 0; k < s->ledger.n; k++) {
			struct core_claim c = claim_of(f, s, &s->ledger.entries[k]);
			if (add_claim(out + n, &rows, share, &c))
				continue;
			c.uid = out[n + rows - 1].uid;
			add_claim(out + n, &rows, share, &c);
		}
		n += rows;
	}
	return n;
}

/* Asked at the moment of placing and not before: to ask is to publish the claim, which counts against other daemons from then
 * on (daemon/claims.h). */
bool fleet_may_place(struct fleet *f, const struct placement *where, uid_t uid, bool alone)
{
	struct core_claim claims[SPEC_MAX_GPUS];
	if (!f->ops.claim)
		return true;
	for (unsigned i = 0; i < where->n; i++) {
		const struct slot *s = f->slots[where->slots[i]];
		claims[i] = (struct core_claim){ .uid = uid, .n_tasks = 1,
						 .held_mib = alone ? ledger_capacity(&s->ledger) : where->claim_mib };
		memcpy(claims[i].uuid, s->r.uuid, sizeof claims[i].uuid);
	}
	return f->ops.claim(f->ops.ctx, claims, where->n);
}
