/* SPDX-License-Identifier: MIT
 *
 * What is known of the tasks of a simulation before they run, and what is not: the time that each really takes.
 */
#ifndef RAD_SIM_KNOWN_H
#define RAD_SIM_KNOWN_H

#include "sim/sim.h"

/* What the task at that place of the trace takes alone: as stated, up to 2 % more or less where there is a seed. */
int64_t known_solo_ms(const struct sim_options *o, size_t place);
/* Sum of three even throws: mean 0, deviation 1, within 3. Equal for equal seeds and numbers. */
double known_throw(uint64_t seed, uint64_t number);
/* The load of a workload as its captures tell it: the same for all its tasks. */
struct load_belief known_guess(const struct sim_options *o, uint32_t workload);
/* SIM_LOADS_KNOWN: tells the core of one run alone of each workload on each model among these devices. */
void known_remember(const struct sim_options *o, const struct device_model *devices, size_t n, struct core *core);

#endif
