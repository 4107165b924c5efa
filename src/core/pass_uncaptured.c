/* SPDX-License-Identifier: MIT
 *
 * Tasks that begin before their captures are made (decision 246). A capture says in seconds to minutes what a task takes, for
 * which it is worth to wait where GPUs are shared. A GPU that nobody uses and nobody else wants has nothing to gain by that:
 * the task begins there as one of which nothing is known, and nobody joins it before its capture is there or it was seen
 * (fleet_map.c).
 */
#include "core/pass_private.h"

#include "base/alloc.h"
#include "base/scope.h"

/* A smaller GPU than the largest that it may have may be too small for it. Returns how many. */
static size_t list_idle(struct pass *p, const struct task *t, uint32_t *slots, struct now now)
{
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	uint64_t largest_mib = pass_largest_mib(p, t->spec);
	size_t n = 0;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		if (map_is_idle(&gpus[i]) && map_is_as_large(&gpus[i], largest_mib))
			slots[n++] = i;
	return n;
}

/* As the queue has it, but for whose turn it is: that is for those who wait for GPUs. */
static bool goes_before(const struct task *a, const struct task *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->queued_ms != b->queued_ms ? a->queued_ms < b->queued_ms : a->id < b->id;
}

static bool fits_idle(struct pass *p, const struct task *t, struct placement *out, struct now now)
{
	bool never;
	struct map_few few;
	const struct map_request r = pass_request(p, t, now);
	if (pass_refused(p, &r, &never) != ALLOWANCE_COUNT || host_asks(p->host, t, NULL, NULL))
		return false;
	scoped_free uint32_t *idle = alloc_zero(fleet_size(p->fleet) * sizeof *idle);
	size_t n = list_idle(p, t, idle, now);
	const struct map_scene s = pass_scene(p, now);
	return n && map_place_among(&s, &r, idle, n, out, &few);
}

/* It is asked twice what it wants, since it may have declared that, and waits for its load alone. */
static bool begin_one(struct pass *p, struct now now)
{
	struct task *first = NULL;
	struct placement where;
	size_t at = 0;
	for (struct task *t; (t = estimates_next_uncaptured(p->estimates, &at));)
		if ((!first || goes_before(t, first)) && fits_idle(p, t, &where, now))
			first = t;
	if (!first)
		return false;
	estimates_do_without(p->estimates, first, now);
	/* Not where another slow estimator is asked now, or another daemon was quicker. */
	if (!tasks_in_queue(p->tasks, first) || !fits_idle(p, first, &where, now) ||
	    !fleet_may_place(p->fleet, &where, first->spec->uid, where.mode == SHARE_NEVER))
		return false;
	const struct map_request r = pass_request(p, first, now);
	pass_place_there(p, first, &r, &where, now);
	return true;
}

static bool any_idle(struct pass *p, struct now now)
{
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	for (size_t i = 0; i < fleet_size(p->fleet); i++)
		if (map_is_idle(&gpus[i]) && map_is_usable(&p->config->map, &gpus[i]))
			return true;
	return false;
}

/* Thousands may wait for their captures while all GPUs are taken, and each that comes makes a pass: nobody is asked then. */
void pass_begin_uncaptured(struct pass *p, struct now now)
{
	while (!tasks_queued(p->tasks) && estimates_open(p->estimates) && any_idle(p, now) && begin_one(p, now))
		;
}
