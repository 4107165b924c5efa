/* SPDX-License-Identifier: MIT
 *
 * A moment of accounts, as people type it.
 */
#ifndef RAD_CLI_SPAN_MOMENT_H
#define RAD_CLI_SPAN_MOMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* As sacct reads it and more, here, as of now_ms (wall): "now-2hours", "12h" (ago), "yesterday", "2026-11" (its first day),
 * "month" (the first of this one), "2026-11-20", "2026-11-20T16:00", "16:00" (of today), "11/20", "11/20/26-16:00", "1120";
 * "2026-11-20T16:00:00Z" is UTC. */
int span_moment_parse(const char *text, int64_t now_ms, int64_t *ms, struct error *err);
/* The first day of "2026-11", or that of the month so many after it. */
bool span_moment_month(const char *text, int more, int64_t *ms);

#endif
