/* SPDX-License-Identifier: MIT
 * The table of live tasks: making them, holding, releasing, cancelling, dependencies, array limits. Each change is one
 * event through core_emit, which is the only caller of task_apply here.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/scope.h"
#include "estimate/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct core_config core_config_default(void)
{
	return (struct core_config){
		.map = map_policy_default(), .recover = recover_policy_default(),
		.window = { .span_ms = 90000, .settle_ms = 30000 },
		.pass_max_ms = 3600000, .warm_ms = 30000, .stale_ms = 10000, .cohort_ms = 5000, .fence = true,
	};
}

struct core *core_create(const struct core_config *config, const struct core_ops *ops)
{
	struct core *c = alloc_zero(sizeof *c);
	c->config = *config;
	c->ops = *ops;
	c->plan_stale = true;
	c->queue = queue_create();
	c->waiting = waiting_create(ops->state_of, ops->ctx);
	c->history = history_create(HISTORY_SIGNATURES);
	c->estimators = config->estimators ? config->estimators : estimators;
	if (config->estimator) {
		c->one_estimator[0] = *config->estimator;
		c->one_estimator[0].baseline = false;	/* chosen, so it is asked */
		c->estimators = c->one_estimator;
	}
	return c;
}

const struct core_config *core_get_config(const struct core *c)
{
	return &c->config;
}

static void free_slot(struct slot *s)
{
	window_destroy(s->window);
	ledger_clear(&s->ledger);
	free(s->runs);
	free(s->tenants);
	free(s->speeds);
	free(s->seen);
	free(s->procs);
	free(s);
}

void core_destroy(struct core *c)
{
	if (!c)
		return;
	size_t at = 0;
	for (struct task *t; (t = idmap_next(&c->tasks, &at));)
		task_destroy(t);
	core_free_plan(c);
	at = 0;
	for (struct run *r; (r = idmap_next(&c->runs, &at));)
		free(r);
	at = 0;
	for (struct job *j; (j = idmap_next(&c->jobs, &at));) {
		free(j->parked);
		free(j);
	}
	at = 0;
	for (size_t *n; (n = idmap_next(&c->users, &at));)
		free(n);
	core_free_questions(c);
	history_destroy(c->history);
	for (size_t i = 0; i < c->n_slots; i++)
		free_slot(c->slots[i]);
	idmap_free(&c->tasks);
	idmap_free(&c->runs);
	idmap_free(&c->jobs);
	idmap_free(&c->users);
	idmap_free(&c->alive);
	idmap_free(&c->by_uuid);
	queue_destroy(c->queue);
	waiting_destroy(c->waiting);
	free(c->slots);
	free(c->gpus);
	free(c->findings);
	free(c->read);
	free(c);
}

struct task *core_task(const struct core *c, task_id id)
{
	return idmap_get(&c->tasks, id);
}

/* Counts in maps, so that nobody has to look at all tasks for them. */
static void count(struct idmap *m, int64_t key, ptrdiff_t by)
{
	uintptr_t n = (uintptr_t)idmap_get(m, key) + (uintptr_t)by;
	if (n)
		idmap_put(m, key, (void *)n);
	else
		idmap_remove(m, key);
}

bool core_job_lives(const struct core *c, uint32_t job)
{
	return idmap_get(&c->alive, job);
}

size_t core_count(const struct core *c, enum task_state state)
{
	return c->by_state[state];
}

/* Applies, keeps the counts, tells the wiring. An event that does not apply is a bug of ours, so it is said loudly; the task
 * stays as it was. */
void core_emit(struct core *c, struct task *t, struct event *ev)
{
	struct error err = ERROR_INIT;
	enum task_state before = t->state;
	bool waited = t->waiting_for_deps, first = t->n_events == 0;
	ev->task = t->id;
	if (task_apply(t, ev, &err)) {
		log_error("%s", err.text);
		return;
	}
	if (!first)
		c->by_state[before]--;
	c->by_state[t->state]++;
	if (waited && !t->waiting_for_deps)
		waiting_remove(c->waiting, t);
	c->limits = c->limits || t->time_limit_s;
	if (t->max_slowdown > 0)
		core_limit_slowdown(c);
	c->dirty = true;
	c->plan_stale = c->plan_stale || (ev->kind != EV_PLACED && ev->kind != EV_STARTED && ev->kind != EV_MEASURED);
	if (c->blocked_at == t->id)
		c->blocked_at = 0;
	c->ops.event(c->ops.ctx, ev, t);
}

int64_t core_hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	return (int64_t)(h ? h : 1);
}

/* Array limits -------------------------------------------------------------------------------------------------------- */

static struct job *job_of(const struct core *c, const struct task *t)
{
	return t->spec->array_limit ? idmap_get(&c->jobs, TASK_JOB(t->id)) : NULL;
}

static void park(struct job *j, struct task *t)
{
	alloc_grow(j->parked, j->n, j->cap);
	size_t i = j->n++;
	for (; i > j->first && j->parked[i - 1]->id > t->id; i--)
		j->parked[i] = j->parked[i - 1];
	j->parked[i] = t;
}

static bool unpark(struct job *j, const struct task *t)
{
	for (size_t i = j->first; i < j->n; i++) {
		if (j->parked[i] != t)
			continue;
		memmove(&j->parked[i], &j->parked[i + 1], (j->n - i - 1) * sizeof *j->parked);
		j->n--;
		return true;
	}
	return false;
}

static void push(struct core *c, struct task *t)
{
	queue_push(c->queue, t);
	if (c->config.order != ORDER_FIFO)
		c->blocked_at = 0;	/* it may pass the head */
}

/* One of a job's places is free: the next element takes it. */
static void admit_next(struct core *c, struct job *j)
{
	while (j && j->active < j->limit && j->first < j->n) {
		j->active++;
		push(c, j->parked[j->first++]);
	}
}

void core_enqueue(struct core *c, struct task *t)
{
	struct job *j = job_of(c, t);
	if (t->state != TASK_PENDING || t->waiting_for_deps || !t->estimated)
		return;
	if (!j) {
		push(c, t);
		return;
	}
	park(j, t);
	admit_next(c, j);
}

/* Out of the queue (or out of the parked ones), its place given to the next. */
static void dequeue(struct core *c, struct task *t)
{
	struct job *j = job_of(c, t);
	if (j && unpark(j, t))
		return;
	if (queue_remove(c->queue, t) && j) {
		j->active--;
		admit_next(c, j);
	}
}

static int by_id(const void *a, const void *b)
{
	task_id x = (*(struct task *const *)a)->id, y = (*(struct task *const *)b)->id;
	return x < y ? -1 : x > y;
}

/* Dependencies -------------------------------------------------------------------------------------------------------- */

static void go_on(struct core *c, struct task *t, struct now now)
{
	struct event ev = { .kind = EV_ELIGIBLE, .t_ms = now.wall_ms };
	core_emit(c, t, &ev);
	core_enqueue(c, t);
}

/* It waits, if it is to wait for anything; whose dependencies are met goes on at once. */
static void wait_for_dependencies(struct core *c, struct task *t, struct now now)
{
	if (waiting_add(c->waiting, t) == WAITING_MET)
		go_on(c, t, now);
}

static void tell(struct core *c, task_id id, const enum task_state *state, struct now now)
{
	task_id *ready;
	size_t n = waiting_told(c->waiting, id, state, &ready);
	for (size_t i = 0; i < n; i++) {
		struct task *t = core_task(c, ready[i]);
		if (t && t->waiting_for_deps)
			go_on(c, t, now);
	}
	free(ready);
}

/* Tells those who wait for exactly this one; for the job as a whole when no element of it is left. */
static void task_ended(struct core *c, task_id id, enum task_state state, struct now now)
{
	const task_id whole = TASK_ID(TASK_JOB(id), -1);
	tell(c, id, &state, now);
	if (id != whole && !core_job_lives(c, TASK_JOB(id)))
		tell(c, whole, NULL, now);
}

/* One that had ended is here again: who waits for it, or for its job, waits on. */
static void task_returned(struct core *c, const struct task *t, struct now now)
{
	const task_id whole = TASK_ID(TASK_JOB(t->id), -1);
	const enum task_state open = TASK_PENDING;
	tell(c, t->id, &open, now);
	if (t->id != whole)
		tell(c, whole, &open, now);
}

/* Making and ending --------------------------------------------------------------------------------------------------- */

static size_t *tasks_of(struct core *c, uid_t uid)
{
	size_t *n = idmap_get(&c->users, (int64_t)uid + 1);
	if (!n)
		idmap_put(&c->users, (int64_t)uid + 1, n = alloc_zero(sizeof *n));
	return n;
}

size_t core_user_tasks(const struct core *c, uid_t uid)
{
	const size_t *n = idmap_get(&c->users, (int64_t)uid + 1);
	return n ? *n : 0;
}

static void add_task(struct core *c, struct task *t)
{
	if (t->spec->array_limit && !job_of(c, t)) {
		struct job *j = alloc_zero(sizeof *j);
		j->limit = t->spec->array_limit;
		idmap_put(&c->jobs, TASK_JOB(t->id), j);
	}
	idmap_put(&c->tasks, t->id, t);
	count(&c->alive, TASK_JOB(t->id), 1);
	++*tasks_of(c, t->spec->uid);
}

static void drop_task(struct core *c, struct task *t)
{
	--*tasks_of(c, t->spec->uid);
	idmap_remove(&c->tasks, t->id);
	count(&c->alive, TASK_JOB(t->id), -1);
	c->by_state[t->state]--;
	waiting_remove(c->waiting, t);
	task_destroy(t);
}

static void submit_one(struct core *c, task_id id, struct spec *spec, struct now now)
{
	struct task *t = task_create(id, spec_ref(spec));
	struct event ev = { .kind = EV_SUBMITTED, .t_ms = now.wall_ms };
	add_task(c, t);
	core_emit(c, t, &ev);
	core_estimate(c, t, now);
	if (t->waiting_for_deps)
		wait_for_dependencies(c, t, now);
	else
		core_enqueue(c, t);
}

size_t core_submit(struct core *c, uint32_t job, struct spec *spec, struct now now)
{
	size_t n = spec->n_array;
	for (size_t i = 0; i < n; i++)
		submit_one(c, TASK_ID(job, spec->array[i]), spec, now);
	if (!n)
		submit_one(c, TASK_ID(job, -1), spec, now);
	spec_unref(spec);
	return n ? n : 1;
}

void core_restore(struct core *c, struct task *t, struct now now)
{
	add_task(c, t);
	c->by_state[t->state]++;
	task_returned(c, t, now);
	c->limits = c->limits || t->time_limit_s;
	if (t->max_slowdown > 0)
		core_limit_slowdown(c);
	c->dirty = true;
	if ((t->state == TASK_PENDING || t->state == TASK_HELD) && !t->estimated)
		core_estimate(c, t, now);
	if (t->state == TASK_RUNNING) {
		struct job *j = job_of(c, t);
		if (j)
			j->active++;
		core_attach(c, t, now);
	} else if (t->waiting_for_deps) {
		wait_for_dependencies(c, t, now);
	} else {
		core_enqueue(c, t);
	}
}

void core_after_end(struct core *c, struct task *t, struct now now)
{
	struct job *j = job_of(c, t);
	task_id id = t->id;
	enum task_state state = t->state;
	core_learn(c, t, now);
	free(idmap_remove(&c->runs, t->id));
	if (j) {
		j->active--;
		admit_next(c, j);
	}
	if (task_state_terminal(t->state)) {
		drop_task(c, t);
		task_ended(c, id, state, now);
	} else {
		core_enqueue(c, t);
	}
}

/* Requests of people -------------------------------------------------------------------------------------------------- */

static struct task *find(const struct core *c, task_id id, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct task *t = core_task(c, id);
	if (!t)
		error_set(err, ERR_NOT_FOUND, "task %s: there is no such pending or running task", task_id_text(id, text));
	return t;
}

/* The task, if that event may come now; else the reason in words of the request. */
static struct task *find_for(const struct core *c, task_id id, enum event_kind kind, const char *what, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct task *t = find(c, id, err);
	if (!t || task_event_allowed(t->state, kind))
		return t;
	error_set(err, ERR_CONFLICT, "task %s: is %s, so it cannot be %s", task_id_text(id, text), task_state_name(t->state), what);
	return NULL;
}

int core_hold(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = find_for(c, id, EV_HELD, "held", err);
	if (!t)
		return -1;
	dequeue(c, t);
	core_give_up(c, id);
	struct event ev = { .kind = EV_HELD, .t_ms = now.wall_ms, .u.by.uid = uid };
	core_emit(c, t, &ev);
	return 0;
}

int core_release(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = find_for(c, id, EV_RELEASED, "released", err);
	if (!t)
		return -1;
	struct event ev = { .kind = EV_RELEASED, .t_ms = now.wall_ms, .u.by.uid = uid };
	core_emit(c, t, &ev);
	core_enqueue(c, t);
	return 0;
}

static void ask_stop(struct core *c, struct task *t, enum stop_reason reason, uint32_t uid, struct now now)
{
	struct event ev = { .kind = EV_STOP_ASKED, .t_ms = now.wall_ms, .u.stop = { reason, uid } };
	core_emit(c, t, &ev);
}

int core_cancel(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = find(c, id, err);
	if (!t)
		return -1;
	if (t->state == TASK_RUNNING) {
		if (t->stopping != STOP_CANCEL)
			ask_stop(c, t, STOP_CANCEL, uid, now);
		return 0;
	}
	dequeue(c, t);
	core_give_up(c, id);
	struct event ev = { .kind = EV_CANCELLED, .t_ms = now.wall_ms, .u.by.uid = uid };
	core_emit(c, t, &ev);
	drop_task(c, t);
	task_ended(c, id, TASK_CANCELLED, now);
	return 0;
}

int core_update(struct core *c, task_id id, struct event *ev, struct now now, struct error *err)
{
	struct task *t = find_for(c, id, EV_UPDATED, "changed", err);
	char text[TASK_ID_TEXT];
	if (!t)
		return -1;
	if (t->state == TASK_RUNNING && (ev->u.updated.set_gpu_mem || ev->u.updated.set_priority))
		return error_set(err, ERR_CONFLICT, "task %s: is RUNNING; only its name and time limit can still be changed",
				 task_id_text(id, text));
	if (ev->u.updated.set_gpu_mem && core_feasible_with(c, t->spec, ev->u.updated.gpu_mem_mib, err))
		return -1;
	dequeue(c, t);
	ev->kind = EV_UPDATED;
	ev->t_ms = now.wall_ms;
	core_emit(c, t, ev);
	if (t->state == TASK_RUNNING) {
		core_touch(c, t);
		return 0;
	}
	if (ev->u.updated.set_gpu_mem)
		core_estimate(c, t, now);
	core_enqueue(c, t);
	return 0;
}

int core_requeue(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = find(c, id, err);
	char text[TASK_ID_TEXT];
	if (!t)
		return -1;
	if (t->state == TASK_RUNNING) {
		if (!t->stopping)
			ask_stop(c, t, STOP_REQUEUE, uid, now);
		return 0;
	}
	if (!task_state_terminal(t->state))
		return error_set(err, ERR_CONFLICT, "task %s: is %s already", task_id_text(id, text), task_state_name(t->state));
	struct event ev = { .kind = EV_REQUEUED, .t_ms = now.wall_ms, .u.by.uid = uid };
	core_emit(c, t, &ev);
	core_estimate(c, t, now);
	core_enqueue(c, t);
	return 0;
}

/* Walks ---------------------------------------------------------------------------------------------------------------- */

/* The tasks for which `want` holds, by id. Free the list. */
static size_t select_tasks(const struct core *c, bool (*want)(const struct core *c, const struct task *t), struct task ***list)
{
	size_t at = 0, n = 0, cap = 0;
	*list = NULL;
	for (struct task *t; (t = idmap_next(&c->tasks, &at));)
		if (want(c, t)) {
			alloc_grow(*list, n, cap);
			(*list)[n++] = t;
		}
	if (n)
		qsort(*list, n, sizeof **list, by_id);
	return n;
}

static bool is_running(const struct core *c, const struct task *t)
{
	(void)c;
	return t->state == TASK_RUNNING;
}

static bool is_waiting(const struct core *c, const struct task *t)
{
	return t->state != TASK_RUNNING && !queue_contains(c->queue, t);
}

void core_each_task(const struct core *c, void (*each)(void *ctx, const struct task *t), void *ctx)
{
	scoped_free struct task **running = NULL, **waiting = NULL;
	size_t n = select_tasks(c, is_running, &running);
	for (size_t i = 0; i < n; i++)
		each(ctx, running[i]);
	for (struct task *t = queue_first(c->queue); t; t = queue_next(c->queue, t))
		each(ctx, t);
	n = select_tasks(c, is_waiting, &waiting);
	for (size_t i = 0; i < n; i++)
		each(ctx, waiting[i]);
}

static int by_number(const void *a, const void *b)
{
	task_id x = *(const task_id *)a, y = *(const task_id *)b;
	return x < y ? -1 : x > y;
}

size_t core_job_tasks(const struct core *c, uint32_t job, task_id **ids)
{
	size_t at = 0, n = 0, cap = 0;
	*ids = NULL;
	for (const struct task *t; (t = idmap_next(&c->tasks, &at));)
		if (TASK_JOB(t->id) == job) {
			alloc_grow(*ids, n, cap);
			(*ids)[n++] = t->id;
		}
	if (n)
		qsort(*ids, n, sizeof **ids, by_number);
	return n;
}
