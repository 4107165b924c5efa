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
	bool have_record;		/* there is an exit record; false: nobody saw it end */
	int64_t ended_ms;		/* wall, by that record; 0: not known */
	bool again;			/* with never_began, for the launcher: for want of something that may come back */
	bool never_began;		/* the program was not started; output.line says why not. With a record: the shim could not do
					 * what the task asks for (program, folder, log path); without: no shim could be started */
	bool unseen;			/* we did not start it, so that how it ended cannot be known */
	int exit_code, signal;		/* signal 0: exited by itself */
	struct scan_result output;	/* last error in the output */
	bool cgroup_oom;		/* the kernel's out-of-memory killer struck in its cgroup */
	bool machine_oom;		/* or somewhere on the machine in its last seconds */
	uint64_t host_peak_mib;		/* what it was seen to take of the machine's memory; 0: not known */
	uint64_t max_rss_kib;		/* the largest resident size of one of its processes; 0: not known */
	uint64_t host_asked_mib;	/* what it asked for of that memory; 0: nothing */
	uint64_t host_mem_mib;		/* what all tasks together get of it; 0: not known */
	enum stop_reason stopping;	/* why we were ending it, if we were */
	bool slot_asked;		/* its time slot was over, and it was asked to make place */
	int requeue_code;		/* the exit code that says it did so; 0: it has no slot */

	/* What the device showed, of the GPU that had least free. */
	bool device_known;
	uint64_t device_total_mib, device_free_min_mib;	/* lowest free seen in its last minute */
	uint64_t peak_mib;		/* the task's own, largest on one GPU; 0: not known */
	uint64_t claim_mib;		/* held for it; where it was fenced, what it could take */
	bool fenced, mps;
	bool no_gpu;			/* it asked for none: it cannot run out of its memory */
	bool had_neighbours;		/* other tasks, or foreign processes with memory, were on one of its GPUs */
	/* Another client of the same MPS server died within cohort_ms before or after. The server itself tells nothing: its log
	 * stayed empty through every fault that was tried on an H200 (doc/results/h200/faults.jsonl.gz). */
	bool neighbour_faulted;
	task_id neighbour;		/* that client's task; 0: not known */
	bool neighbour_is_others;	/* it is another user's */
};

struct verdict_result {
	enum verdict verdict;
	/* "exit 1; last error 'CUDA out of memory. Tried to allocate 2.00 GiB' (PyTorch); GPU had 0.4G of 39.4G free" */
	char evidence[300];
};

/* The first of these that holds:
 *  1. we were ending it: cancelled or timeout, however it left (a program that saves and exits 0 on TERM was still ended);
 *  2. it never began: failed when the task asks for what is not there, launch when it was our side;
 *  3. no record: lost; a process that was not started by us: ok, for nobody knows otherwise;
 *  4. exit 0: ok, whatever was printed; asked to make place, and the exit code that says "start me again": slot;
 *  5. the kernel's out-of-memory killer ended it (by SIGKILL, and it struck in its cgroup or on the machine): host_oom; the
 *     last error is a GPU out-of-memory and the output did not go on: oom;
 *  6. its MPS server or a client of it died with it, and it shows no error of its own, in words or by the code that says that
 *     there is no such command, and may have been a client: neighbour (launch, if it was the server's only client and could
 *     not reach it);
 *  7. that killer struck another process of its cgroup, or the last error is of host memory: host_oom;
 *  8. the device (or its fence) was full, and the last error is one that a full device causes (a library that could not make
 *     its handle, an error raised while an out-of-memory was handled): oom;
 *  9. failed. */
void recover_verdict(const struct exit_report *r, struct verdict_result *out);

/* Whether the verdict or its evidence would be another one if a neighbour had died at the same time. Not where an error of its
 * own explains its end. */
bool recover_heeds_neighbours(const struct exit_report *r);

/* Whether none of its processes can have been a client of an MPS server: no GPU memory of it was seen, each was smaller than a
 * process in which CUDA's driver library only looks for a GPU, and its output names no fault of CUDA or MPS. Such a task ends
 * no neighbour, and none ends it. */
bool recover_was_no_client(const struct exit_report *r);

/* How much of a GPU it held when it was refused more: the larger of what samples saw, which are a second apart, and what its
 * output tells, which few programs do. 0: not known. */
uint64_t recover_held_mib(const struct exit_report *r);

/* Whether it ended because it was asked to make place: no failure, whatever else died at that moment. */
bool recover_made_place(const struct exit_report *r);

/* name, word, meaning */
#define RECOVER_MODES(X) \
	X(RECOVER_EXCLUSIVE, "exclusive", "its GPUs to itself") \
	X(RECOVER_GROW, "grow", "more memory, beside others") \
	X(RECOVER_OFF, "off", "nothing")

enum recover_mode {
#define X(name, word, help) name,
	RECOVER_MODES(X)
#undef X
};

struct recover_policy {
	enum recover_mode mode;		/* default exclusive (the dissertation's) */
	unsigned max_attempts;		/* 4 */
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
	uint64_t host_mem_mib;	/* to ask for of the machine's memory; 0: unchanged */
	int64_t delay_s;	/* before a retry: it waits so long, then behind those that wait; 0: it is none */
};

/* `t` is the task before EV_ENDED is applied. `empty_gpu_mib`: what the largest GPU that it may use offers when empty; needed
 * after an out-of-memory only; 0: not known.
 *
 * After a GPU out-of-memory the next claim is, in both modes, what section 7.2 asks for: max(available to it, last claim) +
 * grow_step, where available = its own peak + the lowest free memory (if known). So when an exclusive attempt cannot get its
 * GPUs within keep_max, dropping `exclusive` makes it a growing one. Other cases:
 *	at its own fence, with device memory left: claim * 1.5, shared; claim + grow_step where CUDA itself did not fit
 *	at its fence again: claim * 4, at most half of an empty GPU, shared; exclusive where more is needed (decision 203)
 *	its output told what it asked for: at least (what it had + that) * 1.25 (decision 195)
 *	the last attempt: exclusive, since a claim that was wrong all along is not trusted with it
 *	a claim as large as an empty GPU: clamped to that, and exclusive, so without a fence
 * Out of host memory at the limit that it asked for itself, it asks for half as much again, at most all that tasks get: up to
 * max_attempts, and only where it may run again.
 *
 * Failed by itself, it is run again as often as its spec says (retries): after 10 s, 20 s, 40 s ..., at most 10 min. */
void recover_decide(const struct recover_policy *p, const struct task *t, const struct exit_report *r, enum verdict v,
		    uint64_t empty_gpu_mib, struct recover_next *out);

#endif
