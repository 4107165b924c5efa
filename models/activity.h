/* SPDX-License-Identifier: MIT
 *
 * Parameters of the load model (src/estimate/activity), which says what they do. Frozen: written by bench/hardware/fit_solo.py, by
 * hand only by mistake. A change is a new fit.
 *
 * Source: 254 training tasks of 31 families, each alone on one NVIDIA H200, PyTorch 2.11, driver 580 (doc/results/load).
 * Spreads hold two of three tasks when each family is left out of the fit in turn. Errors are then, as logarithms: of a step
 * median 0.112, p90 0.364, of SMACT median 0.036, p90 0.153.
 */
#ifndef RAD_MODELS_ACTIVITY_H
#define RAD_MODELS_ACTIVITY_H

#define ACTIVITY_FITTED "H200"	/* its row of models/gpus.h */
/* Wider by so much on another GPU, and for a capture that says it may go another way: judged, not measured. */
#define ACTIVITY_OTHER_GPU 2
#define ACTIVITY_DOUBTFUL 2
#define ACTIVITY_SPREAD_STEP 0.1333
#define ACTIVITY_SPREAD_HOST 0.215
#define ACTIVITY_SPREAD_GRACT 0.06748
#define ACTIVITY_SPREAD_SMACT 0.06006
#define ACTIVITY_SPREAD_DRAM 0.04554
#define ACTIVITY_DEEP 603.1
#define ACTIVITY_GROUPED 0.2658
#define ACTIVITY_CACHE 0.7778
#define ACTIVITY_GAP_US 1.515
#define ACTIVITY_LEAD_US 1.669
#define ACTIVITY_WAIT 0.137
#define ACTIVITY_COPY_GB_S 9.4
#define ACTIVITY_TURNED_US 2.091
#define ACTIVITY_TURNED 0.2936
#define ACTIVITY_WINDOW_NS 1.246
#define ACTIVITY_CHANNEL_NS 0.7959
#define ACTIVITY_CHANNEL_HALF 1.521
#define ACTIVITY_DRAM_SMALL 0.3233
#define ACTIVITY_DRAM_LARGE 1.079
#define ACTIVITY_WATTS_GRACT 0.3343
#define ACTIVITY_WATTS_SMACT 0.2399
#define ACTIVITY_WATTS_DRAM 0.2817
#define ACTIVITY_WATTS_WORK 0.6051

/* By enum capture_class: microseconds of any kernel; parts of the memory's bandwidth, of the SMs, of each unit's peak. */
static const struct activity_class { double fixed_us, memory, active, compute[5]; } activity_classes[] = {
	{ 1.006, 0.7963, 0.9635, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POINTWISE */
	{ 2.119, 0.3195, 0.9941, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* COPY */
	{ 5.798, 0.3317, 0.9554, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* REDUCE */
	{ 3.481, 0.3176, 0.7556, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* NORM */
	{ 2.452, 0.7711, 0.8828, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SOFTMAX */
	{ 6.122, 0.3916, 0.7366, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* GATHER */
	{ 5.367, 0.368, 0.4662, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SCATTER */
	{ 4.436, 0.668, 0.9976, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* POOL */
	{ 2.893, 0.6575, 0.7377, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* SORT */
	{ 9.452, 1.097, 0.9329, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* MANY */
	{ 3, 0.551, 0.9759, { 0.45, 0.7131, 0.4502, 0.741, 0.45 } },	/* PRODUCT */
	{ 5.857, 1.047, 1.154, { 0.45, 0.4124, 0.5994, 0.4753, 0.45 } },	/* CONV_OUT */
	{ 5.212, 0.8771, 0.9754, { 0.45, 0.7572, 0.9293, 0.4636, 0.45 } },	/* CONV_INPUT */
	{ 12.38, 0.9287, 0.6937, { 0.45, 0.3048, 0.3378, 0.8008, 0.45 } },	/* CONV_WEIGHTS */
	{ 1.883, 0.3901, 0.7106, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE */
	{ 2.16, 0.3378, 1.19, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* DEPTHWISE_WEIGHTS */
	{ 6.089, 0.1637, 0.8658, { 0.45, 0.3222, 0.4109, 0.4109, 0.45 } },	/* ATTENTIVE */
	{ 3.015, 0.4297, 0.3319, { 0.45, 0.45, 2.124, 1.212, 0.45 } },	/* RECURRENT */
	{ 6.609, 0.5191, 0.8238, { 0.45, 0.45, 0.45, 0.45, 0.45 } },	/* CHANNEL_NORM */
};

/* By enum capture_unit: of rows that do not begin at multiples of 16 bytes. */
static const double activity_uneven[] = { 0.6, 0.8437, 0.5423, 0.174, 0.6 };

/* Depthwise convolutions, parts of the peak in fp32: not channels last, channels last; of weights: the last in half precision. */
static const double activity_taps[] = { 0.05381, 0.02087 };
static const double activity_strips[] = { 0.01241, 0.02921, 0.1347 };

/* Microseconds of the host. */
static const struct activity_host { double forward, backward, updates, views, modules, listed, parameters, waits, recurrent, step; } activity_host_us = {
	.forward = 14.6, .backward = 10.16, .updates = 8.029, .views = 9.8, .modules = 29.28, .listed = 1.691, .parameters = 4.048, .waits = 19.81, .recurrent = 19.21, .step = 890.5
};

#endif
