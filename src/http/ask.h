/* SPDX-License-Identifier: MIT
 *
 * Questions to radd from a loop that must not wait: each has a connection of its own and a deadline, and a radd that is
 * away, of another release or hangs is an answer as well.
 */
#ifndef RAD_HTTP_ASK_H
#define RAD_HTTP_ASK_H

#include "base/error.h"

#include <jansson.h>
#include <uv.h>

struct ask;

/* `reply` NULL: *err says why there is none; else borrowed, without an error in it. Comes once, from the loop, never from
 * within ask_radd. */
typedef void (*ask_done)(void *ctx, json_t *reply, const struct error *err);

/* Takes the reference of `request`, a wire_request. `socket` is copied. */
struct ask *ask_radd(uv_loop_t *loop, const char *socket, json_t *request, unsigned deadline_ms, ask_done done, void *ctx);
/* Nobody waits for it any more: `done` does not come. Takes NULL. */
void ask_drop(struct ask *a);

#endif
