/* SPDX-License-Identifier: MIT
 *
 * The ledger of GPU memory: estimate -> reserve -> observe -> release. Pure.
 *
 * Free memory as the driver shows it is stale for minutes after a launch: a task takes its memory slowly, and a placer
 * that trusts the driver puts the next one into the same room. So the claim of a task is held from the decision on:
 *	available = total - driver reserved - MPS server - foreign - sum of held
 *	foreign   = max(0, used - reserved - MPS server - sum of observed of ours), never less than what processes that
 *		    are not ours are seen to hold
 * Where memory per process cannot be read, any of the memory used may be ours up to what is held, so sum of held stands for
 * sum of observed: available is then the smaller of what the entries leave and what the driver shows.
 *
 * What other daemons of this machine hold for their tasks, as far as it is not seen to be used yet, is foreign too, on top of
 * that: a task that one of them placed a moment ago has no memory yet, and will have.
 *
 * What is held for a task:
 *	claim lasts for life (declared, history, fenced):	max(claim, observed)
 *	otherwise, until it is warm:				max(claim, observed peak)
 *	otherwise, once warm:					observed peak + max(5 %, 512 MiB), above the claim or below it
 * Warm, as the caller says (core/fleet_warm.c): its peak is believed. It stays warm, unless memory per process can no longer be
 * read: then nothing is released early.
 * An entry ends when a sample newer than the exit shows the task's processes gone.
 */
#ifndef RAD_MAP_LEDGER_H
#define RAD_MAP_LEDGER_H

#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

struct ledger_entry {
	task_id task;
	uint64_t claim_mib;
	bool for_life;
	bool warm;
	uint64_t observed_mib, peak_mib;
	int64_t exit_ms;		/* mono; 0: runs */
};

/* What the GPU said of its memory. */
struct ledger_reading {
	uint64_t total_mib, reserved_mib;
	uint64_t used_mib;		/* counts if `used_known` */
	uint64_t mps_mib;		/* of it, the MPS server's own */
	uint64_t foreign_seen_mib;	/* of it, what processes that are not ours were seen to hold */
	bool used_known;
	bool proc_mem_known;		/* the memory of each process is */
};

/* One GPU's account. Zeroed memory is an empty one; freed by ledger_clear. */
struct ledger {
	struct ledger_reading r;	/* the last one */
	uint64_t claimed_mib;		/* held by other daemons and not used yet; stays until it is set again */
	struct ledger_entry *entries;
	size_t n, cap;
};

void ledger_clear(struct ledger *l);
/* A task is placed here. Again for the same task: the new claim counts, and an exit is forgotten (a new attempt began). */
void ledger_enter(struct ledger *l, task_id task, uint64_t claim_mib, bool for_life);
/* Its processes ended (mono time; the first report counts). The entry stays until ledger_settle sees it gone. */
void ledger_exited(struct ledger *l, task_id task, int64_t mono_ms);
/* A reading of the GPU itself, before the ledger_observe of the same sample. */
void ledger_read(struct ledger *l, const struct ledger_reading *r);
/* What the task's processes held in the sample of the last ledger_read; `warm`: the task is warm from now on. Ignored for tasks
 * that have no entry here, and while memory per process is not known. */
void ledger_observe(struct ledger *l, task_id task, uint64_t mem_mib, bool warm);
/* Drops the entries of exited tasks for which this sample (begun at sample_mono_ms) shows no process; `present` tells whether
 * a task still has one. NULL where processes cannot be listed: then entries go with the exit, and memory that is still used
 * beyond what is held counts as foreign. Returns how many were dropped. */
size_t ledger_settle(struct ledger *l, int64_t sample_mono_ms, bool (*present)(task_id task, void *ctx), void *ctx);
/* What placement needs of the ledger, by the rules above, all at once. settling: an exited task still has its entry. */
struct ledger_room { uint64_t capacity_mib, foreign_mib, available_mib; bool settling; };
struct ledger_room ledger_room(const struct ledger *l);
/* NULL: the task has no entry. Valid until an entry is added or dropped. */
struct ledger_entry *ledger_find(const struct ledger *l, task_id task);

/* MiB held for one task now, by the rule above. */
uint64_t ledger_held_of(const struct ledger_entry *e);
uint64_t ledger_held(const struct ledger *l);
uint64_t ledger_foreign(const struct ledger *l);
/* By the formula above; never negative. */
uint64_t ledger_available(const struct ledger *l);
/* total - reserved: what an empty GPU has. */
uint64_t ledger_capacity(const struct ledger *l);

#endif
