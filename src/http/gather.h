/* SPDX-License-Identifier: MIT
 *
 * Several questions to radd at once, and their answers together.
 */
#ifndef RAD_HTTP_GATHER_H
#define RAD_HTTP_GATHER_H

#include "base/error.h"

#include <jansson.h>
#include <uv.h>

#define GATHER_QUESTIONS 5	/* at most */

struct gather;

/* `replies` in the order of the questions; NULL: that one was not answered. Borrowed. `why`: of the first such
 * one; NULL: all were answered. Comes once, from the loop. */
typedef void (*gather_done)(void *ctx, json_t *const replies[], const struct error *why, double took_s);

/* Takes the references of the requests. */
struct gather *gather_ask(uv_loop_t *loop, const char *socket, json_t *const requests[], size_t n, unsigned deadline_ms,
			  gather_done done, void *ctx);
/* `done` does not come. Takes NULL. */
void gather_drop(struct gather *g);

#endif
