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

#endif
