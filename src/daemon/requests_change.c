/* SPDX-License-Identifier: MIT
 * What people do to tasks that are there: cancel, hold, release, requeue, update. An id may stand for a whole array, and a list
 * for many tasks: then those that are in another state are passed over, unless none could be changed: "release 12" means what
 * is held of it.
 *
 * Whether a state allows a change is the core's to say, with its reason; here is only asked whose task it is.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/units.h"
#include "daemon/now.h"
#include "submit/validate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The last of those that an id stands for. */
struct change_last { task_id id; enum task_state state; };

static int change_note(void *ctx, task_id id, enum task_state state)
{
	*(struct change_last *)ctx = (struct change_last){ id, state };
	return 0;
}

/* Says of an id without a living task why there is none. By the index alone: a request may name thousands, each with all that
 * was submitted for it. */
static int change_ended(const struct requests *q, task_id id, struct error *err)
{
	char text[TASK_ID_TEXT];
	struct change_last last = { .id = 0 };
	task_id_text(id, text);
	if (store_states(q->store, id, change_note, &last, err))
		return -1;
	if (!last.id)
		return error_set(err, ERR_NOT_FOUND, "task %s: there is none", text);
	if (!task_state_terminal(last.state))
		return error_set(err, ERR_CORRUPT, "task %s: its log cannot be read, so it is left alone: see radd's log", text);
	if (last.id != id)
		return error_set(err, ERR_CONFLICT, "task %s: all elements of this array have ended already", text);
	return error_set(err, ERR_CONFLICT, "task %s: has ended already (%s)", text, task_state_name(last.state));
}

struct change_list { task_id *ids; size_t n, cap; };

static int change_add(void *ctx, task_id id, enum task_state state)
{
	struct change_list *l = ctx;
	(void)state;
	alloc_grow(l->ids, l->n, l->cap);
	l->ids[l->n++] = id;
	return 0;
}

/* Sorted and without repetition, so that a task that is named twice is changed once and counts once. */
int request_live_ids(const struct requests *q, const struct message *m, task_id **ids, size_t *n, struct error *err)
{
	scoped_free task_id *asked = NULL;
	struct change_list all = { 0 };
	size_t n_asked = request_ids(m, &asked, err);
	for (size_t i = 0; i < n_asked; i++) {
		scoped_free task_id *elements = NULL;
		size_t more = TASK_INDEX(asked[i]) < 0 ? core_job_tasks(q->core, TASK_JOB(asked[i]), &elements) : 0;
		if (TASK_INDEX(asked[i]) >= 0)
			change_add(&all, asked[i], TASK_PENDING);
		for (size_t k = 0; k < more; k++)
			change_add(&all, elements[k], TASK_PENDING);
	}
	*n = task_ids_sort(all.ids, all.n);
	*ids = all.ids;
	if (!n_asked)
		return -1;
	return *n ? 0 : change_ended(q, asked[0], err);
}

/* One change of one task; `how` is the caller's. */
typedef int (*change)(const struct requests *q, const struct message *m, task_id id, const void *how, struct error *err);

#define CHANGE_BYTES 400	/* of an event, with its place in the indexes */
#define CHANGE_TEXT 1500	/* what of a message may come into each event: a name */
#define PIECE_US 5000		/* in one turn, of what costs much each */

/* A change of many tasks, and what came of all that were looked at. */
struct changes {
	const struct requests *q;
	const struct message *m;
	change one;
	const void *how;
	int64_t until_us;	/* clock_mono_us */
	size_t done, denied, skipped;	/* skipped: not changed for another reason, as its state */
	struct error denial, reason;	/* of the first of those */
};

/* Who chose tasks by their state means those that are in it still: one that was to be cancelled while it waited may run by
 * now. */
static int change_need_state(const struct message *m, const struct task *t, struct error *err)
{
	const json_t *states = json_object_get(m->json, "states"), *s;
	char text[TASK_ID_TEXT];
	size_t i;
	json_array_foreach(states, i, s)
		if (json_is_string(s) && !strcmp(json_string_value(s), task_state_name(t->state)))
			return 0;
	return !states ? 0 : error_set(err, ERR_CONFLICT, "task %s: is %s by now, which was not asked for: nothing was done to it",
				       task_id_text(t->id, text), task_state_name(t->state));
}

/* Tasks of others are passed over like those in another state, but told. At least one, and no more after its time. Returns how
 * many were looked at. */
static size_t change_some(struct changes *c, const task_id *ids, size_t n)
{
	const struct message *m = c->m;
	size_t i = 0, before = c->done;
	do {
		struct error one = ERROR_INIT;
		const struct task *t = core_task(c->q->core, ids[i]);
		if (!(t && (request_need_owner(m, t, &one) || change_need_state(m, t, &one))) && !c->one(c->q, m, ids[i], c->how, &one)) {
			c->done++;
			continue;
		}
		if (one.code == ERR_DENIED ? !c->denied++ : !c->skipped++)
			*(one.code == ERR_DENIED ? &c->denial : &c->reason) = one;
	} while (++i < n && (c->until_us == INT64_MAX || clock_mono_us() < c->until_us));
	request_spend_store(c->q, m, (c->done - before) * (CHANGE_BYTES + (m->bytes < CHANGE_TEXT ? m->bytes : CHANGE_TEXT)));
	return i;
}

/* As long as one was changed the others are no failure. What refuses all is told by one reason, and a denial goes before any
 * other: "not yours" explains more than the state of some other task. */
static int change_tell(const struct changes *c, struct reply *reply, struct error *err)
{
	if (!c->done)
		return error_pass(err, c->denied ? &c->denial : &c->reason);
	return request_answer(reply, json_pack("{si, sI, sI, so, sI, so}", "schema", 1, "changed", (json_int_t)c->done,
		"denied", (json_int_t)c->denied, "why", json_text_or_null(c->denied ? c->denial.text : NULL),
		"skipped", (json_int_t)c->skipped, "skipped_why", json_text_or_null(c->skipped ? c->reason.text : NULL)));
}

/* To be gone on with behind the last task that was looked at, with what came of all until then. */
static int change_put_off(task_id last, const struct changes *c, struct reply *reply)
{
	*reply = (struct reply){ .kind = REPLY_MORE, .json = json_pack("{sI, sI, sI, sI, so, si, so}", "last", (json_int_t)last,
		"done", (json_int_t)c->done, "denied", (json_int_t)c->denied, "skipped", (json_int_t)c->skipped,
		"denial", json_text(c->denial.text), "code", c->reason.code, "reason", json_text(c->reason.text)) };
	return 0;
}

/* Nothing so far is read as 0 of everything, and 0 is no task's id: the first piece begins here, too. */
static task_id change_go_on(const json_t *so_far, struct changes *c)
{
	c->done = (size_t)json_integer_value(json_object_get(so_far, "done"));
	c->denied = (size_t)json_integer_value(json_object_get(so_far, "denied"));
	c->skipped = (size_t)json_integer_value(json_object_get(so_far, "skipped"));
	c->denial.code = c->denied ? ERR_DENIED : ERR_NONE;
	text_printf(c->denial.text, sizeof c->denial.text, "%s", json_member_text(so_far, "denial"));
	c->reason.code = (enum error_code)json_integer_value(json_object_get(so_far, "code"));
	text_printf(c->reason.text, sizeof c->reason.text, "%s", json_member_text(so_far, "reason"));
	return json_integer_value(json_object_get(so_far, "last"));
}

/* cancel, hold, release, suspend, resume, signal --------------------------------------------------------------------- */

typedef int (*core_change)(struct core *c, task_id id, uint32_t uid, struct now now, struct error *err);

/* One of which the request says no more than of which tasks. `bounded`: by how many events of people's a task may have, since
 * each is kept for ever. */
struct plain_change { core_change act; bool bounded; };

static int change_plainly(const struct requests *q, const struct message *m, task_id id, const void *how, struct error *err)
{
	const struct plain_change *plain = how;
	if (plain->bounded && request_need_changes(core_task(q->core, id), err))
		return -1;
	return plain->act(q->core, id, m->uid, now_read(), err);
}

static int change_all(const struct requests *q, const struct message *m, core_change act, bool bounded, struct reply *reply,
		      struct error *err)
{
	const struct plain_change how = { act, bounded };
	struct changes c = { .q = q, .m = m, .one = change_plainly, .how = &how, .until_us = INT64_MAX };
	scoped_free task_id *ids = NULL;
	size_t n = 0;
	if (request_live_ids(q, m, &ids, &n, err))
		return -1;
	change_some(&c, ids, n);
	return change_tell(&c, reply, err);
}

/* Also on a full disk: it frees something. */
int request_cancel(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	return change_all(q, m, core_cancel, false, reply, err);
}

/* Room and the day's allowance are asked once for the whole list, before any task is changed, so that a request is refused
 * whole and for one reason. */
int request_hold(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	if (request_need_room(q, err) || request_need_store(q, m, err))
		return -1;
	return change_all(q, m, core_hold, true, reply, err);
}

/* Not bounded: whoever could hold may take it back, or it would wait for ever. */
int request_release(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	return request_need_room(q, err) ? -1 : change_all(q, m, core_release, false, reply, err);
}

int request_suspend(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	if (request_need_room(q, err) || request_need_store(q, m, err))
		return -1;
	return change_all(q, m, core_suspend, true, reply, err);
}

/* Whoever could suspend may take it back. */
int request_resume(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	return request_need_room(q, err) ? -1 : change_all(q, m, core_resume, false, reply, err);
}

/* No event: it is nothing that the task is, and may be sent often. One that no process handles would end the program, by its
 * default, and that is what cancel is for. */
static int change_signal(const struct requests *q, const struct message *m, task_id id, const void *how, struct error *err)
{
	const struct task *t = core_task(q->core, id);
	int signal = (int)*(const int64_t *)how;
	const char *word = sigabbrev_np(signal);
	char text[TASK_ID_TEXT], number[16];
	(void)m;
	if (!t)
		return change_ended(q, id, err);
	task_id_text(id, text);
	if (t->state != TASK_RUNNING)
		return error_set(err, ERR_CONFLICT, "task %s: is %s: signals are for tasks that run", text, task_state_name(t->state));
	if (q->signal(q->ctx, t, signal))
		return 0;
	snprintf(number, sizeof number, "%d", signal);
	return error_set(err, ERR_CONFLICT, "task %s: none of its processes has a handler for %s%s, which was not sent: without one "
			 "it ends a program or does nothing", text, word ? "SIG" : "signal ", word ? word : number);
}

/* In pieces, since each costs a look at all processes of a task. That none lives any more is an error for the first piece
 * alone. */
int request_signal(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	int64_t number = 0;
	struct changes c = { .q = q, .m = m, .one = change_signal, .how = &number, .until_us = clock_mono_us() + PIECE_US };
	task_id last = change_go_on(m->so_far, &c);
	scoped_free task_id *ids = NULL;
	size_t n = 0, at = 0;
	if (json_read_int(m->json, "signal", 1, SIGRTMAX, &number, err))
		return -1;
	if (!number)
		return error_set(err, ERR_INVALID, "'signal': which?");
	if (request_live_ids(q, m, &ids, &n, err) && !m->so_far)
		return -1;
	while (at < n && ids[at] <= last)
		at++;
	if (at < n)
		at += change_some(&c, ids + at, n - at);
	return at < n ? change_put_off(ids[at - 1], &c, reply) : change_tell(&c, reply, err);
}

/* requeue ------------------------------------------------------------------------------------------------------------- */

#define MAX_AGAIN SPEC_MAX_ARRAY	/* tasks of one request, as many as one submission makes */

static int change_may_run_again(const struct task *t, struct error *err)
{
	char text[TASK_ID_TEXT];
	if (spec_process(t->spec).pid)
		return error_set(err, ERR_CONFLICT, "task %s: is a process that rad did not begin, and cannot begin again: submit its "
				 "command with 'rad submit'", task_id_text(t->id, text));
	if (spec_is_attended(t->spec))
		return error_set(err, ERR_CONFLICT, "task %s: was run at a terminal, and is not run again by itself: begin it anew",
				 task_id_text(t->id, text));
	return 0;
}

/* The tasks that one of the request's ids stands for, ended ones too, behind those in the list. */
static int requeue_add(const struct requests *q, task_id id, struct change_list *all, struct error *err)
{
	return TASK_INDEX(id) >= 0 ? change_add(all, id, TASK_PENDING) : store_states(q->store, id, change_add, all, err);
}

/* Asked of the whole list, before any is changed. */
static int requeue_check(const struct requests *q, const task_id *asked, size_t n, struct error *err)
{
	struct change_list all = { 0 };
	int failed = 0;
	for (size_t i = 0; i < n && !failed && all.n <= MAX_AGAIN; i++)
		failed = requeue_add(q, asked[i], &all, err);
	free(all.ids);
	if (!failed && all.n > MAX_AGAIN)
		failed = error_set(err, ERR_INVALID, "these ids stand for more than %d tasks: requeue fewer at a time", MAX_AGAIN);
	if (!failed && !all.n)
		failed = error_set(err, ERR_NOT_FOUND, "task %u: there is none of that id", TASK_JOB(asked[0]));
	return failed;
}

/* A finished task comes back from the store first, and only when nothing speaks against it any more: once it is the core's it
 * counts among its user's. */
static int requeue_one(const struct requests *q, const struct message *m, task_id id, const void *how, struct error *err)
{
	struct task *old = NULL;
	(void)how;
	const struct task *t = request_any_task(q, id, &old, err);
	bool folded = old && store_is_folded(q->store, TASK_JOB(id));
	if (folded)
		error_set(err, ERR_CONFLICT, "it ended so long ago that its script and environment are no longer kept (fold_after in "
			  "rad.conf): submit it anew");
	if (!t || folded || request_need_owner(m, t, err) || change_may_run_again(t, err) || request_need_changes(t, err) ||
	    (old && (request_need_user_room(q, m, t->spec->uid, 1, err) ||
		     request_need_allowance(q, m, t->spec->uid, 1, NULL, err)))) {
		task_destroy(old);
		return -1;
	}
	if (old)
		core_restore(q->core, old, now_read());
	return core_requeue(q->core, id, m->uid, now_read(), err);
}

/* Of the tasks of one id those behind *last, until its time. 0: all of them; 1: there are more. */
static int requeue_some(struct changes *c, task_id id, task_id *last, struct error *err)
{
	struct change_list all = { 0 };
	size_t at = 0;
	int failed = requeue_add(c->q, id, &all, err);
	while (at < all.n && all.ids[at] <= *last)
		at++;
	if (!failed && at < all.n) {
		at += change_some(c, all.ids + at, all.n - at);
		*last = all.ids[at - 1];
	}
	free(all.ids);
	return failed ? -1 : at < all.n;
}

/* In the order of their ids, a piece a turn: each may have a script and a capture of megabytes to be read and taken apart. What
 * an id stands for is looked up when it is its turn. */
int request_requeue(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	scoped_free task_id *asked = NULL;
	struct changes c = { .q = q, .m = m, .one = requeue_one, .until_us = clock_mono_us() + PIECE_US };
	task_id last = change_go_on(m->so_far, &c);
	size_t n = request_ids(m, &asked, err), at = 0;
	if (!n || request_need_room(q, err) || (!m->so_far && (request_need_store(q, m, err) || requeue_check(q, asked, n, err))))
		return -1;
	while (at < n && TASK_JOB(asked[at]) < TASK_JOB(last))
		at++;
	for (; at < n; at++) {
		int more = requeue_some(&c, asked[at], &last, err);
		if (more < 0)
			return -1;
		if (more || (at + 1 < n && clock_mono_us() >= c.until_us))
			return change_put_off(last, &c, reply);
	}
	return change_tell(&c, reply, err);
}

/* update -------------------------------------------------------------------------------------------------------------- */

/* What makes no sense without a GPU: its memory can be taken away, and nothing else can. */
static int change_check_without_gpu(const struct spec *s, struct error *err)
{
	const char *word = s->gpus ? NULL : submit_said_of_gpus(s);
	if (!word)
		return 0;
	if (!strcmp(word, "gpu_mem"))
		return error_set(err, ERR_INVALID, "'gpus' is 0 and 'gpu_mem' is of GPUs: --gpu-mem=0 takes that away too");
	return error_set(err, ERR_INVALID, "'gpus' is 0 and '%s', with which it was submitted, is of GPUs: cancel it and submit it "
			 "anew", word);
}

/* GPUs of another model are another task; who says the same again says nothing of it. */
static int change_check_model(const struct message *m, const struct task *t, struct error *err)
{
	const char *model = json_string_value(json_object_get(m->json, "gpu_model")), *has = t->spec->gpu_model;
	if (!model || (has && !strcasecmp(model, has)))
		return 0;
	return error_set(err, ERR_INVALID, "'%.60s': the model of GPU cannot be changed, only how many, and it was submitted with "
			 "%s%.60s%s", model, has ? "'" : "", has ? has : "none", has ? "'" : "");
}

/* What a submission with these would be refused for. Of one that runs, the core refuses those of GPUs anyway. */
static int change_check_needs(const struct requests *q, const struct message *m, const struct task *t, const struct event *ev,
			      struct error *err)
{
	const struct spec s = task_as_submitted(t, ev);
	char text[TASK_ID_TEXT];
	bool more = (ev->u.updated.set_gpus || ev->u.updated.set_gpu_mem) && t->state != TASK_RUNNING;
	bool needs = (ev->u.updated.set_gpus && more) || ev->u.updated.set_retries;
	if (needs && (change_check_model(m, t, err) || change_check_without_gpu(&s, err) || submit_check_needs(&s, err)))
		return error_wrap(err, "task %s", task_id_text(t->id, text));
	if (more && request_need_allowance(q, m, s.uid, 0, &s, err))
		return error_wrap(err, "task %s", task_id_text(t->id, text));
	return 0;
}

/* By how much each task's own time limit changes; 0: it does not. */
static int64_t update_by_s(const struct message *m)
{
	return json_integer_value(json_object_get(m->json, "time_limit_by_s"));
}

static int change_update(const struct requests *q, const struct message *m, task_id id, const void *how, struct error *err)
{
	struct event one = *(const struct event *)how;
	const struct task *t = core_task(q->core, id);
	one.u.updated.by_known = true;
	one.u.updated.uid = m->uid;
	if (t && update_by_s(m)) {
		one.u.updated.set_time_limit = true;
		one.u.updated.time_limit_s = t->time_limit_s + update_by_s(m);
	}
	if (request_need_changes(t, err) || (t && change_check_needs(q, m, t, &one, err)))
		return -1;
	return core_update(q->core, id, &one, now_read(), err);
}

static bool update_is_singleton(const struct message *m)
{
	return json_is_true(json_object_get(m->json, "singleton"));
}

/* Members that are not there are not changed; 0 takes a limit away. */
static int change_read_update(const struct message *m, struct event *ev, char **name, struct error *err)
{
	int64_t mem = 0, host_mem = 0, priority = 0;
	ev->u.updated.set_priority = json_object_get(m->json, "priority");
	ev->u.updated.set_time_limit = json_object_get(m->json, "time_limit_s");
	ev->u.updated.set_gpu_mem = json_object_get(m->json, "gpu_mem_mib");
	ev->u.updated.set_max_slowdown = json_object_get(m->json, "max_slowdown");
	ev->u.updated.set_array_limit = json_object_get(m->json, "array_limit");
	ev->u.updated.set_begin = json_object_get(m->json, "begin_s");
	ev->u.updated.set_gpus = json_object_get(m->json, "gpus");
	ev->u.updated.set_host_mem = json_object_get(m->json, "host_mem_mib");
	ev->u.updated.set_retries = json_object_get(m->json, "retries");
	ev->u.updated.set_deps = json_object_get(m->json, "deps") || update_is_singleton(m);
	if (json_read_int(m->json, "priority", INT32_MIN, INT32_MAX, &priority, err) ||
	    json_read_int(m->json, "time_limit_s", 0, SPEC_MAX_TIME_S, &ev->u.updated.time_limit_s, err) ||
	    json_read_int(m->json, "gpu_mem_mib", 0, SPEC_MAX_MIB, &mem, err) ||
	    json_read_double(m->json, "max_slowdown", &ev->u.updated.max_slowdown, err) ||
	    submit_check_slowdown(ev->u.updated.max_slowdown, err) ||
	    json_read_int(m->json, "begin_s", 0, REQUEST_LATEST_MS / 1000, &ev->u.updated.begin_s, err) ||
	    json_read_int(m->json, "array_limit", 0, SPEC_MAX_ARRAY, &ev->u.updated.array_limit, err) ||
	    json_read_int(m->json, "gpus", 0, SPEC_MAX_GPUS, &ev->u.updated.gpus, err) ||
	    json_read_int(m->json, "host_mem_mib", 0, SPEC_MAX_MIB, &host_mem, err) ||
	    json_read_int(m->json, "retries", 0, SPEC_MAX_RETRIES, &ev->u.updated.retries, err) ||
	    spec_deps_from_json(json_object_get(m->json, "deps"), &ev->u.updated.deps, &ev->u.updated.n_deps, err) ||
	    json_read_text(m->json, "name", 1000, name, err) || (*name && submit_check_name(*name, err)))
		return -1;
	ev->u.updated.priority = priority;
	ev->u.updated.gpu_mem_mib = (uint64_t)mem;
	ev->u.updated.host_mem_mib = (uint64_t)host_mem;
	ev->u.updated.name = *name;
	if (priority > 0 && !request_is_admin(m->uid))
		return error_set(err, ERR_DENIED, "only the administrator may raise a priority above 0");
	return 0;
}

/* Asked of the whole list, before any is changed. */
static int update_check_by(const struct requests *q, const struct message *m, const struct event *ev, const task_id *ids,
			   size_t n, struct error *err)
{
	int64_t by_s = 0;
	char text[TASK_ID_TEXT];
	if (json_read_int(m->json, "time_limit_by_s", -SPEC_MAX_TIME_S, SPEC_MAX_TIME_S, &by_s, err))
		return -1;
	if (by_s && ev->u.updated.set_time_limit)
		return error_set(err, ERR_INVALID, "'time_limit_by_s' and 'time_limit_s': give one of them");
	for (size_t i = 0; i < n && by_s; i++) {
		const struct task *t = core_task(q->core, ids[i]);
		if (!t || request_need_owner(m, t, NULL))
			continue;
		if (!t->time_limit_s)
			return error_set(err, ERR_CONFLICT, "task %s: has no time limit that could be changed by so much: give one "
					 "(--time=2h)", task_id_text(t->id, text));
		if (t->time_limit_s + by_s <= 0)
			return error_set(err, ERR_INVALID, "task %s: its time limit is %lld s, and that is not more than what is taken "
					 "off: rad cancel ends it", task_id_text(t->id, text), (long long)t->time_limit_s);
		if (t->time_limit_s + by_s > SPEC_MAX_TIME_S)
			return error_set(err, ERR_INVALID, "task %s: its time limit would be longer than a hundred years",
					 task_id_text(t->id, text));
	}
	return 0;
}

/* Asked of the whole list, before any is changed: a ring may go through several of them. Those of others, which will be passed
 * over, count as if they were the sender's. */
static int update_check_deps(const struct requests *q, const struct message *m, const struct event *ev, const task_id *ids,
			     size_t n, size_t *bytes, struct error *err)
{
	const struct dependency *deps = ev->u.updated.deps;
	size_t n_deps = ev->u.updated.n_deps;
	if (!ev->u.updated.set_deps)
		return 0;
	if (n > 1 && submit_check_pairs(n, n_deps, err))
		return -1;
	for (size_t i = 0; i < n_deps; i++)
		if (deps[i].task <= 0)
			return error_set(err, ERR_INVALID, "'deps': no task has that id");
	const struct spec *last = NULL;
	for (size_t i = 0; i < n; i++) {
		const struct task *t = core_task(q->core, ids[i]);
		if (t && t->spec != last && request_check_deps(q, last = t->spec, deps, n_deps, err))
			return -1;
	}
	*bytes += n * n_deps * SPEC_DEP_BYTES;
	return core_check_deps(q->core, ids, n, deps, n_deps, err) || request_need_size(q, m, *bytes, err) ? -1 : 0;
}

/* One element of an array runs at a time, and that is said of the whole. */
static int update_need_whole(const struct message *m, struct error *err)
{
	scoped_free task_id *asked = NULL;
	size_t n = request_ids(m, &asked, err);
	char text[TASK_ID_TEXT];
	for (size_t i = 0; i < n; i++)
		if (TASK_INDEX(asked[i]) >= 0)
			return error_set(err, ERR_INVALID, "dependency: singleton: %s is an element: name the array, %u",
					 task_id_text(asked[i], text), TASK_JOB(asked[i]));
	return n ? 0 : -1;
}

/* How many of them, from the first, are of one job and name. */
static size_t update_alike(const struct requests *q, const task_id *ids, size_t n)
{
	const struct task *first = core_task(q->core, ids[0]), *t;
	size_t same = 1;
	while (same < n && TASK_JOB(ids[same]) == TASK_JOB(ids[0]) && (t = core_task(q->core, ids[same])) && first &&
	       !strcmp(task_name(t), task_name(first)))
		same++;
	return same;
}

/* Each job waits for others, so it is asked by itself. `ev` has what it is to wait for besides. */
static int update_singleton(struct changes *c, struct event ev, const task_id *ids, size_t n, size_t *bytes, struct error *err)
{
	const struct task *t = core_task(c->q->core, ids[0]);
	const char *name = ev.u.updated.name ? ev.u.updated.name : t ? task_name(t) : "";
	size_t n_deps = ev.u.updated.n_deps;
	scoped_free struct dependency *deps = n_deps ? alloc_zero(n_deps * sizeof *deps) : NULL;
	if (n_deps)
		memcpy(deps, ev.u.updated.deps, n_deps * sizeof *deps);
	if (t && request_add_earlier(c->q, t->spec->uid, name, TASK_JOB(ids[0]), &deps, &n_deps, err))
		return -1;
	ev.u.updated.deps = deps;
	ev.u.updated.n_deps = n_deps;
	ev.u.updated.set_array_limit = ev.u.updated.set_array_limit || TASK_INDEX(ids[0]) >= 0;
	ev.u.updated.array_limit = 1;
	if (update_check_deps(c->q, c->m, &ev, ids, n, bytes, err))
		return -1;
	c->how = &ev;
	change_some(c, ids, n);
	return 0;
}

static void update_singletons(struct changes *c, const struct event *ev, const task_id *ids, size_t n, size_t *bytes)
{
	for (size_t i = 0, same; i < n; i += same) {
		struct error why = ERROR_INIT;
		same = update_alike(c->q, ids + i, n - i);
		if (!update_singleton(c, *ev, ids + i, same, bytes, &why))
			continue;
		if (!c->skipped)
			c->reason = why;
		c->skipped += same;
	}
}

/* What a task of the list whose number of GPUs will change asks for besides, all its GPUs together. NULL: nothing. Free it. */
static char *update_stays(const struct requests *q, const struct message *m, const struct event *ev, const task_id *ids,
			  size_t n)
{
	char id[TASK_ID_TEXT], mem[32], cpus[32];
	for (size_t i = 0; i < n && ev->u.updated.set_gpus; i++) {
		const struct task *t = core_task(q->core, ids[i]);
		bool changes = t && t->state != TASK_RUNNING && (int64_t)t->gpus != ev->u.updated.gpus;
		if (!changes || request_need_owner(m, t, NULL))
			continue;
		bool of_mem = t->host_mem_mib && !ev->u.updated.set_host_mem, of_cpus = t->spec->cpus;
		units_format_mib((double)t->host_mem_mib, mem, sizeof mem);
		snprintf(cpus, sizeof cpus, "%u CPU%s", t->spec->cpus, t->spec->cpus == 1 ? "" : "s");
		if (of_mem || of_cpus)
			return alloc_printf("task %s: asks for %s%s%s of the machine as before, whatever its number of GPUs%s",
					    task_id_text(t->id, id), of_cpus ? cpus : "", of_cpus && of_mem ? " and " : "",
					    of_mem ? mem : "", of_mem ? " (--mem changes the memory)" : "");
	}
	return NULL;
}

int request_update(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	struct event ev = { 0 };
	struct changes c = { .q = q, .m = m, .one = change_update, .how = &ev, .until_us = INT64_MAX };
	scoped_free char *name = NULL;
	scoped_free task_id *ids = NULL;
	size_t n = 0, bytes = 0;
	bool singleton = update_is_singleton(m);
	scoped_free char *stays = NULL;
	int failed = request_need_room(q, err) || request_need_store(q, m, err) || change_read_update(m, &ev, &name, err) ||
		     (singleton && update_need_whole(m, err)) || request_live_ids(q, m, &ids, &n, err) ||
		     update_check_by(q, m, &ev, ids, n, err) || update_check_deps(q, m, &ev, ids, n, &bytes, err) ? -1 : 0;
	if (!failed)
		stays = update_stays(q, m, &ev, ids, n);
	if (!failed && singleton)
		update_singletons(&c, &ev, ids, n, &bytes);
	else if (!failed)
		change_some(&c, ids, n);
	failed = failed || change_tell(&c, reply, err) ? -1 : 0;
	if (!failed) {
		json_object_set_new(reply->json, "stays", json_text_or_null(stays));
		json_object_set_new(reply->json, "time_limit_by_s", json_integer(update_by_s(m)));
		request_spend_store(q, m, bytes);
	}
	free(ev.u.updated.deps);
	return failed;
}
