/* SPDX-License-Identifier: MIT
 *
 * The command `rad`: one table of verbs, each a function of its own file, and what they all share: options, errors, exit
 * codes. A verb prints tables for people, or with --json the daemon's object as one line.
 */
#ifndef RAD_CLI_CLI_H
#define RAD_CLI_CLI_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes. `run` and `wait` hand on the task's code, so their own failures are all CLI_OWN. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NO_DAEMON = 3, CLI_OWN = 125 };

struct cli_call;
struct term;

struct cli_verb {
	const char *name, *help;	/* one line, for the list of verbs */
	const char *usage;		/* what follows "rad NAME" */
	int (*run)(struct cli_call *c);	/* returns the exit code */
	bool code_is_the_tasks;		/* run, wait */
};

/* Ends with a NULL name. */
extern const struct cli_verb cli_verbs[];

/* One call of a verb. */
struct cli_call {
	const struct cli_verb *verb;
	int argc;
	char **argv;	/* argv[0] is the verb */
	char **words;	/* after cli_options: what is not an option; NULL-terminated */
	size_t n_words;
	int rc;		/* after cli_options returned false: what to exit with */
};

/* One option of a verb; a table of them ends with a NULL name. Exactly one of flag and value is set. --help is always there. */
struct cli_option {
	const char *name;
	char letter;		/* 0: none */
	const char *arg;	/* placeholder of the value; NULL: a flag */
	const char *help;
	bool *flag;
	const char **value;	/* borrowed from argv */
};

/* Reads options (anywhere among the words). False when there is nothing more to do: --help was printed, or an error; then
 * the verb returns c->rc. */
bool cli_options(struct cli_call *c, const struct cli_option *options);
/* Checks the number of words; prints the usage and returns false if it is another. */
#define CLI_ANY_NUMBER SIZE_MAX
bool cli_want_words(struct cli_call *c, size_t min, size_t max);

/* Prints "rad: TEXT" in one line and returns the exit code for it. */
int cli_fail(const struct cli_call *c, const struct error *err);
/* The same for a wrong command line; adds where the help is. */
int cli_usage(const struct cli_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr, "rad: ...". */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The object as one line. Takes the reference. Returns CLI_DONE. */
int cli_print_json(json_t *reply);
/* Flushes stdout; returns rc, or CLI_FAILED with a message when what was printed could not be written. */
int cli_finish(int rc);

/* The verbs. */
int verb_submit(struct cli_call *c);
int verb_run(struct cli_call *c);
int verb_queue(struct cli_call *c);
int verb_show(struct cli_call *c);
int verb_why(struct cli_call *c);
int verb_logs(struct cli_call *c);
int verb_wait(struct cli_call *c);
int verb_cancel(struct cli_call *c);
int verb_change(struct cli_call *c);	/* hold, release, requeue: the operation has the verb's name */
int verb_update(struct cli_call *c);
int verb_gpus(struct cli_call *c);
int verb_top(struct cli_call *c);
int verb_acct(struct cli_call *c);
int verb_report(struct cli_call *c);
int verb_drain(struct cli_call *c);	/* drain, undrain */
int verb_doctor(struct cli_call *c);
int verb_estimate(struct cli_call *c);
int verb_parse(struct cli_call *c);
int verb_capture(struct cli_call *c);
int verb_version(struct cli_call *c);
int verb_help(struct cli_call *c);
int verb_completion(struct cli_call *c);
int verb_simulate(struct cli_call *c);
int verb_trace(struct cli_call *c);
int verb_simtask(struct cli_call *c);

/* Their tables, of the members `gpus` and `tasks` of radd's answers. */
void verb_gpus_print(const json_t *gpus, const struct term *term, FILE *out);
void verb_queue_print(const json_t *tasks, const json_t *gpus, const struct term *term, FILE *out);

#endif
