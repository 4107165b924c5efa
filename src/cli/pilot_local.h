/* SPDX-License-Identifier: MIT
 *
 * A task of the queue as the pilot's own radd is given it: one task by itself, with what its place in the queue
 * decides settled.
 */
#ifndef RAD_CLI_PILOT_LOCAL_H
#define RAD_CLI_PILOT_LOCAL_H

#include "cli/pilot.h"
#include "cli/pilot_known.h"

/* The request that submits it, held, under a name that tells the claim: a new reference. NULL: its submission cannot be
 * read. */
json_t *pilot_local_request(const struct pilot *p, const struct pilot_known_task *t, unsigned claim, struct error *err);

enum pilot_local_fit { PILOT_FITS, PILOT_FITS_LATER, PILOT_FITS_NEVER };
/* Whether radd would start it now. Of one that can never run here, *err says why. -1: radd did not answer. */
int pilot_local_try(const struct pilot_known_task *t, enum pilot_local_fit *fit, struct error *err);

#endif
