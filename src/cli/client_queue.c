/* SPDX-License-Identifier: MIT
 * See client_queue.h. What radd's answers say is made here of a task's submission, of its record, and of what the pilots say of
 * themselves. Changes are the record's next version, tried anew while others make it first.
 */
#include "cli/client_queue.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/member.h"
#include "spool/spool.h"
#include "submit/validate.h"

#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIES 20		/* of a change, while others change the task too */
#define SILENT_MS 12000		/* a pilot that lives writes its status in that time, twice */
#define MOST_ENDED 10000	/* of those that ended, as radd's answers are bounded */

const char *client_queue_said;

const char *client_queue(void)
{
	const char *dir = client_queue_said ? client_queue_said : getenv("RAD_QUEUE");
	return dir && *dir ? dir : NULL;
}

int client_queue_check_verb(const char *verb, struct error *err)
{
	static const char *const of_radd[] = { "update", "suspend", "resume", "purge", "gpus", "top", "why", "acct", "report", "track",
		"exporter", "web", "drain", "undrain", "reserve", "limit", "adopt", "lease" };
	for (size_t i = 0; i < COUNT_OF(of_radd); i++)
		if (client_queue() && !strcmp(verb, of_radd[i]))
			return error_set(err, ERR_INVALID, "'rad %s' asks a radd, and %s is a queue of files: unset RAD_QUEUE to ask this machine's "
					 "radd%s", verb, client_queue(), strcmp(verb, "why") ? "" : "; 'rad show' tells why a task waits");
	return 0;
}

/* ---- one job ---- */

/* A job, opened: its submission and who said what of it. */
struct queued { struct spool *s; uint32_t job; struct spec *spec; int64_t submitted_ms; char by[SPOOL_NAME]; json_t *pilots; };

static void queued_clear(struct queued *q)
{
	spec_unref(q->spec);
	q->spec = NULL;
}

static int queued_open(struct queued *q, uint32_t job, struct error *err)
{
	scoped_json *o = spool_job(q->s, job, false, err);
	const struct passwd *pw = getpwuid(geteuid());
	q->job = job;
	q->spec = o ? spec_from_json(json_object_get(o, "spec"), NULL, err) : NULL;
	if (!q->spec)
		return o ? error_wrap(err, "task %u", job) : -1;
	q->spec->uid = geteuid();
	q->spec->user = alloc_string(pw ? pw->pw_name : "?");
	q->submitted_ms = member_int(o, "time_ms");
	snprintf(q->by, sizeof q->by, "%s", member_text(o, "by"));
	return 0;
}

static size_t queued_size(const struct queued *q)
{
	return q->spec->n_array ? q->spec->n_array : 1;
}

static task_id queued_task(const struct queued *q, size_t i)
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
		snprintf(text, SPOOL_TEXT, "no pilot is at this queue: run rad pilot in an allocation, or rad pilot --submit");
	else if (refused == n)
		snprintf(text, SPOOL_TEXT, "none of the %zu pilots here can ever run it: %.300s", n, why);
	else
		snprintf(text, SPOOL_TEXT, "waits for room at one of %zu pilots", n - refused);
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

static void record_reason(const struct queued *q, const struct spool_record *r, const char *id, json_t *o)
{
	char text[SPOOL_TEXT];
	const char *word = NULL;
	snprintf(text, sizeof text, "%s", r->text);
	if (r->state == SPOOL_PENDING && q->spec->begin_s * 1000 > clock_wall_ms()) {
		word = "BeginTime";
		snprintf(text, sizeof text, "it does not start before its --begin");
	} else if (r->state == SPOOL_PENDING) {
		waiting_reason(q, id, &word, text);
	} else if (r->state == SPOOL_HELD) {
		word = "Held";
	} else if (r->state == SPOOL_BROKEN) {
		word = "Broken";
	} else if (r->state == SPOOL_CLAIMED && is_silent(q, r->pilot)) {
		word = "PilotSilent";
		snprintf(text, sizeof text, "%s is not heard of any more, and nobody can say whether its node is dead: rad requeue --force, "
			 "once it is known to be", r->pilot);
	} else if (r->state == SPOOL_CLAIMED && r->wish != SPOOL_WISH_NONE) {
		word = r->wish == SPOOL_WISH_CANCEL ? "Cancelling" : "Requeueing";
		snprintf(text, sizeof text, "%s is told", r->pilot);
	} else if (r->state == SPOOL_CLAIMED && !r->started) {
		word = "Claimed";
		snprintf(text, sizeof text, "%s has it, and starts it", r->pilot);
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

/* What its pilot's radd said of it, but for what that cannot know. */
static void add_mirrored(json_t *o, const struct spool_record *r)
{
	static const char *const ours[] = { "id", "name", "user", "state", "reason", "reason_text", "priority", "cwd", "log_path",
		"submit_time", "time_limit_s", "command", "wait_s", "held_s", "jct_s", "shared_with" };
	json_t *copy = r->task ? json_copy(r->task) : NULL;
	int64_t start_ms = 0;
	for (size_t i = 0; copy && i < COUNT_OF(ours); i++)
		json_object_del(copy, ours[i]);
	if (copy)
		json_object_update(o, copy);
	json_decref(copy);
	if (r->state == SPOOL_CLAIMED && r->started && !clock_parse_iso(member_text(o, "start_time"), &start_ms) &&
	    clock_wall_ms() > start_ms)
		json_object_set_new(o, "run_s", json_round3((double)(clock_wall_ms() - start_ms) / 1000));
}

static json_t *task_object(const struct queued *q, task_id id, const struct spool_record *r)
{
	char text[TASK_ID_TEXT];
	struct task *t = task_create(id, spec_ref(q->spec));
	t->submit_ms = q->submitted_ms;
	t->state = task_state_of(r);
	json_t *o = task_to_json(t, clock_wall_ms());
	task_destroy(t);
	add_mirrored(o, r);
	json_object_set_new(o, "state", json_string(task_state_name(task_state_of(r))));
	json_object_set_new(o, "wait_s", json_null());
	json_object_set_new(o, "jct_s", json_null());
	json_object_set_new(o, "shared_with", json_array());
	json_object_set_new(o, "pilot", json_text_or_null(r->pilot));
	json_object_set_new(o, "claims", json_integer(r->claims));
	record_reason(q, r, task_id_text(id, text), o);
	return o;
}

static int add_task(const struct queued *q, task_id id, unsigned from, json_t *tasks, bool live, struct error *err)
{
	struct spool_record r;
	if (spool_read(q->s, id, from, &r, err))
		return -1;
	if (!live || r.state != SPOOL_ENDED)
		json_array_append_new(tasks, task_object(q, id, &r));
	spool_record_clear(&r);
	return 0;
}

static int add_job(struct queued *q, json_t *tasks, bool live, struct error *err)
{
	for (size_t i = 0; i < queued_size(q); i++)
		if (add_task(q, queued_task(q, i), 0, tasks, live, err))
			return -1;
	return 0;
}

/* ---- which tasks a request names ---- */

static int each_named(struct queued *q, const char *word, int (*each)(struct queued *q, task_id id, void *ctx,
		struct error *err),
		      void *ctx, struct error *err)
{
	task_id id;
	int rc = 0;
	if (task_id_parse(word, &id, err) || queued_open(q, TASK_JOB(id), err))
		return -1;
	bool found = false;
	for (size_t i = 0; i < queued_size(q) && !rc; i++) {
		task_id one = queued_task(q, i);
		if (TASK_INDEX(id) < 0 || one == id) {
			found = true;
			rc = each(q, one, ctx, err);
		}
	}
	if (!found)
		rc = error_set(err, ERR_NOT_FOUND, "task %.40s: there is no such task in %s", word, spool_dir(q->s));
	queued_clear(q);
	return rc;
}

static int show_one(struct queued *q, task_id id, void *ctx, struct error *err)
{
	return add_task(q, id, 0, ctx, false, err);
}

static json_t *list_answer(json_t *tasks)
{
	return json_pack("{si, so, sb}", "schema", 1, "tasks", tasks, "truncated", 0);
}

static json_t *answer_show(struct queued *q, const json_t *request, struct error *err)
{
	json_t *tasks = json_array();
	if (!each_named(q, member_text(request, "id"), show_one, tasks, err))
		return list_answer(tasks);
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
	task_id ia = 0, ib = 0;
	task_id_parse(member_text(a, "id"), &ia, NULL);
	task_id_parse(member_text(b, "id"), &ib, NULL);
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

static json_t *answer_list(struct queued *q, const json_t *request, struct error *err)
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
		queued_clear(q);
	}
	if (!failed)
		return list_answer(in_turn(tasks));
	json_decref(tasks);
	return NULL;
}

/* Those that ended lately: the last jobs, as many as a list may have. */
static json_t *answer_acct(struct queued *q, const json_t *request, struct error *err)
{
	(void)request;
	json_t *tasks = json_array();
	for (uint32_t job = spool_last_job(q->s); job && json_array_size(tasks) < MOST_ENDED; job--) {
		struct error why = ERROR_INIT;
		if (queued_open(q, job, &why))
			continue;
		int failed = add_job(q, tasks, false, err);
		queued_clear(q);
		if (failed) {
			json_decref(tasks);
			return NULL;
		}
	}
	return list_answer(tasks);
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
			return why.code == ERR_NOT_FOUND ? 0 : error_set(err, why.code, "%s", why.text);
		json_t *data = json_pack("{ss, ss}", "state", spool_state_name(r.state), "by", r.by);
		if (*r.text)
			json_object_set_new(data, "text", json_string(r.text));
		json_array_append_new(ctx, json_pack("{ss, ss, so, sb, sn}", "time", clock_iso(r.time_ms, time), "event",
						     *r.event ? r.event : "broken", "data", data, "queue", 1, "by_uid"));
		spool_record_clear(&r);
	}
	return 0;
}

static json_t *answer_events(struct queued *q, const json_t *request, struct error *err)
{
	json_t *events = json_array();
	if (!each_named(q, member_text(request, "id"), events_one, events, err))
		return json_pack("{si, so}", "schema", 1, "events", events);
	json_decref(events);
	return NULL;
}

static json_t *answer_script(struct queued *q, const json_t *request, struct error *err)
{
	task_id id;
	if (task_id_parse(member_text(request, "id"), &id, err))
		return NULL;
	scoped_json *o = spool_job(q->s, TASK_JOB(id), false, err);
	const json_t *spec = json_object_get(o, "spec");
	return o ? json_pack("{si, sO?, sO?, sO?, sO?}", "schema", 1, "script", json_object_get(spec, "script"), "argv",
			     json_object_get(spec, "argv"), "name", json_object_get(spec, "name"), "cwd", json_object_get(spec, "cwd")) : NULL;
}

/* ---- changes ---- */

struct change { const char *op; bool force, several; json_int_t changed; struct error why; };

static int refuse(struct change *c, task_id id, const char *why)
{
	char text[TASK_ID_TEXT];
	return error_set(&c->why, ERR_CONFLICT, "task %s: %s", task_id_text(id, text), why);
}

/* A person says that its node is dead: believed where its pilot gives no sign for a while. */
static int check_silence(struct queued *q, const struct spool_record *r, struct change *c, task_id id)
{
	char text[SPOOL_TEXT];
	scoped_json *before = spool_pilot(q->s, r->pilot);
	json_int_t beat = member_int(json_object_get(before, "status"), "beat");
	for (int64_t until = clock_mono_ms() + SILENT_MS; before && clock_mono_ms() < until;) {
		poll(NULL, 0, 200);
		scoped_json *now = spool_pilot(q->s, r->pilot);
		if (!now)
			break;
		if (member_int(json_object_get(now, "status"), "beat") == beat)
			continue;
		snprintf(text, sizeof text, "%s lives, and has it: leave out --force, and it is told", r->pilot);
		return refuse(c, id, text);
	}
	return 0;
}

/* What the next version is. 1: it is so already; -1: it cannot be, *c says why. */
static int decide_claimed(struct queued *q, const struct change *c, const struct spool_record *r, struct spool_record *next)
{
	(void)q;
	if (!strcmp(c->op, "cancel"))
		next->wish = SPOOL_WISH_CANCEL;
	else if (!strcmp(c->op, "hold"))
		next->wish = SPOOL_WISH_HOLD;
	else if (!c->force)
		next->wish = SPOOL_WISH_REQUEUE;
	else
		next->state = SPOOL_PENDING;
	if (c->force) {
		snprintf(next->event, sizeof next->event, "returned");
		snprintf(next->text, sizeof next->text, "its node was said to be dead");
	}
	next->started = r->started && !c->force;
	return 0;
}

static int decide(struct queued *q, struct change *c, task_id id, const struct spool_record *r, struct spool_record *next)
{
	bool cancel = !strcmp(c->op, "cancel"), hold = !strcmp(c->op, "hold"), release = !strcmp(c->op, "release");
	if (r->state == SPOOL_ENDED && (cancel || hold || release))
		return refuse(c, id, "has ended");
	if (r->state == SPOOL_CLAIMED && release)
		return refuse(c, id, "is not held");
	if (r->state == SPOOL_CLAIMED && hold && r->started)
		return refuse(c, id, "runs, and only what waits can be held");
	if (r->state == SPOOL_CLAIMED)
		return c->force && check_silence(q, r, c, id) ? -1 : decide_claimed(q, c, r, next);
	if (cancel) {
		next->state = SPOOL_ENDED;
		next->end = TASK_CANCELLED;
		return 0;
	}
	if ((hold && r->state == SPOOL_HELD) || (release && r->state == SPOOL_PENDING))
		return 1;
	if (!strcmp(c->op, "requeue") && (r->state == SPOOL_PENDING || r->state == SPOOL_HELD))
		return refuse(c, id, "waits already");
	next->state = hold ? SPOOL_HELD : SPOOL_PENDING;
	next->cuts = 0;
	next->started = false;
	if (r->state == SPOOL_ENDED)
		next->ran_s = 0;
	return 0;
}

static int change_one(struct queued *q, task_id id, void *ctx, struct error *err)
{
	struct change *c = ctx;
	for (int i = 0; i < TRIES; i++) {
		struct spool_record r;
		if (spool_read(q->s, id, 0, &r, err))
			return -1;
		struct spool_record next = spool_record_next(&r, c->op, NULL);
		next.wish = SPOOL_WISH_NONE;
		next.task = r.task ? json_incref(r.task) : NULL;
		int rc = decide(q, c, id, &r, &next), tried = 1;
		bool ended = r.state == SPOOL_ENDED;
		if (!rc)
			tried = ended ? spool_revive(q->s, id, &next, err) : spool_change(q->s, id, &next, err);
		spool_record_clear(&next);
		spool_record_clear(&r);
		if (rc || !tried) {
			c->changed += rc >= 0;
			return 0;
		}
		if (tried < 0)
			return -1;
	}
	return error_set(err, ERR_UNAVAILABLE, "others go on changing it: try again");
}

static json_t *answer_change(struct queued *q, const json_t *request, struct error *err)
{
	struct change c = { .op = member_text(request, "op"), .force = json_is_true(json_object_get(request, "force")),
			    .why = ERROR_INIT };
	const json_t *ids = json_object_get(request, "ids");
	size_t i, n = json_array_size(ids);
	for (i = 0; i < (n ? n : 1); i++) {
		const char *word = n ? json_string_value(json_array_get(ids, i)) : member_text(request, "id");
		struct error why = ERROR_INIT;
		if (each_named(q, word ? word : "", change_one, &c, &why) && (n <= 1 || why.code != ERR_NOT_FOUND)) {
			*err = why;
			return NULL;
		}
		if (why.code && !c.why.code)
			c.why = why;
	}
	if (c.changed)
		return json_pack("{si, sI, si}", "schema", 1, "changed", c.changed, "denied", 0);
	if (!c.why.code)
		error_set(&c.why, ERR_NOT_FOUND, "there is no such task in %s", spool_dir(q->s));
	*err = c.why;
	return NULL;
}

/* ---- submissions ---- */

/* What nobody sees to while no pilot runs. */
static int check_spec(const struct spec *s, struct error *err)
{
	const struct { bool said; const char *option, *why; } none[] = {
		{ s->n_deps || s->singleton, "--dependency", "submit the second task when the first has ended (rad wait)" },
		{ s->array_limit, "--array=...%N", "leave out the limit" },
		{ s->terminal, "--pty", "a pilot may be anywhere: use srun --pty" },
		{ s->notify, "--notify", "Slurm's --mail-type tells of the allocation" },
		{ s->process_pid, "a process that is there already", "it is on this machine" },
	};
	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (none[i].said)
			return error_set(err, ERR_INVALID, "%s: is not for a queue of files, which nobody serves while no pilot runs: %s",
					 none[i].option, none[i].why);
	return 0;
}

static json_t *answer_submit(struct queued *q, const json_t *request, struct error *err)
{
	char id[TASK_ID_TEXT], first[TASK_ID_TEXT];
	const json_t *said = json_object_get(request, "spec"), *environ = json_object_get(request, "environ");
	const struct passwd *pw = getpwuid(geteuid());
	q->spec = spec_from_json(said, environ, err);
	if (!q->spec)
		return NULL;
	q->spec->uid = geteuid();
	q->spec->user = alloc_string(pw ? pw->pw_name : "?");
	if (submit_validate(q->spec, err) || check_spec(q->spec, err))
		return NULL;
	if (json_is_true(json_object_get(request, "dry_run")))
		return json_pack("{si, sb, sb, sn, s[]}", "schema", 1, "dry_run", 1, "fits_now", 0, "estimate", "gpus");
	if (spool_submit(q->s, said, environ, &q->job, err))
		return error_wrap(err, "nothing was queued"), NULL;
	scoped_free char *log = spec_expand_path(q->spec, q->spec->output ? q->spec->output : "", queued_task(q, 0));
	return json_pack("{si, ss, sI, ss, so, sn, sn}", "schema", 1, "id", task_id_text(TASK_ID(q->job, -1), id), "tasks",
			 (json_int_t)queued_size(q), "first", task_id_text(queued_task(q, 0), first), "log_path", json_text_or_null(log),
			 "estimate", "capture_wait_s");
}

/* Of GPUs only pilots know; the tables name them by UUID then. */
static json_t *answer_gpus(struct queued *q, const json_t *request, struct error *err)
{
	(void)q;
	(void)request;
	(void)err;
	return json_pack("{si, s[]}", "schema", 1, "gpus");
}

/* ---- the table ---- */

static json_t *all_pilots(const struct spool *s)
{
	scoped_json *names = spool_pilots(s);
	json_t *pilots = json_array(), *name;
	size_t i;
	json_array_foreach(names, i, name) {
		json_t *p = spool_pilot(s, json_string_value(name));
		if (p)
			json_array_append_new(pilots, p);
	}
	return pilots;
}

json_t *client_queue_answer(const json_t *request, struct error *err)
{
	static const struct { const char *op; json_t *(*answer)(struct queued *q, const json_t *request,
			struct error *err); } ops[] = {
		{ "submit", answer_submit }, { "list", answer_list }, { "show", answer_show }, { "acct", answer_acct },
		{ "events", answer_events }, { "script", answer_script }, { "gpus", answer_gpus }, { "cancel", answer_change },
		{ "hold", answer_change }, { "release", answer_change }, { "requeue", answer_change },
	};
	const char *op = member_text(request, "op");
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		if (strcmp(op, ops[i].op))
			continue;
		struct queued q = { .s = spool_open(client_queue(), !strcmp(op, "submit"), err) };
		q.pilots = q.s ? all_pilots(q.s) : NULL;
		json_t *reply = q.s ? ops[i].answer(&q, request, err) : NULL;
		queued_clear(&q);
		json_decref(q.pilots);
		spool_close(q.s);
		return reply;
	}
	error_set(err, ERR_INVALID, "%.40s: a queue of files (%.300s) has no answer to that: unset RAD_QUEUE to ask this machine's "
			"radd", op,
		  client_queue());
	return NULL;
}

static bool is_over(const json_t *tasks, bool until_start)
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t)
		if (!task_state_terminal(member_state(t)) && !(until_start && member_state(t) == TASK_RUNNING))
			return false;
	return true;
}

int client_queue_wait(const json_t *ids, bool until_start, json_t **reply, struct error *err)
{
	json_t *tasks = json_array(), *id;
	size_t i;
	json_array_foreach(ids, i, id) {
		scoped_json *request = json_pack("{ss, sO}", "op", "show", "id", id);
		scoped_json *one = client_queue_answer(request, err);
		if (!one) {
			json_decref(tasks);
			return -1;
		}
		json_array_extend(tasks, json_object_get(one, "tasks"));
	}
	if (is_over(tasks, until_start)) {
		*reply = list_answer(tasks);
		return 1;
	}
	json_decref(tasks);
	return 0;
}
