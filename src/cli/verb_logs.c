/* SPDX-License-Identifier: MIT
 * rad logs.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/follow.h"
#include "cli/member.h"
#include "cli/term.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 100

struct want { bool follow, raw; int64_t lines; };	/* lines < 0: all */

/* The one task of that id; NULL with an error for an array. */
static json_t *one_task(const char *id, struct error *err)
{
	scoped_json *reply = client_call_id("show", id, err);
	const json_t *tasks = json_object_get(reply, "tasks");
	size_t n = json_array_size(tasks);
	if (!reply)
		return NULL;
	if (n == 1)
		return json_incref(json_array_get(tasks, 0));
	error_set(err, ERR_INVALID, "task %.40s: is an array of %zu, each with a log of its own: name one, such as %s", id, n,
		  member_text(json_array_get(tasks, 0), "id"));
	return NULL;
}

static int no_log(const json_t *task, struct error *err)
{
	const char *why = member_text(task, "reason_text");
	if (json_is_true(json_object_get(task, "terminal")))
		return error_set(err, ERR_NOT_FOUND, "task %s: runs on its user's terminal, and no log was asked for (rad run --pty --output "
				 "FILE keeps one)", member_text(task, "id"));
	if (!member_last_attempt(task))
		return error_set(err, ERR_NOT_FOUND, "task %s: has not started, so there is no log yet%s%s", member_text(task, "id"),
				 *why ? ": " : "", why);
	return error_set(err, ERR_NOT_FOUND, "task %s: its log %.600s is not there: it was moved, or never opened (rad show %s)",
			 member_text(task, "id"), member_text(task, "log_path"), member_text(task, "id"));
}

static int follow_until_end(struct follow *f, const json_t *task, struct error *err)
{
	scoped_json *ids = json_pack("[O]", json_object_get(task, "id"));
	struct client_wait *w = client_wait_create(ids, false, err);
	json_t *ended = NULL;
	int rc = w ? 0 : -1;
	while (!rc) {
		struct pollfd p = { client_wait_fd(w), POLLIN, 0 };
		poll(&p, 1, POLL_MS);
		rc = client_wait_poll(w, &ended, err);
		if (follow_read(f, err) < 0)
			rc = -1;
	}
	client_wait_destroy(w);
	json_decref(ended);
	return rc < 0 ? -1 : 0;
}

static int show_log(const struct want *want, const json_t *task, struct error *err)
{
	struct term term = term_ask();
	if (json_is_true(json_object_get(task, "terminal")) && !strcmp(member_text(task, "log_path"), "/dev/null"))
		return no_log(task, err);
	/* A terminal collapses by itself, and shows how far the bar is. */
	struct follow *f = follow_create(member_text(task, "log_path"), want->raw || (want->follow && term.live), stdout);
	int rc = want->lines >= 0 ? follow_seek_lines(f, want->lines, err) : 0;
	rc = rc < 0 || follow_read(f, err) < 0 ? -1 : 0;
	if (!rc && want->follow && !task_state_terminal(member_state(task)))
		rc = follow_until_end(f, task, err);
	if (!rc && !follow_is_open(f))
		rc = no_log(task, err);
	follow_finish(f);
	follow_destroy(f);
	return rc;
}

int verb_logs(struct cli_call *c)
{
	struct want want = { .lines = -1 };
	const char *lines = NULL;
	const struct args_option options[] = {
		{ "follow", 'f', NULL, "go on until the task has ended", .flag = &want.follow },
		{ "lines", 'n', "N", "only the last N lines, and what follows", .value = &lines },
		{ "raw", 0, NULL, "every byte: progress bars are not collapsed", .flag = &want.raw },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, 1))
		return c->rc;
	if (lines && units_parse_int(lines, 0, INT64_MAX, &want.lines, &err))
		return cli_usage(c, "--lines: %s", err.text);
	scoped_json *task = one_task(c->words[0], &err);
	return task && !show_log(&want, task, &err) ? CLI_DONE : cli_fail(c, &err);
}
