/* SPDX-License-Identifier: MIT
 *
 * Expandable segments: one long range of addresses per pool and stream, of which pages are mapped where they are needed. Blocks
 * of a range are used, free (mapped), or unmapped; an unmapped one is at its end from the start.
 *
 * Invariants: blocks of a range follow each other without a gap, and two neighbours that are both free and mapped, or both
 * unmapped, are one block; `base` is the range's first address, by which pages are counted. Nothing is ever moved: memory
 * that is scattered here is scattered on the device.
 */
#include "estimate/alloc_private.h"

#include "base/least.h"

/* More than all that can be live at once, so that a range does not end before the memory does. */
#define RANGE ((uint64_t)1 << 51)

static uint64_t expand_page(const struct alloc_sim *a, unsigned pool)
{
	return pool == POOL_SMALL ? ALLOC_SMALL_SEGMENT : a->conf.large_segment;
}

/* How large a free block is once it has grown into the unmapped one behind it. */
static uint64_t expand_grown(const struct alloc_sim *a, block_ref b)
{
	block_ref after = a->blocks[b].after;

	return a->blocks[b].size + (after && !a->blocks[after].mapped ? a->blocks[after].size : 0);
}

block_ref alloc_expand_choose(struct alloc_sim *a, const struct alloc_set *s, block_ref b)
{
	for (block_ref next = alloc_set_next(a, s, b); next && expand_grown(a, next) < expand_grown(a, b);
	     next = alloc_set_next(a, s, b)) {
		b = next;
		a->stats.work++;
	}
	return b;
}

/* Whether free and unmapped blocks from `b` on hold `size` together. */
static bool has_room(struct alloc_sim *a, block_ref b, uint64_t size)
{
	uint64_t bytes = 0;

	for (; b && !a->blocks[b].used && bytes < size; b = a->blocks[b].after, a->stats.work++)
		bytes += a->blocks[b].size;
	return bytes >= size;
}

/* The lowest place with room: an unmapped block, or the free one in front of it; of a new range where there is none. */
static block_ref find_place(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	const struct alloc_set *s = alloc_set_of(a, pool, stream);
	block_ref b;
	uint64_t whole = RANGE / expand_page(a, pool) * expand_page(a, pool);

	for (block_ref u = alloc_set_first_unmapped(s); u; u = a->blocks[u].upper) {
		block_ref before = a->blocks[u].before;

		b = before && !a->blocks[before].used ? before : u;
		if (has_room(a, b, size))
			return b;
	}
	b = alloc_block_new(a, alloc_place(a, whole), whole, stream, pool);
	a->blocks[b].mapped = false;
	a->blocks[b].base = a->blocks[b].address;
	alloc_block_offer(a, b);
	return b;
}

/* Maps whole pages at the front of an unmapped block, at least `size`, and leaves it free, merged with what is free around.
 * 0: the cap does not allow it. */
static block_ref expand_map(struct alloc_sim *a, block_ref b, uint64_t size)
{
	uint64_t unit = expand_page(a, a->blocks[b].pool), bytes = (size + unit - 1) / unit * unit, at = a->blocks[b].address;
	unsigned stream = a->blocks[b].stream, pool = a->blocks[b].pool;

	if (bytes > a->cap || a->stats.reserved > a->cap - bytes)
		return 0;
	alloc_block_withdraw(a, b);
	a->blocks[b].mapped = true;
	if (bytes < a->blocks[b].size) {
		block_ref rest = alloc_block_new(a, at + bytes, a->blocks[b].size - bytes, stream, pool);

		a->blocks[rest].mapped = false;
		a->blocks[rest].base = a->blocks[b].base;
		alloc_block_link(a, rest, b, a->blocks[b].after);
		a->blocks[b].size = bytes;
		alloc_block_offer(a, rest);
	}
	alloc_block_merge(a, b, a->blocks[b].before);
	alloc_block_merge(a, b, a->blocks[b].after);
	alloc_block_offer(a, b);
	alloc_reserve(a, ALLOC_PAGES_MAPPED, at, bytes, stream);
	return b;
}

block_ref alloc_expand_take(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	block_ref b = find_place(a, pool, size, stream);

	if (!a->blocks[b].mapped)
		b = expand_map(a, b, least_of(size, a->blocks[b].size));
	while (b && a->blocks[b].size < size) {
		block_ref after = a->blocks[b].after;

		b = expand_map(a, after, least_of(size - a->blocks[b].size, a->blocks[after].size));
	}
	return b;
}

/* A free block made of what is left of `b` on one side of the pages that go. */
static void expand_leave(struct alloc_sim *a, block_ref b, uint64_t address, uint64_t size, bool in_front)
{
	block_ref k;

	if (!size)
		return;
	k = alloc_block_new(a, address, size, a->blocks[b].stream, a->blocks[b].pool);
	a->blocks[k].base = a->blocks[b].base;
	if (in_front)
		alloc_block_link(a, k, a->blocks[b].before, b);
	else
		alloc_block_link(a, k, b, a->blocks[b].after);
	alloc_block_offer(a, k);
}

void alloc_expand_release(struct alloc_sim *a, block_ref b)
{
	uint64_t unit = expand_page(a, a->blocks[b].pool), base = a->blocks[b].base, from = a->blocks[b].address;
	uint64_t to = from + a->blocks[b].size, first = base + (from - base + unit - 1) / unit * unit;
	uint64_t last = base + (to - base) / unit * unit;

	if (first >= last)
		return;
	alloc_block_withdraw(a, b);
	expand_leave(a, b, from, first - from, true);
	expand_leave(a, b, last, to - last, false);
	a->blocks[b].address = first;
	a->blocks[b].size = last - first;
	a->blocks[b].mapped = false;
	alloc_block_merge(a, b, a->blocks[b].before);
	alloc_block_merge(a, b, a->blocks[b].after);
	alloc_unreserve(a, ALLOC_PAGES_UNMAPPED, first, last - first, a->blocks[b].stream);
	if (a->blocks[b].before || a->blocks[b].after)
		alloc_block_offer(a, b);
	else
		alloc_block_drop(a, b);
}
