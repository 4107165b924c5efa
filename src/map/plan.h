/* SPDX-License-Identifier: MIT
 *
 * Planning: in which order, and on which GPUs, should those that wait start, so that all is done soonest? Pure.
 *
 * Greedy placement fills memory as it becomes free, and finds out at the end that the long tasks of several GPUs are left
 * over. A plan looks ahead: it plays the queue through under the model of sharing (share/share.h), with what each task is
 * expected to take alone, and keeps the best of many slightly changed plans. It is made anew whenever a task or a GPU
 * comes or goes, so wrong expectations cost no more than the decisions taken on them. Places and order are all that is planned:
 * whether a task may start now is asked of the filter (map/map.h), as ever.
 *
 * The search minimizes, in seconds from now: the end of the last task + `mean` x the mean of all ends. A run that its own clock
 * ends is not lengthened by company but does less, so slowing it would cost nothing: what it has left to do when its clock ends
 * it is counted as if it did that afterwards, alone.
 *
 * One more task on a GPU that is full leaves the last end where it is, and makes all others there end later. So a task may be
 * held back until fewer tasks run there; which ones go first is found by the search, as order and places are. While a task
 * begins (its program starts and reads its data) its GPUs do nothing for it: that part of its work is best done beside others.
 *
 * The search is threshold accepting (Dueck, Scheuer, "Threshold accepting: a general purpose optimization algorithm appearing
 * superior to simulated annealing"): no logarithm and no clock, so equal problems have equal plans on every machine.
 */
#ifndef RAD_MAP_PLAN_H
#define RAD_MAP_PLAN_H

#include "share/share.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_GPUS 64		/* most GPUs of a plan, a bit each */
#define PLAN_TASKS 160		/* most tasks of a plan, running ones included */

struct plan_gpu {
	uint64_t total_mib;	/* free once none of our tasks is there */
	uint64_t free_mib;	/* held for nobody */
	enum share_mode first;	/* mode of a task that comes alone: SHARE_MPS or SHARE_STREAMS; SHARE_MIG: one task at a time */
	enum share_mode mode;	/* of the tasks that run there; counts when there are any */
};

struct plan_task {
	task_id id;
	struct share_task load;	/* what it does alone; NaN: not known */
	double left_s;		/* what is left of its work, in seconds alone; above 0 */
	double begin_s;		/* the part of that in which it begins; 0: it has begun */
	double clock_s;		/* after which its own clock ends it, whatever is left, from now or from its start; not below left_s; 0:
				 * nothing but its work does */
	uint64_t mib;		/* held on each of its GPUs, or to be held */
	unsigned gpus;
	bool alone;		/* has its GPUs to itself */
	bool no_mps;		/* cannot be an MPS client */
	uint64_t may;		/* GPUs that it can use, a bit each */
	uint64_t on;		/* GPUs on which it runs or is to start, a bit each; 0: not placed yet */
	bool keeps;		/* tasks behind it do not take its GPUs before it has started */
	bool patient;		/* may be held back though there is room */
	unsigned among;		/* if patient: it starts as one of at most so many tasks on each of its GPUs; 0: of any number */
	bool first;		/* goes before all tasks without this mark, whatever that costs, and keeps its GPUs. Tasks with the mark
				 * stand at the head of the waiting ones, in their order */
	unsigned turn;		/* its place in the queue: of tasks that are alike in all the above, the first there starts first */
	double start_s;		/* when it is expected to start, from now */
};

struct plan {
	const struct plan_gpu *gpus;
	size_t n_gpus;
	struct plan_task *tasks;	/* first those that run, then those that wait, in the order in which they are to start */
	size_t n_running, n;
	uint64_t slack_mib;	/* left free beside others */
	double mean;		/* weight of the mean of all ends */
};

/* Improves the plan: sets order, `on`, `keeps`, `among` and `start_s` of the waiting tasks. `steps`: how many plans are tried
 * at most; fewer where one takes long to play. `may` must name enough GPUs for every waiting task. Returns when the last task
 * ends (with what clocks leave undone, as above), in seconds from now. */
double plan_improve(struct plan *p, unsigned steps);

#endif
