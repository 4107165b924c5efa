/* SPDX-License-Identifier: MIT
 *
 * What a task is as a run of MLflow: names, statuses, parameters, tags, and what its GPUs showed as metrics. Pure.
 *
 * Names of metrics are MLflow's own where it has one (system/gpu_0_memory_usage_megabytes and the like, whose numbers are GPUs
 * as NVML counts them, and whose megabytes are millions of bytes), else radT's ("system/DCGMI - SM Active"), which knows one
 * GPU a run: of several it is their mean, of bytes their sum.
 */
#ifndef RAD_CLI_TRACK_RUN_H
#define RAD_CLI_TRACK_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define TRACK_STEP_MS ((int64_t)10000)	/* between two points, as MLflow samples */
#define TRACK_OLD_STEP_MS ((int64_t)60000)	/* of what radd has joined to minutes since */

/* RUNNING, SCHEDULED, FINISHED, FAILED or KILLED. */
const char *track_run_status(const json_t *task);
bool track_run_is_over(const json_t *task);

/* What tells a task from every other, on any machine and after its number came round again. Free it. */
char *track_run_key(const json_t *task, const char *host);

/* The body of runs/create; `commit` may be NULL. */
json_t *track_run_create(const json_t *task, const char *host, const char *experiment, const char *commit);
/* The list of parameters: what was asked for, and the command's own arguments as radT logs them. */
json_t *track_run_params(const json_t *task);
/* The lists of what is known when it is over: sums as metrics, how it ended as tags. */
json_t *track_run_sums(const json_t *task);
json_t *track_run_tags(const json_t *task);

/* A span of wall time, the end left out. */
struct track_span { int64_t from_ms, to_ms; };
/* From its first start to the end of its last attempt; now_ms while one runs. */
struct track_span track_run_span(const json_t *task, int64_t now_ms);

/* Adds to `points` (a list) what the GPUs that the task had showed in the slots of step_ms that begin within `span`, in order
 * of time, so that a cut between two slots (track_run_cut) leaves each whole. `series` is radd's answer. */
void track_run_points(const json_t *task, const json_t *series, struct track_span span, int64_t step_ms, int64_t now_ms,
		      json_t *points);

/* How many of the points from `at` on make a batch of at most `most`, with no slot cut in two unless it alone is larger. */
size_t track_run_cut(const json_t *points, size_t at, size_t most);
/* From when on points are missing in a run whose last one has that time. */
int64_t track_run_after(int64_t point_ms);

#endif
