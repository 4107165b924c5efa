/* SPDX-License-Identifier: MIT
 *
 * What happens when: a binary heap of times, each of one thing, known by its number. A thing has at most one time; equal times
 * come in the order of the numbers, so a simulation does not depend on how the heap grew.
 */
#ifndef RAD_SIM_HEAP_H
#define RAD_SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap {
	struct heap_item { int64_t t_ms; uint32_t thing; } *items;
	size_t n, cap;
	uint32_t *at;		/* thing -> its place in items plus one; 0: it has no time */
	size_t n_things;
};

void heap_free(struct heap *h);
/* Sets or changes the time of a thing; INT64_MAX: it has none. */
void heap_set(struct heap *h, uint32_t thing, int64_t t_ms);
/* The earliest time, INT64_MAX if there is none. */
int64_t heap_first(const struct heap *h);
/* Takes out and returns the thing of the earliest time. There must be one. */
uint32_t heap_take(struct heap *h);

#endif
