/* SPDX-License-Identifier: MIT
 *
 * From a command line to a spec: what `rad submit` and `rad run` do before they speak to the daemon. Files are read here,
 * with the caller's rights; the daemon opens none of them.
 */
#ifndef RAD_CLI_SUBMIT_CLIENT_H
#define RAD_CLI_SUBMIT_CLIENT_H

#include "base/error.h"
#include "task/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct args_option;

struct submit_flags {
	/* in: whether the configuration's `positional_policy` is "honour"; asked only for a task file. NULL: no */
	bool (*positional_policy)(void);
	/* in: called with what is about to be sent; may be NULL */
	void (*sending)(const struct spec *s);
	/* in: the socket at which the caller's terminal can be had, with --pty; NULL: the verb has no use for one */
	const char *(*terminal)(struct error *err);
	bool for_slurm;		/* in: it goes to sbatch (radfile_parse_for_slurm) */
	bool parsable, dry_run, wait, json, help, pty, snapshot;
	bool dependent;		/* out: it waits for other tasks */
	const char *capture;	/* out: see submit_capture_wish */
	char *copy;		/* out: with `snapshot` the folder that it runs in; owned */
	bool usage;		/* on an error: the command line itself is wrong (exit code 2) */
	char **notes;		/* things to tell the user on stderr; n_notes */
	size_t n_notes;
};

void submit_flags_clear(struct submit_flags *f);
/* Has the options that say how to submit, and not what, fill these. */
void submit_flag_targets(struct args_option *options, struct submit_flags *f);

/* argv[0] is the verb. Reads options, task file or command, and everything about the caller that the task inherits; checks
 * what can be checked without the daemon. *out is a new reference (NULL with --help). Returns 0; or -1 with *out NULL. */
int submit_parse_command(int argc, char **argv, struct spec **out, struct submit_flags *flags, struct error *err);

/* Reads one task file alone into a spec: what it says, its model summary and its capture, and nothing about the caller
 * (for `rad estimate` and `rad parse`). Returns 0; or -1 with *out NULL. */
int submit_parse_file(const char *path, struct spec **out, struct submit_flags *flags, struct error *err);

/* Whether a word names a task file: by its ending, or because it is a file with #RAD or #SBATCH lines. */
bool submit_is_task_file(const char *word);

/* Refuses an optimizer or a precision that no estimator knows: a slip would otherwise be taken for Adam and fp32. */
int submit_check_words(const struct spec *s, struct error *err);

/* Reads a task file as far as it says what runs and where: script, environment and folder, and the words after it as the
 * script's arguments. Returns 0; or -1 with *out NULL. */
int submit_parse_script(char *const *words, struct spec **out, struct submit_flags *flags, struct error *err);

/* A time of --begin as wall seconds; 0: now, or past. */
int submit_read_begin(const char *text, int64_t *begin_s, struct error *err);

/* {"v", "op": "submit", "spec", "environ"}: a new reference. */
json_t *submit_request(const struct spec *s);

#endif
