/* SPDX-License-Identifier: MIT
 *
 * The order of pending tasks: the recovery queue first (section 6.2.3), then by priority, then by when they came into it.
 * Pure: it has pointers to tasks that others own, and only those that may be placed now (no hold, dependencies met).
 */
#ifndef RAD_QUEUE_QUEUE_H
#define RAD_QUEUE_QUEUE_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

struct queue;

struct queue *queue_create(void);
void queue_destroy(struct queue *q);

/* Adds a pending task; its key (queue, priority, time) is read now. Does nothing if it is there. O(log n). */
void queue_push(struct queue *q, struct task *t);
/* Removes it if it is there; the key must not have changed since (remove, change, push). O(log n). */
bool queue_remove(struct queue *q, struct task *t);
bool queue_contains(const struct queue *q, const struct task *t);
size_t queue_length(const struct queue *q);

/* Walking in order, O(log n) a step. The queue may change during a walk, the task just returned may be removed (its key
 * unchanged): the next one is the first that stands after it. */
struct task *queue_first(const struct queue *q);
struct task *queue_next(const struct queue *q, const struct task *t);

#endif
