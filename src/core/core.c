/* SPDX-License-Identifier: MIT
 *
 * The owners joined: what people and wirings ask of the core, and what follows from an event wherever it came from. Whatever is
 * done to a task is one event through tasks_emit, and on_event is the only place where the others learn of it.
 *
 * Nothing here asks for the time: each entrance brings it and notes it in `now`, since an event may follow from another deep
 * below a call, and all that follows from one call happens at one moment. Nothing here may fail half way either: what a person
 * asks for is checked before the first event, because an event cannot be taken back.
 */
#include "core/private.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_AT_CLOCK_MS 60000

/* The defaults of rad.conf(5) too, which settings/table.c takes from here, so they are said once. The window is that of
 * section 6.2.2 of the dissertation; what `settle` and `warm` are for is decision 81. */
struct core_config core_config_default(void)
{
	return (struct core_config){
		.order = ORDER_PLAN, .map = map_policy_default(), .recover = recover_policy_default(),
		.window = { .span_ms = 90000, .settle_ms = 10000 },
		.fair = { .on = true, .half_life_ms = 7 * INT64_C(86400000) },
		.pass_max_ms = 3600000, .warm_ms = 30000, .stale_ms = 10000, .cohort_ms = 5000, .fence = true,
		.mps_together = true, .lease_idle_ms = 1800000,
		.slot_grace_ms = 300000, .host_mem_mib = CORE_HOST_AUTO, .host_cpus = CORE_HOST_AUTO, .max_cpu = 1.5,
	};
}

const char *core_order_name(enum core_order order)
{
	static const char *const words[] = {
#define X(name, word, help) [name] = word,
		CORE_ORDERS(X)
#undef X
	};
	return order < CORE_ORDER_COUNT ? words[order] : "?";
}

/* Invariants ---------------------------------------------------------------------------------------------------------- */

static size_t count_running_entries(const struct core *c)
{
	return fleet_count_runs(c->fleet) + endings_count(c->endings);
}

/* Everything that runs is somebody's, and each GPU on which something runs is parted without a rest. */
static int check_fair(const struct core *c, struct error *err)
{
	double rate = 0;
	size_t at = 0, tasks = 0, busy = fleet_count_busy(c->fleet);
	for (const struct fair_user *u; (u = fair_next(c->fair, &at));) {
		struct fair_standing s = fair_look(c->fair, u);
		rate += s.rate;
		tasks += s.taken.tasks;
	}
	if (tasks != fleet_count_runs(c->fleet))
		return error_set(err, ERR_CORRUPT, "users run %zu tasks in sum, and %zu run", tasks, fleet_count_runs(c->fleet));
	/* Rates are sums of fractions to which each who comes or goes adds his rounding. */
	if (fabs(rate - (double)busy) > 1e-6 * (1 + (double)busy))
		return error_set(err, ERR_CORRUPT, "users have %g GPUs in sum, and %zu have tasks", rate, busy);
	return 0;
}

int core_check(const struct core *c, struct error *err)
{
	size_t running = tasks_count(c->tasks, TASK_RUNNING);
	if (tasks_check(c->tasks, err) || fleet_check(c->fleet, err) || pass_check(c->pass, err) || check_fair(c, err))
		return -1;
	if (running != count_running_entries(c))
		return error_set(err, ERR_CORRUPT, "%zu tasks run, and %zu attempts are on GPUs or to be judged", running,
				 count_running_entries(c));
	return 0;
}

/* After every event while there is little to look at; with many tasks as often as keeps the cost of an event the same. */
static void assert_invariants(struct core *c)
{
#ifdef RAD_CHECKS
	struct error err = ERROR_INIT;
	if (++c->unchecked < tasks_live(c->tasks) / 16)
		return;
	c->unchecked = 0;
	if (core_check(c, &err))
		c->ops.trouble(c->ops.ctx, err.text);
	assert(!*err.text);
#else
	(void)c;
#endif
}

/* What follows from events -------------------------------------------------------------------------------------------- */

static void core_begin_time(struct core *c, struct task *t)
{
	limits_begin(c->limits, t, c->now);
	timeslots_begin(c->timeslots, t, c->now);
}

static void core_take_place(struct core *c, struct task *t)
{
	fleet_begin(c->fleet, t, c->now);
	host_begin(c->host, t);
	core_begin_time(c, t);
}

/* Whether it waits for more than GPUs, the host and its turn. One that is to be estimated anew may be next all the same. */
static bool core_waits_aside(const struct core *c, const struct task *t)
{
	return t->waiting_for_deps || (t->estimated && !tasks_in_queue(c->tasks, t));
}

/* First the wiring, which stores the event; then what follows from it here, so that a placement that a pass made, one that a
 * restart found and one of the simulator all take the same way. */
static void core_on_event(void *ctx, const struct event *ev, struct task *t)
{
	struct core *c = ctx;
	c->events_open++;
	c->ops.event(c->ops.ctx, ev, t);
	if (t->max_slowdown > 0)
		fleet_watch_slowdown(c->fleet);
	switch (ev->kind) {
	case EV_PLACED:
		estimates_forget(c->estimates, t->id);
		core_take_place(c, t);
		break;
	/* Its time begins with its program: the time that a prolog or an MPS server took does not count. */
	case EV_STARTED:
		core_begin_time(c, t);
		break;
	case EV_ESTIMATED:
		if (t->state == TASK_RUNNING)
			fleet_estimated(c->fleet, t, c->now);
		break;
	case EV_MOVED:
		fleet_moved(c->fleet, t, c->now);
		break;
	case EV_SUSPENDED:
	case EV_RESUMED:
		limits_changed(c->limits, c->now);
		timeslots_reconsider(c->timeslots);
		break;
	case EV_UPDATED:
		fleet_touch(c->fleet, t->id);
		limits_changed(c->limits, c->now);
		if (ev->u.updated.set_gpus || core_waits_aside(c, t))
			pass_give_up(c->pass, t->id);
		break;
	/* It left its GPUs when its processes did (endings_add), which may be cohort_ms ago. */
	case EV_ENDED:
		host_end(c->host, t->id);
		estimates_learn(c->estimates, t, c->now);
		break;
	/* GPUs kept for a task that no longer wants them would idle for nothing. */
	case EV_HELD:
	case EV_CANCELLED:
		estimates_forget(c->estimates, t->id);
		pass_give_up(c->pass, t->id);
		break;
	default:
		break;
	}
	if (!--c->events_open)	/* in the middle of one, the clock may be found to have been set, which makes further events */
		assert_invariants(c);
}

static void on_trouble(void *ctx, const char *text)
{
	struct core *c = ctx;
	c->ops.trouble(c->ops.ctx, text);
}

static bool state_of(task_id id, enum task_state *state, void *ctx)
{
	struct core *c = ctx;
	return c->ops.state_of(id, state, c->ops.ctx);
}

static task_id owner_of(void *ctx, const struct proc_reading *p)
{
	struct core *c = ctx;
	return c->ops.owner ? c->ops.owner(c->ops.ctx, p) : p->claimed;
}

static struct load_belief known_load(void *ctx, const struct task *t, const char *gpu_name)
{
	return estimates_load(((struct core *)ctx)->estimates, t, gpu_name);
}

static double known_pace(void *ctx, const struct task *t, const char *gpu_name)
{
	return estimates_pace(((struct core *)ctx)->estimates, t, gpu_name);
}

static double known_cores(void *ctx, const struct task *t)
{
	return estimates_cores(((struct core *)ctx)->estimates, t).cores;
}

static bool capture_comes(void *ctx, const struct task *t)
{
	return estimates_comes_late(((struct core *)ctx)->estimates, t);
}

static bool may_claim(void *ctx, const struct core_claim *claims, unsigned n)
{
	struct core *c = ctx;
	return c->ops.claim(c->ops.ctx, claims, n);
}

/* In each turn, and not with each outcome: a start tells a hundred thousand of them. */
static void tell_usual(struct core *c)
{
	c->learnt = estimates_version(c->estimates);
	struct history_usual usual = estimates_usual(c->estimates);
	fleet_set_usual(c->fleet, usual.most_mib, usual.mean_mib);
}

/* Life ---------------------------------------------------------------------------------------------------------------- */

/* Each owner is given those before it and calls only them; destroyed the other way round. What goes the other way (an event
 * of the tasks, whose process that is) comes as ops through this file, so that no owner includes another one's header in a
 * circle. */
struct core *core_create(const struct core_config *config, const struct core_ops *ops)
{
	struct core *c = alloc_zero(sizeof *c);
	assert(ops->event && ops->state_of && ops->trouble);
	c->config = *config;
	c->ops = *ops;
	c->fair = fair_create(&c->config.fair, &c->config.pass_max_ms);
	c->tasks = tasks_create(&(struct tasks_ops){ c, core_on_event, on_trouble, state_of }, c->fair);
	c->fleet = fleet_create(&c->config, &(struct fleet_ops){ c, owner_of, known_load, known_pace, known_cores,
								 capture_comes, ops->claim ? may_claim : NULL }, c->fair);
	c->estimates = estimates_create(&c->config, ops, c->tasks, c->fleet);
	tell_usual(c);
	c->limits = limits_create(ops, c->tasks, c->fleet);
	c->host = host_create(&c->config);
	c->pass = pass_create(&c->config, &c->ops, c->fair, c->tasks, c->fleet, c->estimates, c->host);
	c->endings = endings_create(&c->config, c->tasks, c->fleet, c->pass);
	c->timeslots = timeslots_create(&c->config, &c->ops, c->fair, c->tasks, c->fleet, c->host, c->pass);
	return c;
}

int64_t core_ripens_ms(const struct core *c, const char *uuid)
{
	return fleet_ripens_ms(c->fleet, uuid);
}

int64_t core_load_due_ms(const struct core *c, const char *uuid)
{
	return fleet_load_due_ms(c->fleet, uuid);
}

void core_destroy(struct core *c)
{
	if (!c)
		return;
	timeslots_destroy(c->timeslots);
	endings_destroy(c->endings);
	pass_destroy(c->pass);
	host_destroy(c->host);
	limits_destroy(c->limits);
	estimates_destroy(c->estimates);
	fleet_destroy(c->fleet);
	tasks_destroy(c->tasks);
	fair_destroy(c->fair);
	free(c);
}

const struct core_config *core_get_config(const struct core *c)
{
	return &c->config;
}

/* Windows are made for one span, and a slot lives as long as the core; who estimates, and how readings come, is the
 * wiring's. */
void core_reconfigure(struct core *c, const struct core_config *config)
{
	struct core_config old = c->config;
	c->config = *config;
	c->config.window = old.window;
	c->config.estimators = old.estimators;
	c->config.estimator = old.estimator;
	c->config.readings_stand = old.readings_stand;
	if (c->config.kill_invalid_dep && !old.kill_invalid_dep)
		tasks_list_vain(c->tasks);
	fleet_reconsider(c->fleet);
	pass_reconsider(c->pass);
	timeslots_reconsider(c->timeslots);
}

/* Requests of people -------------------------------------------------------------------------------------------------- */

int core_feasible(const struct core *c, const struct spec *spec, struct error *err)
{
	if (host_feasible(&c->config, spec, spec->host_mem_mib, err))
		return -1;
	return pass_feasible(c->pass, spec, spec->gpu_mem_mib, err);
}

void core_emit(struct core *c, struct task *t, enum event_kind kind, uint32_t uid)
{
	struct event ev = { .kind = kind, .t_ms = c->now.wall_ms, .u.by.uid = uid };
	tasks_emit(c->tasks, t, &ev, c->now.wall_ms);
}

/* The estimate comes first, so that a task whose dependencies are met already can be placed in this turn. */
static void core_submit_one(struct core *c, task_id id, struct spec *spec)
{
	struct task *t = task_create(id, spec_ref(spec));
	struct event ev = { .kind = EV_SUBMITTED, .t_ms = c->now.wall_ms };
	tasks_add(c->tasks, t);
	tasks_emit(c->tasks, t, &ev, c->now.wall_ms);
	estimates_ask(c->estimates, t, c->now);
	tasks_wait(c->tasks, t, c->now.wall_ms);
}

size_t core_submit(struct core *c, uint32_t job, struct spec *spec, struct now now)
{
	size_t n = spec->n_array;
	c->now = now;
	for (size_t i = 0; i < n; i++)
		core_submit_one(c, TASK_ID(job, spec->array[i]), spec);
	if (!n)
		core_submit_one(c, TASK_ID(job, -1), spec);
	spec_unref(spec);
	return n ? n : 1;
}

/* How an adopted task shares its GPUs. A process that ran before is no client of a server of ours. One that was announced is
 * told of the MPS server before its job begins; only where one server is for all users, since at a user's own server tasks of
 * others would have to wait for their turns. */
static enum share_mode core_adopted_mode(struct core *c, const struct spec *s, const char *gpu, struct now now)
{
	int64_t slot = s->announced ? fleet_slot_of(c->fleet, gpu) : -1;
	const struct map_gpu *g = slot < 0 ? NULL : &fleet_gpus(c->fleet, now)[slot];
	enum share_mode wish = s->share == SHARE_AUTO ? c->config.map.share : s->share;
	if (!g)
		return SHARE_STREAMS;
	if (s->exclusive)
		return SHARE_NEVER;
	return g->mig ? SHARE_MIG : wish == SHARE_MPS && s->gpus == 1 && g->mps_together ? SHARE_MPS : SHARE_STREAMS;
}

/* Neither the ledger nor the user's allowance is asked: to refuse the task would not end its process, only keep it from being
 * counted. Since it is counted, the user's next tasks wait. */
void core_adopt(struct core *c, uint32_t job, struct spec *spec, char (*gpus)[GPU_UUID_LEN], uint32_t n_gpus, struct now now)
{
	task_id id = TASK_ID(job, -1);
	enum share_mode mode = core_adopted_mode(c, spec, gpus[0], now);
	bool mps = mode == SHARE_MPS;
	struct event ev = { .kind = EV_PLACED, .t_ms = now.wall_ms, .u.placed = {
		.gpus = gpus, .n_gpus = n_gpus, .mode = mode, .claim_mib = spec->gpu_mem_mib,
		.fence_mib = mps && c->config.fence ? spec->gpu_mem_mib : 0, .together = mps } };
	assert(n_gpus == spec->gpus && spec->process_pid && !spec->lease);
	core_submit(c, job, spec, now);
	tasks_emit(c->tasks, tasks_find(c->tasks, id), &ev, now.wall_ms);
}

void core_spec_grew(struct core *c, uint32_t job, size_t bytes)
{
	tasks_spec_grew(c->tasks, job, bytes);
}

enum allowance_kind core_over_allowance(const struct core *c, uid_t uid)
{
	const struct allowance a = pass_allowance(c->pass, uid);
	const struct fair_taken taken = fair_taken_of(c->fair, uid);
	for (enum allowance_kind k = 0; k < ALLOWANCE_COUNT; k++)
		if (a.most[k] && allowance_has(&taken, k) > a.most[k])
			return k;
	return ALLOWANCE_COUNT;
}

bool core_next_process(const struct core *c, struct core_process_at *at, struct core_process *out)
{
	for (; at->slot < fleet_size(c->fleet); at->slot++, at->n = 0) {
		struct fleet_gpu g = fleet_look(c->fleet, at->slot, c->now.mono_ms);
		if (!g.present || at->n >= g.n_procs)
			continue;
		*out = (struct core_process){ g.reading, &g.procs[at->n++] };
		return true;
	}
	return false;
}

/* A running task is on its GPUs before the first snapshot comes: until then its claim is all that is known of them. */
void core_restore(struct core *c, struct task *t, struct now now)
{
	c->now = now;
	tasks_restore(c->tasks, t, now.wall_ms);
	if (t->max_slowdown > 0)
		fleet_watch_slowdown(c->fleet);
	if (t->state == TASK_RUNNING) {
		endings_restored(c->endings, now);
		estimates_restore(c->estimates, t, now);
		core_take_place(c, t);
	} else if (!task_state_terminal(t->state) && !t->estimated) {
		estimates_ask(c->estimates, t, now);
	}
	assert_invariants(c);
}

/* What the wirings tell ----------------------------------------------------------------------------------------------- */

void core_estimated(struct core *c, int64_t question, bool spoke, const struct estimate_result *said, struct now now)
{
	c->now = now;
	estimates_answer(c->estimates, question, spoke, said, now);
}

void core_remember(struct core *c, const struct outcome *o)
{
	estimates_remember(c->estimates, o);
}

/* A shim may be reported when its attempt is already over: a task that ends at once does not wait for the loop. */
void core_started(struct core *c, task_id id, struct proc_id shim, struct now now)
{
	struct task *t = tasks_find(c->tasks, id);
	struct event ev = { .kind = EV_STARTED, .t_ms = now.wall_ms, .u.started.shim = shim };
	c->now = now;
	if (t && fleet_clock_of(c->fleet, id))
		tasks_emit(c->tasks, t, &ev, now.wall_ms);
}

void core_progress(struct core *c, task_id id, const struct progress_report *r, uint64_t file, struct now now)
{
	fleet_note_progress(c->fleet, id, r, file, now);
}

void core_host_peak(struct core *c, task_id id, uint64_t mib)
{
	fleet_note_host_peak(c->fleet, id, mib);
}

void core_cpu(struct core *c, task_id id, const struct cpu_sums *sums)
{
	fleet_note_cpu(c->fleet, id, sums);
}

bool core_is_leaving(const struct core *c, const struct task *t, struct now now)
{
	return timeslots_leaving(c->timeslots, t, now.wall_ms);
}

task_id core_next_running(const struct core *c, size_t *at)
{
	return fleet_next_to_look(c->fleet, at);
}

void core_exited(struct core *c, task_id id, const struct exit_report *report, struct now now)
{
	c->now = now;
	endings_add(c->endings, id, report, now);
	assert_invariants(c);
}

/* One at a time, since each event changes the runs among which the next is looked for. */
static void core_note_moves(struct core *c)
{
	struct fleet_move m;
	task_id id;
	while ((id = fleet_next_move(c->fleet, c->now, &m))) {
		char gpus[SPEC_MAX_GPUS][GPU_UUID_LEN];
		struct event ev = { .kind = EV_MOVED, .t_ms = c->now.wall_ms,
				    .u.moved = { .gpus = gpus, .n_gpus = m.n_gpus, .n_extra = m.n_extra } };
		for (unsigned i = 0; i < m.n_gpus; i++)
			snprintf(gpus[i], sizeof gpus[i], "%s", m.gpus[i]);
		tasks_emit(c->tasks, tasks_find(c->tasks, id), &ev, c->now.wall_ms);
	}
}

/* Moves come first: what is noted of an attempt, and whether it idles, goes by the GPUs on which it stands. A simulation
 * notes nothing, since nobody restarts it. */
void core_snapshot(struct core *c, const struct snapshot *s, enum core_mps mps, struct now now)
{
	struct event ev = { .kind = EV_MEASURED, .t_ms = now.wall_ms };
	task_id id;
	c->now = now;
	fleet_read(c->fleet, s, mps, now);
	core_note_moves(c);
	while (!c->config.readings_stand && (id = fleet_note_due(c->fleet, now, &ev.u.measured)))
		tasks_emit(c->tasks, tasks_find(c->tasks, id), &ev, now.wall_ms);
	while (c->ops.idle && (id = fleet_idle_due(c->fleet, now)))
		c->ops.idle(c->ops.ctx, tasks_find(c->tasks, id));
	assert_invariants(c);
}

void core_others(struct core *c, const struct core_claim *claims, size_t n)
{
	fleet_set_others(c->fleet, claims, n);
}

size_t core_claims(const struct core *c, struct core_claim *out, size_t most)
{
	return fleet_claims(c->fleet, out, most);
}

/* Without this one, the others that are kept for the same task may not be the best any more. */
void core_drain(struct core *c, const char *uuid, bool drained)
{
	fleet_drain(c->fleet, uuid, drained);
	if (drained)
		pass_choose_anew(c->pass, fleet_kept_for(c->fleet, (uint32_t)fleet_slot_of(c->fleet, uuid)));
}

void core_clock_set(struct core *c, int64_t by_ms, struct now now)
{
	c->now = now;
	tasks_clock_set(c->tasks, by_ms, now.wall_ms);
}

void core_reserve(struct core *c, const struct core_reservation *list, size_t n)
{
	fleet_reserve(c->fleet, list, n);
	pass_reconsider(c->pass);
}

/* --begin goes by the wall clock, which may be set: so it is looked at again within a minute. */
static int64_t core_let_begin(struct core *c, struct now now)
{
	int64_t next = tasks_turn(c->tasks, now.wall_ms), ahead = next - now.wall_ms;
	if (next == INT64_MAX)
		return next;
	return now.mono_ms + (ahead < LOOK_AT_CLOCK_MS ? ahead : LOOK_AT_CLOCK_MS);
}

/* Who waits for what can no longer happen, and is not to stay for a person: by what was said of it, else by the setting. */
static void core_cancel_vain(struct core *c)
{
	struct event ev = { .kind = EV_CANCELLED, .t_ms = c->now.wall_ms };
	for (struct task *t; (t = tasks_next_vain(c->tasks, &ev.u.by.unmet));)
		if (t->spec->kill_on_invalid_dep > 0 || (!t->spec->kill_on_invalid_dep && c->config.kill_invalid_dep))
			tasks_emit(c->tasks, t, &ev, c->now.wall_ms);
}

/* The order follows from causes. Tasks whose time has come are in the queue before the pass. Ends come before placements, so
 * that what they free can be used in the same turn. Time slots come last, so that nobody is asked to make place for a task that
 * the pass has just placed. */
int64_t core_turn(struct core *c, struct now now)
{
	c->now = now;
	fair_go_on(c->fair, now.mono_ms);
	if (c->learnt != estimates_version(c->estimates))
		tell_usual(c);
	int64_t begin = core_let_begin(c, now);
	timeslots_recall(c->timeslots, now);
	int64_t limit = limits_turn(c->limits, now), verdict = endings_turn(c->endings, now);
	core_cancel_vain(c);
	int64_t pass = pass_turn(c->pass, now);
	int64_t due = limit < verdict ? limit : verdict, slot = timeslots_turn(c->timeslots, now);
	assert_invariants(c);
	due = slot < due ? slot : due;
	due = pass < due ? pass : due;
	return begin < due ? begin : due;
}

/* Looking ------------------------------------------------------------------------------------------------------------- */

struct task *core_task(const struct core *c, task_id id)
{
	return tasks_find(c->tasks, id);
}

void core_each_task(const struct core *c, void (*each)(void *ctx, const struct task *t), void *ctx)
{
	tasks_each(c->tasks, each, ctx);
}

size_t core_count(const struct core *c, enum task_state state)
{
	return tasks_count(c->tasks, state);
}

size_t core_user_tasks(const struct core *c, uid_t uid)
{
	return tasks_of_user(c->tasks, uid);
}

size_t core_user_bytes(const struct core *c, uid_t uid)
{
	return tasks_user_bytes(c->tasks, uid);
}

#define TURNS_LOOKED_AT 10000	/* tasks, for the first of each user */

static struct core_user *user_in(struct core_user *list, size_t n, uid_t uid)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].standing.uid == uid)
			return &list[i];
	return NULL;
}

/* Moves the users who have a turn to the front, in the order of their turns. */
static void note_turns(const struct core *c, struct core_user *list, size_t n)
{
	struct queue_walk w;
	const struct task *t;
	unsigned turns = 0, looked = 0;
	queue_walk_begin(&w, tasks_queue(c->tasks), QUEUE_MAIN);
	while (turns < queue_users(tasks_queue(c->tasks)) && looked++ < TURNS_LOOKED_AT && (t = queue_walk_next(&w))) {
		struct core_user *u = user_in(list, n, t->spec->uid), found = *u;
		if (u->turn)
			continue;
		*u = list[turns];
		list[turns] = found;
		list[turns].next = t->id;
		list[turns].turn = turns + 1;
		turns++;
	}
	queue_walk_end(&w);
}

/* All users who are known, even if they only had something lately: their figures decide whose turn it is when they come
 * back. */
size_t core_users(struct core *c, struct core_user **list)
{
	size_t at = 0, n = 0, cap = 0;
	*list = NULL;
	for (const struct fair_user *u; (u = fair_next(c->fair, &at));) {
		alloc_grow(*list, n, cap);
		struct fair_standing s = fair_look(c->fair, u);
		(*list)[n++] = (struct core_user){ .standing = s, .live = tasks_of_user(c->tasks, s.uid) };
	}
	note_turns(c, *list, n);
	return n;
}

/* What was stored decays from the moment at which it was stored. If the wall clock was set back since, that moment counts as
 * now, which costs its user a little and nobody else anything. */
void core_remember_used(struct core *c, uid_t uid, double used_s, int64_t wall_ms, struct now now)
{
	int64_t ago_ms = now.wall_ms > wall_ms ? now.wall_ms - wall_ms : 0;
	fair_go_on(c->fair, now.mono_ms);
	fair_remember(c->fair, uid, used_s, now.mono_ms - ago_ms);
}

void core_remember_start(struct core *c, uid_t uid, int64_t wall_ms, struct now now)
{
	int64_t ago_ms = now.wall_ms > wall_ms ? now.wall_ms - wall_ms : 0;
	fair_remember_start(c->fair, uid, now.mono_ms - ago_ms);
}

void core_reconsider(struct core *c)
{
	pass_reconsider(c->pass);
}

bool core_waits_in_vain(const struct core *c, const struct task *t)
{
	const struct dependency *on;
	return t->waiting_for_deps && tasks_waits_in_vain(c->tasks, t, &on);
}

size_t core_job_tasks(const struct core *c, uint32_t job, task_id **ids)
{
	return tasks_of_job(c->tasks, job, ids);
}

size_t core_jobs_named(const struct core *c, uid_t uid, const char *name, size_t most, uint32_t **jobs)
{
	return tasks_jobs_named(c->tasks, uid, name, most, jobs);
}

bool core_is_waited_for(const struct core *c, task_id id)
{
	return tasks_are_waited_for(c->tasks, id);
}

bool core_job_state(const struct core *c, uint32_t job, enum task_state *state)
{
	return tasks_job_state(c->tasks, job, state);
}

size_t core_gpu_count(const struct core *c)
{
	return fleet_present(c->fleet);
}

size_t core_gpus_of_machine(const struct core *c)
{
	return fleet_of_machine(c->fleet);
}

const char *core_find_gpu(const struct core *c, const char *word, struct error *err)
{
	return fleet_find(c->fleet, word, err);
}

void core_mps_gpus(const struct core *c, struct buf *out)
{
	fleet_list_mps(c->fleet, out);
}

unsigned core_mps_clients(const struct core *c, const char *gpu_uuid, int64_t uid)
{
	return fleet_mps_clients(c->fleet, gpu_uuid, uid);
}

/* By the slot's last reading, even if its GPU is silent now: an attempt that is to be ended must be found all the same. */
size_t core_task_gpus(const struct core *c, task_id id, struct core_gpu_ref out[SPEC_MAX_GPUS])
{
	const uint32_t *slots;
	unsigned n = fleet_slots_of(c->fleet, id, &slots);
	for (unsigned i = 0; i < n; i++) {
		const struct gpu_reading *g = fleet_look(c->fleet, slots[i], c->now.mono_ms).reading;
		out[i] = (struct core_gpu_ref){ g->uuid, g->index, g->mig };
	}
	return n;
}
