/* SPDX-License-Identifier: MIT
 *
 * Accounts: what a running attempt used so far (meter), and sums over finished tasks (section 6.3.4 of the
 * dissertation: trace total time, waiting, execution and completion times). Pure.
 */
#ifndef RAD_ACCOUNT_ACCOUNT_H
#define RAD_ACCOUNT_ACCOUNT_H

#include "task/task.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One running attempt's meter. Zeroed memory is a new one. */
struct meter {
	uint64_t peak_mib;
	double alone_ms, work_ms, energy_j, ran_ms;
	struct meter_load { double sum_ms, seen_ms; } smact, smocc, dram, pcie_rx, pcie_tx;	/* integral; time covered */
	struct meter_load alone_gract, alone_smact, alone_dram, alone_watts;
	int64_t last_ms;		/* mono; 0: no sample yet */
};

/* What one sample says of one attempt on all its GPUs. */
struct meter_sample {
	int64_t mono_ms;
	uint64_t mem_mib;	/* largest on one GPU; counts when mem_known */
	bool mem_known;
	double smact;		/* mean over its GPUs; NaN: not known */
	double energy_j;	/* its share of the energy since the sample before, at least 0; NaN: not known */
	bool alone;
	double gract, dram, watts;	/* as smact */
	double smocc, pcie_rx_mib_s, pcie_tx_mib_s;
	double speed;		/* relative to running alone, by the model of sharing */
	bool suspended;		/* since the sample before its processes stood still: no time of its own, and nothing said of it */
	bool active;		/* a process of it was seen on one of them: its load alone counts from then on */
};

/* The first sample begins the time measured: of it only the memory counts, as of one no newer than the one before. */
void meter_add(struct meter *m, const struct meter_sample *s);
/* Goes on after a restart from what was known (the last EV_MEASURED) when it had run for ran_ms. The time nobody measured
 * is left out, not guessed. */
void meter_resume(struct meter *m, const struct measured *seen, int64_t ran_ms);
/* What a meter knows; whether its peak is believed (`warm`) is the caller's to say. */
struct measured meter_read(const struct meter *m);

/* Sums over tasks. Zeroed memory is an empty one; freed by account_clear. */
struct account {
	unsigned n, by_state[TASK_STATE_COUNT], attempts, ooms;	/* ooms: attempts that ran out of GPU memory */
	unsigned began;			/* tasks that had an attempt */
	int64_t first_submit_ms, last_end_ms;
	double wait_s, held_s, run_s, lost_s;
	double began_wait_s, began_jct_s;	/* of those that began */
	double gpu_s, energy_j;		/* gpu_s: every GPU of every attempt from placement to end */
	double gpu_share_s;		/* the same as shares (account/shares.h): added by who knows of all tasks; 0: nobody did */
	double *jct_list;	/* for percentiles; of those that began, as they came */
	size_t cap;
};

/* A task that has not ended counts with its times as of now_ms (wall). */
void account_add(struct account *a, const struct task *t, int64_t now_ms);
/* One that ended, as radd's `acct` tells it, with its shares: state submit_time end_time wait_s held_s run_s lost_s jct_s gpu_s
 * gpu_share_s attempts[].verdict attempts[].energy_j. */
void account_add_told(struct account *a, const json_t *task);
void account_clear(struct account *a);
/* The completion time that `fraction` (0..1) of the tasks that began do not exceed (nearest rank); NaN for none. */
double account_jct_percentile(const struct account *a, double fraction);
/* trace_total_s avg_wait_s avg_exec_s avg_jct_s p95_jct_s tasks by_state oom attempts held_s lost_s gpu_hours
 * gpu_share_hours energy_j began.
 * Averages are over the tasks that began, execution being the sum of a task's attempts: what was cancelled in the queue waited
 * for nothing, and completed nothing. Unknown is null. */
json_t *account_to_json(const struct account *a);

#endif
