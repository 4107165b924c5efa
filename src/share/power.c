/* SPDX-License-Identifier: MIT
 * Power of a GPU: what it draws idle, and on top of that what each task adds. A task's own part is its measured watts alone, or
 * a curve over its own SMACT, never over that of the device: kernels that run side by side keep SMs active for longer than they
 * would alone, without drawing more for it. The limit cuts the sum; that clocks, and so speeds, fall there is not modelled.
 */
#include "share/power.h"

#include "models/power.h"

#include <math.h>

/* What a task alone adds to an idle GPU, as a part of what lies between idle and peak. A process keeps the clocks up even when
 * it computes nothing. */
static double beyond_idle(double smact)
{
	double s = isnan(smact) ? SHARE_UNKNOWN_LOAD : fmin(fmax(smact, 0), 1);
	double curve = POWER_SHAPE * s + (1 - POWER_SHAPE) * s * s;
	return POWER_OCCUPIED + (1 - POWER_OCCUPIED) * curve;
}

double power_watts(const struct power_board *b, const struct share_task *tasks, const double *speed, size_t n,
		   const double *alone)
{
	double watts = b->idle_w;
	for (size_t i = 0; i < n; i++) {
		bool known = alone && alone[i] > 0;
		double own = known ? alone[i] - b->idle_w : (b->peak_w - b->idle_w) * beyond_idle(tasks[i].smact);
		watts += speed[i] * fmax(own, 0);
	}
	return fmin(watts, b->limit_w > 0 ? b->limit_w : b->peak_w);
}

void power_parts(const struct share_task *tasks, const double *speed, size_t n, double *part)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += part[i] = speed[i] * beyond_idle(tasks[i].smact);
	for (size_t i = 0; i < n; i++)
		part[i] /= sum;
}
