/* SPDX-License-Identifier: MIT
 *
 * GPUs kept free for those that go first: one recovering task, and one head of the main queue. Whose they are stands on the
 * slots, where placement sees it; here stands for whom, and since when.
 */
#include "core/pass_private.h"

#define PROMISE_SLIP 2	/* a start that is planned in an hour may come in two, and pass_max later, before GPUs are kept for it */

void pass_give_up(struct pass *p, task_id id)
{
	if (!id || (id != p->keeping && id != p->head))
		return;
	if (id == p->keeping)
		p->keeping = 0;
	else
		p->head = 0;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		if (fleet_kept_for(p->fleet, i) == id)
			fleet_keep(p->fleet, i, 0);
	p->asked = true;
}

bool pass_keeps_anything_for(const struct pass *p, task_id id)
{
	return id == p->keeping || (id == p->head && p->passed == id && p->passed_enough);
}

/* The slot with the fewest tasks among those that may be kept for it: under way to be free, and nobody else's. */
static int64_t least_busy(const struct pass *p, const struct map_gpu *gpus)
{
	int64_t best = -1;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++) {
		const struct map_gpu *g = &gpus[i];
		task_id kept = fleet_kept_for(p->fleet, i);
		if (g->drained || g->stale || g->mig || (kept && kept != p->head))
			continue;
		if (best < 0 || g->n_tasks < gpus[best].n_tasks)
			best = i;
	}
	return best;
}

void pass_keep_for_recovering(struct pass *p, const struct task *t, struct now now)
{
	int64_t slot;
	if (p->keeping == t->id)
		return;
	pass_give_up(p, p->keeping);
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	for (unsigned k = 0; k < t->spec->gpus && (slot = least_busy(p, gpus)) >= 0; k++)
		fleet_keep(p->fleet, (uint32_t)slot, t->id);
	p->keeping = t->id;
	p->keep_since_ms = now.mono_ms;
}

bool pass_kept_long_enough(const struct pass *p, task_id id, struct now now)
{
	return p->keeping == id && now.mono_ms - p->keep_since_ms >= p->config->recover.keep_max_ms;
}

/* A head that was overtaken (by priority, by a release) loses what was kept for it; `passed` stays, so that it does not begin
 * to wait anew when those before it are placed. */
void pass_lead(struct pass *p, const struct task *t)
{
	if (p->head == t->id)
		return;
	pass_give_up(p, p->head);
	p->head = t->id;
}

bool pass_is_first(const struct pass *p, task_id id)
{
	return p->passed_enough && p->head == id && p->passed == id;
}

static int64_t fewest_tasks(const struct pass *p, const struct map_gpu *gpus, const struct map_request *r)
{
	int64_t best = -1;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		if (!fleet_kept_for(p->fleet, i) && (best < 0 || gpus[i].n_tasks < gpus[best].n_tasks) &&
		    map_suits(&p->config->map, gpus, fleet_size(p->fleet), r, &gpus[i]))
			best = i;
	return best;
}

/* Of the GPUs kept for it, those that still suit stay. Returns how many. */
static unsigned drop_unsuited(struct pass *p, const struct map_gpu *gpus, const struct map_request *r)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++) {
		if (fleet_kept_for(p->fleet, i) != r->task)
			continue;
		if (map_suits(&p->config->map, gpus, fleet_size(p->fleet), r, &gpus[i]))
			n++;
		else
			fleet_keep(p->fleet, i, 0);
	}
	return n;
}

void pass_keep_for_head(struct pass *p, const struct map_request *r, struct now now)
{
	if (p->passed != r->task) {
		p->passed = r->task;
		p->passed_since_ms = now.mono_ms + (r->planned ? (int64_t)(r->planned_s * PROMISE_SLIP * 1000) : 0);
	}
	bool enough = now.mono_ms - p->passed_since_ms >= p->config->pass_max_ms;
	p->wish += enough && !p->passed_enough;
	p->passed_enough = enough;
	if (!enough || r->planned)
		return;		/* the next plan keeps what a planned one needs */
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	int64_t slot;
	for (unsigned n = drop_unsuited(p, gpus, r); n < r->gpus && (slot = fewest_tasks(p, gpus, r)) >= 0; n++) {
		fleet_keep(p->fleet, (uint32_t)slot, r->task);
		p->wish++;
	}
}

static int64_t keeping_ends_ms(const struct pass *p)
{
	return p->keeping ? p->keep_since_ms + p->config->recover.keep_max_ms : INT64_MAX;
}

static int64_t passing_ends_ms(const struct pass *p)
{
	bool counts = p->head && p->head == p->passed && !p->passed_enough;
	return counts ? p->passed_since_ms + p->config->pass_max_ms : INT64_MAX;
}

/* Both end by time alone, so no version moves: the pass is asked for. */
int64_t pass_watch_keeping(struct pass *p, struct now now)
{
	int64_t keeping = keeping_ends_ms(p), passing = passing_ends_ms(p), due = INT64_MAX;
	p->asked = p->asked || keeping <= now.mono_ms || passing <= now.mono_ms;
	due = keeping > now.mono_ms && keeping < due ? keeping : due;
	return passing > now.mono_ms && passing < due ? passing : due;
}
