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

/* One running attempt's meter. Zeroed memory, then meter_init. */
struct meter {
	uint64_t peak_mib;
	double smact_ms, smact_seen_ms;	/* integral of SMACT, and the time it covers */
	double alone_ms, energy_j, ran_ms;
	int64_t last_ms;		/* mono; 0: no sample yet */
};

/* What one sample says of one attempt on all its GPUs. */
struct meter_sample {
	int64_t mono_ms;
	uint64_t mem_mib;	/* largest on one GPU; counts when mem_known */
	bool mem_known;
	double smact;		/* mean over its GPUs; NaN: not known */
	double energy_j;	/* its share of the energy since the last sample; NaN: not known */
	bool alone;
};

void meter_add(struct meter *m, const struct meter_sample *s);
/* `warm_after_ms`: how long it must have run for its peak to count. */
struct measured meter_read(const struct meter *m, int64_t warm_after_ms);

/* Sums over tasks. */
struct account {
	unsigned n, by_state[TASK_STATE_COUNT], attempts, ooms;
	int64_t first_submit_ms, last_end_ms;
	double wait_s, held_s, run_s, lost_s, jct_s;
	double gpu_s, energy_j;
	double *jct_list;	/* for percentiles; n of them */
	size_t cap;
};

void account_add(struct account *a, const struct task *t, int64_t now_ms);
void account_clear(struct account *a);
/* trace_total_s avg_wait_s avg_exec_s avg_jct_s p95_jct_s tasks by_state oom attempts gpu_hours energy_j */
json_t *account_to_json(const struct account *a);

#endif
