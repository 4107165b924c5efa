/* SPDX-License-Identifier: MIT
 *
 * What the files report*.c share: the report as it is kept.
 */
#ifndef RAD_ACCOUNT_REPORT_INTERNAL_H
#define RAD_ACCOUNT_REPORT_INTERNAL_H

#include "account/report.h"
#include "base/idmap.h"

#include <stdbool.h>
#include <stddef.h>

struct report_gpu {
	char *uuid, *name;
	char number[GPU_NUMBER_LEN];	/* "1:0"; "" of an instance that is not there any more, which its GPU's index stands for */
	uint32_t index;
	uint64_t mem_total_mib;
	struct series series;
	bool read;			/* `last` stands since last_ms */
	int64_t last_ms;
	double last[SERIES_VALUES];
};

/* Seconds from the run's origin; NaN: not known, or not yet. */
struct report_attempt {
	double start_s, end_s;
	unsigned *gpus, n_gpus;		/* numbers of report_gpu; owned */
	char *mode, *verdict, *evidence;
	double claim_mib, peak_mib, mean_smact, energy_j;
	double gpu_s, *share_s;		/* as told (acct); NaN and NULL: not. share_s: of each of its GPUs; owned */
};

struct report_task {
	char *id, *name, *user, *state, *estimator;
	double submit_s, wait_s, held_s, exec_s, lost_s, jct_s, claim_mib;
	struct report_attempt *attempts;
	size_t n_attempts;
};


#define REPORT_TOTALS(X) \
	X(trace_total_s) X(lower_bound_s) X(avg_wait_s) X(avg_exec_s) X(avg_jct_s) X(p95_jct_s) X(oom) X(neighbours_lost) \
	X(energy_j) X(mean_smact)

enum report_total {
#define X(name) REPORT_##name,
	REPORT_TOTALS(X)
#undef X
	REPORT_TOTAL_COUNT
};
extern const char *const report_total_names[REPORT_TOTAL_COUNT];

struct report_run {
	char *name;
	struct buf note;
	int64_t origin_ms, made_ms;	/* made: when it was so, which is where running attempts have come to */
	struct report_gpu *gpus;
	size_t n_gpus, cap_gpus;
	struct idmap by_uuid;		/* hash: place in the list, from 1 */
	struct report_process { char *name; struct series series; } *processes;	/* that were watched */
	size_t n_processes, cap_processes;
	struct report_task *tasks;
	size_t n_tasks, cap_tasks;
	double totals[REPORT_TOTAL_COUNT];	/* as they were told; NaN: not */
};

struct report {
	char *title;
	int64_t made_ms;
	struct report_run *runs[REPORT_MAX_RUNS];
	size_t n;
};

/* As told; where nothing was told, from the tasks, as far as they say. */
double report_total(const struct report_run *run, enum report_total which);

/* Sums over the tasks of one user of a run. */
struct report_user {
	const char *name;
	unsigned tasks, completed, ooms;
	double wait_s, exec_s, jct_s, energy_j, gpu_s, share_s;
	unsigned began;	/* tasks that began and ended: the times are sums of these */
};
/* In order of name. Free it. */
struct report_user *report_users(const struct report_run *run, size_t *n);

/* GPU time of each task of the run: of all its GPUs, and as shares of them (account/shares.h). As it was told, else from the
 * times of the attempts in the run. Free it. */
struct report_gpu_time { double gpu_s, share_s; };
const char *report_gpu_number(const struct report_gpu *g, char text[GPU_NUMBER_LEN]);
struct report_gpu_time *report_gpu_times(const struct report_run *run);
/* Their sum. */
struct report_gpu_time report_gpu_time(const struct report_run *run);

/* The largest on one GPU over its attempts, their energy, and SMACT of the last; NaN: not known. */
struct report_took { double peak_mib, energy_j, mean_smact; unsigned ooms; };
struct report_took report_took(const struct report_task *t);

/* What the page takes in: at most so many tasks of a run, the last ones, and series of so many of its GPUs. */
json_t *report_json_cut(const struct report *r, size_t max_tasks, size_t max_gpus);

#endif
