/* SPDX-License-Identifier: MIT
 *
 * Task files, in three forms (rad(5)):
 *  - `.rad`: a bash script in which a line "KEY: value" at column 1 is a setting (listing 6.1 of the dissertation);
 *  - any script with lines "#RAD --option=value";
 *  - the research prototype's positional form (9 to 12 non-blank lines).
 * Pure: text in, settings and script out. The caller (`rad`) reads files with its own rights.
 */
#ifndef RAD_PARSE_RADFILE_H
#define RAD_PARSE_RADFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* One setting, with the place it came from, for errors that point. */
struct rad_setting {
	char *key;	/* long option name, "-" form: "gpu-mem", "batch-size", ...; see submit/options.h */
	char *value;
	int line;	/* 1-based */
};

enum rad_form { RAD_FORM_KEYS, RAD_FORM_DIRECTIVES, RAD_FORM_POSITIONAL };

struct radfile {
	enum rad_form form;
	struct rad_setting *settings;
	size_t n;
	char *script;		/* what bash runs; setting lines became empty lines, so that line numbers stay */
	char **notes;		/* things to tell the user ("policy on line 7 is ignored: ..."), n_notes */
	size_t n_notes;
};

/* `name` is shown in errors ("train.rad:4: ..."). `positional_policy`: whether line 7 of the positional form counts.
 * Refuses empty, binary (zero bytes, or not UTF-8), and unknown keys with the nearest known one.
 * Returns 0; or -1 with *out empty. */
int radfile_parse(const char *name, const char *text, size_t len, bool positional_policy, struct radfile *out, struct error *err);
void radfile_clear(struct radfile *f);

/* Whether a text holds "#RAD --" lines. */
bool radfile_has_directives(const char *text, size_t len);

#endif
