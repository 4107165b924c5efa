/* SPDX-License-Identifier: MIT
 *
 * What `rad estimate` and `rad parse` are told of a task that is not to run: a task file, or a model summary and options.
 */
#ifndef RAD_CLI_ESTIMATION_H
#define RAD_CLI_ESTIMATION_H

#include "base/error.h"
#include "cli/cli.h"
#include "task/spec.h"

struct estimation {
	const char *summary, *capture, *batch_size, *seq_len, *input_size, *optimizer, *precision;	/* as given; NULL: not */
	bool usage;	/* out, on an error: an option's value is wrong (exit code 2) */
};

/* Rows for a verb's table of options. */
#define ESTIMATION_OPTIONS(e) \
	{ "batch-size", 0, "N", "batch size", .value = &(e).batch_size }, \
	{ "seq-len", 0, "N", "sequence length", .value = &(e).seq_len }, \
	{ "input-size", 0, "CxHxW", "size of an image that goes in: 3x224x224", .value = &(e).input_size }, \
	{ "optimizer", 0, "NAME", "optimizer: adam, sgd, ...", .value = &(e).optimizer }, \
	{ "precision", 0, "NAME", "precision: fp32, bf16, amp, ...", .value = &(e).precision }

/* A spec with what estimators use. `path`: a task file (*.rad), a capture (*.radcap), or another model summary, or NULL;
 * options beat what is in the file. A new reference, or NULL. Notes on the file are printed. */
struct spec *estimation_read(const char *path, struct estimation *e, struct error *err);

#endif
