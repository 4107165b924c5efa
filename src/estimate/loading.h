/* SPDX-License-Identifier: MIT
 *
 * What data loaders do in a step of a training, by what its capture measured of each (doc/capture-format.md, "Loaders"): cores
 * that they keep busy, and how long a step takes at least.
 *
 *	L of a loader = processor seconds of a batch x batches of a step		(as many as its steps took, so also parts of one)
 *	without workers (num_workers 0) the main thread loads: what the host does in a step takes L longer
 *	with N workers they give what a step wants every L / N:	step = max(step of GPU and host, L / N of each loader)
 *	cores = 1 for the main thread, which launches, + the sum of L over those with workers / step
 * As no step is shorter than L / N, L / step is min(N, L / step): workers are not busier than they are many.
 *
 * A second of a processor is one of the machine on which the capture was made, for whose tasks it mostly is. It knows of no
 * waiting (a disk, a network) and no thread that pins memory: a step may take longer, and cores may be a few tenths more. A
 * script that fetches by itself, without torch.utils.data, says nothing here. Nothing is known either where any loader was
 * measured of fewer than LOADING_LEAST batches, or takes longer for one than LOADING_MOST_S. Pure.
 */
#ifndef RAD_ESTIMATE_LOADING_H
#define RAD_ESTIMATE_LOADING_H

#include "estimate/capture.h"

#define LOADING_LEAST 2
#define LOADING_MOST_S 100.0
/* Of a step that loaders hold up, relative: so far processors differ, and what one has of caches. Judged (decision 229). */
#define LOADING_SPREAD 0.3

/* Of one step. Zeroed: nothing is known. */
struct loading {
	bool known;
	double main_s;		/* that the main thread loads */
	double bound_s;		/* every which workers have loaded what a step wants; 0: there are none */
	double workers_s;	/* of processors, that all workers take together */
	unsigned workers;	/* of all loaders together */
};

struct loading loading_of(const struct capture *c);
/* Cores that one process keeps busy with steps that take so long; 0: not known. */
double loading_cores(const struct loading *l, double step_s);

#endif
