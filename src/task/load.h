/* SPDX-License-Identifier: MIT
 *
 * What a task does to a GPU that it has alone, as far as it is believed: the values, how sure they are, and where from. Made by
 * estimators (a guess), by inference in company (share/infer.h) and by measurement alone; kept with attempts and estimates.
 */
#ifndef RAD_TASK_LOAD_H
#define RAD_TASK_LOAD_H

#include "base/error.h"

#include <jansson.h>

/* A task's load on that GPU when alone; fractions 0..1. NaN: not known (share.h says what it is taken for). SMACT never exceeds
 * GRACT; where it is said to, it counts as GRACT. kernels: how many it runs in a second; 0 or NaN: not known. */
struct share_task { double gract, smact, kernels; };

/* From the weakest to the strongest; a later one replaces an earlier one. Words are those of stores and answers. */
#define LOAD_SOURCES(X) \
	X(LOAD_UNKNOWN, "unknown") \
	X(LOAD_GUESSED, "guessed")	/* before it ran: from a capture, a summary, what a person said */ \
	X(LOAD_INFERRED, "inferred")	/* from what its GPUs showed while others were there, too */ \
	X(LOAD_MEASURED, "measured")	/* alone */

enum load_source {
#define X(name, word) name,
	LOAD_SOURCES(X)
#undef X
	LOAD_SOURCE_COUNT
};

/* A zeroed one is unknown: where `source` says so, nothing else in it counts. Otherwise NaN is "not known", each by itself. */
struct load_belief {
	struct share_task load;
	double gract_sd, smact_sd;	/* one standard deviation; NaN: nobody can say, at least LOAD_VAGUE_SD */
	double dram, dram_sd;		/* DRAM activity, 0..1 */
	double watts;			/* that the GPU draws with it alone */
	enum load_source source;
	double host;			/* of a guess: part of its step that the host takes by itself (estimate/hostpace.h), 0..1; 0: not known */
	double run_s;			/* of a guess: that all its steps take together; 0: how many there are is not known */
	double limit_s;			/* of a guess: after which a clock of its own ends it at the latest; 0: none is known */
	double loader;			/* of a guess: part of its step that data loaders need (estimate/loading.h), 0..1; 0: not known */
	double cores;			/* of a guess: that it keeps busy, loaders and the thread that launches; 0: not known */
};
#define LOAD_LEAST_SD 0.03	/* no load is known better: jobs differ by as much from one run to the next */
#define LOAD_VAGUE_SD 0.3	/* as wide as a load drawn from 0..1 without looking */

/* Of which nothing is known: all NaN. */
struct load_belief load_unknown(void);
/* The same belief, with NaN for what is not known or no such figure (out of range, not finite). */
struct load_belief load_clean(const struct load_belief *b);

/* How long a run is by a guess: all its steps, or what its own clock allows; 0: not known. */
double load_run_s(const struct load_belief *b);

/* null for an unknown one. */
json_t *load_to_json(const struct load_belief *b);
/* null and absent (NULL) are unknown; members that are not there are not known. An error names what is wrong. */
int load_from_json(const json_t *v, struct load_belief *b, struct error *err);

#endif
