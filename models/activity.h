/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 131 training tasks of 21 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580
 * (doc/results/load). Spreads are of families left out of the fit: a step median 0.106, p90 0.346, SMACT median 0.040, p90 0.166.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.129
#define ACTIVITY_SPREAD_HOST 0.1829
#define ACTIVITY_SPREAD_GRACT 0.08777
#define ACTIVITY_SPREAD_SMACT 0.06739
#define ACTIVITY_SPREAD_DRAM 0.03181
#define ACTIVITY_DEEP 161.1
#define ACTIVITY_GROUPED 0.2634
#define ACTIVITY_CACHE 0.8395
#define ACTIVITY_GAP_US 1.529
#define ACTIVITY_LEAD_US 1.02
#define ACTIVITY_WAIT 0.1502
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_CHANNEL_HALF 0.3336
#define ACTIVITY_CHANNEL_BLOCKS 1.075
#define ACTIVITY_DRAM_SMALL 0.5252
#define ACTIVITY_DRAM_LARGE 0.9809
#define ACTIVITY_WATTS_GRACT 0.3202
#define ACTIVITY_WATTS_SMACT 0.2436
#define ACTIVITY_WATTS_DRAM 0.3071
#define ACTIVITY_WATTS_WORK 0.5857

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.066, 0.7536, 0.9379, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.173, 0.3586, 0.4706, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 5.147, 0.3184, 0.5478, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 3.641, 0.2742, 1.278, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.507, 0.7921, 0.9747, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 12.38, 0.4649, 0.9835, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 9.383, 0.4335, 0.7952, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 5.652, 0.1817, 1.245, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.718, 0.7192, 0.7972, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 10.79, 1.134, 0.9947, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 4.332, 0.6749, 0.9076, { 0.45, 0.6724, 0.4289, 0.7919, 0.45 } },	/* PRODUCT */
	{ 17.1, 0.1439, 0.5855, { 0.45, 1.979, 0.8935, 0.3982, 0.45 } },	/* CONV_OUT */
	{ 2.861, 0.5731, 1.099, { 0.45, 0.4791, 0.4503, 0.4859, 0.45 } },	/* CONV_INPUT */
	{ 6.809, 0.6462, 0.7806, { 0.45, 0.2869, 0.4215, 0.4153, 0.45 } },	/* CONV_WEIGHTS */
	{ 1.277, 0.5888, 0.7317, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 1.825, 0.4239, 1.39, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 8.431, 0.1466, 0.8379, { 0.45, 0.2356, 0.4486, 0.4478, 0.45 } },	/* ATTENTIVE */
	{ 2.986, 0.4078, 0.3062, { 0.45, 0.45, 1.998, 1.227, 0.45 } },	/* RECURRENT */
	{ 5.57, 0.3745, 0.8409, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of a convolution that is not channels last, of uneven rows, of depthwise ones. */
static const struct activity_unit { double planar, uneven, depthwise; } activity_units[] = {
	{ 0.7, 0.6, 0.7 },	/* NONE */
	{ 0.9304, 0.9065, 0.7 },	/* SINGLE */
	{ 0.7043, 0.5903, 0.4289 },	/* TF32 */
	{ 0.7639, 0.161, 0.2395 },	/* HALF */
	{ 0.7, 0.6, 0.7 },	/* DOUBLE */
};

static const double activity_strips[] = { 0.009824, 0.2235 };	/* not channels last, channels last */

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent, step; } activity_host_us = {
	.forward = 13.01, .backward = 7.695, .updates = 7.588, .views = 14.25, .modules = 8.57, .listed = 0.595, .parameters = 34.02, .waits = 19.92, .recurrent = 18.84, .step = 804.9
};

#endif
