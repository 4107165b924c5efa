/* SPDX-License-Identifier: MIT
 *
 * --watch: what a verb shows, again and again on a terminal.
 */
#ifndef RAD_CLI_REPEAT_H
#define RAD_CLI_REPEAT_H

#include "base/error.h"
#include "cli/cli.h"
#include "cli/term.h"

/* Shows it every so many seconds (a text that a person wrote), on an empty screen, as much of it as fits, until it fails (-1)
 * or a signal comes. Where radd was there and goes away, that is told, and it is asked again. The terminal is asked each time:
 * windows change. `show` prints to stdout. With --json it is refused. Returns the verb's exit code. */
typedef int (*repeat_show)(void *ctx, const struct term *term, struct error *err);
int repeat_show_every(struct cli_call *c, const char *every, bool json, repeat_show show, void *ctx);

#endif
