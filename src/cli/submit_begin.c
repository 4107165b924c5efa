/* SPDX-License-Identifier: MIT
 * The value of --begin: see submit_caller.h. The forms are those of sbatch's that people use; a time of day is the next one
 * there is, and a date without a time its midnight, all in the caller's time zone.
 */
#include "cli/submit_caller.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MOST_AHEAD_S (10LL * 366 * 86400)

static int bad_begin(const char *text, struct error *err)
{
	return error_set(err, ERR_INVALID, "'%.60s' is no time to begin at: write now+1hour, 16:00, tomorrow, 2026-11-22 or "
			 "2026-11-22T16:00", text);
}

/* "now+1hour", "now+30minutes", "now+3600" (seconds); "now+1h" and "now+1:30:00" as well. */
static int begin_after(const char *text, const char *after, int64_t now_s, int64_t *begin_s, struct error *err)
{
	static const struct { const char *word; int64_t s; } units[] = {
		{ "", 1 }, { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", 86400 }, { "week", 7 * 86400 },
	};
	size_t digits = strspn(after, "0123456789"), len = strlen(after + digits);
	scoped_free char *number = alloc_printf("%.*s", (int)digits, after);
	int64_t n = 0, ahead = -1;
	if (len > 1 && after[digits + len - 1] == 's')
		len--;
	for (size_t i = 0; i < COUNT_OF(units); i++)
		if (strlen(units[i].word) == len && !strncasecmp(after + digits, units[i].word, len) &&
		    !units_parse_int(number, 0, MOST_AHEAD_S / units[i].s, &n, NULL))
			ahead = n * units[i].s;
	if (ahead < 0 && (strspn(after, "0123456789") == strlen(after) || units_parse_duration(after, &ahead, NULL)))
		return bad_begin(text, err);
	*begin_s = now_s + ahead;
	return 0;
}

/* "16:00", "16:00:30", "4:00pm", "noon", "midnight". */
static bool take_clock(const char *text, struct tm *tm)
{
	unsigned h, m, s = 0;
	int used = 0;
	if (!strcasecmp(text, "noon") || !strcasecmp(text, "midnight")) {
		tm->tm_hour = tolower((unsigned char)*text) == 'n' ? 12 : 0;
		tm->tm_min = tm->tm_sec = 0;
		return true;
	}
	if (!isdigit((unsigned char)*text) || sscanf(text, "%2u:%2u%n", &h, &m, &used) != 2)
		return false;
	text += used;
	if (*text == ':' && (!isdigit((unsigned char)text[1]) || sscanf(text, ":%2u%n", &s, &used) != 1))
		return false;
	text += *text == ':' ? used : 0;
	bool pm = !strcasecmp(text, "pm"), am = !strcasecmp(text, "am");
	if ((*text && !pm && !am) || m > 59 || s > 59 || h > 23 || ((am || pm) && (h < 1 || h > 12)))
		return false;
	tm->tm_hour = (int)(am || pm ? h % 12 + (pm ? 12 : 0) : h);
	tm->tm_min = (int)m;
	tm->tm_sec = (int)s;
	return true;
}

/* "2026-11-22", and what stands behind it; NULL: none. */
static const char *take_date(const char *text, struct tm *tm)
{
	unsigned y, m, d;
	int used = 0;
	if (!isdigit((unsigned char)*text) || sscanf(text, "%4u-%2u-%2u%n", &y, &m, &d, &used) != 3)
		return NULL;
	if (y < 1970 || !m || m > 12 || !d || d > 31)
		return NULL;
	*tm = (struct tm){ .tm_year = (int)y - 1900, .tm_mon = (int)m - 1, .tm_mday = (int)d };
	return text + used;
}

/* mktime moves what is no day, the 30th of February, to one that is. */
static int64_t local_time(struct tm tm)
{
	int day = tm.tm_mday;
	tm.tm_isdst = -1;
	time_t t = mktime(&tm);
	return t < 0 || (day <= 31 && day >= 28 && tm.tm_mday != day) ? -1 : (int64_t)t;
}

static int64_t day_after(struct tm tm)
{
	tm.tm_mday++;
	tm.tm_isdst = -1;
	return (int64_t)mktime(&tm);
}

int submit_caller_begin(const char *text, int64_t now_s, int64_t *begin_s, struct error *err)
{
	time_t now = (time_t)now_s;
	struct tm tm;
	localtime_r(&now, &tm);
	const struct tm today = { .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday };
	const char *rest = NULL;
	int64_t at = -1;
	if (!strncasecmp(text, "now", 3) && !text[3])
		at = 0;
	else if (!strncasecmp(text, "now+", 4))
		return begin_after(text, text + 4, now_s, begin_s, err);
	else if (!strcasecmp(text, "today"))
		at = local_time(today);
	else if (!strcasecmp(text, "tomorrow"))
		at = day_after(today);
	else if ((rest = take_date(text, &tm)) && (!*rest || ((*rest == 'T' || *rest == 't') && take_clock(rest + 1, &tm))))
		at = local_time(tm);
	else if (!rest && (tm = today, take_clock(text, &tm)) && (at = local_time(tm)) >= 0 && at <= now_s)
		at = day_after(tm);	/* that time of today is over */
	if (at < 0)
		return bad_begin(text, err);
	if (at > now_s + MOST_AHEAD_S)
		return error_set(err, ERR_INVALID, "'%.60s' is more than ten years ahead", text);
	*begin_s = at;
	return 0;
}
