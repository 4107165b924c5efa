/* SPDX-License-Identifier: MIT
 * Under ORDER_PLAN: what the planner of map/plan.h is told, and what becomes of its plan. A plan says who goes where and in
 * which order; each start is still asked of the filter. It is made anew when a task comes or ends, at most once a second, so
 * a burst of submissions costs no more than one.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "map/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOKED_AT 64		/* waiting tasks of a plan, in the order of the queue */
#define AGAIN_MS 1000
#define WORK 80000		/* steps x tasks of one plan: 20 to 50 milliseconds */
#define MOST_STEPS 4000
#define UNKNOWN_S 3600		/* what a task takes alone as long as none has ended */
#define KNOWN 0.75		/* with the time of fewer tasks than that known, a plan is worth nothing */
#define OVERDUE 0.125		/* part of its expected work that is left of a task which went on beyond it */

/* One that waits, as the plan has it. */
struct planned_task {
	struct plan_task p;
	uint32_t slots[SPEC_MAX_GPUS];
};

struct planning {
	uint32_t slots[PLAN_GPUS];
	size_t n_gpus;
	size_t n_known;		/* tasks whose time is known */
	struct planned_task waiting[LOOKED_AT];
	size_t n_waiting;
	int64_t made_ms;
};

void core_free_plan(struct core *c)
{
	free(c->plan);
}

/* What is expected -------------------------------------------------------------------------------------------------------- */

void core_note_work(struct core *c, double work_s)
{
	if (!isfinite(work_s))
		return;
	c->typical_n += c->typical_n < 100;
	c->typical_s += (work_s - c->typical_s) / c->typical_n;
}

/* Seconds that the task takes alone: what runs of its signature took, else its limit, else what tasks took here. */
static double expected_s(const struct core *c, const struct task *t, bool *known)
{
	struct estimate_history h = history_lookup(c->history, t->spec->signature, c->gpu_name);
	*known = isfinite(h.work_s) || t->time_limit_s;
	double s = isfinite(h.work_s) ? h.work_s : c->typical_n ? c->typical_s : UNKNOWN_S;
	return t->time_limit_s && ((double)t->time_limit_s < s || isnan(h.work_s)) ? (double)t->time_limit_s : s;
}

static double left_s(const struct core *c, const struct run *r, bool *known)
{
	double all = expected_s(c, r->t, known), done = core_measured(c, r).work_s;
	return fmax(isfinite(done) ? all - done : all, all * OVERDUE);
}

/* The problem ------------------------------------------------------------------------------------------------------------- */

static bool usable(const struct core *c, const struct map_gpu *g)
{
	return !g->drained && !g->stale && (g->foreign_mib <= MAP_FOREIGN_MIB || c->config.map.foreign_share);
}

/* Memory of tasks that ended is seen to be free within seconds: a plan may count on it. */
static uint64_t soon_free_mib(const struct core *c, uint32_t slot)
{
	const struct ledger *l = &c->slots[slot]->ledger;
	uint64_t mib = c->gpus[slot].available_mib;
	for (size_t i = 0; c->config.map.ledger && i < l->n; i++)
		mib += l->entries[i].exit_ms ? ledger_held_of(&l->entries[i]) : 0;
	return mib < c->gpus[slot].total_mib ? mib : c->gpus[slot].total_mib;
}

/* Returns false where there are more than a plan can hold. */
static bool list_gpus(const struct core *c, struct planning *k, struct plan_gpu *out)
{
	k->n_gpus = 0;
	for (uint32_t i = 0; i < c->n_slots; i++) {
		const struct map_gpu *g = &c->gpus[i];
		if (!usable(c, g))
			continue;
		if (k->n_gpus == PLAN_GPUS)
			return false;
		out[k->n_gpus] = (struct plan_gpu){ .total_mib = g->total_mib, .free_mib = soon_free_mib(c, i), .mode = g->mode,
			.first = g->mig ? SHARE_MIG : c->config.map.share == SHARE_MPS && g->mps_capable ? SHARE_MPS : SHARE_STREAMS };
		k->slots[k->n_gpus++] = i;
	}
	return k->n_gpus > 0;
}

static uint64_t bits_of(const struct planning *k, const uint32_t *slots, unsigned n)
{
	uint64_t set = 0;
	for (unsigned i = 0; i < n; i++)
		for (size_t g = 0; g < k->n_gpus; g++)
			set |= k->slots[g] == slots[i] ? (uint64_t)1 << g : 0;
	return set;
}

/* What was measured is rounded, so that plans do not hang on the order in which sums were made. */
static struct share_task rounded(struct share_task l)
{
	return (struct share_task){ round(l.gract * 1000) / 1000, round(l.smact * 1000) / 1000 };
}

static struct plan_task running_task(const struct core *c, struct planning *k, const struct run *r)
{
	bool known;
	struct plan_task p = { .id = r->t->id, .left_s = round(left_s(c, r, &known)), .gpus = r->n_slots, .load = { NAN, NAN },
			       .alone = task_attempt(r->t)->mode == SHARE_NEVER, .on = bits_of(k, r->slots, r->n_slots) };
	k->n_known += known;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = c->slots[r->slots[i]];
		const struct ledger_entry *e = ledger_find(&s->ledger, r->t->id);
		uint64_t held = e ? ledger_held_of(e) : 0;
		p.mib = held > p.mib ? held : p.mib;
		for (size_t x = 0; x < s->n_runs && s->n_tenants == s->n_runs; x++)
			if (s->runs[x] == r)
				p.load = rounded(s->tenants[x].load);
	}
	return p;
}

static bool list_running(const struct core *c, struct planning *k, struct plan *p)
{
	size_t at = 0;
	for (struct run *r; (r = idmap_next(&c->runs, &at));) {
		struct plan_task t = running_task(c, k, r);
		if (!t.on || r->exited)
			continue;
		if (p->n_running == PLAN_TASKS - LOOKED_AT)
			return false;
		p->tasks[p->n_running++] = t;
	}
	p->n = p->n_running;
	return true;
}

/* GPUs that it could have; only those that are kept for it, where there are enough: so it waits for what runs there now, and no
 * longer. */
static uint64_t may_use(const struct core *c, const struct planning *k, const struct map_request *r)
{
	uint64_t may = 0, kept = 0;
	for (size_t g = 0; g < k->n_gpus; g++) {
		const struct map_gpu *m = &c->gpus[k->slots[g]];
		if ((m->kept_for && m->kept_for != r->task) || !map_suits(&c->config.map, c->gpus, c->n_slots, r, m))
			continue;
		may |= (uint64_t)1 << g;
		kept |= m->kept_for ? (uint64_t)1 << g : 0;
	}
	return (unsigned)__builtin_popcountll(kept) >= r->gpus ? kept : may;
}

/* It was passed by others for as long as is allowed. */
static bool is_first(const struct core *c, const struct task *t)
{
	return c->passed_enough && c->head == t->id && c->passed == t->id;
}

static void add_waiting(struct core *c, struct planning *k, struct plan *p, struct task *t, const struct planned_task *before,
			struct now now)
{
	bool known;
	if (p->n == p->n_running + LOOKED_AT)
		return;
	struct map_request r = core_request(c, t, now);
	const struct map_policy *policy = &c->config.map;
	bool alone = r.exclusive || r.share == SHARE_NEVER || policy->share == SHARE_NEVER || policy->rank == RANK_EXCLUSIVE;
	r.planned = NULL;
	struct plan_task w = { .id = t->id, .load = rounded(r.self.load), .left_s = round(expected_s(c, t, &known)), .gpus = r.gpus,
			       .alone = alone, .mib = r.claim_mib ? r.claim_mib : c->config.map.min_free_mib,
			       .no_mps = r.share == SHARE_STREAMS || (r.gpus > 1 && !c->config.map.mps_multi_gpu),
			       .may = may_use(c, k, &r), .keeps = before ? before->p.keeps : false };
	if ((unsigned)__builtin_popcountll(w.may) < w.gpus)
		return;
	k->n_known += known;
	w.on = before ? bits_of(k, before->slots, w.gpus) & w.may : 0;
	w.on = (unsigned)__builtin_popcountll(w.on) == w.gpus ? w.on : 0;
	w.first = is_first(c, t);
	p->tasks[p->n++] = w;
}

static const struct planned_task *find(const struct planning *k, task_id id)
{
	for (size_t i = 0; k && i < k->n_waiting; i++)
		if (k->waiting[i].p.id == id)
			return &k->waiting[i];
	return NULL;
}

static bool waits(const struct core *c, const struct task *t)
{
	return t && t->queue == QUEUE_MAIN && queue_contains(c->queue, t);
}

/* The head if its time has come, then those of the last plan, in its order, then the others as they stand in the queue. */
static void list_waiting(struct core *c, struct planning *k, struct plan *p, struct now now)
{
	unsigned seen = 0;
	struct task *head = core_task(c, c->head);
	if (waits(c, head) && is_first(c, head))
		add_waiting(c, k, p, head, find(k, head->id), now);
	else
		head = NULL;
	for (size_t i = 0; i < k->n_waiting; i++) {
		struct task *t = core_task(c, k->waiting[i].p.id);
		if (waits(c, t) && t != head)
			add_waiting(c, k, p, t, &k->waiting[i], now);
	}
	for (struct task *t = queue_first(c->queue); t && seen < LOOKED_AT; t = queue_next(c->queue, t)) {
		if (!waits(c, t))
			continue;
		seen++;
		if (!find(k, t->id) && t != head)
			add_waiting(c, k, p, t, NULL, now);
	}
}

/* The plan ---------------------------------------------------------------------------------------------------------------- */

static void keep_plan(struct planning *k, const struct plan *p, struct now now)
{
	k->n_waiting = p->n - p->n_running;
	k->made_ms = now.mono_ms;
	for (size_t i = 0; i < k->n_waiting; i++) {
		struct planned_task *w = &k->waiting[i];
		unsigned n = 0;
		w->p = p->tasks[p->n_running + i];
		for (size_t g = 0; g < k->n_gpus; g++)
			if (w->p.on >> g & 1)
				w->slots[n++] = k->slots[g];
	}
}

/* Those who are not in the plan keep away from them too. */
static void keep_for_first(struct core *c, const struct planned_task *w, struct now now)
{
	for (unsigned i = 0; i < w->p.gpus; i++) {
		struct slot *s = c->slots[w->slots[i]];
		s->changed = s->changed || s->kept_for != w->p.id;
		s->kept_for = w->p.id;
	}
	core_map_gpus(c, now);
}

static unsigned steps_for(size_t n)
{
	size_t steps = WORK / (n ? n : 1);
	return steps < MOST_STEPS ? (unsigned)steps : MOST_STEPS;
}

static void make_plan(struct core *c, struct now now)
{
	struct plan_gpu gpus[PLAN_GPUS];
	struct plan_task tasks[PLAN_TASKS];
	struct plan p = { .gpus = gpus, .tasks = tasks, .slack_mib = c->config.map.slack_mib };
	struct planning *k = c->plan ? c->plan : (c->plan = alloc_zero(sizeof *k));
	for (size_t i = 0; i < c->n_slots; i++) {
		core_hold_slot(c, c->slots[i], now);
		c->slots[i]->changed = true;
	}
	core_map_gpus(c, now);
	c->plan_stale = false;
	k->n_known = 0;
	bool small = list_gpus(c, k, gpus) && list_running(c, k, &p);
	if (small)
		list_waiting(c, k, &p, now);
	p.n_gpus = k->n_gpus;
	if (small && (double)k->n_known >= KNOWN * (double)p.n)
		plan_improve(&p, steps_for(p.n));
	else
		p.n = p.n_running = 0;
	keep_plan(k, &p, now);
	if (k->n_waiting && k->waiting[0].p.first)
		keep_for_first(c, &k->waiting[0], now);
}

bool core_planned(const struct core *c, struct map_request *r, struct now now)
{
	const struct planned_task *w = c->config.order == ORDER_PLAN ? find(c->plan, r->task) : NULL;
	if (!w || w->p.gpus != r->gpus)
		return false;
	r->planned = w->slots;
	r->later = true;
	r->planned_s = fmax(w->p.start_s - (double)(now.mono_ms - c->plan->made_ms) / 1000, 0);
	return true;
}

bool core_plan_to_come(const struct core *c)
{
	return c->config.order == ORDER_PLAN && c->plan_stale && c->plan && c->plan->n_waiting;
}

int64_t core_plan_due(const struct core *c, struct now now)
{
	if (c->config.order != ORDER_PLAN || !c->plan_stale || !queue_length(c->queue))
		return INT64_MAX;
	return c->plan && c->plan->made_ms + AGAIN_MS > now.mono_ms ? c->plan->made_ms + AGAIN_MS : now.mono_ms;
}

void core_follow_plan(struct core *c, struct now now)
{
	uint64_t kept = 0;
	if (core_plan_due(c, now) <= now.mono_ms)
		make_plan(c, now);
	/* None yet where the only tasks were recovering ones, which have just been placed. */
	for (size_t i = 0; c->plan && i < c->plan->n_waiting; i++) {
		struct planned_task *w = &c->plan->waiting[i];
		struct task *t = core_task(c, w->p.id);
		if (!waits(c, t))
			continue;
		core_refresh_estimate(c, t, now);
		struct map_request r = core_request(c, t, now);
		r.later = false;
		if (!(w->p.on & kept) && core_try_request(c, t, &r, now))
			continue;
		kept |= w->p.keeps ? w->p.on : 0;
	}
}
