/* SPDX-License-Identifier: MIT
 *
 * Estimators of GPU memory: one table, one contract.
 *	need	smallest cap under which the task still works
 *	comfort	what it takes when memory is free (what the driver shows on an empty GPU)
 *	claim	what placement holds: comfort + the estimator's calibrated margin
 * All MiB per GPU, context included. An estimator that has nothing to say returns false and says why in a note.
 *
 * To add one: a file in this folder, a row in estimate.c, a test, a line in the manual.
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
};

/* In the order in which `auto` asks them; ends with a NULL name. */
extern const struct estimator estimators[];

const struct estimator *estimate_find(const char *name, struct error *err);

/* `auto`: the first that speaks; never below the out-of-memory floor of the same signature. `declared_mib` is the task's
 * current declaration (it may be updated after submission); 0: none. Always fills *out ("none" at the end). */
void estimate_auto(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out);

#endif
