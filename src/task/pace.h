/* SPDX-License-Identifier: MIT
 *
 * How fast an attempt went by what it printed of its own progress (parse/progress.h), alone and in company, and what company
 * cost it. Units are what it counts itself: steps, samples, epochs.
 *
 * Of ran_s seconds, alone_s were without a neighbour. What was done in the others would have taken their r-th part alone, r
 * being the rate in company divided by that alone, so:
 *	slowdown = ran / (alone + (ran - alone) r)
 */
#ifndef RAD_TASK_PACE_H
#define RAD_TASK_PACE_H

#include "base/error.h"

#include <jansson.h>

/* Sums. A zeroed one knows nothing; 0 seconds: never seen so. */
struct pace {
	double ran_s;			/* the time that was measured, in which alone_s and work_s of struct measured are contained */
	double whole;			/* units of the whole run; 0: not known */
	double alone_units, alone_s;	/* seen while it had its GPUs alone, and in how long: not all of the time alone, rather spans */
	double company_units, company_s;	/* with others on one of them */
	double before_per_s;		/* what earlier runs of its kind did alone; 0: not known */
	double fraction;		/* of the whole run that was done at its last word, earlier attempts included; 0: not known */
};

#define PACE_S 3	/* a rate is told by so much time at least */

/* Units a second while it was alone; NaN: not known. */
double pace_alone(const struct pace *p);

/* How many times longer it took than alone, of which alone_s it was, and work_s by the model of sharing; NaN: not known.
 * *source, how that is known: "alone" (it was never in company), "measured" (its rates in both), "history" (its rate in
 * company, and what earlier runs did alone), "law" (the model alone), NULL (it is not). */
double pace_slowdown(const struct pace *p, double alone_s, double work_s, const char **source);

/* As people see it: null where no rate is known. */
json_t *pace_show(const struct pace *p);

/* As the store keeps it: null for one that knows nothing. */
json_t *pace_to_json(const struct pace *p);
/* null and absent (NULL) know nothing, and no more does what cannot be. An error names what is wrong. */
int pace_from_json(const json_t *v, struct pace *p, struct error *err);

#endif
