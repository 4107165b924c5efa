/* SPDX-License-Identifier: MIT
 * What joining a GPU would do to those who run there and to the newcomer, by the model of share. See map.h for the rules.
 */
#include "map/filter.h"

#include <math.h>

/* More tasks than any GPU is meant for; beyond that nothing is predicted, and nobody joins who must be sure. */
#define MOST_TASKS 64

/* The newcomer comes last. */
struct forecast_group {
	struct share_task loads[MOST_TASKS + 1];
	double speed[MOST_TASKS + 1];
	size_t n;
};

static void forecast_gather(struct forecast_group *all, const struct map_gpu *g)
{
	for (all->n = 0; all->n < g->n_tasks; all->n++)
		all->loads[all->n] = g->tenants ? g->tenants[all->n].load : (struct share_task){ NAN, NAN };
}

/* Kernels count by a law of their own, where they are known of all (share/share.h). What two laws say is no gain or loss: where
 * the newcomer's are not known, those of the others are not either, nor were they before. Whether that changes what is known
 * there. */
static bool forecast_add(struct forecast_group *all, struct share_task newcomer)
{
	bool less = false;
	for (size_t i = 0; i < all->n && !(newcomer.kernels > 0); i++) {
		less = less || all->loads[i].kernels > 0;
		all->loads[i].kernels = 0;
	}
	all->loads[all->n++] = newcomer;
	return less;
}

/* The activity that the first n compete for, together. Sets their speeds. */
static double forecast_work(struct forecast_group *all, size_t n, enum share_mode mode)
{
	share_speeds(all->loads, n, mode, all->speed);
	struct share_activity a = share_activity(all->loads, n, all->speed);
	return mode == SHARE_MPS ? a.smact : a.gract;
}

double map_work(const struct map_gpu *g)
{
	struct forecast_group all;
	if (g->n_tasks > MOST_TASKS)
		return 1;	/* nobody is told */
	forecast_gather(&all, g);
	return forecast_work(&all, all.n, g->mode);
}

static double forecast_gain(struct forecast_group *all, double before, enum share_mode mode)
{
	static const double full = 1;
	size_t n = all->n - 1;
	struct share_activity alone = share_activity(&all->loads[n], 1, &full);
	/* No more than all of the newcomer's work: sums are rounded, and by the law of launches a third one may run faster. */
	return fmin((forecast_work(all, all->n, mode) - before) / (mode == SHARE_MPS ? alone.smact : alone.gract), 1);
}

static double limit_of(const struct map_ask *ask, const struct map_gpu *g, size_t i)
{
	const struct map_tenant *t = i == g->n_tasks ? &ask->r->self : g->tenants ? &g->tenants[i] : NULL;
	return t && t->max_slowdown > 0 ? t->max_slowdown : ask->p->max_slowdown;
}

static enum map_reason forecast_too_slow(const struct map_ask *ask, const struct map_gpu *g, const struct forecast_group *all,
					 struct map_answer *a)
{
	for (size_t i = 0; i < all->n; i++) {
		double limit = limit_of(ask, g, i), slower = 1 / all->speed[i];
		if (limit <= 0 || slower <= limit + MAP_EPSILON)
			continue;
		a->have = slower, a->want = limit;
		return MAP_SLOWDOWN;
	}
	return MAP_OK;
}

enum map_reason map_forecast(const struct map_ask *ask, const struct map_gpu *g, struct map_answer *a)
{
	struct forecast_group all;
	if (g->n_tasks > MOST_TASKS) {
		a->have = g->n_tasks, a->want = MOST_TASKS;
		return MAP_TASKS;
	}
	forecast_gather(&all, g);
	bool less = forecast_add(&all, ask->r->self.load);
	double before = g->work > 0 && !less ? g->work : forecast_work(&all, g->n_tasks, a->mode);
	a->gain = forecast_gain(&all, before, a->mode);	/* leaves the speeds of all */
	return forecast_too_slow(ask, g, &all, a);
}
