/* SPDX-License-Identifier: MIT
 *
 * Reports: runs of tasks on GPUs, side by side, as one HTML page, as JSON and as CSV. A run is what one policy did with a
 * trace in the simulator, or a span of a server's life from the daemon's accounts. Pure: data in, text out.
 *
 *	struct report *r = report_create("60-task trace", clock_wall_ms());
 *	struct report_run *run = report_add_run(r, "magm", 0);
 *	report_add_reading(run, t_ms, &reading);	... as they come, of every GPU
 *	report_end(run, last_ms);
 *	if (report_add_tasks(run, tasks, err)) ...
 *	report_set_totals(run, totals);
 *	report_html(r, &out);
 *	report_destroy(r);
 */
#ifndef RAD_ACCOUNT_REPORT_H
#define RAD_ACCOUNT_REPORT_H

#include "account/series.h"
#include "base/buf.h"
#include "base/error.h"
#include "device/reading.h"

#include <jansson.h>
#include <stdint.h>

#define REPORT_MAX_RUNS 12	/* that one can still tell apart */

struct report;
struct report_run;

/* `made_ms`: wall time now, for the foot of the page. */
struct report *report_create(const char *title, int64_t made_ms);
/* Takes NULL. */
void report_destroy(struct report *r);

/* `name`: what tells it from the others, such as the policy. `origin_ms`: the wall time from which its times count; 0: they
 * are those of a trace, which begins at 0. Owned by the report. NULL: there are REPORT_MAX_RUNS. */
struct report_run *report_add_run(struct report *r, const char *name, int64_t origin_ms, struct error *err);
/* A line about the run: devices, estimator, seed, what was left out. Several are joined. */
void report_note(struct report_run *run, const char *text);

/* Returns the number of the GPU of that UUID, adding it if need be. An empty `name` and 0 MiB are "not known" and may be told
 * later. */
unsigned report_add_gpu(struct report_run *run, const char *uuid, uint32_t index, const char *name, uint64_t mem_total_mib);
/* What people call it ("1:0"), where that is known: reading_number. What cannot be one is passed over. */
void report_name_gpu(struct report_run *run, unsigned gpu, const char *number);
/* A reading that stands until the next one of that GPU, as from sim_options.reading. `t_ms` counts from the run's origin. */
void report_add_reading(struct report_run *run, int64_t t_ms, const struct gpu_reading *g);
/* Means over a span, as the daemon keeps them. NaN: not known. */
void report_add_means(struct report_run *run, unsigned gpu, int64_t from_ms, int64_t to_ms, const double values[SERIES_VALUES]);
/* A process whose use of the machine was watched, and means of that over a span: SERIES_CORES and those behind it, NaN in the
 * others. Returns its number. */
unsigned report_add_process(struct report_run *run, const char *name);
void report_add_usage(struct report_run *run, unsigned process, int64_t from_ms, int64_t to_ms,
		      const double values[SERIES_VALUES]);
/* The last readings stood until then. */
void report_end(struct report_run *run, int64_t t_ms);

/* Task objects of `rad show|queue|acct --json` (ISO times, `gpus` are UUIDs), or of `rad simulate --json` and of a report's
 * own JSON (`submit_s`, `start_s`, `end_s` and `gpus` are numbers). GPUs come before tasks. What is missing is not known; an
 * attempt without an end still runs. ERR_INVALID: not such objects. */
int report_add_tasks(struct report_run *run, const json_t *tasks, struct error *err);
/* Sums of the run as a whole: trace_total_s lower_bound_s avg_wait_s avg_exec_s avg_jct_s p95_jct_s oom neighbours_lost
 * energy_j mean_smact of this object; other members are passed over. */
void report_set_totals(struct report_run *run, const json_t *totals);

/* Adds the runs of a file: a report's own JSON, or the output of `rad simulate --json` or `rad acct --json`. `name` is for a
 * run that has none, or one that is taken. */
int report_add_json(struct report *r, const char *name, const json_t *file, struct error *err);

/* {"schema":1,"title","made","runs":[{name note origin made gpus[] totals{} tasks[] series[] processes[]}]}; a series is of the
 * place in gpus or in processes that it names. Times are seconds from `origin` (ISO, null for a trace); attempts without an
 * end ran on at `made`. Free by json_decref. */
json_t *report_json(const struct report *r);
/* One line for every attempt of every task of every run; one without an attempt for a task that has none (RFC 4180). */
void report_csv(const struct report *r, struct buf *out);
/* One line for every GPU of every run and moment. */
void report_series_csv(const struct report *r, struct buf *out);
/* The page, whole: it asks no network for anything. */
void report_html(const struct report *r, struct buf *out);

#endif
