/* SPDX-License-Identifier: MIT
 *
 * A descriptor that the loop watches for reading. It stays its owner's, who closes it after polling_stop, and never before:
 * the kernel's list of what is watched goes by numbers, and a number that was closed is soon another descriptor's, which would
 * be struck off in its place and never be heard of again.
 */
#ifndef RAD_DAEMON_POLLING_H
#define RAD_DAEMON_POLLING_H

#include "base/error.h"

#include <uv.h>

struct polling;

/* Something can be read, or the other side is gone: reading tells. Comes again and again until polling_stop, which may be
 * called from it. */
typedef void (*polling_ready)(void *ctx);

struct polling *polling_start(uv_loop_t *loop, int fd, polling_ready ready, void *ctx, struct error *err);
/* From here on the descriptor may be closed. Takes NULL. */
void polling_stop(struct polling *p);

#endif
