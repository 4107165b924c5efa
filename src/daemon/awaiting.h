/* SPDX-License-Identifier: MIT
 *
 * The wait of one client: until none of some tasks is alive, or pending, any more.
 */
#ifndef RAD_DAEMON_AWAITING_H
#define RAD_DAEMON_AWAITING_H

#include "core/core.h"
#include "daemon/walk.h"

struct awaiting;

/* What is waited for besides the end of each task: that it runs, or that its memory was estimated. */
enum awaiting_until { AWAITING_END, AWAITING_START, AWAITING_ESTIMATE };

/* For these ids, of tasks or whole jobs; they are copied. */
struct awaiting *awaiting_create(struct core *core, struct store *store, const task_id *ids, size_t n,
				 enum awaiting_until until);
/* Takes NULL. */
void awaiting_destroy(struct awaiting *w);
/* Cheap: it looks at the task that kept it waiting when it was asked last. */
bool awaiting_is_over(struct awaiting *w);
/* The tasks that were waited for, to be told. */
struct walk *awaiting_walk(const struct awaiting *w);
size_t awaiting_bytes(const struct awaiting *w);

#endif
