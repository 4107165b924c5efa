/* SPDX-License-Identifier: MIT
 *
 * Live tasks that are not to start before a time (--begin, or the delay before a retry): which of them is due.
 */
#ifndef RAD_CORE_BEGINS_H
#define RAD_CORE_BEGINS_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct begins;

struct begins *begins_create(void);
/* Takes NULL. */
void begins_destroy(struct begins *b);

/* Whether the time before which the task is not to start (--begin) is still to come. */
bool begins_later(const struct task *t, int64_t wall_ms);
/* From now on the task is due at that time. */
void begins_add(struct begins *b, const struct task *t);
/* The task is due no more. Does nothing if it was not. */
void begins_remove(struct begins *b, task_id id);
/* Takes out the tasks whose time has come: ascending by id in *ids, which the caller frees. Returns how many. Costs nothing
 * until the next one is due. */
size_t begins_due(struct begins *b, int64_t wall_ms, task_id **ids);
/* When the next one is due (wall); INT64_MAX: none is. */
int64_t begins_next_ms(const struct begins *b);

#endif
