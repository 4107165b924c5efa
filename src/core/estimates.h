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

#define ESTIMATES_BEGIN_S 10	/* Python, CUDA and a model take 8 to 18 s before anything is computed */

/* Uses ctx, estimate and outcome of `ops`, which are copied. The other owners outlive it; of the fleet it reads models and
 * capacity. */
struct estimates *estimates_create(const struct core_config *config, const struct core_ops *ops, struct tasks *ts,
				   const struct fleet *f);
/* Takes NULL. */
void estimates_destroy(struct estimates *e);

/* Estimates a pending task: EV_ESTIMATED follows, at once or with a slow estimator's answer. */
void estimates_ask(struct estimates *e, struct task *t, struct now now);
/* The answer to such a question; see core_estimated. */
void estimates_answer(struct estimates *e, int64_t question, bool spoke, const struct estimate_result *said, struct now now);
/* Call it before the task is placed: estimates it again if something was learnt of its signature since. */
void estimates_refresh(struct estimates *e, struct task *t, struct now now);
/* How many questions to slow estimators are open. */
size_t estimates_open(const struct estimates *e);
/* The tasks that could be placed but for a capture that is being made; of an array one stands for all. In no particular order:
 * start with *at = 0; NULL at the end. */
struct task *estimates_next_uncaptured(const struct estimates *e, size_t *at);
/* Such a task is estimated by what is known without, and once more (EV_ESTIMATED) when its capture is there, even if it
 * runs. */
void estimates_do_without(struct estimates *e, struct task *t, struct now now);
/* A restart found it running: where its capture is still to come, that is waited for. */
void estimates_restore(struct estimates *e, struct task *t, struct now now);
/* Whether that is still to come. */
bool estimates_comes_late(const struct estimates *e, const struct task *t);
/* The task was placed or is gone, and is not refreshed again: drops what was remembered for that. */
void estimates_forget(struct estimates *e, task_id id);
/* The estimate of a task that is not submitted. Slow estimators are not asked. */
void estimates_preview(const struct estimates *e, const struct spec *s, struct estimate_result *out);

/* Learns from the task's last attempt, which has ended. */
void estimates_learn(struct estimates *e, const struct task *t, struct now now);
/* Takes in what an attempt taught, now or before a restart. */
void estimates_remember(struct estimates *e, const struct outcome *o);
/* Moves whenever something was learnt. */
uint64_t estimates_version(const struct estimates *e);
/* When (wall) something was last learnt of the task's signature; 0: never. More may still be learnt within that millisecond;
 * after it, the task's estimate stays the same until this time moves. */
int64_t estimates_told_ms(const struct estimates *e, const struct task *t);

/* What the task will do alone on that model of GPU: by runs of its signature, or by its estimate where they taught nothing.
 * NaN: not known. */
struct load_belief estimates_load(const struct estimates *e, const struct task *t, const char *gpu_name);
struct history_usual estimates_usual(const struct estimates *e);
/* The pace of this machine's host, by tasks whose times were guessed and then measured alone. */
struct hostpace estimates_host_pace(const struct estimates *e);
/* How many units of their own progress runs of its signature did a second, alone on that very model; 0: not known. */
double estimates_pace(const struct estimates *e, const struct task *t, const char *gpu_name);
/* How many cores the task would want, and from where that is known: what runs of its signature wanted, else what its capture
 * says of its data loaders at the pace of this host, else one. */
struct cores_expected { double cores; enum { CORES_UNKNOWN, CORES_CAPTURED, CORES_RUNS } how; };
struct cores_expected estimates_cores(const struct estimates *e, const struct task *t);
/* How it is known what time a task takes alone, the surest first: earlier runs of its signature took it; its time limit; its
 * capture counted the training steps, and knows nothing of what comes between them. */
enum work_known { WORK_RUNS, WORK_LIMIT, WORK_COUNTED, WORK_UNKNOWN };
/* What time the task takes alone, in seconds: by the first of these that is known, at most its limit; *how says which. With
 * none (WORK_UNKNOWN), what tasks took here on average. */
double estimates_work_s(const struct estimates *e, const struct task *t, enum work_known *how);
/* In how many seconds its own clock ends the task (load.h: limit_s), from its start, or from now if it runs; INFINITY: nobody
 * knows of one. Company does not lengthen that. One that is over it is taken to need as long again as it is late. */
double estimates_clock_s(const struct estimates *e, const struct task *t, struct now now);
/* How long a running task has left. */
struct time_left {
	double s;		/* of its work, in seconds that it takes alone; at most clock_s */
	bool says;		/* by its own progress, */
	enum work_known how;	/* else by this; */
	bool known;		/* or by neither: then s is by what tasks took here on average */
	bool overdue;		/* by what was expected it should be over: s is a number to plan with, and no end to be told */
	double clock_s;		/* as estimates_clock_s */
	double limit_s;		/* until its time limit ends it; INFINITY: none does, as while it is suspended */
};
struct time_left estimates_left(const struct estimates *e, const struct fleet_run *r, struct now now);
/* As fleet_progress, but left_s no longer than its own clock lets it go on. */
bool estimates_progress(const struct estimates *e, const struct task *t, struct now now, struct progress_report *out);

#endif
