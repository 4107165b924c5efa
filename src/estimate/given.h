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

/* Of a task that has one. Returns 0 with both to be cleared, and pointing into the spec's text; or -1 with neither. */
int given_read(const struct spec *s, struct summary *summary, struct features *features, struct error *err);

#endif
