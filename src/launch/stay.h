/* SPDX-License-Identifier: MIT
 *
 * libradstay.so, which keeps a task on the GPUs that it was given (stay_rule.h): where it is, and how a task comes to load it.
 */
#ifndef RAD_LAUNCH_STAY_H
#define RAD_LAUNCH_STAY_H

#include "base/error.h"

#include <stdbool.h>

/* The library of this installation, for tasks to load: beside the programs in a build, else where `libdir` is. NULL
 * with an error: it is missing. Free it. */
char *stay_find(struct error *err);
/* Whether the loader takes that path from LD_PRELOAD: one that it cannot read, it complains about in every program, and a blank
 * or a colon ends a path. `all`: whoever the user is. 0 or -1. */
int stay_check(const char *path, bool all, struct error *err);
/* What LD_PRELOAD is to be: what the user has there, less any such library, and then `library` (NULL: none). Behind the
 * user's, of which some insist on being first (ASan's). NULL: nothing at all. Free it. */
char *stay_preload(const char *before, const char *library);

#endif
