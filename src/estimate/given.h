/* SPDX-License-Identifier: MIT
 *
 * A task's model summary, read with what the task says of itself beside it. Every estimator that reads the summary is told the
 * same.
 */
#ifndef RAD_ESTIMATE_GIVEN_H
#define RAD_ESTIMATE_GIVEN_H

#include "base/error.h"
#include "parse/features.h"
#include "task/spec.h"

/* Returns 0 with both to be cleared, and pointing into the spec's text; or -1 with neither, also where the task has none. */
int given_read(const struct spec *s, struct summary *summary, struct features *features, struct error *err);
/* What no sum over it can do without, in a sentence for the person who asked; NULL: it has all. */
const char *given_lacks(const struct features *f);

#endif
