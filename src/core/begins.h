/* SPDX-License-Identifier: MIT
 *
 * Live tasks that are not to start before a time (--begin): which of them is due.
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

/* Whether the task's time is still to come. */
bool begins_later(const struct task *t, int64_t wall_ms);
/* It is due at its time. */
void begins_add(struct begins *b, const struct task *t);
/* It is not any more, if it was. */
void begins_remove(struct begins *b, task_id id);
/* Takes out those whose time has come, ascending by id in *ids (free it). Returns how many. Costs nothing before the next. */
size_t begins_due(struct begins *b, int64_t wall_ms, task_id **ids);
/* The next time (wall); INT64_MAX: none. */
int64_t begins_next_ms(const struct begins *b);

#endif
