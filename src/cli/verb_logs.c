/* SPDX-License-Identifier: MIT
 * rad logs.
 */
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/follow.h"
#include "cli/ids.h"
#include "cli/log_file.h"
#include "cli/member.h"
#include "cli/term.h"
#include "cli/which.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 100

struct want { bool follow, raw; int64_t lines; };	/* lines < 0: all */

/* *ended: radd's answer, a new reference; NULL where nobody reads any more. */
static int follow_until_end(struct follow *f, const json_t *task, json_t **ended, struct error *err)
{
	scoped_json *ids = json_pack("[O]", json_object_get(task, "id"));
	struct client_wait *w = client_wait_create(ids, false, err);
	int rc = w ? 0 : -1;
	while (!rc) {
		struct pollfd p = { client_wait_fd(w), POLLIN, 0 };
		poll(&p, 1, POLL_MS);
		rc = client_wait_poll(w, ended, err);
		if (follow_read_all(f, err))
			rc = -1;
		if (!rc && cli_reader_left())	/* as tail(1) does: a task that prints nothing more would never tell */
			rc = 1;
	}
	client_wait_destroy(w);
	return rc < 0 ? -1 : 0;
}

/* Nothing is to be seen until it starts, which may be long. */
static void note_waiting(const json_t *task)
{
	struct error why = ERROR_INIT;
	if (member_last_attempt(task) || !isatty(STDERR_FILENO))
		return;
	log_file_none(task, &why);
	cli_note("%s: it is waited for", why.text);
}

/* A program may go on, and end well, while nothing of what it prints is kept. */
static void note_full_disk(const json_t *task)
{
	scoped_fd int fd = log_file_open(member_text(task, "log_path"), member_text(task, "user"), NULL);
	if (fd >= 0 && log_file_full(fd))
		cli_note("%s", log_file_full(fd));
}

static int show_log(const struct want *want, const json_t *task, struct error *err)
{
	struct term term = term_ask();
	scoped_json *ended = NULL;
	if (member_logs_nowhere(task))
		return log_file_none(task, err);
	/* A terminal collapses by itself, and shows how far the bar is. */
	struct follow *f = follow_create(member_text(task, "log_path"), member_text(task, "user"),
					 want->raw || (want->follow && term.live), stdout);
	/* What somebody else's program prints is not to give orders to this terminal. */
	if (!want->raw && isatty(STDOUT_FILENO) && log_file_is_others(member_text(task, "user")))
		follow_plain(f);
	int rc = want->lines >= 0 ? follow_seek_lines(f, want->lines, err) : 0;
	rc = rc < 0 || follow_read_all(f, err) ? -1 : 0;
	if (!rc && want->follow && !task_state_terminal(member_state(task))) {
		note_waiting(task);
		rc = follow_until_end(f, task, &ended, err);
	}
	if (!rc && !follow_is_open(f))
		rc = log_file_none(ended ? json_array_get(json_object_get(ended, "tasks"), 0) : task, err);
	follow_finish(f);
	follow_destroy(f);
	if (!rc)
		note_full_disk(task);
	return ferror(stdout) ? 0 : rc;	/* cli_finish tells what is amiss with it, but not who has read enough (head) */
}

/* The tasks that the words name; NULL with an error for a whole array, whose logs may be thousands. */
static json_t *find_tasks(struct cli_call *c, struct error *err)
{
	scoped_json *found = json_array();
	for (size_t i = 0; i < c->n_words; i++) {
		scoped_json *one = which_show(&c->words[i], 1, err);
		json_t *tasks = json_object_get(one, "tasks");
		task_id id;
		size_t n = json_array_size(tasks);
		if (!one)
			return NULL;
		if (n > 1 && !task_id_parse(c->words[i], &id, NULL)) {
			error_set(err, ERR_INVALID, "task %.40s: is an array of %zu, each with a log of its own: name one, such as %s, or "
				  "some, such as %s_[0-3]", c->words[i], n, member_text(json_array_get(tasks, 0), "id"), c->words[i]);
			return NULL;
		}
		json_array_extend(found, tasks);
	}
	return json_incref(found);
}

/* Of several, each begins with a line that says whose it is, as tail(1) does it, and *missed is set if one cannot be shown. */
static int show_logs(const struct want *want, const json_t *tasks, bool *missed, struct error *err)
{
	size_t i, n = json_array_size(tasks);
	json_t *t;
	if (want->follow && n > 1)
		return error_set(err, ERR_INVALID, "--follow: of one task only");
	json_array_foreach(tasks, i, t) {
		if (n > 1)
			printf("%s==> task %s <==\n", i ? "\n" : "", member_text(t, "id"));
		struct error one = ERROR_INIT;
		int failed = show_log(want, t, &one);
		if (failed && n == 1)
			return error_pass(err, &one);
		if (failed)
			cli_note("%s", one.text);
		*missed = *missed || failed;
	}
	return 0;
}

int verb_logs(struct cli_call *c)
{
	struct want want = { .lines = -1 };
	const char *lines = NULL;
	const struct args_option options[] = {
		{ "follow", 'f', NULL, "go on until the task has ended", .flag = &want.follow },
		{ "lines", 'n', "N", "only the last N lines, and what follows", .value = &lines },
		CLIENT_QUEUE_OPTION,
		{ "raw", 0, NULL, "every byte: progress bars are not collapsed", .flag = &want.raw },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !ids_want(c, CLI_ANY_NUMBER))
		return c->rc;
	if (cli_read_int("lines", lines, 0, INT64_MAX, &want.lines, &err))
		return cli_usage(c, "%s", err.text);
	bool missed = false;
	scoped_json *tasks = find_tasks(c, &err);
	if (!tasks || show_logs(&want, tasks, &missed, &err))
		return cli_fail(c, &err);
	return missed ? CLI_FAILED : CLI_DONE;
}
