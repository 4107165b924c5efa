/* SPDX-License-Identifier: MIT
 *
 * GPUs kept free for tasks that go first: one recovering task, one head of the main queue, and those for whom others make
 * place. Each slot says for which task it is kept, where placement sees it; struct pass says for which tasks at all, and since
 * when.
 */
#include "core/pass_private.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <math.h>
#include <string.h>

#define PROMISE_SLIP 2	/* a start that is planned in an hour may come in two, and pass_max later, before GPUs are kept for it */

const struct vacated *pass_vacated_for(const struct pass *p, task_id id)
{
	for (size_t i = 0; i < p->vacated.n; i++)
		if (p->vacated.list[i].task->id == id)
			return &p->vacated.list[i];
	return NULL;
}

bool pass_vacates(const struct pass *p)
{
	return p->vacated.n;
}

/* Returns whether any was. */
static bool keep_no_more(const struct pass *p, task_id id)
{
	bool kept = false;
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++)
		if (fleet_kept_for(p->fleet, i) == id) {
			fleet_keep(p->fleet, i, 0);
			kept = true;
		}
	return kept;
}

/* In place of others that may be kept for it as the head: it needs no more than these. One that did not suit it for a moment
 * may be another's by now. */
static void keep_vacated(const struct pass *p, const struct vacated *v)
{
	keep_no_more(p, v->task->id);
	for (unsigned i = 0; i < v->n; i++)
		if (!fleet_kept_for(p->fleet, v->slots[i]))
			fleet_keep(p->fleet, v->slots[i], v->task->id);
}

static bool same_places(const struct pass *p, const struct vacated *list, size_t n)
{
	const struct vacated *before = p->vacated.list;
	bool same = p->vacated.n == n;
	for (size_t i = 0; same && i < n; i++)
		same = before[i].task == list[i].task && before[i].n == list[i].n &&
		       !memcmp(before[i].slots, list[i].slots, list[i].n * sizeof *list[i].slots);
	return same;
}

/* A head that has waited long enough has other GPUs kept for it in the next pass, which is asked for. */
bool pass_vacate(struct pass *p, const struct vacated *list, size_t n)
{
	bool same = same_places(p, list, n);
	struct vacated_list *v = &p->vacated;
	for (size_t i = 0; !same && i < v->n; i++)
		keep_no_more(p, v->list[i].task->id);
	v->n = 0;
	for (size_t i = 0; i < n; i++) {
		alloc_grow(v->list, v->n, v->cap);
		v->list[v->n++] = list[i];
		if (!same)
			keep_vacated(p, &list[i]);
	}
	if (!same)
		pass_ask(p);
	p->plan.broken = p->plan.broken || !same;
	return !same;
}

static void vacate_no_more(struct pass *p, task_id id)
{
	const struct vacated *v = pass_vacated_for(p, id);
	if (!v)
		return;
	p->vacated.list[v - p->vacated.list] = p->vacated.list[--p->vacated.n];
	keep_no_more(p, id);
	p->plan.broken = true;
	pass_ask(p);
}

static bool insists(const struct first *f)
{
	return f->task && f->insists_ms < PASS_NOT_YET;
}

/* What is kept for the task is free for others now; some may be kept for it again later. If there was any, a pass is asked for,
 * since tasks that were refused because of it may fit now. */
void pass_let_go(struct pass *p, task_id id)
{
	const struct vacated *v = pass_vacated_for(p, id);
	if (!id || (id != p->recovering.task && id != p->head.task))
		return;
	*(id == p->recovering.task ? &p->recovering : &p->head) = (struct first){ 0 };
	bool room = host_give_up(p->host, id), gpus = keep_no_more(p, id);
	if (v)
		keep_vacated(p, v);
	if (room || gpus)
		pass_ask(p);
}

void pass_give_up(struct pass *p, task_id id)
{
	const struct task *t = tasks_find(p->tasks, id);
	if (t)
		fair_waits_no_more(p->fair, t->spec->uid, id);
	vacate_no_more(p, id);
	pass_choose_anew(p, id);
	if (host_give_up(p->host, id))	/* one without GPUs is no head */
		pass_ask(p);
	pass_end_turn(p, id);
}

void pass_choose_anew(struct pass *p, task_id id)
{
	fair_desist(p->fair, id);
	pass_let_go(p, id);
}

bool pass_keeps_anything_for(const struct pass *p, task_id id)
{
	return (id == p->recovering.task && insists(&p->recovering)) || pass_is_first(p, id) || pass_vacated_for(p, id);
}

/* One that was overtaken (by priority, by a release, by one that may start again) loses what was kept for it. How long it was
 * passed stays in its user's record, so that it does not begin to wait anew when those before it are placed. */
void pass_lead(struct pass *p, struct first *f, task_id id)
{
	if (f->task == id)
		return;
	pass_let_go(p, f->task);
	*f = (struct first){ .task = id, .insists_ms = PASS_NOT_YET };
}

bool pass_is_first(const struct pass *p, task_id id)
{
	return p->head.task == id && insists(&p->head);
}

bool pass_kept_long_enough(const struct pass *p, task_id id, struct now now)
{
	return p->recovering.task == id && insists(&p->recovering) &&
	       now.mono_ms - p->recovering.insists_ms >= p->config->recover.keep_max_ms;
}

/* GPUs with the fewest tasks, not those whose tasks end first: ends are known of few tasks, and a head is promised the last end
 * on all of its GPUs. Whether a GPU suits is asked as if it were empty (map_suits). It is kept for nobody, or for `over`. */
static int64_t fewest_tasks(const struct pass *p, const struct map_scene *s, const struct map_request *r, task_id over)
{
	int64_t best = -1;
	for (uint32_t i = 0; i < s->n; i++) {
		task_id kept = fleet_kept_for(p->fleet, i);
		if ((!kept || kept == over) && (best < 0 || s->gpus[i].n_tasks < s->gpus[best].n_tasks) && map_suits(s, r, &s->gpus[i]))
			best = i;
	}
	return best;
}

/* Of the GPUs kept for it, those that still suit stay. Returns how many. */
static unsigned drop_unsuited(struct pass *p, const struct map_scene *s, const struct map_request *r)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		if (fleet_kept_for(p->fleet, i) != r->task)
			continue;
		if (map_suits(s, r, &s->gpus[i]))
			n++;
		else
			fleet_keep(p->fleet, i, 0);
	}
	return n;
}

/* In every pass anew: a kept GPU may have been drained, reserved or taken by a foreigner since, and is then exchanged for
 * another. Each change breaks the plan, so that one is made that keeps to it. */
static void keep_gpus(struct pass *p, const struct map_request *r, task_id over, struct now now)
{
	const struct map_scene s = pass_scene(p, now);
	int64_t slot;
	for (unsigned n = drop_unsuited(p, &s, r); n < r->gpus && (slot = fewest_tasks(p, &s, r, over)) >= 0; n++) {
		fleet_keep(p->fleet, (uint32_t)slot, r->task);
		p->plan.broken = true;
	}
}

/* Whether it was passed for as long as is allowed. The clock is the user's (queue/fair.h), and begins later by twice what a
 * plan promised: a head with a promise is not passed until that is broken. */
static bool was_passed(struct pass *p, struct first *f, const struct map_request *r, struct now now)
{
	int64_t from_ms = now.mono_ms + (r->planned ? (int64_t)(r->planned_s * PROMISE_SLIP * 1000) : 0);
	if (!f->passed_ms)
		f->passed_ms = fair_passed_since(p->fair, r->uid, r->task, from_ms);
	return now.mono_ms - f->passed_ms >= p->config->pass_max_ms;
}

/* Once it insists it does so until it starts, is overtaken or waits no more. */
static void insist(struct pass *p, struct first *f, struct now now)
{
	p->plan.broken = p->plan.broken || !insists(f);
	f->insists_ms = insists(f) ? f->insists_ms : now.mono_ms;
}

/* GPUs that are kept for the head are for it first. */
void pass_keep_for_recovering(struct pass *p, const struct map_request *r, struct now now)
{
	pass_lead(p, &p->recovering, r->task);
	insist(p, &p->recovering, now);
	host_give_up(p->host, p->head.task);	/* which may wait for these GPUs */
	host_keep(p->host, tasks_find(p->tasks, r->task));
	keep_gpus(p, r, p->head.task, now);
}

void pass_note_recovering(struct pass *p, const struct map_request *r, struct now now)
{
	pass_lead(p, &p->recovering, r->task);
	if (was_passed(p, &p->recovering, r, now) || insists(&p->recovering))
		pass_keep_for_recovering(p, r, now);
}

/* Whether a head of that user is not to be passed at all. If a user who is owed a start is alone in the queue, there is nobody
 * to keep GPUs from. */
static bool keeps_at_once(const struct pass *p, uid_t uid)
{
	return p->config->order == ORDER_FIFO || (queue_users(tasks_queue(p->tasks)) > 1 && fair_is_owed(p->fair, uid));
}

static bool is_on_kept(const struct pass *p, const struct fleet_run *r)
{
	for (unsigned i = 0; i < r->n_slots; i++)
		if (fleet_kept_for(p->fleet, r->slots[i]) == p->head.task)
			return true;
	return false;
}

static bool may_go_at_any_moment(const struct pass *p, const struct task *t)
{
	const struct fleet_clock *one = fleet_clock_of(p->fleet, t->id);
	return task_attempt(t)->slot_asks && !one->unheard && !one->stays;
}

/* Until a run ends, in seconds: by its limit or by its work, whichever is sooner. Infinite: neither is known, it is suspended,
 * or it was asked to make place and hears it. */
static double expected_left_s(const struct pass *p, const struct fleet_run *r, struct now now)
{
	const struct time_left left = estimates_left(p->estimates, r, now);
	if (r->task->suspended || may_go_at_any_moment(p, r->task))
		return INFINITY;
	return fmax(fmin(left.known ? left.s : INFINITY, left.limit_s), 0);
}

/* When the last run on the head's kept GPUs is expected to end (mono); 0: not known of one of them, so it may be any moment. */
static int64_t free_by_ms(const struct pass *p, struct now now)
{
	double last_s = 0;
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(p->fleet, &at, &r);) {
		if (!is_on_kept(p, &r))
			continue;
		double left_s = expected_left_s(p, &r, now);
		if (isinf(left_s))
			return 0;
		last_s = fmax(last_s, left_s);
	}
	return now.mono_ms + (int64_t)(last_s * 1000);
}

/* Only a limit is believed of it: what others like it took is no promise. */
bool pass_ends_in_time(struct pass *p, const struct task *t, struct now now)
{
	if (p->config->order != ORDER_FIFO || !t->time_limit_s || !insists(&p->head))
		return false;
	if (!p->promise.known)
		p->promise.ms = free_by_ms(p, now), p->promise.known = true;
	return now.mono_ms + t->time_limit_s * 1000 <= p->promise.ms;
}

void pass_keep_for_head(struct pass *p, const struct task *t, const struct map_request *r, struct now now)
{
	struct first *f = &p->head;
	p->promise.known = false;	/* what runs there may have changed */
	if (!was_passed(p, f, r, now) && !insists(f) && !keeps_at_once(p, r->uid))
		return;
	insist(p, f, now);
	fair_insist(p->fair, r->task, f->passed_ms);
	host_keep(p->host, t);
	if (!r->planned)	/* the next plan keeps what a planned one needs */
		keep_gpus(p, r, 0, now);
}

static int64_t keeping_ends_ms(const struct pass *p)
{
	return insists(&p->recovering) ? p->recovering.insists_ms + p->config->recover.keep_max_ms : INT64_MAX;
}

static int64_t passing_ends_ms(const struct pass *p, const struct first *f)
{
	return f->task && !insists(f) ? f->passed_ms + p->config->pass_max_ms : INT64_MAX;
}

/* They end by time alone, so no version moves: the pass is asked for, once. */
int64_t pass_watch_keeping(struct pass *p, struct now now)
{
	const int64_t ends[] = { keeping_ends_ms(p), passing_ends_ms(p, &p->head), passing_ends_ms(p, &p->recovering) };
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		p->asked = p->asked || (ends[i] <= now.mono_ms && ends[i] >= p->ran_ms);
		due = ends[i] > now.mono_ms && ends[i] < due ? ends[i] : due;
	}
	return due;
}
