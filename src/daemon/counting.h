/* SPDX-License-Identifier: MIT
 *
 * What happened since this radd was started, as sums: for those who watch it over time (rad exporter). The accounts are in the
 * store; these are forgotten with the process, as counters of Prometheus may be.
 */
#ifndef RAD_DAEMON_COUNTING_H
#define RAD_DAEMON_COUNTING_H

#include "task/task.h"

#include <jansson.h>

#define COUNTING_WAITS 8

/* Zeroed memory is a beginning. */
struct counting {
	uint64_t submitted, started;		/* tasks; attempts */
	uint64_t states[TASK_STATE_COUNT];	/* tasks that ended */
	uint64_t verdicts[VERDICT_COUNT];	/* attempts that ended */
	uint64_t waits[COUNTING_WAITS + 1];	/* first attempts, by how long the task had waited for it; the last: longer */
	double wait_s;				/* in sum */
};

/* An event that was applied to the task. */
void counting_note(struct counting *c, const struct event *ev, const struct task *t);
/* {"submitted","started","ended":{STATE: n},"verdicts":{verdict: n},"waits":[{"le_s","n"}],"wait_s"}; n of a wait: so long or
 * shorter; le_s null: all. */
json_t *counting_json(const struct counting *c);

#endif
