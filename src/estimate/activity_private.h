/* SPDX-License-Identifier: MIT
 *
 * Between activity.c, which holds the model of a step, those who make its kernels up (activity_summary.c), and what is learnt
 * of the host (hostpace.c). Only for these.
 */
#ifndef RAD_ESTIMATE_ACTIVITY_PRIVATE_H
#define RAD_ESTIMATE_ACTIVITY_PRIVATE_H

#include "estimate/activity.h"
#include "models/gpus.h"

/* Sums over the kernels of a step, in seconds; zeroed in the beginning. */
struct activity_sums { double busy, active, dram, work, flops, kernels, recurrent; };

/* The row of that GPU; NULL with an error that says what is not known (`name` NULL: none was named). */
const struct gpus_row *activity_gpu(const char *name, struct error *err);

/* Adds alike kernels: their times on that GPU. */
void activity_add(struct activity_sums *s, const struct capture_kernel *entry, const struct gpus_row *g);

/* From sums, the host's part and that of data loaders to times and load, without spreads. 0, or -1 with *out zeroed: no step
 * has such figures. */
int activity_conclude(const struct activity_sums *s, const struct capture_host *h, const struct loading *loading,
		      const struct gpus_row *g, struct activity *out, struct error *err);

/* Whether the model was fitted to that GPU. */
bool activity_fitted(const struct gpus_row *g);

#endif
