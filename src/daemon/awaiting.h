/* SPDX-License-Identifier: MIT
 *
 * The wait of one client: until none of some tasks is alive, or pending, any more.
 */
#ifndef RAD_DAEMON_AWAITING_H
#define RAD_DAEMON_AWAITING_H

#include "core/core.h"
#include "daemon/walk.h"

struct awaiting;

/* For these ids, of tasks or whole jobs; they are copied. `until_start`: a task that runs is over, too. */
struct awaiting *awaiting_create(struct core *core, struct store *store, const task_id *ids, size_t n, bool until_start);
/* Takes NULL. */
void awaiting_destroy(struct awaiting *w);
/* Cheap: it looks at the task that kept it waiting when it was asked last. */
bool awaiting_is_over(struct awaiting *w);
/* The tasks that were waited for, to be told. */
struct walk *awaiting_walk(const struct awaiting *w);
size_t awaiting_bytes(const struct awaiting *w);

#endif
