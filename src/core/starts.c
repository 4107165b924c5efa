/* SPDX-License-Identifier: MIT
 * When tasks that wait are expected to start. Under ORDER_PLAN that is what the plan promises. Else the queue is played through
 * in its order: each task starts at the first end of another, not before the one ahead of it, at which as many GPUs that suit
 * it as it wants have the memory that it claims and bear another task, and its user may have it; it ends when its own time is
 * over. Who waits for what his user may have holds up the user's other tasks and no others, as in a pass. Ends are what the
 * running task says of itself, else what runs like it took, else its time limit; one that nobody knows never comes, and who
 * needs it has no expected start. How tasks slow each other is not played: the true start may be later, and earlier where
 * others may be passed.
 *
 * The load of a GPU is what it shows until somebody comes or goes there; then it is the sum of what those on it are believed
 * to do alone, which is too much where they slow each other: such a start is told too late rather than too early. Where one of
 * them is unknown, so is the sum, and max_tasks decides. Of cores, tasks need what they are seen to or expected to; that those
 * who run may come to need less is not foreseen.
 *
 * How it is known is the least certain end that it hangs on, of those on its GPUs.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/least.h"
#include "core/begins.h"

#include <math.h>
#include <stdlib.h>

#define MOST_STARTS 500
#define MOST_STEPS 5000000	/* looks at a GPU, some 100 ms in all */

/* How an end is known, the surest first. */
enum known { KNOWN_PROGRESS, KNOWN_RUNS, KNOWN_LIMIT, KNOWN_COUNTED, KNOWN_NOT };
static const char *const known_words[] = { "progress", "runs", "limit", "capture", NULL };
static const enum known by_work[] = { [WORK_RUNS] = KNOWN_RUNS, [WORK_LIMIT] = KNOWN_LIMIT, [WORK_COUNTED] = KNOWN_COUNTED,
				      [WORK_UNKNOWN] = KNOWN_NOT };

#define NO_SLOT UINT32_MAX

/* Somebody is on a slot until then: the whole of a task or, where it runs on several, a part, which needs so many cores. On
 * none: a task without GPUs, or one of which the plan says where it will be; until then its user has it. */
struct stay {
	double end_s;
	enum known known;
	uint32_t slot;
	uint64_t mib;
	struct share_task load;
	bool alone;
	double part, cores;
	size_t user;
	struct fair_taken gives;	/* back to its user, at its end */
};

/* What a user has as of at_s. `left_out`: of this moment, as pass_may_try leaves him out. */
struct starts_user { uid_t uid; struct allowance may; struct fair_taken taken; bool left_out; };

/* One that waits, and what it comes to. `open`: not found yet. */
struct wait { const struct task *t; struct map_request q; size_t user; bool open; double at_s; const char *source; };

/* A GPU as of at_s. `gpu` has no tenants. */
struct room {
	struct map_gpu gpu;
	struct share_task sum;		/* of what is known of those on it */
	unsigned n_unknown;
	bool alone;
	enum known known;
};

struct starts {
	struct core *c;
	struct now now;
	const struct map_gpu *gpus;
	size_t n_gpus;
	struct stay *stays;		/* by their ends */
	size_t n, cap;
	struct room *rooms;
	double at_s;			/* nobody starts before */
	double tasks, cores;		/* that run then, and what they need together */
	enum known known;		/* of the ends until then the least sure */
	size_t gone;			/* stays that are over by at_s */
	size_t steps;
	struct wait *waits;		/* in the order of the queue */
	size_t n_waits, cap_waits;
	struct starts_user *users;
	size_t n_users, cap_users;
};

static size_t user_of(struct starts *s, uid_t uid)
{
	size_t i = 0;
	while (i < s->n_users && s->users[i].uid != uid)
		i++;
	if (i < s->n_users)
		return i;
	alloc_grow(s->users, s->n_users, s->cap_users);
	s->users[s->n_users++] = (struct starts_user){ uid, pass_allowance(s->c->pass, uid), fair_taken_of(s->c->fair, uid), false };
	return i;
}

/* What a task has on one of its GPUs, the first of which stands for itself. */
static struct fair_taken part_of(unsigned gpu, uint64_t mib)
{
	return (struct fair_taken){ .tasks = !gpu, .gpus = 1, .mib = mib };
}

static void user_take(struct starts_user *u, const struct fair_taken *more)
{
	u->taken = (struct fair_taken){ u->taken.tasks + 1, u->taken.gpus + more->gpus, u->taken.mib + more->mib, u->taken.cpu_tasks };
}

static void user_give_back(struct starts_user *u, struct fair_taken gives)
{
	u->taken.tasks -= gives.tasks < u->taken.tasks ? gives.tasks : u->taken.tasks;
	u->taken.gpus -= gives.gpus < u->taken.gpus ? gives.gpus : u->taken.gpus;
	u->taken.mib -= least_of(u->taken.mib, gives.mib);
}

static int stays_by_end(const void *a, const void *b)
{
	const struct stay *x = a, *y = b;
	return x->end_s < y->end_s ? -1 : x->end_s > y->end_s;
}

static double run_time(const struct core *c, const struct task *t, enum known *how)
{
	enum work_known work;
	double s = estimates_work_s(c->estimates, t, &work);
	*how = by_work[work];
	return work != WORK_UNKNOWN ? s : INFINITY;
}

/* By its own progress as it is by now, with the tasks that slow it: that is what its owner reads as LEFT. */
static double run_ends_s(const struct starts *s, const struct fleet_run *r, enum known *how)
{
	struct progress_report p;
	if (r->task->suspended)
		return *how = KNOWN_NOT, INFINITY;
	if (estimates_progress(s->c->estimates, r->task, s->now, &p) && p.left_s >= 0)
		return *how = KNOWN_PROGRESS, p.left_s;
	const struct time_left left = estimates_left(s->c->estimates, r, s->now);
	*how = left.says ? KNOWN_PROGRESS : by_work[left.how];
	return left.known ? fmin(left.s, left.limit_s) : INFINITY;
}

static void add_stay(struct starts *s, struct stay one)
{
	alloc_grow(s->stays, s->n, s->cap);
	size_t i = s->n++;
	for (; i > s->gone && s->stays[i - 1].end_s > one.end_s; i--)
		s->stays[i] = s->stays[i - 1];
	s->stays[i] = one;
}

/* Where it comes by its end is seen once for all of them: there may be thousands of tasks without GPUs. */
static void note_stay(struct starts *s, struct stay one)
{
	alloc_grow(s->stays, s->n, s->cap);
	s->stays[s->n++] = one;
}

static void list_stays(struct starts *s)
{
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(s->c->fleet, &at, &r);) {
		enum known how;
		double end = run_ends_s(s, &r, &how);
		struct share_task load = fleet_load(s->c->fleet, r.task->id).load;
		double cores = fleet_cores_of(s->c->fleet, r.task->id).need, part = r.n_slots ? 1.0 / r.n_slots : 0;
		s->cores += isnan(cores) ? 0 : cores;
		s->tasks++;
		if (!r.n_slots)
			note_stay(s, (struct stay){ .end_s = end, .known = how, .slot = NO_SLOT, .part = 1,
						    .cores = isnan(cores) ? 0 : cores, .user = user_of(s, r.task->spec->uid),
						    .gives.tasks = 1 });
		for (unsigned i = 0; i < r.n_slots; i++)
			note_stay(s, (struct stay){ end, how, r.slots[i], r.held_mib, load,
						    task_attempt(r.task)->mode == SHARE_NEVER, part,
						    isnan(cores) ? 0 : cores * part, user_of(s, r.task->spec->uid),
						    part_of(i, r.held_mib) });
	}
	if (s->n)
		qsort(s->stays, s->n, sizeof *s->stays, stays_by_end);
}

static void room_add_load(struct room *r, const struct share_task *load, int sign)
{
	if (isnan(load->smact) || isnan(load->gract)) {
		r->n_unknown += (unsigned)sign;
		return;
	}
	r->sum.smact += sign * load->smact;
	r->sum.gract += sign * load->gract;
}

static void list_rooms(struct starts *s)
{
	s->rooms = alloc_zero((s->n_gpus + 1) * sizeof *s->rooms);
	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct map_gpu *g = &s->gpus[i];
		s->rooms[i] = (struct room){ .gpu = *g, .alone = g->n_tasks && g->mode == SHARE_NEVER };
		s->rooms[i].gpu.tenants = NULL;
		s->rooms[i].gpu.unseen = false;	/* seen by the time that anybody ends */
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->stays[i].slot != NO_SLOT)
			room_add_load(&s->rooms[s->stays[i].slot], &s->stays[i].load, 1);
}

/* Somebody comes (1) or goes (-1). */
static void room_change(struct room *r, const struct share_task *load, int sign)
{
	room_add_load(r, load, sign);
	if (sign > 0 || r->gpu.n_tasks)
		r->gpu.n_tasks += (unsigned)sign;
	bool known = !r->n_unknown;
	r->gpu.load = (struct load){ .smact = r->sum.smact, .gract = r->sum.gract, .smact_known = known, .gract_known = known };
}

static void room_leave(struct room *r, const struct stay *one)
{
	r->gpu.available_mib += one->mib;
	room_change(r, &one->load, -1);
	r->alone = r->alone && !one->alone;
	r->known = one->known > r->known ? one->known : r->known;
}

/* The next end, and all at the same moment. False: none is known. */
static bool starts_go_on(struct starts *s)
{
	if (s->gone == s->n || !isfinite(s->stays[s->gone].end_s))
		return false;
	s->at_s = s->stays[s->gone].end_s;
	for (; s->gone < s->n && s->stays[s->gone].end_s <= s->at_s; s->gone++) {
		const struct stay *one = &s->stays[s->gone];
		if (one->slot != NO_SLOT)
			room_leave(&s->rooms[one->slot], one);
		s->known = one->known > s->known ? one->known : s->known;
		s->tasks -= one->part;
		s->cores -= one->cores;
		user_give_back(&s->users[one->user], one->gives);
	}
	return true;
}

static bool cores_used_up(const struct starts *s, const struct map_request *q)
{
	struct map_cores then = q->cores;
	then.need = s->cores;
	if (then.have > 0)
		fleet_cores_judge(&then, s->tasks);
	return then.have > 0 && then.used_up;
}

/* `idle`: on an idle GPU alone. */
static bool room_takes(const struct starts *s, const struct room *r, const struct map_request *q, bool idle)
{
	const struct map_policy *policy = &s->c->config.map;
	const struct map_scene scene = { policy, s->gpus, s->n_gpus, NULL };
	const struct map_gpu *g = &r->gpu;
	bool alone = idle || q->start_alone || map_wants_alone(policy, q) || g->mig;
	struct map_request then = *q;
	then.now_ms += (int64_t)(s->at_s * 1000);	/* reservations come and go while the queue is played */
	if (r->alone || (alone && g->n_tasks) || g->available_mib < least_of(map_claim_mib(policy, q), g->total_mib))
		return false;
	return map_load_admits(policy, g) && map_suits(&scene, &then, g);
}

/* Takes the GPUs with most room. Returns whether there were enough. Steps are counted, since a long queue on many GPUs would
 * hold the loop. */
static bool starts_find(struct starts *s, const struct map_request *q, uint32_t *slots)
{
	unsigned n = 0;
	bool idle = cores_used_up(s, q);
	for (uint32_t i = 0; i < s->n_gpus; i++, s->steps++) {
		if (!room_takes(s, &s->rooms[i], q, idle))
			continue;
		unsigned k = n < q->gpus ? n++ : q->gpus;
		for (; k && s->rooms[slots[k - 1]].gpu.available_mib < s->rooms[i].gpu.available_mib; k--)
			if (k < q->gpus)
				slots[k] = slots[k - 1];
		if (k < q->gpus)
			slots[k] = i;
	}
	return n == q->gpus;
}

/* A stay for each of its GPUs, so that who comes behind it waits for it as for those that run now. A task of unknown length
 * stays for ever. */
static void starts_place(struct starts *s, struct wait *w, const struct fair_taken *more, const uint32_t *slots)
{
	const struct map_request *q = &w->q;
	enum known own, how = q->cores.used_up ? s->known : KNOWN_PROGRESS;
	double all = run_time(s->c, w->t, &own);
	const struct map_policy *policy = &s->c->config.map;
	bool alone = map_wants_alone(policy, q);
	double part = 1.0 / q->gpus, cores = q->cores.have > 0 ? q->cores.more : 0;
	user_take(&s->users[w->user], more);
	s->tasks++;
	s->cores += cores;
	for (unsigned i = 0; i < q->gpus; i++) {
		struct room *r = &s->rooms[slots[i]];
		struct map_gpu *g = &r->gpu;
		struct share_task load = estimates_load(s->c->estimates, w->t, g->name).load;
		uint64_t mib = alone ? g->available_mib : least_of(map_claim_mib(policy, q), g->available_mib);
		how = r->known > how ? r->known : how;
		g->available_mib -= mib;
		if (!g->n_tasks)
			g->mode = map_first_mode(policy, q, alone, g);
		room_change(r, &load, 1);
		r->alone = alone;
		add_stay(s, (struct stay){ s->at_s + all, own > r->known ? own : r->known, slots[i], mib, load, alone, part,
					    cores * part, w->user, part_of(i, more->mib / q->gpus) });
	}
	w->open = false;
	w->at_s = s->at_s;
	w->source = known_words[how];
}

/* It comes before those of its user that are not planned: they find what it leaves. */
static void take_plans_word(struct starts *s, struct wait *w)
{
	enum known how;
	const struct fair_taken more = pass_would_take(s->c->pass, &w->q);
	double all = run_time(s->c, w->t, &how);
	w->at_s = w->q.planned_s;
	w->source = "plan";
	user_take(&s->users[w->user], &more);
	add_stay(s, (struct stay){ .end_s = w->at_s + all, .known = how, .slot = NO_SLOT, .user = w->user, .gives = more });
}

/* What is known of it at once; else it is open. */
static struct wait first_look(struct starts *s, const struct task *t)
{
	struct wait w = { .t = t, .at_s = INFINITY };
	if (begins_later(t, s->now.wall_ms)) {
		const struct dependency *open;
		w.source = "begin";
		if (!tasks_waits_in_vain(s->c->tasks, t, &open) && !open)
			w.at_s = (double)(t->begin_s * 1000 - s->now.wall_ms) / 1000;
		return w;
	}
	if (t->waiting_for_deps || !t->estimated || !t->gpus || !tasks_in_queue(s->c->tasks, t) ||
	    host_asks(s->c->host, t, NULL, NULL))
		return w;	/* it hangs on more than GPUs */
	w.q = pass_request(s->c->pass, t, s->now);
	w.user = user_of(s, t->spec->uid);
	w.open = !w.q.planned;
	if (w.q.planned)
		take_plans_word(s, &w);
	return w;
}

static bool starts_full(const struct starts *s)
{
	return s->n_waits >= MOST_STARTS;
}

static void add_wait(struct starts *s, const struct task *t)
{
	alloc_grow(s->waits, s->n_waits, s->cap_waits);
	s->waits[s->n_waits++] = first_look(s, t);
}

/* One pass, as of at_s: the first that finds no place ends it. */
static void play_pass(struct starts *s)
{
	uint32_t slots[SPEC_MAX_GPUS];
	for (size_t i = 0; i < s->n_users; i++)
		s->users[i].left_out = false;
	for (size_t i = 0; i < s->n_waits && s->steps < MOST_STEPS; i++, s->steps++) {
		struct wait *w = &s->waits[i];
		struct starts_user *u = w->open ? &s->users[w->user] : NULL;
		bool never = false;
		if (!u || u->left_out)
			continue;
		const struct fair_taken more = pass_would_take(s->c->pass, &w->q);
		bool refused = allowance_refuses(&u->may, &u->taken, &more, &never) != ALLOWANCE_COUNT;
		u->left_out = refused && !never;
		if (!refused && !starts_find(s, &w->q, slots))
			return;
		if (!refused)
			starts_place(s, w, &more, slots);
	}
}

static void wait_outside(void *ctx, const struct task *t)
{
	struct starts *s = ctx;
	if (t->state == TASK_PENDING && !starts_full(s) && (!tasks_in_queue(s->c->tasks, t) || !t->gpus))
		add_wait(s, t);
}

static json_t *wait_json(const struct starts *s, const struct wait *w)
{
	char id[TASK_ID_TEXT];
	bool known = w->source && isfinite(w->at_s);
	return json_pack("{ss, so, so, so}", "id", task_id_text(w->t->id, id),
		"start_time", known ? json_time_or_null(s->now.wall_ms + (int64_t)(w->at_s * 1000)) : json_null(),
		"in_s", known ? json_round3(w->at_s) : json_null(), "source", json_text_or_null(known ? w->source : NULL));
}

/* Who waits comes in the order of the queue, so each finds what those before it left; then who is not in the queue yet. */
json_t *core_starts_json(struct core *c, struct now now)
{
	struct starts s = { .c = c, .now = now, .gpus = fleet_gpus(c->fleet, now), .n_gpus = fleet_size(c->fleet) };
	json_t *list = json_array();
	struct queue_walk queued;
	list_stays(&s);
	list_rooms(&s);
	queue_walk_begin(&queued, tasks_queue(c->tasks), QUEUE_RECOVERY);
	for (const struct task *t; !starts_full(&s) && (t = queue_walk_next(&queued));)
		add_wait(&s, t);
	queue_walk_end(&queued);
	while (s.steps < MOST_STEPS && starts_go_on(&s))
		play_pass(&s);
	if (!starts_full(&s))
		core_each_task(c, wait_outside, &s);
	for (size_t i = 0; i < s.n_waits; i++)
		json_array_append_new(list, wait_json(&s, &s.waits[i]));
	free(s.stays);
	free(s.rooms);
	free(s.waits);
	free(s.users);
	return json_pack("{si, so, sb}", "schema", 1, "starts", list, "truncated", starts_full(&s));
}
