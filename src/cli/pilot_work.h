/* SPDX-License-Identifier: MIT
 *
 * A pilot's tasks: handing them to its radd, once each, and carrying what becomes of them back into the queue.
 */
#ifndef RAD_CLI_PILOT_WORK_H
#define RAD_CLI_PILOT_WORK_H

#include "cli/pilot.h"
#include "cli/pilot_known.h"

struct pilot_work;
struct pilot_work *pilot_work_create(struct pilot *p, struct pilot_known *k);
void pilot_work_destroy(struct pilot_work *w);

/* How many tasks the pilot has claimed that have not ended, whether its radd has them already or not; of these, those that
 * wait for a place. */
size_t pilot_work_count(const struct pilot_work *w, size_t *waiting);
/* What the pilot has claimed and radd does not know yet is handed over; what became of the others is mirrored, people's
 * wishes are seen to. `look`: at the queue too; without, only tasks that ended at radd concern it. -1: radd, or the queue,
 * did not answer. */
int pilot_work_step(struct pilot_work *w, bool look, struct error *err);

/* Claims it and hands it over. 0; 1: somebody else has changed it; -1. */
int pilot_work_claim(struct pilot_work *w, struct pilot_known_task *t, struct error *err);

#endif
