/* SPDX-License-Identifier: MIT
 *
 * What is known of the tasks of a simulation before they run, and what is not: the time that each really takes.
 *
 * A capture (--loads guessed) is wrong in the way of the model that reads it (estimate/activity.h): about how long the GPU is
 * busy for a step, how long the host takes for it, and which part of the SMs is active meanwhile. So where the GPU is always
 * busy its GRACT is right and its time off; where the host decides, GRACT, SMACT and time are off together; tasks of a family
 * share a part of that; and all tasks of a machine share the pace of its host, which the core learns: models/guesses.h.
 */
#ifndef RAD_SIM_KNOWN_H
#define RAD_SIM_KNOWN_H

#include "sim/sim.h"

/* What the task at that place of the trace takes alone: as stated, up to 2 % more or less where there is a seed. */
int64_t known_solo_ms(const struct sim_options *o, size_t place);
/* Sum of three even throws: mean 0, deviation 1, within 3. Equal for equal seeds and numbers. */
double known_throw(uint64_t seed, uint64_t number);
/* That estimator, as a core is to have it: with guessed loads it is slow, as the reading of a capture is, and answers later. */
struct estimator known_estimator(const struct sim_options *o, const struct estimator *e);
/* What it answers of a task of that workload: what was declared, and the load as its captures tell it, the same for all its
 * tasks. Returns whether it spoke of memory. */
bool known_answer(const struct sim_options *o, const struct spec *spec, uint32_t workload, struct estimate_result *out);
/* SIM_LOADS_KNOWN: tells the core of one run alone of each workload on each model among these devices. */
void known_remember(const struct sim_options *o, const struct device_model *devices, size_t n, struct core *core);

#endif
