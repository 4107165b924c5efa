/* SPDX-License-Identifier: MIT
 *
 * Traces for clusters, like those of a real one: Microsoft's Philly (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU
 * Clusters for DNN Training Workloads", USENIX ATC 2019). Made by dice from statistics of its published log, which stand in
 * the .c with what else is assumed; the log itself is not part of this project. Equal seeds give equal traces, on every
 * machine: all arithmetic is in whole numbers.
 */
#ifndef RAD_SIM_PHILLY_H
#define RAD_SIM_PHILLY_H

#include "sim/trace.h"

struct philly_options {
	size_t n;		/* jobs */
	int64_t interval_ms;	/* mean time between two, at most 10^9 */
	int64_t longest_s;	/* jobs are cut to so long */
	uint64_t seed;
};

/* Each task gets GPUs, a time, a declaration and a time limit of its own, so `w` gets variants. */
int philly_trace(const struct philly_options *o, struct sim_workloads *w, struct sim_trace *out, struct error *err);

#endif
