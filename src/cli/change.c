/* SPDX-License-Identifier: MIT
 * See change.h. What a person selects by user, name or state is counted and told before anything is done: a word that was
 * meant otherwise would cost others their work. A script is not asked.
 */
#include "cli/change.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/client.h"
#include "cli/term.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What was done so far. */
struct done { json_t *ids; json_int_t changed; int rc; };

/* What was not changed. Whoever holds what runs means what of it can be held; a change is meant of all that were named. */
static void tell_rest(const json_t *request, const json_t *reply)
{
	if (*member_text(reply, "stays"))
		cli_note("%s", member_text(reply, "stays"));
	long long n = member_int(reply, "skipped");
	if (n > 0 && !strcmp(member_text(request, "op"), "update"))
		cli_note("changed %lld task%s, but not %lld: %s", (long long)member_int(reply, "changed"),
			 member_int(reply, "changed") == 1 ? "" : "s", n, member_text(reply, "skipped_why"));
}

/* One of an earlier release passes over what it does not know, and answers that it was done. */
static json_t *change_call(const json_t *request, json_t *message, struct error *err)
{
	json_t *reply = client_call(message, err);
	const char *by = "time_limit_by_s";
	if (!reply || !json_object_get(request, by) || json_object_get(reply, by))
		return reply;
	json_decref(reply);
	error_set(err, ERR_UNAVAILABLE, "time: this radd is of an earlier release: restart it, or give the limit itself");
	return NULL;
}

/* Sends the request for these ids (a list). */
static void change_send(struct cli_call *c, const json_t *request, json_t *ids, bool several, struct done *done)
{
	struct error err = ERROR_INIT;
	json_t *message = json_copy((json_t *)request);
	if (several)
		json_object_set(message, "ids", ids);
	else
		json_object_set(message, "id", json_array_get(ids, 0));
	scoped_json *reply = change_call(request, message, &err);
	if (reply) {
		done->changed += member_int(reply, "changed");
		json_array_extend(done->ids, ids);
		tell_rest(request, reply);
	} else {
		done->rc = cli_fail(c, &err);
	}
	if (reply && member_int(reply, "denied")) {
		cli_note("%s", member_text(reply, "why"));
		done->rc = CLI_FAILED;
	}
}

/* Adds the whole jobs among them to `wholes`. */
static void note_wholes(const struct ids *ids, json_t *wholes)
{
	char id[TASK_ID_TEXT];
	for (size_t i = 0; i < ids->n; i++)
		if (TASK_INDEX(ids->list[i]) < 0)
			json_object_set_new(wholes, task_id_text(ids->list[i], id), json_true());
}

/* But those that were said before, and elements of an array that is named as a whole by any word: what one word requeued may
 * have run when the next one is sent. */
static json_t *texts_of(const struct ids *ids, json_t *said, const json_t *wholes)
{
	json_t *list = json_array();
	char id[TASK_ID_TEXT], job[TASK_ID_TEXT];
	for (size_t i = 0; i < ids->n; i++) {
		task_id_text(ids->list[i], id);
		task_id_text(TASK_ID(TASK_JOB(ids->list[i]), -1), job);
		if (json_object_get(said, id) || (TASK_INDEX(ids->list[i]) >= 0 && json_object_get(wholes, job)))
			continue;
		json_object_set_new(said, id, json_true());
		json_array_append_new(list, json_text(id));
	}
	return list;
}

/* Whether one of them may have been meant for a radd of the caller's own; each job is asked once. */
static int check_which(const struct ids *ids, struct error *err)
{
	char id[TASK_ID_TEXT];
	for (size_t i = 0; i < ids->n; i++)
		if ((!i || TASK_JOB(ids->list[i]) != TASK_JOB(ids->list[i - 1])) &&
		    client_check_which(task_id_text(ids->list[i], id), err))
			return -1;
	return 0;
}

static int change_finish(const struct done *done, bool json)
{
	if (json)
		cli_print_json(json_pack("{si, sI, sO}", "schema", 1, "changed", done->changed, "ids", done->ids));
	return done->rc;
}

int change_at_once(struct cli_call *c, const json_t *request, bool json)
{
	struct error err = ERROR_INIT;
	struct ids all = { 0 };
	scoped_json *ids = json_array(), *said = json_object(), *wholes = json_object();
	struct done done = { .ids = ids };
	int rc = 0;
	for (size_t i = 0; i < c->n_words && !rc; i++)
		rc = ids_add(c->words[i], &all, &err) ? cli_usage(c, "%s", err.text) : 0;
	if (!rc && check_which(&all, &err))
		rc = cli_fail(c, &err);
	note_wholes(&all, wholes);
	scoped_json *texts = texts_of(&all, said, wholes);
	ids_clear(&all);
	if (rc)
		return rc;
	change_send(c, request, texts, true, &done);
	return change_finish(&done, json);
}

/* All words are read before the first request, so that a slip in the last one leaves nothing half-done. */
int change_words(struct cli_call *c, const json_t *request, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *ids = json_array(), *said = json_object(), *wholes = json_object();
	struct done done = { .ids = ids };
	c->n_words = ids_bare_words(c->words, c->n_words);
	if (!cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	for (int sends = 0; sends < 2; sends++)
		for (size_t i = 0; i < c->n_words && done.rc != CLI_NO_DAEMON; i++) {
			struct ids word = { 0 };
			int failed = ids_add(c->words[i], &word, &err);
			if (!failed && !sends && check_which(&word, &err)) {
				ids_clear(&word);
				return cli_fail(c, &err);
			}
			note_wholes(&word, wholes);
			scoped_json *texts = failed || !sends ? NULL : texts_of(&word, said, wholes);
			if (json_array_size(texts))
				change_send(c, request, texts, word.several, &done);
			ids_clear(&word);
			if (failed)
				return cli_usage(c, "%s", err.text);
		}
	return change_finish(&done, json);
}

/* ---- selections ---- */

/* "alice and 2 others" */
static void add_users(struct buf *out, const json_t *tasks)
{
	scoped_json *users = json_object();
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t)
		json_object_set_new(users, member_text(t, "user"), json_true());
	buf_add_text(out, json_object_iter_key(json_object_iter(users)));
	if (json_object_size(users) > 1)
		buf_printf(out, " and %zu other%s", json_object_size(users) - 1, json_object_size(users) == 2 ? "" : "s");
}

static void describe(struct buf *out, const char *op, const json_t *tasks)
{
	size_t i, running = 0, n = json_array_size(tasks);
	json_t *t;
	json_array_foreach(tasks, i, t)
		running += member_state(t) == TASK_RUNNING;
	buf_printf(out, "%c%s %zu task%s of ", toupper((unsigned char)*op), op + 1, n, n == 1 ? "" : "s");
	add_users(out, tasks);
	if (running)
		buf_printf(out, ", %zu of them running", running);
}

/* Anything but a yes is a no. */
static bool ask(const char *op, const json_t *tasks)
{
	scoped_buf text = { 0 };
	char answer[16] = "";
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return true;
	describe(&text, op, tasks);
	term_disarm(text.data);
	fprintf(stderr, "%s? [y/N] ", buf_text(&text));
	bool yes = fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
	if (!yes)
		cli_note("nothing was done");
	return yes;
}

static const char *past(const char *op)
{
	static const char *const words[][2] = {
		{ "cancel", "Cancelled" }, { "hold", "Held" }, { "release", "Released" }, { "requeue", "Requeued" },
		{ "suspend", "Suspended" }, { "resume", "Resumed" }, { "signal", "Signalled" }, { NULL },
	};
	return words_beside(words, op);
}

static int change_tasks(struct cli_call *c, const json_t *request, const json_t *tasks, bool more,
			const struct change_selection *s)
{
	scoped_json *ids = json_array();
	struct done done = { .ids = ids };
	size_t n = json_array_size(tasks);
	if (!n && !s->user && !getuid())
		cli_note("root has no such task; those of others are meant with --user=NAME, everybody's with --user=all");
	const char *op = json_string_value(json_object_get(request, "op"));
	if (n && !s->yes && !ask(op, tasks))
		return CLI_FAILED;
	for (size_t i = 0; i < n && done.rc != CLI_NO_DAEMON;) {
		scoped_json *some = json_array();
		for (size_t end = i + IDS_MAX; i < n && i < end; i++)
			json_array_append(some, json_object_get(json_array_get(tasks, i), "id"));
		change_send(c, request, some, true, &done);
	}
	if (!s->json)
		printf("%s %lld task%s%s\n", past(op), (long long)done.changed, done.changed == 1 ? "" : "s",
		       more ? "; the queue was longer than one message: do it again" : "");
	return change_finish(&done, s->json);
}

/* radd passes those over that are in another state when the request comes, as a task is that has just started. */
static json_t *states_of(const struct which *w)
{
	json_t *names = json_array();
	for (enum task_state state = 0; state < TASK_STATE_COUNT; state++)
		if (w->states[state])
			json_array_append_new(names, json_text(task_state_name(state)));
	return names;
}

int change_selected(struct cli_call *c, const struct change_selection *s)
{
	struct error err = ERROR_INIT;
	struct which w = { .name = s->name };
	scoped_json *request = wire_request(s->signal ? "signal" : c->verb->name);
	int rc = CLI_DONE;
	if (s->signal)
		json_object_set_new(request, "signal", json_integer(s->signal));
	if (s->force)
		json_object_set_new(request, "force", json_true());
	if (!s->user && !s->name && !s->states && !s->all)
		return change_words(c, request, s->json);
	if (which_users(&w, s->user, &err) || which_states(&w, s->states ? s->states : s->default_states, &err) ||
	    which_ids(&w, c->words, c->n_words, &err))
		rc = cli_usage(c, "%s", err.text);
	json_object_set_new(request, "states", states_of(&w));
	scoped_json *found = rc ? NULL : which_fetch(&w, (const char *const[]){ "state" }, 1, &err);
	if (found)
		rc = change_tasks(c, request, json_object_get(found, "tasks"), json_is_true(json_object_get(found, "truncated")), s);
	else if (!rc)
		rc = cli_fail(c, &err);
	which_clear(&w);
	return rc;
}
