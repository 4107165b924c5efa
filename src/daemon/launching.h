/* SPDX-License-Identifier: MIT
 *
 * Launches in threads: they wait for the disk, behind all that shims make durable there, and for the shim's exec. The loop
 * answers clients meanwhile. Launches go one after the other, so that tasks start in the order in which they were placed.
 */
#ifndef RAD_DAEMON_LAUNCHING_H
#define RAD_DAEMON_LAUNCHING_H

#include "launch/launch.h"

#include <uv.h>

struct launching;
struct launching_line;

struct launching_line *launching_line_create(uv_loop_t *loop);
/* What was not begun never begins; the one that is under way goes on. Takes NULL. */
void launching_line_destroy(struct launching_line *line);

/* As launch_run: `shim` and `err` are valid during the call. */
typedef void (*launching_done)(void *ctx, int rc, struct proc_id shim, const struct error *err);

/* Takes `l`. `done` is called in the loop, later. */
struct launching *launching_start(struct launching_line *line, struct launch *l, launching_done done, void *ctx);
/* Nobody is told of it any more. Takes NULL. */
void launching_leave(struct launching *l);

#endif
