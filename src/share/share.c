/* SPDX-License-Identifier: MIT
 * Speeds of tasks that share a GPU: weighted max-min fairness over GPU time (streams) or SM activity (MPS). The speeds
 * themselves are the working memory, so nothing is allocated: simulators call this in their inner loops.
 */
#include "share/share.h"

#include "models/share.h"

#include <math.h>

static double clamp_load(double load)
{
	if (isnan(load))
		load = SHARE_UNKNOWN_LOAD;
	return fmin(fmax(load, SHARE_LEAST_LOAD), 1);
}

static double gpu_time(const struct share_task *t)
{
	return clamp_load(t->gract);
}

static double sm_activity(const struct share_task *t)
{
	return fmin(clamp_load(t->smact), gpu_time(t));
}

struct law {
	double (*demand)(const struct share_task *t);
	double (*weight)(double demand);
	double capacity;
};

static double equal(double demand)
{
	(void)demand;
	return 1;
}

/* demand^(3/2): exact rounding of sqrt makes the result the same on every machine. */
static double by_grid(double demand)
{
	return demand * sqrt(demand);
}

static const struct law streams = { gpu_time, equal, SHARE_STREAMS_CAPACITY };
static const struct law mps = { sm_activity, by_grid, SHARE_MPS_CAPACITY };

/* Water filling: each task is granted level * weight, at most its demand; what the satisfied leave raises the level for the
 * others. A speed of 0 marks a task that is not satisfied yet. Every round but the last satisfies at least one. */
static void fill(const struct law *law, const struct share_task *tasks, size_t n, double *speed)
{
	for (size_t i = 0; i < n; i++)
		speed[i] = 0;
	double level;
	bool more;
	do {
		double left = law->capacity, weights = 0;
		for (size_t i = 0; i < n; i++) {
			double demand = law->demand(&tasks[i]);
			if (speed[i] > 0)
				left -= demand;
			else
				weights += law->weight(demand);
		}
		level = left / weights;
		more = false;
		for (size_t i = 0; i < n && weights > 0; i++) {
			double demand = law->demand(&tasks[i]);
			if (speed[i] > 0 || level * law->weight(demand) < demand)
				continue;
			speed[i] = 1;
			more = true;
		}
	} while (more);
	for (size_t i = 0; i < n; i++) {
		double demand = law->demand(&tasks[i]);
		if (speed[i] <= 0)
			speed[i] = level * law->weight(demand) / demand;
	}
}

void share_speeds(const struct share_task *tasks, size_t n, enum share_mode mode, double *speed)
{
	if (n > 1 && mode != SHARE_NEVER && mode != SHARE_MIG) {
		fill(mode == SHARE_MPS ? &mps : &streams, tasks, n, speed);
		return;
	}
	for (size_t i = 0; i < n; i++)
		speed[i] = 1;
}

struct share_activity share_activity(const struct share_task *tasks, size_t n, const double *speed)
{
	struct share_activity sum = { 0 };
	for (size_t i = 0; i < n; i++) {
		sum.gract += speed[i] * gpu_time(&tasks[i]);
		sum.smact += speed[i] * sm_activity(&tasks[i]);
	}
	return (struct share_activity){ fmin(sum.gract, 1), fmin(sum.smact, 1) };
}
