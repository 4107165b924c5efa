/* SPDX-License-Identifier: MIT
 * See timeslots.h. A look begins with the GPUs as they are, without tasks that were asked and have not gone yet, and as if
 * those that have gone had given their memory back. Then each waiting task, in the order of the queue, is tried without the
 * tasks whose slots are over, too. The place that it would get is marked, so that nobody else is told of it. What a look finds
 * is good until something moves; there is at most one look a second, since slots are hours.
 *
 * For whom others make place, the pass keeps it (pass_vacate), as Slurm keeps what it preempts others on: or whoever went first
 * would be started there again before the last one has gone, and a task of several GPUs would wait for ever. Nothing of that is
 * remembered but in which places it was so. Each look finds anew, in the order of the queue, who would start if those who are
 * leaving had gone; so what is kept ends by itself when its task is no longer the first that could use it, when somebody stays
 * or a GPU goes, and after a restart it is found again by who was asked.
 */
#include "core/timeslots.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "map/map.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000
#define WAITING 32	/* tasks of the queue that are looked at, */
#define GONE_BY 1000	/* but for those, at most, whom no end of others would help */
#define OVER 64		/* slots that are over, likewise: the ones over for longest */

struct timeslots {
	const struct core_config *config;
	const struct core_ops *ops;
	const struct fair *fair;
	struct tasks *tasks;
	struct fleet *fleet;
	const struct host *host;
	struct pass *pass;
	int64_t due_ms;		/* mono; no slot is over before, and nobody is leaving */
	bool recalled;		/* there was a look at what a radd before this one had asked for */
	int64_t looked_ms;
	struct { uint64_t tasks, fleet, slots; } seen;	/* as of which it looked */
};

/* One look's scratch. */
struct slots_look {
	struct timeslots *s;
	struct now now;
	struct map_gpu *gpus;		/* by slot */
	struct map_tenant **tenants;	/* of those that were looked at anew, owned */
	bool *settles;			/* memory of ended tasks is not seen to be free yet */
	bool *taken;			/* by one that comes before: nobody else is told of it */
	struct host_look host;
	struct fleet_clock *over[OVER];	/* over for longest first */
	size_t n_over;
	struct fleet_clock *later[OVER];	/* not over yet, the ones that will be first */
	size_t n_later;
	bool has_first;			/* somebody waits for them */
	struct fleet_clock **leaving;	/* owned */
	size_t n_leaving, cap_leaving;
	struct vacated vacated[WAITING];
	size_t n_vacated;
	uint64_t slots;			/* which are over and who is leaving, as a number */
};

struct timeslots *timeslots_create(const struct core_config *config, const struct core_ops *ops, const struct fair *fair,
				   struct tasks *ts, struct fleet *f, const struct host *h, struct pass *p)
{
	struct timeslots *s = alloc_zero(sizeof *s);
	*s = (struct timeslots){ .config = config, .ops = ops, .fair = fair, .tasks = ts, .fleet = f, .host = h, .pass = p,
				 .due_ms = INT64_MAX,
				 .looked_ms = INT64_MIN / 2 };
	return s;
}

void timeslots_destroy(struct timeslots *s)
{
	free(s);
}

static bool brought_something(const struct attempt *a)
{
	return a->seen.begin_s > 0 || a->seen.pace.fraction > 0;
}

/* A task that may not run again has no slot, since it could not come back. Where a slot may be shorter than the program's
 * start, it doubles for each slot that brought nothing, since the last one that did. */
int64_t timeslots_length_ms(const struct core_config *config, const struct task *t)
{
	if (!t->spec->requeue || t->spec->slot_s < 0)
		return 0;
	int64_t ms = t->spec->slot_s ? t->spec->slot_s * 1000 : config->slot_ms;
	uint32_t i = t->n_attempts - (t->state == TASK_RUNNING);
	for (; ms && ms < TIMESLOTS_START_MS && i && t->attempts[i - 1].verdict == VERDICT_SLOT &&
	     !brought_something(&t->attempts[i - 1]); i--)
		ms = ms * 2 < TIMESLOTS_START_MS ? ms * 2 : TIMESLOTS_START_MS;
	return ms;
}

/* A task that wants more time to save before its time limit needs it here as well, but gets no more than a slot, since nobody
 * else is asked meanwhile. */
static int64_t grace_of(const struct core_config *config, const struct task *t)
{
	int64_t wish_ms = t->spec->signal_before_s * 1000, most_ms = timeslots_length_ms(config, t);
	wish_ms = wish_ms < most_ms ? wish_ms : most_ms;
	return wish_ms > config->slot_grace_ms ? wish_ms : config->slot_grace_ms;
}

bool timeslots_unheard(const struct timeslots *s, const struct task *t)
{
	const struct fleet_clock *one = fleet_clock_of(s->fleet, t->id);
	return one && one->unheard;
}

bool timeslots_leaving(const struct timeslots *s, const struct task *t, int64_t wall_ms)
{
	const struct attempt *a = task_attempt(t);
	const struct fleet_clock *one = fleet_clock_of(s->fleet, t->id);
	bool in_vain = one && (one->unheard || one->stays);	/* NULL: it went, and waits for its verdict (endings.c) */
	return t->state == TASK_RUNNING && a->slot_asks && wall_ms - a->slot_asked_ms < grace_of(s->config, t) && !in_vain;
}

/* When it is over (mono); INT64_MAX: it has no slot, is asked no more, or is suspended and hears nothing. One that was asked is
 * let save before it is asked again, however short its slot. */
static int64_t timeslot_ends_ms(const struct timeslots *s, const struct fleet_clock *one)
{
	const struct task *t = one->task;
	int64_t length = timeslots_length_ms(s->config, t);
	bool can = length && task_attempt(t)->shim.pid && !t->stopping && !t->suspended &&
		   task_attempt(t)->slot_asks < TIMESLOTS_ASKS && t->n_slots < TIMESLOTS_MAX;
	int64_t grace = task_attempt(t)->slot_asks ? grace_of(s->config, t) : 0;
	return can ? one->timeslot_ms + (length > grace ? length : grace) : INT64_MAX;
}

/* When it will be over, or is no longer expected to leave (mono); INT64_MIN: it is over. */
static int64_t timeslot_changes_ms(const struct timeslots *s, const struct fleet_clock *one, struct now now)
{
	const struct task *t = one->task;
	bool leaving = timeslots_leaving(s, t, now.wall_ms);
	int64_t end = timeslot_ends_ms(s, one), stays = leaving ? one->timeslot_ms + grace_of(s->config, t) : INT64_MAX;
	if (end <= now.mono_ms)
		return INT64_MIN;
	return stays > now.mono_ms && stays < end ? stays : end;
}

/* Whether one of its processes handles the signal that it would get. */
static bool hears(const struct timeslots *s, const struct task *t)
{
	return !s->ops->slot_hears || s->ops->slot_hears(s->ops->ctx, t);
}

/* Nothing moved of those that run already, so they are not looked at: with thousands of them that was a third of all that a
 * placement took. */
void timeslots_begin(struct timeslots *s, const struct task *t, struct now now)
{
	int64_t next;
	const struct attempt *a = task_attempt(t);
	struct fleet_clock *one = fleet_clock_of(s->fleet, t->id);
	one->timeslot_ms = now.mono_ms - (now.wall_ms - (a->slot_asks ? a->slot_asked_ms : a->start_ms));
	one->unheard = a->slot_asks && !hears(s, t);
	one->stays = a->slot_asks > 1 && !one->unheard;
	next = timeslot_changes_ms(s, one, now);
	s->due_ms = next < s->due_ms ? next : s->due_ms;
}

void timeslots_reconsider(struct timeslots *s)
{
	s->due_ms = INT64_MIN;
	s->seen.slots = 0;
}

/* A look ---------------------------------------------------------------------------------------------------------------- */

static bool is_gone(const void *ctx, task_id id)
{
	const struct fleet_clock *one = fleet_clock_of(ctx, id);
	return one && one->gone;
}

static bool is_vacated(const struct timeslots *s, uint32_t slot)
{
	task_id id = fleet_kept_for(s->fleet, slot);
	return id && pass_vacated_for(s->pass, id);
}

/* Anew from the fleet each time, not by difference, so that who comes back leaves no trace. Memory that is not given back for
 * as long as others are waited for may never be: it counts as taken. */
static void look_at_slot(struct slots_look *l, uint32_t slot)
{
	const struct timeslots *s = l->s;
	struct map_gpu *g = &l->gpus[slot];
	unsigned there = fleet_look(s->fleet, slot, l->now.mono_ms).n_tasks;
	if (!l->tenants[slot])
		l->tenants[slot] = alloc_zero((there + 1) * sizeof **l->tenants);
	fleet_gpu_without(s->fleet, slot, is_gone, s->fleet, l->now.mono_ms - s->config->slot_grace_ms, l->now, l->tenants[slot], g);
	if (is_vacated(s, slot))
		g->kept_for = 0;
	g->drained = g->drained || l->taken[slot];
}

/* Takes it off its GPUs, or puts it back. */
static void look_set_gone(struct slots_look *l, struct fleet_clock *one, bool gone)
{
	const uint32_t *slots;
	unsigned n = fleet_slots_of(l->s->fleet, one->task->id, &slots);
	if (one->gone == gone)
		return;
	one->gone = gone;
	struct host_room held = host_held_by(l->s->host, one->task->id);
	l->host.gone.mem_mib += gone ? held.mem_mib : -held.mem_mib;
	l->host.gone.cpus += gone ? held.cpus : -held.cpus;
	for (unsigned i = 0; i < n; i++)
		look_at_slot(l, slots[i]);
}

/* On the look's GPUs, not the fleet's, and with a turn of its own under `rr`. */
static bool look_fits(const struct slots_look *l, const struct task *t, const struct map_request *r, struct placement *where)
{
	uint32_t turn = 0;
	if (host_asks(l->s->host, t, &l->host, NULL))
		return false;
	struct map_request then = *r;
	then.cores = fleet_cores_room(l->s->fleet, r->cores.wanted, is_gone, l->s->fleet);
	const struct map_scene s = { &l->s->config->map, l->gpus, fleet_size(l->s->fleet), &turn };
	return map_place(&s, &then, where, NULL);
}

static void look_mark_taken(struct slots_look *l, const struct task *t, const struct placement *where)
{
	host_look_take(l->s->host, &l->host, t);
	for (unsigned i = 0; i < where->n; i++)
		l->taken[where->slots[i]] = l->gpus[where->slots[i]].drained = true;
}

/* Whether anybody there is leaving. */
static bool look_awaits(const struct slots_look *l, uint32_t slot)
{
	const struct fleet *f = l->s->fleet;
	for (unsigned i = 0; i < fleet_look(f, slot, l->now.mono_ms).n_tasks; i++)
		if (is_gone(f, fleet_task_on(f, slot, i)))
			return true;
	return false;
}

/* Whether it waits for what those who are gone hold of the host. */
static bool look_awaits_host(const struct slots_look *l, const struct task *t)
{
	const struct host_look as_it_is = { .taken = l->host.taken };
	return host_asks(l->s->host, t, &as_it_is, NULL);
}

/* Whoever comes later looks elsewhere. It is kept for as long as anybody is leaving there or, once somebody was, a GPU settles;
 * and one look longer, since a plan may have to be made before the pass starts the task. */
static void look_take(struct slots_look *l, const struct task *t, const struct placement *where)
{
	const struct vacated *before = pass_vacated_for(l->s->pass, t->id);
	struct vacated v = { .task = t, .n = where->n, .awaited = look_awaits_host(l, t) };
	for (unsigned i = 0; i < where->n; i++) {
		uint32_t slot = v.slots[i] = where->slots[i];
		bool settles = l->settles[slot] && !l->gpus[slot].settling;
		v.awaited = v.awaited || look_awaits(l, slot) || (before && settles);
	}
	look_mark_taken(l, t, where);
	if (v.awaited || (before && before->awaited))
		l->vacated[l->n_vacated++] = v;
}

/* One that takes part in turns at GPUs. */
static bool has_gpus_of(const struct task *t, uid_t uid)
{
	return t->spec->uid == uid && t->gpus;
}

static unsigned count_gone(const struct slots_look *l, uid_t uid)
{
	unsigned n = 0;
	for (size_t i = 0; i < l->n_over; i++)
		n += l->over[i]->gone && has_gpus_of(l->over[i]->task, uid);
	for (size_t i = 0; i < l->n_later; i++)
		n += l->later[i]->gone && has_gpus_of(l->later[i]->task, uid);
	for (size_t i = 0; i < l->n_leaving; i++)
		n += has_gpus_of(l->leaving[i]->task, uid);
	return n;
}

/* Whose turn it would be once that task had gone, beside those that are gone already: as the queue would have it then, or it
 * would be started again at once. */
static bool users_turn(const struct slots_look *l, const struct task *waits, const struct task *runs)
{
	const struct fair *f = l->s->fair;
	const struct fair_user *w = fair_find(f, waits->spec->uid), *r = fair_find(f, runs->spec->uid);
	if (w == r || !w || !r)
		return true;
	unsigned gone = count_gone(l, runs->spec->uid) + (runs->gpus > 0);
	return fair_compare(fair_place_of(f, w, waits->id, &(struct fair_taken){ 0 }), fair_place_without(f, r, runs->id, gone)) <= 0;
}

/* Whether it would come before that task, were both to wait. Of one user all do that wait already. */
static bool goes_before(const struct slots_look *l, const struct task *waits, const struct task *runs)
{
	if (waits->queue == QUEUE_RECOVERY || waits->priority != runs->priority)
		return waits->queue == QUEUE_RECOVERY || waits->priority > runs->priority;
	return users_turn(l, waits, runs);
}

/* All of these go that may be asked for that one, but for those that are gone already or will not go. Returns how many. */
static size_t look_send_away(struct slots_look *l, const struct task *t, struct fleet_clock *const *list, size_t n_list,
			     struct fleet_clock **sent)
{
	size_t n = 0;
	for (size_t i = 0; i < n_list; i++)
		if (!list[i]->gone && !list[i]->vain && goes_before(l, t, list[i]->task))
			look_set_gone(l, sent[n++] = list[i], true);
	return n;
}

/* Of those that were sent away, all stay after all if that does not help; else those without whom it would do as well, the last
 * ones first. */
static bool look_calls_back(struct slots_look *l, const struct task *t, const struct map_request *r,
			    struct fleet_clock **chances, size_t n, struct placement *where)
{
	bool fits = n && look_fits(l, t, r, where);
	for (size_t i = n; i > 0; i--) {
		struct placement other;
		look_set_gone(l, chances[i - 1], false);
		if (!fits)
			continue;
		if (look_fits(l, t, r, &other))
			*where = other;
		else
			look_set_gone(l, chances[i - 1], true);
	}
	return fits;
}

/* Whether all of those hear it, and did not stay the last time, who would have to go. Who will not is asked all the same, which
 * its user is to know, but goes nowhere: others would go in vain. */
static bool look_is_heard(struct slots_look *l, struct fleet_clock **sent, size_t n)
{
	bool all = true;
	for (size_t i = 0; i < n; i++) {
		sent[i]->vain = sent[i]->gone && (sent[i]->stays || !hears(l->s, sent[i]->task));
		all = all && !sent[i]->vain;
	}
	for (size_t i = 0; !all && i < n; i++)
		look_set_gone(l, sent[i], false);
	return all;
}

/* The ones that had least beyond their slot stay first. Only the ones that are to go are looked at more closely. */
static bool look_makes_place(struct slots_look *l, const struct task *t, const struct map_request *r, struct placement *where)
{
	struct fleet_clock *sent[OVER];
	for (;;) {
		size_t n = look_send_away(l, t, l->over, l->n_over, sent);
		if (!look_calls_back(l, t, r, sent, n, where))
			return false;
		if (look_is_heard(l, sent, n))
			return true;
	}
}

static int timeslots_by_end(const void *a, const void *b, void *ctx)
{
	const struct fleet_clock *x = *(struct fleet_clock *const *)a, *y = *(struct fleet_clock *const *)b;
	int64_t x_ms = timeslot_ends_ms(ctx, x), y_ms = timeslot_ends_ms(ctx, y);
	if (x_ms != y_ms)
		return x_ms < y_ms ? -1 : 1;
	return (x->task->id > y->task->id) - (x->task->id < y->task->id);
}

/* The first of these, at most OVER, in the order of their ends. Returns how many. */
static size_t keep_first(struct timeslots *s, struct fleet_clock **list, size_t n, struct fleet_clock *out[OVER])
{
	if (!n)
		return 0;
	qsort_r(list, n, sizeof *list, timeslots_by_end, s);
	n = n < OVER ? n : OVER;
	memcpy(out, list, n * sizeof *list);
	return n;
}

static void look_list_later(struct slots_look *l)
{
	struct fleet_clock **later = NULL;
	size_t n = 0, cap = 0, at = 0;
	for (struct fleet_clock *one; (one = fleet_next_clock(l->s->fleet, &at));) {
		int64_t end = timeslot_ends_ms(l->s, one);
		if (one->gone || one->unheard || one->stays || end <= l->now.mono_ms || end == INT64_MAX)
			continue;
		alloc_grow(later, n, cap);
		later[n++] = one;
	}
	l->n_later = keep_first(l->s, later, n, l->later);
	free(later);
}

/* The first for whom not enough slots are over: nobody is asked for those behind it where it will start when they are. They
 * would begin new slots there, one after the other, and it would wait until the order of the queue lets nobody pass it. Nothing
 * is kept for it meanwhile, since those whose slots are over run on. */
static void look_holds_for_first(struct slots_look *l, const struct task *t, const struct map_request *r)
{
	struct fleet_clock *sent[2 * OVER];
	struct placement where;
	if (l->has_first)
		return;
	look_list_later(l);
	size_t n = look_send_away(l, t, l->over, l->n_over, sent);
	n += look_send_away(l, t, l->later, l->n_later, sent + n);
	bool fits = look_calls_back(l, t, r, sent, n, &where);
	for (size_t i = 0; i < n; i++)
		look_set_gone(l, sent[i], false);
	l->has_first = fits;
	if (fits)
		look_mark_taken(l, t, &where);
}

/* Whether a place would help it: else its user has what he may have, or it lacks GPUs that are out of use. */
static bool look_would_help(struct slots_look *l, const struct task *t, struct queue_walk *w)
{
	const struct pass_left_out left = pass_left_out(l->s->pass, t, l->now);
	struct map_request r = pass_request(l->s->pass, t, l->now);
	if (left.kind == ALLOWANCE_COUNT && !pass_lacks_gpus(l->s->pass, &r, l->now))
		return true;
	if (left.kind == ALLOWANCE_COUNT || left.never)
		queue_walk_pass_over(w);
	else
		queue_walk_leave_user(w);
	return false;
}

/* Returns whether those behind it may have what they find. Under `strict` nobody behind a head that finds no place may
 * have one: to ask for him would be for nothing. */
static bool look_for(struct slots_look *l, const struct task *t)
{
	struct map_request r = pass_request(l->s->pass, t, l->now);
	struct placement where;
	r.planned = NULL;	/* a plan counts with places that are there */
	r.later = false;
	r.lent_by = 0;		/* nor does anybody make place on GPUs that are only lent */
	if (look_fits(l, t, &r, &where) || look_makes_place(l, t, &r, &where)) {
		look_take(l, t, &where);
		return true;
	}
	look_holds_for_first(l, t, &r);
	return l->s->config->order != ORDER_STRICT || t->queue == QUEUE_RECOVERY;
}

static void look_for_those_who_wait(struct slots_look *l)
{
	struct queue_walk w;
	size_t n = 0, gone_by = 0;
	bool go_on = true;
	pass_walk_begin(l->s->pass, &w);
	for (struct task *t; go_on && n < WAITING && gone_by < GONE_BY && (t = queue_walk_next(&w));) {
		bool helps = look_would_help(l, t, &w);
		n += helps;
		gone_by += !helps;
		go_on = !helps || look_for(l, t);
	}
	queue_walk_end(&w);
}

static void timeslots_ask(struct timeslots *s, struct fleet_clock *one, struct now now)
{
	struct event ev = { .kind = EV_SLOT_ASKED, .t_ms = now.wall_ms };
	one->timeslot_ms = now.mono_ms;
	one->unheard = one->vain && !one->stays;
	tasks_emit(s->tasks, one->task, &ev, now.wall_ms);
}

static void look_begin(struct slots_look *l)
{
	const struct timeslots *s = l->s;
	size_t size = fleet_size(s->fleet);
	l->gpus = alloc_zero((size + 1) * sizeof *l->gpus);
	l->tenants = alloc_zero((size + 1) * sizeof *l->tenants);
	l->settles = alloc_zero((size + 1) * sizeof *l->settles);
	l->taken = alloc_zero((size + 1) * sizeof *l->taken);
	memcpy(l->gpus, fleet_gpus(s->fleet, l->now), size * sizeof *l->gpus);
	for (uint32_t i = 0; i < size; i++)
		l->settles[i] = l->gpus[i].settling;
	for (uint32_t i = 0; i < size; i++)
		if (l->settles[i] || is_vacated(s, i))
			look_at_slot(l, i);
	for (size_t i = 0; i < l->n_leaving; i++)
		look_set_gone(l, l->leaving[i], true);
}

static void look_end(struct slots_look *l)
{
	for (size_t i = 0; i < fleet_size(l->s->fleet); i++)
		free(l->tenants[i]);
	free(l->tenants);
	free(l->settles);
	free(l->taken);
	free(l->gpus);
}

/* Their time to save is over too (timeslot_ends_ms). Who heard nothing at the last asking may do so now. */
static void look_note_stays(struct slots_look *l)
{
	for (size_t i = 0; i < l->n_over; i++)
		l->over[i]->stays = task_attempt(l->over[i]->task)->slot_asks && !l->over[i]->unheard;
}

/* Asking comes last: it changes what was looked at. Returns whether GPUs are kept that were not, or no longer. */
static bool timeslots_look(struct timeslots *s, struct slots_look *l)
{
	look_begin(l);
	look_note_stays(l);
	look_for_those_who_wait(l);
	look_end(l);
	bool changed = pass_vacate(s->pass, l->vacated, l->n_vacated);
	for (size_t i = 0; i < l->n_over; i++)
		if (l->over[i]->gone || l->over[i]->vain)
			timeslots_ask(s, l->over[i], l->now);
	size_t at = 0;
	for (struct fleet_clock *one; (one = fleet_next_clock(s->fleet, &at));)
		one->gone = one->vain = false;
	return changed;
}

/* What it adds to the number of what is over and who is leaving. */
static uint64_t hash_of(const struct fleet_clock *one, bool over, bool leaving)
{
	const int64_t slot[] = { one->task->id, one->timeslot_ms };
	return leaving || over ? hash_bytes(HASH_SEED + leaving, slot, sizeof slot) : 0;
}

static void look_list_leaving(struct slots_look *l, struct fleet_clock *one)
{
	alloc_grow(l->leaving, l->n_leaving, l->cap_leaving);
	l->leaving[l->n_leaving++] = one;
}

/* Who is leaving, and the ones over for longest. Returns when the next will be, or somebody is no longer expected to leave. */
static int64_t look_list(struct timeslots *s, struct slots_look *l)
{
	struct fleet_clock **over = NULL;
	size_t n = 0, cap = 0, at = 0;
	int64_t next = INT64_MAX;
	for (struct fleet_clock *one; (one = fleet_next_clock(s->fleet, &at));) {
		int64_t then = timeslot_changes_ms(s, one, l->now);
		bool leaving = timeslots_leaving(s, one->task, l->now.wall_ms);
		l->slots += hash_of(one, then == INT64_MIN, leaving);
		if (leaving)
			look_list_leaving(l, one);
		if (then > INT64_MIN) {
			next = then < next ? then : next;
			continue;
		}
		alloc_grow(over, n, cap);
		over[n++] = one;
	}
	l->n_over = keep_first(s, over, n, l->over);
	free(over);
	return next;
}

static bool look_has_moved(const struct timeslots *s, const struct slots_look *l)
{
	return s->seen.tasks != tasks_version(s->tasks) || s->seen.fleet != fleet_version(s->fleet) ||
	       s->seen.slots != l->slots;
}

/* Returns when the next is due. What is waited for may end by time alone: so while GPUs are kept, it looks each second. */
static int64_t timeslots_look_now(struct timeslots *s, struct slots_look *l, int64_t next)
{
	s->looked_ms = l->now.mono_ms;
	s->seen.tasks = tasks_version(s->tasks);
	s->seen.fleet = fleet_version(s->fleet);
	s->seen.slots = l->slots;
	bool changed = timeslots_look(s, l);
	int64_t again = pass_vacates(s->pass) ? l->now.mono_ms + LOOK_MS : INT64_MAX;
	s->due_ms = INT64_MIN;
	next = again < next ? again : next;
	return changed ? l->now.mono_ms : next;
}

/* Three gates, the cheapest first: no slot is over and nobody leaves; nothing moved since the last look; one was less than a
 * second ago. due_ms is as early as can be while any is over, since what it waits for is a move and no moment. */
static int64_t timeslots_consider(struct timeslots *s, struct slots_look *l)
{
	int64_t next = look_list(s, l), again = s->looked_ms + LOOK_MS;
	bool any = l->n_over || l->n_leaving || pass_vacates(s->pass);
	s->due_ms = any ? INT64_MIN : next;
	if (!any || !tasks_queued(s->tasks) || !fleet_was_read(s->fleet))
		return next;
	fleet_gpus(s->fleet, l->now);
	if (!pass_vacates(s->pass) && !look_has_moved(s, l))
		return next;
	if (l->now.mono_ms < again)
		return next < again ? next : again;
	return timeslots_look_now(s, l, next);
}

int64_t timeslots_turn(struct timeslots *s, struct now now)
{
	if (now.mono_ms < s->due_ms)
		return s->due_ms;
	struct slots_look l = { .s = s, .now = now };	/* kilobytes, that every turn would clear */
	int64_t next = timeslots_consider(s, &l);
	free(l.leaving);
	return next;
}

void timeslots_recall(struct timeslots *s, struct now now)
{
	if (s->recalled || !fleet_was_read(s->fleet))
		return;
	struct slots_look l = { .s = s, .now = now };
	s->recalled = true;
	look_list(s, &l);
	l.n_over = 0;
	if (l.n_leaving && tasks_queued(s->tasks)) {
		timeslots_look(s, &l);
		s->due_ms = INT64_MIN;
	}
	free(l.leaving);
}
