/* SPDX-License-Identifier: MIT
 *
 * A moment, as people type it: here (in their time zone), in the forms of sbatch and sacct and ours.
 *
 *	day	2026-11-20, 11/20, 11/20/26, 11.20, 11.20.26, 1120, 112026, today, tomorrow, yesterday: its midnight
 *	time	18:00, 18:00:30, 6:00pm, noon, midnight, teatime, fika
 *	both	2026-11-20T18:00, "tomorrow 18:00", 11/20-18:00; with its zone: 2026-11-20T18:00+01:00, 2026-11-20T17:00:00Z
 *	month	2026-11: its first day; month: the first of this one
 *	length	now, now+2h, now-2hours, +90m, now+30 (seconds), now+1:30:00, 12h
 *
 * What the clocks leave out when they are set forward is the moment at which that is done; of what comes twice when they are
 * set back, the first counts.
 */
#ifndef RAD_CLI_MOMENT_H
#define RAD_CLI_MOMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Which is meant of several. */
enum moment_sense {
	MOMENT_PAST,	/* 16:00 is of today, 11/20 of this year, 12h is ago */
	MOMENT_NEXT,	/* 16:00 and 11/20 are the next ones, 12h is from now; what goes back from now (now-2h, yesterday) is refused */
};

/* As of `now_ms` (wall). Returns 0, or -1. A date that is past is for the caller to refuse; one before 1970 counts as 1970. */
int moment_parse(const char *text, enum moment_sense sense, int64_t now_ms, int64_t *ms, struct error *err);
/* Where the month "2026-11" begins and ends. Returns false if it is none. */
bool moment_month(const char *text, int64_t *from_ms, int64_t *to_ms);
/* Where the month of that moment begins, or one so many months later. */
int64_t moment_month_of(int64_t ms, int months);

#endif
