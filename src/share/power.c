/* SPDX-License-Identifier: MIT
 * Power of a GPU: what it draws idle, and on top of that what each task adds. A task's own part is its measured watts alone, or
 * a curve over its own SMACT, never over that of the device: kernels that run side by side keep SMs active for longer than they
 * would alone, without drawing more for it. The limit cuts the sum; that clocks, and so speeds, fall there is not modelled.
 */
#include "share/power.h"

#include "models/power.h"

#include <math.h>

/* What a task alone adds to a GPU with a process that computes nothing, as a part of what lies between idle and peak. */
static double computing(const struct share_task *t)
{
	double s = fmin(fmax(share_filled(*t, SHARE_UNKNOWN_LOAD).smact, 0), 1);
	double curve = POWER_SHAPE * s + (1 - POWER_SHAPE) * s * s;
	return (1 - POWER_OCCUPIED) * curve;
}

double power_watts(const struct power_board *b, const struct share_task *tasks, const double *speed, size_t n,
		   const double *alone)
{
	double range = b->peak_w - b->idle_w, occupied = b->idle_w + (n ? POWER_OCCUPIED * range : 0), watts = occupied;
	for (size_t i = 0; i < n; i++) {
		bool known = alone && alone[i] > 0;
		watts += speed[i] * (known ? fmax(alone[i] - occupied, 0) : range * computing(&tasks[i]));
	}
	return fmin(watts, b->limit_w > 0 ? b->limit_w : b->peak_w);
}

void power_parts(const struct share_task *tasks, const double *speed, size_t n, double *part)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += part[i] = POWER_OCCUPIED / (double)n + speed[i] * computing(&tasks[i]);
	for (size_t i = 0; i < n; i++)
		part[i] /= sum;
}
