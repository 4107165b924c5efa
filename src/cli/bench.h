/* SPDX-License-Identifier: MIT
 *
 * rad bench collocate: commands side by side on one GPU, and how fast each is. What its parts have in common; verb_bench.c
 * reads the command line, bench_run.c goes through the modes.
 *
 * The unit is a *row*: one measurement of so many tasks in one mode, a JSON object on a line of the results file. What is said
 * at the end is made of rows alone, so that a bench that was interrupted goes on with those it has.
 */
#ifndef RAD_CLI_BENCH_H
#define RAD_CLI_BENCH_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, word, in the order in which they are measured */
#define BENCH_MODES(X) \
	X(BENCH_SERIAL, "serial")	/* each command alone: what the others are compared with */ \
	X(BENCH_STREAMS, "streams")	/* time slicing */ \
	X(BENCH_MPS, "mps") \
	X(BENCH_PERCENT, "mps-percent")	/* MPS, and each task held to its part of the SMs */ \
	X(BENCH_MIG, "mig")		/* a MIG instance each */

enum bench_mode {
#define X(name, word) name,
	BENCH_MODES(X)
#undef X
	BENCH_MODE_COUNT
};

#define BENCH_MAX_DEGREE 48	/* MPS has room for so many clients */
#define BENCH_MAX_DEGREES 16
#define BENCH_MAX_COMMANDS 16

struct bench_command {
	char **argv;		/* ends with NULL; borrowed */
	char *name;		/* of its words, short */
};

/* What is asked for. */
struct bench_plan {
	struct bench_command commands[BENCH_MAX_COMMANDS];
	size_t n_commands;
	int64_t degrees[BENCH_MAX_DEGREES];	/* ascending; how many tasks at a time */
	size_t n_degrees;
	bool modes[BENCH_MODE_COUNT];
	bool modes_given;	/* by the caller: what is not possible here is then an error */
	int64_t repeat;		/* measurements of each */
	double seconds;		/* of each, at least */
	double patience_s;	/* without a word of progress, until a task is given up */
	const char *pattern;	/* of progress lines; NULL: those that rad knows */
	int64_t gpu;		/* index; -1: the one that this was given */
};

const char *bench_mode_name(enum bench_mode m);

/* Arguments and output are bytes; what has no form in JSON becomes '?', as does what would move a cursor. */
void bench_make_showable(char *text);

#endif
