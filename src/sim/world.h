/* SPDX-License-Identifier: MIT
 *
 * The physical side of a simulation: devices, and tasks that compute on them, take memory and run out of it. It decides
 * nothing: it is told who starts where, and says when something happens.
 *
 * A task may begin with a start: programs load and read their data, and the GPU, with their context on it, sees none of it.
 * A task runs at the slowest of the speeds that `share` gives it on its GPUs. Its memory grows as that of a training program
 * does: the CUDA context at once, then model and first activations half way through the ramp, and its peak at the end of it,
 * the first step with all buffers. The ramp takes a third of its work, at most 20 s, as that of `rad simtask`.
 *
 * Work and time are whole numbers (millionths of a millisecond of work, milliseconds), energy is milliwatts times
 * milliseconds: sums are exact, so a run does not depend on how often anybody looked, nor on the machine.
 */
#ifndef RAD_SIM_WORLD_H
#define RAD_SIM_WORLD_H

#include "device/reading.h"
#include "device/simdev.h"
#include "share/share.h"
#include "sim/heap.h"
#include "sim/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct world_task {
	task_id id;
	const struct sim_workload *of;
	uint32_t place;			/* its number in the world, reused after it left */
	enum share_mode mode;
	uint64_t mem_mib, fence_mib;	/* held now on each GPU; limit, 0: none */
	int64_t total, done, since_ms;	/* work in millionths of a millisecond; done at since_ms */
	int64_t start;			/* the part of it before the task computes */
	bool computes;
	int64_t rate;			/* millionths of full speed */
	int64_t start_ms, until_ms;	/* until_ms: when its own clock ends it; INT64_MAX: never, or not while it begins */
	unsigned step;			/* of its memory, that comes next */
	unsigned n_gpus;
	struct { uint32_t gpu; int64_t rate; } on[];
};

struct world_gpu {
	const struct device_model *model;
	char uuid[GPU_UUID_LEN];
	uint64_t used_mib;		/* by tasks */
	struct world_task **tasks;
	size_t n, cap;
	struct share_activity activity;
	int64_t watts_m;		/* milliwatts */
	int64_t since_ms, energy_uj;	/* counted up to since_ms */
	int64_t smact_sum;		/* millionths times milliseconds, to since_ms */
	int64_t used_ms;		/* a task was there, of the time to since_ms */
	bool used;			/* one is, from then on */
	int64_t changed_ms;		/* its set of tasks; INT64_MIN: never */
	int64_t left_ms;		/* when a task left it last, or its place there, before it began */
	int64_t drift_ms;		/* when its activity changed last without its set; INT64_MIN: never */
	bool touched;
};

struct world {
	int64_t now_ms;
	struct world_gpu *gpus;
	size_t n_gpus;
	struct world_task **tasks;	/* by place; NULL: free */
	size_t n_places, cap_places;
	uint32_t *free_places;
	size_t n_free, cap_free;
	struct heap heap;		/* next event of each task, by place */
	uint32_t *touched;		/* GPUs whose reading changed since world_read */
	size_t n_touched;
	struct share_task *loads;	/* scratch */
	double *speeds, *alone_w;
	size_t cap_scratch;
};

/* What a task met. */
enum world_event { WORLD_NOTHING, WORLD_DONE, WORLD_OUT_OF_MEMORY };

/* At time 0, with idle GPUs. `models` must outlive it. */
void world_create(struct world *w, const struct device_model *models, size_t n);
void world_destroy(struct world *w);

/* How a task begins. `solo_ms`: what it takes alone; `fence_mib`: the most it may hold on each GPU, 0: no limit. */
struct world_begin {
	task_id id;
	const struct sim_workload *of;
	int64_t solo_ms;
	enum share_mode mode;
	uint64_t fence_mib;
	const uint32_t *gpus;
	unsigned n_gpus;
};

/* Starts a task now. *met is WORLD_OUT_OF_MEMORY if there was no room for its first memory: then end it with world_end. */
struct world_task *world_start(struct world *w, const struct world_begin *b, enum world_event *met);
/* The part of its work, start included, that is done at now_ms; not past world_next. */
double world_fraction(const struct world_task *t, int64_t now_ms);
/* NULL: it does not run. */
struct world_task *world_find(const struct world *w, task_id id);
/* How much a task that ran out of memory asked for and did not get. */
uint64_t world_refused_mib(const struct world_task *t);
/* The work that is left after its start, in ms alone, rounded up: all of it while the task has not computed yet. */
int64_t world_left_ms(const struct world *w, struct world_task *t);
/* Takes the task off its GPUs and frees it. */
void world_end(struct world *w, struct world_task *t);

/* When the next thing happens, INT64_MAX: never. */
int64_t world_next(const struct world *w);
/* Time goes on to `now_ms`, not past world_next. */
void world_go(struct world *w, int64_t now_ms);
/* The next task to which something happens now, and what; NULL: nobody. One that its clock ends is DONE. DONE and OUT_OF_MEMORY
 * ask for world_end. */
struct world_task *world_happen(struct world *w, enum world_event *met);

/* Its reading is wanted, though nothing may have changed. */
void world_touch(struct world *w, uint32_t gpu);
/* Adds the readings of the touched GPUs, in the order in which they were touched; then none is. */
void world_read(struct world *w, struct snapshot *out);
/* The same of those among n GPUs from that one on alone, in their order; they stay in the list of the touched ones until
 * world_read or world_forget_touched, which has none touched any more. */
void world_read_some(struct world *w, uint32_t first, uint32_t n, struct snapshot *out);
void world_forget_touched(struct world *w);
/* Time in which tasks were on GPUs, of all GPUs together. */
int64_t world_used_ms(struct world *w);

/* The energy of all GPUs up to now, and their mean SMACT over that time; NaN: no time has passed. */
double world_energy_j(struct world *w);
double world_mean_smact(struct world *w);

#endif
