/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 205 training tasks of 31 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580 (doc/results/load).
 * Spreads hold two of three tasks when each family is left out of the fit in turn. Errors are then, as logarithms: of a step
 * median 0.115, p90 0.390, of SMACT median 0.044, p90 0.191.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.1858
#define ACTIVITY_SPREAD_HOST 0.2032
#define ACTIVITY_SPREAD_GRACT 0.08766
#define ACTIVITY_SPREAD_SMACT 0.07216
#define ACTIVITY_SPREAD_DRAM 0.03769
#define ACTIVITY_DEEP 163.8
#define ACTIVITY_GROUPED 0.2017
#define ACTIVITY_CACHE 0.9253
#define ACTIVITY_GAP_US 1.55
#define ACTIVITY_LEAD_US 1.309
#define ACTIVITY_WAIT 0.1298
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_TURNED_US 2.356
#define ACTIVITY_TURNED 0.2371
#define ACTIVITY_CHANNEL_HALF 0.2894
#define ACTIVITY_CHANNEL_BLOCKS 1.802
#define ACTIVITY_DRAM_SMALL 0.6003
#define ACTIVITY_DRAM_LARGE 0.9647
#define ACTIVITY_WATTS_GRACT 0.3481
#define ACTIVITY_WATTS_SMACT 0.166
#define ACTIVITY_WATTS_DRAM 0.2841
#define ACTIVITY_WATTS_WORK 0.711

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.059, 0.7551, 0.9299, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.585, 0.3178, 0.9465, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 6.133, 0.3182, 0.9825, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 3.942, 0.2926, 0.6898, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.505, 0.7871, 0.8576, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 11.91, 0.315, 0.5079, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 7.598, 0.5323, 0.4951, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 5.525, 0.1617, 0.9741, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.693, 0.7465, 0.6833, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 10.96, 1.134, 0.9314, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 4.061, 0.5952, 0.9247, { 0.45, 0.6322, 0.4252, 0.785, 0.45 } },	/* PRODUCT */
	{ 6.492, 1.125, 1.16, { 0.45, 0.3941, 0.6988, 0.4988, 0.45 } },	/* CONV_OUT */
	{ 2.599, 0.8567, 0.8077, { 0.45, 0.9108, 0.9287, 0.4337, 0.45 } },	/* CONV_INPUT */
	{ 14.67, 0.928, 0.7213, { 0.45, 0.2667, 0.3842, 1.15, 0.45 } },	/* CONV_WEIGHTS */
	{ 1.574, 0.4185, 1.074, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 1.994, 0.3632, 0.7876, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 10.76, 0.1828, 0.8924, { 0.45, 0.2655, 0.1957, 0.4436, 0.45 } },	/* ATTENTIVE */
	{ 3.503, 0.4194, 0.3123, { 0.45, 0.45, 2.069, 1.413, 0.45 } },	/* RECURRENT */
	{ 6.199, 0.622, 0.8159, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of rows that do not begin at multiples of 16 bytes. */
static const double activity_uneven[] = { 0.6, 1.024, 0.6078, 0.162, 0.6 };

/* Depthwise convolutions, parts of the peak in fp32: not channels last, channels last; of weights: the last in half precision. */
static const double activity_taps[] = { 0.06131, 0.06264 };
static const double activity_strips[] = { 0.01257, 0.00619, 0.1242 };

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent, step; } activity_host_us = {
	.forward = 13.62, .backward = 11.55, .updates = 8.172, .views = 10.36, .modules = 26.74, .listed = 1.312, .parameters = 3.638, .waits = 19.86, .recurrent = 19.23, .step = 887.8
};

#endif
