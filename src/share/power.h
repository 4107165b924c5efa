/* SPDX-License-Identifier: MIT
 *
 * What a GPU draws at an activity. Pure; used by simulated devices and by the simulator alike. models/power.h has the parameter
 * and where it comes from.
 */
#ifndef RAD_SHARE_POWER_H
#define RAD_SHARE_POWER_H

#include <stdbool.h>

/* Watts. `limit_w`: the board is held to this (nvidia-smi calls it the power limit); 0: only to its peak. `occupied`: a process
 * is on it, which keeps its clocks up even when nothing is computed. */
double power_watts(double idle_w, double peak_w, double limit_w, bool occupied, double smact);

#endif
