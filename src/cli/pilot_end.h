/* SPDX-License-Identifier: MIT
 *
 * The end of a pilot's allocation: tasks are told, and what has not ended in time is ended. Done by the keeper, from what is
 * on the node: it does not need the queue.
 */
#ifndef RAD_CLI_PILOT_END_H
#define RAD_CLI_PILOT_END_H

#include "cli/pilot.h"

/* Now and then: what is due, is done. */
void pilot_end_step(struct pilot *p);

#endif
