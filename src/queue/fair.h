/* SPDX-License-Identifier: MIT
 *
 * Who had how much, and so whose turn it is: the GPU time of each user lately, what he has now, and what he may have.
 *
 * A GPU on which anything of ours runs gives one GPU second a second, parted among its tasks by the memory that is held for
 * them, since that is what keeps others away:
 *	part = sum over the GPUs of a task of  held for it / held for all tasks there
 * so a task that has two GPUs to itself counts 2, and one that holds a quarter of what is held on one GPU counts 1/4. What was
 * used counts half as much after each half-life H, as with PriorityDecayHalfLife of Slurm's Multifactor Priority Plugin. With
 * `rate` the sum of a user's parts, which is constant between two events:
 *	used(t + d) = used(t) x 2^(-d/H) + rate x H / ln 2 x (1 - 2^(-d/H))
 *
 * Like Slurm's Fair Tree the order is one of users, not of tasks, so that no number of tasks makes anybody's turn come later.
 * The next task of the queue, within one priority, is the first in time of the user who comes first in this order:
 *	1. those who are owed a start: they run nothing, and have started nothing for `pass_max` and since 2 began to wait
 *	2. the one who insists: for his first task GPUs are kept, so that a task of many GPUs does not wait for ever
 *	3. those who run nothing
 *	4. the others
 * (who is both 1 and 2 before all), and among these by used + FAIR_AHEAD_S x rate, least first: what runs counts as if it went
 * on for that long, so that several GPUs that are free at once go to several users. CPU tasks, which have no GPU, take no part
 * in that: to "run" is to have a GPU. They go by how many of them each user runs, least first. All of it is off where `fair`
 * is; then time of submission alone decides.
 *
 * Pure. Times are monotonic; users of whom nothing is known have used nothing.
 */
#ifndef RAD_QUEUE_FAIR_H
#define RAD_QUEUE_FAIR_H

#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAIR_AHEAD_S 3600.0

struct fair;
struct fair_user;

/* What a user has at one time. */
struct fair_taken {
	unsigned tasks, gpus;
	uint64_t mib;		/* held, over all GPUs */
	unsigned cpu_tasks;	/* of `tasks` */
};

struct fair_config {
	bool on;
	int64_t half_life_ms;	/* above 0 */
};

/* `config` and `pass_max_ms` are read whenever they are needed, and outlive it. */
struct fair *fair_create(const struct fair_config *config, const int64_t *pass_max_ms);
/* Takes NULL. */
void fair_destroy(struct fair *f);
/* Time goes on to `mono_ms`; never back. O(1). */
void fair_go_on(struct fair *f, int64_t mono_ms);

/* Users --------------------------------------------------------------------------------------------------------------- */

/* The user's record, which is made if there is none, and lives as long as `f`. */
struct fair_user *fair_user_of(struct fair *f, uid_t uid);
/* The same without making one. NULL: nothing is known of the user. */
const struct fair_user *fair_find(const struct fair *f, uid_t uid);
/* What the user has now. */
struct fair_taken fair_taken_of(const struct fair *f, uid_t uid);
/* Whether the user is owed a start (1 of the four above). */
bool fair_is_owed(const struct fair *f, uid_t uid);
/* Walks all users in the order of their records: *at = 0 first; NULL at the end. */
const struct fair_user *fair_next(const struct fair *f, size_t *at);

struct fair_standing {
	uid_t uid;
	double used_s;		/* GPU seconds, as of now */
	double rate;		/* sum of the parts of what runs */
	double figure_s;	/* used_s + FAIR_AHEAD_S x rate: what users are compared by */
	struct fair_taken taken;
	bool owed;		/* as fair_is_owed */
	int64_t started_ago_ms;	/* since the last attempt of the user's began; -1: none did */
};
struct fair_standing fair_look(const struct fair *f, const struct fair_user *u);

/* At `mono_ms` an attempt of the user begins (sign 1) or ends (-1) that takes so much. */
void fair_take(struct fair *f, uid_t uid, int sign, struct fair_taken what, int64_t mono_ms);
/* From `mono_ms` on the user's rate is higher by so much. A time before the user's last change counts as that. */
void fair_change_rate(struct fair *f, uid_t uid, double by, int64_t mono_ms);
/* After a restart: what the user had used by a time before now. Replaces what was known. */
void fair_remember(struct fair *f, uid_t uid, double used_s, int64_t mono_ms);
/* The same: when the last attempt of the user's began that has ended. */
void fair_remember_start(struct fair *f, uid_t uid, int64_t mono_ms);

/* Passing ------------------------------------------------------------------------------------------------------------- */

/* Notes that the task is the first in line and does not fit. Returns since when: `from_ms`, or what was noted before. A few
 * tasks for each user, those that have waited longest: one that was overtaken by others of its user does not begin anew. */
int64_t fair_passed_since(struct fair *f, uid_t uid, task_id task, int64_t from_ms);
/* It waits no more. */
void fair_waits_no_more(struct fair *f, uid_t uid, task_id task);
/* The task, the first of its user, has waited since `since_ms`, and GPUs are kept for it: it insists. It does not replace one
 * that has waited for pass_max. */
void fair_insist(struct fair *f, task_id task, int64_t since_ms);
/* The task insists no more. Does nothing if it did not. */
void fair_desist(struct fair *f, task_id task);
/* The task that insists; 0: none. */
task_id fair_insists(const struct fair *f);

/* Order --------------------------------------------------------------------------------------------------------------- */

/* The user's place in the order, if `next` is the user's next task and those before it take `ahead`. Plain values: the order
 * changes with time, so a walk of the queue asks once for each user. */
struct fair_place { int rank; double figure_s; };
struct fair_place fair_place_of(const struct fair *f, const struct fair_user *u, task_id next, const struct fair_taken *ahead);
/* The same among CPU tasks. */
struct fair_place fair_cpu_place_of(const struct fair *f, const struct fair_user *u, const struct fair_taken *ahead);
/* As fair_place_of, if so many of the user's running tasks had ended, each of which takes an equal part of what he has. */
struct fair_place fair_place_without(const struct fair *f, const struct fair_user *u, task_id next, unsigned gone);
/* In words, why a user with that place is next. */
const char *fair_why(struct fair_place p);
/* Negative: a goes before b. */
int fair_compare(struct fair_place a, struct fair_place b);

#endif
