/* SPDX-License-Identifier: MIT
 * rad lease: a place on a GPU for a process that is there already: the shell, or the Python, that calls it. Waits as a task
 * does, then prints the variables by which CUDA is told of that place; the lease ends with the process, and with it the wait.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/process.h"
#include "cli/submit_client.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 100
#define STATUS_MS 1000
#define STATUS_S 2	/* radd is given that long to say why it waits, */
#define GIVE_BACK_S 5	/* and that long to take one back that nobody waits for */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signum)
{
	(void)signum;
	interrupted = 1;
}

struct lease_wish {
	const char *gpus, *mem, *limit, *name, *share, *slowdown, *pid;
	bool exclusive, json, give_back;
	pid_t process;
};

struct lease_wait {
	const char *id;
	struct proc_id process;		/* whose lease it is */
	bool terminal;			/* stderr is one, */
	unsigned shown;			/* and so many lines stand there */
	char *said;			/* what was said last where it is none */
	int64_t next_ms;
};

/* On a terminal in place of what was said before; else a line whenever something else is waited for. */
static void say_why(struct lease_wait *w, const json_t *task)
{
	const char *why = member_text(task, "reason_text");
	char waited[FORMAT_LEN];
	if (w->terminal) {
		scoped_free char *line = alloc_printf("rad: lease %s waits %s: %s", w->id,
			format_seconds(member_number(task, "wait_s") + member_number(task, "held_s"), waited), why);
		term_show_line(&w->shown, line);
	} else if (!w->said || strcmp(w->said, why)) {
		cli_note("lease %s waits: %s", w->id, why);
		free(w->said);
		w->said = alloc_string(why);
	}
}

/* Why it waits, now and then. */
static void look_why(struct lease_wait *w)
{
	struct error ignored = ERROR_INIT;
	if (clock_mono_ms() < w->next_ms)
		return;
	w->next_ms = clock_mono_ms() + (w->terminal ? STATUS_MS : 5 * STATUS_MS);
	scoped_json *shown = client_call_id_within(STATUS_S, "show", w->id, &ignored);
	const json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
	if (task && member_state(task) != TASK_RUNNING && !task_state_terminal(member_state(task)))
		say_why(w, task);
}

/* 1: over, 0: interrupted, -1. */
static int wait_for_turn(struct lease_wait *w, struct error *err)
{
	scoped_json *ids = json_pack("[s]", w->id);
	json_t *reply = NULL;
	struct client_wait *wait = client_wait_create(ids, true, err);
	int rc = wait ? 0 : -1;
	while (!rc && !interrupted) {
		struct pollfd p = { client_wait_fd(wait), POLLIN, 0 };
		if (!poll(&p, 1, POLL_MS))
			look_why(w);
		rc = client_wait_poll(wait, &reply, err);
		if (!rc && !proc_alive(w->process))
			rc = error_set(err, ERR_NOT_FOUND, "process %d: has ended, and its lease with it", (int)w->process.pid);
	}
	term_clear_line(&w->shown);
	client_wait_destroy(wait);
	json_decref(reply);
	return rc;
}

/* Its turn has come; a server of MPS may still have to. 1: *variables is filled; 0: interrupted; -1. */
static int wait_for_place(struct lease_wait *w, json_t **variables, struct error *err)
{
	struct error why = ERROR_INIT;
	while (!interrupted && !(*variables = client_call_id("environ", w->id, &why))) {
		if (why.code != ERR_CONFLICT)
			return error_pass(err, &why);
		scoped_json *shown = client_call_id("show", w->id, err);
		const json_t *task = json_array_get(json_object_get(shown, "tasks"), 0);
		if (!task)
			return -1;
		const char *evidence = member_text(member_last_attempt(task), "evidence");
		if (task_state_terminal(member_state(task)))
			return error_set(err, ERR_CONFLICT, "lease %s: %s%s%s", w->id, member_text(task, "state"), *evidence ? ": " : "",
					 evidence);
		poll(NULL, 0, POLL_MS);
	}
	return *variables != NULL;
}

/* A user's own word for some of these counts (launch/environment.c), and Python's says nothing to a process that runs. */
static bool is_users(const char *name)
{
	return !strcmp(name, "PYTHONUNBUFFERED") ||
	       ((!strncmp(name, "XLA_", 4) || !strncmp(name, "TF_", 3)) && getenv(name));
}

static void print_exports(const json_t *variables)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)variables, name, value) {
		scoped_buf word = { 0 };
		words_add_shell(&word, json_string_value(value));
		printf("export %s=%s\n", name, buf_text(&word));
	}
}

static void print_place(json_t *reply, bool json)
{
	json_t *variables = json_object_get(reply, "environ"), *value;
	const char *name;
	void *next;
	json_object_foreach_safe(variables, next, name, value)
		if (is_users(name))
			json_object_del(variables, name);
	if (json)
		cli_print_json(json_incref(reply));
	else
		print_exports(variables);
}

static json_t *ask_for(const struct lease_wish *wish, struct proc_id *process, struct error *err)
{
	const struct process_option options[] = {
		{ "gpus", wish->gpus }, { "gpu-mem", wish->mem }, { "for", wish->limit }, { "name", wish->name }, { "share", wish->share },
		{ "max-slowdown", wish->slowdown }, { "exclusive", wish->exclusive ? "" : NULL },
	};
	struct spec *s = process_spec(wish->process, err);
	scoped_fd int fd = -1;
	json_t *reply = NULL;
	if (s) {
		s->lease = true;
		*process = spec_process(s);
	}
	if (s && !process_set(s, options, COUNT_OF(options), err)) {
		fd = client_connect_or_start(err);
		reply = client_call_on(fd, submit_request(s), err);
	}
	spec_unref(s);
	return reply;
}

static int get_lease(struct cli_call *c, const struct lease_wish *wish)
{
	struct error err = ERROR_INIT, why = ERROR_INIT;
	scoped_json *reply = NULL, *accepted = NULL, *taken = NULL;
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };	/* the second one ends it anywhere */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	struct lease_wait w = { .terminal = isatty(STDERR_FILENO) };
	if (!(accepted = ask_for(wish, &w.process, &err)))
		return cli_fail(c, &err);
	w.id = member_text(accepted, "id");
	int rc = wait_for_turn(&w, &err);
	if (rc > 0)
		rc = wait_for_place(&w, &reply, &err);
	free(w.said);
	if (rc <= 0 && !(taken = client_call_id_within(GIVE_BACK_S, "give_back", w.id, &why)) && !rc)
		cli_note("lease %s was not given back: %s", w.id, why.text);
	if (rc < 0)
		return cli_fail(c, &err);
	if (!rc)
		return CLI_LEFT;
	print_place(reply, wish->json);
	if (!wish->json && isatty(STDOUT_FILENO))
		cli_note("your shell has not read these: eval \"$(rad lease ...)\" does; rad lease --give-back %s ends this one", w.id);
	return CLI_DONE;
}

int verb_lease(struct cli_call *c)
{
	struct lease_wish wish = { 0 };
	const struct args_option options[] = {
		{ "gpu-mem", 0, "SIZE", "GPU memory it will take on each GPU: 12G, 800M, or MiB", .value = &wish.mem },
		{ "gpus", 'G', "N", "GPUs it needs at once (default 1)", .value = &wish.gpus },
		{ "for", 0, "TIME", "how long it lasts at most: 90s, 15m, 2h, 1d", .value = &wish.limit },
		{ "exclusive", 0, NULL, "alone on its GPUs", .flag = &wish.exclusive },
		{ "share", 0, "MODE", "how its GPUs may be shared: auto, never, mps, streams or mig", .value = &wish.share },
		{ "max-slowdown", 0, "X", "share only where it should take at most X times as long as alone", .value = &wish.slowdown },
		{ "name", 'J', "NAME", "name shown in lists (default: the program's)", .value = &wish.name },
		{ "pid", 0, "PID", "for that process (default: the one that calls rad)", .value = &wish.pid },
		{ "give-back", 0, NULL, "the word is a lease (default: RAD_TASK_ID): it ends, the process goes on", .flag = &wish.give_back },
		{ "json", 0, NULL, "print JSON", .flag = &wish.json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options))
		return c->rc;
	if (c->n_words && !wish.give_back)
		return cli_usage(c, "a lease is for the shell or program that calls it: 'rad run %.60s' runs a command", c->words[0]);
	if (!cli_want_words(c, 0, 1))
		return c->rc;
	wish.process = getppid();
	if (wish.pid && !process_want_pid(c, wish.pid, &wish.process))
		return c->rc;
	if (!wish.give_back)
		return get_lease(c, &wish);
	const char *id = c->n_words ? c->words[0] : getenv("RAD_TASK_ID");
	if (!id)
		return cli_usage(c, "which lease? RAD_TASK_ID is not set");
	if (!ids_want_one(c, id))
		return c->rc;
	scoped_json *reply = client_call_id("give_back", id, &err);
	return reply ? CLI_DONE : cli_fail(c, &err);
}
