/* SPDX-License-Identifier: MIT
 * See client_queue_tell.h. What radd's answers say is made here of a task's submission, of its record, and of what the pilots
 * say of themselves.
 */
#include "cli/client_queue_tell.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/pilot_after.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_ENDED 10000	/* of those that ended, as radd's answers are bounded */

/* ---- one job ---- */

void client_queued_clear(struct queued *q)
{
	spec_unref(q->spec);
	q->spec = NULL;
}

void client_queued_owner(struct spec *s)
{
	char name[FORMAT_LEN];
	s->uid = geteuid();
	s->user = alloc_string(format_user(s->uid, name));
}

static int queued_open(struct queued *q, uint32_t job, struct error *err)
{
	scoped_json *o = spool_job(q->s, job, false, err);
	q->job = job;
	q->spec = o ? spec_from_json(json_object_get(o, "spec"), NULL, err) : NULL;
	if (!q->spec)
		return o ? error_wrap(err, "task %u", job) : -1;
	client_queued_owner(q->spec);
	q->submitted_ms = member_int(o, "time_ms");
	spool_ask_server(q->s, job);
	snprintf(q->by, sizeof q->by, "%s", member_text(o, "by"));
	return 0;
}

size_t client_queued_size(const struct queued *q)
{
	return q->spec->n_array ? q->spec->n_array : 1;
}

task_id client_queued_task(const struct queued *q, size_t i)
{
	return TASK_ID(q->job, q->spec->n_array ? (int32_t)q->spec->array[i] : -1);
}

/* ---- a task, as radd tells of one ---- */

/* Why no pilot starts it, as they say. */
static void waiting_reason(const struct queued *q, const char *id, const char **word, char text[SPOOL_TEXT])
{
	size_t i, n = 0, refused = 0;
	json_t *p;
	const char *why = "";
	json_array_foreach(q->pilots, i, p) {
		const json_t *status = json_object_get(p, "status");
		const char *said = member_text(json_object_get(status, "refused"), id);
		n++;
		if (*said) {
			refused++;
			why = said;
		}
	}
	*word = !n ? "NoPilot" : refused == n ? "NeverFits" : "Resources";
	if (!n)
		text_printf(text, SPOOL_TEXT, "no pilot is at this queue: run rad pilot in an allocation, or rad pilot --submit");
	else if (refused == n)
		text_printf(text, SPOOL_TEXT, "none of the %zu pilots here can ever run it: %.300s", n, why);
	else
		text_printf(text, SPOOL_TEXT, "waits for room at one of %zu pilots", n - refused);
}

static bool is_silent(const struct queued *q, const char *pilot)
{
	size_t i, k;
	json_t *p, *name;
	json_array_foreach(q->pilots, i, p)
		json_array_foreach(json_object_get(json_object_get(p, "status"), "silent"), k, name)
			if (!strcmp(json_string_value(name) ? json_string_value(name) : "", pilot))
				return true;
	return false;
}

/* What stands in its way besides room. The whole queue is looked through for it, once. */
static const char *other_reason(struct queued *q, task_id id, char text[SPOOL_TEXT])
{
	static const char *const words[] = { [PILOT_READY] = NULL, [PILOT_BEGIN_TIME] = "BeginTime", [PILOT_DEPENDENCY] = "Dependency",
		[PILOT_DEPENDENCY_NEVER] = "DependencyNeverSatisfied", [PILOT_ARRAY_LIMIT] = "ArrayLimit" };
	if (!pilot_after_is_needed(q->spec) && !q->spec->begin_s)
		return NULL;
	if (!q->known)
		q->known = pilot_after_open(q->s, NULL);
	const struct pilot_known_task *t = q->known ? pilot_known_find(q->known, id) : NULL;
	return t ? words[pilot_after(q->known, t, text)] : NULL;
}

static void record_reason(struct queued *q, const struct spool_record *r, task_id task, json_t *o)
{
	char text[SPOOL_TEXT], id[TASK_ID_TEXT];
	const char *word = r->state == SPOOL_PENDING ? other_reason(q, task, text) : NULL;
	if (!word)
		text_printf(text, sizeof text, "%s", r->text);
	if (!word && r->state == SPOOL_PENDING) {
		waiting_reason(q, task_id_text(task, id), &word, text);
	} else if (r->state == SPOOL_HELD) {
		word = "Held";
	} else if (r->state == SPOOL_BROKEN) {
		word = "Broken";
	} else if (r->state == SPOOL_CLAIMED && is_silent(q, r->pilot)) {
		word = "PilotSilent";
		text_printf(text, sizeof text, "%s is not heard of any more, and nobody can say whether its node is dead: rad requeue "
			    "--force, once it is known to be", r->pilot);
	} else if (r->state == SPOOL_CLAIMED && r->wish != SPOOL_WISH_NONE) {
		word = r->wish == SPOOL_WISH_CANCEL ? "Cancelling" : "Requeueing";
		text_printf(text, sizeof text, "%s is told", r->pilot);
	} else if (r->state == SPOOL_CLAIMED && !r->started) {
		word = "Claimed";
		text_printf(text, sizeof text, "%s has it, and starts it", r->pilot);
	}
	json_object_set_new(o, "reason", json_text_or_null(word));
	json_object_set_new(o, "reason_text", json_text_or_null(text));
}

static enum task_state task_state_of(const struct spool_record *r)
{
	switch (r->state) {
	case SPOOL_PENDING: return TASK_PENDING;
	case SPOOL_CLAIMED: return r->started ? TASK_RUNNING : TASK_PENDING;
	case SPOOL_ENDED: return r->end;
	default: return TASK_HELD;
	}
}

/* Until a radd has it. */
static void add_declared(json_t *o, const struct spec *s)
{
	if (!s->gpu_mem_mib)
		return;
	json_int_t mib = (json_int_t)s->gpu_mem_mib;
	json_object_set_new(o, "estimate", json_pack("{ss, sI, sI, sI, ss}", "estimator", "declared", "need_mib", mib,
						     "comfort_mib", mib, "claim_mib", mib, "note", "declared"));
}

/* What its pilot's radd said of it, but for what that cannot know. */
static void add_mirrored(json_t *o, const struct spool_record *r)
{
	static const char *const ours[] = { "id", "name", "user", "state", "reason", "reason_text", "priority", "cwd", "log_path",
		"submit_time", "time_limit_s", "command", "wait_s", "held_s", "jct_s", "shared_with" };
	json_t *copy = r->task ? json_copy(r->task) : NULL;
	for (size_t i = 0; copy && i < COUNT_OF(ours); i++)
		json_object_del(copy, ours[i]);
	if (copy)
		json_object_update(o, copy);
	json_decref(copy);
	int64_t ran_ms = clock_wall_ms() - member_ms(o, "start_time", INT64_MAX);
	if (r->state == SPOOL_CLAIMED && r->started && ran_ms > 0)
		json_object_set_new(o, "run_s", json_round3((double)ran_ms / 1000));
}

static json_t *task_object(struct queued *q, task_id id, const struct spool_record *r)
{
	struct task *t = task_create(id, spec_ref(q->spec));
	t->submit_ms = q->submitted_ms;
	t->state = task_state_of(r);
	json_t *o = task_to_json(t, clock_wall_ms());
	task_destroy(t);
	add_declared(o, q->spec);
	add_mirrored(o, r);
	json_object_set_new(o, "state", json_text(task_state_name(task_state_of(r))));
	json_object_set_new(o, "wait_s", json_null());
	json_object_set_new(o, "jct_s", json_null());
	json_object_set_new(o, "shared_with", json_array());
	json_object_set_new(o, "pilot", json_text_or_null(r->pilot));
	json_object_set_new(o, "claims", json_integer(r->claims));
	record_reason(q, r, id, o);
	return o;
}

static int add_task(struct queued *q, task_id id, json_t *tasks, bool live, struct error *err)
{
	struct spool_record r;
	if (spool_read(q->s, id, 0, &r, err))
		return -1;
	if (!live || r.state != SPOOL_ENDED)
		json_array_append_new(tasks, task_object(q, id, &r));
	spool_record_clear(&r);
	return 0;
}

static int add_job(struct queued *q, json_t *tasks, bool live, struct error *err)
{
	for (size_t i = 0; i < client_queued_size(q); i++)
		if (add_task(q, client_queued_task(q, i), tasks, live, err))
			return -1;
	return 0;
}

/* ---- which tasks a request names ---- */

int client_queued_each(struct queued *q, const char *word, int (*each)(struct queued *q, task_id id, void *ctx,
		struct error *err),
		      void *ctx, struct error *err)
{
	task_id id;
	int rc = 0;
	if (task_id_parse(word, &id, err) || queued_open(q, TASK_JOB(id), err))
		return -1;
	bool found = false;
	for (size_t i = 0; i < client_queued_size(q) && !rc; i++) {
		task_id one = client_queued_task(q, i);
		if (TASK_INDEX(id) < 0 || one == id) {
			found = true;
			rc = each(q, one, ctx, err);
		}
	}
	if (!found)
		rc = error_set(err, ERR_NOT_FOUND, "task %.40s: there is no such task in %s", word, spool_dir(q->s));
	client_queued_clear(q);
	return rc;
}

static int show_one(struct queued *q, task_id id, void *ctx, struct error *err)
{
	return add_task(q, id, ctx, false, err);
}

json_t *client_queued_list_answer(json_t *tasks)
{
	return json_pack("{si, so, sb}", "schema", 1, "tasks", tasks, "truncated", 0);
}

json_t *client_queued_show(struct queued *q, const json_t *request, struct error *err)
{
	json_t *tasks = json_array();
	if (!client_queued_each(q, member_text(request, "id"), show_one, tasks, err))
		return client_queued_list_answer(tasks);
	json_decref(tasks);
	return NULL;
}

/* ---- lists ---- */

static void note_job(void *ctx, uint32_t job)
{
	json_array_append_new(ctx, json_integer(job));
}

/* Running ones first, then in the order in which pilots take them. */
static int by_turn(const void *x, const void *y)
{
	const json_t *a = *(json_t *const *)x, *b = *(json_t *const *)y;
	bool ra = member_state(a) == TASK_RUNNING, rb = member_state(b) == TASK_RUNNING;
	json_int_t pa = member_int(a, "priority"), pb = member_int(b, "priority");
	task_id ia = member_id(a), ib = member_id(b);
	return ra != rb ? rb - ra : pa != pb ? (pb > pa) - (pb < pa) : (ia > ib) - (ia < ib);
}

static json_t *in_turn(json_t *tasks)
{
	size_t n = json_array_size(tasks);
	scoped_free json_t **list = alloc_zero((n + 1) * sizeof *list);
	json_t *sorted = json_array();
	for (size_t i = 0; i < n; i++)
		list[i] = json_array_get(tasks, i);
	qsort(list, n, sizeof *list, by_turn);
	for (size_t i = 0; i < n; i++)
		json_array_append(sorted, list[i]);
	json_decref(tasks);
	return sorted;
}

json_t *client_queued_list(struct queued *q, const json_t *request, struct error *err)
{
	(void)request;
	scoped_json *jobs = json_array();
	json_t *tasks = json_array(), *job;
	size_t i;
	int failed = spool_live(q->s, note_job, jobs, err);
	json_array_foreach(jobs, i, job) {
		struct error why = ERROR_INIT;
		if (failed)
			break;
		/* Listed, and not there yet, or damaged: said of it when it is asked for by its number. */
		if (queued_open(q, (uint32_t)json_integer_value(job), &why))
			continue;
		failed = add_job(q, tasks, true, err);
		client_queued_clear(q);
	}
	if (!failed)
		return client_queued_list_answer(in_turn(tasks));
	json_decref(tasks);
	return NULL;
}

/* Those that ended lately: the last jobs, as many as a list may have. */
json_t *client_queued_acct(struct queued *q, const json_t *request, struct error *err)
{
	(void)request;
	json_t *tasks = json_array();
	for (uint32_t job = spool_last_job(q->s); job && json_array_size(tasks) < MOST_ENDED; job--) {
		struct error why = ERROR_INIT;
		if (queued_open(q, job, &why))
			continue;
		int failed = add_job(q, tasks, false, err);
		client_queued_clear(q);
		if (failed) {
			json_decref(tasks);
			return NULL;
		}
	}
	return client_queued_list_answer(tasks);
}

/* ---- events, script ---- */

static int events_one(struct queued *q, task_id id, void *ctx, struct error *err)
{
	char time[CLOCK_ISO_LEN];
	struct spool_record r;
	if (json_array_size(ctx))
		return error_set(err, ERR_INVALID, "task %u: is an array: name one element", q->job);
	json_array_append_new(ctx, json_pack("{ss, ss, s{ss}, sb, sn}", "time", clock_iso(q->submitted_ms, time), "event",
					     "submitted", "data", "by", q->by, "queue", 1, "by_uid"));
	for (unsigned v = 1; v <= SPOOL_MAX_VERSION; v++) {
		struct error why = ERROR_INIT;
		if (spool_read_version(q->s, id, v, &r, &why))
			return why.code == ERR_NOT_FOUND ? 0 : error_pass(err, &why);
		json_t *data = json_pack("{ss, ss}", "state", spool_state_name(r.state), "by", r.by);
		if (*r.text)
			json_object_set_new(data, "text", json_text(r.text));
		json_array_append_new(ctx, json_pack("{ss, ss, so, sb, sn}", "time", clock_iso(r.time_ms, time), "event",
						     *r.event ? r.event : "broken", "data", data, "queue", 1, "by_uid"));
		spool_record_clear(&r);
	}
	return 0;
}

json_t *client_queued_events(struct queued *q, const json_t *request, struct error *err)
{
	json_t *events = json_array();
	if (!client_queued_each(q, member_text(request, "id"), events_one, events, err))
		return json_pack("{si, so}", "schema", 1, "events", events);
	json_decref(events);
	return NULL;
}

json_t *client_queued_script(struct queued *q, const json_t *request, struct error *err)
{
	task_id id;
	if (task_id_parse(member_text(request, "id"), &id, err))
		return NULL;
	scoped_json *o = spool_job(q->s, TASK_JOB(id), false, err);
	const json_t *spec = json_object_get(o, "spec");
	return o ? json_pack("{si, sO?, sO?, sO?, sO?}", "schema", 1, "script", json_object_get(spec, "script"), "argv",
			     json_object_get(spec, "argv"), "name", json_object_get(spec, "name"), "cwd", json_object_get(spec, "cwd")) : NULL;
}
