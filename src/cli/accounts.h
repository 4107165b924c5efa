/* SPDX-License-Identifier: MIT
 *
 * The tasks that ended in a span of time, however many: radd tells as many as one answer holds.
 */
#ifndef RAD_CLI_ACCOUNTS_H
#define RAD_CLI_ACCOUNTS_H

#include "base/error.h"

#include <jansson.h>

/* The answer to a request `acct`, whose reference is taken over, with all of its tasks: the rest is asked for until none is
 * left. Totals are those of the first answer. A new reference, or NULL. */
json_t *accounts_fetch(json_t *request, struct error *err);

#endif
