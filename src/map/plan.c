/* SPDX-License-Identifier: MIT
 * A plan is played from event to event: whoever may start starts, then time goes on to the next end. Places are numbers of
 * tasks in the caller's array, so that a plan that is tried is only an order and a few words per task.
 *
 * A search plays a thousand plans that differ little, so playing is what it costs. Five things keep that down, none of which
 * changes what is found: who did not fit is asked again only where somebody left, speeds are found anew only where somebody
 * came or left, those of tasks that were together before not even then, a plan is played no further than to where it must
 * be worse than is taken, and where few tasks wait, so that a search comes upon the same plans again, each is played once.
 */
#include "map/plan.h"

#include <math.h>
#include <string.h>

#define HEAT 0.01		/* a plan that is worse by this part may be taken at first, none that is worse in the end */
#define MOST_CHANGES 3		/* of a plan that is tried */
#define MOST_AMONG 7		/* more together are not told apart from any number */
#define LEAST_S 1e-3
#define SPEEDS_COST 8		/* of finding the speed of a task, against looking at it */
#define MOST_WORK 10000000	/* of a search: 25 milliseconds */
#define SOLVED 1024		/* sets of tasks whose speeds are remembered; power of two */
#define SOLVED_TASKS 8		/* of a set, a byte each: of more they are found anew */
#define PLAYED 4096		/* plans whose costs are remembered; power of two */
#define PLAYED_TASKS 4		/* while no more than these wait */
#define HARDLY (1 + 1e-9)	/* by which sums of the same in another order may differ, and more */

_Static_assert(PLAN_TASKS < 256, "a task's number and one fit into a byte");

struct draft {
	uint16_t order[PLAN_TASKS];	/* of those that wait */
	uint64_t on[PLAN_TASKS];
	bool keeps[PLAN_TASKS];
	uint8_t among[PLAN_TASKS];
	double start_s[PLAN_TASKS];
	double end_s, cost;
};

/* One GPU while a draft is played. */
struct lane {
	uint64_t free_mib;
	enum share_mode mode;
	bool taken;			/* by a task that has it alone */
	unsigned n;
	uint16_t tasks[PLAN_TASKS];
	double speed[PLAN_TASKS];
};

/* Tasks that shared a GPU in this mode, in that order, and how fast they were. */
struct solved {
	uint64_t tasks;			/* a byte each, of its number and one; 0: none */
	enum share_mode mode;
	double speed[SOLVED_TASKS];
};

struct plan_player {
	const struct plan *plan;
	struct lane lanes[PLAN_GPUS];
	unsigned n_places;		/* tasks on lanes, one of several GPUs as often */
	uint64_t stale;			/* lanes whose speeds are to be found anew */
	uint64_t freed;			/* lanes that somebody left since those who wait were asked last */
	bool barred[PLAN_TASKS];	/* one who waits was not even asked then: another kept its GPUs */
	double waiting_s;		/* the work of those who wait, in sum; what was left of those who ran at the last end, */
	double running_s, longest_s;	/* in sum, and of the one with most */
	struct solved solved[SOLVED];
	double now_s, done_s;		/* done_s: the last end, with what clocks left undone */
	uint16_t running[PLAN_TASKS], waiting[PLAN_TASKS];	/* those who run in no order, */
	double left_s[PLAN_TASKS], rate[PLAN_TASKS];		/* with what is left of each of them, or of its beginning, how fast */
	double later_s[PLAN_TASKS];				/* that goes, and what comes after it: 0, unless it begins; */
	double until_s[PLAN_TASKS];				/* when its clock ends it (INFINITY: it has none); */
	uint16_t place[PLAN_TASKS];				/* of a task: where it stands among them */
	unsigned n_running, n_waiting;
	unsigned long work;		/* tasks that were looked at, the costly way to find speeds counted as more */
};

/* All that the cost of a draft hangs on, by places in its order. */
struct draft_key {
	uint64_t on[PLAYED_TASKS];
	uint8_t task[PLAYED_TASKS];	/* of those that wait, its number and one; 0: none */
	uint8_t keeps[PLAYED_TASKS], among[PLAYED_TASKS];
	uint8_t none[4];		/* 0: keys are compared as bytes */
};

struct played {
	struct draft_key key;
	double cost, most;		/* cost: INFINITY: above `most`, until where it was played */
};

struct search {
	struct plan_player player;
	struct played played[PLAYED];
	struct draft now, next, best;
	uint64_t dice;
	unsigned n_waiting, fixed;	/* the first so many stay first */
	bool any;			/* a best one is known */
};

/* Playing ------------------------------------------------------------------------------------------------------------------ */

#define EACH_GPU(g, set) \
	for (uint64_t bits_ = (set), g; bits_ && (g = (uint64_t)__builtin_ctzll(bits_), true); bits_ &= bits_ - 1)

/* fmin heeds NaN, so it stays a call; no speed is one. */
static double least(double a, double b)
{
	return a < b ? a : b;
}

static bool lane_fits(const struct plan_player *p, uint64_t g, const struct plan_task *t, unsigned among)
{
	const struct lane *l = &p->lanes[g];
	if (!l->n)
		return l->free_mib >= t->mib || l->free_mib >= p->plan->gpus[g].total_mib;
	if (t->alone || l->taken || (among && l->n >= among) || (l->mode == SHARE_MPS && t->no_mps))
		return false;
	return l->free_mib >= t->mib + p->plan->slack_mib;
}

static bool fits(const struct plan_player *p, const struct draft *d, uint16_t task)
{
	EACH_GPU(g, d->on[task])
		if (!lane_fits(p, g, &p->plan->tasks[task], d->among[task]))
			return false;
	return true;
}

static void stand(struct plan_player *p, unsigned place, uint16_t task, double left_s, double later_s, double until_s)
{
	p->running[place] = task;
	p->left_s[place] = left_s;
	p->later_s[place] = later_s;
	p->until_s[place] = until_s;
	p->place[task] = (uint16_t)place;
}

static uint64_t gpus_of(const struct plan_player *p, const struct draft *d, uint16_t task)
{
	return task < p->plan->n_running ? p->plan->tasks[task].on : d->on[task];
}

static unsigned found(const struct lane *l, uint16_t task)
{
	unsigned at = 0;
	while (l->tasks[at] != task)
		at++;
	return at;
}

static void come(struct plan_player *p, uint16_t task, uint64_t on)
{
	const struct plan_task *t = &p->plan->tasks[task];
	EACH_GPU(g, on) {
		struct lane *l = &p->lanes[g];
		enum share_mode first = p->plan->gpus[g].first;
		if (!l->n)
			l->mode = first == SHARE_MPS && t->no_mps ? SHARE_STREAMS : first;
		l->taken = t->alone || first == SHARE_MIG;
		l->tasks[l->n++] = task;
		l->free_mib -= t->mib < l->free_mib ? t->mib : l->free_mib;
		p->n_places++;
	}
	p->stale |= on;
	double work_s = t->left_s - t->begin_s, until_s = t->clock_s > 0 ? p->now_s + t->clock_s : INFINITY;
	if (t->begin_s > LEAST_S && work_s > LEAST_S)
		stand(p, p->n_running++, task, t->begin_s, work_s, until_s);
	else
		stand(p, p->n_running++, task, t->left_s > LEAST_S ? t->left_s : LEAST_S, 0, until_s);
}

/* The last of those who run takes its place. */
static void leave(struct plan_player *p, const struct draft *d, unsigned place)
{
	uint16_t task = p->running[place];
	const uint64_t on = gpus_of(p, d, task);
	EACH_GPU(g, on) {
		struct lane *l = &p->lanes[g];
		unsigned at = found(l, task);
		memmove(&l->tasks[at], &l->tasks[at + 1], (--l->n - at) * sizeof *l->tasks);
		l->free_mib += p->plan->tasks[task].mib;
		l->free_mib = l->n && l->free_mib < p->plan->gpus[g].total_mib ? l->free_mib : p->plan->gpus[g].total_mib;
		l->taken = false;
		p->n_places--;
	}
	p->stale |= on;
	p->freed |= on;
	unsigned last = --p->n_running;
	stand(p, place, p->running[last], p->left_s[last], p->later_s[last], p->until_s[last]);
	p->rate[place] = p->rate[last];
}

static void begin(struct plan_player *p)
{
	p->now_s = p->done_s = 0;
	p->work = 0;
	p->n_running = p->n_waiting = p->n_places = 0;
	p->stale = 0;
	p->freed = UINT64_MAX;
	for (size_t g = 0; g < p->plan->n_gpus; g++) {
		p->lanes[g].n = 0;
		p->lanes[g].taken = false;
	}
	for (uint16_t i = 0; i < p->plan->n_running; i++)
		come(p, i, p->plan->tasks[i].on);
	for (size_t g = 0; g < p->plan->n_gpus; g++) {
		p->lanes[g].free_mib = p->plan->gpus[g].free_mib;
		p->lanes[g].mode = p->lanes[g].n ? p->plan->gpus[g].mode : p->lanes[g].mode;
	}
}

static void start_those_that_fit(struct plan_player *p, struct draft *d)
{
	uint64_t kept = 0;
	unsigned stay = 0;
	p->work += p->n_waiting;
	for (unsigned i = 0; i < p->n_waiting; i++) {
		uint16_t task = p->waiting[i];
		bool asked = !(d->on[task] & kept) && (p->barred[task] || d->on[task] & p->freed);
		if (asked && fits(p, d, task)) {
			d->start_s[task] = p->now_s;
			come(p, task, d->on[task]);
			p->waiting_s -= p->plan->tasks[task].left_s;
			continue;
		}
		p->barred[task] = d->on[task] & kept;
		kept |= d->keeps[task] ? d->on[task] : 0;
		p->waiting[stay++] = task;
	}
	p->n_waiting = stay;
	p->freed = 0;
}

/* 0: none, or too many to remember. */
static uint64_t set_of(const uint16_t *who, unsigned n)
{
	uint64_t tasks = 0;
	for (unsigned i = 0; n <= SOLVED_TASKS && i < n; i++)
		tasks = tasks << 8 | (who[i] + 1u);
	return tasks;
}

/* The same tasks in another order are another set: sums of fractions hang on it, and equal problems are to have equal plans. */
static void solve(struct plan_player *p, const uint16_t *who, unsigned n, enum share_mode mode, double *speed)
{
	struct share_task loads[PLAN_TASKS];
	uint64_t tasks = set_of(who, n);
	struct solved *known = &p->solved[((tasks * 0x9e3779b97f4a7c15u) >> 40) % SOLVED];
	if (tasks && known->tasks == tasks && known->mode == mode) {
		memcpy(speed, known->speed, n * sizeof *speed);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		loads[i] = p->plan->tasks[who[i]].load;
	if (n)
		share_speeds(loads, n, mode, speed);
	if (!tasks)
		return;
	known->tasks = tasks;
	known->mode = mode;
	memcpy(known->speed, speed, n * sizeof *speed);
}

/* Those who begin slow nobody, and nobody slows them. */
static void set_speeds(struct plan_player *p, struct lane *l)
{
	uint16_t who[PLAN_TASKS];
	double speed[PLAN_TASKS];
	unsigned n = 0;
	for (unsigned i = 0; i < l->n; i++)
		if (!(p->later_s[p->place[l->tasks[i]]] > 0))
			who[n++] = l->tasks[i];
	if (n == l->n) {
		solve(p, l->tasks, n, l->mode, l->speed);
		return;
	}
	solve(p, who, n, l->mode, speed);
	for (unsigned i = 0, at = 0; i < l->n; i++)
		l->speed[i] = at < n && who[at] == l->tasks[i] ? speed[at++] : 1;
}

/* As fast as on the slowest of its GPUs. */
static double rate_of(const struct plan_player *p, uint16_t task, uint64_t on)
{
	double rate = 1;
	EACH_GPU(g, on)
		rate = least(rate, p->lanes[g].speed[found(&p->lanes[g], task)]);
	return rate;
}

/* Of those on lanes that changed; all others go on as they did. */
static void set_rates(struct plan_player *p, const struct draft *d)
{
	p->work += p->n_places;
	EACH_GPU(g, p->stale) {
		p->work += p->lanes[g].n * (SPEEDS_COST - 1);
		set_speeds(p, &p->lanes[g]);
	}
	EACH_GPU(g, p->stale)
		for (unsigned i = 0; i < p->lanes[g].n; i++) {
			uint16_t task = p->lanes[g].tasks[i];
			p->rate[p->place[task]] = rate_of(p, task, gpus_of(p, d, task));
		}
	p->stale = 0;
}

/* Its end as it counts: this is where to slow a run that its clock ends is a cost, and the only place. */
static double counted_end_s(const struct plan_player *p, unsigned place)
{
	return p->now_s + (isfinite(p->until_s[place]) ? fmax(p->left_s[place] + p->later_s[place], 0) : 0);
}

/* Ends those who have nothing left or whose clock is over, and has those work who have begun. From the last to the first, since
 * whoever leaves has his place filled by one that was looked at. Returns the sum of the ends. */
static double end_those_done(struct plan_player *p, const struct draft *d)
{
	double ends = 0;
	for (unsigned i = p->n_running; i-- > 0;) {
		bool over = p->until_s[i] - p->now_s <= LEAST_S / 2;
		if (p->left_s[i] > LEAST_S / 2 && !over)
			continue;
		if (p->later_s[i] > 0 && !over) {
			p->left_s[i] = p->later_s[i];
			p->later_s[i] = 0;
			p->stale |= gpus_of(p, d, p->running[i]);
			continue;
		}
		double end_s = counted_end_s(p, i);
		p->done_s = p->done_s < end_s ? end_s : p->done_s;
		leave(p, d, i);
		ends += end_s;
	}
	return ends;
}

/* Goes on to the next end. Returns the sum of the ends met. In walks that do one thing each, over figures that lie side by
 * side: this is what a search does most. */
static double go_on(struct plan_player *p, const struct draft *d)
{
	double next = INFINITY, longest_s = 0, sum_s = 0;
	set_rates(p, d);
	for (unsigned i = 0; i < p->n_running; i++)
		next = least(next, least(p->left_s[i] / p->rate[i], p->until_s[i] - p->now_s));
	p->now_s += next;
	for (unsigned i = 0; i < p->n_running; i++)
		p->left_s[i] -= next * p->rate[i];
	double ends = end_those_done(p, d);
	for (unsigned i = 0; i < p->n_running; i++) {
		double left_s = p->left_s[i] + p->later_s[i];
		longest_s = longest_s < left_s ? left_s : longest_s;
		sum_s += left_s;
	}
	p->longest_s = longest_s;
	p->running_s = sum_s;
	return ends;
}

static void queue_up(struct search *s, const struct draft *d)
{
	struct plan_player *p = &s->player;
	p->n_waiting = s->n_waiting;
	memcpy(p->waiting, d->order, s->n_waiting * sizeof *d->order);
	p->waiting_s = 0;
	for (unsigned i = 0; i < s->n_waiting; i++) {
		p->barred[d->order[i]] = false;
		p->waiting_s += p->plan->tasks[d->order[i]].left_s;
	}
}

static double costs(const struct plan_player *p, double end_s, double ends)
{
	return end_s + p->plan->mean * ends / (double)p->plan->n;
}

/* What it costs at least, as far as it was played: nobody is faster than alone, what a clock leaves undone counts as if done
 * alone, and who waits starts now at the soonest. */
static double at_least(const struct plan_player *p, double ends)
{
	double n = p->n_running + p->n_waiting;
	double longest_s = p->now_s + p->longest_s;
	return costs(p, longest_s < p->done_s ? p->done_s : longest_s, ends + n * p->now_s + p->running_s + p->waiting_s);
}

/* Fills start_s, end_s and cost. What never fits (its tasks leave more free than there is) costs as nothing else. One that is
 * sure to cost more than `most` is not played to its end: then that is all that its cost says. */
static void play(struct search *s, struct draft *d, double most)
{
	struct plan_player *p = &s->player;
	double ends = 0;
	begin(p);
	queue_up(s, d);
	for (start_those_that_fit(p, d); p->n_running; start_those_that_fit(p, d)) {
		ends += go_on(p, d);
		if (at_least(p, ends) > most * HARDLY) {
			d->cost = INFINITY;
			return;
		}
	}
	for (unsigned i = 0; i < p->n_waiting; i++)
		d->start_s[p->waiting[i]] = p->now_s;
	d->end_s = p->n_waiting ? INFINITY : p->done_s;
	d->cost = costs(p, d->end_s, ends);
}

static struct draft_key key_of(const struct search *s, const struct draft *d)
{
	struct draft_key key = { .on = { 0 } };
	for (unsigned i = 0; i < s->n_waiting; i++) {
		uint16_t task = d->order[i];
		key.task[i] = (uint8_t)(task - s->player.plan->n_running + 1);
		key.on[i] = d->on[task];
		key.keeps[i] = d->keeps[task] && i + 1 < s->n_waiting;	/* from those behind it */
		key.among[i] = d->among[task];
	}
	return key;
}

static struct played *played_of(struct search *s, const struct draft_key *key)
{
	uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0;
	memcpy(words, key, sizeof words);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		hash = (hash ^ words[i] ^ hash >> 29) * 0x9e3779b97f4a7c15u;
	return &s->played[(hash >> 40) % PLAYED];
}

/* As play(); but of one that was tried before only the cost is filled, and that one is no better than the best. */
static void try(struct search *s, struct draft *d, double most)
{
	if (s->n_waiting > PLAYED_TASKS) {
		play(s, d, most);
		return;
	}
	const struct draft_key key = key_of(s, d);
	struct played *known = played_of(s, &key);
	if (memcmp(&known->key, &key, sizeof key) || (isinf(known->cost) && known->most < most)) {
		play(s, d, most);
		*known = (struct played){ key, d->cost, most };
	}
	d->cost = known->cost;
}

/* Searching ---------------------------------------------------------------------------------------------------------------- */

static unsigned draw(struct search *s, unsigned below)
{
	s->dice = s->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((s->dice >> 32) * below >> 32);
}

static uint64_t any_gpus(struct search *s, const struct plan_task *t)
{
	uint64_t left = t->may, set = 0;
	for (unsigned k = 0; k < t->gpus; k++) {
		unsigned at = draw(s, (unsigned)__builtin_popcountll(left));
		uint64_t rest = left;
		for (; at; at--)
			rest &= rest - 1;
		set |= rest & -rest;
		left &= ~set;
	}
	return set;
}

static void move_in_order(struct search *s, struct draft *d)
{
	unsigned free = s->n_waiting - s->fixed;
	if (!free)
		return;
	unsigned from = s->fixed + draw(s, free), to = s->fixed + draw(s, free);
	uint16_t task = d->order[from];
	if (from < to)
		memmove(&d->order[from], &d->order[from + 1], (to - from) * sizeof task);
	else
		memmove(&d->order[to + 1], &d->order[to], (from - to) * sizeof task);
	d->order[to] = task;
}

static void change(struct search *s, struct draft *d)
{
	const struct plan_task *tasks = s->player.plan->tasks;
	uint16_t a = d->order[draw(s, s->n_waiting)], b = d->order[draw(s, s->n_waiting)];
	uint64_t on = d->on[a];
	switch (draw(s, tasks[a].patient ? 5 : 4)) {
	case 0:
		move_in_order(s, d);
		break;
	case 1:
		d->on[a] = any_gpus(s, &tasks[a]);
		break;
	case 2:
		if (tasks[a].gpus == tasks[b].gpus && !(on & ~tasks[b].may) && !(d->on[b] & ~tasks[a].may))
			d->on[a] = d->on[b], d->on[b] = on;
		break;
	case 3:
		d->keeps[a] = !d->keeps[a] || tasks[a].first;
		break;
	default:
		d->among[a] = (uint8_t)draw(s, MOST_AMONG + 1);
	}
}

/* What a draft decides, and its cost: not when its tasks start. */
static void copy_draft(const struct search *s, struct draft *to, const struct draft *from)
{
	const size_t n = s->n_waiting, at = s->player.plan->n_running;
	memcpy(to->order, from->order, n * sizeof *to->order);
	memcpy(&to->on[at], &from->on[at], n * sizeof *to->on);
	memcpy(&to->keeps[at], &from->keeps[at], n * sizeof *to->keeps);
	memcpy(&to->among[at], &from->among[at], n * sizeof *to->among);
	to->cost = from->cost;
}

/* Improves s->now; the best of all goes to s->best. */
static void improve(struct search *s, unsigned steps)
{
	play(s, &s->now, INFINITY);
	unsigned long most = MOST_WORK / 2 / (s->player.work + 1);
	steps = steps < most ? steps : (unsigned)most;
	if (!s->any || s->now.cost < s->best.cost)
		s->best = s->now;
	s->any = true;
	for (unsigned i = 0; i < steps; i++) {
		double allowed = HEAT * (double)(steps - i) / (double)steps;
		copy_draft(s, &s->next, &s->now);
		for (unsigned k = draw(s, MOST_CHANGES) + 1; k; k--)
			change(s, &s->next);
		try(s, &s->next, s->now.cost * (1 + allowed));
		if (s->next.cost > s->now.cost * (1 + allowed))
			continue;
		copy_draft(s, &s->now, &s->next);
		if (s->next.cost < s->best.cost)
			s->best = s->next;
	}
}

/* Tasks without a place get the GPUs with the least work. One that runs may have GPUs that are none of the plan's. */
static void give_places(struct search *s, struct draft *d)
{
	const struct plan *p = s->player.plan;
	double work[PLAN_GPUS] = { 0 };
	for (uint16_t i = 0; i < p->n; i++) {
		const struct plan_task *t = &p->tasks[i];
		while (i >= p->n_running && (unsigned)__builtin_popcountll(d->on[i]) < t->gpus) {
			uint64_t best = PLAN_GPUS;
			EACH_GPU(g, t->may & ~d->on[i])
				if (best == PLAN_GPUS || work[g] < work[best])
					best = g;
			d->on[i] |= (uint64_t)1 << best;
		}
		EACH_GPU(g, d->on[i])
			work[g] += t->left_s;
	}
}

/* The plan as it came; or, to begin afresh, the most work first, wherever there is least. */
static void first_draft(struct search *s, bool afresh)
{
	const struct plan *p = s->player.plan;
	struct draft *d = &s->now;
	for (uint16_t i = 0; i < p->n; i++) {
		d->on[i] = afresh && i >= p->n_running ? 0 : p->tasks[i].on;
		d->keeps[i] = afresh || p->tasks[i].keeps || p->tasks[i].first;
		d->among[i] = (uint8_t)(afresh ? 0 : p->tasks[i].among);
	}
	for (uint16_t i = 0; i < s->n_waiting; i++) {
		uint16_t task = (uint16_t)(p->n_running + i), at = i;
		double work = p->tasks[task].left_s * p->tasks[task].gpus;
		for (; afresh && at > s->fixed; at--) {
			const struct plan_task *before = &p->tasks[d->order[at - 1]];
			if (before->left_s * before->gpus >= work)
				break;
			d->order[at] = d->order[at - 1];
		}
		d->order[at] = task;
	}
	give_places(s, d);
}

static bool alike(const struct plan_task *a, const struct plan_task *b)
{
	return a->left_s == b->left_s && a->begin_s == b->begin_s && a->clock_s == b->clock_s && a->mib == b->mib &&
	       a->gpus == b->gpus && a->may == b->may && a->alone == b->alone && a->no_mps == b->no_mps &&
	       a->patient == b->patient && !a->first && !b->first && !memcmp(&a->load, &b->load, sizeof a->load);
}

/* Whether one starts before the other though the queue has it behind; of those who start at the same time, the first in the
 * list. */
static bool pushes_in(const struct plan_task *a, const struct plan_task *b)
{
	return a->turn > b->turn && (a->start_s < b->start_s || (a->start_s == b->start_s && a < b)) && alike(a, b);
}

/* A search does not mind which of two that are alike comes first; people do. Each swap leaves fewer pairs in the wrong
 * order. */
static void take_turns(struct plan_task *tasks, unsigned n)
{
	for (bool again = true; again;) {
		again = false;
		for (unsigned i = 0; i < n * n; i++) {
			struct plan_task *a = &tasks[i / n], *b = &tasks[i % n];
			if (!pushes_in(a, b))
				continue;
			task_id id = a->id;
			unsigned turn = a->turn;
			a->id = b->id, a->turn = b->turn;
			b->id = id, b->turn = turn;
			again = true;
		}
	}
}

double plan_improve(struct plan *p, unsigned steps)
{
	static _Thread_local struct search s;
	static _Thread_local struct plan_task sorted[PLAN_TASKS];
	s.player.plan = p;
	s.n_waiting = (unsigned)(p->n - p->n_running);
	for (s.fixed = 0; s.fixed < s.n_waiting && p->tasks[p->n_running + s.fixed].first;)
		s.fixed++;
	s.dice = p->n * 2 + 1;
	memset(s.player.solved, 0, sizeof s.player.solved);
	memset(s.played, 0, sizeof s.played);
	s.any = false;
	for (int afresh = 0; afresh < 2; afresh++) {
		first_draft(&s, afresh);
		improve(&s, s.n_waiting ? steps / 2 : 0);
	}
	for (unsigned i = 0; i < s.n_waiting; i++) {
		uint16_t task = s.best.order[i];
		sorted[i] = p->tasks[task];
		sorted[i].on = s.best.on[task];
		sorted[i].keeps = s.best.keeps[task];
		sorted[i].among = s.best.among[task];
		sorted[i].start_s = s.best.start_s[task];
	}
	take_turns(sorted, s.n_waiting);
	memcpy(&p->tasks[p->n_running], sorted, s.n_waiting * sizeof *sorted);
	return s.best.end_s;
}
