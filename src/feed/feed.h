/* SPDX-License-Identifier: MIT
 *
 * One loader feeds all: batches that one process writes once, and many read in place, in order, each exactly once.
 *
 * A *feed* has a name, which is one user's on one machine, or one group's (place.h). Its *writer* puts *items* into a ring of
 * slots in shared memory; an item is a batch, or the end of an epoch. Every item has a *position* (epoch, number in it) that
 * no other has, whoever writes it:
 *
 *	(0,0) (0,1) ... (0,n-1) (0,n)=end   (1,0) ...
 *
 * A *reader* gets all items from where it joined on. Each task of a feed has a reader, and a process that claims the
 * writing; the claim waits in the kernel's queue for a lock, so when a writer dies the next one has the lock at once, and
 * is told at which position to go on (feed_writer_claim). It must then make the same batches as the first would have:
 * that is its caller's promise.
 *
 * Nothing here holds a lock in shared memory. Who lives is known by sockets, which hang up, and by locks on a file, which
 * the kernel lets go; so any process may be killed at any instruction. decisions/0132 says why it is as it is; ring.h has
 * the arithmetic.
 *
 * All functions are for one thread at a time on one object, but feed_reader_release, which any thread may call at any
 * time. A fork has no part in what its parent joined or writes.
 */
#ifndef RAD_FEED_H
#define RAD_FEED_H

#include "base/error.h"
#include "feed/name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_API __attribute__((visibility("default")))

enum {
	FEED_SIGN_MAX = 1023,	/* bytes of the text by which a feed's data are known */
	FEED_READERS_MAX = 64,	/* at one feed at a time */
	FEED_SLOTS_MAX = 4096,
	FEED_KEY_MAX = 63,	/* bytes of what copies are known by (feed_reader_copies) */
};

enum feed_kind {
	FEED_BATCH = 1,
	FEED_END = 2,		/* of an epoch; no bytes */
};

enum feed_join {
	FEED_JOIN_NEXT = 0,	/* at the first epoch whose first item can still be had: the running one if it is in the ring */
	FEED_JOIN_NOW = 1,	/* at the next item */
};

struct feed_item {
	uint32_t kind;		/* enum feed_kind */
	uint32_t slot;		/* for feed_reader_release */
	uint64_t epoch, index;	/* its position */
	uint64_t bytes;
	void *data;		/* the reader's own view: what it writes there nobody else sees. Valid until released */
	void *ring;		/* for feed_reader_release */
};

struct feed_writer;
struct feed_reader;

/* Waits until this process is the one that writes to the feed, for as long as another is. From then on readers may join,
 * and wait. `sign` says what the data are: where living readers of that name have other data, it fails with ERR_INVALID.
 * `seed` is what a writer that begins anew has the feed keep, for those who go on after it. ERR_UNAVAILABLE: a signal
 * came; call it again. */
FEED_API struct feed_writer *feed_writer_claim(const char *name, const char *sign, uint64_t seed, struct error *err);
/* Where to begin: (0,0), or the first item that a living reader has not got from the writers before. */
FEED_API void feed_writer_position(const struct feed_writer *w, uint64_t *epoch, uint64_t *index, uint64_t *seed);
/* Makes the ring: 2 to FEED_SLOTS_MAX slots of at least slot_bytes. Memory is taken as slots are first written. A reader
 * that holds everybody else up for longer than patience_ms is dropped; 0: never. */
FEED_API int feed_writer_open(struct feed_writer *w, uint32_t slots, uint64_t slot_bytes, uint32_t patience_ms,
			      struct error *err);
/* Before feed_writer_open: this user's tasks may map the ring for writing too, as cudaHostRegister wants it. Never those of a
 * group. */
FEED_API void feed_writer_pinnable(struct feed_writer *w);
/* After feed_writer_open, before the first reserve: the item before the position to begin at, made again, so that readers
 * who have the former writer's can compare (feed_reader_differs). */
FEED_API void feed_writer_again(struct feed_writer *w, const void *data, uint64_t bytes);
/* A descriptor that becomes readable when this process shall write only as long as others read. Not closed by the writer. */
FEED_API void feed_writer_until(struct feed_writer *w, int fd);
/* A feed that begins anew has no first item before so many readers are there; none are waited for where nothing is said. */
FEED_API void feed_writer_wants(struct feed_writer *w, uint32_t readers);
/* Room for the next item: waits for the slowest reader, and while there is none. *data is valid until
 * feed_writer_publish. ERR_INVALID: more bytes than a slot has. ERR_NOT_FOUND: nobody reads any more (feed_writer_until).
 * ERR_UNAVAILABLE: a signal came, or the machine has no memory for it. */
FEED_API int feed_writer_reserve(struct feed_writer *w, uint64_t bytes, void **data, struct error *err);
/* The item that was reserved is there for all. FEED_END begins the next epoch. */
FEED_API void feed_writer_publish(struct feed_writer *w, enum feed_kind kind, uint64_t bytes);
/* How many readers there are, and how many items were published. */
FEED_API uint32_t feed_writer_readers(const struct feed_writer *w);
/* Who was to claim it next, and ends: takes the feed's files away if it has no reader left. For a writer that is about to end
 * it waits, a second at most. */
FEED_API void feed_writer_resign(const char *name);
/* Takes the feed's files away, if it has no reader left. Any thread may call it, as the last thing before the process ends. */
FEED_API void feed_writer_clean(const struct feed_writer *w);
/* Stops writing: another claim goes on. Takes the feed's files away when it has no reader left. */
FEED_API void feed_writer_close(struct feed_writer *w);

/* A reader of that feed; it joins with the first feed_reader_next. */
FEED_API struct feed_reader *feed_reader_open(const char *name, const char *sign, enum feed_join join, struct error *err);
/* The next item, for which it waits timeout_ms at most, across the death of writers. ERR_UNAVAILABLE: nothing came in
 * that time, or a signal did; where err->no is EBUSY, the feed has as many readers as it can, and may have a place later.
 * ERR_CONFLICT: it holds all slots of the ring. ERR_INVALID: the name is used for other data. ERR_DENIED: it was dropped. */
FEED_API int feed_reader_next(struct feed_reader *r, int timeout_ms, struct feed_item *item, struct error *err);
/* Whether, since the last call, a new writer has made something else of the item that this reader had got last: its loader
 * does not give the same twice. */
FEED_API bool feed_reader_differs(struct feed_reader *r);
/* The item's bytes in the memory that all share, and where all slots of its ring begin there. Mapped for reading; mprotect
 * lets the reader write there only in a ring that is pinnable. For cudaHostRegister; there until the last item of that ring is
 * released. */
FEED_API const void *feed_item_shared(const struct feed_item *item, void **slots, uint64_t *slots_bytes);
/* How many slots its ring has. */
FEED_API uint64_t feed_item_slots(const struct feed_item *item);
/* Copies of a ring's items in memory that is not the host's, made once for all readers that can reach it (a GPU's): copies.h.
 * That memory is a descriptor that the writer keeps, so it is there as long as the ring is, whoever made it. `key` says which
 * GPU. Returns 1 with what is there already, and its descriptor in *memory, the caller's; 0 if there is none: then `offer`,
 * where it is not NULL, is kept, and *copies are those of it. -1: the feed is a group's (ERR_DENIED), its writer is gone
 * (ERR_NOT_FOUND) or did not answer in that time (ERR_UNAVAILABLE), or what came is no such thing. */
struct feed_copies;
struct feed_memory {
	int fd;
	uint64_t stride;	/* what each slot of the ring has of it */
	uint64_t bytes;		/* all of it */
};
FEED_API int feed_reader_copies(struct feed_reader *r, const struct feed_item *item, const char *key, int timeout_ms,
				const struct feed_memory *offer, struct feed_copies **copies, int *memory, struct error *err);
FEED_API void feed_copies_size(const struct feed_copies *c, uint64_t *stride, uint64_t *bytes);
enum feed_copy {
	FEED_COPY_THERE,	/* it may be read until the item is released */
	FEED_COPY_MAKE,		/* it is for the caller to make: feed_copies_made follows */
	FEED_COPY_SOON,		/* another makes it now: ask again */
	FEED_COPY_NEVER,	/* who made one there died, or failed; that slot is left alone from then on */
};
/* Of an item that the caller holds. For one thread at a time. */
FEED_API int feed_copies_ask(struct feed_copies *c, const struct feed_item *item);
/* The copy that was for the caller to make is whole, and nothing writes to it any more; or it failed. */
FEED_API void feed_copies_made(struct feed_copies *c, const struct feed_item *item, bool whole);
FEED_API void feed_copies_close(struct feed_copies *c);
/* The slot may be written again; in any order, from any thread, once for each item: with the last one of a ring
 * that was left the ring is freed. Nothing happens in a fork. */
FEED_API void feed_reader_release(struct feed_reader *r, void *ring, uint32_t slot);
/* Leaves. The object stays, for items that are still held, until these are released too. */
FEED_API void feed_reader_close(struct feed_reader *r);

#endif
