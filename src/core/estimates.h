/* SPDX-License-Identifier: MIT
 *
 * What tasks are expected to need and to take, and what ended attempts taught. A task is estimated when it comes, and again
 * just before it is placed if something was learnt of its signature since: so an array of many thousand elements costs no more
 * than the ones that are placed. Slow estimators are asked of the wiring; their tasks wait outside of the queue until the
 * answer is there.
 */
#ifndef RAD_CORE_ESTIMATES_H
#define RAD_CORE_ESTIMATES_H

#include "core/fleet.h"
#include "core/tasks.h"

struct estimates;

#define ESTIMATES_OVERDUE 0.125	/* part of what was expected that is taken to be left of a task which went on beyond it */

/* Of `ops`, ctx, estimate and outcome are used. The other owners outlive it; of the fleet it reads models and capacity. */
struct estimates *estimates_create(const struct core_config *config, const struct core_ops *ops, struct tasks *ts,
				   const struct fleet *f);
/* Takes NULL. */
void estimates_destroy(struct estimates *e);

/* Estimates a pending task: EV_ESTIMATED follows, at once or with a slow estimator's answer. */
void estimates_ask(struct estimates *e, struct task *t, struct now now);
/* The answer to such a question; see core_estimated. */
void estimates_answer(struct estimates *e, int64_t question, bool spoke, const struct estimate_result *said, struct now now);
/* Before it is placed: again, if something was learnt of its signature since. */
void estimates_refresh(struct estimates *e, struct task *t, struct now now);
/* It was placed, or is gone: it is not looked at again. */
void estimates_forget(struct estimates *e, task_id id);
/* Of a task that is not submitted. Slow estimators are not asked. */
void estimates_preview(const struct estimates *e, const struct spec *s, struct estimate_result *out);

/* The task's last attempt has ended. */
void estimates_learn(struct estimates *e, const struct task *t, struct now now);
/* What an attempt taught, in this life or an earlier one. */
void estimates_remember(struct estimates *e, const struct outcome *o);
/* Moves whenever something was learnt. */
uint64_t estimates_version(const struct estimates *e);
/* When (wall) something was last learnt of tasks like that one; 0: never. What is said of it then may change in that
 * millisecond, and not after it. */
int64_t estimates_told_ms(const struct estimates *e, const struct task *t);

/* What the task will do alone on that model of GPU, by runs of its signature; where they taught nothing, by its estimate. NaN
 * for what is not known. */
struct load_belief estimates_load(const struct estimates *e, const struct task *t, const char *gpu_name);
/* The pace of this machine's host, by tasks that were guessed and then seen alone. */
struct hostpace estimates_host_pace(const struct estimates *e);
/* Units of their own progress that they did a second alone on that very model; 0: not known. */
double estimates_pace(const struct estimates *e, const struct task *t, const char *gpu_name);
/* Cores that it would want: what runs of its signature did, else one. */
double estimates_cores(const struct estimates *e, const struct task *t);
/* How the time that a task takes alone is known, the surest first: runs of its signature took it, it is its limit, or its
 * capture counted it, which knows nothing of what comes between training steps. */
enum work_known { WORK_RUNS, WORK_LIMIT, WORK_COUNTED, WORK_UNKNOWN };
/* Seconds, by the first of these that tells, and no more than the limit; where none does, what tasks took here on average. */
double estimates_work_s(const struct estimates *e, const struct task *t, enum work_known *how);

#endif
