/* SPDX-License-Identifier: MIT
 * One pass over the queue: what each task asks for, what the GPUs have, and where it goes.
 *
 * The recovery queue comes first. Its head, if it wants GPUs alone, has them kept free: the n with the least work, chosen
 * once, for at most keep_max; after that it asks for more memory instead of for solitude (section 7.2).
 *
 * The main queue is by priority, then by turn. Under `fifo` a head that does not fit stops the pass. Under `backfill` the next
 * ones may pass it, until it has been the head for pass_max: then the GPUs that it needs, those with the least work, are kept
 * for it. As what runs there ends and nobody else comes, it starts at the latest when the last of that has ended: nothing
 * starves.
 */
#include "core/private.h"

#include "base/alloc.h"

#include <string.h>

#define BEHIND 100	/* tasks after a head that does not fit that are looked at in one pass */
#define DIFFERENT 64	/* kinds of them that are told apart */
#define PROMISE_SLIP 2	/* a start that is planned in an hour may come in two, and pass_max later, before GPUs are kept for it */

const char *core_order_name(enum core_order order)
{
	static const char *const words[] = {
#define X(name, word, help) [name] = word,
		CORE_ORDERS(X)
#undef X
	};
	return order < CORE_ORDER_COUNT ? words[order] : "?";
}

int core_order_parse(const char *word, enum core_order *order, struct error *err)
{
	for (unsigned i = 0; i < CORE_ORDER_COUNT; i++) {
		if (strcmp(word, core_order_name((enum core_order)i)))
			continue;
		*order = (enum core_order)i;
		return 0;
	}
#define X(name, known, help) " " known
	return error_set(err, ERR_INVALID, "'%.40s' is no order of the queue; there are:" CORE_ORDERS(X), word);
#undef X
}

static bool keepable(const struct core *c, const struct slot *s, int64_t mono_ms)
{
	return !s->drained && !core_slot_stale(c, s, mono_ms) && !s->r.mig;
}

static void keep(struct slot *s, task_id id)
{
	s->kept_for = id;
	s->changed = true;
}

void core_give_up(struct core *c, task_id id)
{
	if (!id || (id != c->keeping && id != c->head))
		return;
	if (id == c->keeping)
		c->keeping = 0;
	else
		c->head = 0;
	for (size_t i = 0; i < c->n_slots; i++)
		if (c->slots[i]->kept_for == id)
			keep(c->slots[i], 0);
	c->dirty = true;
}

/* Keeps the n GPUs with the fewest tasks (ties: the lowest slot) free for this task. */
static void keep_gpus(struct core *c, const struct task *t, struct now now)
{
	if (c->keeping == t->id)
		return;
	core_give_up(c, c->keeping);
	for (unsigned k = 0; k < t->spec->gpus; k++) {
		struct slot *best = NULL;
		for (size_t i = 0; i < c->n_slots; i++) {
			struct slot *s = c->slots[i];
			bool free = !s->kept_for || s->kept_for == c->head;
			if (keepable(c, s, now.mono_ms) && free && (!best || s->n_runs < best->n_runs))
				best = s;
		}
		if (best)
			keep(best, t->id);
	}
	c->keeping = t->id;
	c->keep_since_ms = now.mono_ms;
}

static bool kept_long_enough(const struct core *c, const struct task *t, struct now now)
{
	return c->keeping == t->id && now.mono_ms - c->keep_since_ms >= c->config.recover.keep_max_ms;
}

struct map_request core_request(const struct core *c, const struct task *t, struct now now)
{
	struct map_request r = {
		.task = t->id, .gpus = t->spec->gpus, .exclusive = t->spec->exclusive, .share = t->spec->share,
		.uid = t->spec->uid, .claim_mib = t->estimate.claim_mib, .claim_is_declared = t->gpu_mem_mib != 0,
	};
	if (core_predicts(c))
		r.self = (struct map_tenant){ core_known_load(c, t, c->gpu_name), t->max_slowdown };
	if (t->claim_floor_mib > r.claim_mib)
		r.claim_mib = t->claim_floor_mib, r.claim_is_declared = false;
	/* The claim has grown already when the attempt ended; when the time for keeping GPUs is over, only solitude is given up. */
	r.start_alone = t->queue == QUEUE_RECOVERY && t->exclusive_next && !kept_long_enough(c, t, now);
	if (t->queue == QUEUE_MAIN)
		core_planned(c, &r, now);
	return r;
}

/* A run that was to start alone is not joined before it is warm. */
static task_id alone_still(const struct slot *s)
{
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i]->t->exclusive_next && !s->runs[i]->warm)
			return s->runs[i]->t->id;
	return 0;
}

static uint64_t driver_available(const struct slot *s)
{
	const struct gpu_reading *g = &s->r;
	return g->valid & GPU_MEM_USED && g->mem_used_mib < g->mem_total_mib ? g->mem_total_mib - g->mem_used_mib : 0;
}

/* Returns whether its tenants changed. */
static bool fill_gpu(const struct core *c, uint32_t i, struct now now, struct map_gpu *g)
{
	struct slot *s = c->slots[i];
	bool tenants_changed = core_fill_tenants(c, s);
	s->changed = false;
	*g = (struct map_gpu){
		.slot = i, .index = s->r.index, .uuid = s->r.uuid, .total_mib = ledger_capacity(&s->ledger),
		.available_mib = c->config.map.ledger ? ledger_available(&s->ledger) : driver_available(s),
		.foreign_mib = ledger_foreign(&s->ledger), .load = window_load(s->window), .n_tasks = (unsigned)s->n_runs,
		.tenants = s->n_tenants == s->n_runs ? s->tenants : NULL,
		.mps_uid = (uid_t)-1, .mps_capable = s->r.mps_capable && c->mps, .mig = s->r.mig, .drained = s->drained,
		.stale = core_slot_stale(c, s, now.mono_ms), .settling = ledger_settling(&s->ledger),
		.kept_for = s->kept_for ? s->kept_for : alone_still(s),
	};
	for (size_t k = 0; k < s->n_runs; k++) {
		const struct run *r = s->runs[k];
		g->mode = task_attempt(r->t)->mode;
		g->cold_unknown = g->cold_unknown || (r->unknown && !r->warm && c->config.map.ledger);
		g->has_multi_gpu = g->has_multi_gpu || r->n_slots > 1;
		g->unseen = g->unseen || core_unseen(c, r, now);
		g->has_limit = g->has_limit || r->t->max_slowdown > 0;
		if (g->mode == SHARE_MPS)
			g->mps_uid = r->t->spec->uid;
	}
	return tenants_changed;
}

/* Whether a decision can come out otherwise. */
static bool differ(const struct map_gpu *a, const struct map_gpu *b)
{
	const struct load *x = &a->load, *y = &b->load;
	return a->index != b->index || a->total_mib != b->total_mib || a->available_mib != b->available_mib ||
	       a->foreign_mib != b->foreign_mib || x->gract != y->gract || x->smact != y->smact ||
	       x->gract_known != y->gract_known || x->smact_known != y->smact_known || a->n_tasks != b->n_tasks ||
	       a->mode != b->mode || a->mps_uid != b->mps_uid || a->mps_capable != b->mps_capable || a->mig != b->mig ||
	       a->drained != b->drained || a->stale != b->stale || a->cold_unknown != b->cold_unknown ||
	       a->settling != b->settling || a->has_multi_gpu != b->has_multi_gpu || a->unseen != b->unseen ||
	       a->kept_for != b->kept_for;
}

size_t core_map_gpus(struct core *c, struct now now)
{
	if (c->cap_scratch < c->n_slots) {
		c->gpus_changed = true;
		c->cap_scratch = c->n_slots;
		c->gpus = alloc_resize(c->gpus, c->n_slots, sizeof *c->gpus);
		c->findings = alloc_resize(c->findings, c->n_slots, sizeof *c->findings);
	}
	for (size_t i = 0; i < c->n_slots; i++) {
		const struct slot *s = c->slots[i];
		if (!s->changed && c->gpus[i].stale == core_slot_stale(c, s, now.mono_ms))
			continue;
		struct map_gpu before = c->gpus[i];
		bool tenants_changed = fill_gpu(c, (uint32_t)i, now, &c->gpus[i]);
		c->gpus_changed = c->gpus_changed || tenants_changed || differ(&before, &c->gpus[i]);
	}
	return c->n_slots;
}

int core_feasible(struct core *c, const struct spec *spec, struct error *err)
{
	return core_feasible_with(c, spec, spec->gpu_mem_mib, err);
}

int core_feasible_with(struct core *c, const struct spec *spec, uint64_t gpu_mem_mib, struct error *err)
{
	struct map_request r = {
		.gpus = spec->gpus, .exclusive = spec->exclusive, .share = spec->share, .uid = spec->uid,
		.claim_mib = gpu_mem_mib, .claim_is_declared = gpu_mem_mib != 0,
	};
	size_t n = 0;
	core_map_gpus(c, (struct now){ 0, 0 });
	for (size_t i = 0; i < c->n_slots; i++) {
		if (!c->slots[i]->in_snapshot)
			continue;
		c->slots[n]->changed |= n != i;
		c->gpus[n++] = c->gpus[i];
	}
	return map_feasible(&c->config.map, c->gpus, n, &r, err);
}

/* Fences only what is trusted and shares: a run that has its GPUs to itself may take what it needs. */
static bool wants_fence(const struct core *c, const struct task *t, const struct map_request *r, enum share_mode mode)
{
	return c->config.fence && mode == SHARE_MPS && t->estimate.fenced && !r->start_alone && !r->exclusive;
}

static void place(struct core *c, struct task *t, const struct map_request *r, const struct placement *p, struct now now)
{
	char uuids[SPEC_MAX_GPUS][GPU_UUID_LEN];
	for (unsigned i = 0; i < p->n; i++)
		memcpy(uuids[i], c->slots[p->slots[i]]->r.uuid, GPU_UUID_LEN);
	bool first = t->id == c->keeping || t->id == c->head;
	core_give_up(c, t->id);
	queue_remove(c->queue, t);
	struct event ev = { .kind = EV_PLACED, .t_ms = now.wall_ms, .u.placed = {
		.gpus = uuids, .n_gpus = p->n, .mode = p->mode, .claim_mib = p->claim_mib,
		.fenced = wants_fence(c, t, r, p->mode) } };
	core_emit(c, t, &ev);
	core_attach(c, t, now);
	for (unsigned i = 0; i < p->n; i++)
		fill_gpu(c, p->slots[i], now, &c->gpus[p->slots[i]]);
	if (first)
		core_map_gpus(c, now);	/* what was kept for it is free for those behind it */
}

/* Returns whether the task was placed. */
bool core_try_request(struct core *c, struct task *t, const struct map_request *r, struct now now)
{
	struct placement p;
	if (!map_place(&c->config.map, c->gpus, c->n_slots, r, &c->turn, &p, NULL))
		return false;
	place(c, t, r, &p, now);
	return true;
}

/* As core_request; nobody waits for what a plan promises where nothing runs. */
static struct map_request request_now(const struct core *c, const struct task *t, struct now now)
{
	struct map_request r = core_request(c, t, now);
	if (!c->runs.n)
		r.planned = NULL;
	return r;
}

static bool try_task(struct core *c, struct task *t, struct now now)
{
	core_refresh_estimate(c, t, now);
	struct map_request r = request_now(c, t, now);
	if (r.start_alone && c->config.recover.mode == RECOVER_EXCLUSIVE) {
		task_id before = c->keeping;
		keep_gpus(c, t, now);
		if (before != c->keeping)
			core_map_gpus(c, now);
	}
	return core_try_request(c, t, &r, now);
}

/* A task that no GPU here can run now (one went away since it was submitted) must not block the others. */
static bool hopeless(struct core *c, const struct task *t, struct now now)
{
	struct map_request r = core_request(c, t, now);
	return map_feasible(&c->config.map, c->gpus, c->n_slots, &r, NULL) != 0;
}

/* First in line of the main queue from now on. */
static void lead(struct core *c, const struct task *t, struct now now)
{
	if (c->head == t->id)
		return;
	core_give_up(c, c->head);
	c->head = t->id;
	core_map_gpus(c, now);
}

static struct slot *fewest_tasks(const struct core *c, const struct map_request *r)
{
	struct slot *best = NULL;
	for (size_t i = 0; i < c->n_slots; i++) {
		struct slot *s = c->slots[i];
		if (!s->kept_for && (!best || s->n_runs < best->n_runs) &&
		    map_suits(&c->config.map, c->gpus, c->n_slots, r, &c->gpus[i]))
			best = s;
	}
	return best;
}

/* The head did not fit. Keeps what it needs once it was passed for long enough, and others where some of that went away. */
static void keep_for_head(struct core *c, const struct task *t, struct now now)
{
	struct map_request r = core_request(c, t, now);
	struct slot *s;
	unsigned n = 0;
	if (c->passed != t->id) {
		c->passed = t->id;
		c->passed_since_ms = now.mono_ms + (r.planned ? (int64_t)(r.planned_s * PROMISE_SLIP * 1000) : 0);
	}
	bool enough = now.mono_ms - c->passed_since_ms >= c->config.pass_max_ms;
	c->plan_stale = c->plan_stale || (enough && !c->passed_enough);
	c->passed_enough = enough;
	if (!c->passed_enough || r.planned)
		return;		/* the next plan keeps what a planned one needs */
	for (size_t i = 0; i < c->n_slots; i++) {
		if (c->slots[i]->kept_for != t->id)
			continue;
		if (map_suits(&c->config.map, c->gpus, c->n_slots, &r, &c->gpus[i]))
			n++;
		else
			keep(c->slots[i], 0);
	}
	for (; n < r.gpus && (s = fewest_tasks(c, &r)); n++) {
		keep(s, t->id);
		c->plan_stale = true;
	}
	core_map_gpus(c, now);
}

/* Whether placement cannot tell them apart; both are of the main queue, where nothing is kept for either. */
static bool alike(const struct map_request *a, const struct map_request *b)
{
	return a->gpus == b->gpus && a->claim_mib == b->claim_mib && a->claim_is_declared == b->claim_is_declared &&
	       a->exclusive == b->exclusive && a->share == b->share && a->uid == b->uid && !memcmp(&a->self, &b->self, sizeof a->self);
}

/* Tasks behind a head that does not fit. Of those that are alike (a sweep) one is asked about, until something is placed.
 * Planned ones had their turn; while a plan is to come, nobody goes before it. */
static void try_behind(struct core *c, const struct task *head, struct now now)
{
	struct map_request failed[DIFFERENT];
	unsigned n = 0, stay = 0, i;
	for (struct task *t = queue_next(c->queue, head), *next; t && stay < BEHIND && !core_plan_to_come(c); t = next) {
		next = queue_next(c->queue, t);
		core_refresh_estimate(c, t, now);
		struct map_request r = request_now(c, t, now);
		if (r.planned)
			continue;
		for (i = 0; i < n && !alike(&failed[i], &r); i++)
			;
		if (i == n && core_try_request(c, t, &r, now)) {
			n = 0;
			continue;
		}
		stay++;
		if (i == n && n < DIFFERENT)
			failed[n++] = r;
	}
}

/* Whether nothing changed that could help the head of the main queue, which did not fit. */
static bool still_blocked(const struct core *c, struct now now)
{
	return c->blocked_at && !c->gpus_changed && queue_first(c->queue)->id == c->blocked_at && core_plan_due(c, now) > now.mono_ms;
}

/* The recovery queue in order, until one does not fit. */
static void place_recovering(struct core *c, struct now now)
{
	bool blocked = false;
	for (struct task *t = queue_first(c->queue), *next; t && t->queue == QUEUE_RECOVERY; t = next) {
		next = queue_next(c->queue, t);
		if (!blocked)
			blocked = !try_task(c, t, now) && !hopeless(c, t, now);
	}
}

static struct task *first_of_main(const struct core *c)
{
	struct task *t = queue_first(c->queue);
	while (t && t->queue == QUEUE_RECOVERY)
		t = queue_next(c->queue, t);
	return t;
}

/* The main queue in order, until one does not fit: that one is returned. */
static struct task *place_in_order(struct core *c, struct now now)
{
	for (struct task *t = first_of_main(c), *next; t; t = next) {
		next = queue_next(c->queue, t);
		if (c->config.order != ORDER_FIFO)
			lead(c, t, now);
		if (!try_task(c, t, now) && !hopeless(c, t, now))
			return t;
	}
	return NULL;
}

void core_schedule(struct core *c, struct now now)
{
	c->dirty = false;
	if (!c->snapshot_seen || !queue_length(c->queue))
		return;
	core_map_gpus(c, now);
	if (still_blocked(c, now))
		return;
	c->blocked_at = 0;
	c->gpus_changed = false;
	place_recovering(c, now);
	if (c->config.order == ORDER_PLAN)
		core_follow_plan(c, now);
	struct task *head = place_in_order(c, now);
	c->blocked_at = head ? head->id : 0;
	if (head && c->config.order != ORDER_FIFO) {
		keep_for_head(c, head, now);
		try_behind(c, head, now);
	}
	c->dirty = false;
}

/* Running attempts --------------------------------------------------------------------------------------------------------- */

void core_started(struct core *c, task_id id, struct proc_id shim, struct now now)
{
	struct run *r = core_run(c, id);
	struct event ev = { .kind = EV_STARTED, .t_ms = now.wall_ms, .u.started.shim = shim };
	if (r && !r->exited)
		core_emit(c, r->t, &ev);
}

/* When the limit of a run is next of interest (wall ms); acts when it is now. */
static int64_t watch_limit(struct core *c, struct run *r, struct now now)
{
	struct task *t = r->t;
	int64_t end, warn;
	if (!t->time_limit_s || t->stopping || r->exited)
		return INT64_MAX;
	end = task_attempt(t)->start_ms + t->time_limit_s * 1000;
	warn = end - t->spec->signal_before_s * 1000;
	if (t->spec->signal && !r->signalled && now.wall_ms >= warn && now.wall_ms < end) {
		r->signalled = true;
		c->ops.signal(c->ops.ctx, t, t->spec->signal);
	}
	if (now.wall_ms >= end) {
		struct event ev = { .kind = EV_STOP_ASKED, .t_ms = now.wall_ms, .u.stop = { STOP_TIME_LIMIT, 0 } };
		core_emit(c, t, &ev);
		return INT64_MAX;
	}
	return t->spec->signal && !r->signalled ? warn : end;
}

/* Returns when the next limit is due (mono). */
static int64_t watch_limits(struct core *c, struct now now)
{
	int64_t due = INT64_MAX;
	size_t at = 0;
	bool any = false;
	for (struct run *r; c->limits && (r = idmap_next(&c->runs, &at));) {
		int64_t at_wall = watch_limit(c, r, now);
		any = any || r->t->time_limit_s;
		if (at_wall != INT64_MAX && at_wall - now.wall_ms + now.mono_ms < due)
			due = at_wall - now.wall_ms + now.mono_ms;
	}
	c->limits = any;
	return due;
}

/* GPUs are kept for so long; then their task asks for more memory instead. */
static int64_t watch_keeping(struct core *c, struct now now)
{
	int64_t due = c->keep_since_ms + c->config.recover.keep_max_ms;
	if (!c->keeping)
		return INT64_MAX;
	if (now.mono_ms < due)
		return due;
	c->dirty = true;
	return INT64_MAX;
}

/* The head is passed for so long; then GPUs are kept for it. */
static int64_t watch_head(struct core *c, struct now now)
{
	int64_t due = c->passed_since_ms + c->config.pass_max_ms;
	if (!c->head || c->head != c->passed || c->passed_enough)
		return INT64_MAX;
	if (now.mono_ms < due)
		return due;
	c->blocked_at = 0;
	c->dirty = true;
	return INT64_MAX;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t core_turn(struct core *c, struct now now)
{
	int64_t due = earlier(watch_limits(c, now), core_settle_exits(c, now));
	watch_keeping(c, now);
	watch_head(c, now);
	if (c->dirty || core_plan_due(c, now) <= now.mono_ms)
		core_schedule(c, now);
	return earlier(earlier(due, core_plan_due(c, now)), earlier(watch_keeping(c, now), watch_head(c, now)));
}
