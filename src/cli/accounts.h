/* SPDX-License-Identifier: MIT
 *
 * The tasks that ended in a span of time, however many: radd tells as many as one answer holds.
 */
#ifndef RAD_CLI_ACCOUNTS_H
#define RAD_CLI_ACCOUNTS_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>

/* Of each task the answer has these members (as wire `list` names them), and id, name, user, state and end_time; else it has
 * all, which are several times as much to make and to read. */
void accounts_want(json_t *request, const char *const *members, size_t n);

/* The answer to a request `acct`, whose reference is taken over, with all of its tasks: the rest is asked for until none is
 * left. Totals are those of the first answer. A new reference, or NULL. */
json_t *accounts_fetch(json_t *request, struct error *err);

#endif
