/* SPDX-License-Identifier: MIT
 *
 * The simulator's blocks: making, linking and merging them, keeping the free ones in the set of their pool and stream, and
 * telling whoever watches what the driver would be asked for. alloc.c and alloc_expand.c decide; here the books are kept.
 */
#include "estimate/alloc_private.h"

#include "base/alloc.h"

block_ref alloc_block_new(struct alloc_sim *a, uint64_t address, uint64_t size, unsigned stream, unsigned pool)
{
	block_ref b = a->unused;

	if (b) {
		a->unused = a->blocks[b].after;
	} else {
		alloc_grow(a->blocks, a->n_blocks, a->cap_blocks);
		b = a->n_blocks++;
	}
	a->blocks[b] = (struct block){ .address = address, .size = size, .stream = (uint16_t)stream,
		.pool = (uint8_t)pool, .mapped = true };
	return b;
}

void alloc_block_drop(struct alloc_sim *a, block_ref b)
{
	a->blocks[b].after = a->unused;
	a->unused = b;
}

struct alloc_set *alloc_set_of(struct alloc_sim *a, unsigned pool, unsigned stream)
{
	struct pool *p = &a->pools[pool];

	if (!p->sets[stream])
		p->sets[stream] = alloc_zero(sizeof *p->sets[stream]);
	if (stream >= p->streams)
		p->streams = stream + 1;
	return p->sets[stream];
}

static struct alloc_set *set_of(struct alloc_sim *a, const struct block *b)
{
	return alloc_set_of(a, b->pool, b->stream);
}

void alloc_block_offer(struct alloc_sim *a, block_ref b)
{
	struct block *block = &a->blocks[b];

	if (!a->conf.expandable)
		block->born = a->pools[block->pool].searches;
	alloc_set_insert(a, set_of(a, block), b);
}

void alloc_block_reshape(struct alloc_sim *a, block_ref b, uint64_t address, uint64_t size)
{
	struct block *block = &a->blocks[b];

	if (!a->conf.expandable)
		block->born = a->pools[block->pool].searches;
	alloc_set_change(a, set_of(a, block), b, address, size);
}

void alloc_block_withdraw(struct alloc_sim *a, block_ref b)
{
	alloc_set_remove(a, set_of(a, &a->blocks[b]), b);
}

void alloc_block_merge(struct alloc_sim *a, block_ref b, block_ref neighbour)
{
	struct block *block = &a->blocks[b], *other = &a->blocks[neighbour];

	if (!neighbour || other->used || other->mapped != block->mapped)
		return;
	alloc_block_withdraw(a, neighbour);
	if (block->before == neighbour) {
		block->address = other->address;
		alloc_block_link(a, b, other->before, block->after);
	} else {
		alloc_block_link(a, b, block->before, other->after);
	}
	block->size += other->size;
	alloc_block_drop(a, neighbour);
}

uint64_t alloc_place(struct alloc_sim *a, uint64_t size)
{
	uint64_t address = a->next_address;

	if (a->watch.place)
		return a->watch.place(a->watch.ctx, size);
	a->next_address += (size + ALLOC_SEGMENT_STEP - 1) / ALLOC_SEGMENT_STEP * ALLOC_SEGMENT_STEP;
	return address;
}

static void alloc_tell(const struct alloc_sim *a, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	if (a->watch.event)
		a->watch.event(a->watch.ctx, event, address, size, stream);
}

void alloc_reserve(struct alloc_sim *a, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	a->stats.reserved += size;
	if (a->stats.peak_reserved < a->stats.reserved)
		a->stats.peak_reserved = a->stats.reserved;
	alloc_tell(a, event, address, size, stream);
}

void alloc_unreserve(struct alloc_sim *a, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream)
{
	a->stats.reserved -= size;
	alloc_tell(a, event, address, size, stream);
}
