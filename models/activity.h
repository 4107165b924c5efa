/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 60 training tasks of 17 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580
 * (doc/results/load). Spreads are of families left out of the fit: a step median 0.085, p90 0.198, SMACT median 0.025, p90 0.104.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.06389
#define ACTIVITY_SPREAD_HOST 0.1588
#define ACTIVITY_SPREAD_GRACT 0.05531
#define ACTIVITY_SPREAD_SMACT 0.04797
#define ACTIVITY_SPREAD_DRAM 0.03505
#define ACTIVITY_SHARPNESS 8.0
#define ACTIVITY_DEEP 1573
#define ACTIVITY_GROUPED 0.2124
#define ACTIVITY_CACHE 1.179
#define ACTIVITY_GAP_US 1.519
#define ACTIVITY_LEAD_US 0.4312
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_CHANNEL_HALF 0.3169
#define ACTIVITY_CHANNEL_BLOCKS 1.816
#define ACTIVITY_DRAM_SMALL 0.5379
#define ACTIVITY_DRAM_LARGE 0.9648
#define ACTIVITY_WATTS_GRACT 0.2865
#define ACTIVITY_WATTS_SMACT 0.2639
#define ACTIVITY_WATTS_DRAM 0.3368
#define ACTIVITY_WATTS_WORK 0.671

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.229, 0.7432, 0.797, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.425, 0.3492, 0.7032, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 5.097, 0.2513, 1.081, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 2.406, 0.2729, 0.8718, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.588, 0.8215, 2.089, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 15.45, 0.4665, 0.9493, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 9.882, 0.5033, 0.9459, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 11.16, 0.1952, 0.9388, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.447, 0.9205, 0.9077, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 8.992, 1.086, 0.9827, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 4.036, 0.8157, 0.9525, { 0.45, 0.7446, 0.4924, 0.8149, 0.45 } },	/* PRODUCT */
	{ 7.271, 0.6145, 0.4195, { 0.45, 0.5334, 0.4853, 0.1447, 0.45 } },	/* CONV_OUT */
	{ 5.696, 0.2835, 1.378, { 0.45, 0.5624, 0.3421, 1.076, 0.45 } },	/* CONV_INPUT */
	{ 6.033, 0.1913, 0.907, { 0.45, 0.6525, 2.748, 0.3114, 0.45 } },	/* CONV_WEIGHTS */
	{ 0.4753, 0.8938, 0.9673, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 0.8022, 0.5275, 1.003, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 3.825, 0.156, 0.3549, { 0.45, 0.225, 0.04232, 0.1573, 0.45 } },	/* ATTENTIVE */
	{ 0.9079, 0.7, 0.2606, { 0.45, 0.45, 0.6469, 0.8468, 0.45 } },	/* RECURRENT */
	{ 5.619, 0.5406, 1.035, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of a convolution that is not channels last, of uneven rows, of depthwise ones. */
static const struct activity_unit { double planar, uneven, depthwise; } activity_units[] = {
	{ 0.7, 0.6, 0.7 },	/* NONE */
	{ 0.9489, 0.729, 0.7 },	/* SINGLE */
	{ 0.8308, 0.6432, 0.8184 },	/* TF32 */
	{ 1.036, 0.1418, 0.3173 },	/* HALF */
	{ 0.7, 0.6, 0.7 },	/* DOUBLE */
};

static const double activity_strips[] = { 0.006617, 0.2965 };	/* not channels last, channels last */

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent; } activity_host_us = {
	.forward = 23.34, .backward = 7.426, .updates = 9.068, .views = 11.86, .modules = 11.54, .listed = 0.7587, .parameters = 3.777, .waits = 19.97, .recurrent = 18.75
};

#endif
