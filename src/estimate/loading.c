/* SPDX-License-Identifier: MIT
 * See loading.h. Figures of a capture are people's word: bounded, and no more likely for it.
 */
#include "estimate/loading.h"

#include <math.h>

static bool loading_tells(const struct capture_loader *l)
{
	return l->measured >= LOADING_LEAST && l->batches && l->steps && (double)l->cpu_us <= LOADING_MOST_S * 1e6;
}

struct loading loading_of(const struct capture *c)
{
	struct loading sum = { .known = c->n_loaders > 0 };

	for (size_t i = 0; i < c->n_loaders; i++) {
		const struct capture_loader *l = &c->loaders[i];
		double s = (double)l->cpu_us / 1e6 * (double)l->batches / (double)l->steps;

		if (!loading_tells(l))
			return (struct loading){ 0 };
		sum.main_s += l->workers ? 0 : s;
		sum.workers_s += l->workers ? s : 0;
		sum.bound_s = fmax(sum.bound_s, l->workers ? s / (double)l->workers : 0);
		sum.workers += (unsigned)l->workers;
	}
	return sum;
}

double loading_cores(const struct loading *l, double step_s)
{
	return l->known && step_s > 0 ? 1 + l->workers_s / step_s : 0;
}
