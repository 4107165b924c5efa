/* SPDX-License-Identifier: MIT
 *
 * What the files client*.c share. Nobody else includes it.
 */
#ifndef RAD_CLI_CLIENT_PRIVATE_H
#define RAD_CLI_CLIENT_PRIVATE_H

#include <stdbool.h>

/* Whether a radd may be started for the caller without a word of his: not with RAD_NO_START=1. */
bool client_may_start(void);

#endif
