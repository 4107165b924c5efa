/* SPDX-License-Identifier: MIT
 * Clocks and the one textual form of time that we print: ISO 8601, UTC, milliseconds.
 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_mono_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t clock_mono_ms(void)
{
	return read_us(CLOCK_MONOTONIC) / 1000;
}

int64_t clock_wall_ms(void)
{
	return read_us(CLOCK_REALTIME) / 1000;
}

char *clock_iso(int64_t wall_ms, char buf[CLOCK_ISO_LEN])
{
	buf[0] = 0;
	if (!wall_ms)
		return buf;
	time_t s = (time_t)(wall_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&s, &tm) || tm.tm_year < 0 || tm.tm_year > 8099)
		return buf;
	strftime(buf, CLOCK_ISO_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + 19, CLOCK_ISO_LEN - 19, ".%03uZ", (unsigned)(wall_ms % 1000) % 1000);
	return buf;
}

int clock_parse_iso(const char *text, int64_t *wall_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!rest && !(rest = strptime(text, "%Y-%m-%d", &tm)))
		return -1;
	int ms = 0, used = 0;
	if (*rest == '.' && sscanf(rest, ".%3d%n", &ms, &used) == 1)
		rest += used;
	if (*rest == 'Z')
		rest++;
	if (*rest || ms < 0)
		return -1;
	*wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return 0;
}
