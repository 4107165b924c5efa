/* SPDX-License-Identifier: MIT
 *
 * The caller's feeds as objects: who makes the batches, who reads them, who waits for whom. radd has no part in it, and opens
 * none of this: `rad` looks, with its caller's rights (feed/look.h). Tasks are known by RAD_TASK_ID in what their
 * processes were started with.
 */
#ifndef RAD_CLI_FEEDS_H
#define RAD_CLI_FEEDS_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* The feeds of those names, or with n == 0 all of the caller's: a list, a new reference. NULL: an error. */
json_t *feeds_list(char *const *names, size_t n, struct error *err);
/* Puts into running tasks of the caller's own, as radd describes them, what their feeds say: `feed` is {name role producer
 * readers batches_s bytes_s waits_for wait_fraction others}, with the task's own figures; `others` are its further feeds. Of
 * one that is in none, `full`: its own feed has as many tasks as it takes. What cannot be seen is left out. */
void feeds_tell(const json_t *tasks);

#endif
