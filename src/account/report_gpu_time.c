/* SPDX-License-Identifier: MIT
 * GPU time of the tasks of a run. The daemon tells it with its accounts, where it knows of all tasks; what it did not tell
 * (tasks that run yet, the simulator's) is found from the attempts that are in the run.
 */
#include "account/report_internal.h"

#include "account/shares.h"
#include "base/alloc.h"
#include "base/scope.h"

#include <math.h>

/* Running attempts have come to where the run was made. */
static double end_of(const struct report_run *run, const struct report_attempt *a)
{
	double now_s = (double)(run->made_ms - run->origin_ms) / 1000;
	return !isnan(a->end_s) || !run->origin_ms ? a->end_s : now_s;
}

static void add_spans(const struct report_run *run, const struct report_attempt *a, unsigned task, struct shares_span *list,
		      size_t *n)
{
	double end_s = end_of(run, a);
	bool known = !isnan(a->start_s) && !isnan(end_s);
	for (unsigned i = 0; i < a->n_gpus; i++) {
		int64_t from_ms = known ? llround(a->start_s * 1000) : 0, to_ms = known ? llround(end_s * 1000) : 0;
		list[(*n)++] = (struct shares_span){ a->gpus[i], task, from_ms, to_ms, 0 };
	}
}

static void add_attempt(struct report_gpu_time *sum, const struct report_attempt *a, const struct shares_span *spans)
{
	double gpu_s = 0;
	for (unsigned i = 0; i < a->n_gpus; i++) {
		gpu_s += fmax(0, (double)(spans[i].to_ms - spans[i].from_ms) / 1000);
		sum->share_s += a->share_s ? a->share_s[i] : spans[i].share_s;
	}
	sum->gpu_s += isnan(a->gpu_s) ? gpu_s : a->gpu_s;
}

struct report_gpu_time *report_gpu_times(const struct report_run *run)
{
	struct report_gpu_time *times = alloc_zero((run->n_tasks + 1) * sizeof *times);
	size_t n = 0, at = 0;
	for (size_t i = 0; i < run->n_tasks; i++)
		for (size_t k = 0; k < run->tasks[i].n_attempts; k++)
			n += run->tasks[i].attempts[k].n_gpus;
	scoped_free struct shares_span *spans = alloc_zero((n + 1) * sizeof *spans);
	n = 0;
	for (size_t i = 0; i < run->n_tasks; i++)
		for (size_t k = 0; k < run->tasks[i].n_attempts; k++)
			add_spans(run, &run->tasks[i].attempts[k], (unsigned)i, spans, &n);
	shares_split(spans, n);
	for (size_t i = 0; i < run->n_tasks; i++)
		for (size_t k = 0; k < run->tasks[i].n_attempts; k++) {
			add_attempt(&times[i], &run->tasks[i].attempts[k], spans + at);
			at += run->tasks[i].attempts[k].n_gpus;
		}
	return times;
}

struct report_gpu_time report_gpu_time(const struct report_run *run)
{
	struct report_gpu_time sum = { 0, 0 };
	scoped_free struct report_gpu_time *times = report_gpu_times(run);
	for (size_t i = 0; i < run->n_tasks; i++) {
		sum.gpu_s += times[i].gpu_s;
		sum.share_s += times[i].share_s;
	}
	return sum;
}
