/* SPDX-License-Identifier: MIT
 *
 * Captures of a user take turns: a few run at a time on a machine (a loop of submissions would else take all cores), and the
 * others follow in the order of their tasks.
 */
#ifndef RAD_CLI_CAPTURE_TURN_H
#define RAD_CLI_CAPTURE_TURN_H

#include <stdbool.h>

/* Asked now and then while others come first; false: nobody waits for this capture any more. */
typedef bool (*capture_turn_wanted)(void *ctx);

/* Returns once it is the turn of that task's capture; it lasts as long as the process. False: it was no longer wanted. */
bool capture_turn_wait(const char *id, capture_turn_wanted wanted, void *ctx);

#endif
