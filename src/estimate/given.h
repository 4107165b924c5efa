/* SPDX-License-Identifier: MIT
 *
 * What a task says of itself beside its model summary. Every estimator that reads the summary is told the same.
 */
#ifndef RAD_ESTIMATE_GIVEN_H
#define RAD_ESTIMATE_GIVEN_H

#include "parse/features.h"
#include "task/spec.h"

/* Its words stay the spec's. */
struct features_given given_of_spec(const struct spec *s);

#endif
