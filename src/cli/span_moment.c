/* SPDX-License-Identifier: MIT
 * Moments of accounts as people type them: see span_moment.h.
 */
#include "cli/span_moment.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static int64_t local_ms(struct tm *local)
{
	local->tm_isdst = -1;
	return (int64_t)mktime(local) * 1000;
}

/* The beginning of the day so many after that of `now_ms`, or of its month. */
static int64_t beginning_ms(int64_t now_ms, int days, bool month)
{
	struct tm local;
	time_t now = (time_t)(now_ms / 1000);
	localtime_r(&now, &local);
	local.tm_hour = local.tm_min = local.tm_sec = 0;
	local.tm_mday = month ? 1 : local.tm_mday + days;
	return local_ms(&local);
}

bool span_moment_month(const char *text, int more, int64_t *ms)
{
	struct tm local = { .tm_mday = 1 };
	const char *end = strptime(text, "%Y-%m", &local);
	local.tm_mon += more;
	if (!end || *end)
		return false;
	*ms = local_ms(&local);
	return true;
}

/* Days that have names, and times of today that have. */
static bool parse_word(const char *text, int64_t now_ms, int64_t *ms)
{
	static const struct { const char *word; int days; int64_t minutes; } words[] = {
		{ "today", 0, 0 }, { "midnight", 0, 0 }, { "yesterday", -1, 0 }, { "tomorrow", 1, 0 }, { "noon", 0, 12 * 60 },
		{ "fika", 0, 15 * 60 }, { "teatime", 0, 16 * 60 },
	};
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (!strcasecmp(text, words[i].word)) {
			*ms = beginning_ms(now_ms, words[i].days, false) + words[i].minutes * 60000;
			return true;
		}
	if (strcmp(text, "month"))
		return false;
	*ms = beginning_ms(now_ms, 0, true);
	return true;
}

/* "now", "now-2hours", "now+1day", "now-30" (seconds), and our own "now-2h". */
static bool parse_now(const char *text, int64_t now_ms, int64_t *ms)
{
	static const struct { const char *word; int64_t s; } units[] = {
		{ "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 }, { "week", 7 * 86400 },
	};
	if (strncasecmp(text, "now", 3) || (text[3] && text[3] != '-' && text[3] != '+'))
		return false;
	int64_t n = 0, sign = text[3] == '-' ? -1 : 1;
	const char *number = text + 3 + (text[3] != 0);
	size_t digits = strspn(number, "0123456789"), len = strlen(number + digits);
	*ms = now_ms;
	if (!text[3])
		return true;
	if (!digits || digits > 9 || (len <= 1 && len && units_parse_duration(number, &n, NULL)))
		return false;
	if (len <= 1) {
		*ms += sign * (len ? n : strtoll(number, NULL, 10)) * 1000;
		return true;
	}
	len -= number[digits + len - 1] == 's';
	for (size_t i = 0; i < COUNT_OF(units); i++)
		if (strlen(units[i].word) == len && !strncasecmp(number + digits, units[i].word, len)) {
			*ms += sign * strtoll(number, NULL, 10) * units[i].s * 1000;
			return true;
		}
	return false;
}

/* By the forms of strptime; what a form leaves out is today's. */
static bool parse_form(const char *text, int64_t now_ms, int64_t *ms)
{
	static const char *const forms[] = {
		"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%H:%M", "%H:%M:%S", "%I:%M%p", "%I:%M:%S%p", "%I:%M %p",
		"%m/%d", "%m/%d/%y", "%m.%d", "%m.%d.%y", "%m/%d-%H:%M", "%m/%d-%H:%M:%S", "%m/%d/%y-%H:%M", "%m/%d/%y-%H:%M:%S", "%m%d%y",
		"%m%d",
	};
	time_t now = (time_t)(now_ms / 1000);
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct tm local;
		localtime_r(&now, &local);
		local.tm_hour = local.tm_min = local.tm_sec = 0;
		const char *end = strptime(text, forms[i], &local);
		if (end && !*end) {
			*ms = local_ms(&local);
			return true;
		}
	}
	return false;
}

int span_moment_parse(const char *text, int64_t now_ms, int64_t *ms, struct error *err)
{
	size_t len = strlen(text);
	int64_t ago;
	if ((len && text[len - 1] == 'Z' && !clock_parse_iso(text, ms)) || span_moment_month(text, 0, ms) ||
	    parse_word(text, now_ms, ms) || parse_now(text, now_ms, ms) || parse_form(text, now_ms, ms))
		return 0;
	if (len && strchr("smhd", text[len - 1]) && !units_parse_duration(text, &ago, NULL)) {
		*ms = now_ms - ago * 1000;
		return 0;
	}
	return error_set(err, ERR_INVALID, "'%.40s': expected 7d, 12h, now-2hours, yesterday, 16:00, 2026-11, 2026-11-20, "
			 "2026-11-20T16:00 or 2026-11-20T16:00:00Z", text);
}
