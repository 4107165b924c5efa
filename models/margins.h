/* SPDX-License-Identifier: MIT
 *
 * Margins of estimators: claim = comfort x (1 + margin). The meaning of one: of jobs capped at their claim, at most 2 in 100 run
 * out of memory (split conformal, one-sided, on families that took no part in the fit).
 *
 * Those of replay are from 383 jobs on an H200 (doc/results/memory): the 98th percentile of how far NVML was above it. The 30 %
 * follow the only published rule for jobs whose shapes are not known (no out-of-memory with estimates below 80 % of the device:
 * arXiv 2411.06465).
 */
#ifndef RAD_MODELS_MARGINS_H
#define RAD_MODELS_MARGINS_H

/* A replay of a capture that followed everything the job did. */
#define MARGIN_REPLAY 0.05
/* The same with convolutions, whose scratch memory is known by rules only (src/estimate/workspace.h). */
#define MARGIN_REPLAY_CONVOLUTIONS 0.12
/* A capture that says it did not: flags, growth from iteration to iteration, fewer than three iterations. */
#define MARGIN_REPLAY_DOUBTFUL 0.30

/* Learnt nets asked about a model that is larger, or of another make, than any they were trained on: as doubtful captures. */
#define MARGIN_GPUMEMNET_OUTSIDE 0.30

/* What earlier runs of the same signature took: they differ by what the allocator and the libraries' choices of kernels make of
 * chance. Until enough residuals of the server's own are known (estimate/margin.h), and never less than the MiB. */
#define MARGIN_HISTORY 0.05
#define MARGIN_HISTORY_LEAST_MIB 256
/* Runs that were cut short (cancelled, failed, at a time limit) may not have been at their peak: as doubtful captures. */
#define MARGIN_HISTORY_CUT 0.30
/* On top, when it ran on another model of GPU: contexts, workspaces and kernels differ. */
#define MARGIN_OTHER_GPU 0.20

#endif
