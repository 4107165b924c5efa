/* SPDX-License-Identifier: MIT
 *
 * Margins of estimators: claim = comfort x (1 + margin). What they aim at: of jobs capped at their claim, at most 2 in 100 run out
 * of memory.
 *
 * Those of replay are fitted on 383 jobs on an H200 (doc/results/memory, "Margins of replay on all jobs"): the one-sided 98 %
 * quantile (split conformal) of how far NVML was above comfort, 5.00 % over 155 jobs; with convolutions above the highest of the
 * replays that a little more or less scratch gives (replay.h), 7.51 % over 228; rounded up to whole percents. With the family that
 * is asked about left out of the fit, 1.6 % of the claims were too low; of 37 jobs of other networks none. The 30 % follow the only published rule for jobs whose shapes are not known (no out-of-memory with estimates below 80 % of the
 * device: arXiv 2411.06465).
 */
#ifndef RAD_MODELS_MARGINS_H
#define RAD_MODELS_MARGINS_H

/* A replay of a capture that followed everything the job did. */
#define MARGIN_REPLAY 0.05
/* The same with convolutions, whose scratch memory is known by rules only (src/estimate/workspace.h). */
#define MARGIN_REPLAY_CONVOLUTIONS 0.08
/* A capture that says it did not: flags, growth from iteration to iteration, fewer than three iterations. */
#define MARGIN_REPLAY_DOUBTFUL 0.30
/* Growth that over all steps comes to no more than this part is added to the claim and is no doubt: a loss that is kept of each step
 * is 512 bytes, 5 MiB after 10,000. Of a run whose steps are not known so many are taken. */
#define MARGIN_GROWN 0.10
#define MARGIN_GROWN_STEPS 100000u

/* A model summary of a model that is larger, or of another make, than any that was measured: as doubtful captures. */
#define MARGIN_SUMMARY 0.30

/* What earlier runs of the same signature took: they differ by what the allocator and the libraries' choices of kernels make of
 * chance. Until enough residuals of the server's own are known (estimate/margin.h), and never less than the MiB. */
#define MARGIN_HISTORY 0.05
#define MARGIN_HISTORY_LEAST_MIB 256
/* Runs that were cut short (cancelled, failed, at a time limit) may not have been at their peak: as doubtful captures. */
#define MARGIN_HISTORY_CUT 0.30
/* On top, when it ran on another model of GPU: contexts, workspaces and kernels differ. */
#define MARGIN_OTHER_GPU 0.20

/* What a task of which nothing is known most likely does not go beyond, MiB, on a machine that saw too few to tell: 39 in 40 of 265
 * public training scripts, as their READMEs say, took no more (doc/results/memory/public*.jsonl.gz, `nvml` of two steps or more). */
#define MARGIN_USUAL_MIB 37888u
/* The mean of such scripts, of 290 by now (decision 257). */
#define MARGIN_USUAL_MEAN_MIB 8062u

#endif
