/* SPDX-License-Identifier: MIT
 *
 * For qsort: numbers, the smallest first. None may be NaN.
 */
#ifndef RAD_BASE_ORDER_H
#define RAD_BASE_ORDER_H

#include <stdint.h>

static inline int order_i64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static inline int order_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

#endif
