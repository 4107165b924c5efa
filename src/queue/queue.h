/* SPDX-License-Identifier: MIT
 *
 * The order of pending tasks: the recovery queue first (section 6.2.3), then by priority, then whose turn it is
 * (queue/fair.h), then by when they came into it. Pure. It points to tasks that others own, and has only those that may be
 * placed now (not held, dependencies met).
 */
#ifndef RAD_QUEUE_QUEUE_H
#define RAD_QUEUE_QUEUE_H

#include "queue/fair.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

struct queue;

/* `fair` outlives it. */
struct queue *queue_create(struct fair *fair);
/* Takes NULL. */
void queue_destroy(struct queue *q);

/* Adds a pending task; its key (user, queue, priority, time) is read now. Does nothing if it is there. O(log n). */
void queue_push(struct queue *q, struct task *t);
/* Removes the task and returns whether it was there. Its key must not have changed since: remove, change, push. O(log n). */
bool queue_remove(struct queue *q, struct task *t);
bool queue_contains(const struct queue *q, const struct task *t);
size_t queue_length(const struct queue *q);
/* How many users have tasks in the main queue. */
size_t queue_users(const struct queue *q);

/* The user's first task in the main queue; NULL: there is none. */
struct task *queue_first_of(const struct queue *q, uid_t uid);

/* A walk in order: begin, next until NULL, end. The queue may change meanwhile: the task just returned may be removed (its key
 * unchanged), and tasks of users who had none at the beginning are left out. O(users), then O(log n + log users) a step. The
 * members are private to queue.c. */
struct queue_key {
	int64_t priority;	/* higher first; all alike in the recovery queue */
	int64_t queued_ms;
	task_id id;
};

struct queue_walk {
	const struct queue *q;
	enum task_queue queue;		/* where it is */
	struct queue_cursor {
		const struct queue_lane *lane;
		struct queue_key key;	/* of the next of that user, */
		const struct node *node;	/* and where it was when the queue had changed so often */
		uint64_t changes;
		struct fair_place place;
		struct fair_taken ahead;	/* of his that it came by */
	} *cursors;			/* a heap: the next of all first */
	size_t n;
	uint64_t past;		/* the mark under which tasks are left out; 0: none */
	struct task *came_by;	/* the last one returned, whose user stands first in the heap; may be gone by now */
	struct fair_taken takes;	/* it, as those behind it of its user are later for it */
};

/* `from` QUEUE_RECOVERY: both queues; QUEUE_MAIN: the main queue alone. */
void queue_walk_begin(struct queue_walk *w, const struct queue *q, enum task_queue from);
/* The same without tasks that were set aside under that mark (0: none), unless an event changed them since: O(1) for each of
 * them. */
void queue_walk_begin_past(struct queue_walk *w, const struct queue *q, enum task_queue from, uint64_t mark);
struct task *queue_walk_next(struct queue_walk *w);
/* Leaves out further tasks of the user whose task was returned last, who may have no more now. In the recovery queue, where all
 * users stand in one line, this does nothing. */
void queue_walk_leave_user(struct queue_walk *w);
/* The task that was returned last cannot start, whoever ends: its user's next ones are no later for it. */
void queue_walk_pass_over(struct queue_walk *w);
/* The same, and it is set aside under the walk's mark. */
void queue_walk_set_aside(struct queue_walk *w);
/* Frees what the walk holds. May be called at any time. */
void queue_walk_end(struct queue_walk *w);

#endif
