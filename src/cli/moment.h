/* SPDX-License-Identifier: MIT
 *
 * A moment to come, as people type it.
 */
#ifndef RAD_CLI_MOMENT_H
#define RAD_CLI_MOMENT_H

#include "base/error.h"

#include <stdint.h>

/* As of `now_ms` (wall), here: "18:00" and "18:00:30" (today, or tomorrow where that is past), "2026-11-20T18:00[:30]" and with
 * a blank for the T, "2026-11-20" (its midnight), "now", "+2h" and "now+2h"; "2026-11-20T18:00:00Z" is UTC. A time that the
 * clocks leave out when they are set forward is refused; of one that comes twice when they are set back, the first counts.
 * Returns 0, or -1; one that is past is for the caller to refuse. */
int moment_parse(const char *text, int64_t now_ms, int64_t *ms, struct error *err);

#endif
