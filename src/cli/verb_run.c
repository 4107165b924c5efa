/* SPDX-License-Identifier: MIT
 * rad run: submits, follows the log, exits with the task's code. The task's output is all that goes to stdout; what rad
 * itself has to say goes to stderr, and what changes while one waits to a terminal only.
 *
 * With --pty the caller's terminal is joined to the task's (pty.h), and no log is followed. Such a session needs no radd: it
 * goes on while that one is away, and ends when the task lets go of its terminal; only the code comes from radd.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/log_file.h"
#include "cli/log_sizes.h"
#include "cli/pty.h"
#include "cli/submission.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 100
#define STATUS_MS 1000
#define STATUS_S 2	/* radd is given that long for its answer, */
#define CANCEL_S 5	/* and that long to heed Ctrl-C: the next one is looked for then */
#define MAX_EXPLAINED 5

static volatile sig_atomic_t interrupts;
static struct log_sizes *logs_before;
static volatile sig_atomic_t hung_up, resized, paused;	/* with --pty */

static void on_interrupt(int signum)
{
	(void)signum;
	interrupts++;
}

/* While the task is handed over: the first is heeded once radd has answered, since before nobody knows whether it has the task;
 * the next one at once, since a radd that hangs answers nothing. */
static void on_early_interrupt(int signum)
{
	if (!interrupts++)
		return;
	signal(signum, SIG_DFL);
	raise(signum);
}

static void on_terminal(int signum)
{
	if (signum == SIGWINCH)
		resized = 1;
	else if (signum == SIGTSTP)
		paused = 1;
	else
		hung_up = 1;
}

struct running {
	const char *id;
	bool pty;
	struct follow *log;		/* NULL with pty */
	int kept;			/* with pty: the log that was asked for, or -1 */
	struct client_wait *wait;	/* NULL: radd went away from a session that goes on */
	bool terminal;			/* stderr is one */
	bool started;			/* the log is there: no more status lines */
	unsigned shown;			/* of status, so many lines stand on the terminal */
	bool cancelled;
	bool unreadable, more;		/* the log; not all that is in it was shown */
	int64_t next_status_ms;
};

/* Why it does not run yet, in place of what was said of it before. */
static void show_status(struct running *r)
{
	struct error ignored = ERROR_INIT;
	if (!r->terminal || r->started || clock_mono_ms() < r->next_status_ms)
		return;
	r->next_status_ms = clock_mono_ms() + STATUS_MS;
	scoped_json *reply = client_call_id_within(STATUS_S, "show", r->id, &ignored);
	const json_t *task = json_array_get(json_object_get(reply, "tasks"), 0);
	if (!task || member_state(task) == TASK_RUNNING)
		return;
	char waited[FORMAT_LEN];
	scoped_free char *line = alloc_printf("rad: task %s waits %s: %s", r->id,
		format_seconds(member_number(task, "wait_s") + member_number(task, "held_s"), waited), member_text(task, "reason_text"));
	term_show_line(&r->shown, line);
}

/* One whose terminal has gone asks for nothing more. What runs is hung up by the kernel, as after ssh: what it does then is
 * its own. */
static bool handle_terminal(struct running *r)
{
	struct error ignored = ERROR_INIT;
	if (resized)
		pty_resize();
	if (paused)
		pty_pause();
	resized = paused = 0;
	if (!hung_up && !pty_hung_up())
		return false;
	if (pty_state() == PTY_WAITING)
		json_decref(client_call_id_within(CANCEL_S, "cancel", r->id, &ignored));
	return true;
}

/* The first interrupt asks radd to end the task, the second leaves. */
static bool handle_interrupt(struct running *r)
{
	struct error err = ERROR_INIT;
	if (interrupts > 1) {
		term_clear_line(&r->shown);
		cli_note("left; task %s is radd's now (rad show %s)", r->id, r->id);
		return true;
	}
	if (interrupts && !r->cancelled) {
		r->cancelled = true;
		term_clear_line(&r->shown);
		scoped_json *reply = client_call_id_within(CANCEL_S, "cancel", r->id, &err);
		if (reply)
			cli_note("cancelling task %s; Ctrl-C again leaves without waiting for its end", r->id);
		else
			cli_note("%s; Ctrl-C again leaves without waiting for the end of task %s", err.text, r->id);
	}
	return false;
}

/* What cannot be read (/dev/null, a file system that went away) is not shown; the task runs on, and its end still counts. */
static void show_output(struct running *r)
{
	struct error err = ERROR_INIT;
	int rc = !r->log || r->unreadable ? 0 : follow_read(r->log, &err);
	r->more = rc > 0;
	if (rc >= 0)
		return;
	r->unreadable = true;
	if (cli_reader_left())
		return;
	clearerr(stdout);	/* told here: the exit code is the task's */
	term_clear_line(&r->shown);
	cli_note("%s: the output of task %s is not shown", err.text, r->id);
}

/* Waits for whatever comes next, and carries between the terminals. */
static void wait_and_carry(const struct running *r)
{
	struct pollfd p[1 + PTY_POLLS] = { { r->wait ? client_wait_fd(r->wait) : -1, POLLIN, 0 } };
	struct timespec tick = { .tv_nsec = r->more ? 0 : POLL_MS * 1000000L };
	sigset_t none;
	unsigned n = r->pty ? pty_polls(p + 1) : 0;
	sigemptyset(&none);
	/* Interrupts are let in here alone. */
	if (ppoll(p, 1 + n, &tick, &none) > 0 && n)
		pty_work(p + 1, n, r->kept);
}

/* As client_wait_poll. While a session goes on nobody needs radd, and nothing is said on its terminal. */
static int ask_for_end(struct running *r, json_t **reply, struct error *err)
{
	bool session = r->pty && pty_state() == PTY_JOINED;
	if (!r->wait)
		return session ? 0 : error_set(err, ERR_UNAVAILABLE, "the session is over; radd is away, and does not say how it ended");
	int rc = client_wait_poll(r->wait, reply, err);
	if (rc >= 0 || !session)
		return rc;
	client_wait_destroy(r->wait);
	r->wait = NULL;
	return 0;
}

static bool has_started(const struct running *r)
{
	return r->pty ? pty_state() != PTY_WAITING : follow_is_open(r->log);
}

/* 1: it ended, *reply says how; 0: left by an interrupt; -1. */
static int follow_to_end(struct running *r, json_t **reply, struct error *err)
{
	for (int rc = 0;;) {
		wait_and_carry(r);
		if (handle_interrupt(r) || (r->pty && handle_terminal(r)))
			return 0;
		rc = rc ? rc : ask_for_end(r, reply, err);
		if (!r->started && has_started(r)) {
			term_clear_line(&r->shown);
			r->started = true;
		}
		if (rc < 0)
			return -1;
		show_output(r);
		if (rc && !r->more)
			return 1;
		if (!rc)
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

static void catch_terminal(void)
{
	static const int signals[] = { SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP };
	struct sigaction action = { .sa_handler = on_terminal };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < COUNT_OF(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < COUNT_OF(signals); i++)
		sigaction(signals[i], &action, NULL);
}

static void explain_end(const json_t *task)
{
	const char *evidence = member_text(member_last_attempt(task), "evidence");
	if (!task_state_terminal(member_state(task)) || member_state(task) == TASK_COMPLETED)
		return;
	cli_note("task %s: %s%s%s", member_text(task, "id"), member_text(task, "state"), *evidence ? ": " : "", evidence);
	scoped_fd int log = member_logs_nowhere(task) ? -1 : log_file_open(member_text(task, "log_path"), NULL, NULL);
	if (log >= 0 && log_file_full(log))
		cli_note("%s", log_file_full(log));
}

/* Of an array, the first few that went wrong. */
static void explain_ends(const json_t *tasks)
{
	size_t i, told = 0;
	json_t *t;
	json_array_foreach(tasks, i, t)
		if (member_state(t) != TASK_COMPLETED && told++ < MAX_EXPLAINED)
			explain_end(t);
	if (told > MAX_EXPLAINED)
		cli_note("and %zu more", told - MAX_EXPLAINED);
}

/* Shown from now on: what the log is to be, or the terminal. */
static void follow_begin(struct running *r, const char *log_path)
{
	struct term term = term_ask();
	r->kept = -1;
	if (r->pty) {
		/* What the shim cannot open there it tells. */
		if (strcmp(log_path, "/dev/null"))
			r->kept = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
		catch_terminal();
		return;
	}
	r->log = follow_create(log_path, NULL, term.live, stdout);
	follow_skip(r->log, log_sizes_of(logs_before, log_path));
}

static void follow_over(struct running *r)
{
	term_clear_line(&r->shown);
	if (r->pty)
		pty_drain(r->kept);
	if (r->kept >= 0)
		close(r->kept);
	if (r->log)
		follow_finish(r->log);
	client_wait_destroy(r->wait);
	follow_destroy(r->log);
}

static int run_task(struct cli_call *c, const json_t *accepted, const struct submit_flags *flags)
{
	struct error err = ERROR_INIT;
	struct running r = { .id = member_text(accepted, "id"), .terminal = isatty(STDERR_FILENO), .pty = flags->pty };
	json_t *ended = NULL;
	scoped_json *ids = json_pack("[s]", r.id);
	if (member_int(accepted, "tasks") > 1)
		cli_note("task %s is an array of %lld: the output of %s is shown, and the end of all is waited for; 'rad logs ID' "
			 "shows others'", r.id, (long long)member_int(accepted, "tasks"), member_text(accepted, "first"));
	catch_interrupts();
	follow_begin(&r, member_text(accepted, "log_path"));
	r.wait = client_wait_create(ids, false, &err);
	int rc = r.wait ? follow_to_end(&r, &ended, &err) : -1, code = CLI_LEFT;
	follow_over(&r);
	if (rc < 0)
		code = cli_fail(c, &err);
	if (rc > 0) {
		code = submission_code(json_object_get(ended, "tasks"));
		submission_tell_vain(json_object_get(ended, "tasks"));
		explain_ends(json_object_get(ended, "tasks"));
	}
	if (ended && flags->json)
		cli_print_json(json_incref(ended));
	json_decref(ended);
	return code;
}

static void begin_sending(const struct spec *s)
{
	const struct sigaction action = { .sa_handler = on_early_interrupt };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	logs_before = log_sizes_take(s->cwd, s->output);
}

int verb_run(struct cli_call *c)
{
	struct submit_flags flags = { .terminal = pty_listen, .sending = begin_sending };
	json_t *reply = NULL;
	int rc;
	if (!submission_send(c, &flags, &reply))
		rc = c->rc;
	else if (flags.dry_run)
		rc = submission_print_dry_run(reply, flags.json);
	else
		rc = run_task(c, reply, &flags);
	pty_close();
	log_sizes_free(logs_before);
	submit_flags_clear(&flags);
	json_decref(reply);
	return rc;
}
