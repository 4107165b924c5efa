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
 *	- it starts from a zeroed result and leaves `value.estimator` and `value.note` alone (the table's name is put there, and
 *	  the note is `note`);
 *	- true: need, comfort and claim are set, need <= comfort <= claim; `note` says from what;
 *	- false: `note` says what is missing, in words for the person who asked.
 */
#ifndef RAD_ESTIMATE_ESTIMATE_H
#define RAD_ESTIMATE_ESTIMATE_H

#include "base/error.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

struct margins;	/* estimate/margin.h */
struct activity;	/* estimate/activity.h */

/* What is known beside the spec. */
struct estimate_context {
	const char *gpu_name;		/* model it will run on; NULL: not known */
	uint64_t gpu_total_mib;		/* 0: not known */
	bool no_gpu;			/* it asks for none */
	/* What finished runs of the same signature took; NULL when no history is kept. */
	const struct estimate_history *history;
	struct margins *margins;	/* learnt ones of all estimators; NULL: none, or `margin` is set */
	double margin;			/* learnt one of the estimator that is asked; 0: none, it takes its own */
	/* Of the host that loads are told for (hostpace.h); 0: of those the model was fitted on. The daemon leaves it: it keeps
	 * loads for those, and puts in what it knows of its host by the time it looks at them. */
	double host_pace;
};

/* What is known of runs of one signature (estimate/history.h). All MiB, the largest on one GPU; 0: not known. */
struct estimate_history {
	uint64_t peak_mib;		/* largest of warm attempts that completed without a limit */
	unsigned runs;			/* how many those were */
	uint64_t bound_mib;		/* largest of all others: it takes at least that */
	uint64_t cut_mib;		/* largest of the warm ones among those */
	unsigned cut;			/* how many those were */
	uint64_t limit_mib;		/* smallest limit under which one completed */
	uint64_t oom_floor_mib;		/* it ran out of memory: nothing below this */
	struct load_belief load;	/* measured alone, else inferred in company, else unknown */
	double work_s;			/* mean time alone of those that completed; NaN: not known */
	double alone_per_s;		/* units of their own progress a second, alone; 0: not known */
	double cores;			/* that its threads ran on or waited for; 0: not known */
	bool other_gpu;			/* all this was seen on another model of GPU, or it is not known on which it will run */
	const char *gpu_name;		/* that model; NULL: nothing is known at all */
};

struct estimate_result {
	struct estimate value;
	uint64_t low_mib, high_mib;	/* interval; 0: not given */
	char note[200];			/* from what, or why not */
};

struct estimator {
	const char *name;
	/* Whether asking it about that task may take over a millisecond: the daemon then has it done by another process, and
	 * the task waits. NULL: never. */
	bool (*slow)(const struct spec *s);
	bool (*estimate)(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out);
	bool baseline;	/* published by others, to compare with: asked by name only, never by `auto` */
	/* Its answer is at hand and says nothing of load, which what the task came with may tell: reading that is slow, and the
	 * answer comes with it (estimate_add_load). */
	bool load_aside;
};

/* In the order in which `auto` asks them; ends with a NULL name. */
extern const struct estimator estimators[];

const struct estimator *estimate_find(const char *name, struct error *err);

/* Asks one estimator: *out is zeroed before and named after. Returns what it returned. */
bool estimate_ask(const struct estimator *e, const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		  struct estimate_result *out);

/* What a task is expected to do to a GPU, from what it came with; 0, or -1 with *out zeroed and an error that says what is
 * missing. `tells`: whether there is something to read, which takes time. */
bool estimate_tells_load(const struct spec *s);
int estimate_activity(const struct spec *s, const struct estimate_context *c, struct activity *out, struct error *err);
/* Puts that into an answer which says nothing of load. */
void estimate_add_load(const struct spec *s, const struct estimate_context *c, struct estimate_result *out);

/* What becomes of slow rows. */
enum estimate_slow {
	SLOW_ASK,	/* they are asked */
	SLOW_SKIP,	/* they are passed over */
	SLOW_STOP,	/* the caller has the first of them asked, with estimate_add_load, and goes on from there; so too a row
			 * that has an answer with load aside */
};

/* `auto`: from row `e` on, the first that speaks. Returns NULL and fills *out (row "none" when nobody speaks); with SLOW_STOP
 * also the slow row whose turn it is, *out then being undefined. `declared_mib` is the task's current declaration (it may be
 * updated after submission); 0: none. */
const struct estimator *estimate_auto(const struct estimator *e, enum estimate_slow slow, const struct spec *s,
				      uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out);

/* The last word on any answer: never below the out-of-memory floor of the same signature, which is also the claim when nobody
 * spoke; `out->value.note` is set to `out->note`, made printable. It lives as long as *out. */
void estimate_conclude(const struct estimate_context *c, struct estimate_result *out);

#endif
