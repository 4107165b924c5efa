/* SPDX-License-Identifier: MIT
 * Power of a GPU: idle, a step as soon as a process is there, and a curve over SMACT from there to the peak. A limit of the
 * board cuts it off; that clocks, and so speeds, fall at the limit is not modelled.
 */
#include "share/power.h"

#include "models/power.h"

#include <math.h>

double power_watts(double idle_w, double peak_w, double limit_w, bool occupied, double smact)
{
	double s = isnan(smact) ? 0 : fmin(fmax(smact, 0), 1);
	double curve = POWER_SHAPE * s + (1 - POWER_SHAPE) * s * s;
	double part = occupied ? POWER_OCCUPIED + (1 - POWER_OCCUPIED) * curve : 0;
	double watts = idle_w + (peak_w - idle_w) * part;
	return limit_w > 0 ? fmin(watts, limit_w) : watts;
}
