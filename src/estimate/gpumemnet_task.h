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

/* True: *t is filled, of a family that was measured, and is to be cleared. False: `note` says what is missing. */
bool gpumemnet_task_read(const struct spec *s, struct gpumemnet_task *t, char note[200]);
void gpumemnet_task_clear(struct gpumemnet_task *t);

/* "cnn, batch 32, SOURCE; taken as Adam; a note of the parser": from what an answer is. Returns `text`, cut where full. */
const char *gpumemnet_task_about(const struct gpumemnet_task *t, const char *source, char text[200]);

/* MiB that a process takes before its first tensor on that card beyond what it takes on another; NULL: not known, 0. */
double gpumemnet_context_more(const char *gpu_name, const char *measured_on);

#endif
