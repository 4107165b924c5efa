/* SPDX-License-Identifier: MIT
 * The one textual form of time that we print: ISO 8601, UTC, milliseconds. Looks at no clock, and, since it is UTC, at no zone.
 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

char *clock_iso(int64_t wall_ms, char buf[CLOCK_ISO_LEN])
{
	buf[0] = 0;
	if (wall_ms <= 0)
		return buf;
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&s, &tm) || tm.tm_year > 8099)
		return buf;
	strftime(buf, CLOCK_ISO_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + 19, CLOCK_ISO_LEN - 19, ".%03uZ", (unsigned)(wall_ms % 1000) % 1000);
	return buf;
}

bool clock_is_day(const struct tm *tm)
{
	struct tm made = { .tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday };
	timegm(&made);
	return made.tm_mday == tm->tm_mday;
}

int clock_parse_iso(const char *text, int64_t *wall_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!rest && !(rest = strptime(text, "%Y-%m-%d", &tm)))
		return -1;
	int ms = 0, unit = 100;
	if (*rest == '.' && rest[1] >= '0' && rest[1] <= '9')
		for (rest++; unit && *rest >= '0' && *rest <= '9'; unit /= 10)
			ms += (*rest++ - '0') * unit;
	if (*rest == 'Z')
		rest++;
	if (*rest || !clock_is_day(&tm))
		return -1;
	*wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return 0;
}
