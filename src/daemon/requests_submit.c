/* SPDX-License-Identifier: MIT
 * Submissions: who, whether there is room, what, whether GPUs of this server could run it; then an id, and the core.
 *
 * Everything that can be refused is looked at before the id is taken: after that only the disk can be in the way, and then the
 * whole turn is lost, with everybody's (doc/decisions/0003). Who it is comes first, since all bounds are a user's.
 */
#include "daemon/requests_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "daemon/now.h"
#include "submit/validate.h"

#include <string.h>

#define SUBMIT_BYTES 3000	/* what a task that runs once adds to the store, all its events together */

/* Whom the user database does not know owns no account here: a uid of somebody's user namespace, with which he would be many
 * users. */
int request_user_name(const struct requests *q, uid_t uid, const char **name, struct error *err)
{
	bool known = allowing_is_known(q->allowing, uid);	/* his groups, too */
	enum name_state state = names_of(q->names, uid, name);
	if (state == NAME_ASKED)
		names_hurry(q->names, uid);
	if (state == NAME_ASKED || !known)
		return 1;
	if (state == NAME_KNOWN || uid == geteuid())
		return 0;
	if (state == NAME_NO_ACCOUNT)
		return error_set(err, ERR_DENIED, "uid %u has no account on this machine", (unsigned)uid);
	return error_set(err, ERR_UNAVAILABLE, "the user database does not say who uid %u is (is its server down?): try again",
			 (unsigned)uid);
}

static int submit_seen(void *ctx, task_id id, enum task_state state)
{
	(void)id;
	(void)state;
	*(bool *)ctx = true;
	return 1;	/* one is enough */
}

static int submit_is_there(void *ctx, task_id id, bool *there, struct error *err)
{
	const struct requests *q = ctx;
	*there = false;
	return store_states(q->store, id, submit_seen, there, err);
}

int request_check_deps(const struct requests *q, const struct spec *s, const struct dependency *deps, size_t n,
		       struct error *err)
{
	for (size_t i = 0; i < n; i++)
		if (submit_check_dependency(s, &deps[i], submit_is_there, (void *)q, err))
			return -1;
	return 0;
}

static void submit_add_after(task_id whole, struct dependency **deps, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		if ((*deps)[i].kind == DEP_AFTERANY && (*deps)[i].task == whole)
			return;
	*deps = alloc_resize(*deps, *n + 1, sizeof **deps);
	(*deps)[(*n)++] = (struct dependency){ DEP_AFTERANY, whole };
}

/* Earlier tasks of its user and name are known, and later ones do not matter: so a singleton is so many dependencies. */
int request_add_earlier(const struct requests *q, uid_t uid, const char *name, uint32_t job, struct dependency **deps,
			size_t *n, struct error *err)
{
	scoped_free uint32_t *jobs = NULL;
	size_t n_jobs = core_jobs_named(q->core, uid, name, SPEC_MAX_DEPS + 1, &jobs);
	for (size_t i = 0; i < n_jobs && jobs[i] < job; i++)
		submit_add_after(TASK_ID(jobs[i], -1), deps, n);
	return *n <= SPEC_MAX_DEPS ? 0 :
	       error_set(err, ERR_UNAVAILABLE, "--dependency=singleton: more than %d unfinished tasks of yours are named '%.100s'",
			 SPEC_MAX_DEPS, name);
}

/* Of an array, one element runs at a time. */
static int submit_make_singleton(const struct requests *q, struct spec *s, struct error *err)
{
	if (!s->singleton || !s->name)
		return 0;
	if (request_add_earlier(q, s->uid, s->name, UINT32_MAX, &s->deps, &s->n_deps, err))
		return -1;
	if (s->n_array)
		s->array_limit = 1;
	return 0;
}

/* Whether it is to wait for a capture that the submitter's `rad` makes: asked for, or the setting's wish for what runs Python
 * ("may"). Never the client's word alone. */
static void submit_plan_capture(const struct requests *q, const struct message *m, struct spec *s)
{
	const char *said = json_string_value(json_object_get(m->json, "capture"));
	bool may = q->config->capture_auto && !s->terminal && s->gpus;
	bool wanted = said && (!strcmp(said, "auto") || (!strcmp(said, "may") && may));
	int64_t now_ms = clock_wall_ms() + 999, wait_ms = q->config->capture_wait_ms;
	s->capture_until_s = wanted && !s->capture ? (now_ms + wait_ms) / 1000 : 0;
	s->capture_turn_s = wanted && !s->capture ? (now_ms + CAPTURE_TURNS * wait_ms) / 1000 : 0;
	s->capture_aside = false;	/* it says so itself */
}

/* Of one that is about a process: whose that is, and where. */
static int submit_check_process(const struct requests *q, const struct message *m, struct spec *s,
				struct process_places *places, struct error *err)
{
	if (!s->process_pid)
		return 0;
	return request_check_process(q, m, s, err) || (!s->lease && request_place_process(q, s, places, err)) ? -1 : 0;
}

/* Who it is comes from the socket and the user database, over whatever the message says. Then from the cheapest question to
 * the dearest; the last one changes the spec and nothing else. */
static struct spec *submit_spec(const struct requests *q, const struct message *m, const char *name,
				struct process_places *places, struct error *err)
{
	struct spec *s = spec_from_json(json_object_get(m->json, "spec"), json_object_get(m->json, "environ"), err);
	if (!s)
		return NULL;
	s->uid = m->uid;
	s->gid = m->gid;
	s->user = alloc_string(name);
	free(s->announced);
	s->announced = NULL;
	submit_plan_capture(q, m, s);
	if (s->priority > 0 && !request_is_admin(m->uid))
		error_set(err, ERR_DENIED, "only the administrator may give a priority above 0");
	else if (!request_need_user_room(q, m, m->uid, s->n_array ? s->n_array : 1, err) &&
		 !request_need_allowance(q, m, m->uid, s->n_array ? s->n_array : 1, s, err) &&
		 !request_need_size(q, m, s->bytes, err) && !submit_validate(s, err) &&
		 !submit_check_process(q, m, s, places, err) &&
		 (places->n || !core_feasible(q->core, s, err)) && !request_check_deps(q, s, s->deps, s->n_deps, err) &&
		 !submit_make_singleton(q, s, err))
		return s;
	spec_unref(s);
	return NULL;
}

static json_t *submit_estimate(struct core *core, task_id id)
{
	const struct task *t = core_task(core, id);
	scoped_json *whole = t ? task_to_json(t, 0) : NULL;
	return whole ? json_incref(json_object_get(whole, "estimate")) : json_null();
}

/* It goes into the store before the core has it, whose events refer to the job. */
json_t *request_submit_job(const struct requests *q, struct spec *s, struct process_places *places, struct error *err)
{
	char text[TASK_ID_TEXT];
	uint32_t job = store_next_job(q->store);
	size_t others = core_user_tasks(q->core, s->uid);
	task_id first = TASK_ID(job, s->n_array ? (int32_t)s->array[0] : -1);
	scoped_free char *log = spec_expand_path(s, s->output ? s->output : "", first);
	struct now now = now_read();
	if (store_add_job(q->store, job, s, now.wall_ms, err)) {
		spec_unref(s);
		return NULL;
	}
	size_t n = s->n_array ? s->n_array : 1;
	if (places->n)
		core_adopt(q->core, job, s, places->gpus, places->n, now);
	else
		core_submit(q->core, job, s, now);
	enum allowance_kind over = places->n ? core_over_allowance(q->core, s->uid) : ALLOWANCE_COUNT;
	const struct task *t = core_task(q->core, first);
	bool waits = t && capturing_awaits(q->capturing, t->spec);
	char element[TASK_ID_TEXT];
	return json_pack("{si, ss, sI, sI, ss, so, so, so, so}", "schema", 1, "id", task_id_text(TASK_ID(job, -1), text),
			 "tasks", (json_int_t)n, "others", (json_int_t)others, "first", task_id_text(first, element),
			 "log_path", json_text_or_null(log), "estimate", submit_estimate(q->core, first), "capture_wait_s",
			 json_int_or_null(q->config->capture_wait_ms / 1000, waits), "over_limit",
			 json_text_or_null(over == ALLOWANCE_COUNT ? NULL : allowance_word(over)));
}

/* May be run twice, while the user database is asked (REPLY_AGAIN): so before request_submit_job nothing is changed. A dry run
 * goes the same way to the end and asks placement instead of taking an id. */
int request_submit(const struct requests *q, const struct message *m, struct reply *reply, struct error *err)
{
	const char *name;
	if (request_need_room(q, err) || request_need_store(q, m, err))
		return -1;
	int unknown = request_user_name(q, m->uid, &name, err);
	if (unknown)
		return unknown > 0 ? request_again(reply) : -1;
	struct process_places places = { .n = 0 };
	struct spec *s = submit_spec(q, m, name, &places, err);
	if (!s)
		return -1;
	if (!json_is_true(json_object_get(m->json, "dry_run"))) {
		request_spend_store(q, m, m->bytes + SUBMIT_BYTES * (s->n_array ? s->n_array : 1));
		return request_answer(reply, request_submit_job(q, s, &places, err));
	}
	json_t *preview = core_preview_json(q->core, s, now_read());
	request_explain(q, m, json_object_get(preview, "gpus"));
	spec_unref(s);
	return request_answer(reply, preview);
}
