/* SPDX-License-Identifier: MIT
 *
 * What the measurements here share: a clock, and times in their order.
 */
#ifndef RAD_BENCH_BENCH_H
#define RAD_BENCH_BENCH_H

#include "base/order.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline int64_t bench_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void bench_sort(int64_t *took, size_t n)
{
	qsort(took, n, sizeof *took, order_i64);
}

#endif
