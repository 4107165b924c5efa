/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 for those who look: GET and HEAD only, on the caller's loop (libmicrohttpd underneath). One thread owns it all; a
 * request whose answer takes a while is put aside until serve_answer. Bounded: connections, the time in which a request must
 * have come and an answer must have been taken, streams.
 *
 * Every answer forbids browsers what they need not do (Content-Security-Policy and its kin). A request whose Host is a name
 * that nobody gave this machine is refused: that is how a page from elsewhere would read this one, its own name pointed here
 * (DNS rebinding). Numbers and localhost cannot be pointed anywhere.
 */
#ifndef RAD_HTTP_SERVE_H
#define RAD_HTTP_SERVE_H

#include "base/buf.h"
#include "base/error.h"
#include "http/listen.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define SERVE_CONNECTIONS 128
#define SERVE_STREAMS 32
#define SERVE_REQUEST_S 10	/* a request must have come after so long, */
#define SERVE_ANSWER_S 60	/* and its answer have been taken */
#define SERVE_STALLED_S 5	/* an answer of which nothing was taken for so long makes place where all places are taken */
#define SERVE_TOPICS 2		/* of streams */

struct serve;
struct serve_call;	/* a request; lives until it is answered */

struct serve_route {
	const char *path;
	bool secret;		/* wants the token, where there is one */
	void (*run)(void *ctx, struct serve_call *call);	/* answers now or later, or begins a stream */
};

struct serve_config {
	const struct listen_place *place;
	const char *hosts;		/* names beside the machine's own, commas between; NULL: none */
	const char *token;		/* NULL: none is wanted */
	const struct serve_route *routes;	/* ends with a NULL path */
	void *ctx;			/* of the routes, and of these */
	/* Appends to *out what a stream has not seen, and brings `seen` up to that; false: nothing is new. */
	bool (*fill)(void *ctx, unsigned seen[SERVE_TOPICS], struct buf *out);
	void (*streams_changed)(void *ctx, size_t n);	/* how many there are now; may be NULL */
};

/* What it points to must outlive it. */
struct serve *serve_create(uv_loop_t *loop, const struct serve_config *config, struct error *err);
/* Ends all connections; every call must have been answered. The routes' ctx is told of streams until it returns. Takes NULL. */
void serve_destroy(struct serve *s);

/* The value of ?name=; NULL: it is not there. Borrowed. */
const char *serve_query(const struct serve_call *call, const char *name);
/* A header of the request, or NULL. Borrowed. */
const char *serve_header(const struct serve_call *call, const char *name);
/* Once for each call; the text is copied. */
void serve_answer(struct serve_call *call, unsigned status, const char *type, const char *text, size_t n);
/* {"error": TEXT}, as JSON. */
void serve_fail(struct serve_call *call, unsigned status, const char *text);
/* Answers with a stream of events, as long as the client stays. */
void serve_stream(struct serve_call *call);
/* There is something new for streams. */
void serve_wake(struct serve *s);

#endif
