/* SPDX-License-Identifier: MIT
 *
 * What becomes of a task whose attempt at a pilot is over: its next record. Nothing is written here.
 */
#ifndef RAD_CLI_PILOT_OUTCOME_H
#define RAD_CLI_PILOT_OUTCOME_H

#include "cli/pilot.h"
#include "cli/pilot_known.h"
#include "cli/pilot_node.h"

/* Of one whose attempt is over without a result: back into the queue, or its end where it does not want that, or where that
 * happened too often. */
struct spool_record pilot_outcome_cut_off(const struct spool_record *r, const struct spec *spec, const char *by,
					  const char *why);
/* Of one that has ended at the pilot's radd, as that tells of it: `local`, borrowed. */
struct spool_record pilot_outcome(const struct pilot *p, const struct pilot_handed *h, const struct pilot_known_task *t,
				  const json_t *local);

#endif
