/* SPDX-License-Identifier: MIT
 *
 * A lower bound on the time that a trace takes, whatever places its tasks. Nothing can beat the largest of these:
 *
 *	critical	max over tasks j of	submit_j + solo_j
 *			A task alone runs at full speed, and never faster.
 *	demand		max over times a of	a + sum over tasks j submitted at a or later of (gpus_j solo_j d_j) / capacity
 *			What comes at a or later can only be done after a, and of each resource no GPU gives more than it has.
 *
 * d_j and the capacity of all GPUs together are, for each resource of which a task takes a part:
 *	time		d = 1, GPUs			only where a GPU has one task at a time (exclusive, MIG instances)
 *	GPU time	d = gract_j, GPUs		time slicing: one task at a moment
 *	SM activity	d = smact_j, GPUs		all modes; a MIG instance is that part of a GPU
 *	memory		d = need_j, their MiB		the least with which it works, from the end of its ramp on
 *
 * It is optimistic: it packs fractions of tasks, knows no loss to switching (8 % under streams, 4 % under MPS) and lets any
 * tasks share. So no schedule may reach it, and none can pass it.
 */
#ifndef RAD_SIM_BOUND_H
#define RAD_SIM_BOUND_H

#include "device/simdev.h"
#include "sim/trace.h"
#include "task/spec.h"

/* Seconds from the first submission. `mode`: how GPUs are shared; SHARE_NEVER: not. `solo_ms`: of each task of the trace;
 * NULL: those of the workloads. */
double bound_total_s(const struct sim_trace *t, const struct sim_workloads *w, const struct device_model *devices, size_t n,
		     enum share_mode mode, const int64_t *solo_ms);

#endif
