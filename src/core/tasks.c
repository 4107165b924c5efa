/* SPDX-License-Identifier: MIT
 *
 * See tasks.h. The queue's key (priority, turn) is part of the record that events change, so a task leaves the queue before an
 * event is applied and comes back after it. Whether it is there is not kept in a flag: it follows from the record, and for
 * elements of a limited array from whether the limit admitted them.
 */
#include "core/tasks.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "base/scope.h"
#include "core/begins.h"
#include "core/named.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHAIN 100	/* tasks that wait for each other and are looked through at once */

/* The live elements of an array, ascending by id. A task that is no array has none: it is its own job. */
struct job {
	struct element { struct task *task; bool admitted; } *elements;
	size_t n, cap;
	uint32_t limit;		/* how many are admitted at once: queued or running; 0: all */
	uint32_t n_admitted;
	size_t parked_from;	/* no element before this place is parked */
};

/* What the live tasks of one user are in sum. */
struct user_sum { size_t tasks, bytes; };

struct tasks {
	struct tasks_ops ops;
	struct idmap by_id;		/* task_id -> struct task */
	struct idmap jobs;		/* job number -> struct job; arrays only */
	struct idmap by_user;		/* uid + 1 -> struct user_sum */
	struct queue *queue, *cpu_queue;
	struct waiting *waiting;
	task_id *vain;		/* taken out of it, and looked at up to at_vain */
	size_t at_vain, n_vain;
	struct begins *begins;
	struct named *named;
	size_t by_state[TASK_STATE_COUNT];
	uint64_t version;
};

struct tasks *tasks_create(const struct tasks_ops *ops, struct fair *fair)
{
	struct tasks *ts = alloc_zero(sizeof *ts);
	ts->ops = *ops;
	ts->queue = queue_create(fair);
	ts->cpu_queue = queue_create(fair);
	ts->waiting = waiting_create(ops->state_of, ops->ctx);
	ts->begins = begins_create();
	ts->named = named_create();
	return ts;
}

static void job_destroy(struct job *j)
{
	free(j->elements);
	free(j);
}

void tasks_destroy(struct tasks *ts)
{
	size_t at = 0;
	if (!ts)
		return;
	for (struct job *j; (j = idmap_next(&ts->jobs, &at));)
		job_destroy(j);
	at = 0;
	for (struct task *t; (t = idmap_next(&ts->by_id, &at));)
		task_destroy(t);
	idmap_free(&ts->by_id);
	idmap_free(&ts->jobs);
	idmap_free_all(&ts->by_user);
	queue_destroy(ts->queue);
	queue_destroy(ts->cpu_queue);
	waiting_destroy(ts->waiting);
	free(ts->vain);
	begins_destroy(ts->begins);
	named_destroy(ts->named);
	free(ts);
}

/* Jobs and users ------------------------------------------------------------------------------------------------------ */

/* NULL for a task that is no array: a million single tasks cost no job each. */
static struct job *job_of(const struct tasks *ts, task_id id)
{
	return TASK_INDEX(id) < 0 ? NULL : idmap_get(&ts->jobs, TASK_JOB(id));
}

/* The place of that element, or where it would go. */
static size_t job_place(const struct job *j, task_id id)
{
	size_t low = 0, high = j->n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (j->elements[middle].task->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void job_limit(struct tasks *ts, struct job *j, uint32_t limit);

/* Elements come in order of index, but for those that are queued again after their end. */
static void job_join(struct tasks *ts, struct task *t)
{
	struct job *j = job_of(ts, t->id);
	if (TASK_INDEX(t->id) < 0)
		return;
	if (!j) {
		idmap_put(&ts->jobs, TASK_JOB(t->id), j = alloc_zero(sizeof *j));
		j->limit = t->array_limit;
	} else if (t->array_limit_set) {
		job_limit(ts, j, t->array_limit);
	}
	size_t at = job_place(j, t->id);
	alloc_grow(j->elements, j->n, j->cap);
	memmove(&j->elements[at + 1], &j->elements[at], (j->n++ - at) * sizeof *j->elements);
	j->elements[at] = (struct element){ .task = t };
	if (at < j->parked_from)
		j->parked_from = at;
}

/* Returns whether it was the last of its job. */
static bool job_leave(struct tasks *ts, const struct task *t)
{
	struct job *j = job_of(ts, t->id);
	if (!j)
		return true;
	size_t at = job_place(j, t->id);
	assert(at < j->n && j->elements[at].task == t && !j->elements[at].admitted);
	memmove(&j->elements[at], &j->elements[at + 1], (--j->n - at) * sizeof *j->elements);
	if (at < j->parked_from)
		j->parked_from--;
	if (j->n)
		return false;
	job_destroy(idmap_remove(&ts->jobs, TASK_JOB(t->id)));
	return true;
}

/* Elements of an array share the bytes of their spec. */
static size_t spec_part(const struct spec *s)
{
	return s->bytes / (s->n_array ? s->n_array : 1);
}

static struct user_sum *sum_of(const struct tasks *ts, uid_t uid)
{
	return idmap_get(&ts->by_user, (int64_t)uid + 1);
}

/* Kept, so that nobody has to look at all tasks for it: it is asked at every submission. With what it depends on, where that is
 * its own. */
static void user_count(struct tasks *ts, const struct task *t, int by)
{
	struct user_sum *u = sum_of(ts, t->spec->uid);
	if (!u)
		idmap_put(&ts->by_user, (int64_t)t->spec->uid + 1, u = alloc_zero(sizeof *u));
	u->tasks += (size_t)by;
	u->bytes += (size_t)by * (spec_part(t->spec) + t->n_deps * SPEC_DEP_BYTES);
	if (!u->tasks)
		free(idmap_remove(&ts->by_user, (int64_t)t->spec->uid + 1));
}

/* Where a task belongs ------------------------------------------------------------------------------------------------ */

/* It could be placed, but for the limit of its array. Without an estimate a pass would have to guess its claim. */
static bool is_ready(const struct task *t)
{
	return t->state == TASK_PENDING && !t->waiting_for_deps && t->estimated;
}

static bool is_admissible(const struct task *t)
{
	return t->state == TASK_RUNNING || is_ready(t);
}

/* In which queue it is when it is in one. */
static struct queue *queue_for(const struct tasks *ts, const struct task *t)
{
	return t->gpus ? ts->queue : ts->cpu_queue;
}

/* The first parked elements take the places that are free: from parked_from on, so that an array of 10,000 costs its elements
 * once and not once for each that ends. */
static void job_admit(struct tasks *ts, struct job *j)
{
	for (; j->n_admitted < j->limit && j->parked_from < j->n; j->parked_from++) {
		struct element *e = &j->elements[j->parked_from];
		if (e->admitted || !is_ready(e->task))
			continue;
		e->admitted = true;
		j->n_admitted++;
		queue_push(queue_for(ts, e->task), e->task);
	}
}

/* Another limit from now on: who runs goes on and has a place, what was admitted and waits is admitted anew, as far as there
 * are places. All of them are where they belong, before and after. */
static void job_limit(struct tasks *ts, struct job *j, uint32_t limit)
{
	if (limit == j->limit)
		return;
	for (size_t i = 0; i < j->n; i++) {
		struct element *e = &j->elements[i];
		if (is_ready(e->task) && (!j->limit || e->admitted))
			queue_remove(queue_for(ts, e->task), e->task);
	}
	j->limit = limit;
	j->n_admitted = 0;
	j->parked_from = 0;
	for (size_t i = 0; i < j->n; i++) {
		struct element *e = &j->elements[i];
		e->admitted = limit && e->task->state == TASK_RUNNING;
		j->n_admitted += e->admitted;
		if (!limit && is_ready(e->task))
			queue_push(queue_for(ts, e->task), e->task);
	}
	job_admit(ts, j);
}

/* Before an event: out of the queue, since the event may change its key. */
static void task_step_out(struct tasks *ts, struct task *t)
{
	if (is_ready(t))
		queue_remove(queue_for(ts, t), t);
}

/* After an event: where the record says. An element that was admitted keeps its place for as long as it can use it, also
 * through a further attempt; one that runs has one, as after a restart. */
static void task_step_in(struct tasks *ts, struct task *t)
{
	struct job *j = job_of(ts, t->id);
	if (!j || !j->limit) {
		if (is_ready(t))
			queue_push(queue_for(ts, t), t);
		return;
	}
	size_t at = job_place(j, t->id);
	struct element *e = &j->elements[at];
	if (e->admitted && !is_admissible(t))
		e->admitted = false, j->n_admitted--;
	else if (!e->admitted && t->state == TASK_RUNNING)
		e->admitted = true, j->n_admitted++;
	else if (e->admitted && is_ready(t))
		queue_push(queue_for(ts, t), t);
	if (!e->admitted && is_ready(t) && at < j->parked_from)
		j->parked_from = at;
	job_admit(ts, j);
}

/* Not those by which a pass, a launch or a sample only notes what it did: they would wake the pass that made them. */
static bool moves_version(enum event_kind kind)
{
	return kind != EV_PLACED && kind != EV_STARTED && kind != EV_MEASURED && kind != EV_SLOT_ASKED && kind != EV_WARNED;
}

/* Events -------------------------------------------------------------------------------------------------------------- */

static void tasks_tell(struct tasks *ts, task_id id, const enum task_state *state, int64_t wall_ms)
{
	scoped_free task_id *ready = NULL;
	size_t n = waiting_told(ts->waiting, id, state, &ready);
	for (size_t i = 0; i < n; i++) {
		struct task *t = tasks_find(ts, ready[i]);
		struct event ev = { .kind = EV_ELIGIBLE, .t_ms = wall_ms };
		assert(t && t->waiting_for_deps);
		if (!begins_later(t, wall_ms))
			tasks_emit(ts, t, &ev, wall_ms);
	}
}

/* Who waits for the start of a job waits for that of all its elements. */
static void tasks_tell_start(struct tasks *ts, task_id id, int64_t wall_ms)
{
	const enum task_state runs = TASK_RUNNING;
	const task_id whole = TASK_ID(TASK_JOB(id), -1);
	if (waiting_for_start(ts->waiting, id))
		tasks_tell(ts, id, &runs, wall_ms);
	if (id != whole && waiting_for_start(ts->waiting, whole))
		tasks_tell(ts, whole, NULL, wall_ms);
}

/* Those who wait for exactly this one go on; for the job as a whole, when no element of it is left. Whoever waited
 * learns of it last, when nothing here knows the task any more: anything may follow from that. */
static void tasks_drop(struct tasks *ts, struct task *t, int64_t wall_ms)
{
	task_id id = t->id, whole = TASK_ID(TASK_JOB(id), -1);
	enum task_state state = t->state;
	bool last = job_leave(ts, t);
	idmap_remove(&ts->by_id, id);
	user_count(ts, t, -1);
	ts->by_state[state]--;
	waiting_remove(ts->waiting, t);
	begins_remove(ts->begins, id);
	named_remove(ts->named, t);
	task_destroy(t);
	tasks_tell(ts, id, &state, wall_ms);
	if (last && id != whole)
		tasks_tell(ts, whole, NULL, wall_ms);
}

/* The order is the contract. Out of the queue before the record changes and in again after it; the counts; then the others
 * are told (`event`), while the task still exists; only then is an ended one dropped, and last those go on that waited for
 * it, as events of their own and maybe deep in this call. Whoever calls must not touch `t` afterwards. An event that its
 * state does not allow is a bug of ours: it is told, and nothing else happens. */
void tasks_emit(struct tasks *ts, struct task *t, struct event *ev, int64_t wall_ms)
{
	struct error err;	/* set where the event is refused, and read there alone: a kilobyte is not cleared for each */
	enum task_state before = t->state;
	bool first = t->n_events == 0, updated = ev->kind == EV_UPDATED;
	bool renamed = updated && ev->u.updated.name, depends = updated && ev->u.updated.set_deps;
	assert(tasks_find(ts, t->id) == t);
	ev->task = t->id;
	task_step_out(ts, t);
	if (renamed)
		named_remove(ts->named, t);
	if (depends) {
		waiting_forget(ts->waiting, t);
		user_count(ts, t, -1);
	}
	bool refused = task_apply(t, ev, &err);
	if (renamed)
		named_add(ts->named, t);
	if (depends)
		user_count(ts, t, 1);
	if (refused)
		ts->ops.trouble(ts->ops.ctx, err.text);
	else if (!first)
		ts->by_state[before]--, ts->by_state[t->state]++;
	else
		ts->by_state[t->state]++;
	if (!t->waiting_for_deps)
		waiting_remove(ts->waiting, t);
	task_step_in(ts, t);
	if (refused)
		return;
	if (updated && ev->u.updated.set_array_limit && job_of(ts, t->id))
		job_limit(ts, job_of(ts, t->id), t->array_limit);
	ts->version += moves_version(ev->kind);
	ts->ops.event(ts->ops.ctx, ev, t);
	if (task_state_terminal(t->state))
		tasks_drop(ts, t, wall_ms);
	else if (before != TASK_RUNNING && t->state == TASK_RUNNING)
		tasks_tell_start(ts, t->id, wall_ms);
}

void tasks_clock_set(struct tasks *ts, int64_t by_ms, int64_t wall_ms)
{
	size_t at = 0;
	for (struct task *t; (t = idmap_next(&ts->by_id, &at));) {
		if (task_state_terminal(t->state))	/* about to be dropped */
			continue;
		struct event ev = { .kind = EV_CLOCK_SET, .t_ms = wall_ms, .u.clock.by_ms = by_ms };
		tasks_emit(ts, t, &ev, wall_ms);
		if (t->delayed)	/* its time moved along */
			begins_add(ts->begins, t);
	}
}

void tasks_add(struct tasks *ts, struct task *t)
{
	assert(!tasks_find(ts, t->id));
	idmap_put(&ts->by_id, t->id, t);
	user_count(ts, t, 1);
	named_add(ts->named, t);
	job_join(ts, t);
}

static void wait_for(struct tasks *ts, struct task *t, int64_t wall_ms, bool later)
{
	struct event ev = { .kind = EV_ELIGIBLE, .t_ms = wall_ms };
	if (!t->waiting_for_deps || task_state_terminal(t->state))
		return;
	int met = t->retrying ? WAITING_MET : waiting_add(ts->waiting, t);	/* they were met when it started first */
	if (later)
		begins_add(ts->begins, t);
	else if (met == WAITING_MET)
		tasks_emit(ts, t, &ev, wall_ms);
}

/* Without an event: its log has all of them. Who waits is asked again, since what he waits for may have ended while no daemon
 * was there. */
void tasks_restore(struct tasks *ts, struct task *t, int64_t wall_ms)
{
	const task_id whole = TASK_ID(TASK_JOB(t->id), -1);
	const enum task_state open = TASK_PENDING;
	tasks_add(ts, t);
	ts->by_state[t->state]++;
	ts->version++;
	task_step_in(ts, t);
	/* One that had ended is here again: who waits for it, or for its job, waits on. */
	tasks_tell(ts, t->id, &open, wall_ms);
	if (t->id != whole)
		tasks_tell(ts, whole, &open, wall_ms);
	/* The clock may have been set since its log was written, and wall_ms be by the old one: the first turn knows. */
	wait_for(ts, t, wall_ms, t->begin_s != 0);
}

void tasks_wait(struct tasks *ts, struct task *t, int64_t wall_ms)
{
	wait_for(ts, t, wall_ms, begins_later(t, wall_ms));
}

/* One whose dependencies are not met has nothing but them to wait for any more. */
int64_t tasks_turn(struct tasks *ts, int64_t wall_ms)
{
	scoped_free task_id *ids = NULL;
	size_t n = begins_due(ts->begins, wall_ms, &ids);
	for (size_t i = 0; i < n; i++) {
		struct task *t = tasks_find(ts, ids[i]);
		struct event ev = { .kind = EV_ELIGIBLE, .t_ms = wall_ms };
		if (t && t->waiting_for_deps && (t->retrying || waiting_is(ts->waiting, t) == WAITING_MET))
			tasks_emit(ts, t, &ev, wall_ms);
	}
	return begins_next_ms(ts->begins);
}

struct task *tasks_next_vain(struct tasks *ts, struct dependency *unmet)
{
	for (;;) {
		if (ts->at_vain == ts->n_vain) {
			free(ts->vain);
			ts->at_vain = 0;
			ts->n_vain = waiting_take_vain(ts->waiting, &ts->vain);
		}
		if (!ts->n_vain)
			return NULL;
		bool never = false;
		struct task *t = tasks_find(ts, ts->vain[ts->at_vain++]);
		const struct dependency *on = t && t->waiting_for_deps ? waiting_for(ts->waiting, t, &never) : NULL;
		if (on && never) {
			*unmet = *on;
			return t;
		}
	}
}

void tasks_list_vain(struct tasks *ts)
{
	waiting_list_vain(ts->waiting);
}

/* Looking ------------------------------------------------------------------------------------------------------------- */

uint64_t tasks_version(const struct tasks *ts)
{
	return ts->version;
}

struct task *tasks_find(const struct tasks *ts, task_id id)
{
	return idmap_get(&ts->by_id, id);
}

struct task *tasks_find_any(const struct tasks *ts, task_id id, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct task *t = tasks_find(ts, id);
	if (!t)
		error_set(err, ERR_NOT_FOUND, "task %s: there is no such pending or running task", task_id_text(id, text));
	return t;
}

struct task *tasks_find_for(const struct tasks *ts, task_id id, enum event_kind kind, const char *what, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct task *t = tasks_find_any(ts, id, err);
	if (!t || task_event_allowed(t->state, kind))
		return t;
	error_set(err, ERR_CONFLICT, "task %s: is %s, so it cannot be %s", task_id_text(id, text), task_state_name(t->state), what);
	return NULL;
}

size_t tasks_count(const struct tasks *ts, enum task_state state)
{
	return ts->by_state[state];
}

size_t tasks_live(const struct tasks *ts)
{
	return ts->by_id.n;
}

size_t tasks_of_user(const struct tasks *ts, uid_t uid)
{
	const struct user_sum *u = sum_of(ts, uid);
	return u ? u->tasks : 0;
}

size_t tasks_user_bytes(const struct tasks *ts, uid_t uid)
{
	const struct user_sum *u = sum_of(ts, uid);
	return u ? u->bytes : 0;
}

size_t tasks_jobs_named(const struct tasks *ts, uid_t uid, const char *name, size_t most, uint32_t **jobs)
{
	return named_jobs(ts->named, uid, name, most, jobs);
}

/* An array is as far as its least advanced element; those that ended are gone from here, so it is never a final state. */
bool tasks_job_state(const struct tasks *ts, uint32_t job, enum task_state *state)
{
	const struct job *j = idmap_get(&ts->jobs, job);
	const struct task *only = tasks_find(ts, TASK_ID(job, -1));
	if (!j && !only)
		return false;
	*state = j ? TASK_RUNNING : only->state;
	for (size_t i = 0; j && i < j->n && *state == TASK_RUNNING; i++)
		*state = j->elements[i].task->state;
	return true;
}

size_t tasks_of_job(const struct tasks *ts, uint32_t job, task_id **ids)
{
	const struct job *j = idmap_get(&ts->jobs, job);
	const struct task *only = tasks_find(ts, TASK_ID(job, -1));
	size_t n = j ? j->n : only != NULL;
	*ids = n ? alloc_resize(NULL, n, sizeof **ids) : NULL;
	for (size_t i = 0; i < n; i++)
		(*ids)[i] = j ? j->elements[i].task->id : only->id;
	return n;
}

void tasks_spec_grew(struct tasks *ts, uint32_t job, size_t bytes)
{
	const struct job *j = idmap_get(&ts->jobs, job);
	const struct task *one = j ? j->elements[0].task : tasks_find(ts, TASK_ID(job, -1));
	if (!one)
		return;
	size_t was = spec_part(one->spec);
	one->spec->bytes += bytes;
	sum_of(ts, one->spec->uid)->bytes += (j ? j->n : 1) * (spec_part(one->spec) - was);
}

const struct queue *tasks_queue(const struct tasks *ts)
{
	return ts->queue;
}

bool tasks_array_admits(const struct tasks *ts, const struct task *t)
{
	const struct job *j = TASK_INDEX(t->id) < 0 ? NULL : job_of(ts, t->id);
	return !j || !j->limit || j->n_admitted < j->limit;
}

size_t tasks_queued(const struct tasks *ts)
{
	return queue_length(ts->queue);
}

const struct queue *tasks_cpu_queue(const struct tasks *ts)
{
	return ts->cpu_queue;
}

/* By the record, as task_step_in puts it there: a list of all tasks asks this of each. */
bool tasks_in_queue(const struct tasks *ts, const struct task *t)
{
	if (!is_ready(t))
		return false;
	const struct job *j = job_of(ts, t->id);
	return !j || !j->limit || j->elements[job_place(j, t->id)].admitted;
}

bool tasks_are_waited_for(const struct tasks *ts, task_id id)
{
	return waiting_names(ts->waiting, id);
}

/* A live task that stands for what is waited for; elements of an array share what they wait for. */
static const struct task *waited_for(const struct tasks *ts, const struct dependency *d)
{
	const struct job *j = TASK_INDEX(d->task) < 0 ? idmap_get(&ts->jobs, TASK_JOB(d->task)) : NULL;
	return j ? j->elements[0].task : tasks_find(ts, d->task);
}

/* A chain is followed through afterok alone: for the other kinds any end of the task before will do. A hundred links, since
 * rings cannot be made but chains can be as long as somebody's script, and this is asked for each row of a list. */
bool tasks_waits_in_vain(const struct tasks *ts, const struct task *t, const struct dependency **on)
{
	const struct dependency *d;
	bool never = false, first = true;
	for (int chain = 0; t && !never && chain < MAX_CHAIN; chain++, first = false) {
		d = waiting_for(ts->waiting, t, &never);
		if (first)
			*on = d;
		t = d && d->kind == DEP_AFTEROK ? waited_for(ts, d) : NULL;
	}
	return never;
}

static int by_id(const void *a, const void *b)
{
	task_id x = (*(struct task *const *)a)->id, y = (*(struct task *const *)b)->id;
	return x < y ? -1 : x > y;
}

/* The tasks that run, or all that neither run nor are queued; by id. Free the list. Two walks of the map in place of a
 * second index that every event would have to keep. */
static size_t list_tasks(const struct tasks *ts, bool running, struct task ***list)
{
	size_t at = 0, n = 0, cap = 0;
	*list = NULL;
	for (struct task *t; (t = idmap_next(&ts->by_id, &at));)
		if (running ? t->state == TASK_RUNNING : t->state != TASK_RUNNING && !tasks_in_queue(ts, t)) {
			alloc_grow(*list, n, cap);
			(*list)[n++] = t;
		}
	if (n)
		qsort(*list, n, sizeof **list, by_id);
	return n;
}

static void each_queued(const struct queue *q, void (*each)(void *ctx, const struct task *t), void *ctx)
{
	struct queue_walk queued;
	queue_walk_begin(&queued, q, QUEUE_RECOVERY);
	for (const struct task *t; (t = queue_walk_next(&queued));)
		each(ctx, t);
	queue_walk_end(&queued);
}

void tasks_each(const struct tasks *ts, void (*each)(void *ctx, const struct task *t), void *ctx)
{
	scoped_free struct task **running = NULL, **others = NULL;
	size_t n = list_tasks(ts, true, &running);
	for (size_t i = 0; i < n; i++)
		each(ctx, running[i]);
	each_queued(ts->queue, each, ctx);
	each_queued(ts->cpu_queue, each, ctx);
	n = list_tasks(ts, false, &others);
	for (size_t i = 0; i < n; i++)
		each(ctx, others[i]);
}

/* Invariants ---------------------------------------------------------------------------------------------------------- */

static int check_task(const struct tasks *ts, const struct task *t, struct error *err)
{
	const struct job *j = job_of(ts, t->id);
	size_t at = j ? job_place(j, t->id) : 0;
	char id[TASK_ID_TEXT];
	task_id_text(t->id, id);
	if (!j != (TASK_INDEX(t->id) < 0) || (j && (at >= j->n || j->elements[at].task != t)))
		return error_set(err, ERR_CORRUPT, "task %s: is no element of its job", id);
	bool limited = j && j->limit, admitted = limited ? j->elements[at].admitted : is_admissible(t);
	bool queued = queue_contains(queue_for(ts, t), t);
	if (queued != (is_ready(t) && admitted) || queued != tasks_in_queue(ts, t))
		return error_set(err, ERR_CORRUPT, "task %s: is %s in the queue", id, queued ? "wrongly" : "not");
	if (limited && admitted && !is_admissible(t))
		return error_set(err, ERR_CORRUPT, "task %s: takes a place of its array that it cannot use", id);
	if (limited && !admitted && is_ready(t) && (at < j->parked_from || j->n_admitted < j->limit))
		return error_set(err, ERR_CORRUPT, "task %s: is parked though its array has room", id);
	return 0;
}

static int check_job(const struct job *j, struct error *err)
{
	uint32_t admitted = 0;
	for (size_t i = 0; i < j->n; i++)
		admitted += j->elements[i].admitted;
	if (admitted == j->n_admitted)
		return 0;
	return error_set(err, ERR_CORRUPT, "job %u: %u of its elements have places, and it counts %u",
			 TASK_JOB(j->elements[0].task->id), admitted, j->n_admitted);
}

/* Said in other words than the code that keeps them: nothing is counted here as it is counted there. */
int tasks_check(const struct tasks *ts, struct error *err)
{
	size_t at = 0, by_state[TASK_STATE_COUNT] = { 0 }, in_queue = 0, n = 0;
	for (const struct task *t; (t = idmap_next(&ts->by_id, &at)); n++) {
		by_state[t->state]++;
		in_queue += queue_contains(queue_for(ts, t), t);
		if (check_task(ts, t, err))
			return -1;
	}
	at = 0;
	for (const struct job *j; (j = idmap_next(&ts->jobs, &at));)
		if (check_job(j, err))
			return -1;
	if (memcmp(by_state, ts->by_state, sizeof by_state))
		return error_set(err, ERR_CORRUPT, "the counts of tasks by state are not those of the tasks");
	size_t length = queue_length(ts->queue) + queue_length(ts->cpu_queue);
	if (in_queue != length)
		return error_set(err, ERR_CORRUPT, "the queues have %zu tasks, and %zu tasks are in them", length, in_queue);
	return 0;
}
