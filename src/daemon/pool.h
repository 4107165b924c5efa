/* SPDX-License-Identifier: MIT
 *
 * The threads of libuv's pool. libuv makes them when they are first needed, and ends the program where one cannot be made: so
 * they are made at the start, when that can still be told.
 */
#ifndef RAD_DAEMON_POOL_H
#define RAD_DAEMON_POOL_H

#include "base/error.h"

/* Makes them, for all loops. */
int pool_begin(struct error *err);

#endif
