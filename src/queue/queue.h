/* SPDX-License-Identifier: MIT
 *
 * The order of pending tasks: the recovery queue first (section 6.2.3), then by priority, then by turn. Pure: it holds
 * pointers to tasks that others own, and only those that may be placed now (no hold, dependencies met).
 */
#ifndef RAD_QUEUE_QUEUE_H
#define RAD_QUEUE_QUEUE_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

struct queue;

struct queue *queue_create(void);
void queue_destroy(struct queue *q);

/* Adds a pending task; its key (queue, priority, turn) is read now. Does nothing if it is there. O(log n). */
void queue_push(struct queue *q, struct task *t);
/* Removes it if it is there; the key must not have changed since (remove, change, push). O(log n). */
bool queue_remove(struct queue *q, struct task *t);
bool queue_contains(const struct queue *q, const struct task *t);
size_t queue_length(const struct queue *q);

/* Walking in order, O(log n) a step. The queue may change during a walk, the task just returned may be removed (its key
 * unchanged): the next one is the first that stands after it. */
struct task *queue_first(const struct queue *q);
struct task *queue_next(const struct queue *q, const struct task *t);

/* Whether dependencies allow it: 1 met, 0 not yet, -1 never (one that can no longer be met decides at once). `state_of` gives
 * the state of a task or array job: it returns false if there is no such task, which is never. For a job with several elements
 * it is asked with the job id and gives the worst of their states, where one that has not ended is worse than any that has. */
typedef bool (*queue_state_of)(task_id id, enum task_state *state, void *ctx);
int queue_dependencies(const struct spec *s, queue_state_of state_of, void *ctx);

/* The one that decides: the first that can no longer be met (*never), else the first that is not met yet; NULL if all are. */
const struct dependency *queue_open_dependency(const struct spec *s, queue_state_of state_of, void *ctx, bool *never);

#endif
