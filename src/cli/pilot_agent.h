/* SPDX-License-Identifier: MIT
 *
 * The part of a pilot that works with the queue: see pilot.h.
 */
#ifndef RAD_CLI_PILOT_AGENT_H
#define RAD_CLI_PILOT_AGENT_H

#include "cli/pilot.h"

/* Runs until the pilot has nothing left to do. Returns the exit code: 0: it left the queue. */
int pilot_agent_run(struct pilot *p, size_t gpus);

#endif
