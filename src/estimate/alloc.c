/* SPDX-License-Identifier: MIT
 *
 * The simulator: requests, frees, and what happens when no free block fits. Expandable ranges are in alloc_expand.c.
 *
 * It does what PyTorch's CUDACachingAllocator does, in the same order, because what a job reserves hangs on every choice of a
 * block: a rule that is nearly right drifts away from the truth after a few hundred requests. tests/golden holds what PyTorch
 * itself did on a GPU, event by event, and a test demands the same. Times, streams' events and the driver's own rounding are
 * left out: a block is free as soon as it is freed, which is what the host sees in training on one stream.
 *
 * A request that does not fit goes through the same steps as there: a free block, garbage collection, a new segment, oversize
 * blocks given back, everything given back, and only then out of memory. `lacking` says after a failure how much would have
 * helped, from which the search for the smallest cap learns (replay.c).
 */
#include "estimate/alloc_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ADDRESS ((uint64_t)1 << 32)

struct alloc_sim *alloc_sim_create(const struct alloc_conf *conf, const struct alloc_watch *watch)
{
	struct alloc_sim *a = alloc_zero(sizeof *a);

	a->conf = *conf;
	if (watch)
		a->watch = *watch;
	alloc_sim_reset(a, ALLOC_NO_CAP);
	return a;
}

void alloc_sim_destroy(struct alloc_sim *a)
{
	if (!a)
		return;
	for (int p = 0; p < POOLS; p++)
		for (unsigned s = 0; s < ALLOC_STREAMS; s++)
			free(a->pools[p].sets[s]);
	free(a->blocks);
	free(a->live);
	free(a);
}

/* Keeps the memory it has grown: replays of one capture under many caps are many short lives of one simulator. */
void alloc_sim_reset(struct alloc_sim *a, uint64_t cap)
{
	for (int p = 0; p < POOLS; p++) {
		for (unsigned s = 0; s < a->pools[p].streams; s++)
			if (a->pools[p].sets[s])
				memset(a->pools[p].sets[s]->filled, 0, sizeof a->pools[p].sets[s]->filled);
		a->pools[p].streams = 0;	/* of this life: what was looked through in an earlier one is no work of it */
		a->pools[p].searches = 0;
	}
	memset(&a->stats, 0, sizeof a->stats);
	if (a->n_live)
		memset(a->live, 0, a->n_live * sizeof *a->live);
	a->n_blocks = 1;
	a->unused = 0;
	a->next_address = FIRST_ADDRESS;
	alloc_sim_set_cap(a, cap, false);
}

void alloc_sim_set_cap(struct alloc_sim *a, uint64_t cap, bool hard)
{
	a->cap = cap;
	a->hard = hard;
}

/* Room for ids below `n`. */
static void make_ids(struct alloc_sim *a, uint32_t n)
{
	if (n <= a->n_live)
		return;
	n = n < 1024 ? 1024 : n + n / 2;
	a->live = alloc_resize(a->live, n, sizeof *a->live);
	memset(a->live + a->n_live, 0, (n - a->n_live) * sizeof *a->live);
	a->n_live = n;
}

/* Sets are copied whole, chains and all: references are indices, so they mean the same in the copy. */
static void copy_pool(struct alloc_sim *to, const struct alloc_sim *from, unsigned pool)
{
	const struct pool *p = &from->pools[pool];

	for (unsigned s = 0; s < p->streams; s++)
		if (p->sets[s])
			*alloc_set_of(to, pool, s) = *p->sets[s];
	to->pools[pool].searches = p->searches;
}

void alloc_sim_copy(struct alloc_sim *to, const struct alloc_sim *from)
{
	alloc_sim_reset(to, from->cap);
	to->hard = from->hard;
	for (unsigned p = 0; p < POOLS; p++)
		copy_pool(to, from, p);
	to->stats = from->stats;
	to->unused = from->unused;
	to->next_address = from->next_address;
	if (to->cap_blocks < from->n_blocks)
		to->blocks = alloc_resize(to->blocks, to->cap_blocks = from->cap_blocks, sizeof *to->blocks);
	to->n_blocks = from->n_blocks;
	if (from->n_blocks > 1)
		memcpy(to->blocks + 1, from->blocks + 1, (from->n_blocks - 1) * sizeof *to->blocks);
	make_ids(to, from->n_live);
	if (from->n_live)
		memcpy(to->live, from->live, from->n_live * sizeof *to->live);
}

const struct alloc_stats *alloc_sim_stats(const struct alloc_sim *a)
{
	return &a->stats;
}

/* --- giving back --- */

/* A free block that is a segment of its own goes back to the driver. */
static void alloc_release(struct alloc_sim *a, block_ref b)
{
	struct block *block = &a->blocks[b];

	alloc_block_withdraw(a, b);
	alloc_unreserve(a, ALLOC_SEGMENT_GONE, block->address, block->size, block->stream);
	alloc_block_drop(a, b);
}

static bool is_segment(const struct block *b)
{
	return !b->before && !b->after;
}

/* The free block that follows `b` in its pool, of any stream; with 0 the first. In order of stream, size and address. */
static block_ref next_free(struct alloc_sim *a, const struct pool *p, block_ref b)
{
	unsigned stream = b ? a->blocks[b].stream : 0;
	block_ref next = b ? alloc_set_next(a, p->sets[stream++], b) : 0;

	a->stats.work++;
	for (; !next && stream < p->streams; stream++, a->stats.work++)
		if (p->sets[stream])
			next = alloc_set_at_least(a, p->sets[stream], 0);
	return next;
}

void alloc_sim_empty_cache(struct alloc_sim *a)
{
	static const int order[] = { POOL_LARGE, POOL_SMALL };

	for (int i = 0; i < POOLS; i++) {
		const struct pool *p = &a->pools[order[i]];

		for (block_ref b = next_free(a, p, 0), next; b; b = next) {
			next = next_free(a, p, b);	/* what is left of `b` is smaller, and so stands before it */
			if (a->conf.expandable)
				alloc_expand_release(a, b);
			else if (is_segment(&a->blocks[b]))
				alloc_release(a, b);
		}
	}
}

/* Releases the smallest oversize block that would make room for the request, or, where none alone does, the largest of them
 * until they do together. Without max_split_size no block is oversize. */
static bool release_oversize(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	struct alloc_set *s = alloc_set_of(a, pool, stream);
	block_ref b, next;
	uint64_t want = size < a->conf.max_split ? a->conf.max_split : size, released = 0;

	if (a->conf.max_split == UINT64_MAX || a->conf.expandable)
		return false;
	b = alloc_set_at_least(a, s, want);
	if (b) {
		alloc_release(a, b);
		return true;
	}
	for (b = alloc_set_last(s); b && released < want && a->blocks[b].size >= a->conf.max_split; b = next) {
		next = alloc_set_previous(a, s, b);
		released += a->blocks[b].size;
		alloc_release(a, b);
	}
	return released >= want;
}

/* Whether old blocks are collected: only where a cap was set in the process itself. */
static bool alloc_collects(const struct alloc_sim *a)
{
	return a->conf.gc_threshold > 0 && a->cap != ALLOC_NO_CAP;
}

/* Free blocks of the large pool that are segments: how old they are together, and how many. */
struct garbage { uint64_t ages, n; };

static uint64_t alloc_age(const struct alloc_sim *a, const struct block *b)
{
	return a->pools[b->pool].searches - b->born;
}

static struct garbage find_garbage(struct alloc_sim *a)
{
	const struct pool *p = &a->pools[POOL_LARGE];
	struct garbage g = { 0 };

	for (block_ref b = next_free(a, p, 0); b; b = next_free(a, p, b)) {
		if (!is_segment(&a->blocks[b]))
			continue;
		g.ages += alloc_age(a, &a->blocks[b]);
		g.n++;
	}
	return g;
}

/* Releases what is older than average. Returns how many bytes. */
static uint64_t collect_round(struct alloc_sim *a, struct garbage *g)
{
	const struct pool *p = &a->pools[POOL_LARGE];
	double average = (double)g->ages / (double)g->n;
	uint64_t bytes = 0;

	for (block_ref b = next_free(a, p, 0), next; b; b = next) {
		const struct block *block = &a->blocks[b];

		next = next_free(a, p, b);
		if (!is_segment(block) || (double)alloc_age(a, block) < average)
			continue;
		bytes += block->size;
		g->ages -= alloc_age(a, block);
		g->n--;
		alloc_release(a, b);
	}
	return bytes;
}

/* Rounds of it, until what is above the threshold has been released or nothing is left. */
static void alloc_collect(struct alloc_sim *a)
{
	uint64_t threshold = (uint64_t)(a->conf.gc_threshold * (double)a->cap), target, done = 0, bytes = 1;
	struct garbage g;

	if (a->stats.reserved <= threshold || a->conf.expandable)
		return;
	target = a->stats.reserved - threshold;
	g = find_garbage(a);
	while (done < target && bytes && g.n)
		done += bytes = collect_round(a, &g);
}

/* --- requests --- */

/* PyTorch's roundup_power2_divisions: one range for each power of two from 1 MiB on. */
static unsigned power2_range(uint64_t size)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(size | MIB);

	return log - 20 < ALLOC_POWER2_RANGES ? log - 20 : ALLOC_POWER2_RANGES - 1;
}

uint64_t alloc_round(const struct alloc_conf *conf, uint64_t size)
{
	uint64_t divisions, step;

	if (size < ALLOC_LEAST)
		return size ? ALLOC_LEAST : 0;
	divisions = conf->power2_divisions[power2_range(size)];
	step = ALLOC_LEAST;
	if (divisions > 1 && size > ALLOC_LEAST * divisions)
		step = ((uint64_t)1 << (63 - __builtin_clzll(size))) / divisions;
	return (size + step - 1) & ~(step - 1);	/* divisions are powers of two, and so are steps */
}

/* PyTorch's get_allocation_size. */
static uint64_t segment_size(const struct alloc_conf *conf, uint64_t size)
{
	if (size <= ALLOC_SMALL)
		return ALLOC_SMALL_SEGMENT;
	if (size < ALLOC_OWN_SEGMENT)
		return conf->large_segment;
	return (size + ALLOC_SEGMENT_STEP - 1) / ALLOC_SEGMENT_STEP * ALLOC_SEGMENT_STEP;
}

static block_ref find_free(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	const struct alloc_set *s = alloc_set_of(a, pool, stream);
	uint64_t found;
	block_ref b;

	if (alloc_collects(a))
		a->pools[pool].searches++;
	b = alloc_set_at_least(a, s, size);
	if (b && a->conf.expandable)
		b = alloc_expand_choose(a, s, b);
	if (!b)
		return 0;
	found = a->blocks[b].size;
	if (size < a->conf.max_split ? found >= a->conf.max_split : found >= size + a->conf.max_non_split_rounding)
		return 0;
	return b;
}

static block_ref new_segment(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	uint64_t bytes = segment_size(&a->conf, size);
	block_ref b;

	if (a->conf.expandable)
		return alloc_expand_take(a, pool, size, stream);
	if (bytes > a->cap || a->stats.reserved > a->cap - bytes)
		return 0;
	b = alloc_block_new(a, alloc_place(a, bytes), bytes, stream, pool);
	alloc_block_offer(a, b);
	alloc_reserve(a, ALLOC_SEGMENT_NEW, a->blocks[b].address, bytes, stream);
	return b;
}

/* A free block for the request; 0: out of memory. */
static block_ref find_room(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream)
{
	block_ref b = find_free(a, pool, size, stream);

	if (b)
		return b;
	if (alloc_collects(a))
		alloc_collect(a);
	b = new_segment(a, pool, size, stream);
	if (!b && a->hard)
		return 0;
	if (!b && release_oversize(a, pool, size, stream))
		b = new_segment(a, pool, size, stream);
	if (b)
		return b;
	alloc_sim_empty_cache(a);
	a->stats.retries++;
	b = new_segment(a, pool, size, stream);
	if (!b && !a->conf.expandable)
		a->stats.lacking = a->stats.reserved + segment_size(&a->conf, size);
	return b;
}

/* PyTorch's should_split: what is left over must be worth keeping, and requests of max_split_size or more get a block whole. */
static bool is_split(const struct alloc_sim *a, const struct block *b, uint64_t size)
{
	uint64_t rest = b->size - size;

	if (b->pool == POOL_SMALL || a->conf.expandable)
		return rest >= ALLOC_LEAST;
	return size < a->conf.max_split && rest > ALLOC_SMALL;
}

/* The front of a free block, of that size; the rest stays free. */
static block_ref alloc_split(struct alloc_sim *a, block_ref b, uint64_t size)
{
	const struct block *whole = &a->blocks[b];
	uint64_t address = whole->address;
	block_ref front = alloc_block_new(a, address, size, whole->stream, whole->pool);

	a->blocks[front].base = a->blocks[b].base;
	alloc_block_link(a, front, a->blocks[b].before, b);
	alloc_block_reshape(a, b, address + size, a->blocks[b].size - size);
	return front;
}

/* A request of 0 bytes is a NULL pointer there, and takes nothing. */
bool alloc_sim_request(struct alloc_sim *a, uint32_t id, uint64_t size, unsigned stream)
{
	uint64_t rounded = alloc_round(&a->conf, size);
	block_ref b;

	if (!size)
		return true;
	b = find_room(a, rounded <= ALLOC_SMALL ? POOL_SMALL : POOL_LARGE, rounded, stream);
	if (!b)
		return false;
	if (is_split(a, &a->blocks[b], rounded))
		b = alloc_split(a, b, rounded);
	else
		alloc_block_withdraw(a, b);
	a->blocks[b].used = true;
	a->stats.allocated += a->blocks[b].size;
	if (a->stats.peak_allocated < a->stats.allocated)
		a->stats.peak_allocated = a->stats.allocated;
	make_ids(a, id + 1);
	a->live[id] = b;
	return true;
}

static bool is_free(const struct alloc_sim *a, block_ref b)
{
	return b && !a->blocks[b].used && a->blocks[b].mapped;
}

/* A block used no longer joins the free one in front of it, or behind it, or becomes one. */
static void alloc_join(struct alloc_sim *a, block_ref b)
{
	block_ref before = a->blocks[b].before, after = a->blocks[b].after;
	uint64_t address = a->blocks[b].address, size = a->blocks[b].size;

	if (is_free(a, before)) {
		alloc_block_link(a, before, a->blocks[before].before, after);
		alloc_block_reshape(a, before, a->blocks[before].address, a->blocks[before].size + size);
	} else if (is_free(a, after)) {
		alloc_block_link(a, after, before, a->blocks[after].after);
		alloc_block_reshape(a, after, address, size + a->blocks[after].size);
	} else {
		alloc_block_offer(a, b);
		return;
	}
	alloc_block_drop(a, b);
}

void alloc_sim_free(struct alloc_sim *a, uint32_t id)
{
	block_ref b = id < a->n_live ? a->live[id] : 0;

	if (!b)
		return;
	a->live[id] = 0;
	a->blocks[b].used = false;
	a->stats.allocated -= a->blocks[b].size;
	if (is_free(a, a->blocks[b].before))
		alloc_block_merge(a, b, a->blocks[b].after);
	alloc_join(a, b);
}

uint64_t alloc_sim_address(const struct alloc_sim *a, uint32_t id)
{
	return id < a->n_live && a->live[id] ? a->blocks[a->live[id]].address : 0;
}
