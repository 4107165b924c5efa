/* SPDX-License-Identifier: MIT
 *
 * Free blocks in order of size, then address, as treaps whose links are in the blocks: binary trees by key that are heaps by
 * numbers drawn at random, which keeps them balanced in expectation whatever the requests are.
 */
#include "estimate/alloc_private.h"

#include "base/alloc.h"

/* Unmapped blocks are found by address only. */
static inline uint64_t key(const struct block *b)
{
	return b->mapped ? b->size : 0;
}

static inline bool goes_before(const struct block *x, const struct block *y)
{
	uint64_t a = key(x), b = key(y);

	return a != b ? a < b : x->address < y->address;
}

void alloc_tree_insert(struct alloc_sim *a, block_ref *at, block_ref b)
{
	struct block *all = a->blocks, *new = &all[b];
	block_ref *less = &new->less, *more = &new->more, n;

	while (*at && all[*at].weight >= new->weight)
		at = goes_before(new, &all[*at]) ? &all[*at].less : &all[*at].more;
	n = *at;
	*at = b;
	while (n) {	/* what hung there is parted by the new one's key */
		if (goes_before(&all[n], new)) {
			*less = n;
			less = &all[n].more;
			n = *less;
		} else {
			*more = n;
			more = &all[n].less;
			n = *more;
		}
	}
	*less = *more = 0;
}

void alloc_tree_remove(struct alloc_sim *a, block_ref *at, block_ref b)
{
	struct block *all = a->blocks;
	block_ref x = all[b].less, y = all[b].more;

	while (*at != b)
		at = goes_before(&all[b], &all[*at]) ? &all[*at].less : &all[*at].more;
	while (x && y) {
		if (all[x].weight > all[y].weight) {
			*at = x;
			at = &all[x].more;
			x = *at;
		} else {
			*at = y;
			at = &all[y].less;
			y = *at;
		}
	}
	*at = x ? x : y;
}

block_ref alloc_tree_at_least(const struct alloc_sim *a, block_ref n, uint64_t size)
{
	const struct block *all = a->blocks;
	block_ref found = 0;

	while (n) {
		if (key(&all[n]) >= size) {
			found = n;
			n = all[n].less;
		} else {
			n = all[n].more;
		}
	}
	return found;
}

block_ref alloc_tree_next(const struct alloc_sim *a, block_ref n, block_ref b)
{
	const struct block *all = a->blocks;
	block_ref found = 0;

	while (n) {
		if (goes_before(&all[b], &all[n])) {
			found = n;
			n = all[n].less;
		} else {
			n = all[n].more;
		}
	}
	return found;
}

block_ref alloc_tree_previous(const struct alloc_sim *a, block_ref n, block_ref b)
{
	const struct block *all = a->blocks;
	block_ref found = 0;

	while (n) {
		if (goes_before(&all[n], &all[b])) {
			found = n;
			n = all[n].more;
		} else {
			n = all[n].less;
		}
	}
	return found;
}

block_ref alloc_tree_last(const struct alloc_sim *a, block_ref n)
{
	while (n && a->blocks[n].more)
		n = a->blocks[n].more;
	return n;
}

uint32_t alloc_tree_list(struct alloc_sim *a, block_ref root, uint32_t n)
{
	if (!root)
		return n;
	n = alloc_tree_list(a, a->blocks[root].less, n);
	alloc_grow(a->list, n, a->cap_list);
	a->list[n++] = root;
	return alloc_tree_list(a, a->blocks[root].more, n);
}
