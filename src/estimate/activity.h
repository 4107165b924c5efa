/* SPDX-License-Identifier: MIT
 *
 * What a training task will do to a GPU, before it ever ran: how long a step takes, and what load it is. From the work of one
 * step as a capture holds it (doc/capture-format.md, "Load"), or as it follows from a model summary, and what the GPU can do
 * (models/gpus.h). Dissertation, section 7.1 asks for it: utilisation is relative to a GPU, so what is recorded is the work,
 * and the GPU comes in last.
 *
 *	kernel	fixed + max(operations / (peak x part x filled), bytes / (bandwidth x part))		seconds
 *		a convolution for the units that multiply matrices, not channels last, is turned first: fixed + bytes / (bandwidth x part)
 *	busy	sum over kernels;  host = sum over what the host does of what each costs
 *	step	the longer of the two, as one runs ahead of the other; where the host waits for the GPU they add up in part
 *	GRACT	busy / step;  SMACT: the same, each kernel by the part of the SMs that its blocks occupy
 *	DRAM	bytes that reach memory / (step x bandwidth);  watts: idle, and a part by each of these
 *
 * `part` and the rest of the parameters are fitted (models/activity.h). A step that data loaders hold up is longer, where a
 * capture measured them (loading.h): what the main thread loads is the host's, and no step is shorter than workers take for it.
 * Where they are not known a step takes at least this long. Pure.
 */
#ifndef RAD_ESTIMATE_ACTIVITY_H
#define RAD_ESTIMATE_ACTIVITY_H

#include "estimate/capture.h"
#include "estimate/loading.h"
#include "parse/features.h"
#include "task/load.h"

/* Of one step, alone on that GPU. Spreads are one standard deviation of what the model was off by for tasks of families that it
 * had not been fitted to. */
struct activity {
	double step_s, step_spread;	/* the spread: relative to it */
	double host_s, busy_s;		/* what the host, and the GPU, take by themselves */
	struct loading loading;		/* what data loaders do */
	double flops;			/* of products of matrices, in the widest sense */
	double kernels;
	double steps;			/* of the whole run; 0: not known */
	struct load_belief load;	/* source LOAD_GUESSED; its run_s: all steps, and evaluations where they are known */
	const char *source;		/* "capture", "summary": from what; lives for ever */
	const char *assumed;		/* what that did not say and how it was taken, "taken as Adam"; "": nothing; lives for ever */
};

/* 0, or -1 with *out zeroed and an error that says what is not known: the load (a capture of version 1, or cut short before a
 * step was over) or the GPU (NULL: none was named). `gpu_name` is as NVML gives it. */
int activity_from_capture(const struct capture *c, const char *gpu_name, struct activity *out, struct error *err);

/* The same, coarser, from a model summary and its features: the kernels of one step are made up from its layers. Not known
 * without sizes of outputs or a batch size; wider where optimizer, precision or sizes had to be assumed. */
int activity_from_summary(const struct summary *s, const struct features *f, const char *gpu_name, struct activity *out,
			  struct error *err);

/* How often each role of models/activity_summary.h comes in a step, of which that file's operators are fitted
 * (bench/hardware/fit_summary.py): times[] has place for ACTIVITY_ROLES_MOST. Returns how many there are; 0: the summary tells
 * no load. */
#define ACTIVITY_ROLES_MOST 32
size_t activity_summary_roles(const struct summary *s, const struct features *f, double *times);

/* Near the larger of two times, a little above it where they are alike: one runs ahead of the other, but not always. The eighth
 * root of the sum of their eighth powers. And from that and the one the other; 0: there is none. */
double activity_larger(double a, double b);
double activity_other(double larger, double a);

#endif
