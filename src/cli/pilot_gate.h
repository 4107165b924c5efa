/* SPDX-License-Identifier: MIT
 *
 * An array with a limit (`--array=0-99%4`) at several pilots: a claim needs one of its places.
 */
#ifndef RAD_CLI_PILOT_GATE_H
#define RAD_CLI_PILOT_GATE_H

#include "cli/pilot_known.h"

/* A place for the claim that would be the next version of this task's record. 0: it has one; 1: there is none now, or others
 * were first: not again for a moment; -1. */
int pilot_gate_take(struct pilot_known *k, const struct spool *s, struct pilot_known_task *t, struct error *err);
/* Whether there was none a moment ago. */
bool pilot_gate_is_shut(const struct pilot_known_job *j);

#endif
