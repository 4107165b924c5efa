/* SPDX-License-Identifier: MIT
 *
 * What a task asks for, whether that fits, and where it goes. What its kind was refused (pass_refused.c) is not asked again.
 * Some tasks are asked in full each time: one that GPUs are kept for may use what its kind may not, and a planned one only
 * what the plan says.
 */
#include "core/pass_private.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define CLAIM_TRIES 8		/* in a pass, where other daemons place tasks at the same moment */
#define FENCE_SLACK_PART 8	/* of the slack: 256 MiB by default */

const struct planned *pass_planned(const struct pass *p, task_id id)
{
	for (size_t i = 0; p->config->order == ORDER_PLAN && i < p->plan.n_waiting; i++)
		if (p->plan.waiting[i].p.id == id)
			return &p->plan.waiting[i];
	return NULL;
}

static void say_planned(const struct pass *p, struct map_request *r, struct now now)
{
	const struct planned *w = pass_planned(p, r->task);
	if (!w || w->p.gpus != r->gpus)
		return;
	r->planned = w->slots;
	r->among = w->p.among;
	r->later = true;
	r->planned_s = fmax(w->p.start_s - (double)(now.mono_ms - p->plan.made_ms) / 1000, 0);
}

#define OVERRUN 1.5	/* what runs like it took is no promise */

/* How long the task may run, in seconds, at most or nearly so; 0: not known. What a capture counts is too little for that,
 * since it leaves out what a script does between its steps; its own clock does not. */
static double expected_run_s(const struct pass *p, const struct task *t, struct now now)
{
	enum work_known how;
	double work_s = estimates_work_s(p->estimates, t, &how), clock_s = estimates_clock_s(p->estimates, t, now);
	double s = OVERRUN * fmin(how < WORK_COUNTED ? work_s : INFINITY, clock_s), limit = (double)t->time_limit_s;
	if (isinf(s))
		return limit;
	return t->time_limit_s && limit < s ? limit : s;
}

/* Made from the record, estimates and settings, and from what the pass keeps and plans. pass_refused.c relies on that list, and
 * must follow when something is added here. */
struct map_request pass_request(struct pass *p, const struct task *t, struct now now)
{
	struct map_request r = {
		.task = t->id, .gpus = t->gpus, .exclusive = t->spec->exclusive, .share = t->spec->share,
		.model = t->spec->gpu_model, .constraint = t->spec->constraint,
		.uid = t->spec->uid, .claim_mib = t->estimate.claim_mib, .need_mib = t->estimate.need_mib,
		.claim_is_declared = t->gpu_mem_mib != 0,
	};
	if (fleet_predicts(p->fleet))
		r.self = (struct map_tenant){ estimates_load(p->estimates, t, fleet_first_model(p->fleet)).load, t->max_slowdown };
	if (t->claim_floor_mib > r.claim_mib)
		r.claim_mib = t->claim_floor_mib, r.need_mib = 0, r.claim_is_declared = false;
	if (!r.claim_mib)
		r.signature_key = task_signature_key(t);
	/* The claim has grown already when the attempt ended; when the time for keeping GPUs is over, only solitude is given
	 * up. */
	r.start_alone = t->queue == QUEUE_RECOVERY && t->exclusive_next && !pass_kept_long_enough(p, t->id, now);
	/* A task that another client's fault ended runs where no fault of others reaches it: then the next fault is its own. */
	if (r.start_alone && r.share == SHARE_AUTO && task_attempt(t)->verdict == VERDICT_NEIGHBOUR)
		r.share = SHARE_STREAMS;
	if (fleet_places_by_cores(p->fleet))
		r.cores = fleet_cores_room(p->fleet, estimates_cores(p->estimates, t).cores, NULL, NULL);
	if (!r.start_alone)
		say_planned(p, &r, now);
	r.lent_by = pass_ends_in_time(p, t, now) ? p->head.task : 0;
	r.now_ms = now.wall_ms;
	r.run_s = fleet_has_reserves(p->fleet) ? expected_run_s(p, t, now) : 0;
	return r;
}

/* What a user may have ------------------------------------------------------------------------------------------------ */

/* The limit that refuses this one by itself. */
static struct pass_left_out left_out_itself(struct pass *p, const struct task *t, struct now now)
{
	const struct map_request r = pass_request(p, t, now);
	const struct fair_taken more = pass_would_take(p, &r);
	struct pass_left_out left = { .by = t };
	left.kind = pass_refused(p, &r, &left.never);
	left.asks = left.kind == ALLOWANCE_COUNT ? 0 : allowance_has(&more, left.kind);
	return left;
}

struct pass_left_out pass_left_out(struct pass *p, const struct task *t, struct now now)
{
	const struct allowance a = pass_allowance(p, t->spec->uid);
	const struct task *first = queue_first_of(tasks_queue(p->tasks), t->spec->uid);
	const struct pass_left_out none = { .kind = ALLOWANCE_COUNT };
	if (!allowance_limits(&a))
		return none;
	struct pass_left_out left = left_out_itself(p, t, now);
	if (left.kind != ALLOWANCE_COUNT || t->queue != QUEUE_MAIN || !t->gpus || !first || first == t)
		return left;
	left = left_out_itself(p, first, now);
	return left.never ? none : left;
}

/* Whether the task's user may have it now, by its latest estimate. If not, the user is left out of the rest of the walk, so
 * that the user's later tasks do not pass this one. A task that is more than the user may ever have is passed over alone. */
bool pass_may_try(struct pass *p, struct task *t, struct queue_walk *w, struct now now)
{
	bool never = false;
	estimates_refresh(p->estimates, t, now);
	const struct allowance a = pass_allowance(p, t->spec->uid);
	if (!allowance_limits(&a))
		return true;
	struct map_request r = pass_request(p, t, now);
	if (pass_refused(p, &r, &never) == ALLOWANCE_COUNT)
		return true;
	if (never)
		queue_walk_pass_over(w);
	else
		queue_walk_leave_user(w);
	return false;
}

/* Whether it fits ----------------------------------------------------------------------------------------------------- */

/* Whether it may fit where others of its kind do not. */
static bool is_special(const struct pass *p, const struct map_request *r)
{
	return r->start_alone || r->planned || r->lent_by || r->reserved || pass_keeps_anything_for(p, r->task);
}

/* Remembered by kind and shape, since it is asked of a head in every pass. A task that cannot run here at all is left aside: it
 * waits until a GPU comes back, and holds nobody up. */
bool pass_hopeless(struct pass *p, const struct task *t, const struct map_request *r, struct now now)
{
	if (host_feasible(p->config, t->spec, t->host_mem_mib, NULL))
		return true;
	if (!r->gpus)
		return false;
	const struct map_scene s = pass_scene(p, now);
	struct refused *e = pass_refused_kind(p, r);
	if (e->feasible == FEASIBLE_NOT_ASKED)
		e->feasible = map_feasible(&s, r, NULL) ? FEASIBLE_NEVER : FEASIBLE;
	return e->feasible == FEASIBLE_NEVER;
}

/* Placing ------------------------------------------------------------------------------------------------------------- */

static bool has_slot(const uint32_t *slots, size_t n, uint32_t slot)
{
	for (size_t i = 0; i < n; i++)
		if (slots[i] == slot)
			return true;
	return false;
}

/* The slots on which alone such a request may be placed: those that moved since, and those that fitted then. False: all. */
static bool pass_list_chances(struct pass *p, const struct refused *e, size_t *n_moved, size_t *n)
{
	size_t size = fleet_size(p->fleet);
	if (p->cap_moved < size + MAP_FEW)
		p->moved = alloc_resize(p->moved, p->cap_moved = size + MAP_FEW, sizeof *p->moved);
	*n_moved = *n = fleet_moved_since(p->fleet, e->version, p->moved);
	for (unsigned i = 0; i < e->few.n && e->few.n <= MAP_FEW; i++)
		if (!has_slot(p->moved, *n_moved, e->few.at[i]))
			p->moved[(*n)++] = e->few.at[i];
	return e->few.n <= MAP_FEW && *n < size;
}

/* Looks on the slots that moved since a request of its kind last did not fit, and on those that fitted then but were too few
 * for a task of several GPUs (e->few, decision 70). If it does not fit now either, the version of the whole fleet is noted:
 * all that moved before was asked in this call. */
static bool pass_find_where_moved(struct pass *p, const struct map_scene *s, const struct map_request *r, struct placement *out)
{
	struct refused *e = pass_refused_kind(p, r);
	size_t n_moved = 0, n_chances = 0;
	assert(!is_special(p, r) && e->version <= fleet_version(p->fleet));
	bool some = e->version && pass_list_chances(p, e, &n_moved, &n_chances);
	if ((!e->version || n_moved) && map_place_among(s, r, some ? p->moved : NULL, n_chances, out, &e->few))
		return true;
	e->version = fleet_version(p->fleet);
	return false;
}

/* A fence is for a trusted claim of a task that shares: one that has its GPUs to itself may take what it needs. What its user
 * declared is his own limit. A claim that was worked out and is too small mostly is so by little, which the slack of its GPU is
 * there for: it may have a part of that, so that as many can be wrong at once. */
static uint64_t fence_of(const struct pass *p, const struct task *t, const struct map_request *r, const struct placement *where)
{
	if (!p->config->fence || where->mode != SHARE_MPS || !t->estimate.fenced || r->start_alone || r->exclusive)
		return 0;
	return where->claim_mib + (t->spec->gpu_mem_mib ? 0 : p->config->map.slack_mib / FENCE_SLACK_PART);
}

/* What follows from EV_PLACED (the attempt stands on its slots) is the core's, so that restarts and passes do the same. */
void pass_place_there(struct pass *p, struct task *t, const struct map_request *r, const struct placement *where,
		      struct now now)
{
	const struct map_gpu *gpus = fleet_gpus(p->fleet, now);
	char uuids[SPEC_MAX_GPUS][GPU_UUID_LEN];
	assert(where->n == r->gpus && tasks_in_queue(p->tasks, t));
	for (unsigned i = 0; i < where->n; i++)
		memcpy(uuids[i], gpus[where->slots[i]].uuid, GPU_UUID_LEN);
	pass_give_up(p, t->id);	/* its turn too */
	struct event ev = { .kind = EV_PLACED, .t_ms = now.wall_ms, .u.placed = {
		.gpus = uuids, .n_gpus = where->n, .mode = where->mode, .claim_mib = where->claim_mib,
		.fence_mib = fence_of(p, t, r, where),
		.together = where->mode == SHARE_MPS && gpus[where->slots[0]].mps_together } };
	tasks_emit(p->tasks, t, &ev, now.wall_ms);
}

static bool pass_find(struct pass *p, const struct map_request *r, struct placement *out, struct now now)
{
	const struct map_scene s = pass_scene(p, now);
	return is_special(p, r) ? map_place(&s, r, out, NULL) : pass_find_where_moved(p, &s, r, out);
}

/* Where another daemon was quicker, what it holds is known now, and another place is looked for. */
bool pass_try(struct pass *p, struct task *t, const struct map_request *asked, struct now now)
{
	struct placement where;
	struct map_request with = *asked, *r = &with;
	if (!r->planned)	/* of one that is, pass_follow_plan said where it may go */
		with.company = fleet_company(p->fleet, t->spec->uid, t->spec->feed);
	if (host_asks(p->host, t, NULL, NULL))
		return false;
	if (!r->gpus) {
		pass_place_there(p, t, r, &(struct placement){ .mode = SHARE_NEVER }, now);
		return true;
	}
	for (unsigned tries = 0; tries < CLAIM_TRIES && pass_find(p, r, &where, now); tries++)
		if (fleet_may_place(p->fleet, &where, r->uid, where.mode == SHARE_NEVER)) {
			pass_place_there(p, t, r, &where, now);
			return true;
		}
	if (!is_special(p, r))
		pass_note_refused(p, t, r, now);
	pass_take_turn(p, t, r, now);
	return false;
}

/* With a copy of rr_next, which asking must not move. */
bool pass_would_place(struct pass *p, const struct map_request *r, struct map_finding *findings, struct now now)
{
	struct placement where;
	uint32_t rr_next = p->rr_next;
	struct map_scene s = pass_scene(p, now);
	s.rr_next = &rr_next;
	return map_place(&s, r, &where, findings);
}

/* What does not change with time. */
static struct map_request request_of(const struct spec *spec)
{
	return (struct map_request){ .gpus = spec->gpus, .exclusive = spec->exclusive, .share = spec->share, .uid = spec->uid,
				     .model = spec->gpu_model, .constraint = spec->constraint };
}

int pass_feasible(const struct pass *p, const struct spec *spec, uint64_t gpu_mem_mib, struct error *err)
{
	struct map_request r = request_of(spec);
	r.claim_mib = gpu_mem_mib;
	r.claim_is_declared = gpu_mem_mib != 0;
	scoped_free struct map_gpu *devices = alloc_zero((fleet_size(p->fleet) + 1) * sizeof *devices);
	const struct map_scene s = { &p->config->map, devices, fleet_devices(p->fleet, devices), NULL };
	return r.gpus ? map_feasible(&s, &r, err) : 0;
}

uint64_t pass_largest_mib(const struct pass *p, const struct spec *spec)
{
	const struct map_request r = request_of(spec);
	scoped_free struct map_gpu *devices = alloc_zero((fleet_size(p->fleet) + 1) * sizeof *devices);
	const struct map_scene s = { &p->config->map, devices, fleet_devices(p->fleet, devices), NULL };
	return map_largest_mib(&s, &r);
}
