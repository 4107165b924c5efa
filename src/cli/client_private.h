/* SPDX-License-Identifier: MIT
 *
 * What the files client*.c share. Nobody else includes it.
 */
#ifndef RAD_CLI_CLIENT_PRIVATE_H
#define RAD_CLI_CLIENT_PRIVATE_H

#include "base/error.h"

#include <stdbool.h>

/* Whether a radd may be started for the caller without a word of his: not with RAD_NO_START=1. */
bool client_may_start(void);
/* -1: the caller's own radd answers, but not on this path, where nobody listens: waiting for it there is no use, and no second
 * one can start on its state. */
int client_check_elsewhere(const char *path, struct error *err);
/* Why the machine's radd does not come by itself, if systemd is to start it and could not; NULL: nothing is known of that.
 * Takes a second at most, and says what it said a moment ago. Free it. */
char *client_unit_trouble(void);

#endif
