/* SPDX-License-Identifier: MIT
 *
 * Copies of a ring's items in other memory than the host's, one for each slot, that any reader may make and all then read.
 * No byte of them is seen here: this is who makes which, and which are whole. The ring's own rule protects them too: a
 * reader gives a slot back when it needs neither the item nor its copy any more, so nobody makes a copy over one that is
 * still read (ring.h, 1).
 *
 * It lies in a memfd (struct feed_copies_page). To make a copy a reader holds the lock of its slot's byte there, which the
 * kernel lets go when it dies. For a slot, `begun` and `made` are the item of which a copy was begun last, and that of which
 * one is whole:
 *
 *	made == item			it may be read
 *	begun != made, and no lock	who made it died, or could not: bytes may still come in from it, for a GPU ends its
 *					work when it likes. Nothing is ever copied there again
 *	else				whoever gets the lock makes it
 */
#ifndef RAD_FEED_COPIES_H
#define RAD_FEED_COPIES_H

#include "feed/feed.h"
#include "feed/place.h"
#include "feed/wire.h"

/* A memfd for that many slots, of copies that lie in `bytes`, `stride` for each slot. Sets *fd, the caller's. */
struct feed_copies *feed_copies_make(uint64_t slots, uint64_t stride, uint64_t bytes, int *fd, struct error *err);
/* From a descriptor that another made, which stays the caller's. */
struct feed_copies *feed_copies_open(int fd, uint64_t slots, struct error *err);

/* Asks the feed's writer what it keeps, or offers it. Returns 1 with two descriptors in fds, the caller's; 0 if there is
 * nothing kept, and the offer is now; or -1. */
int feed_kept_ask(const struct feed_place *place, const struct feed_keep *keep, const int offer[2], int timeout_ms, int fds[2],
		  struct error *err);

#endif
