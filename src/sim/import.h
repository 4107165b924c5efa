/* SPDX-License-Identifier: MIT
 *
 * Job logs of real clusters as traces: read, described, cut to a window, thinned to what one server would get, and mapped to
 * workloads that resemble the jobs. Two forms are read: Microsoft's Philly `cluster_job_log` (JSON), and CSV job lists.
 */
#ifndef RAD_SIM_IMPORT_H
#define RAD_SIM_IMPORT_H

#include "base/error.h"
#include "sim/trace.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_job {
	int64_t submit_ms;	/* from the first of the log */
	int64_t ran_ms;		/* over its attempts */
	unsigned gpus;
};

/* In the order of submission. Jobs that never ran on a GPU are left out and counted. */
struct import_log {
	struct import_job *jobs;
	size_t n, cap, left_out;
};

/* By content: a file that begins with '[' is Philly's JSON, any other CSV with columns submit, duration_s, gpus (numbers of
 * seconds, or dates such as 2017-10-09 07:02:38, UTC); `map` as for workloads: "submit=Submit,duration_s=Elapsed". */
int import_read(struct import_log *log, const char *path, const char *map, struct error *err);
void import_clear(struct import_log *log);

/* {"schema":1,"jobs","left_out","span_s","jobs_per_hour","gpus":{"1":..},"ran_s":{"p10","p50","p90","p99","mean"},
 * "gpu_hours"} */
json_t *import_statistics(const struct import_log *log);

struct import_window {
	int64_t start_ms, length_ms;	/* start below 0: the window of that length with the most jobs */
	size_t tasks;			/* keep so many, evenly over the window's jobs; 0: all */
	unsigned gpus;			/* of the server: jobs that want more are left out; 0: none are */
	uint64_t seed;
};

/* Each job becomes one of the three workloads with as many GPUs whose time alone is nearest to the job's in proportion (dice
 * choose); a job of more GPUs than any workload takes the largest. */
int import_trace(const struct import_log *log, const struct import_window *o, const struct sim_workloads *w,
		 struct sim_trace *out, struct error *err);

#endif
