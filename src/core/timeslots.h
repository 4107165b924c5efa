/* SPDX-License-Identifier: MIT
 *
 * Time slots (section 7.3 of the dissertation, "Fairness and Checkpointing"): a task with a time slot runs undisturbed for that
 * long. Afterwards it keeps its GPUs for as long as no other task could use them. When one could, it is asked to make place
 * (EV_SLOT_ASKED): it gets its signal, saves what it did, exits with the code that means "start me again", and goes back into
 * the queue, behind the waiting tasks of its priority.
 *
 * Placement itself tells which waiting tasks could use the place: the first tasks of the queue are tried on the GPUs as they
 * would be without the tasks whose slots are over. As few of those as possible are asked, first those whose slots ended longest
 * ago. A task is not asked for the sake of one of lower priority, or of a user whose turn it would not be then (queue/fair.h),
 * since those would come after it again.
 *
 * What tasks were asked to vacate, GPUs, CPUs and host memory, is kept for the task it is for (pass_vacate) until that starts,
 * or could not start there even if all who were asked had gone: it was cancelled or held, one that goes before it takes the
 * place, a GPU went, or somebody stayed. Nobody knows how soon they go, so nobody else starts there meanwhile, not even for a
 * short time. And where the first that waits for slots will start when those that run now are over, nobody is asked for the
 * sake of one behind it: each would begin a new slot there.
 *
 * A task is only asked: one that does not go within `slot_grace` keeps its GPUs, and is asked again a slot later, at most
 * TIMESLOTS_ASKS times in one attempt. One of whose processes none handles the signal gets none: it is asked, so that its user
 * is told, but nobody waits for it to go, and no others are asked whose going would help only with it. So it is, in the rest of
 * the attempt, with one that was waited for and stayed. Slots run on the monotonic clock, as limits do.
 */
#ifndef RAD_CORE_TIMESLOTS_H
#define RAD_CORE_TIMESLOTS_H

#include "core/fleet.h"
#include "core/host.h"
#include "core/pass.h"
#include "core/tasks.h"

#define TIMESLOTS_ASKS 3
#define TIMESLOTS_MAX 1000	/* slots of one task, after which it is asked no more: each is an attempt that is kept */

#define TIMESLOTS_START_MS (10 * 60 * 1000)	/* no program takes longer than this to start */

struct timeslots;

/* The other owners, and the core's config and ops, outlive it. */
struct timeslots *timeslots_create(const struct core_config *config, const struct core_ops *ops, const struct fair *fair,
				   struct tasks *ts, struct fleet *f, const struct host *h, struct pass *p);
/* Takes NULL. */
void timeslots_destroy(struct timeslots *s);

/* The length of the task's own slot, or of the setting's; 0: it has none. A slot shorter than TIMESLOTS_START_MS doubles, up to
 * that, after each slot in which the task printed no progress: it may still have been starting when it was asked to go. */
int64_t timeslots_length_ms(const struct core_config *config, const struct task *t);
/* Whether the task was asked to make place and still has time to do so. */
bool timeslots_leaving(const struct timeslots *s, const struct task *t, int64_t wall_ms);
/* Whether none of its processes handled the signal when it was last asked. */
bool timeslots_unheard(const struct timeslots *s, const struct task *t);

/* The task's attempt was placed, started, or found again after a restart: its slot runs from then. */
void timeslots_begin(struct timeslots *s, const struct task *t, struct now now);
/* Settings changed, or a task was suspended or goes on. */
void timeslots_reconsider(struct timeslots *s);
/* After a restart, once the GPUs were read: GPUs are kept for whom a radd before this one asked tasks to make place. Call it
 * before the first pass, and at any time after. */
void timeslots_recall(struct timeslots *s, struct now now);
/* Asks tasks whose slots are over and whose place another task could use. Call it after a pass, so that whoever still waits
 * could not be placed otherwise. Returns when the next is due at the latest (mono), INT64_MAX: none. Costs nothing while no
 * slot is over. */
int64_t timeslots_turn(struct timeslots *s, struct now now);

#endif
