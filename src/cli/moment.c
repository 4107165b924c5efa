/* SPDX-License-Identifier: MIT
 * Moments: see moment.h. The C library moves a time that does not exist by an hour without a word, so what it made of it is
 * read back; of a time that exists twice it may take either, so the hour before is tried.
 */
#include "cli/moment.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/submit_caller.h"

#include <string.h>
#include <time.h>

#define HOUR_S 3600

static bool same_minute(const struct tm *a, const struct tm *b)
{
	return a->tm_year == b->tm_year && a->tm_mon == b->tm_mon && a->tm_mday == b->tm_mday && a->tm_hour == b->tm_hour &&
	       a->tm_min == b->tm_min;
}

static int from_local(const char *text, struct tm local, int64_t *ms, struct error *err)
{
	struct tm back, made = local;
	made.tm_isdst = -1;
	time_t s = mktime(&made), before = s - HOUR_S;
	/* mktime makes the 31st of a short month the 1st of the next; only an hour is the clocks' doing. */
	if (!localtime_r(&s, &back) || !same_minute(&back, &local)) {
		bool day = made.tm_mday == local.tm_mday && made.tm_mon == local.tm_mon;
		return error_set(err, ERR_INVALID, day ? "'%.40s': the clocks leave that time out on that day" :
				 "'%.40s': there is no such day", text);
	}
	if (localtime_r(&before, &back) && same_minute(&back, &local))
		s = before;
	*ms = (int64_t)s * 1000;
	return 0;
}

/* "18:00": the next time that it is. */
static int parse_time_of_day(const char *text, const struct tm *read, int64_t now_ms, int64_t *ms, struct error *err)
{
	time_t now = (time_t)(now_ms / 1000);
	struct tm local;
	localtime_r(&now, &local);
	local.tm_hour = read->tm_hour;
	local.tm_min = read->tm_min;
	local.tm_sec = read->tm_sec;
	if (!from_local(text, local, ms, NULL) && *ms > now_ms)
		return 0;
	local.tm_mday++;
	struct tm noon = local;		/* makes the day a real one, whatever the clocks do in its night */
	noon.tm_hour = 12;
	noon.tm_isdst = -1;
	mktime(&noon);
	local.tm_mday = noon.tm_mday, local.tm_mon = noon.tm_mon, local.tm_year = noon.tm_year;
	return from_local(text, local, ms, err);
}

static bool reads_as(const char *text, const char *form, struct tm *local)
{
	*local = (struct tm){ 0 };
	const char *end = strptime(text, form, local);
	return end && !*end;
}

static int parse_from_now(const char *text, int64_t now_ms, int64_t *ms)
{
	int64_t more = 0;
	if (!strncmp(text, "now", 3))
		text += 3;
	else if (*text != '+')
		return -1;
	if (*text && (*text != '+' || units_parse_duration(text + 1, &more, NULL)))
		return -1;
	*ms = now_ms + more * 1000;
	return 0;
}

int moment_parse(const char *text, int64_t now_ms, int64_t *ms, struct error *err)
{
	static const char *const times[] = { "%H:%M", "%H:%M:%S" };
	static const char *const days[] = { "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d" };
	size_t len = strlen(text);
	struct tm local;
	if (len && text[len - 1] == 'Z' && !clock_parse_iso(text, ms))
		return 0;
	for (size_t i = 0; i < COUNT_OF(times); i++)
		if (reads_as(text, times[i], &local))
			return parse_time_of_day(text, &local, now_ms, ms, err);
	for (size_t i = 0; i < COUNT_OF(days); i++)
		if (reads_as(text, days[i], &local))
			return from_local(text, local, ms, err);
	if (!parse_from_now(text, now_ms, ms))
		return 0;
	int64_t begin_s;	/* what --begin takes beside these: tomorrow, noon, 4pm, now+1hour */
	if (!submit_caller_begin(text, now_ms / 1000, &begin_s, NULL) && begin_s) {
		*ms = begin_s * 1000;
		return 0;
	}
	return error_set(err, ERR_INVALID, "'%.40s': expected 18:00, 2026-11-20T18:00, now+2h or 2026-11-20T18:00:00Z", text);
}
