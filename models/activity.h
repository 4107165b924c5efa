/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 205 training tasks of 31 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580. What the model is worth was
 * scored with the same fitted to 21 of them (doc/results/load); each family left out in turn, a step is off by 12.2 % (median; p90
 * 40.1 %), SMACT by 0.052 (0.197). Spreads hold two of three of those.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.198
#define ACTIVITY_SPREAD_HOST 0.2032
#define ACTIVITY_SPREAD_GRACT 0.09653
#define ACTIVITY_SPREAD_SMACT 0.08818
#define ACTIVITY_SPREAD_DRAM 0.03829
#define ACTIVITY_DEEP 650.6
#define ACTIVITY_GROUPED 0.2396
#define ACTIVITY_CACHE 0.8762
#define ACTIVITY_GAP_US 1.52
#define ACTIVITY_LEAD_US 0.5815
#define ACTIVITY_WAIT 0.112
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_CHANNEL_HALF 0.2952
#define ACTIVITY_CHANNEL_BLOCKS 1.775
#define ACTIVITY_DRAM_SMALL 0.5884
#define ACTIVITY_DRAM_LARGE 0.967
#define ACTIVITY_WATTS_GRACT 0.3334
#define ACTIVITY_WATTS_SMACT 0.2119
#define ACTIVITY_WATTS_DRAM 0.2508
#define ACTIVITY_WATTS_WORK 0.6332

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.058, 0.766, 0.8964, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.147, 0.3041, 0.9297, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 6.037, 0.3261, 0.6211, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 3.675, 0.2974, 0.7357, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.457, 0.7845, 0.9339, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 11.84, 0.2859, 0.5024, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 7.074, 0.5509, 0.5002, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 5.203, 0.1602, 1.125, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.638, 0.755, 0.685, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 9.779, 1.096, 0.9107, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 2.917, 0.5397, 0.9349, { 0.45, 0.6754, 0.4112, 0.7565, 0.45 } },	/* PRODUCT */
	{ 2.422, 0.6523, 0.7721, { 0.45, 1.514, 0.5021, 0.4487, 0.45 } },	/* CONV_OUT */
	{ 2.436, 0.5552, 1.13, { 0.45, 1.618, 1.025, 0.9, 0.45 } },	/* CONV_INPUT */
	{ 20.41, 0.777, 0.8422, { 0.45, 0.2524, 0.3465, 1.035, 0.45 } },	/* CONV_WEIGHTS */
	{ 1.775, 0.2847, 0.7341, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 2.086, 0.3144, 1.194, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 9.425, 0.1764, 0.9254, { 0.45, 0.3065, 0.4481, 0.4482, 0.45 } },	/* ATTENTIVE */
	{ 2.819, 0.3893, 0.2959, { 0.45, 0.45, 1.901, 1.197, 0.45 } },	/* RECURRENT */
	{ 5.772, 0.5903, 0.783, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of a convolution that is not channels last, of uneven rows, of depthwise ones. */
static const struct activity_unit { double planar, uneven, depthwise; } activity_units[] = {
	{ 0.7, 0.6, 0.7 },	/* NONE */
	{ 0.7153, 1.157, 0.7 },	/* SINGLE */
	{ 0.6328, 0.63, 0.5734 },	/* TF32 */
	{ 0.4041, 0.1652, 0.4536 },	/* HALF */
	{ 0.7, 0.6, 0.7 },	/* DOUBLE */
};

static const double activity_strips[] = { 0.008993, 0.02075 };	/* not channels last, channels last */

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent, step; } activity_host_us = {
	.forward = 13.62, .backward = 11.55, .updates = 8.172, .views = 10.36, .modules = 26.74, .listed = 1.312, .parameters = 3.638, .waits = 19.86, .recurrent = 19.23, .step = 887.8
};

#endif
