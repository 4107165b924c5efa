/* SPDX-License-Identifier: MIT
 * rad run: submits, follows the log, exits with the task's code. The task's output is all that goes to stdout; what rad
 * itself has to say goes to stderr, and what changes while one waits to a terminal only.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/submission.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 100
#define STATUS_MS 1000
#define LEFT 130	/* what a shell shows for a program that Ctrl-C ended */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signum)
{
	(void)signum;
	interrupts++;
}

struct running {
	const char *id;
	struct follow *log;
	struct client_wait *wait;
	bool terminal;			/* stderr is one */
	bool started;			/* the log is there: no more status lines */
	bool shown;			/* a status line stands on the terminal */
	bool cancelled;
	bool unreadable;		/* the log */
	int64_t next_status_ms;
};

static void clear_status(struct running *r)
{
	if (r->shown)
		fputs("\r\033[K", stderr);
	r->shown = false;
}

/* Why it does not run yet, on one line that is overwritten. */
static void show_status(struct running *r)
{
	struct error ignored = ERROR_INIT;
	if (!r->terminal || r->started || clock_mono_ms() < r->next_status_ms)
		return;
	r->next_status_ms = clock_mono_ms() + STATUS_MS;
	scoped_json *reply = client_call_id("show", r->id, &ignored);
	const json_t *task = json_array_get(json_object_get(reply, "tasks"), 0);
	if (!task || member_state(task) == TASK_RUNNING)
		return;
	struct term term = term_ask();
	char waited[FORMAT_LEN];
	scoped_free char *line = alloc_printf("rad: task %s waits %s: %s", r->id,
		format_seconds(member_number(task, "wait_s") + member_number(task, "held_s"), waited), member_text(task, "reason_text"));
	scoped_free char *text = term_text(line, term.width ? term.width - 1 : 79, &term);
	clear_status(r);
	fputs(text, stderr);
	r->shown = true;
}

/* The first interrupt asks radd to end the task, the second leaves. */
static bool handle_interrupt(struct running *r)
{
	struct error err = ERROR_INIT;
	if (interrupts > 1) {
		clear_status(r);
		cli_note("left; task %s is radd's now (rad show %s)", r->id, r->id);
		return true;
	}
	if (interrupts && !r->cancelled) {
		r->cancelled = true;
		clear_status(r);
		scoped_json *reply = client_call_id("cancel", r->id, &err);
		if (reply)
			cli_note("cancelling task %s; Ctrl-C again leaves without waiting for its end", r->id);
		else
			cli_note("%s", err.text);
	}
	return false;
}

/* What cannot be read (/dev/null, a file system that went away) is not shown; the task runs on, and its end still counts. */
static void show_output(struct running *r)
{
	struct error err = ERROR_INIT;
	if (r->unreadable || follow_read(r->log, &err) >= 0)
		return;
	r->unreadable = true;
	clear_status(r);
	cli_note("%s: the output of task %s is not shown", err.text, r->id);
}

/* 1: it ended, *reply says how; 0: left by an interrupt; -1. */
static int follow_to_end(struct running *r, json_t **reply, struct error *err)
{
	sigset_t none;
	sigemptyset(&none);
	for (;;) {
		struct pollfd p = { client_wait_fd(r->wait), POLLIN, 0 };
		struct timespec tick = { .tv_nsec = POLL_MS * 1000000L };
		ppoll(&p, 1, &tick, &none);	/* interrupts are let in here alone */
		if (handle_interrupt(r))
			return 0;
		int rc = client_wait_poll(r->wait, reply, err);
		if (!r->started && follow_is_open(r->log)) {
			clear_status(r);
			r->started = true;
		}
		if (rc < 0)
			return -1;
		show_output(r);
		if (rc)
			return 1;
		show_status(r);
	}
}

static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	sigset_t both;
	sigemptyset(&both);
	sigaddset(&both, SIGINT);
	sigaddset(&both, SIGTERM);
	sigprocmask(SIG_BLOCK, &both, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void explain_end(const json_t *task)
{
	const char *evidence = member_text(member_last_attempt(task), "evidence");
	if (member_state(task) != TASK_COMPLETED)
		cli_note("task %s: %s%s%s", member_text(task, "id"), member_text(task, "state"), *evidence ? ": " : "", evidence);
}

static int run_task(struct cli_call *c, const json_t *accepted, int64_t submitted_ms, bool json)
{
	struct error err = ERROR_INIT;
	struct running r = { .id = member_text(accepted, "id"), .terminal = isatty(STDERR_FILENO) };
	struct term term = term_ask();
	json_t *ended = NULL;
	scoped_json *ids = json_pack("[s]", r.id);
	catch_interrupts();
	r.log = follow_create(member_text(accepted, "log_path"), term.live, stdout);
	follow_skip_older(r.log, submitted_ms);
	r.wait = client_wait_create(ids, false, &err);
	int rc = r.wait ? follow_to_end(&r, &ended, &err) : -1, code = LEFT;
	clear_status(&r);
	follow_finish(r.log);
	if (rc < 0)
		code = cli_fail(c, &err);
	if (rc > 0) {
		code = submission_code(json_object_get(ended, "tasks"));
		explain_end(json_array_get(json_object_get(ended, "tasks"), 0));
	}
	if (ended && json)
		cli_print_json(json_incref(ended));
	json_decref(ended);
	client_wait_destroy(r.wait);
	follow_destroy(r.log);
	return code;
}

int verb_run(struct cli_call *c)
{
	struct submit_flags flags = { 0 };
	json_t *reply = NULL;
	int64_t submitted_ms = clock_wall_ms();
	bool accepted = submission_send(c, &flags, &reply);
	bool dry_run = flags.dry_run, json = flags.json;
	submit_flags_clear(&flags);
	if (!accepted)
		return c->rc;
	int rc;
	if (dry_run)
		rc = submission_print_dry_run(reply, json);
	else
		rc = run_task(c, reply, submitted_ms, json);
	json_decref(reply);
	return rc;
}
