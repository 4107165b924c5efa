/* SPDX-License-Identifier: MIT
 *
 * `rad web`: the page, which is in the program (share/web), and what it asks for.
 */
#ifndef RAD_HTTP_WEB_H
#define RAD_HTTP_WEB_H

#include "http/serve.h"

struct web;
extern const struct serve_route web_routes[];

/* `socket` is radd's. `logs`: the ends of logs are shown, too. */
struct web *web_create(uv_loop_t *loop, const char *socket, bool logs);
/* The server whose streams it wakes; NULL: it is about to be destroyed, and whoever waits is answered. */
void web_serve(struct web *w, struct serve *s);
void web_destroy(struct web *w);

/* For serve_config. */
bool web_fill(void *ctx, unsigned seen[SERVE_TOPICS], struct buf *out);
void web_streams(void *ctx, size_t n);

#endif
