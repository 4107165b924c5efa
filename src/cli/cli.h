/* SPDX-License-Identifier: MIT
 *
 * The command `rad`: one table of verbs, each a function of its own file, and what they all share: options, errors, exit
 * codes. A verb prints tables for people, or with --json the daemon's object as one line.
 */
#ifndef RAD_CLI_CLI_H
#define RAD_CLI_CLI_H

#include "base/args.h"
#include "base/error.h"
#include "cli/verbs.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes. `run`, `wait` and `monitor` hand on another program's code, so their own failures are CLI_OWN; but a program that
 * is not there, or cannot be run, gives what env(1) and shells give: an error whose `no` is one of these two says so. CLI_LEFT
 * is what a shell shows for a program that Ctrl-C ended. */
enum {
	CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NO_DAEMON = 3, CLI_OWN = 125, CLI_NOT_RUNNABLE = 126, CLI_NO_PROGRAM = 127,
	CLI_LEFT = 130,
};

/* What --states takes, for completion. */
#define CLI_STATES "PD H R CD F OOM CA TO LO all"

/* Of an option of Slurm's and its value. */
#define CLI_NO_PARTITIONS "'%.60s': there are no partitions, accounts or QOS here: leave it out, or select by --user or --name"
#define CLI_ONE_OWNER "--me and --user both say whose: give one of them"

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
	/* After cli_options: what is no option (ends with NULL), and the options in the order in which they were given. */
	char **words;
	size_t n_words;
	struct args_given *given;
	size_t n_given;
	int rc;		/* after cli_options returned false: what to exit with */
	/* Where set, the verb is only asked what options it has: it is told them and does nothing else. */
	void (*describe)(void *ctx, const struct cli_verb *verb, const struct args_option *options);
	void *ctx;
};

/* Runs the verb and lets go of what cli_options kept. Returns the exit code. */
int cli_call(struct cli_call *c);

/* Reads options (anywhere among the words). False when there is nothing more to do: --help was printed, or an error; then
 * the verb returns c->rc. */
bool cli_options(struct cli_call *c, const struct args_option *options);
/* For verbs that read their options themselves: whether they were only to be described, which is then done. */
bool cli_describe(struct cli_call *c, const struct args_option *options);
/* What --help prints of a verb with those options. */
void cli_print_help(const struct cli_call *c, const struct args_option *options);
/* Options that go with some ways to use the verb, which the text `of` names; ends with a NULL option. */
struct cli_part { const char *option, *of; };
/* Whether all that were given go with the way `used`: another's would change nothing, unseen. False: c->rc tells. */
bool cli_parts(struct cli_call *c, const struct cli_part *parts, const char *used);
/* The value of an option that is a number: NULL leaves what is there, and an error begins with the option's name. */
int cli_read_int(const char *option, const char *word, int64_t min, int64_t max, int64_t *value, struct error *err);
int cli_read_double(const char *option, const char *word, double min, double max, double *value, struct error *err);
/* Checks the number of words; prints the usage and returns false if it is another. */
#define CLI_ANY_NUMBER SIZE_MAX
bool cli_want_words(struct cli_call *c, size_t min, size_t max);

/* The exit code for an error, decided here alone: what is wrong as it was given is CLI_USAGE, whoever found that, rad or radd,
 * and whether it was typed or stands in a file that was named. */
int cli_code(const struct cli_call *c, const struct error *err);
/* That code, or CLI_OWN where the verb hands on the task's. */
int cli_failure(const struct cli_call *c, int code);
/* Prints "rad: TEXT" in one line and returns that code. */
int cli_fail(const struct cli_call *c, const struct error *err);
/* The same for a wrong command line; adds where the help is. */
int cli_usage(const struct cli_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line on stderr, "rad: ...". */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The object as one line. Takes the reference. Returns CLI_DONE. */
int cli_print_json(json_t *reply);
/* Flushes stdout; returns rc, or the code of a failure with a message when what was printed could not be written. Who has read
 * enough changes no task's code. */
int cli_finish(const struct cli_call *c, int rc);
/* Whether standard output was a pipe to who has read enough (head): that is told nobody. */
bool cli_reader_left(void);

/* The verbs: several rows may share a function, which tells them by their names. */
#define X(name, run, help, usage, code) int run(struct cli_call *c);
CLI_VERBS(X)
#undef X

/* Its table, of the member `gpus` of radd's answer. */
void verb_gpus_print(const json_t *gpus, const struct term *term, FILE *out);

#endif
