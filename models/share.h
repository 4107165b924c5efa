/* SPDX-License-Identifier: MIT
 *
 * Parameters of the sharing models (src/share, derived in doc/share.md). Frozen: a change is a new fit, with its sources
 * and errors written here and there.
 *
 * Source: mixes of training tasks measured on one NVIDIA H200, driver 580, PyTorch 2.11.
 *	streams  43 mixes of 2 to 8 tasks: median error of a task's speed 2.9 %.
 *	mps	 four published figures, see the table in doc/share.md: worst error 7 %, on the points it was fitted to.
 */
#ifndef RAD_MODELS_SHARE_H
#define RAD_MODELS_SHARE_H

/* GPU time that time-sliced tasks get together; the rest goes to switching between them. */
#define SHARE_STREAMS_CAPACITY 0.92

/* SM activity that MPS clients reach together. Not below the capacity of streams: see the proof in doc/share.md. The
 * law's other parameter, the exponent 3/2 of a task's weight, is in share.c: it is what makes the arithmetic a square root. */
#define SHARE_MPS_CAPACITY 0.96

/* A load below this is taken as this: no task is free. */
#define SHARE_LEAST_LOAD 0.01

#endif
