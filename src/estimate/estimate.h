/* SPDX-License-Identifier: MIT
 *
 * Estimators of GPU memory: one table, one contract.
 *	need	smallest cap under which the task still works
 *	comfort	what it takes when memory is free (what the driver shows on an empty GPU)
 *	claim	what placement holds: comfort + the estimator's calibrated margin
 * All MiB per GPU, context included. An estimator that has nothing to say returns false and says why in a note.
 *
 * To add one: a file in this folder with its function, the function's declaration in table.h, a row in estimate.c where
 * `auto` should ask it, a test, a line in the manual. The contract of the function:
 *	- it is pure: what it may know is in its arguments;
 *	- it starts from a zeroed result and leaves `value.estimator` alone (the table's name is put there);
 *	- true: need, comfort and claim are set, need <= comfort <= claim; `note` says from what;
 *	- false: `note` says what is missing, in words for the person who asked.
 */
#ifndef RAD_ESTIMATE_ESTIMATE_H
#define RAD_ESTIMATE_ESTIMATE_H

#include "base/error.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

/* What is known beside the spec. */
struct estimate_context {
	const char *gpu_name;		/* model it will run on; NULL: not known */
	uint64_t gpu_total_mib;		/* 0: not known */
	/* What finished runs of the same signature took; NULL when no history is kept. */
	const struct estimate_history *history;
};

struct estimate_history {
	uint64_t peak_mib;		/* largest of warm, completed attempts; 0: none */
	unsigned runs;
	uint64_t oom_floor_mib;		/* it ran out of memory at this much; 0: never */
};

struct estimate_result {
	struct estimate value;
	uint64_t low_mib, high_mib;	/* interval; 0: not given */
	char note[200];			/* from what, or why not */
};

struct estimator {
	const char *name;
	const char *help;
	bool slow;	/* may take over a millisecond: runs in a worker process, never in the daemon's loop */
	bool (*estimate)(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out);
	bool baseline;	/* published by others, to compare with: asked by name only, never by `auto` */
};

/* In the order in which `auto` asks them; ends with a NULL name. */
extern const struct estimator estimators[];

const struct estimator *estimate_find(const char *name, struct error *err);

/* Asks one estimator: *out is zeroed before and named after. Returns what it returned. */
bool estimate_ask(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		  struct estimate_result *out);

/* What that estimator says, or "none"; NULL: `auto`. Else as estimate_auto. */
void estimate_by(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		 struct estimate_result *out);

/* `auto`: the first that speaks, slow ones not asked; never below the out-of-memory floor of the same signature, which is also
 * the claim when nobody speaks. `declared_mib` is the task's current declaration (it may be updated after submission); 0: none.
 * Always fills *out ("none" at the end). */
void estimate_auto(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out);

#endif
