/* SPDX-License-Identifier: MIT
 *
 * The simulator's blocks and sets of them, shared by the files alloc*.c only.
 */
#ifndef RAD_ESTIMATE_ALLOC_PRIVATE_H
#define RAD_ESTIMATE_ALLOC_PRIVATE_H

#include "estimate/alloc.h"

#include "base/units.h"

#define ALLOC_SMALL MIB			/* largest request of the small pool */
#define ALLOC_LEAST 512			/* what sizes are rounded to, and the least that is split off a small block */
#define ALLOC_SMALL_SEGMENT (2 * MIB)
#define ALLOC_SEGMENT_STEP (2 * MIB)	/* segments of their own are multiples of it */
#define ALLOC_OWN_SEGMENT (10 * MIB)	/* requests from here on get a segment of their own size */

enum { POOL_SMALL, POOL_LARGE, POOLS };

/* Index into the simulator's blocks; 0 is none. Blocks move when the array grows: hold indices, not pointers. */
typedef uint32_t block_ref;

struct block {
	uint64_t address, size;
	union {
		uint64_t born;		/* the pool's searches when it became free: its age for garbage collection */
		uint64_t base;		/* first address of its expandable range */
	};
	block_ref before, after;	/* neighbours of the same segment; `after` also chains unused blocks */
	block_ref lower, upper;		/* neighbours in a set's chain */
	block_ref left, right;		/* below it in the tree over that chain: what stands in front of it, and behind it */
	uint16_t stream;
	uint8_t pool;
	bool used, mapped;		/* mapped: backed by memory; false only in expandable ranges */
};

#define ALLOC_CLASSES 768	/* sizes up to 2^56 */

/* Blocks that are not used, of one pool and stream (alloc_set.c): free ones, and in expandable ranges unmapped ones. */
struct alloc_set {
	uint64_t filled[ALLOC_CLASSES / 64];		/* which classes have any */
	struct { block_ref first, last, root; } ends[ALLOC_CLASSES];	/* of the others: anything */
};

struct pool {
	struct alloc_set *sets[ALLOC_STREAMS];	/* owned; NULL: nothing yet. A block serves no other stream */
	unsigned streams;			/* those from here on have nothing */
	uint64_t searches;			/* counted only while garbage is collected */
};

struct alloc_sim {
	struct alloc_conf conf;
	struct alloc_watch watch;
	uint64_t cap;
	bool hard;
	struct alloc_stats stats;
	struct pool pools[POOLS];
	struct block *blocks;		/* owned; [0] is not used */
	uint32_t n_blocks, cap_blocks;
	block_ref unused;		/* chain of blocks to use again */
	block_ref *live;		/* by request id, owned; 0: not live */
	uint32_t n_live;
	uint64_t next_address;
};

/* Sets (alloc_set.c), by size, then address; unmapped blocks by address alone. */
void alloc_set_insert(struct alloc_sim *a, struct alloc_set *s, block_ref b);
void alloc_set_remove(struct alloc_sim *a, struct alloc_set *s, block_ref b);
/* Gives a block another place and size, and moves it where it belongs then. */
void alloc_set_change(struct alloc_sim *a, struct alloc_set *s, block_ref b, uint64_t address, uint64_t size);
/* The first free block that is `size` or larger. */
block_ref alloc_set_at_least(struct alloc_sim *a, const struct alloc_set *s, uint64_t size);
/* The free block after a free one, and the one before; 0 at the end. */
block_ref alloc_set_next(const struct alloc_sim *a, const struct alloc_set *s, block_ref b);
block_ref alloc_set_previous(const struct alloc_sim *a, const struct alloc_set *s, block_ref b);
block_ref alloc_set_last(const struct alloc_set *s);
/* The unmapped block of the lowest address; the next ones are its `upper`. */
block_ref alloc_set_first_unmapped(const struct alloc_set *s);

/* Blocks (alloc_block.c). */
struct alloc_set *alloc_set_of(struct alloc_sim *a, unsigned pool, unsigned stream);
block_ref alloc_block_new(struct alloc_sim *a, uint64_t address, uint64_t size, unsigned stream, unsigned pool);
void alloc_block_drop(struct alloc_sim *a, block_ref b);
/* Enters a block, used no longer, among the free (or the unmapped) of its pool and stream. */
void alloc_block_offer(struct alloc_sim *a, block_ref b);
/* A free block gets other bounds. */
void alloc_block_reshape(struct alloc_sim *a, block_ref b, uint64_t address, uint64_t size);
void alloc_block_withdraw(struct alloc_sim *a, block_ref b);
/* Puts `b` behind `before` and in front of `after`, either of which may be 0. */
static inline void alloc_block_link(struct alloc_sim *a, block_ref b, block_ref before, block_ref after)
{
	a->blocks[b].before = before;
	a->blocks[b].after = after;
	if (before)
		a->blocks[before].after = b;
	if (after)
		a->blocks[after].before = b;
}
/* Takes a free neighbour into `b` if it is in the same state; `b` stands in no set. */
void alloc_block_merge(struct alloc_sim *a, block_ref b, block_ref neighbour);
uint64_t alloc_place(struct alloc_sim *a, uint64_t size);
void alloc_reserve(struct alloc_sim *a, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream);
void alloc_unreserve(struct alloc_sim *a, enum alloc_event event, uint64_t address, uint64_t size, unsigned stream);

/* Expandable ranges (alloc_expand.c). */
/* A free block of at least `size`; 0: the cap does not allow it. */
block_ref alloc_expand_take(struct alloc_sim *a, unsigned pool, uint64_t size, unsigned stream);
/* Whether and what a search finds: `b` or one that suits better, given what each can grow to. */
block_ref alloc_expand_choose(struct alloc_sim *a, const struct alloc_set *s, block_ref b);
/* Unmaps the whole pages of a free block; drops the range when nothing is left of it. */
void alloc_expand_release(struct alloc_sim *a, block_ref b);

#endif
