/* SPDX-License-Identifier: MIT
 *
 * What captures are off by about the load and time of a task, as a simulation draws it (src/sim/known.h). Frozen: a change is a
 * new fit.
 *
 * Source: 254 tasks on H200 and 139 on H100, each predicted by a load model that was fitted to H200 without its family
 * (doc/results/load/errors.md, bench/hardware/score_guesses.py). Standard deviations. _KIND: common to all tasks of a family.
 */
#ifndef RAD_MODELS_GUESSES_H
#define RAD_MODELS_GUESSES_H

/* Logarithms: how long the GPU is busy for a step, and what the host takes for it. */
#define GUESSES_BUSY_KIND 0.10
#define GUESSES_BUSY 0.15
#define GUESSES_HOST_KIND 0.14
#define GUESSES_HOST 0.17
/* A logit: the part of the SMs that is active while the GPU is busy. */
#define GUESSES_ACTIVE_KIND 0.17
#define GUESSES_ACTIVE 0.45
/* A logarithm, common to all that a machine runs: how much longer its host takes than those of the fit; and its mean. */
#define GUESSES_PACE_SD 0.18
#define GUESSES_PACE 0.15

/* What radd takes such a guess to be off by on a GPU other than the fit's (models/activity.h). */
#define GUESSES_GRACT_SD 0.135
#define GUESSES_SMACT_SD 0.12

#endif
