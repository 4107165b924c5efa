/* SPDX-License-Identifier: MIT
 *
 * Why an attempt ended, and what happens next. Pure.
 *
 * The paper looks for a keyword in the output (section 6.2.3). A keyword lies: tasks print "out of memory" and exit 0,
 * or catch an out-of-memory, shrink their batch, and fail an hour later of something else. So three witnesses are heard:
 * the exit code, the *last* error in the output, and what the device showed.
 */
#ifndef RAD_RECOVER_RECOVER_H
#define RAD_RECOVER_RECOVER_H

#include "recover/scan.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known when an attempt has ended. */
struct exit_report {
	bool have_record;		/* false: no exit record: nobody saw it end */
	bool never_began;		/* the shim could not start the program (evidence says why) */
	int exit_code, signal;		/* signal 0: exited by itself */
	struct scan_result output;	/* last error in the output */
	bool cgroup_oom;		/* the kernel's out-of-memory killer struck in its cgroup */
	enum stop_reason stopping;	/* we were ending it */
	int64_t ran_ms;

	/* Device evidence, over its GPUs the one that had least. */
	bool device_known;
	uint64_t device_total_mib, device_free_min_mib;	/* lowest free seen in its last minute */
	uint64_t peak_mib;		/* the task's own, largest on one GPU; 0: not known */
	uint64_t claim_mib;
	bool fenced, had_neighbours, mps;
	bool neighbour_faulted;		/* another client of the same MPS server died within 5 s before or after */
	bool mps_faulted;		/* the server reported a fault, or the text says so (error 805-810) */
};

struct verdict_result {
	enum verdict verdict;
	char evidence[300];	/* "exit 1; last error 'CUDA out of memory. Tried to allocate 2.00 GiB' (PyTorch); GPU had 0.4G of 39.4G free" */
};

void recover_verdict(const struct exit_report *r, struct verdict_result *out);

enum recover_mode { RECOVER_EXCLUSIVE, RECOVER_GROW, RECOVER_OFF };
const char *recover_mode_name(enum recover_mode m);
int recover_mode_parse(const char *word, enum recover_mode *m, struct error *err);

struct recover_policy {
	enum recover_mode mode;		/* default exclusive (the dissertation's) */
	unsigned max_attempts;		/* 3 */
	int64_t keep_max_ms;		/* 30 min: how long the head of the recovery queue keeps GPUs free; then it grows */
	uint64_t grow_step_mib;		/* 5120 (section 7.2) */
};

struct recover_policy recover_policy_default(void);

/* What comes after: next queue, claim, exclusivity, or the terminal state. Pure; result goes into EV_ENDED. */
struct recover_next {
	enum task_next next;
	enum task_state state;
	uint64_t claim_mib;	/* 0: unchanged */
	bool exclusive;
};

void recover_decide(const struct recover_policy *p, const struct task *t, const struct exit_report *r, enum verdict v,
		    uint64_t empty_gpu_mib, struct recover_next *out);

#endif
