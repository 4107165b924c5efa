/* SPDX-License-Identifier: MIT
 *
 * The other pilots of a queue: whether their hearts beat, and what is done with the tasks of one that is dead.
 *
 * A heart is a counter. It is looked at again and again, and timed with this process's own monotonic clock: clocks of two
 * machines are never compared. One that has stood for the lease is asked about: only who knows that nothing of its allocation
 * runs any more may give back its tasks. That is Slurm, when it says that the job is over; or the kernel, when the same
 * machine has booted again. Where neither says so the tasks stay as they are, and a person is told.
 */
#ifndef RAD_CLI_PILOT_OTHERS_H
#define RAD_CLI_PILOT_OTHERS_H

#include "cli/pilot.h"
#include "cli/pilot_known.h"

struct pilot_others;
struct pilot_others *pilot_others_create(const struct pilot *p, struct pilot_known *k);
void pilot_others_destroy(struct pilot_others *o);
/* Now and then. */
void pilot_others_look(struct pilot_others *o);
/* Names of those that are silent, and not known to be dead: a new list. */
json_t *pilot_others_silent(const struct pilot_others *o);

#endif
