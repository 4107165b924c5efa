/* SPDX-License-Identifier: MIT
 *
 * The one table of submission options. Command line, `#RAD` lines and `KEY:` lines of task files, help, completions and
 * manual skeletons all read these rows; adding an option is one row and one case in options_set.
 */
#ifndef RAD_SUBMIT_OPTIONS_H
#define RAD_SUBMIT_OPTIONS_H

#include "base/error.h"
#include "parse/radfile.h"
#include "task/spec.h"

#include <stdbool.h>
#include <stddef.h>

struct submit_option {
	const char *name;	/* long name without dashes: "gpu-mem" */
	char letter;		/* short form, 0 for none */
	const char *arg;	/* placeholder: "SIZE"; NULL: a flag */
	const char *key;	/* as a KEY: line, NULL when it is none: "gpu_mem" */
	const char *alias;	/* another key for the same ("time" / "time_limit"), or NULL */
	const char *help;	/* one line */
	bool client_only;	/* acts on the command (--json, --wait), not on the task */
};

/* Ends with a NULL name. */
extern const struct submit_option submit_options[];

const struct submit_option *options_find(const char *name);
const struct submit_option *options_find_key(const char *key);

/* Sets one option on a spec. `where` is prefixed to errors ("train.rad:4", "--gpu-mem"). A path (model, capture) is only
 * noted in *paths for the caller to read. Flags take "true"/"yes"/"1"/"" or "false"/"no"/"0" in files. */
struct submit_paths { char *model, *capture; };
int options_set(struct spec *s, struct submit_paths *paths, const struct submit_option *o, const char *value, const char *where,
		struct error *err);

/* All settings of a file. */
int options_apply_file(struct spec *s, struct submit_paths *paths, const char *name, const struct radfile *f, struct error *err);

/* "0-9%4", "1,3,5-7:2": Slurm's forms. */
int options_parse_array(const char *text, uint32_t **indices, size_t *n, uint32_t *limit, struct error *err);
/* "afterok:12:13,afterany:14" */
int options_parse_dependencies(const char *text, struct dependency **deps, size_t *n, struct error *err);
/* "USR1@60", "B:TERM@30", "10" */
int options_parse_signal(const char *text, int *signal, int64_t *before_s, struct error *err);

/* The known word nearest to `word` by edit distance, NULL if none is near. `words` ends with NULL. */
const char *options_nearest(const char *word, const char *const *words);

#endif
