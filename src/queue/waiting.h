/* SPDX-License-Identifier: MIT
 *
 * Who waits for whom: dependencies of pending tasks (Slurm's afterok, afterany, afternotok, after, aftercorr). What is waited
 * for is looked up once, however many wait for it, and told from then on; a change costs as many steps as tasks wait for
 * exactly that one. Elements of an array share one spec, so they wait as one, but for aftercorr.
 *
 * Pure: it is told what comes and ends, and says who may go on.
 */
#ifndef RAD_QUEUE_WAITING_H
#define RAD_QUEUE_WAITING_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>

struct waiting;

/* Gives the state of a task or an array job, as of now; false: there is no such, which is never met. For a job with several
 * elements it is asked with the job's id and gives the worst of their states, where one that has not ended is worse than any
 * that has, and one that has not started worse than one that runs. May be slow: it is asked once for each thing that is waited
 * for, not once for each task that waits. */
typedef bool (*waiting_state_of)(task_id id, enum task_state *state, void *ctx);

struct waiting *waiting_create(waiting_state_of state_of, void *ctx);
void waiting_destroy(struct waiting *w);

/* Whether dependencies allow the task, as far as was told: 1 met, 0 not yet, -1 never (one that can no longer be met
 * decides). */
enum { WAITING_NEVER = -1, WAITING_OPEN = 0, WAITING_MET = 1 };

/* The task waits for its dependencies from now on. Returns one of the three. */
int waiting_add(struct waiting *w, const struct task *t);
/* It waits no longer, whatever the reason. Does nothing if it did not. */
void waiting_remove(struct waiting *w, const struct task *t);

/* The same before what it depends on is changed: what was known of that goes, too. */
void waiting_forget(struct waiting *w, const struct task *t);

/* Who came to wait in vain since this was asked last, ascending; some may do so no more. Free *ids. */
size_t waiting_take_vain(struct waiting *w, task_id **ids);
/* All who do are told of again. */
void waiting_list_vain(struct waiting *w);

/* Whether a waiting task names that task, or its job as a whole, as one it depends on. */
bool waiting_names(const struct waiting *w, task_id id);

/* That task or job is in this state now; `state` NULL: look it up (a job of which the last element ended). Returns the number
 * of tasks all of whose dependencies are met by this, ascending by id in *ready (free it); they wait until waiting_remove. */
size_t waiting_told(struct waiting *w, task_id id, const enum task_state *state, task_id **ready);

/* Whether anybody waits for its start: then it is told of that, too. */
bool waiting_for_start(const struct waiting *w, task_id id);
/* As waiting_add returned it, as of now; met, if it does not wait. */
int waiting_is(const struct waiting *w, const struct task *t);
/* What keeps a waiting task: the first dependency that can no longer be met (*never), else the first that is not met yet, NULL
 * if all are or it does not wait. */
const struct dependency *waiting_for(const struct waiting *w, const struct task *t, bool *never);

#endif
