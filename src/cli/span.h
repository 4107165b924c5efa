/* SPDX-License-Identifier: MIT
 *
 * The span and the user that accounts are asked for.
 */
#ifndef RAD_CLI_SPAN_H
#define RAD_CLI_SPAN_H

#include "base/error.h"

#include <jansson.h>
#include <sys/types.h>

/* Of a user by name or number; -1 where nobody has that name here. */
int span_user(const char *user, uid_t *uid, struct error *err);
/* Fills uid of a request with it. */
int span_fill_user(json_t *request, const char *user, struct error *err);
/* Fills from_ms, to_ms and uid of a request to `acct`. `since` NULL: today's midnight; `until` and `user` NULL: not limited,
 * nor is it by "all" where no user has that name. */
int span_fill(json_t *request, const char *since, const char *until, const char *user, struct error *err);
/* Tells in it where the months of that span begin here, for sums by month. */
void span_fill_months(json_t *request);
/* The same for one month, "2026-11". */
int span_fill_month(json_t *request, const char *month, const char *user, struct error *err);

#endif
