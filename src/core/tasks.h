/* SPDX-License-Identifier: MIT
 *
 * The live tasks: their records, the queue of those that may be placed, those that wait for others, arrays and their limits.
 * Every event of a task goes through tasks_emit, the only caller of task_apply in this folder, and after each one a task stands
 * where it belongs:
 *	in the queue	PENDING, estimated, not waiting for others, and one of the elements that its array's limit admits; there
 *			are two of them: CPU tasks, which ask for no GPU, wait for other things and keep nobody waiting
 *	parked		the same, but beyond that limit: the lowest index comes first
 *	nowhere		all others
 * so no other code puts a task into the queue or takes one out. A task that ended is dropped, and those that waited for it go
 * on.
 */
#ifndef RAD_CORE_TASKS_H
#define RAD_CORE_TASKS_H

#include "queue/queue.h"
#include "queue/waiting.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tasks;

struct tasks_ops {
	void *ctx;
	/* A task changed, and stands where it belongs. It is freed after the call if its state is terminal. */
	void (*event)(void *ctx, const struct event *ev, struct task *t);
	/* An event that the task's state does not allow: a bug of ours. The task stays as it was. */
	void (*trouble)(void *ctx, const char *text);
	/* Of a task or a job that may have ended long ago; see queue/waiting.h. */
	waiting_state_of state_of;
};

/* `fair` outlives it. */
struct tasks *tasks_create(const struct tasks_ops *ops, struct fair *fair);
/* Takes NULL. Frees the tasks. */
void tasks_destroy(struct tasks *ts);

/* Takes over a task that has no event yet; EV_SUBMITTED comes next. */
void tasks_add(struct tasks *ts, struct task *t);
/* Takes over a task with its log behind it, and puts it where it belongs. */
void tasks_restore(struct tasks *ts, struct task *t, int64_t wall_ms);
/* The task waits for its dependencies and its time (--begin) from now on. EV_ELIGIBLE follows at once if nothing is open. */
void tasks_wait(struct tasks *ts, struct task *t, int64_t wall_ms);
/* One that came to wait in vain since this was asked, and the dependency that is not to be met; NULL: there is none any more.
 * Those that depend on it come into the list when it is ended, so a chain needs no call in a call. */
struct task *tasks_next_vain(struct tasks *ts, struct dependency *unmet);
/* All who do are told of again. */
void tasks_list_vain(struct tasks *ts);
/* EV_ELIGIBLE for tasks whose time (--begin) has come. Returns the next such time (wall), INT64_MAX: none. Costs nothing until
 * then. */
int64_t tasks_turn(struct tasks *ts, int64_t wall_ms);
/* Applies one event and tells ops->event. `ev->task` is set here. If the event ended the task, `t` is freed: do not use it
 * afterwards. Tasks whose dependencies the event meets get EV_ELIGIBLE at wall_ms. */
void tasks_emit(struct tasks *ts, struct task *t, struct event *ev, int64_t wall_ms);

/* Moves with every event that may change what can be placed: all but EV_PLACED, EV_STARTED, EV_MEASURED and
 * EV_SLOT_ASKED. */
uint64_t tasks_version(const struct tasks *ts);

/* NULL: there is no live task of that id. */
struct task *tasks_find(const struct tasks *ts, task_id id);
/* As tasks_find; NULL with an error (ERR_NOT_FOUND). */
struct task *tasks_find_any(const struct tasks *ts, task_id id, struct error *err);
/* The task, if its state allows that event; else NULL with an error: "task 12: is RUNNING, so it cannot be WHAT". */
struct task *tasks_find_for(const struct tasks *ts, task_id id, enum event_kind kind, const char *what, struct error *err);
size_t tasks_count(const struct tasks *ts, enum task_state state);
size_t tasks_live(const struct tasks *ts);
/* How many live tasks the user has; the size of their specs. */
size_t tasks_of_user(const struct tasks *ts, uid_t uid);
size_t tasks_user_bytes(const struct tasks *ts, uid_t uid);
/* Jobs of which the user has a live task of that name: as named_jobs. */
size_t tasks_jobs_named(const struct tasks *ts, uid_t uid, const char *name, size_t most, uint32_t **jobs);
/* The state of the job's least advanced live element. False: none is live. */
bool tasks_job_state(const struct tasks *ts, uint32_t job, enum task_state *state);
/* The live elements of a job in order of index; the caller frees *ids. */
size_t tasks_of_job(const struct tasks *ts, uint32_t job, task_id **ids);
/* The spec that the live tasks of a job share takes so many bytes more: its user has more, too. */
void tasks_spec_grew(struct tasks *ts, uint32_t job, size_t bytes);

/* The wall clock was set forward by by_ms (below 0: back): an event of every task. */
void tasks_clock_set(struct tasks *ts, int64_t by_ms, int64_t wall_ms);

/* The queue, to be walked: during a walk the task just returned may be placed. */
const struct queue *tasks_queue(const struct tasks *ts);
size_t tasks_queued(const struct tasks *ts);
/* That of the CPU tasks; all else that is said of a queue here is of the one above. */
const struct queue *tasks_cpu_queue(const struct tasks *ts);
/* Whether the limit of its array leaves a place for it. */
bool tasks_array_admits(const struct tasks *ts, const struct task *t);
/* In either. */
bool tasks_in_queue(const struct tasks *ts, const struct task *t);
/* Whether any task waits for that task, or for its job. */
bool tasks_are_waited_for(const struct tasks *ts, task_id id);
/* Whether the task waits in vain, unless a person requeues what has ended: a dependency of its own can never be met, or it
 * depends on the success of a task that itself waits in vain (chains are followed for a hundred tasks). *on: the dependency
 * that keeps it, as waiting_for. */
bool tasks_waits_in_vain(const struct tasks *ts, const struct task *t, const struct dependency **on);
/* Calls `each` for every live task: running ones by id, the queue in its order, the others by id. */
void tasks_each(const struct tasks *ts, void (*each)(void *ctx, const struct task *t), void *ctx);

/* Checks the invariants: counts are those of the tasks, and each task stands where it belongs. 0, or -1 with the first that
 * does not hold. Looks at every task. */
int tasks_check(const struct tasks *ts, struct error *err);

#endif
