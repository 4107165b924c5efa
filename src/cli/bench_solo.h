/* SPDX-License-Identifier: MIT
 *
 * rad bench solo: a command alone on a GPU, as a task of radd's like any other, and what it was seen to do beside what was
 * predicted. So its history learns it, and the next one like it is placed by that.
 */
#ifndef RAD_CLI_BENCH_SOLO_H
#define RAD_CLI_BENCH_SOLO_H

#include "cli/cli.h"

/* argv[0] is "solo"; the rest is as for rad submit. Returns the exit code. */
int bench_solo(struct cli_call *c);

#endif
