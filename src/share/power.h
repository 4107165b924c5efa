/* SPDX-License-Identifier: MIT
 *
 * What a GPU draws while tasks share it, and whose part that is. Pure; used by simulated devices, by the simulator and by the
 * account of a task's energy. models/power.h has the parameters and where they come from.
 *
 *	watts = occupied + sum over the tasks of speed * (its watts alone - occupied),	at most the board's limit
 *
 * `occupied` is what the GPU draws as soon as a process is on it, which keeps its clocks up. A task at half its speed launches
 * half its kernels in a second, and each of them takes the energy that it takes alone.
 */
#ifndef RAD_SHARE_POWER_H
#define RAD_SHARE_POWER_H

#include "share/share.h"

/* Watts. `idle_w`: no process on it; `peak_w`: at an SMACT of 1; `limit_w`: the board is held to this (nvidia-smi calls it the
 * power limit), 0: only to its peak. */
struct power_board { double idle_w, peak_w, limit_w; };

/* With those tasks on it at those speeds (share_speeds). `alone`: what it draws with each of them alone where that was
 * measured, 0 or NaN: from its SMACT, of which NaN counts as in share_speeds; NULL: none was measured. */
double power_watts(const struct power_board *b, const struct share_task *tasks, const double *speed, size_t n,
		   const double *alone);

/* The part of each in what is drawn beyond idle; they add up to 1. Neither the board nor its limit matters. */
void power_parts(const struct share_task *tasks, const double *speed, size_t n, double *part);

#endif
