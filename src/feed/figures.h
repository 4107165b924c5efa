/* SPDX-License-Identifier: MIT
 *
 * What a feed says of itself: who makes the batches, who reads them, how many come and who waits for whom. The writer notes
 * it with each item, and each second in which it waits for room, in the ring's first pages, which nobody else can write;
 * figures of readers are copied from their control pages then. Not in the feed's file: that may lie on a
 * disk, and a store into a page of it can take as long as the disk does.
 *
 * Counts only grow; a rate is what came between two of them. Each has three: as they are now, and at two *marks* that are
 * MARK_US apart, of which the elder goes when the younger is as old. So from the elder on it is one to two such spans, or
 * all since the beginning.
 */
#ifndef RAD_FEED_FIGURES_H
#define RAD_FEED_FIGURES_H

#include "feed/feed.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { FEED_FIGURES_VERSION = 1 };

struct feed_count {
	uint64_t at_us;		/* monotonic */
	uint64_t items, bytes;	/* batches, without the ends of epochs */
	uint64_t waited_us;	/* in which there was no room, or no item */
};

struct feed_span { struct feed_count from, mark, now; };

struct feed_reader_figures {
	uint64_t pid;		/* as the kernel told the writer */
	uint64_t behind;	/* items that are there and that it has not given back */
	struct feed_span span;
};

struct feed_figures {
	uint64_t version;
	uint64_t pid;		/* the writer */
	uint64_t pos;		/* of the next item: FEED_POS_EPOCH, FEED_POS_INDEX */
	uint64_t slots, slot_bytes;
	uint64_t memory_bytes;	/* that the slots take now */
	uint64_t sleeps_us;	/* since when the writer waits for room; 0: it does not, its caller makes an item */
	uint64_t slowest_pid;	/* for whom then; 0: for readers that have not come yet */
	uint64_t n_readers;
	struct feed_span span;
	struct feed_reader_figures reader[FEED_READERS_MAX];	/* n_readers of them */
};

/* As they lie in memory: whole while `sequence` is even and was the same before. */
struct feed_figures_shared {
	_Atomic uint64_t sequence;
	_Atomic uint64_t word[sizeof(struct feed_figures) / sizeof(uint64_t)];
};

/* What a span comes to at that time. */
struct feed_rate { double batches_s, bytes_s, wait_fraction; };

struct feed_writer;
/* Notes how things are. */
void feed_figures_note(struct feed_writer *w);
/* Into the span, at that time. */
void feed_span_count(struct feed_span *s, struct feed_count now);
/* From a copy of the words of some process, whatever they are. Returns 0, or -1 if they are no figures. */
int feed_figures_read(const void *bytes, size_t n, struct feed_figures *out);
/* `since_us`: from when on it has waited without a count of it; 0: it does not. */
struct feed_rate feed_span_rate(const struct feed_span *s, uint64_t now_us, uint64_t since_us);

#endif
