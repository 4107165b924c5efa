/* SPDX-License-Identifier: MIT
 * Moments: see moment.h. What a clock shows is counted as though there were no zones, so that days and months are reckoned as
 * in a calendar; only first_shown asks when clocks are set.
 */
#include "cli/moment.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define DAY_S 86400
#define YEAR_LEAST (1000 - 1900)	/* of struct tm: fewer digits are a slip */

/* What a clock shows at the moment; and whether it does so each day, or each year, as the text left that out. */
struct reading { struct tm tm; enum { ONCE, DAILY, YEARLY } comes; };

static int64_t offset_s(int64_t s)
{
	struct tm local;
	time_t t = (time_t)s;
	return localtime_r(&t, &local) ? local.tm_gmtoff : 0;
}

static int64_t shown_s(int64_t s)
{
	return s + offset_s(s);
}

static int64_t first_shown(int64_t want)
{
	/* By the offsets of a day before and of a day after: they differ where clocks are set between. */
	int64_t s = want - offset_s(want - DAY_S), other = want - offset_s(want + DAY_S);
	if (shown_s(s) == want)
		return s;
	if (shown_s(other) == want)
		return other;
	while (s - other > 1) {		/* left out: before it at `other`, behind it at `s` */
		int64_t middle = other + (s - other) / 2;
		*(shown_s(middle) < want ? &other : &s) = middle;
	}
	return s;
}

static int64_t moment_s(struct tm tm)
{
	return first_shown((int64_t)timegm(&tm));
}

static struct tm today(int64_t now_ms)
{
	struct tm tm;
	time_t now = (time_t)(now_ms / 1000);
	localtime_r(&now, &tm);
	return (struct tm){ .tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday };
}

/* ---- days and times ---- */

static bool read_clock(const char *text, struct tm *tm)
{
	static const struct { const char *word; int hour; } words[] = {
		{ "midnight", 0 }, { "noon", 12 }, { "fika", 15 }, { "teatime", 16 },
	};
	static const char *const forms[] = { "%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p" };
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (!strcasecmp(text, words[i].word)) {
			tm->tm_hour = words[i].hour;
			return true;
		}
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct tm read = *tm;
		const char *end = strptime(text, forms[i], &read);
		if (end && !*end) {
			*tm = read;
			return true;
		}
	}
	return false;
}

/* What stands behind a day: nothing, or a time. */
static bool read_rest(const char *text, struct tm *tm)
{
	return !*text || (strchr("Tt -", *text) && read_clock(text + 1, tm));
}

static bool read_named_day(const char *text, enum moment_sense sense, struct tm *tm)
{
	static const struct { const char *word; int days; } words[] = { { "yesterday", -1 }, { "today", 0 }, { "tomorrow", 1 } };
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		size_t len = strlen(words[i].word);
		if (strncasecmp(text, words[i].word, len) || (words[i].days < 0 && sense == MOMENT_NEXT))
			continue;
		tm->tm_mday += words[i].days;
		timegm(tm);
		return read_rest(text + len, tm);
	}
	return false;
}

static bool read_date(const char *text, struct reading *r)
{
	static const struct { const char *form; bool yearly; } dates[] = {
		{ "%Y-%m-%d", false }, { "%m/%d/%y", false }, { "%m.%d.%y", false }, { "%m%d%y", false },
		{ "%m/%d", true }, { "%m.%d", true }, { "%m%d", true },
	};
	const struct tm day = r->tm;
	for (size_t i = 0; i < COUNT_OF(dates); i++) {
		r->tm = day;
		r->comes = dates[i].yearly ? YEARLY : ONCE;
		const char *rest = strptime(text, dates[i].form, &r->tm);
		if (rest && read_rest(rest, &r->tm) && r->tm.tm_year >= YEAR_LEAST)
			return true;
	}
	return false;
}

static bool read_calendar(const char *text, enum moment_sense sense, int64_t now_ms, struct reading *r)
{
	*r = (struct reading){ today(now_ms), DAILY };
	if (read_clock(text, &r->tm))
		return true;
	r->comes = ONCE;
	return read_named_day(text, sense, &r->tm) || read_date(text, r);
}

static int settle(const char *text, struct reading r, enum moment_sense sense, int64_t now_ms, int64_t *ms, struct error *err)
{
	bool over = sense == MOMENT_NEXT && moment_s(r.tm) * 1000 <= now_ms;
	r.tm.tm_year += over && r.comes == YEARLY;
	if (!clock_is_day(&r.tm))
		return error_set(err, ERR_INVALID, "'%.40s': there is no such day", text);
	r.tm.tm_mday += over && r.comes == DAILY;
	*ms = moment_s(r.tm) * 1000;
	return 0;
}

/* ---- what asks no clock here, months, lengths ---- */

/* Our own form, to the millisecond, and those of `date`. */
static bool read_zoned(const char *text, int64_t *ms)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M%z", "%Y-%m-%d %H:%M:%S%z" };
	size_t len = strlen(text);
	if (len && text[len - 1] == 'Z' && !clock_parse_iso(text, ms))
		return true;
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct tm tm = { 0 };
		const char *end = strptime(text, forms[i], &tm);
		int64_t ahead_s = tm.tm_gmtoff;
		if (end && !*end && clock_is_day(&tm)) {
			*ms = ((int64_t)timegm(&tm) - ahead_s) * 1000;
			return true;
		}
	}
	return false;
}

bool moment_month(const char *text, int64_t *from_ms, int64_t *to_ms)
{
	struct tm tm = { .tm_mday = 1 };
	const char *end = strptime(text, "%Y-%m", &tm);
	if (!end || *end || tm.tm_year < YEAR_LEAST)
		return false;
	*from_ms = moment_s(tm) * 1000;
	tm.tm_mon++;
	*to_ms = moment_s(tm) * 1000;
	return true;
}

int64_t moment_month_of(int64_t ms, int months)
{
	struct tm tm = today(ms);
	tm.tm_mday = 1;
	tm.tm_mon += months;
	return moment_s(tm) * 1000;
}

static bool read_month(const char *text, enum moment_sense sense, int64_t now_ms, int64_t *ms)
{
	int64_t end_ms;
	if (strcmp(text, "month") || sense == MOMENT_NEXT)
		return moment_month(text, ms, &end_ms);
	*ms = moment_month_of(now_ms, 0);
	return true;
}

/* "2h", "2hours", "30" (seconds, as Slurm has them here, not minutes), "1:30:00". */
static bool read_length(const char *text, int64_t *s)
{
	static const struct { const char *word; int64_t s; } units[] = {
		{ "", 1 }, { "second", 1 }, { "minute", 60 }, { "hour", 3600 }, { "day", DAY_S }, { "week", 7 * DAY_S },
	};
	size_t digits = strspn(text, "0123456789"), len = strlen(text + digits);
	len -= len > 1 && text[digits + len - 1] == 's';
	for (size_t i = 0; digits && digits < 10 && i < COUNT_OF(units); i++)
		if (strlen(units[i].word) == len && !strncasecmp(text + digits, units[i].word, len)) {
			*s = strtoll(text, NULL, 10) * units[i].s;
			return true;
		}
	return text[digits] && !units_parse_duration(text, 0, INT64_MAX, s, NULL);
}

static bool read_from_now(const char *text, enum moment_sense sense, int64_t now_ms, int64_t *ms)
{
	bool says_now = !strncasecmp(text, "now", 3), back = sense == MOMENT_PAST;
	size_t len = strlen(text);
	int64_t s = 0;
	text += says_now ? 3 : 0;
	if (*text == '+' || *text == '-') {
		back = *text == '-';
		if ((back && sense == MOMENT_NEXT) || !read_length(text + 1, &s))
			return false;
	} else if (says_now ? *text : !len || isdigit((unsigned char)text[len - 1]) || !read_length(text, &s))
		return false;	/* a bare length names its unit */
	*ms = now_ms + (back ? -s : s) * 1000;
	return true;
}

int moment_parse(const char *text, enum moment_sense sense, int64_t now_ms, int64_t *ms, struct error *err)
{
	static const char *const expected[] = {
		[MOMENT_PAST] = "7d, 12h, now-2hours, yesterday, 16:00, 2026-11, 2026-11-20, 2026-11-20T16:00 or 2026-11-20T16:00:00Z",
		[MOMENT_NEXT] = "now+2h, 16:00, tomorrow, 2026-11-20, 2026-11-20T16:00 or 2026-11-20T16:00:00Z",
	};
	struct reading r;
	if (!read_zoned(text, ms) && !read_month(text, sense, now_ms, ms) && !read_from_now(text, sense, now_ms, ms)) {
		if (!read_calendar(text, sense, now_ms, &r))
			return error_set(err, ERR_INVALID, "'%.40s': expected %s", text, expected[sense]);
		if (settle(text, r, sense, now_ms, ms, err))
			return -1;
	}
	*ms = *ms < 0 ? 0 : *ms;
	return 0;
}
