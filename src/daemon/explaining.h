/* SPDX-License-Identifier: MIT
 *
 * What `--log-level debug` adds to the log: why each task waits, GPU by GPU as `rad why` tells it, whenever the reason is
 * another.
 */
#ifndef RAD_DAEMON_EXPLAINING_H
#define RAD_DAEMON_EXPLAINING_H

#include "core/core.h"

struct explaining;

struct explaining *explaining_create(void);
/* Takes NULL. */
void explaining_destroy(struct explaining *e);
/* After a turn of the core. Costs nothing at any other level. */
void explaining_note(struct explaining *e, struct core *c, struct now now);

#endif
