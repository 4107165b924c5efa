/* SPDX-License-Identifier: MIT
 *
 * What readers and the writer say to each other: messages on a Unix socket that keeps their bounds (SOCK_SEQPACKET), in
 * the machine's own order of bytes. A reader says hello; the answer is a welcome, with the ring and the reader's control
 * page as descriptors, or a refusal with its reason. Or it asks what the writer keeps (struct feed_keep), is answered, with
 * two descriptors where there are some, and that connection ends. From the welcome on a message is one byte without meaning:
 * "look". A message of another length or content ends the connection.
 */
#ifndef RAD_FEED_WIRE_H
#define RAD_FEED_WIRE_H

#include "base/error.h"
#include "feed/feed.h"

#include <stdbool.h>
#include <sys/types.h>

enum { FEED_WIRE_MAX = 2048 };	/* bytes of a message */

struct feed_hello {
	uint64_t token;		/* the byte of the feed's file that the reader holds a lock on */
	uint64_t want;		/* the position it needs next; FEED_NEVER: it is new */
	uint32_t join;		/* enum feed_join, of a new one */
	char sign[FEED_SIGN_MAX + 1];
};

/* Of a reader, on a connection for this alone: what the writer keeps under that key for all readers of its ring. */
struct feed_keep {
	uint64_t ring;		/* which it has: the number of its memfd (feed_view_ring) */
	bool offers;		/* comes with two descriptors, to be kept where there are none yet */
	char key[FEED_KEY_MAX + 1];
};

struct feed_answer {
	bool welcome;
	uint32_t reader;	/* its number in the ring; if welcome */
	uint32_t code;		/* enum error_code; if not */
	char text[512];
};

/* Returns the bytes of the message. */
size_t feed_wire_put_hello(const struct feed_hello *hello, unsigned char out[FEED_WIRE_MAX]);
size_t feed_wire_put_keep(const struct feed_keep *keep, unsigned char out[FEED_WIRE_MAX]);
size_t feed_wire_put_answer(const struct feed_answer *answer, unsigned char out[FEED_WIRE_MAX]);
/* Return 0, or -1 if it is not one. */
int feed_wire_get_hello(const unsigned char *bytes, size_t n, struct feed_hello *hello);
int feed_wire_get_keep(const unsigned char *bytes, size_t n, struct feed_keep *keep);
int feed_wire_get_answer(const unsigned char *bytes, size_t n, struct feed_answer *answer);

/* Sends with `count` descriptors, never waits. Returns 0, or -1 (errno). */
int feed_wire_send(int sock, const void *bytes, size_t n, const int *fds, size_t count);
/* Receives a message without waiting, and two descriptors or none (fds are -1 then); fds NULL: none, what comes is
 * closed. Returns its bytes, 0 at the other's end, or -1 (errno). */
ssize_t feed_wire_receive(int sock, void *bytes, size_t size, int *fds);

#endif
