/* SPDX-License-Identifier: MIT
 *
 * Parameters of src/share/infer: what readings of a shared GPU show of the loads on it, and how far off that is. Frozen: a
 * change is a new fit, with its sources written here.
 *
 * Source: doc/results/h200/mixes.jsonl.gz, the half of the mixes that models/share.h was fitted on (19 under MPS, 19 on
 * streams), at the speeds that the law predicts from the loads alone. Errors of SMACT with these: rms 0.027 under MPS and
 * 0.013 on streams, of DRAM 0.019 and 0.008, means over 2 s. doc/share.md has what they come to on the other half.
 */
#ifndef RAD_MODELS_INFER_H
#define RAD_MODELS_INFER_H

/* A GPU shows A x (1 + k x (1 - A)) where the loads that are done add up to SMACT A: kernels that wait for each other stay on
 * their SMs for longer. */
#define INFER_MPS_LINGER 0.25
#define INFER_STREAMS_LINGER 0.10

/* DRAM activity of all over the sum of what they do alone at their speeds: caches are shared. */
#define INFER_MPS_DRAM 1.14
#define INFER_STREAMS_DRAM 1.02

/* Standard errors of what is predicted to be shown: half as large again as above and more, since errors of the same tasks in
 * other company go together. With these, nine of ten loads of the fitting half lie within two of the spreads that are told. */
#define INFER_MPS_SMACT_SD 0.040
#define INFER_STREAMS_SMACT_SD 0.030
/* GRACT of several under MPS lies between the sum and that of tasks that meet by chance; half way is within this. */
#define INFER_GRACT_SD 0.06
#define INFER_DRAM_SD 0.030
/* One second of samples around their mean; a mean over t seconds is off by that over the root of t. */
#define INFER_SECOND_SD 0.03

/* A task of which nothing is known: any GRACT, and of the SMs any part from here on while its kernels run (33 training jobs
 * alone: 0.3 to 0.95). Errors of guesses at both go together as the loads themselves do. */
#define INFER_FILLED_LEAST 0.2
#define INFER_DRAM_MOST 0.8	/* of its SMACT */
#define INFER_TOGETHER 0.7

#endif
