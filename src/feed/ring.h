/* SPDX-License-Identifier: MIT
 *
 * The ring as it lies in memory, and its arithmetic. Item s (0, 1, ... in one ring) lies in slot s mod n of n. With
 *
 *	head	items published; only the writer adds to it
 *	done_i	items that reader i needs no more: it holds none below, and may hold any of done_i .. head-1
 *
 *	(1) the writer may fill the slot of item `head` while  head - n < min done_i:  all gave back what lay there, item head - n
 *	(2) reader i may read item s while  done_i <= s < head
 *	(3) so the fastest is at most n items before the slowest, and nothing else bounds it
 *
 * Order. The writer fills slot and descriptor, then stores head with release; a reader loads it with acquire, so (2)
 * finds the bytes whole. A reader stores done_i with release after its last look at the bytes; the writer loads it with
 * acquire before (1), so no new byte is stored before the old ones were read. Each sleeper says so and looks once more; who
 * changes what it waits for then looks whether it sleeps: all four are seq_cst (no fences: ThreadSanitizer knows none), so of
 * the two at least one sees the other, and no wake-up is lost. Publishing is the one store to head: a writer that is killed
 * before it has published nothing, and after it everything.
 *
 * The ring is a memfd of the writer, of fixed size, sealed against writing by anybody but the mapping he has
 * (F_SEAL_FUTURE_WRITE; not where feed_writer_pinnable was called). The first part is this struct; slots follow. What a
 * reader says lies in a memfd of that reader's alone (struct feed_control), which the writer believes only as far as (1) and
 * (2) allow: a reader can harm nobody but itself.
 */
#ifndef RAD_FEED_RING_H
#define RAD_FEED_RING_H

#include "base/error.h"
#include "feed/feed.h"
#include "feed/figures.h"

#include <stdatomic.h>
#include <stdbool.h>

#define FEED_RING_MAGIC 0x32474e5244454546ull	/* "FEEDRNG2" */
#define FEED_RING_NAME "radfeed"	/* of its memfd */
#define FEED_NEVER UINT64_MAX

/* A position as one number, in order. */
enum { FEED_INDEX_BITS = 40 };
#define FEED_POS(epoch, index) ((uint64_t)(epoch) << FEED_INDEX_BITS | (uint64_t)(index))
#define FEED_POS_EPOCH(pos) ((pos) >> FEED_INDEX_BITS)
#define FEED_POS_INDEX(pos) ((pos) & ((1ull << FEED_INDEX_BITS) - 1))

struct feed_slot {
	uint64_t pos;		/* of the item in it */
	uint64_t bytes;
	uint64_t kind;
};

struct feed_ring {
	uint64_t magic;
	uint64_t slots;
	uint64_t slot_bytes;	/* whole pages */
	uint64_t data_at;	/* where slot 0 begins, from here; whole pages */
	uint64_t again_pos, again_sum;	/* of the item before item 0, which this writer made again to be compared; FEED_NEVER: none */
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint32_t writer_sleeps;
	_Alignas(64) _Atomic uint64_t start[FEED_READERS_MAX];	/* the item at which a reader begins; FEED_NEVER: not yet known */
	_Atomic uint32_t dropped[FEED_READERS_MAX];
	struct feed_figures_shared figures;
	struct feed_slot slot[];
};

/* One page for each reader, written by it. */
struct feed_control {
	_Atomic uint64_t done;
	_Atomic uint32_t sleeps;
	_Atomic uint64_t items, bytes, waited_us;	/* for figures alone (figures.h) */
};

/* Bytes of a whole ring; 0 if slots or slot_bytes are out of bounds. Sets *data_at. */
uint64_t feed_ring_bytes(uint64_t slots, uint64_t slot_bytes, uint64_t *data_at);
/* A memfd of that size, sealed in it; with `read_only` sealed against further writers too, once it is mapped at *map. */
int feed_ring_memory(const char *name, uint64_t bytes, bool read_only, void **map, struct error *err);
/* Of what is compared across writers: FNV-1a by words. */
uint64_t feed_ring_sum(const void *bytes, uint64_t n);
/* A ring made by somebody else: whether fd is one, and of a size that stays, so that reading it cannot fault. */
int feed_ring_check(int fd, uint64_t *bytes, struct error *err);
/* What no other memfd has while this one is there: its inode. */
uint64_t feed_ring_number(int fd);
/* Whether a mapped header of a memfd of `bytes` is one. */
bool feed_ring_valid(const struct feed_ring *ring, uint64_t bytes);

/* Whether the writer may fill the next slot: (1). */
static inline bool feed_ring_free(uint64_t head, uint64_t slots, uint64_t least_done)
{
	return head - least_done < slots;
}

#endif
