/* SPDX-License-Identifier: MIT
 *
 * Reproducible chance: Steele, Lea, Flood, "Fast splittable pseudorandom number generators". Whole numbers only.
 */
#ifndef RAD_SIM_DICE_H
#define RAD_SIM_DICE_H

#include <stdint.h>

struct dice { uint64_t state; };

static inline uint64_t dice_next(struct dice *d)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* 0 .. below - 1; below at most 2^32. */
static inline uint64_t dice_below(struct dice *d, uint64_t below)
{
	return (dice_next(d) >> 32) * below >> 32;
}

/* Time until the next of events that come independently, every `mean_ms` on average; at most 10^9. Von Neumann's way to draw
 * it: only comparing uniform numbers, no logarithm, whose last digit differs from machine to machine. The length of the first
 * falling run decides whether its first number is the fractional part; each rejection adds one to the whole part. */
static inline int64_t dice_exponential_ms(struct dice *d, int64_t mean_ms)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = dice_next(d) >> 32, last = first, next;
		unsigned length = 1;
		for (; (next = dice_next(d) >> 32) < last; length++)
			last = next;
		if (length % 2)
			return (int64_t)(whole * (uint64_t)mean_ms + (first * (uint64_t)mean_ms >> 32));
	}
}

#endif
