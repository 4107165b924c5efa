/* SPDX-License-Identifier: MIT
 *
 * Task files, in three forms (rad(5)):
 *  - `.rad`: a bash script in which a line "KEY: value" at column 1 is a setting (listing 6.1 of the dissertation);
 *  - any script with lines "#RAD --option=value", or Slurm's "#SBATCH --option=value";
 *  - the research prototype's positional form (9 to 12 non-blank lines).
 * Pure: text in, settings and script out. The caller (`rad`) reads files with its own rights.
 */
#ifndef RAD_PARSE_RADFILE_H
#define RAD_PARSE_RADFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One setting, with the place it came from, for errors that point. */
struct rad_setting {
	char *key;	/* long option name, "-" form: "gpu-mem", "batch-size", ...; see submit/options.h */
	char *value;
	int line;	/* 1-based */
};

enum rad_form { RAD_FORM_KEYS, RAD_FORM_DIRECTIVES, RAD_FORM_POSITIONAL };

struct radfile {
	enum rad_form form;
	struct rad_setting *settings;	/* in the order in which they count: a later one beats an earlier one */
	size_t n;
	char *script;		/* what bash runs; setting lines became empty lines, so that line numbers stay */
	uint64_t estimates_mib[3];	/* positional form: Horus, FakeTensor and GPUMemNet figures; 0: not given */
	char **notes;		/* things to tell the user ("policy on line 7 is ignored: ..."), n_notes */
	size_t n_notes;
};

/* `name` is shown in errors ("train.rad:4: ..."); a name that does not end in ".rad" is a script in which only `#RAD` and
 * `#SBATCH` lines count. `path` is where it lies, absolute: a Python script finds the modules beside it (NULL: not known).
 * `positional_policy`: whether line 7 of the positional form counts.
 * Refuses empty, binary (zero bytes, or not UTF-8), and unknown keys with the nearest known one.
 * Returns 0; or -1 with *out empty. */
int radfile_parse(const char *name, const char *path, const char *text, size_t len, bool positional_policy,
		  struct radfile *out, struct error *err);
/* The same of one that is handed to sbatch: its `#SBATCH` lines are obeyed there, and not here, but for how many GPUs they ask
 * for. */
int radfile_parse_for_slurm(const char *name, const char *path, const char *text, size_t len, struct radfile *out,
			    struct error *err);
void radfile_clear(struct radfile *f);

/* Refuses zero bytes and what is not UTF-8, with the line. */
int radfile_check_text(const char *name, const char *text, size_t len, struct error *err);
/* Whether a path ends in ".rad". */
bool radfile_is_name(const char *path);
/* Whether a text holds "#RAD --" or "#SBATCH --" lines. */
bool radfile_has_directives(const char *text, size_t len);

#endif
