/* SPDX-License-Identifier: MIT
 *
 * The simulator: the core of the daemon (core/core.h), under a clock of its own, on devices and tasks made of arithmetic.
 *
 * What decides is the core alone, with the settings that a daemon would have. The simulator does what the rest of a daemon
 * does: it submits the trace, hands over readings, starts what was placed, and reports exits. Time jumps from event to event:
 *	- a task comes, its memory grows, it ends;
 *	- the core said that something is due (core_turn);
 *	- a GPU is looked at, though nothing moved there, because what is known of it ripens: its window settles, a task gets warm,
 *	  the memory of one that ended is seen to be free, the mean of its load passes a limit. A daemon looks every second, so
 *	  such looks are at whole seconds.
 * With `sampled`, all GPUs are looked at every second as well. Placements are the same (a test compares them).
 */
#ifndef RAD_SIM_SIM_H
#define RAD_SIM_SIM_H

#include "account/account.h"
#include "core/core.h"
#include "device/simdev.h"
#include "sim/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of the loads of a workload before it first ran. Name, word, meaning. */
#define SIM_LOADS(X) \
	X(SIM_LOADS_LEARNT, "learnt")	/* nothing, so it is learnt from what ran before in the trace */ \
	X(SIM_LOADS_GUESSED, "guessed")	/* as a capture tells them: true ones with its errors */ \
	X(SIM_LOADS_KNOWN, "known")	/* all, and times too, as if it ran once before, alone on each model of device */

enum sim_loads {
#define X(name, word) name,
	SIM_LOADS(X)
#undef X
	SIM_LOADS_COUNT
};

struct sim_options {
	struct core_config core;	/* `estimator` and `readings_stand` are set by sim_run */
	const char *estimator;	/* oracle (the true memory, as if declared), none, or a column of the workloads */
	const struct device_model *devices;
	size_t n_devices;
	const struct sim_workloads *workloads;
	const struct sim_trace *trace;
	/* Other than 0: the time that each task takes alone varies by up to 2 % around the stated one, as that of repeated runs
	 * does; equal seeds vary alike. */
	uint64_t seed;
	enum share_mode share;	/* what every task asks for: SHARE_AUTO, or SHARE_MIG */
	bool without_mps;	/* MPS servers cannot be had */
	enum sim_loads loads;	/* other than learnt: needs the ledger */
	bool progress_lines;	/* tasks print how far they are: once they compute, and have run for 20 s */
	bool sampled;
	/* Told now and then how far it is; NULL: nobody. */
	void (*progress)(void *ctx, size_t ended, size_t all);
	/* Told of every reading of a GPU that may have changed, for pictures; its index is the place in `devices`. NULL: nobody. */
	void (*reading)(void *ctx, int64_t t_ms, const struct gpu_reading *r);
	void *ctx;
};

/* Times are ms of the trace's own clock. */
struct sim_attempt {
	int64_t start_ms, end_ms;
	uint32_t *gpus;		/* n_gpus indices, owned */
	unsigned n_gpus;
	enum share_mode mode;
	uint64_t claim_mib;
	enum verdict verdict;
	struct measured seen;
};

/* One task of the trace, at its place in the trace. */
struct sim_task {
	uint32_t workload;
	bool estimated;		/* else the claim of its first attempt is what is kept free for tasks of which nothing is known */
	enum task_state state;
	int64_t submit_ms, start_ms, end_ms;
	struct task_times times;
	struct sim_attempt *attempts;	/* owned */
	unsigned n_attempts;
};

struct sim_result {
	struct sim_task *tasks;
	size_t n;
	struct account account;
	double energy_j;	/* of all devices, from the first submission to the last end */
	double mean_smact;	/* the same time, mean over devices */
	double lower_bound_s;	/* no placement can be quicker (sim/bound.h) */
	size_t slots;		/* times a task made place at the end of its time slot */
	double undone_s;	/* work that company kept tasks from doing before their own clocks ended them, in seconds alone */
	size_t neighbours_lost;	/* attempts that another task's fault ended */
	size_t events;		/* how often the clock stopped */
};

/* Returns 0; or -1 when no device fits a task, a column is missing, or a task never got a GPU. */
int sim_run(const struct sim_options *o, struct sim_result *out, struct error *err);
void sim_result_clear(struct sim_result *r);
/* The object of `rad simulate --json`. */
json_t *sim_result_json(const struct sim_options *o, const struct sim_result *r);

#endif
