/* SPDX-License-Identifier: MIT
 * See client_queue.h. What changes tasks: the record's next version, tried anew while others make it first. What is told of
 * them is client_queue_tell.c's.
 */
#include "cli/client_queue.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/client_queue_tell.h"
#include "cli/member.h"
#include "cli/pilot_after.h"
#include "submit/validate.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIES 20		/* of a change, while others change the task too */
#define SILENT_MS 20000		/* a pilot that lives writes its status in that time, though it asks Slurm about another */

const char *client_queue_said;

const char *client_queue(void)
{
	const char *dir = client_queue_said ? client_queue_said : getenv("RAD_QUEUE");
	return dir && *dir ? dir : NULL;
}

int client_queue_check_verb(const char *verb, struct error *err)
{
	static const char *const of_radd[] = { "update", "suspend", "resume", "purge", "gpus", "top", "why", "acct", "report", "track",
		"exporter", "web", "drain", "undrain", "reserve", "limit", "adopt", "lease", "stop" };
	for (size_t i = 0; i < COUNT_OF(of_radd); i++)
		if (client_queue() && !strcmp(verb, of_radd[i]))
			return error_set(err, ERR_INVALID, "'rad %s' asks a radd, and %s is a queue of files: unset RAD_QUEUE to ask this machine's "
					 "radd%s", verb, client_queue(), strcmp(verb, "why") ? "" : "; 'rad show' tells why a task waits");
	return 0;
}

/* ---- changes ---- */

struct change {
	const char *op;
	bool force, waiting;		/* waiting: what runs already is not meant */
	char silent[SPOOL_NAME];	/* the pilot that gave no sign: it is looked at once for all of its tasks */
	json_int_t changed;
	struct error why;
};

static int refuse(struct change *c, task_id id, const char *why)
{
	char text[TASK_ID_TEXT];
	return error_set(&c->why, ERR_CONFLICT, "task %s: %s", task_id_text(id, text), why);
}

/* A person says that its node is dead: believed where its pilot gives no sign for a while. */
static int check_silence(struct queued *q, const struct spool_record *r, struct change *c, task_id id)
{
	char text[SPOOL_TEXT];
	if (!strcmp(c->silent, r->pilot))
		return 0;
	scoped_json *before = spool_pilot(q->s, r->pilot);
	json_int_t beat = member_int(json_object_get(before, "status"), "beat");
	for (int64_t until = clock_mono_ms() + SILENT_MS; before && clock_mono_ms() < until;) {
		poll(NULL, 0, 200);
		scoped_json *now = spool_pilot(q->s, r->pilot);
		if (!now)
			break;
		if (member_int(json_object_get(now, "status"), "beat") == beat)
			continue;
		text_printf(text, sizeof text, "%s lives, and has it: leave out --force, and it is told", r->pilot);
		return refuse(c, id, text);
	}
	snprintf(c->silent, sizeof c->silent, "%s", r->pilot);
	return 0;
}

/* Its pilot is told; by force it is taken from it. */
static void decide_claimed(const struct change *c, const struct spool_record *r, struct spool_record *next)
{
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
}

/* What the next version is. 1: it is so already; -1: it cannot be, *c says why. */
static int decide(struct queued *q, struct change *c, task_id id, const struct spool_record *r, struct spool_record *next)
{
	bool cancel = !strcmp(c->op, "cancel"), hold = !strcmp(c->op, "hold"), release = !strcmp(c->op, "release");
	if (r->state == SPOOL_ENDED && (cancel || hold || release))
		return refuse(c, id, "has ended");
	if (r->state == SPOOL_CLAIMED && release)
		return refuse(c, id, "is not held");
	if (r->state == SPOOL_CLAIMED && hold && r->started)
		return refuse(c, id, "runs, and only what waits can be held");
	if (r->state == SPOOL_CLAIMED && c->waiting && r->started)
		return refuse(c, id, "runs by now, and what waits was asked for: nothing was done to it");
	if (r->state == SPOOL_CLAIMED && c->force && check_silence(q, r, c, id))
		return -1;
	if (r->state == SPOOL_CLAIMED) {
		decide_claimed(c, r, next);
		return 0;
	}
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
		/* What was damaged may have ended before, and be on no list any more. */
		bool listed = next.state == SPOOL_ENDED || (r.state != SPOOL_ENDED && r.state != SPOOL_BROKEN);
		if (!rc)
			tried = !listed ? spool_revive(q->s, id, &next, err) : spool_change(q->s, id, &next, err);
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

static bool means_waiting(const json_t *request)
{
	const json_t *states = json_object_get(request, "states"), *s;
	size_t i;
	json_array_foreach(states, i, s)
		if (!strcmp(json_string_value(s), task_state_name(TASK_RUNNING)))
			return false;
	return states;
}

static json_t *answer_change(struct queued *q, const json_t *request, struct error *err)
{
	struct change c = { .op = member_text(request, "op"), .force = json_is_true(json_object_get(request, "force")),
			    .waiting = means_waiting(request), .why = ERROR_INIT };
	const json_t *ids = json_object_get(request, "ids");
	size_t i, n = json_array_size(ids);
	for (i = 0; i < (n ? n : 1); i++) {
		const char *word = n ? json_string_value(json_array_get(ids, i)) : member_text(request, "id");
		struct error why = ERROR_INIT;
		if (client_queued_each(q, word ? word : "", change_one, &c, &why) && (n <= 1 || why.code != ERR_NOT_FOUND)) {
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
		{ s->terminal, "--pty", "a pilot may be anywhere: 'srun --pty' gives a terminal in an allocation, and without RAD_QUEUE "
				"'rad run --pty' one at a radd" },
		{ s->process_pid, "a process that is there already", "it is on this machine: unset RAD_QUEUE to tell this machine's radd" },
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
	const json_t *said = json_object_get(request, "spec"), *env = json_object_get(request, "environ");
	q->spec = spec_from_json(said, env, err);
	if (!q->spec)
		return NULL;
	client_queued_owner(q->spec);
	if (submit_validate(q->spec, err) || check_spec(q->spec, err) || pilot_after_check(q->s, q->spec, err))
		return NULL;
	if (json_is_true(json_object_get(request, "dry_run")))
		return json_pack("{si, sb, sb, sn, s[]}", "schema", 1, "dry_run", 1, "fits_now", 0, "estimate", "gpus");
	int format = pilot_after_is_needed(q->spec) ? SPOOL_FORMAT_WAITS : SPOOL_FORMAT;
	if (spool_submit(q->s, format, said, env, &q->job, err))
		return error_wrap(err, "nothing was queued"), NULL;
	scoped_free char *log = spec_expand_path(q->spec, q->spec->output ? q->spec->output : "", client_queued_task(q, 0));
	return json_pack("{si, ss, sI, ss, so, sn, sn}", "schema", 1, "id", task_id_text(TASK_ID(q->job, -1), id), "tasks",
			 (json_int_t)client_queued_size(q), "first", task_id_text(client_queued_task(q, 0), first),
					 "log_path", json_text_or_null(log),
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
		{ "submit", answer_submit }, { "list", client_queued_list }, { "show", client_queued_show }, { "acct", client_queued_acct },
		{ "events", client_queued_events }, { "script", client_queued_script }, { "gpus", answer_gpus }, { "cancel", answer_change },
		{ "hold", answer_change }, { "release", answer_change }, { "requeue", answer_change },
	};
	const char *op = member_text(request, "op");
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		if (strcmp(op, ops[i].op))
			continue;
		struct queued q = { .s = spool_open(client_queue(), !strcmp(op, "submit"), err) };
		q.pilots = q.s ? all_pilots(q.s) : NULL;
		json_t *reply = q.s ? ops[i].answer(&q, request, err) : NULL;
		client_queued_clear(&q);
		json_decref(q.pilots);
		pilot_known_destroy(q.known);
		spool_close(q.s);
		return reply;
	}
	error_set(err, ERR_INVALID, "%.40s: a queue of files (%.300s) has no answer to that: unset RAD_QUEUE to ask this machine's "
		  "radd", op, client_queue());
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
		*reply = client_queued_list_answer(tasks);
		return 1;
	}
	json_decref(tasks);
	return 0;
}
