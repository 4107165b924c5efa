/* SPDX-License-Identifier: MIT
 *
 * What a simulation runs: workloads (what a task is) and a trace (which comes when), both CSV with columns by name.
 *
 *	workloads	workload,gpus,solo_s,mem_mib,gract,smact are needed; others are read if there: horus_mib, faketensor_mib,
 *			gpumemnet_mib; watts, what the GPU draws with the task alone; start_s, the part of solo_s at its
 *			beginning in which it computes nothing yet; clock_s, how long after that a clock of its own ends it, done or
 *			not (--max-hours), as its capture tells; declared_mib, what its user says it needs; need_mib, the
 *			least with which it still works (a caching allocator frees what it keeps before it gives up; mem_mib,
 *			what it takes where nothing limits it, if not given); kernels_s, how many kernels it runs in a
 *			second; cpus, which it asks for; and class (light, medium, heavy). Memory, loads, kernels and watts
 *			are per GPU, of the task alone and computing; solo_s is its time alone. Further columns are ignored.
 *	trace		submit_s,workload are needed; in the order of submit_s. Where they are there and not empty, gpus, solo_s and
 *			declared_mib count for that task instead of the workload's; limit_s is the time limit that its user gave
 *			(of jobs of clusters; on one server no task has one). Further columns are ignored.
 *
 * A workload may lack figures (an empty field), as long as no trace uses it.
 */
#ifndef RAD_SIM_TRACE_H
#define RAD_SIM_TRACE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/idmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_CLASSES 3		/* light, medium, heavy: for made-up traces */
#define SIM_MAX_GPUS 4096	/* of one task, in a cluster */
#define SIM_ESTIMATORS 3	/* estimates_mib of a spec: Horus, FakeTensor, GPUMemNet */

struct sim_workload {
	char *name;		/* owned */
	unsigned gpus, cpus;
	int64_t solo_ms, start_ms, clock_ms;	/* start_ms: of solo_ms; clock_ms: 0: it has none */
	uint64_t mem_mib, need_mib, declared_mib;	/* need_mib: 0: all of mem_mib; declared_mib: 0: the truth */
	double gract, smact;	/* 0..1 */
	double watts, kernels;	/* of a GPU that it has alone; kernels in a second; 0: not given */
	uint64_t estimates_mib[SIM_ESTIMATORS];	/* 0: not given */
	int class;		/* place in sim_class_names, -1: none */
	const char *missing;	/* the column that is needed and empty; NULL: none */
	size_t line;
	uint32_t variant_of;	/* the place in the list, plus one, of that whose name it has; 0: it is no variant */
};

struct sim_workloads {
	char *path;
	struct sim_workload *list;
	size_t n, cap;
	bool has_estimates[SIM_ESTIMATORS];	/* the file has that column */
	struct idmap by_name, variants;
};

/* Where a path of workloads is wanted: the project's own (models/workloads.csv), which are in the program. */
#define SIM_CATALOGUE "catalogue"

/* `map`: columns that the file has under other names (sim/csv.h). */
int sim_workloads_read(struct sim_workloads *w, const char *path, const char *map, struct error *err);
void sim_workloads_clear(struct sim_workloads *w);
/* NULL: there is none. */
const struct sim_workload *sim_workload_find(const struct sim_workloads *w, const char *name);
/* As before, with an error that names the nearest one; one that lacks figures is an error too. */
const struct sim_workload *sim_workload_need(const struct sim_workloads *w, const char *name, struct error *err);

/* The words of the classes above, and the columns that bring the estimates. */
extern const char *const sim_class_names[SIM_CLASSES];
extern const char *const *const sim_estimator_columns;	/* SIM_ESTIMATORS of them */
/* Which of these an estimator of that name reads: its place, or -1: none. Returns -1 where the file has not that column. */
int sim_workloads_estimates(const struct sim_workloads *w, const char *estimator, int *place, struct error *err);

struct sim_arrival {
	int64_t submit_ms;
	uint32_t workload;	/* place in the list of workloads */
	uint32_t line;
	int64_t solo_ms, limit_ms;	/* 0: as the workload has it; it has no time limit */
};

struct sim_trace {
	char *path;
	struct sim_arrival *list;
	size_t n, cap;
};

/* Adds variants of workloads to `w` where tasks have GPUs or declarations of their own. */
int sim_trace_read(struct sim_trace *t, const char *path, struct sim_workloads *w, struct error *err);
/* The variant of that workload (a place in the list) with so many GPUs and so much declared, made where there is none yet;
 * 0: as the workload has it. Moves the list. */
uint32_t sim_workload_variant(struct sim_workloads *w, uint32_t of, unsigned gpus, uint64_t declared_mib);
/* As the CSV that sim_trace_read reads. */
void sim_trace_write(const struct sim_trace *t, const struct sim_workloads *w, struct buf *out);
void sim_trace_clear(struct sim_trace *t);

#endif
