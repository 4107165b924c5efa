/* SPDX-License-Identifier: MIT
 * The memory account of one GPU: see ledger.h for the rule. Every subtraction stops at zero: readings of one moment may
 * contradict each other (a GPU that was cut into instances, a process that left between two calls), and a wrapped number
 * would look like room for everything.
 *
 * What is held for a task, unless its claim is for life, goes from the claim, while it may still grow into it, to the most that
 * it was seen to have, once that is believed (warm). It never goes from there to what it has now: what a step gave back, the
 * next step takes again.
 */
#include "map/ledger.h"

#include "base/alloc.h"
#include "base/least.h"

#include <assert.h>
#include <stdlib.h>

#define WARM_MARGIN_MIB 512
#define WARM_MARGIN_DIVISOR 20	/* 5 % */

void ledger_clear(struct ledger *l)
{
	free(l->entries);
	*l = (struct ledger){ 0 };
}

struct ledger_entry *ledger_find(const struct ledger *l, task_id task)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->entries[i].task == task)
			return &l->entries[i];
	return NULL;
}

void ledger_enter(struct ledger *l, task_id task, uint64_t claim_mib, bool for_life)
{
	struct ledger_entry *e = ledger_find(l, task);
	assert(task);	/* 0 is nobody: such an entry would never be taken off */
	if (!e) {
		alloc_grow(l->entries, l->n, l->cap);
		e = &l->entries[l->n++];
		*e = (struct ledger_entry){ .task = task };
	} else if (e->exit_ms) {
		/* Placed again before its last attempt was seen to be gone: what that one still has stays observed, until a
		 * sample says otherwise, but says nothing about the new attempt. */
		e->exit_ms = 0;
		e->warm = false;
		e->peak_mib = e->observed_mib;
	}
	e->claim_mib = claim_mib;
	e->for_life = for_life;
}

void ledger_exited(struct ledger *l, task_id task, int64_t mono_ms)
{
	struct ledger_entry *e = ledger_find(l, task);
	/* An exit is often told twice (exit record, then the empty cgroup): the first is when it happened. */
	if (e && !e->exit_ms)
		e->exit_ms = mono_ms > 0 ? mono_ms : 1;
}

void ledger_read(struct ledger *l, const struct ledger_reading *r)
{
	l->r = *r;
	/* Growth would go unseen from here on, so no entry may count for less than its claim. */
	for (size_t i = 0; !r->proc_mem_known && i < l->n; i++)
		l->entries[i].warm = false;
}

void ledger_observe(struct ledger *l, task_id task, uint64_t mem_mib, bool warm)
{
	struct ledger_entry *e = ledger_find(l, task);
	if (!e || !l->r.proc_mem_known)
		return;
	e->observed_mib = mem_mib;
	e->peak_mib = largest_of(e->peak_mib, mem_mib);
	e->warm = e->warm || warm;
}

/* Only a sample that was begun after the exit can show the memory free: one under way may still have seen the process. */
size_t ledger_settle(struct ledger *l, int64_t sample_mono_ms, bool (*present)(task_id task, void *ctx), void *ctx)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct ledger_entry *e = &l->entries[i];
		if (e->exit_ms && sample_mono_ms > e->exit_ms && !(present && present(e->task, ctx)))
			continue;
		if (kept != i)	/* mostly nothing is dropped, and then nothing is moved */
			l->entries[kept] = *e;
		kept++;
	}
	size_t dropped = l->n - kept;
	l->n = kept;
	return dropped;
}

uint64_t ledger_held_of(const struct ledger_entry *e)
{
	if (e->for_life)
		return largest_of(e->claim_mib, e->observed_mib);
	if (!e->warm)
		return largest_of(e->claim_mib, e->peak_mib);
	return e->peak_mib + largest_of(e->peak_mib / WARM_MARGIN_DIVISOR, WARM_MARGIN_MIB);
}

uint64_t ledger_held(const struct ledger *l)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < l->n; i++)
		sum += ledger_held_of(&l->entries[i]);
	return sum;
}

/* All at once, since every GPU is asked for all of it after every sample. What is foreign is used and nobody of ours has it;
 * where the memory of processes is not told, all that is held counts as ours, so that a task which has not taken its claim yet
 * does not make foreigners of its neighbours. */
struct ledger_room ledger_room(const struct ledger *l)
{
	struct ledger_room room = { .capacity_mib = less_or_zero(l->r.total_mib, l->r.reserved_mib) };
	uint64_t held = 0, observed = 0;
	for (size_t i = 0; i < l->n; i++) {
		held += ledger_held_of(&l->entries[i]);
		observed += l->entries[i].observed_mib;
		room.settling = room.settling || l->entries[i].exit_ms;
	}
	uint64_t ours = l->r.proc_mem_known ? observed : held;
	uint64_t used = l->r.used_known ? less_or_zero(l->r.used_mib, l->r.reserved_mib + l->r.mps_mib + ours) : 0;
	room.foreign_mib = largest_of(used, l->r.foreign_seen_mib) + l->claimed_mib;
	room.available_mib = less_or_zero(room.capacity_mib, l->r.mps_mib + room.foreign_mib + held);
	return room;
}

uint64_t ledger_foreign(const struct ledger *l)
{
	return ledger_room(l).foreign_mib;
}

uint64_t ledger_capacity(const struct ledger *l)
{
	return less_or_zero(l->r.total_mib, l->r.reserved_mib);
}

uint64_t ledger_available(const struct ledger *l)
{
	return ledger_room(l).available_mib;
}
