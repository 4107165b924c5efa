/* SPDX-License-Identifier: MIT
 *
 * How fast tasks run when they share one GPU. Pure; used by placement, by simulated devices and by the simulator alike.
 *
 * A speed is relative to running alone: 1 is undisturbed. `doc/share.md` derives both models and compares them with the
 * measured mixes.
 *	streams: max-min fair sharing of GPU time. Demand of a task is its GRACT alone, capacity 0.92 as soon as two share
 *		 (8 % go to switching); a task's speed is what it is granted over what it demands.
 *	mps:	 tasks run side by side. See share.c.
 */
#ifndef RAD_SHARE_SHARE_H
#define RAD_SHARE_SHARE_H

#include "task/spec.h"

#include <stddef.h>

/* A task's load on that GPU when alone; fractions 0..1. NaN: not known (taken as SHARE_UNKNOWN_LOAD). */
struct share_task { double gract, smact, dram; };
#define SHARE_UNKNOWN_LOAD 0.5

/* Writes n speeds in (0, 1]. For SHARE_NEVER and SHARE_MIG, and for n == 1, all are 1. */
void share_speeds(const struct share_task *tasks, size_t n, enum share_mode mode, double *speed);

#endif
