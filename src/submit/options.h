/* SPDX-License-Identifier: MIT
 *
 * The one table of submission options. Command line, `#RAD` lines and `KEY:` lines of task files, help, completions and
 * manual skeletons all read these rows; adding an option is one row and its function.
 */
#ifndef RAD_SUBMIT_OPTIONS_H
#define RAD_SUBMIT_OPTIONS_H

#include "base/args.h"
#include "base/error.h"
#include "task/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What `capture` says: nothing, a file's path, that one is made while the task waits, that none is. */
enum submit_capture { CAPTURE_UNSAID, CAPTURE_FILE, CAPTURE_AUTO, CAPTURE_OFF };

/* What options say that is not in the spec as it stands; the caller settles it when all are read. */
struct submit_pending {
	char *model, *capture;	/* paths to read; owned */
	enum submit_capture capture_how;
	char *chdir;		/* --chdir; owned */
	char *begin;		/* --begin; owned */
	char *export;		/* --export: which variables go along; owned, NULL: all */
	int64_t nice;		/* lowers the priority */
	bool gres_model;	/* the model of GPU is --gres's */
	char *mem_doubt;	/* what to say of a --mem that is hardly meant: Slurm's scripts may say it, so it counts; owned */
	char *time_doubt;	/* the same of a --time; owned */
};

struct submit_option {
	const char *name;	/* long name without dashes: "gpu-mem" */
	char letter;		/* short form, 0 for none */
	const char *arg;	/* placeholder: "SIZE"; "[N]": may be left out, and is joined with "=" else; NULL: a flag */
	const char *key;	/* as a KEY: line, NULL when it is none: "gpu_mem" */
	const char *alias;	/* another key for the same ("time" / "time_limit"), or NULL */
	const char *help;	/* one line */
	const char *words;	/* all that the value can be, blanks between them; NULL: it is free */
	/* Sets it; NULL: it is of a command line alone (--json, --wait, --wrap), and of no file. `value` is never NULL ("" for a flag
	 * without one). */
	int (*set)(struct spec *s, struct submit_pending *p, const char *value, struct error *err);
};

/* Ends with a NULL name. */
extern const struct submit_option submit_options[];

const struct submit_option *options_find(const char *name);
const struct submit_option *options_find_letter(char letter);
/* By key or alias; '-' and '_' are alike. */
const struct submit_option *options_find_key(const char *key);
/* The option whose long name is nearest to a mistyped word (dashes and "=value" in it do not count); NULL if none is near. */
const struct submit_option *options_near(const char *word);
/* What `name` says of each row, in order, without its NULLs; ends with NULL. The caller frees the array. */
const char **options_names(const char *(*name)(const struct submit_option *o));

/* Sets one option on a spec. `where` is prefixed to errors ("train.rad:4: gpus", "--gpu-mem"). Flags take "true", "yes", "1",
 * "" or "false", "no", "0" in files. NULL value: the flag stands alone. */
int options_set(struct spec *s, struct submit_pending *p, const struct submit_option *o, const char *value, const char *where,
		struct error *err);
void options_pending_clear(struct submit_pending *p);
/* Memory of a GPU: a size, and none without a unit that is too small for anything on a GPU. */
int options_read_gpu_mem(const char *value, uint64_t *mib, struct error *err);

/* "0-9%4", "1,3,5-7:2": Slurm's forms. Indices below 1000000, each once, at most SPEC_MAX_ARRAY of them. *limit 0: none. */
int options_parse_array(const char *text, uint32_t **indices, size_t *n, uint32_t *limit, struct error *err);
/* "afterok:12:13,afterany:14_2,singleton" */
int options_parse_dependencies(const char *text, struct dependency **deps, size_t *n, bool *singleton, struct error *err);
/* "USR1@60", "B:TERM@30", "10": seconds default to 60, as Slurm's. */
int options_parse_signal(const char *text, int *signal, int64_t *before_s, struct error *err);

/* The rows as a command line reads them (base/args.h); row for row, --help left out. The caller frees it. */
struct args_option *options_args(void);

#endif
