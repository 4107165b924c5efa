/* SPDX-License-Identifier: MIT
 * Job logs as traces: from the list of jobs on. import_read.c reads the list.
 */
#include "sim/import.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/order.h"
#include "base/scope.h"
#include "sim/dice.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void import_clear(struct import_log *log)
{
	free(log->jobs);
	*log = (struct import_log){ 0 };
}

/* Statistics -------------------------------------------------------------------------------------------------------------- */

/* The value that this part of them does not exceed. */
static json_t *quantile(const int64_t *sorted, size_t n, unsigned percent)
{
	return json_round3((double)sorted[(n * percent + 99) / 100 - 1] / 1000);
}

static json_t *times_json(const struct import_log *log)
{
	scoped_free int64_t *ran = alloc_resize(NULL, log->n, sizeof *ran);
	double sum = 0;
	for (size_t i = 0; i < log->n; i++)
		sum += (double)(ran[i] = log->jobs[i].ran_ms);
	qsort(ran, log->n, sizeof *ran, order_i64);
	return json_pack("{so, so, so, so, so}", "p10", quantile(ran, log->n, 10), "p50", quantile(ran, log->n, 50),
			 "p90", quantile(ran, log->n, 90), "p99", quantile(ran, log->n, 99),
			 "mean", json_round3(sum / (double)log->n / 1000));
}

json_t *import_statistics(const struct import_log *log)
{
	json_t *gpus = json_object();
	double gpu_s = 0, span_s = (double)(log->jobs[log->n - 1].submit_ms - log->jobs[0].submit_ms) / 1000;
	for (size_t i = 0; i < log->n; i++) {
		char key[16];
		snprintf(key, sizeof key, "%u", log->jobs[i].gpus);
		json_object_set_new(gpus, key, json_integer(json_integer_value(json_object_get(gpus, key)) + 1));
		gpu_s += (double)log->jobs[i].ran_ms / 1000 * log->jobs[i].gpus;
	}
	return json_pack("{si, sI, sI, so, so, so, so, so}", "schema", 1, "jobs", (json_int_t)log->n,
			 "left_out", (json_int_t)log->left_out, "span_s", json_round3(span_s),
			 "jobs_per_hour", json_round3(span_s > 0 ? (double)log->n / span_s * 3600 : NAN),
			 "gpus", gpus, "ran_s", times_json(log), "gpu_hours", json_round3(gpu_s / 3600));
}

/* Window ------------------------------------------------------------------------------------------------------------------- */

static bool wanted(const struct import_job *j, const struct import_window *o)
{
	return !o->gpus || j->gpus <= o->gpus;
}

/* Where the window of that length with the most jobs begins: at one of them. */
static int64_t busiest(const struct import_log *log, const struct import_window *o)
{
	size_t from = 0, count = 0, best = 0;
	int64_t start_ms = 0;
	for (size_t to = 0; to < log->n; to++) {
		count += wanted(&log->jobs[to], o);
		for (; log->jobs[to].submit_ms - log->jobs[from].submit_ms >= o->length_ms; from++)
			count -= wanted(&log->jobs[from], o);
		if (count > best) {
			best = count;
			start_ms = log->jobs[from].submit_ms;
		}
	}
	return start_ms;
}

/* The jobs of the window. Free the list. */
static size_t in_window(const struct import_log *log, const struct import_window *o, const struct import_job ***list)
{
	int64_t start_ms = o->start_ms < 0 ? busiest(log, o) : o->start_ms;
	size_t n = 0;
	*list = alloc_resize(NULL, log->n, sizeof **list);
	for (size_t i = 0; i < log->n; i++) {
		const struct import_job *j = &log->jobs[i];
		if (wanted(j, o) && j->submit_ms >= start_ms && j->submit_ms - start_ms < o->length_ms)
			(*list)[n++] = j;
	}
	return n;
}

/* Workloads ---------------------------------------------------------------------------------------------------------------- */

/* How unlike two times are: 1 is alike. */
static double unlike(int64_t a, int64_t b)
{
	double x = (double)(a > 0 ? a : 1), y = (double)(b > 0 ? b : 1);
	return x > y ? x / y : y / x;
}

/* The most GPUs of any workload that are not more than the job's; else the fewest there are. */
static unsigned width_for(const struct sim_workloads *w, unsigned gpus)
{
	unsigned below = 0, least = 0;
	for (size_t i = 0; i < w->n; i++) {
		unsigned g = w->list[i].missing ? 0 : w->list[i].gpus;
		if (g && g <= gpus && g > below)
			below = g;
		if (g && (!least || g < least))
			least = g;
	}
	return below ? below : least;
}

#define NEAREST 3

static uint32_t resembling(const struct sim_workloads *w, const struct import_job *j, struct dice *d)
{
	unsigned width = width_for(w, j->gpus);
	uint32_t near[NEAREST] = { 0 };
	double far[NEAREST] = { INFINITY, INFINITY, INFINITY };
	size_t n = 0;
	for (size_t i = 0; i < w->n; i++) {
		const struct sim_workload *of = &w->list[i];
		double u = unlike(of->solo_ms, j->ran_ms);
		if (of->missing || of->gpus != width || (n == NEAREST && u >= far[NEAREST - 1]))
			continue;
		size_t at = n < NEAREST ? n++ : n - 1;
		for (; at > 0 && far[at - 1] > u; at--) {
			far[at] = far[at - 1];
			near[at] = near[at - 1];
		}
		far[at] = u;
		near[at] = (uint32_t)i;
	}
	return near[dice_below(d, n)];
}

int import_trace(const struct import_log *log, const struct import_window *o, const struct sim_workloads *w,
		 struct sim_trace *out, struct error *err)
{
	scoped_free const struct import_job **list = NULL;
	struct dice d = { o->seed };
	size_t n = in_window(log, o, &list), keep = o->tasks ? o->tasks : n;
	*out = (struct sim_trace){ .path = alloc_string("imported") };
	if (!width_for(w, 1))
		return error_set(err, ERR_INVALID, "%s: has no workload whose figures are all there", w->path);
	if (!n || keep > n)
		return error_set(err, ERR_INVALID, "%zu jobs are in the window%s: choose another or a longer one", n,
				 n ? ", fewer than the tasks asked for" : "");
	for (size_t i = 0; i < keep; i++) {
		const struct import_job *j = list[i * n / keep];
		alloc_grow(out->list, out->n, out->cap);
		out->list[out->n++] = (struct sim_arrival){ .submit_ms = j->submit_ms - list[0]->submit_ms,
							    .workload = resembling(w, j, &d), .line = (uint32_t)i + 2 };
	}
	return 0;
}
