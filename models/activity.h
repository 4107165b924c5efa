/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 61 training tasks of 17 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580
 * (doc/results/load). Spreads are of families left out of the fit: a step median 0.123, p90 0.272, SMACT median 0.042, p90 0.156.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.1509
#define ACTIVITY_SPREAD_HOST 0.1928
#define ACTIVITY_SPREAD_GRACT 0.06628
#define ACTIVITY_SPREAD_SMACT 0.06638
#define ACTIVITY_SPREAD_DRAM 0.03197
#define ACTIVITY_SHARPNESS 8.0
#define ACTIVITY_DEEP 1588
#define ACTIVITY_GROUPED 0.2427
#define ACTIVITY_CACHE 1.085
#define ACTIVITY_GAP_US 1.55
#define ACTIVITY_LEAD_US 0.4537
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_CHANNEL_HALF 0.3269
#define ACTIVITY_CHANNEL_BLOCKS 1.658
#define ACTIVITY_DRAM_SMALL 0.4863
#define ACTIVITY_DRAM_LARGE 0.9809
#define ACTIVITY_WATTS_GRACT 0.2846
#define ACTIVITY_WATTS_SMACT 0.2389
#define ACTIVITY_WATTS_DRAM 0.4747
#define ACTIVITY_WATTS_WORK 0.6382

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.244, 0.7488, 0.8349, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.318, 0.3665, 0.6968, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 5.118, 0.2883, 0.825, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 2.627, 0.3228, 0.912, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.54, 0.8168, 1.961, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 3.546, 0.6561, 0.9274, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 3.325, 0.3932, 0.9159, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 9.057, 0.1976, 0.9922, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.643, 0.6891, 0.9246, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 7.838, 1.062, 0.9956, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 3.09, 0.7339, 0.9503, { 0.45, 0.7404, 0.4666, 0.7077, 0.45 } },	/* PRODUCT */
	{ 5.855, 0.6601, 0.5938, { 0.45, 0.521, 0.4173, 0.3561, 0.45 } },	/* CONV_OUT */
	{ 3.947, 0.6353, 1.573, { 0.45, 0.5402, 0.3816, 0.4594, 0.45 } },	/* CONV_INPUT */
	{ 4.906, 0.6293, 0.5006, { 0.45, 0.6124, 0.7584, 0.184, 0.45 } },	/* CONV_WEIGHTS */
	{ 1.782, 0.3144, 0.9331, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 2.131, 0.3164, 0.9932, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 3.001, 0.1556, 0.2865, { 0.45, 0.251, 0.04205, 0.4422, 0.45 } },	/* ATTENTIVE */
	{ 1.758, 0.7, 0.2742, { 0.45, 0.45, 0.6751, 0.9587, 0.45 } },	/* RECURRENT */
	{ 5.264, 0.4841, 1.044, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of a convolution that is not channels last, of uneven rows, of depthwise ones. */
static const struct activity_unit { double planar, uneven, depthwise; } activity_units[] = {
	{ 0.7, 0.6, 0.7 },	/* NONE */
	{ 0.9777, 0.6802, 0.7 },	/* SINGLE */
	{ 0.842, 0.6743, 0.6841 },	/* TF32 */
	{ 0.8985, 0.176, 0.6272 },	/* HALF */
	{ 0.7, 0.6, 0.7 },	/* DOUBLE */
};

static const double activity_strips[] = { 0.006666, 0.2068 };	/* not channels last, channels last */

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent, step; } activity_host_us = {
	.forward = 20.65, .backward = 7.648, .updates = 8.948, .views = 11.62, .modules = 9.638, .listed = 0.8794, .parameters = 3.322, .waits = 19.98, .recurrent = 17.11, .step = 1316
};

#endif
