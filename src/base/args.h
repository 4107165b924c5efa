/* SPDX-License-Identifier: MIT
 *
 * Command lines. A table of options is all there is to say about them: it is read by getopt_long, and help and completions are
 * made from the same rows.
 */
#ifndef RAD_BASE_ARGS_H
#define RAD_BASE_ARGS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A table of them, of any length, ends with a NULL name. --help is always there and stands in no table; nor does
 * -h, unless a row has it (squeue's is --noheader). */
struct args_option {
	const char *name;	/* without dashes */
	char letter;		/* 0: none */
	const char *arg;	/* placeholder of the value: "SIZE"; "[N]": may be left out, and is joined with "=" else; NULL: a flag */
	const char *help;	/* one line; NULL: for programs, and shown nowhere */
	bool *flag;		/* becomes true where it is given; may be NULL */
	const char **value;	/* becomes the last value given, borrowed from argv; may be NULL */
	const char *words;	/* all that the value can be, blanks between them; NULL: it is free */
};

struct args {
	struct args_given { const struct args_option *option; const char *value; } *given;	/* in order; value NULL: without */
	size_t n_given;
	char **words;		/* what is no option: within argv, ends with NULL */
	size_t n_words;
	bool dashes;		/* "--" stood before the words; with ARGS_FIRST only */
	bool help;		/* was asked for; then nothing else counts */
};

/* A name may be cut short, within a word and as long as only one option begins so: --inpu is --input-size. --input is not:
 * it may be another program's option, and its value would be misread. */

/* Whether options may stand among the words, or end at the first. */
enum args_place { ARGS_ANYWHERE, ARGS_FIRST };

/* argv[0] is the command. Overwrites *a, which is to be cleared whatever is returned. An error names the option. */
int args_read(struct args *a, int argc, char **argv, const struct args_option *options, enum args_place place,
	      struct error *err);
void args_clear(struct args *a);

/* The options, --help last, each with what it does beside it: on as many lines as `width` columns ask for (0: on one). */
void args_help(FILE *out, const struct args_option *options, unsigned width);
/* Whether its value is the name of a file or folder, by its placeholder: "FILE", "DIR", "T.csv". */
bool args_takes_path(const struct args_option *o);

#endif
