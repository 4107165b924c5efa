/* SPDX-License-Identifier: MIT
 *
 * Whether tasks would wait for themselves, if they waited for others in another way than they do. A submission cannot make such
 * a ring, since what it names was there before it; a change can.
 */
#ifndef RAD_CORE_CYCLE_H
#define RAD_CORE_CYCLE_H

#include "core/tasks.h"

struct cycle { task_id of, by; };	/* a task that would wait for itself, and who waits for it; by 0: it names itself */

/* Of those of the tasks that wait (others cannot be changed so), with these dependencies. Each task that is reached is looked
 * at once, and no more than a million dependencies, since all others wait for the answer. */
enum cycle_found { CYCLE_NONE, CYCLE_CLOSED, CYCLE_TOO_MANY };
enum cycle_found cycle_find(const struct tasks *ts, const task_id *ids, size_t n, const struct dependency *deps, size_t n_deps,
		struct cycle *out);

#endif
