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

/* Gets a piece of the tasks, in the order of their ends. Borrowed. */
typedef void (*accounts_each)(void *ctx, const json_t *tasks);

/* Asks a request `acct` for tasks, whose reference is taken over, until none is left, and hands over all of them. Returns the
 * last answer without them, a new reference, or NULL, perhaps after some were handed over. Its `totals` are null, so that radd
 * reads the history once (account_add_told reckons them); one of an earlier release tells them, and `truncated` is true where
 * it does not tell all. */
json_t *accounts_fetch(json_t *request, accounts_each each, void *ctx, struct error *err);
/* The same with all tasks as `tasks` of the answer. */
json_t *accounts_fetch_all(json_t *request, struct error *err);

#endif
