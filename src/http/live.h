/* SPDX-License-Identifier: MIT
 *
 * What the live page shows: asked of radd while anybody looks, and only then; told to streams where it differs from what they
 * have. One that reads slowly skips what it missed. Bounded, however long the queue is.
 *
 * Of what radd tells its own user alone (arguments of processes) nothing is passed on.
 */
#ifndef RAD_HTTP_LIVE_H
#define RAD_HTTP_LIVE_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#define LIVE_WAITING 200	/* rows of tasks that wait, */
#define LIVE_RUNNING 400	/* and of those that run */
#define LIVE_DEADLINE_MS 5000

struct live;

/* `socket` is radd's. `changed`: there is something new for streams. */
struct live *live_create(uv_loop_t *loop, const char *socket, void (*changed)(void *ctx), void *ctx);
void live_destroy(struct live *l);

/* How many look. */
void live_watch(struct live *l, size_t n);
/* Events (`gpus`, `queue`) that differ from those last seen: see serve_config.fill. */
bool live_fill(struct live *l, unsigned seen[2], struct buf *out);

/* Rows of the queue as they were last read whose id, name, user, state or reason holds the word; {"rows","more"}. A new
 * reference; NULL: nothing is known yet. */
json_t *live_find(const struct live *l, const char *word);
/* A task object of radd's as a row. A new reference. */
json_t *live_row(const json_t *task);
/* Takes the arguments off processes. */
void live_strip(json_t *processes);

#endif
