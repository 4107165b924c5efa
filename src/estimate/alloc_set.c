/* SPDX-License-Identifier: MIT
 *
 * Free blocks in order of size, then address: a chain for each class of sizes, sixteen classes between powers of two, and a bit
 * that says which have any. Jobs ask for few sizes again and again, so most chains are short. Where a job leaves thousands of
 * small blocks they are not, so a place in a chain is found by a tree over it (a treap, whose ranks are drawn from the blocks'
 * numbers). Blocks that are looked at are counted as work.
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

/* Which of two is nearer to the root: as good as drawn, and the same everywhere. */
static bool is_above(block_ref x, block_ref y)
{
	return x * 2654435769u > y * 2654435769u;
}

/* What a search in a tree passes last on either side of a block: its neighbours. */
struct sides { block_ref lower, upper; };

/* Where a block hangs that is in the tree, or the place above which nothing else stands that is above it. */
static block_ref *alloc_set_place(struct alloc_sim *a, struct alloc_set *s, unsigned class, block_ref b, struct sides *sides)
{
	block_ref *at = &s->ends[class].root;

	for (; *at != b && *at && is_above(*at, b); a->stats.work++) {
		if (is_before(&a->blocks[b], &a->blocks[*at])) {
			sides->upper = *at;
			at = &a->blocks[*at].left;
		} else {
			sides->lower = *at;
			at = &a->blocks[*at].right;
		}
	}
	return at;
}

/* Parts a tree into what stands in front of `b`, and behind it. */
static void alloc_set_part(struct alloc_sim *a, block_ref tree, block_ref b, struct sides *sides)
{
	block_ref *left = &a->blocks[b].left, *right = &a->blocks[b].right;

	for (; tree; a->stats.work++) {
		if (is_before(&a->blocks[tree], &a->blocks[b])) {
			*left = sides->lower = tree;
			left = &a->blocks[tree].right;
			tree = *left;
		} else {
			*right = sides->upper = tree;
			right = &a->blocks[tree].left;
			tree = *right;
		}
	}
	*left = *right = 0;
}

void alloc_set_insert(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	unsigned class = class_of(&a->blocks[b]);
	struct sides sides = { 0 };
	block_ref *place;

	if (!alloc_set_has(s, class))
		s->ends[class].root = 0;
	s->filled[class / 64] |= (uint64_t)1 << class % 64;
	place = alloc_set_place(a, s, class, b, &sides);
	alloc_set_part(a, *place, b, &sides);
	*place = b;
	alloc_set_chain(a, s, class, b, sides.lower, sides.upper);
}

/* Its two subtrees become one in its place. The block keeps its stale links: whoever takes it out puts it in again or drops
 * it. */
void alloc_set_remove(struct alloc_sim *a, struct alloc_set *s, block_ref b)
{
	unsigned class = class_of(&a->blocks[b]);
	block_ref lower = a->blocks[b].lower, upper = a->blocks[b].upper, *at = alloc_set_place(a, s, class, b, &(struct sides){ 0 });
	block_ref left = a->blocks[b].left, right = a->blocks[b].right;

	for (; left && right; a->stats.work++) {
		if (is_above(left, right)) {
			*at = left;
			at = &a->blocks[left].right;
			left = *at;
		} else {
			*at = right;
			at = &a->blocks[right].left;
			right = *at;
		}
	}
	*at = left ? left : right;
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

/* Whether a block would stand between its neighbours in the chain. */
static bool alloc_set_fits(const struct alloc_sim *a, block_ref b, const struct block *changed)
{
	const struct block *block = &a->blocks[b];

	return class_of(changed) == class_of(block) && (!block->lower || is_before(&a->blocks[block->lower], changed)) &&
	       (!block->upper || is_before(changed, &a->blocks[block->upper]));
}

void alloc_set_change(struct alloc_sim *a, struct alloc_set *s, block_ref b, uint64_t address, uint64_t size)
{
	struct block changed = a->blocks[b];
	bool fits;

	changed.address = address;
	changed.size = size;
	fits = alloc_set_fits(a, b, &changed);
	if (!fits)
		alloc_set_remove(a, s, b);
	a->blocks[b].address = address;
	a->blocks[b].size = size;
	if (!fits)
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

	block_ref found = 0;

	for (block_ref at = alloc_set_has(s, class) ? s->ends[class].root : 0; at; a->stats.work++) {
		bool fits = a->blocks[at].size >= size;

		found = fits ? at : found;
		at = fits ? a->blocks[at].left : a->blocks[at].right;
	}
	return found ? found : first_of(s, filled_from(s, class + 1));
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
