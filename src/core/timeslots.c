/* SPDX-License-Identifier: MIT
 * See timeslots.h. A look begins with the GPUs as they are, without tasks that were asked and have not gone yet, since what
 * they leave is spoken for. Then each waiting task, in the order of the queue, is tried without the tasks whose slots are
 * over, too. The place that it would get is marked, so that it is promised once. What a look finds is good until something
 * moves; there is at most one look a second, since slots are hours.
 *
 * A promise binds nobody: a task that leaves goes behind those that wait, and the pass places as always. Where the pass decides
 * otherwise, a task has made place a slot early, which costs it its turn in the queue and no more.
 */
#include "core/timeslots.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "map/map.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1000
#define WAITING 32	/* tasks of the queue that are looked at */
#define OVER 64		/* slots that are over, likewise: the ones over for longest */

struct timeslots {
	const struct core_config *config;
	const struct fair *fair;
	struct tasks *tasks;
	struct fleet *fleet;
	const struct host *host;
	struct pass *pass;
	int64_t due_ms;		/* mono; no slot is over before */
	int64_t looked_ms;
	struct { uint64_t tasks, fleet, cores, slots; } seen;	/* as of which it looked */
};

/* One look's scratch. */
struct slots_look {
	struct timeslots *s;
	struct now now;
	struct map_gpu *gpus;		/* by slot */
	struct map_tenant **tenants;	/* of those that were looked at anew, owned */
	struct host_room room;		/* of the host, that those who are gone leave */
	struct fleet_clock *over[OVER];	/* over for longest first */
	size_t n_over;
	uint64_t slots;			/* which are over and who is leaving, as a number */
};

struct timeslots *timeslots_create(const struct core_config *config, const struct fair *fair, struct tasks *ts, struct fleet *f,
				   const struct host *h, struct pass *p)
{
	struct timeslots *s = alloc_zero(sizeof *s);
	*s = (struct timeslots){ .config = config, .fair = fair, .tasks = ts, .fleet = f, .host = h, .pass = p,
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

bool timeslots_leaving(const struct core_config *config, const struct task *t, int64_t wall_ms)
{
	const struct attempt *a = task_attempt(t);
	return t->state == TASK_RUNNING && a->slot_asks && wall_ms - a->slot_asked_ms < grace_of(config, t);
}

/* When it is over (mono); INT64_MAX: it has no slot, is asked no more, or is suspended and hears nothing. */
static int64_t timeslot_ends_ms(const struct timeslots *s, const struct fleet_clock *one)
{
	const struct task *t = one->task;
	int64_t length = timeslots_length_ms(s->config, t);
	bool can = length && task_attempt(t)->shim.pid && !t->stopping && !t->suspended &&
		   task_attempt(t)->slot_asks < TIMESLOTS_ASKS && t->n_slots < TIMESLOTS_MAX;
	return can ? one->timeslot_ms + length : INT64_MAX;
}

/* When it will be over, or is no longer expected to leave (mono); INT64_MIN: it is over. */
static int64_t timeslot_changes_ms(const struct timeslots *s, const struct fleet_clock *one, struct now now)
{
	const struct task *t = one->task;
	bool leaving = timeslots_leaving(s->config, t, now.wall_ms);
	int64_t end = timeslot_ends_ms(s, one), stays = leaving ? one->timeslot_ms + grace_of(s->config, t) : INT64_MAX;
	if (end <= now.mono_ms)
		return INT64_MIN;
	return stays > now.mono_ms && stays < end ? stays : end;
}

/* Nothing moved of those that run already, so they are not looked at: with thousands of them that was a third of all that a
 * placement took. */
void timeslots_begin(struct timeslots *s, const struct task *t, struct now now)
{
	int64_t next;
	const struct attempt *a = task_attempt(t);
	struct fleet_clock *one = fleet_clock_of(s->fleet, t->id);
	one->timeslot_ms = now.mono_ms - (now.wall_ms - (a->slot_asks ? a->slot_asked_ms : a->start_ms));
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

/* Takes it off its GPUs, or puts it back. The slot is looked at anew from the fleet each time, not by difference, so that who
 * comes back leaves no trace. */
static void look_set_gone(struct slots_look *l, struct fleet_clock *one, bool gone)
{
	const uint32_t *slots;
	unsigned n = fleet_slots_of(l->s->fleet, one->task->id, &slots);
	if (one->gone == gone)
		return;
	one->gone = gone;
	struct host_room held = host_held_by(l->s->host, one->task->id);
	l->room.mem_mib += gone ? held.mem_mib : -held.mem_mib;
	l->room.cpus += gone ? held.cpus : -held.cpus;
	for (unsigned i = 0; i < n; i++) {
		struct map_gpu *g = &l->gpus[slots[i]];
		unsigned there = fleet_look(l->s->fleet, slots[i], l->now.mono_ms).n_tasks;
		if (!l->tenants[slots[i]])
			l->tenants[slots[i]] = alloc_zero((there + 1) * sizeof **l->tenants);
		fleet_gpu_without(l->s->fleet, slots[i], is_gone, l->s->fleet, l->now, l->tenants[slots[i]], g);
	}
}

/* On the look's GPUs, not the fleet's, and with a turn of its own under `rr`. */
static bool look_fits(const struct slots_look *l, const struct task *t, const struct map_request *r, struct placement *where)
{
	uint32_t turn = 0;
	if (host_asks(l->s->host, t, l->room, NULL))
		return false;
	struct map_request then = *r;
	then.cores = fleet_cores_room(l->s->fleet, r->cores.wanted, is_gone, l->s->fleet);
	const struct map_scene s = { &l->s->config->map, l->gpus, fleet_size(l->s->fleet), &turn };
	return map_place(&s, &then, where, NULL);
}

/* Promised: whoever comes later looks elsewhere. */
static void look_promise(struct slots_look *l, const struct placement *where)
{
	for (unsigned i = 0; i < where->n; i++)
		l->gpus[where->slots[i]].drained = true;
}

static struct fair_standing standing(const struct timeslots *s, uid_t uid)
{
	const struct fair_user *u = fair_find(s->fair, uid);
	return u ? fair_look(s->fair, u) : (struct fair_standing){ .uid = uid };
}

/* Whose turn it would be once that task had gone: as queue/fair.h has it, an equal part of what its user has being its own. */
static bool users_turn(const struct timeslots *s, uid_t waits, uid_t runs)
{
	struct fair_standing w = standing(s, waits), r = standing(s, runs);
	unsigned others = r.taken.tasks > 1 ? r.taken.tasks - 1 : 0;
	if (waits == runs || !s->config->fair.on || w.owed)
		return true;
	if (!w.taken.tasks != !others)
		return !w.taken.tasks;
	double kept = r.taken.tasks ? r.rate * others / r.taken.tasks : 0;
	return w.used_s + FAIR_AHEAD_S * w.rate <= r.used_s + FAIR_AHEAD_S * kept;
}

/* Whether it would come before that task, were both to wait. Of one user all do that wait already. */
static bool goes_before(const struct timeslots *s, const struct task *waits, const struct task *runs)
{
	if (waits->queue == QUEUE_RECOVERY || waits->priority != runs->priority)
		return waits->queue == QUEUE_RECOVERY || waits->priority > runs->priority;
	return users_turn(s, waits->spec->uid, runs->spec->uid);
}

/* The slots that are over and may be ended for that one: all but those left over from others. */
static size_t look_list_chances(const struct slots_look *l, const struct task *t, struct fleet_clock *chances[OVER])
{
	size_t n = 0;
	for (size_t i = 0; i < l->n_over; i++)
		if (!l->over[i]->gone && goes_before(l->s, t, l->over[i]->task))
			chances[n++] = l->over[i];
	return n;
}

/* All of them go; then those stay without whom it would do as well, the ones that had least beyond their slot first. */
static bool look_makes_place(struct slots_look *l, const struct task *t, const struct map_request *r, struct placement *where)
{
	struct fleet_clock *chances[OVER];
	size_t n = look_list_chances(l, t, chances);
	for (size_t i = 0; i < n; i++)
		look_set_gone(l, chances[i], true);
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

/* Returns whether those behind it may have what they find. Under `strict` nobody behind a head that finds no place may
 * have one: to ask for him would be for nothing. */
static bool look_for(struct slots_look *l, const struct task *t)
{
	struct map_request r = pass_request(l->s->pass, t, l->now);
	struct placement where;
	if (pass_left_out(l->s->pass, t, l->now) != ALLOWANCE_COUNT)
		return true;	/* its user has what he may have: a place would not help it */
	r.planned = NULL;	/* a plan counts with places that are there */
	r.later = false;
	if (look_fits(l, t, &r, &where) || look_makes_place(l, t, &r, &where)) {
		look_promise(l, &where);
		return true;
	}
	return l->s->config->order != ORDER_STRICT || t->queue == QUEUE_RECOVERY;
}

static void look_for_those_who_wait(struct slots_look *l)
{
	struct queue_walk w;
	size_t n = 0;
	bool go_on = true;
	queue_walk_begin(&w, tasks_queue(l->s->tasks), QUEUE_RECOVERY);
	for (struct task *t; go_on && n++ < WAITING && (t = queue_walk_next(&w));)
		go_on = look_for(l, t);
	queue_walk_end(&w);
}

static int timeslots_by_end(const void *a, const void *b)
{
	const struct fleet_clock *x = *(struct fleet_clock *const *)a, *y = *(struct fleet_clock *const *)b;
	if (x->timeslot_ms != y->timeslot_ms)
		return x->timeslot_ms < y->timeslot_ms ? -1 : 1;
	return (x->task->id > y->task->id) - (x->task->id < y->task->id);
}

static void timeslots_ask(struct timeslots *s, struct fleet_clock *one, struct now now)
{
	struct event ev = { .kind = EV_SLOT_ASKED, .t_ms = now.wall_ms };
	one->timeslot_ms = now.mono_ms;
	tasks_emit(s->tasks, one->task, &ev, now.wall_ms);
}

/* Asking comes last: it changes what was looked at. */
static void timeslots_look(struct timeslots *s, struct slots_look *l)
{
	size_t size = fleet_size(s->fleet), at = 0;
	l->gpus = alloc_zero((size + 1) * sizeof *l->gpus);
	l->tenants = alloc_zero((size + 1) * sizeof *l->tenants);
	memcpy(l->gpus, fleet_gpus(s->fleet, l->now), size * sizeof *l->gpus);
	for (struct fleet_clock *one; (one = fleet_next_clock(s->fleet, &at));)
		if (timeslots_leaving(s->config, one->task, l->now.wall_ms))
			look_set_gone(l, one, true);
	look_for_those_who_wait(l);
	for (size_t i = 0; i < size; i++)
		free(l->tenants[i]);
	free(l->tenants);
	free(l->gpus);
	for (size_t i = 0; i < l->n_over; i++)
		if (l->over[i]->gone)
			timeslots_ask(s, l->over[i], l->now);
	at = 0;
	for (struct fleet_clock *one; (one = fleet_next_clock(s->fleet, &at));)
		one->gone = false;
}

/* What it adds to the number of what is over and who is leaving. */
static uint64_t hash_of(const struct timeslots *s, const struct fleet_clock *one, bool over, struct now now)
{
	bool leaving = timeslots_leaving(s->config, one->task, now.wall_ms);
	const int64_t slot[] = { one->task->id, one->timeslot_ms };
	return leaving || over ? hash_bytes(HASH_SEED + leaving, slot, sizeof slot) : 0;
}

/* The ones over for longest. Returns when the next will be. */
static int64_t look_list_over(struct timeslots *s, struct slots_look *l)
{
	struct fleet_clock **over = NULL;
	size_t n = 0, cap = 0, at = 0;
	int64_t next = INT64_MAX;
	for (struct fleet_clock *one; (one = fleet_next_clock(s->fleet, &at));) {
		int64_t then = timeslot_changes_ms(s, one, l->now);
		l->slots += hash_of(s, one, then == INT64_MIN, l->now);
		if (then > INT64_MIN) {
			next = then < next ? then : next;
			continue;
		}
		alloc_grow(over, n, cap);
		over[n++] = one;
	}
	if (n)
		qsort(over, n, sizeof *over, timeslots_by_end);
	l->n_over = n < OVER ? n : OVER;
	if (n)
		memcpy(l->over, over, l->n_over * sizeof *over);
	free(over);
	return next;
}

static bool look_has_moved(const struct timeslots *s, const struct slots_look *l)
{
	return s->seen.tasks != tasks_version(s->tasks) || s->seen.fleet != fleet_version(s->fleet) ||
	       s->seen.cores != fleet_cores_version(s->fleet) || s->seen.slots != l->slots;
}

/* Three gates, the cheapest first: no slot is over; nothing moved since the last look; one was less than a second ago. due_ms
 * is as early as can be while any is over, since what it waits for is a move and no moment. */
int64_t timeslots_turn(struct timeslots *s, struct now now)
{
	struct slots_look l = { .s = s, .now = now };
	if (now.mono_ms < s->due_ms)
		return s->due_ms;
	int64_t next = look_list_over(s, &l), again = s->looked_ms + LOOK_MS;
	s->due_ms = l.n_over ? INT64_MIN : next;
	if (!l.n_over || !tasks_queued(s->tasks) || !fleet_was_read(s->fleet))
		return next;
	fleet_gpus(s->fleet, now);
	if (!look_has_moved(s, &l))
		return next;
	if (now.mono_ms < again)
		return next < again ? next : again;
	s->looked_ms = now.mono_ms;
	s->seen.tasks = tasks_version(s->tasks);
	s->seen.fleet = fleet_version(s->fleet);
	s->seen.cores = fleet_cores_version(s->fleet);
	s->seen.slots = l.slots;
	timeslots_look(s, &l);
	s->due_ms = INT64_MIN;
	return next;
}
