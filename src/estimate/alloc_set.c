/* SPDX-License-Identifier: MIT
 *
 * Free blocks in order of size, then address: a chain for each class of sizes, sixteen classes between powers of two, and a bit
 * that says which have any. Jobs ask for few sizes again and again, so chains are short and what comes new belongs near an end
 * of its own: nothing is searched for in the sense of a tree, and taking a block out looks at no other. Steps along a chain are
 * counted as work.
 */
#include "estimate/alloc_private.h"

#define FIRST_LOG 9	/* of ALLOC_LEAST: classes begin there */
#define LOG_PARTS 4	/* 2^4 classes between powers of two */
#define UNMAPPED 0	/* the class of all that is not mapped, in order of address */

static unsigned class_of_size(uint64_t size)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(size | ALLOC_LEAST);
	unsigned class = 1 + ((log - FIRST_LOG) << LOG_PARTS) + ((unsigned)(size >> (log - LOG_PARTS)) & ((1u << LOG_PARTS) - 1));

	return class < ALLOC_CLASSES ? class : ALLOC_CLASSES - 1;
}

static unsigned class_of(const struct block *b)
{
	return b->mapped ? class_of_size(b->size) : UNMAPPED;
}

/* Whether `x` stands in front of `y`, of the same class. Equal sizes by address: PyTorch's comparator, which decides which of
 * two equal blocks is taken. */
static bool is_before(const struct block *x, const struct block *y)
{
	return x->size != y->size && x->mapped ? x->size < y->size : x->address < y->address;
}

static bool alloc_set_has(const struct alloc_set *s, unsigned class)
{
	return s->filled[class / 64] >> class % 64 & 1;
}

/* The first class from that one on that has blocks; ALLOC_CLASSES: none. */
static unsigned filled_from(const struct alloc_set *s, unsigned class)
{
	uint64_t word;

	for (unsigned i = class / 64; i < ALLOC_CLASSES / 64; i++) {
		word = i == class / 64 ? s->filled[i] >> class % 64 << class % 64 : s->filled[i];
		if (word)
			return i * 64 + (unsigned)__builtin_ctzll(word);
	}
	return ALLOC_CLASSES;
}

/* The last class up to that one that has blocks; UNMAPPED: none. */
static unsigned filled_to(const struct alloc_set *s, unsigned class)
{
	while (class > UNMAPPED && !alloc_set_has(s, class))
		class--;
	return class;
}

/* Puts `b` between two of its class, either of which may be 0. */
static void alloc_set_chain(struct alloc_sim *a, struct alloc_set *s, unsigned class, block_ref b, block_ref lower,
			    block_ref upper)
{
	a->blocks[b].lower = lower;
	a->blocks[b].upper = upper;
	if (lower)
		a->blocks[lower].upper = b;
	else
		s->ends[class].first = b;
	if (upper)
		a->blocks[upper].lower = b;
	else
		s->ends[class].last = b;
}

void alloc_set_insert(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	const struct block *new = &a->blocks[b];
	unsigned class = class_of(new);
	block_ref lower, upper = 0;

	if (!alloc_set_has(s, class)) {
		s->filled[class / 64] |= (uint64_t)1 << class % 64;
		alloc_set_chain(a, s, class, b, 0, 0);
		return;
	}
	if (is_before(new, &a->blocks[s->ends[class].first])) {
		alloc_set_chain(a, s, class, b, 0, s->ends[class].first);
		return;
	}
	for (lower = s->ends[class].last; is_before(new, &a->blocks[lower]); lower = a->blocks[lower].lower) {
		upper = lower;
		a->stats.work++;
	}
	alloc_set_chain(a, s, class, b, lower, upper);
}

/* The block keeps its stale links: whoever takes it out puts it in again or drops it. */
static void alloc_set_unchain(struct alloc_sim *a, struct alloc_set *s, unsigned class, block_ref b)
{
	block_ref lower = a->blocks[b].lower, upper = a->blocks[b].upper;

	if (lower)
		a->blocks[lower].upper = upper;
	else
		s->ends[class].first = upper;
	if (upper)
		a->blocks[upper].lower = lower;
	else
		s->ends[class].last = lower;
	if (!lower && !upper)
		s->filled[class / 64] &= ~((uint64_t)1 << class % 64);
}

void alloc_set_remove(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	alloc_set_unchain(a, s, class_of(&a->blocks[b]), b);
}

/* Whether a block stands between its neighbours in the chain. */
static bool alloc_set_fits(const struct alloc_sim *a, const struct block *b)
{
	return (!b->lower || is_before(&a->blocks[b->lower], b)) && (!b->upper || is_before(b, &a->blocks[b->upper]));
}

void alloc_set_change(struct alloc_sim *a, struct alloc_set *s, block_ref b, uint64_t address, uint64_t size)
{
	struct block *block = &a->blocks[b];
	unsigned before = class_of(block);

	block->address = address;
	block->size = size;
	if (class_of(block) == before && alloc_set_fits(a, block))
		return;
	alloc_set_unchain(a, s, before, b);
	alloc_set_insert(a, s, b);
}

static block_ref first_of(const struct alloc_set *s, unsigned class)
{
	return class < ALLOC_CLASSES ? s->ends[class].first : 0;
}

/* Only the class of the size itself can hold blocks that are too small; in those above, the first one fits and is the
 * smallest. */
block_ref alloc_set_at_least(struct alloc_sim *a, const struct alloc_set *s, uint64_t size)
{
	unsigned class = class_of_size(size);

	if (alloc_set_has(s, class)) {
		for (block_ref b = s->ends[class].first; b; b = a->blocks[b].upper, a->stats.work++)
			if (a->blocks[b].size >= size)
				return b;
	}
	return first_of(s, filled_from(s, class + 1));
}

block_ref alloc_set_next(const struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	return a->blocks[b].upper ? a->blocks[b].upper : first_of(s, filled_from(s, class_of(&a->blocks[b]) + 1));
}

block_ref alloc_set_previous(const struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	unsigned class;

	if (a->blocks[b].lower)
		return a->blocks[b].lower;
	class = filled_to(s, class_of(&a->blocks[b]) - 1);
	return class ? s->ends[class].last : 0;
}

block_ref alloc_set_last(const struct alloc_set *s)
{
	unsigned class = filled_to(s, ALLOC_CLASSES - 1);

	return class ? s->ends[class].last : 0;
}

block_ref alloc_set_first_unmapped(const struct alloc_set *s)
{
	return alloc_set_has(s, UNMAPPED) ? s->ends[UNMAPPED].first : 0;
}
