/* SPDX-License-Identifier: MIT
 *
 * Under ORDER_PLAN: what the planner of map/plan.h is told, and what becomes of its plan. A plan says who goes where and in
 * which order; each start is still asked of the filter. It is made anew when a task or a GPU comes or goes, at most once a
 * second, so a burst of submissions costs no more than one.
 */
#include "core/pass_private.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

#define AGAIN_MS 1000
#define WORK 80000		/* steps x tasks of one plan: 10 to 25 milliseconds */
#define MOST_STEPS 4000
#define KNOWN 0.5		/* with the time of fewer tasks than that known, a plan is worth nothing */
#define MEAN_SURE 0.2		/* what the mean of all ends counts where nothing of those who wait is guessed, */
#define MEAN 0.05		/* and elsewhere */
#define UNKNOWN_LOAD 0.7	/* what a plan takes a load for that nobody knows, more than placement does: decision 215 */
#define PATIENT_S (10 * ESTIMATES_BEGIN_S)	/* who has less to do than that is not held back: to begin is a good part of it */

/* The problem --------------------------------------------------------------------------------------------------------- */

/* While no task of a signature has ended yet, the running ones tell by their progress how long the others will take: so the
 * time of a workload is known soon after the first of its tasks began. */
struct siblings {
	struct { const char *signature; double sum_s; unsigned n; } list[PLAN_TASKS];
	size_t n;
};

static void siblings_note(struct siblings *all, const char *signature, double work_s)
{
	size_t i = 0;
	if (!signature || !(work_s > 0))
		return;
	while (i < all->n && strcmp(all->list[i].signature, signature))
		i++;
	if (i == all->n)
		all->list[all->n++].signature = signature;
	all->list[i].sum_s += work_s;
	all->list[i].n++;
}

static double siblings_say_s(const struct siblings *all, const char *signature)
{
	for (size_t i = 0; signature && i < all->n; i++)
		if (!strcmp(all->list[i].signature, signature))
			return all->list[i].sum_s / all->list[i].n;
	return NAN;
}

static uint64_t plan_usable(struct pass *p, struct now now)
{
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	uint64_t usable = 0;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		usable += map_is_usable(&p->config->map, &gpus[i]) ? hash_bytes(HASH_SEED, &i, sizeof i) : 0;
	return usable;
}

/* Memory of tasks that ended is seen to be free within seconds: a plan may count on it. */
static uint64_t soon_free_mib(const struct pass *p, const struct map_gpu *g, struct now now)
{
	uint64_t leaving = p->config->map.ledger ? fleet_look(p->fleet, g->slot, now.mono_ms).leaving_mib : 0;
	uint64_t mib = g->available_mib + leaving;
	return mib < g->total_mib ? mib : g->total_mib;
}

/* What tasks have between them: without what is foreign, which may stay for ever. */
static uint64_t plan_total_mib(const struct map_gpu *g)
{
	return g->total_mib > g->foreign_mib ? g->total_mib - g->foreign_mib : 0;
}

/* Returns false where there are more than a plan can hold. */
static bool plan_list_gpus(struct pass *p, const struct map_gpu *gpus, struct plan_gpu *out, struct now now)
{
	struct planning *k = &p->plan;
	k->n_gpus = 0;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++) {
		const struct map_gpu *g = &gpus[i];
		if (!map_is_usable(&p->config->map, g))
			continue;
		if (k->n_gpus == PLAN_GPUS)
			return false;
		out[k->n_gpus] = (struct plan_gpu){ .total_mib = plan_total_mib(g), .free_mib = soon_free_mib(p, g, now), .mode = g->mode,
			.first = g->mig ? SHARE_MIG : p->config->map.share == SHARE_MPS && g->mps_capable ? SHARE_MPS : SHARE_STREAMS };
		k->slots[k->n_gpus++] = i;
	}
	return k->n_gpus > 0;
}

/* Lists the GPUs as of now. To bring them up to now costs as much as there are GPUs and tasks, so that is not done where there
 * are more than a plan can hold. */
static bool plan_look(struct pass *p, struct plan_gpu *out, struct now now)
{
	if (!plan_list_gpus(p, fleet_gpus(p->fleet, now), out, now))
		return false;
	fleet_advance_all(p->fleet, now);
	return plan_list_gpus(p, fleet_gpus(p->fleet, now), out, now);
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
static double plan_load(double load)
{
	return round(load * 1000) / 1000;
}

static struct share_task plan_loads(struct share_task l)
{
	return share_filled((struct share_task){ plan_load(l.gract), plan_load(l.smact), l.kernels }, UNKNOWN_LOAD);
}

/* How much of its beginning a task has left that did so much of its work (NaN: not known; it is taken to have begun). */
static double begin_left_s(double left_s, double done_s)
{
	return done_s < ESTIMATES_BEGIN_S ? fmin(ESTIMATES_BEGIN_S - done_s, left_s / 2) : 0;
}

/* As a plan has it: whole seconds, 0: none. */
static double plan_clock_s(double clock_s)
{
	return isfinite(clock_s) ? fmax(round(clock_s), 1) : 0;
}

static bool plan_list_running(struct pass *p, struct plan *out, struct siblings *all, struct now now)
{
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(p->fleet, &at, &r);) {
		const struct time_left left = estimates_left(p->estimates, &r, now);
		struct plan_task t = { .id = r.task->id, .left_s = round(left.s), .gpus = r.n_slots,
				       .mib = r.held_mib, .load = plan_loads(r.load), .alone = task_attempt(r.task)->mode == SHARE_NEVER,
				       .on = bits_of(&p->plan, r.slots, r.n_slots), .clock_s = plan_clock_s(left.clock_s) };
		t.begin_s = begin_left_s(t.left_s, r.work_s);
		if (!t.on)
			continue;
		if (out->n_running == PLAN_TASKS - PLAN_WAITING)
			return false;
		p->plan.n_known += left.known;
		siblings_note(all, task_signature(r.task), r.work_s + r.left_s);
		out->tasks[out->n_running++] = t;
	}
	out->n = out->n_running;
	return true;
}

/* The GPUs that the request could have. If enough are kept for it, only those: so it waits for what runs there now, and no
 * longer. */
static uint64_t may_use(const struct pass *p, const struct map_gpu *gpus, const struct map_request *r)
{
	const struct map_scene s = { &p->config->map, gpus, fleet_size(p->fleet), NULL };
	const struct planning *k = &p->plan;
	uint64_t may = 0, kept = 0;
	for (size_t g = 0; g < k->n_gpus; g++) {
		const struct map_gpu *m = &gpus[k->slots[g]];
		if ((m->kept_for && m->kept_for != r->task) || !map_suits(&s, r, m))
			continue;
		may |= (uint64_t)1 << g;
		kept |= m->kept_for ? (uint64_t)1 << g : 0;
	}
	return (unsigned)__builtin_popcountll(kept) >= r->gpus ? kept : may;
}

/* What is listed, and of it, what each user would have if all of it ran. */
struct plan_listing {
	struct plan *out;
	const struct siblings *siblings;
	bool all_sure;
	struct { uid_t uid; struct fair_taken taken; } users[PLAN_WAITING];
	size_t n_users;
};

/* Whether the user may have the task beside the user's tasks that are listed already: one that waits for the user's own tasks
 * to end is not planned. If so, the caller lists it next, and the user's row says so: rows are made for listed tasks only, so
 * there are no more rows than places. */
static bool listing_allows(struct pass *p, struct plan_listing *l, const struct map_request *r)
{
	const struct allowance a = pass_allowance(p, r->uid);
	const struct fair_taken more = pass_would_take(p, r);
	bool never;
	size_t at = 0;
	if (!allowance_limits(&a))
		return true;
	while (at < l->n_users && l->users[at].uid != r->uid)
		at++;
	struct fair_taken taken = at < l->n_users ? l->users[at].taken : fair_taken_of(p->fair, r->uid);
	if (allowance_refuses(&a, &taken, &more, &never) != ALLOWANCE_COUNT)
		return false;
	l->n_users += at == l->n_users;
	l->users[at].uid = r->uid;
	l->users[at].taken = (struct fair_taken){ taken.tasks + 1, taken.gpus + more.gpus, taken.mib + more.mib };
	return true;
}

/* How long the task takes alone, in seconds; *how: what tells it, running siblings being as good as earlier runs. */
static double plan_work_s(struct pass *p, const struct siblings *all, const struct task *t, enum work_known *how)
{
	double work_s = estimates_work_s(p->estimates, t, how), theirs_s = siblings_say_s(all, task_signature(t));
	if (*how < WORK_COUNTED || isnan(theirs_s))
		return work_s;
	*how = WORK_RUNS;
	return theirs_s;
}

/* Whether the task's time and load were seen, and not guessed by a capture: a task that is held back because of a guess may
 * wait in vain. */
static bool plan_is_sure(const struct pass *p, const struct task *t, enum work_known how)
{
	return how < WORK_COUNTED && estimates_load(p->estimates, t, fleet_first_model(p->fleet)).source > LOAD_GUESSED;
}

/* A plan shifts tasks, not users: a user who has nothing running is not held back for others. */
static bool plan_may_hold(const struct pass *p, const struct plan *out, const struct plan_task *w, uid_t uid)
{
	return !w->first && w->left_s >= PATIENT_S && (fair_taken_of(p->fair, uid).gpus || !out->n_running);
}

/* A task that lacks memory or CPUs of the host could not start on GPUs that a plan keeps for it: it waits as under backfill,
 * until some are given back, which makes a new plan. */
static void plan_add_waiting(struct pass *p, struct plan_listing *l, const struct task *t, const struct planned *before,
			     bool first, struct now now)
{
	struct planning *k = &p->plan;
	struct plan *out = l->out;
	if (out->n == out->n_running + PLAN_WAITING || host_asks(p->host, t, NULL, NULL))
		return;
	const struct map_policy *policy = &p->config->map;
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	struct map_request r = pass_request(p, t, now);
	r.planned = NULL;
	struct plan_task w = { .id = t->id, .load = plan_loads(r.self.load),
			       .gpus = r.gpus, .alone = map_wants_alone(policy, &r), .mib = map_claim_mib(policy, &r),
			       .no_mps = r.share == SHARE_STREAMS || (r.gpus > 1 && !policy->mps_multi_gpu),
			       .may = may_use(p, gpus, &r), .keeps = before ? before->p.keeps : false, .first = first };
	if ((unsigned)__builtin_popcountll(w.may) < w.gpus || !listing_allows(p, l, &r))
		return;
	enum work_known how;
	w.left_s = round(plan_work_s(p, l->siblings, t, &how));
	w.clock_s = plan_clock_s(estimates_clock_s(p->estimates, t, now));
	w.left_s = w.clock_s > 0 ? fmin(w.left_s, w.clock_s) : w.left_s;
	w.begin_s = begin_left_s(w.left_s, 0);
	bool sure = plan_is_sure(p, t, how);
	k->n_known += how != WORK_UNKNOWN;
	l->all_sure = l->all_sure && sure;
	w.patient = sure && plan_may_hold(p, out, &w, r.uid);
	w.among = before && w.patient ? before->p.among : 0;
	w.on = before ? bits_of(k, before->slots, w.gpus) & w.may : 0;
	w.on = (unsigned)__builtin_popcountll(w.on) == w.gpus ? w.on : 0;
	out->tasks[out->n++] = w;
}

/* One that is to start alone knows its place: the first GPU that empties. */
static bool is_plannable(const struct task *t)
{
	return t->queue == QUEUE_MAIN || !t->exclusive_next;
}

static bool plan_waits(const struct pass *p, const struct task *t)
{
	return t && is_plannable(t) && tasks_in_queue(p->tasks, t);
}

/* The first of the queues, in their order, without those who lack GPUs that are out of use; by_turn[i]: it is the next of its
 * user in the main queue. Returns how many. */
static size_t plan_walk(const struct pass *p, const struct task *tasks[PLAN_WAITING], bool by_turn[PLAN_WAITING])
{
	size_t n = 0;
	struct queue_walk w;
	queue_walk_begin_past(&w, tasks_queue(p->tasks), QUEUE_RECOVERY, p->aside);
	for (const struct task *t; n < PLAN_WAITING && (t = queue_walk_next(&w));) {
		if (!is_plannable(t))
			continue;
		tasks[n] = t;
		by_turn[n] = t->queue == QUEUE_MAIN;
		for (size_t i = 0; i < n && by_turn[n]; i++)
			by_turn[n] = !by_turn[i] || tasks[i]->spec->uid != t->spec->uid;
		n++;
	}
	queue_walk_end(&w);
	return n;
}

/* Whether it is not listed yet among the first; of one that is not among these tasks at all, `others`. */
static bool is_behind(const struct task *const *tasks, const bool *first, size_t n, const struct task *t, bool others)
{
	for (size_t i = 0; i < n; i++)
		if (tasks[i] == t)
			return !first[i];
	return others;
}

/* The head if its time has come; where several users wait, the next of each, in the order of their turns, since a plan may
 * shift tasks but not users, and for whom GPUs are vacated; then those of the last plan, in its order; then the others as they
 * stand in the queue. Those that recover are planned as well as tried before the plan (pass.c): it has some start where they
 * would wait for gain. */
static void plan_list_waiting(struct pass *p, struct plan *out, const struct siblings *all, struct now now)
{
	const struct planning *k = &p->plan;
	const struct task *queued[PLAN_WAITING], *head = tasks_find(p->tasks, p->head.task);
	bool first[PLAN_WAITING], several = p->config->fair.on && queue_users(tasks_queue(p->tasks)) > 1;
	struct plan_listing l = { .out = out, .siblings = all, .all_sure = true };
	size_t n = plan_walk(p, queued, first);
	for (size_t i = 0; i < n; i++)
		first[i] = (several && first[i]) || pass_vacated_for(p, queued[i]->id);
	if (!plan_waits(p, head) || !pass_is_first(p, head->id))
		head = NULL;
	if (head)
		plan_add_waiting(p, &l, head, pass_planned(p, head->id), true, now);
	for (size_t i = 0; i < n; i++)
		if (first[i] && queued[i] != head)
			plan_add_waiting(p, &l, queued[i], pass_planned(p, queued[i]->id), true, now);
	for (size_t i = 0; i < k->n_waiting; i++) {
		const struct task *t = tasks_find(p->tasks, k->waiting[i].p.id);
		if (plan_waits(p, t) && t != head && is_behind(queued, first, n, t, !several))
			plan_add_waiting(p, &l, t, &k->waiting[i], false, now);
	}
	for (size_t i = 0; i < n; i++)
		if (!first[i] && queued[i] != head && !pass_planned(p, queued[i]->id))
			plan_add_waiting(p, &l, queued[i], NULL, false, now);
	for (size_t i = out->n_running; i < out->n; i++)
		while (out->tasks[i].turn < n && queued[out->tasks[i].turn]->id != out->tasks[i].id)
			out->tasks[i].turn++;
	out->mean = l.all_sure ? MEAN_SURE : MEAN;
}

/* The plan ------------------------------------------------------------------------------------------------------------ */

/* Bits of the planner's GPUs become slots, which stay when GPUs come and go. */
static void plan_keep(struct planning *k, const struct plan *made)
{
	k->n_waiting = made->n - made->n_running;
	for (size_t i = 0; i < k->n_waiting; i++) {
		struct planned *w = &k->waiting[i];
		unsigned n = 0;
		w->p = made->tasks[made->n_running + i];
		for (size_t g = 0; g < k->n_gpus; g++)
			if (w->p.on >> g & 1)
				w->slots[n++] = k->slots[g];
	}
}

static unsigned steps_for(size_t n)
{
	size_t steps = WORK / (n ? n : 1);
	return steps < MOST_STEPS ? (unsigned)steps : MOST_STEPS;
}

/* What it goes by is noted before the plan is made, so that whatever moves meanwhile makes it outdated at once. Where no useful
 * plan can be made (too many GPUs or tasks, or too little known), the plan is empty, and the order is that of backfill. */
static void plan_make(struct pass *p, struct now now)
{
	struct plan_gpu gpus[PLAN_GPUS];
	struct plan_task tasks[PLAN_TASKS];
	struct plan made = { .gpus = gpus, .tasks = tasks, .slack_mib = p->config->map.slack_mib };
	struct planning *k = &p->plan;
	struct siblings all = { .n = 0 };
	k->as_of = tasks_version(p->tasks) + fleet_told(p->fleet);
	k->usable = plan_usable(p, now);
	k->broken = k->other_gpus = false;
	k->n_known = 0;
	bool small = plan_look(p, gpus, now) && plan_list_running(p, &made, &all, now);
	if (small)
		plan_list_waiting(p, &made, &all, now);
	made.n_gpus = k->n_gpus;
	k->n_asked = small && made.n > made.n_running ? made.n : 0;
	if (k->n_asked && (double)k->n_known >= KNOWN * (double)made.n)
		plan_improve(&made, steps_for(made.n));
	else
		made.n = made.n_running = 0;
	plan_keep(k, &made);
	k->made_ms = now.mono_ms;
	/* Those who are not in the plan keep away from the first one's GPUs too. */
	for (unsigned i = 0; k->n_waiting && pass_is_first(p, k->waiting[0].p.id) && i < k->waiting[0].p.gpus; i++)
		fleet_keep(p->fleet, k->waiting[0].slots[i], k->waiting[0].p.id);
}

/* A GPU that was undrained, answers again or was left by processes that are not ours idles else until a task comes or ends: who
 * is planned goes to no other GPU. One that went keeps who is planned there waiting. */
void pass_watch_gpus(struct pass *p, struct now now)
{
	struct planning *k = &p->plan;
	k->other_gpus = k->n_waiting && k->usable != plan_usable(p, now);
}

/* Whether, since the plan was made, a task came, ended, was changed or first told when it will end, or other GPUs are kept or
 * can be used. Placements do not count, since they were planned. */
static bool is_outdated(const struct pass *p)
{
	const struct planning *k = &p->plan;
	return !k->made_ms || k->broken || k->other_gpus || k->as_of != tasks_version(p->tasks) + fleet_told(p->fleet);
}

/* What an outdated plan counted is not what runs and waits now. */
bool pass_plan_lacks_times(const struct pass *p, size_t *known, size_t *asked)
{
	*known = p->plan.n_known, *asked = p->plan.n_asked;
	return p->config->order == ORDER_PLAN && *asked && !p->plan.n_waiting && !is_outdated(p);
}

/* No task behind the head may start before a plan that is due has placed those before it. If the last plan was empty the next
 * one may be too, so then nobody waits for it. */
bool pass_plan_to_come(const struct pass *p)
{
	return p->config->order == ORDER_PLAN && p->plan.n_waiting && is_outdated(p);
}

int64_t pass_plan_due(const struct pass *p, struct now now)
{
	if (p->config->order != ORDER_PLAN || !tasks_queued(p->tasks) || !is_outdated(p))
		return INT64_MAX;
	int64_t again_ms = p->plan.made_ms + AGAIN_MS;
	return p->plan.made_ms && again_ms > now.mono_ms ? again_ms : now.mono_ms;
}

/* The GPUs of the task's feed on which the plan has no other task start: if the task was planned elsewhere to leave a GPU to
 * another, it stays there. */
static struct map_company plan_company(const struct pass *p, const struct task *t)
{
	const struct map_company all = fleet_company(p->fleet, t->spec->uid, t->spec->feed);
	struct map_company free = { .n = 0 };
	uint64_t wanted = 0;
	for (size_t i = 0; all.n && i < p->plan.n_waiting; i++) {
		const struct plan_task *other = &p->plan.waiting[i].p;
		wanted |= other->id != t->id && plan_waits(p, tasks_find(p->tasks, other->id)) ? other->on : 0;
	}
	for (unsigned i = 0; i < all.n; i++)
		if (!(bits_of(&p->plan, &all.slots[i], 1) & wanted))
			free.slots[free.n++] = all.slots[i];
	return free;
}

/* If the task went to GPUs of its feed instead, the others are planned anew: their plan counts on the GPUs that it took, and
 * not on those that it left. */
static void plan_note_place(struct pass *p, const struct planned *w)
{
	const uint32_t *slots;
	unsigned n = fleet_slots_of(p->fleet, w->p.id, &slots);
	p->plan.broken = p->plan.broken || (n && bits_of(&p->plan, slots, n) != w->p.on);
}

/* Tries tasks in the plan's order. A task that keeps its GPUs while it waits lets no task after it have them. */
void pass_follow_plan(struct pass *p, struct now now)
{
	uint64_t kept = 0;
	if (pass_plan_due(p, now) <= now.mono_ms)
		plan_make(p, now);
	for (size_t i = 0; i < p->plan.n_waiting; i++) {
		const struct planned *w = &p->plan.waiting[i];
		struct task *t = tasks_find(p->tasks, w->p.id);
		if (!plan_waits(p, t))
			continue;
		bool never;
		estimates_refresh(p->estimates, t, now);
		struct map_request r = pass_request(p, t, now);
		r.later = false;
		if (pass_refused(p, &r, &never) != ALLOWANCE_COUNT)
			continue;
		r.company = plan_company(p, t);
		if (!(w->p.on & kept) && pass_try(p, t, &r, now)) {
			plan_note_place(p, w);
			continue;
		}
		kept |= w->p.keeps ? w->p.on : 0;
	}
}
