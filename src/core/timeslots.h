/* SPDX-License-Identifier: MIT
 *
 * Time slots (section 7.3 of the dissertation, "Fairness and Checkpointing"): a task that has one runs undisturbed for so long.
 * From then on it stands on its GPUs for as long as nobody else could use them; when somebody could, it is asked to make place
 * (EV_SLOT_ASKED): it gets its signal, saves what it did, exits with the code that means "start me again", and goes back into
 * the queue, behind those who wait at its priority.
 *
 * Who could use its place is asked of placement itself: the first tasks of the queue, on GPUs as they would be without the
 * tasks whose slots are over. Of those as few are asked as will do, the ones that are over for longest first; nobody is asked
 * for a task of lower priority, or of a user whose turn it would not be then (queue/fair.h): those would come after it again.
 *
 * It is asked and never made to: a task that does not go within `slot_grace` keeps its GPUs, and is asked again a slot
 * later, at most TIMESLOTS_ASKS times in one attempt. Slots run on the monotonic clock, as limits do.
 */
#ifndef RAD_CORE_TIMESLOTS_H
#define RAD_CORE_TIMESLOTS_H

#include "core/fleet.h"
#include "core/host.h"
#include "core/pass.h"
#include "core/tasks.h"

#define TIMESLOTS_ASKS 3
#define TIMESLOTS_MAX 1000	/* slots of one task, after which it is asked no more: each is an attempt that is kept */

#define TIMESLOTS_START_MS (10 * 60 * 1000)	/* a slot of that length is no shorter than any start */

struct timeslots;

/* The other owners, and the core's config, outlive it. */
struct timeslots *timeslots_create(const struct core_config *config, const struct fair *fair, struct tasks *ts, struct fleet *f,
				   const struct host *h, struct pass *p);
/* Takes NULL. */
void timeslots_destroy(struct timeslots *s);

/* The task's own slot, or the setting's; 0: it has none. One shorter than TIMESLOTS_START_MS is twice as long after each turn,
 * up to that, in which the task printed no progress: it may be still starting when it is asked to go, each time. */
int64_t timeslots_length_ms(const struct core_config *config, const struct task *t);
/* Whether it was asked and still has time to go. */
bool timeslots_leaving(const struct core_config *config, const struct task *t, int64_t wall_ms);

/* The task's attempt was placed, started, or found again after a restart: its slot runs from then. */
void timeslots_begin(struct timeslots *s, const struct task *t, struct now now);
/* Settings changed. */
void timeslots_reconsider(struct timeslots *s);
/* Asks those whose slots are over and whose place somebody could use; after a pass, so that who waits has to. Returns when the
 * next is due at the latest (mono), INT64_MAX: none. Costs nothing while no slot is over. */
int64_t timeslots_turn(struct timeslots *s, struct now now);

#endif
