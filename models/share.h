/* SPDX-License-Identifier: MIT
 *
 * Parameters of the sharing models (src/share, derived in doc/share.md). Frozen: a change is a new fit, with its sources
 * written here and its errors there.
 *
 * Source: mixes of training tasks measured on one NVIDIA H200, driver 580, PyTorch 2.11; doc/results/h200/mixes.jsonl.gz.
 *	streams  36 mixes of 2 to 6 tasks
 *	mps	 36 mixes of 2 to 6 tasks, 19 fitted, 17 held out
 * With the kernels of all tasks known: fitted to 100 mixes of 2 to 8 tasks (the 19 above, and the fitting halves of 62 and 83 mixes on
 * two H200), scored once on the others.
 * `bench/hardware/score_mixes.py doc/results/h200/mixes*.jsonl.gz` prints all of them.
 */
#ifndef RAD_MODELS_SHARE_H
#define RAD_MODELS_SHARE_H

/* GPU time that time-sliced tasks get together; the rest goes to switching between them. */
#define SHARE_STREAMS_CAPACITY 0.92

/* SM activity at which MPS clients would wait for ever. Above 1: a kernel's last blocks overlap with the next one's first. The
 * law's other parameter, the exponent 13/16 of GRACT, is in share.c: there it is a product of square roots. */
#define SHARE_MPS_CAPACITY 1.036

/* The same where the kernels of all tasks are known: SM activity, and how much of the kernels of each neighbour a kernel waits for
 * at its launch. The exponent of GRACT is 7/8 there. Kernels are taken to be as long as these on average, in microseconds: from
 * there on nothing was measured. */
#define SHARE_KERNELS_CAPACITY 1.22
#define SHARE_KERNELS_WAIT 0.067
#define SHARE_SHORTEST_KERNEL_US 2
#define SHARE_LONGEST_KERNEL_US 100

/* Where the SM activity that all have alone adds up to more than CROWDED, every kernel takes longer by CROWDING for each 1 of the
 * rest: the SMs are as busy and do less. Mixes, to which the laws above were fitted, add up to 2.85 at most. Fitted to seven
 * copies of ResNet50, ResNet152 and ViT (doc/results/collocation: 3.0, 4.5 and 5.4), scored on ten others at once on H200s and
 * H100s: decision 213. */
#define SHARE_CROWDED 3
#define SHARE_CROWDING 0.035

/* A load below this is taken as this: no task is free. */
#define SHARE_LEAST_LOAD 0.01

#endif
