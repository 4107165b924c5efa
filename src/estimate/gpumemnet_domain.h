/* SPDX-License-Identifier: MIT
 *
 * What GPUMemNet learnt, as far as a task's features can tell whether it lies inside; and what a job can take at all, by
 * arithmetic.
 */
#ifndef RAD_ESTIMATE_GPUMEMNET_DOMAIN_H
#define RAD_ESTIMATE_GPUMEMNET_DOMAIN_H

#include "estimate/net.h"
#include "models/arithmetic.h"

/* Writes what lies outside the ranges of the training set, with value and range: "depth 106 (2 to 35)"; "" when nothing does.
 * Sizes may be DOMAIN_OCTAVES beyond, shares DOMAIN_SHARE. Returns `text`. */
const char *gpumemnet_outside(const struct net *net, const struct gpumemnet_vector *v, char *text, size_t size);

/* Whether any input at all is beyond the training set, by however little: a claim then wants a wider margin. */
bool gpumemnet_beyond(const struct net *net, const struct gpumemnet_vector *v);

/* MiB that a job of that reference takes, on the card of the training set: models/arithmetic.h. `family` is not OTHER. */
struct arithmetic_row gpumemnet_bounds(enum features_family family, const struct gpumemnet_vector *v);

#endif
