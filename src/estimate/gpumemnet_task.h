/* SPDX-License-Identifier: MIT
 *
 * From a task's spec to what estimators of summaries work on: features, and the vector with its reference.
 */
#ifndef RAD_ESTIMATE_GPUMEMNET_TASK_H
#define RAD_ESTIMATE_GPUMEMNET_TASK_H

#include "estimate/estimate.h"
#include "estimate/gpumemnet_vector.h"

struct gpumemnet_task {
	struct summary summary;		/* owned; points into the spec's text */
	struct features features;	/* owned */
	struct gpumemnet_vector vector;
};

/* What an estimator says of a task of a family that was measured. */
typedef bool gpumemnet_say(const struct gpumemnet_task *t, const struct estimate_context *c, struct estimate_result *out);

/* Reads the task, and has that said of it. False: so it was, or `out->note` says what is missing. */
bool gpumemnet_task_ask(const struct spec *s, const struct estimate_context *c, struct estimate_result *out,
			gpumemnet_say *say);

/* "cnn, batch 32, SOURCE; taken as Adam; a note of the parser": from what an answer is. Returns `text`, cut where full. */
const char *gpumemnet_task_about(const struct gpumemnet_task *t, const char *source, char text[200]);

/* MiB that a process takes before its first tensor on that card beyond what it takes on another; NULL: not known, 0. */
double gpumemnet_context_more(const char *gpu_name, const char *measured_on);

#endif
