/* SPDX-License-Identifier: MIT
 *
 * Parameters of the power model (src/share/power). Frozen: a change is a new fit, with its source and errors written here.
 *
 *	watts of a task alone = idle + (peak - idle) * part
 *	part = OCCUPIED + (1 - OCCUPIED) * (SHAPE * smact + (1 - SHAPE) * smact^2)
 *
 * Source: 33 training tasks alone on one NVIDIA H200, SMACT 0.04 to 0.96, 124 W to 671 W. With idle 75 W and peak 700 W the
 * median error is 3 %, the largest 16 % (MobileNetV2, whose depthwise kernels keep SMs active at little power). A straight
 * line through the ends is wrong by 12 %: power grows slower than SMACT at first, when clocks and memory are hardly loaded. Of 102
 * tasks measured later, of more kinds, the median error is 9 %; fitted anew to half of them it was no better on the other half.
 * The sum over tasks (src/share/power): doc/share.md, "Power".
 */
#ifndef RAD_MODELS_POWER_H
#define RAD_MODELS_POWER_H

/* A process with a context keeps the clocks up: this part of the range is drawn before anything is computed. */
#define POWER_OCCUPIED 0.06
#define POWER_SHAPE 0.5

#endif
