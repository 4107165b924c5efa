/* SPDX-License-Identifier: MIT
 *
 * Large messages. Reading one takes a tenth of a second, so a thread does it, which sees nothing but these bytes.
 */
#ifndef RAD_DAEMON_PARSING_H
#define RAD_DAEMON_PARSING_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

struct parsing;

/* Comes from the loop. `message`: a new reference, or NULL with the error; `rest`: the bytes behind it, taken or not. */
typedef void (*parsing_done)(void *ctx, json_t *message, struct buf *rest, int64_t took_us, const struct error *err);

/* Takes over the bytes, which hold at least one whole message. NULL: no thread can be had, and the bytes stay. */
struct parsing *parsing_start(uv_loop_t *loop, struct buf *bytes, parsing_done done, void *ctx);
/* `done` does not come any more; its memory goes when the thread has ended. Takes NULL. */
void parsing_cancel(struct parsing *p);
/* What it holds; 0 for NULL. */
size_t parsing_bytes(const struct parsing *p);

#endif
