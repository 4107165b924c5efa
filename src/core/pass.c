/* SPDX-License-Identifier: MIT
 *
 * The order in which tasks are tried; see pass.h for the rules. Everything that a pass does is an event of the tasks or a mark
 * on the fleet, so it may be cut short or done again at any time: what it sees is what the owners say at that moment.
 */
#include "core/pass_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

struct pass *pass_create(const struct core_config *config, const struct core_ops *ops, struct fair *fair, struct tasks *ts,
			 struct fleet *f, struct estimates *e, struct host *h)
{
	struct pass *p = alloc_zero(sizeof *p);
	p->config = config;
	p->ops = ops;
	p->fair = fair;
	p->tasks = ts;
	p->fleet = f;
	p->estimates = e;
	p->host = h;
	host_keep_vacated(h, &p->vacated);
	pass_ask(p);
	return p;
}

void pass_destroy(struct pass *p)
{
	if (!p)
		return;
	free(p->moved);
	free(p->turns);
	free(p->vacated.list);
	free(p);
}

/* As pass_request, but without the plan where nothing runs: then there is nothing to wait for. */
static struct map_request request_now(struct pass *p, const struct task *t, struct now now)
{
	struct map_request r = pass_request(p, t, now);
	if (!fleet_is_used(p->fleet))
		r.planned = NULL;
	return r;
}

/* Whether it was placed, or can never be, since no GPU here can run it (one went away since it was submitted): then it must not
 * block others. */
static bool pass_try_first(struct pass *p, struct task *t, const struct map_request *r, struct now now)
{
	if (pass_try(p, t, r, now))
		return true;
	if (!pass_hopeless(p, t, r, now))
		return false;
	pass_let_go(p, t->id);
	return true;
}

/* Whether it blocks those behind it: it does not fit now, but will when others end. Its user has waited once already, so it
 * does not wait for what a plan says. */
static bool pass_blocks_recovering(struct pass *p, struct task *t, struct now now)
{
	struct map_request r = pass_request(p, t, now);
	r.planned = NULL;
	bool lacks = pass_lacks_gpus(p, &r, now);
	if (!lacks && r.start_alone && p->config->recover.mode == RECOVER_EXCLUSIVE)
		pass_keep_for_recovering(p, &r, now);
	if (pass_try_first(p, t, &r, now) || lacks)
		return false;
	pass_note_recovering(p, &r, now);
	return true;
}

/* The recovery queue in order, until a task does not fit. */
static void pass_place_recovering(struct pass *p, struct now now)
{
	bool blocked = false;
	struct queue_walk w;
	queue_walk_begin(&w, tasks_queue(p->tasks), QUEUE_RECOVERY);
	for (struct task *t; !blocked && (t = queue_walk_next(&w)) && t->queue == QUEUE_RECOVERY;)
		blocked = pass_may_try(p, t, &w, now) && pass_blocks_recovering(p, t, now);
	queue_walk_end(&w);
	if (!blocked)
		pass_let_go(p, p->recovering.task);
}

/* Whether it lacks GPUs that are out of use. Asked before what its user may have: who cannot start leaves that to the user's
 * others. */
static bool pass_sets_aside(struct pass *p, struct task *t, struct queue_walk *w, struct now now)
{
	if (!p->some_out_of_use)
		return false;
	estimates_refresh(p->estimates, t, now);
	struct map_request r = request_now(p, t, now);
	if (!pass_lacks_gpus(p, &r, now))
		return false;
#ifdef RAD_CHECKS
	assert(!pass_would_place(p, &r, NULL, now));
#endif
	queue_walk_set_aside(w);
	return true;
}

/* The main queue in order, until a task does not fit; returns that one, the head, or NULL. Each task is marked as the head
 * before it is tried: so what was kept for a head that was overtaken is given up first, and the one that is returned has the
 * mark. One that waits for GPUs that are drained, silent or reserved is no head, or what is kept for it (under `strict`: all)
 * would idle until somebody brings them back, and nothing be kept for those behind it. Where all are out of use, nobody is
 * one. Thousands may wait through a maintenance, and each that comes makes a pass: nobody is asked then, and where some are in
 * use, who was found to lack others is set aside. */
static struct task *pass_place_in_order(struct pass *p, struct queue_walk *w, struct now now)
{
	for (struct task *t; !p->all_out_of_use && (t = queue_walk_next(w));) {
		if (pass_sets_aside(p, t, w, now) || !pass_may_try(p, t, w, now))
			continue;
		struct map_request r = request_now(p, t, now);
		pass_lead(p, &p->head, t->id);
		if (!pass_try_first(p, t, &r, now))
			return t;
		if (tasks_in_queue(p->tasks, t))
			queue_walk_pass_over(w);
	}
	return NULL;
}

/* In builds with checks the long way is gone too: what is remembered must be what asking would come to (decision 128). */
static bool pass_stays(struct pass *p, const struct task *t, struct now now)
{
	bool stays = pass_is_refused_still(p, t, now);
#ifdef RAD_CHECKS
	struct map_request r = request_now(p, t, now);
	assert(!stays || !pass_would_place(p, &r, NULL, now));
#endif
	return stays;
}

/* Tasks behind a head that does not fit. Planned ones were tried already; while a new plan is due, nobody goes before it. */
static void pass_try_behind(struct pass *p, struct queue_walk *w, struct now now)
{
	unsigned stayed = 0;
	for (struct task *t; stayed < PASS_BEHIND && !pass_plan_to_come(p) && (t = queue_walk_next(w));) {
		if (pass_sets_aside(p, t, w, now))
			continue;
		if (pass_stays(p, t, now) || !pass_may_try(p, t, w, now)) {
			stayed++;
			continue;
		}
		struct map_request r = request_now(p, t, now);
		if (!r.planned)
			stayed += !pass_try(p, t, &r, now);
	}
}

/* Users whose reservations have begun go before others there, whatever the order of the queue is. */
static void pass_place_reserved(struct pass *p, struct now now)
{
	unsigned stayed = 0;
	struct queue_walk w;
	if (!fleet_has_reserves(p->fleet))
		return;
	queue_walk_begin(&w, tasks_queue(p->tasks), QUEUE_RECOVERY);
	for (struct task *t; stayed < PASS_BEHIND && (t = queue_walk_next(&w));) {
		if (!fleet_is_reserved_for(p->fleet, t->spec->uid, now.wall_ms)) {
			queue_walk_leave_user(&w);
			continue;
		}
		if (!pass_may_try(p, t, &w, now))
			continue;
		struct map_request r = pass_request(p, t, now);
		r.planned = NULL;
		r.reserved = true;
		stayed += !pass_try(p, t, &r, now);
	}
	queue_walk_end(&w);
}

static void pass_place_main(struct pass *p, struct queue_walk *w, struct now now)
{
	struct task *head = pass_place_in_order(p, w, now);
	if (!head) {
		pass_let_go(p, p->head.task);
		return;
	}
	struct map_request r = pass_request(p, head, now);
	pass_keep_for_head(p, head, &r, now);
	if (p->config->order != ORDER_STRICT)
		pass_try_behind(p, w, now);
}

/* Recovering tasks come first, since their users have waited once already; then users for whom GPUs are reserved now; then the
 * plan; then the rest of the queue. */
static void pass_place_all(struct pass *p, struct now now)
{
	struct queue_walk w;
	pass_begin_turns(p);
	pass_note_out_of_use(p, now);
	pass_place_recovering(p, now);
	pass_place_reserved(p, now);
	if (p->config->order == ORDER_PLAN)
		pass_follow_plan(p, now);
	queue_walk_begin_past(&w, tasks_queue(p->tasks), QUEUE_MAIN, p->aside);
	pass_place_main(p, &w, now);
	queue_walk_end(&w);
}

/* One version of all that is outside: none of these ever goes back, so their sum is another one whenever any moves. A pass
 * that finds that nothing did would do what the last one did: nothing. */
static uint64_t outside(const struct pass *p)
{
	return tasks_version(p->tasks) + fleet_version(p->fleet) + estimates_version(p->estimates);
}

/* When a pass gives up GPUs that were kept (their task was placed elsewhere, or lost them to a new head), tasks that it tried
 * before may fit now, so all are tried once more. Only once: it would not end where two heads take turns. What was seen is
 * noted after it: what it did itself (estimates made anew, GPUs taken) is no reason for another one. */
static void pass_run(struct pass *p, struct now now)
{
	p->asked = false;
	pass_place_all(p, now);
	if (p->asked)
		pass_place_all(p, now);
	pass_begin_uncaptured(p, now);
	fleet_gpus(p->fleet, now);
	p->seen = outside(p);
	p->ran_ms = now.mono_ms;
	p->asked = false;
}

/* Keeping is watched before and after: before, its end may be the reason for a pass; after, the pass may have begun to keep.
 * GPUs are brought up to date before versions are compared, or what was touched would not have moved yet. */
int64_t pass_turn(struct pass *p, struct now now)
{
	pass_watch_keeping(p, now);
	if (!tasks_queued(p->tasks))
		pass_forget_turns(p);
	if (fleet_was_read(p->fleet) && (tasks_queued(p->tasks) || estimates_open(p->estimates))) {
		fleet_gpus(p->fleet, now);
		pass_watch_gpus(p, now);
		if (p->asked || p->seen != outside(p) || pass_plan_due(p, now) <= now.mono_ms)
			pass_run(p, now);
	}
	pass_place_cpu_tasks(p, now);
	int64_t plan = pass_plan_due(p, now), keeping = pass_watch_keeping(p, now);
	return plan < keeping ? plan : keeping;
}

/* Kept GPUs are given up too, but for those that are vacated: a task that still goes first has them kept again in the next
 * pass. For how long they were kept for one that recovers is not forgotten: any user may set a limit of his own, and each would
 * begin keep_max anew. What was refused goes by the fleet's shape, which has moved too (fleet_reconsider). */
void pass_reconsider(struct pass *p)
{
	const struct first recovering = p->recovering;
	pass_let_go(p, recovering.task);
	p->recovering = recovering;
	pass_let_go(p, p->head.task);
	fair_desist(p->fair, fair_insists(p->fair));
	pass_forget_turns(p);
	p->plan.broken = true;
	pass_ask(p);
}

task_id pass_head(const struct pass *p)
{
	return p->head.task;
}

static bool waits_for_gpus(const struct pass *p, task_id id)
{
	const struct task *t = tasks_find(p->tasks, id);
	return t && t->state == TASK_PENDING && !t->waiting_for_deps;
}

int pass_check(const struct pass *p, struct error *err)
{
	char text[TASK_ID_TEXT];
	task_id insists = fair_insists(p->fair);
	if (insists && !waits_for_gpus(p, insists))
		return error_set(err, ERR_CORRUPT, "task %s: insists, and does not wait for GPUs", task_id_text(insists, text));
	for (uint32_t i = 0; i < fleet_size(p->fleet); i++) {
		task_id id = fleet_kept_for(p->fleet, i), next = fleet_turn_of(p->fleet, i);
		if (next && !waits_for_gpus(p, next))
			return error_set(err, ERR_CORRUPT, "GPU in slot %u: is the turn of a task that does not wait", i);
		if (id && !waits_for_gpus(p, id))
			return error_set(err, ERR_CORRUPT, "GPU in slot %u: is kept for task %s, which does not wait", i, task_id_text(id, text));
		if (id && id != p->recovering.task && id != p->head.task && !pass_vacated_for(p, id))
			return error_set(err, ERR_CORRUPT, "GPU in slot %u: is still kept for task %s", i, task_id_text(id, text));
	}
	return 0;
}
