/* SPDX-License-Identifier: MIT
 *
 * The states of tasks and jobs that others depend on, whether they live or ended long ago.
 */
#ifndef RAD_DAEMON_PAST_H
#define RAD_DAEMON_PAST_H

#include "core/core.h"
#include "store/store.h"

/* As core_ops.state_of: of a task, or of a whole job the worst of its elements. False: there is no such. */
bool past_state(const struct core *core, struct store *store, task_id id, enum task_state *state);

#endif
