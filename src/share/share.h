/* SPDX-License-Identifier: MIT
 *
 * How fast tasks run when they share one GPU. Pure; used by placement, by simulated devices and by the simulator alike.
 *
 * A speed is relative to running alone: 1 is undisturbed. Both models are weighted max-min fairness, over two resources;
 * `doc/share.md` derives them and compares them with what was measured.
 *	streams: GPU time. Demand is the task's GRACT alone, all tasks weigh the same, capacity 0.92 as soon as two share
 *		 (8 % go to switching).
 *	mps:	 a task's kernels take 1 / (1 - rho / C) as long beside others that keep a fraction rho of SM activity; its host
 *		 works on meanwhile. A light task of many small kernels beside one that fills the GPU can be slower than
 *		 under streams. Where the kernels of all are known, each launch waits for a part of a kernel of every other.
 *		 Where far more tasks are than a GPU can hold, all kernels take longer.
 */
#ifndef RAD_SHARE_SHARE_H
#define RAD_SHARE_SHARE_H

#include "task/load.h"
#include "task/spec.h"

#include <math.h>
#include <stddef.h>

#define SHARE_UNKNOWN_LOAD 0.5	/* what a load that is not known is taken for */

/* The load with `unknown` in the place of each figure that is NaN; or with the other figure where that says more: SMs are busy
 * for no longer than the GPU is. */
static inline struct share_task share_filled(struct share_task l, double unknown)
{
	double gract = isnan(l.gract) ? (l.smact > unknown ? l.smact : unknown) : l.gract;
	double smact = isnan(l.smact) ? (l.gract < unknown ? l.gract : unknown) : l.smact;
	return (struct share_task){ gract, smact, l.kernels };
}

/* Writes n speeds in (0, 1]. For SHARE_NEVER and SHARE_MIG, and for n == 1, all are 1. SHARE_AUTO counts as SHARE_STREAMS,
 * which every GPU can do. The order of the tasks does not matter. Adding a task never makes another faster, where loads alone
 * are known; with kernels it may: who holds up another leaves more to a third. */
void share_speeds(const struct share_task *tasks, size_t n, enum share_mode mode, double *speed);

/* The work that is done while these tasks run at those speeds, as activity; each at most 1. */
struct share_activity { double gract, smact; };
struct share_activity share_activity(const struct share_task *tasks, size_t n, const double *speed);
/* What the GPU shows meanwhile: where it is crowded, its SMs are busy for longer than the work tells. */
struct share_activity share_shown(const struct share_task *tasks, size_t n, enum share_mode mode, const double *speed);

/* A task alone on a MIG instance with that part of the GPU's SMs (0..1), from what it does alone on the whole GPU: its kernels,
 * which fill SMACT of all SMs on average, then have fewer. It keeps its speed as long as they are enough. */
double share_part_speed(const struct share_task *t, double sm_part);
/* Its loads there, of the instance's time and SMs. */
struct share_task share_part_load(const struct share_task *t, double sm_part);

#endif
