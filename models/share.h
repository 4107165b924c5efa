/* SPDX-License-Identifier: MIT
 *
 * Parameters of the sharing models (src/share, derived in doc/share.md). Frozen: a change is a new fit, with its sources
 * and errors written here and there.
 *
 * Source: mixes of training tasks measured on one NVIDIA H200, driver 580, PyTorch 2.11; doc/results/h200/mixes.jsonl.gz.
 *	streams  36 mixes of 2 to 6 tasks: median error of a task's speed 2.7 %, p90 13.8 %. (43 earlier mixes: 2.9 %.)
 *	mps	 36 mixes of 2 to 6 tasks, 19 fitted, 17 held out: median error 6.4 %, p90 19.9 % on those held out.
 * `bench/hardware/score_mixes.py doc/results/h200/mixes.jsonl.gz` prints them.
 */
#ifndef RAD_MODELS_SHARE_H
#define RAD_MODELS_SHARE_H

/* GPU time that time-sliced tasks get together; the rest goes to switching between them. */
#define SHARE_STREAMS_CAPACITY 0.92

/* SM activity at which MPS clients would wait for ever. Above 1: a kernel's last blocks overlap with the next one's first. The
 * law's other parameter, the exponent 13/16 of GRACT, is in share.c: there it is a product of square roots. */
#define SHARE_MPS_CAPACITY 1.036

/* A load below this is taken as this: no task is free. */
#define SHARE_LEAST_LOAD 0.01

#endif
