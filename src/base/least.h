/* SPDX-License-Identifier: MIT
 *
 * The smaller and the larger of two sizes, and a difference that stops at zero: sizes are unsigned, and one that wraps would
 * look like room for everything.
 */
#ifndef RAD_BASE_LEAST_H
#define RAD_BASE_LEAST_H

#include <stdint.h>

static inline uint64_t least_of(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t largest_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
/* a - b, 0 where b is larger. */
static inline uint64_t less_or_zero(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

#endif
