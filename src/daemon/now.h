/* SPDX-License-Identifier: MIT
 *
 * The time that the core is told, from both clocks, and the moment at which somebody sets the wall clock (decision 167). That
 * is seen by how it stands to the time since boot, which nobody sets and which goes on while the machine is suspended.
 */
#ifndef RAD_DAEMON_NOW_H
#define RAD_DAEMON_NOW_H

#include "core/core.h"
#include "store/store.h"

/* Before it returns, whoever watches has been told of a clock that was set: nothing is done by the new time before that. */
struct now now_read(void);

/* By how much the wall clock was set since a radd of this boot noted it in the store, in ms: 0 is less than a second. */
int64_t now_set_since(struct store *s);

/* From here on `set` is called when the wall clock was set, forward by so much (below 0: back), and how it stands is noted in
 * the store, in the transaction of what `set` does. One for a process; s NULL: nobody watches any more. */
void now_watch(struct store *s, void (*set)(void *ctx, int64_t by_ms), void *ctx);

#endif
