/* SPDX-License-Identifier: MIT
 *
 * The writer's two halves: writer.c has the ring and the order of items, peers.c who reads and how far each is.
 *
 * A reader that connects is *new* until its hello; then it *waits* for the item at which it begins, and from that one on
 * it *reads*, and holds the ring back. Tokens that were alive when the writer took over and have not connected are
 * *expected*: they may need the first item, so they hold that one.
 */
#ifndef RAD_FEED_WRITER_H
#define RAD_FEED_WRITER_H

#include "feed/place.h"

#include <sys/types.h>

enum { FEED_KEPT_MAX = 16 };	/* GPUs for which copies are kept */

/* What readers have in common under a key: descriptors that mean nothing to the writer (copies.h). */
struct feed_kept { char key[FEED_KEY_MAX + 1]; int fds[2]; };

enum peer_stage { PEER_NONE, PEER_NEW, PEER_WAITS, PEER_READS };

struct peer {
	enum peer_stage stage;
	bool has_ring;			/* it said so */
	int sock;
	uint64_t token, want;		/* the token stays when it is dropped */
	uint64_t done;			/* as last believed */
	int64_t since_ms;		/* since when it stands there; mono */
	pid_t pid;
	struct feed_span span;
	struct feed_control *control;
};

struct feed_writer {
	struct feed_place place;
	struct feed_state state;	/* and in its file */
	int lock_fd, listen_fd, until_fd;
	bool until;			/* until_fd became readable */
	bool crowded;			/* one that connects found no descriptor free: each look tries again, and none sleeps on that */
	bool pinnable;			/* the ring is not sealed against writing */
	uint32_t patience_ms;
	uint32_t wants;			/* readers, before the first item of all */
	uint64_t from, pos;		/* positions: of item 0, of the next item */
	uint64_t head;
	int ring_fd;
	struct feed_ring *ring;
	uint64_t ring_bytes;
	uint64_t *filled;		/* bytes of each slot that have memory */
	uint64_t memory_bytes;		/* and of all */
	struct feed_count count;	/* of this writer, and */
	struct feed_span span;
	uint64_t sleeps_us;		/* since when it waits for room; 0: it does not */
	size_t kept_count;
	struct feed_kept kept[FEED_KEPT_MAX];	/* of this ring */
	/* Who is to come again, from the writer before: all that are noted in `state` and are no peers yet, and of the others that
	 * live as many as there are seats. With the peers that said hello they are no more than these, so each finds a row. */
	size_t expected_count;
	uint64_t expected[FEED_READERS_MAX];
	struct peer peer[FEED_READERS_MAX];	/* by the reader's number */
};

/* Whether it has not begun, and waits for more readers than these. */
static inline bool feed_writer_awaits(const struct feed_writer *w, uint64_t readers)
{
	return w->pos == 0 && readers < w->wants;
}

/* Answers who asks what is kept (struct feed_keep); closes fds, or keeps them. Returns false if it was no such message. */
bool feed_kept_answer(struct feed_writer *w, int sock, const unsigned char *bytes, size_t n, int fds[2]);
void feed_kept_close(struct feed_writer *w);

/* Looks at all connections, for timeout_ms at most (-1: until something happens). Returns -1 after a signal. */
int feed_peers_serve(struct feed_writer *w, int timeout_ms);
/* The least item that somebody may still need; head if nobody does. */
uint64_t feed_peers_least(struct feed_writer *w);
/* How many read or wait. */
uint32_t feed_peers_count(const struct feed_writer *w);
/* Whether anybody reads, waits or is expected. */
bool feed_peers_any(const struct feed_writer *w);
/* Forgets the expected ones that are no more. */
void feed_peers_expect(struct feed_writer *w);
/* Drops all who hold the item `least` since then or longer: who came later has its own time. */
void feed_peers_drop(struct feed_writer *w, uint64_t least, int64_t since_ms);
/* Those who wait for the item that is about to be published begin with it. */
void feed_peers_begin(struct feed_writer *w);
/* Wakes those who sleep. */
void feed_peers_wake(struct feed_writer *w);
void feed_peers_close(struct feed_writer *w);

#endif
