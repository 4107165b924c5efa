/* SPDX-License-Identifier: MIT
 *
 * Traces made by dice. Equal seeds give equal traces, on every machine: all arithmetic is in whole numbers.
 */
#ifndef RAD_SIM_GENERATE_H
#define RAD_SIM_GENERATE_H

#include "sim/trace.h"

struct generate_options {
	size_t n;			/* tasks */
	int64_t interval_ms;		/* mean time between two, at most 10^9; they come independently of each other (Poisson) */
	unsigned share[SIM_CLASSES];	/* of light, medium, heavy tasks, in any unit */
	uint64_t seed;
};

/* Of every class exactly its share (largest remainders), in a random order; within a class every workload alike. */
int generate_trace(const struct generate_options *o, const struct sim_workloads *w, struct sim_trace *out, struct error *err);

/* "light=65,medium=27,heavy=8"; what is not named is 0. */
int generate_parse_mix(const char *text, unsigned share[SIM_CLASSES], struct error *err);

#endif
