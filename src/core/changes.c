/* SPDX-License-Identifier: MIT
 *
 * What people have done to a task that is there: held, released, changed, cancelled, given back, queued again. (Stopped where
 * it is: suspend.c.) What a state allows is said once, in the table of task.c; here stands what hangs on more than that: a task
 * that runs is asked to stop and goes on being what it is until its processes have ended, and what would change nothing makes
 * no event. All is asked before the first event, since an event cannot be taken back.
 */
#include "core/private.h"

#include "base/scope.h"
#include "core/cycle.h"

#include <string.h>

/* `done`: the word for it in an error, "held" or "released". */
static int core_do(struct core *c, task_id id, enum event_kind kind, const char *done, uint32_t uid, struct now now,
		   struct error *err)
{
	struct task *t = tasks_find_for(c->tasks, id, kind, done, err);
	c->now = now;
	if (t)
		core_emit(c, t, kind, uid);
	return t ? 0 : -1;
}

int core_hold(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	return core_do(c, id, EV_HELD, "held", uid, now, err);
}

int core_release(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	return core_do(c, id, EV_RELEASED, "released", uid, now, err);
}

/* A stopped process would not see that it is asked to end. */
static void core_ask_stop(struct core *c, struct task *t, enum stop_reason reason, uint32_t uid)
{
	if (t->suspended)
		core_emit(c, t, EV_RESUMED, uid);
	struct event ev = { .kind = EV_STOP_ASKED, .t_ms = c->now.wall_ms, .u.stop = { reason, uid } };
	tasks_emit(c->tasks, t, &ev, c->now.wall_ms);
}

/* A task that is being stopped for another reason (its time limit, a requeue) is cancelled all the same, or it would come
 * back. */
int core_cancel(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = tasks_find_any(c->tasks, id, err);
	c->now = now;
	if (!t)
		return -1;
	if (t->state != TASK_RUNNING)
		core_emit(c, t, EV_CANCELLED, uid);
	else if (t->stopping != STOP_CANCEL)
		core_ask_stop(c, t, STOP_CANCEL, uid);
	return 0;
}

/* A task that is being stopped, for whatever reason, is left to that: its processes were asked to end already. */
int core_give_back(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = tasks_find_any(c->tasks, id, err);
	char text[TASK_ID_TEXT];
	c->now = now;
	if (!t)
		return -1;
	if (!t->spec->process_pid)
		return error_set(err, ERR_INVALID, "task %s: was started by RAD-RM, and ends with its program: rad cancel ends it",
				 task_id_text(id, text));
	if (t->state != TASK_RUNNING)
		core_emit(c, t, EV_CANCELLED, uid);
	else if (!t->stopping)
		core_ask_stop(c, t, STOP_GIVEN_BACK, uid);
	return 0;
}

static bool core_deps_differ(const struct task *t, const struct event *ev)
{
	size_t n;
	const struct dependency *deps = task_deps(t, &n);
	bool differ = n != ev->u.updated.n_deps;
	for (size_t i = 0; i < n && !differ; i++)
		differ = deps[i].kind != ev->u.updated.deps[i].kind || deps[i].task != ev->u.updated.deps[i].task;
	return differ;
}

/* Whether the event would change anything. One that would not is not made: events are kept for ever, and make a pass look
 * again. */
static bool core_differs(const struct task *t, const struct event *ev)
{
	return (ev->u.updated.set_priority && ev->u.updated.priority != t->priority) ||
	       (ev->u.updated.set_time_limit && ev->u.updated.time_limit_s != t->time_limit_s) ||
	       (ev->u.updated.set_gpu_mem && ev->u.updated.gpu_mem_mib != t->gpu_mem_mib) ||
	       (ev->u.updated.set_max_slowdown && !(ev->u.updated.max_slowdown == t->max_slowdown)) ||
	       (ev->u.updated.set_array_limit && (uint32_t)ev->u.updated.array_limit != t->array_limit) ||
	       (ev->u.updated.set_begin && ev->u.updated.begin_s != t->begin_s) ||
	       (ev->u.updated.set_gpus && (unsigned)ev->u.updated.gpus != t->gpus) ||
	       (ev->u.updated.set_host_mem && ev->u.updated.host_mem_mib != t->host_mem_mib) ||
	       (ev->u.updated.set_retries && (unsigned)ev->u.updated.retries != t->retries) ||
	       (ev->u.updated.set_deps && core_deps_differ(t, ev)) ||
	       (ev->u.updated.name && strcmp(ev->u.updated.name, task_name(t)));
}

/* What an attempt was placed and launched by is settled while it runs. */
static int core_check_running(const struct task *t, const struct event *ev, struct error *err)
{
	char text[TASK_ID_TEXT];
	const struct { const char *word; bool asked; } settled[] = {
		{ "gpus", ev->u.updated.set_gpus }, { "gpu-mem", ev->u.updated.set_gpu_mem }, { "mem", ev->u.updated.set_host_mem },
		{ "priority", ev->u.updated.set_priority }, { "begin", ev->u.updated.set_begin },
		{ "dependency", ev->u.updated.set_deps },
	};
	for (size_t i = 0; i < COUNT_OF(settled) && t->state == TASK_RUNNING; i++)
		if (settled[i].asked)
			return error_set(err, ERR_CONFLICT, "task %s: is RUNNING, and its %s can be changed only while it waits; of a running "
					 "task, these can: time, retries, max-slowdown, array, name", task_id_text(t->id, text),
					 settled[i].word);
	return 0;
}

/* Whether this machine could ever run it so. Asked only of a change of that: GPUs may have gone since it was submitted. */
static int core_check_fits(struct core *c, const struct task *t, const struct event *ev, struct error *err)
{
	char text[TASK_ID_TEXT];
	const struct spec s = task_as_submitted(t, ev);
	if (!ev->u.updated.set_gpus && !ev->u.updated.set_gpu_mem && !ev->u.updated.set_host_mem)
		return 0;
	return core_feasible(c, &s, err) ? error_wrap(err, "task %s", task_id_text(t->id, text)) : 0;
}

static int core_check_update(struct core *c, const struct task *t, const struct event *ev, struct error *err)
{
	char text[TASK_ID_TEXT];
	const struct spec s = task_as_submitted(t, ev);
	if (core_check_running(t, ev, err))
		return -1;
	if (!s.gpus && (ev->u.updated.gpu_mem_mib || ev->u.updated.max_slowdown > 0))
		return error_set(err, ERR_INVALID, "task %s: asks for no GPU, so neither GPU memory nor a slow-down by others on its GPU can "
				 "be said of it", task_id_text(t->id, text));
	if (ev->u.updated.set_array_limit && TASK_INDEX(t->id) < 0)
		return error_set(err, ERR_INVALID, "task %s: is no array, so there is no number of elements that run at once",
				 task_id_text(t->id, text));
	return core_check_fits(c, t, ev, err);
}

int core_check_deps(struct core *c, const task_id *ids, size_t n, const struct dependency *deps, size_t n_deps,
		    struct error *err)
{
	struct cycle ring;
	char of[TASK_ID_TEXT], by[TASK_ID_TEXT];
	enum cycle_found found = cycle_find(c->tasks, ids, n, deps, n_deps, &ring);
	if (found == CYCLE_NONE)
		return 0;
	if (found == CYCLE_TOO_MANY)
		return error_set(err, ERR_UNAVAILABLE, "dependency: what it names leads to a million others, too many to see whether it "
				 "would wait for itself");
	if (!ring.by)
		return error_set(err, ERR_INVALID, "dependency: task %s cannot wait for itself", task_id_text(ring.of, of));
	return error_set(err, ERR_INVALID, "dependency: task %s would wait for itself, by way of task %s, which waits for it",
			 task_id_text(ring.of, of), task_id_text(ring.by, by));
}

int core_update(struct core *c, task_id id, struct event *ev, struct now now, struct error *err)
{
	struct task *t = tasks_find_for(c->tasks, id, EV_UPDATED, "changed", err);
	c->now = now;
	if (!t || core_check_update(c, t, ev, err))
		return -1;
	if (!core_differs(t, ev))
		return 0;
	ev->kind = EV_UPDATED;
	ev->t_ms = now.wall_ms;
	tasks_emit(c->tasks, t, ev, now.wall_ms);
	if (ev->u.updated.set_begin || ev->u.updated.set_deps)
		tasks_wait(c->tasks, t, now.wall_ms);
	if (ev->u.updated.set_gpu_mem || ev->u.updated.set_gpus)	/* what is declared goes before what was estimated */
		estimates_ask(c->estimates, t, now);
	return 0;
}

int core_requeue(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err)
{
	struct task *t = tasks_find_any(c->tasks, id, err);
	char text[TASK_ID_TEXT];
	c->now = now;
	if (!t)
		return -1;
	if (t->state == TASK_RUNNING && t->stopping && t->stopping != STOP_REQUEUE)
		return error_set(err, ERR_CONFLICT, "task %s: is being ended for good already: requeue it when it has ended",
				 task_id_text(id, text));
	if (t->state == TASK_RUNNING) {
		if (!t->stopping)
			core_ask_stop(c, t, STOP_REQUEUE, uid);
		return 0;
	}
	if (!task_state_terminal(t->state))
		return error_set(err, ERR_CONFLICT, "task %s: is %s already", task_id_text(id, text), task_state_name(t->state));
	core_emit(c, t, EV_REQUEUED, uid);
	estimates_ask(c->estimates, t, now);
	tasks_wait(c->tasks, t, now.wall_ms);
	return 0;
}
