/* SPDX-License-Identifier: MIT
 *
 * A ring as one reader sees it: which item comes next, which are held, and what the writer is told of that. The slots are
 * mapped privately: the pages are the writer's own until the reader writes to one, which then is a copy that nobody else
 * sees; it is thrown away when the slot is given back. Functions are for one thread at a time; reader.c sees to that.
 */
#ifndef RAD_FEED_VIEW_H
#define RAD_FEED_VIEW_H

#include "feed/ring.h"

struct feed_view;

enum feed_view_released {
	FEED_VIEW_KEPT,
	FEED_VIEW_AWAITED,	/* the writer sleeps, and perhaps for this */
	FEED_VIEW_GONE,		/* it was retired, and this was the last item held: it is freed */
};

/* From the descriptors of a welcome, which stay the caller's. */
struct feed_view *feed_view_make(int ring_fd, int control_fd, uint32_t reader, struct error *err);
/* The next item, held from now on. Returns 1, 0 if there is none yet, -1: it holds all there is, or -2: it was dropped, and
 * there will be no more. */
int feed_view_take(struct feed_view *v, struct feed_item *item, struct error *err);
enum feed_view_released feed_view_release(struct feed_view *v, uint32_t slot);
/* Says that the reader sleeps. False if there is something to look at after all. */
bool feed_view_sleeps(struct feed_view *v);
void feed_view_awake(struct feed_view *v);
/* For so long it had no item to take (figures.h). */
void feed_view_waited(struct feed_view *v, uint64_t us);
/* The position after the last item taken; FEED_NEVER if none was. */
uint64_t feed_view_next(const struct feed_view *v);
/* What the bytes of the last item taken sum up to, as the writer made them; 0 if that was no batch. The writer is gone. */
uint64_t feed_view_last_sum(const struct feed_view *v);
/* Whether this ring's writer made that item again, and it sums up to something else. */
bool feed_view_differs(const struct feed_view *v, uint64_t pos, uint64_t sum);
/* The number of the ring's memfd, and how many slots it has. */
uint64_t feed_view_ring(const struct feed_view *v);
uint64_t feed_view_slots(const struct feed_view *v);
/* A slot, and all of them, in the mapping that is the same memory for all. */
const void *feed_view_shared(const struct feed_view *v, uint32_t slot, void **slots, uint64_t *slots_bytes);
/* No more is taken from it. Returns true if it is freed; else it is with the last release. */
bool feed_view_retire(struct feed_view *v);

#endif
