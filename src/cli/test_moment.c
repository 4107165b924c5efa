/* SPDX-License-Identifier: MIT
 * Moments in both senses; mostly where clocks are set forward at 2:00 on 2026-03-29 and back at 3:00 on 2026-10-25.
 */
#include "cli/moment.h"

#include "base/clock.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define CENTRAL_EUROPE "CET-1CEST,M3.5.0,M10.5.0/3"

static void be_in(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

static int64_t utc(const char *iso)
{
	int64_t ms;
	assert_int_equal(clock_parse_iso(iso, &ms), 0);
	return ms;
}

static void means(const char *text, enum moment_sense sense, const char *now, const char *want)
{
	struct error err = ERROR_INIT;
	int64_t ms;
	char got[CLOCK_ISO_LEN];
	if (moment_parse(text, sense, utc(now), &ms, &err))
		fail_msg("at %s: %s", now, err.text);
	if (ms != utc(want))
		fail_msg("at %s: '%s' is %s, not %s", now, text, clock_iso(ms, got), want);
}

/* A Friday at one in the afternoon, in winter. */
static void what_is_said_in_full_means_the_same_in_both_senses(void **state)
{
	static const struct { const char *text, *want; } rows[] = {
		{ "now", "2026-11-20T12:00:00Z" }, { "NOW", "2026-11-20T12:00:00Z" }, { "now+2h", "2026-11-20T14:00:00Z" },
		{ "+90m", "2026-11-20T13:30:00Z" }, { "now+90", "2026-11-20T12:01:30Z" }, { "+90", "2026-11-20T12:01:30Z" },
		{ "now+1hour", "2026-11-20T13:00:00Z" }, { "now+2hours", "2026-11-20T14:00:00Z" },
		{ "NOW+30Minutes", "2026-11-20T12:30:00Z" },
		{ "now+1day", "2026-11-21T12:00:00Z" }, { "now+1week", "2026-11-27T12:00:00Z" },
		{ "now+1:30:00", "2026-11-20T13:30:00Z" },
		{ "now+1-12", "2026-11-22T00:00:00Z" }, { "now+5s", "2026-11-20T12:00:05Z" },
		{ "today", "2026-11-19T23:00:00Z" }, { "tomorrow", "2026-11-20T23:00:00Z" }, { "Tomorrow 18:00", "2026-11-21T17:00:00Z" },
		{ "todayT18:00", "2026-11-20T17:00:00Z" }, { "tomorrow noon", "2026-11-21T11:00:00Z" },
		{ "2026-11-22", "2026-11-21T23:00:00Z" }, { "2026-11-22T18:00", "2026-11-22T17:00:00Z" },
		{ "2026-11-22t18:00", "2026-11-22T17:00:00Z" }, { "2026-11-22 18:00", "2026-11-22T17:00:00Z" },
		{ "2026-11-22 18:00:05", "2026-11-22T17:00:05Z" }, { "2026-11-22T6:00pm", "2026-11-22T17:00:00Z" },
		{ "2026-11-22Tnoon", "2026-11-22T11:00:00Z" }, { "2026-11-22T18:00:00Z", "2026-11-22T18:00:00Z" },
		{ "2026-11-22T18:00:00.250Z", "2026-11-22T18:00:00.250Z" }, { "2026-11-22T18:00Z", "2026-11-22T18:00:00Z" },
		{ "2026-11-22T18:00+05:30", "2026-11-22T12:30:00Z" }, { "2026-11-22 18:00:01-0800", "2026-11-23T02:00:01Z" },
		{ "2028-02-29", "2028-02-28T23:00:00Z" }, { "2026-12", "2026-11-30T23:00:00Z" },
		{ "12/24/26", "2026-12-23T23:00:00Z" }, { "12.24.26", "2026-12-23T23:00:00Z" }, { "122426", "2026-12-23T23:00:00Z" },
		{ "12/24/26-18:00:30", "2026-12-24T17:00:30Z" }, { "12/24", "2026-12-23T23:00:00Z" }, { "12.24", "2026-12-23T23:00:00Z" },
		{ "1224", "2026-12-23T23:00:00Z" }, { "12/24-18:00", "2026-12-24T17:00:00Z" },
		{ "18:00", "2026-11-20T17:00:00Z" }, { "18:00:30", "2026-11-20T17:00:30Z" }, { "6:00pm", "2026-11-20T17:00:00Z" },
		{ "6:00:30 PM", "2026-11-20T17:00:30Z" }, { "teatime", "2026-11-20T15:00:00Z" }, { "fika", "2026-11-20T14:00:00Z" },
		{ "2026-07-01T12:00", "2026-07-01T10:00:00Z" }, { "2020-02-29", "2020-02-28T23:00:00Z" },
		{ "1970-01-02", "1970-01-01T23:00:00Z" },
		{ "2026-11-20T23:59:60", "2026-11-20T23:00:00Z" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		means(rows[i].text, MOMENT_PAST, "2026-11-20T12:00:00Z", rows[i].want);
		means(rows[i].text, MOMENT_NEXT, "2026-11-20T12:00:00Z", rows[i].want);
	}
}

static void what_is_left_out_is_of_today_or_the_next(void **state)
{
	static const struct { const char *now, *text, *past, *next; } rows[] = {
		{ "2026-11-20T12:00:00Z", "11:00", "2026-11-20T10:00:00Z", "2026-11-21T10:00:00Z" },
		{ "2026-11-20T12:00:00Z", "13:00", "2026-11-20T12:00:00Z", "2026-11-21T12:00:00Z" },	/* now is no next time */
		{ "2026-11-20T12:00:00Z", "midnight", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z" },
		{ "2026-11-20T12:00:00Z", "12:00am", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z" },
		{ "2026-11-20T12:00:00Z", "noon", "2026-11-20T11:00:00Z", "2026-11-21T11:00:00Z" },
		{ "2026-12-31T18:00:00Z", "18:00", "2026-12-31T17:00:00Z", "2027-01-01T17:00:00Z" },
		{ "2028-02-28T18:00:00Z", "18:00", "2028-02-28T17:00:00Z", "2028-02-29T17:00:00Z" },
		{ "2026-11-20T22:59:59Z", "00:00", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z" },	/* a second before midnight */
		{ "2026-11-20T23:00:00Z", "00:00", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z" },	/* at midnight */
		{ "2026-11-20T12:00:00Z", "11/19", "2026-11-18T23:00:00Z", "2027-11-18T23:00:00Z" },
		{ "2026-11-20T12:00:00Z", "11/20-11:00", "2026-11-20T10:00:00Z", "2027-11-20T10:00:00Z" },
		{ "2026-11-20T12:00:00Z", "0102", "2026-01-01T23:00:00Z", "2027-01-01T23:00:00Z" },
		{ "2027-03-01T12:00:00Z", "12h", "2027-03-01T00:00:00Z", "2027-03-02T00:00:00Z" },
		{ "2027-03-01T12:00:00Z", "7d", "2027-02-22T12:00:00Z", "2027-03-08T12:00:00Z" },
		{ "2027-03-01T12:00:00Z", "2days", "2027-02-27T12:00:00Z", "2027-03-03T12:00:00Z" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		means(rows[i].text, MOMENT_PAST, rows[i].now, rows[i].past);
		means(rows[i].text, MOMENT_NEXT, rows[i].now, rows[i].next);
	}
}

static void what_goes_back(void **state)
{
	static const struct { const char *text, *want; } rows[] = {
		{ "now-2hours", "2026-11-20T10:00:00Z" }, { "now-1hour", "2026-11-20T11:00:00Z" }, { "now-30", "2026-11-20T11:59:30Z" },
		{ "now-3days", "2026-11-17T12:00:00Z" }, { "now-1week", "2026-11-13T12:00:00Z" }, { "-2h", "2026-11-20T10:00:00Z" },
		{ "yesterday", "2026-11-18T23:00:00Z" }, { "yesterday 18:00", "2026-11-19T17:00:00Z" },
		{ "month", "2026-10-31T23:00:00Z" },
		{ "1900-01-01", "1970-01-01T00:00:00Z" }, { "now-999999999weeks", "1970-01-01T00:00:00Z" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		int64_t ms;
		means(rows[i].text, MOMENT_PAST, "2026-11-20T12:00:00Z", rows[i].want);
		if (*rows[i].text != '1')
			assert_int_equal(moment_parse(rows[i].text, MOMENT_NEXT, utc("2026-11-20T12:00:00Z"), &ms, NULL), -1);
	}
}

static void clocks_that_are_set(void **state)
{
	static const struct { const char *now, *text, *want; } rows[] = {
		/* Between now and then; and how long is a day. */
		{ "2026-03-28T20:00:00Z", "18:00", "2026-03-29T16:00:00Z" }, { "2026-10-24T20:00:00Z", "18:00", "2026-10-25T17:00:00Z" },
		{ "2026-10-24T20:00:00Z", "now+1day", "2026-10-25T20:00:00Z" },
		{ "2026-03-28T20:00:00Z", "tomorrow", "2026-03-28T23:00:00Z" },
		{ "2026-03-29T20:00:00Z", "tomorrow", "2026-03-29T22:00:00Z" },
		/* 2:30 comes twice; 3:00 does not. */
		{ "2026-10-24T20:00:00Z", "2026-10-25T02:30", "2026-10-25T00:30:00Z" },
		{ "2026-10-24T20:00:00Z", "02:30", "2026-10-25T00:30:00Z" },
		{ "2026-10-24T20:00:00Z", "2026-10-25T03:00", "2026-10-25T02:00:00Z" },
		{ "2026-10-25T00:45:00Z", "02:30", "2026-10-26T01:30:00Z" },
		{ "2026-10-24T20:00:00Z", "2026-10-25T01:59:59", "2026-10-24T23:59:59Z" },
		/* 2:30 is left out: what was to be then is when the clocks are set. */
		{ "2026-03-28T20:00:00Z", "2026-03-29T02:30", "2026-03-29T01:00:00Z" },
		{ "2026-03-29T00:30:00Z", "02:30", "2026-03-29T01:00:00Z" },
		{ "2026-03-28T20:00:00Z", "2026-03-29T02:00", "2026-03-29T01:00:00Z" },
		{ "2026-03-28T20:00:00Z", "2026-03-29T03:00", "2026-03-29T01:00:00Z" },
		{ "2026-03-28T20:00:00Z", "2026-03-29T02:59:59", "2026-03-29T01:00:00Z" },
		{ "2026-03-28T20:00:00Z", "2026-03-29T03:01", "2026-03-29T01:01:00Z" },
		{ "2026-03-29T01:00:00Z", "02:30", "2026-03-30T00:30:00Z" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		means(rows[i].text, MOMENT_NEXT, rows[i].now, rows[i].want);
	means("02:30", MOMENT_PAST, "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z");
	means("02:30", MOMENT_PAST, "2026-10-25T12:00:00Z", "2026-10-25T00:30:00Z");
}

/* Whatever a clock shows, as a text, is the first moment at which it showed it. */
static void every_quarter_of_an_hour_in_many_zones(void **state)
{
	static const char *const zones[] = {
		CENTRAL_EUROPE, "UTC", "XYZ-5:45", "EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
		"AAA12BBB,M9.5.0/-24,M4.1.0/26", "<+00>0<+02>-2,M3.5.0/1,M10.5.0/3", "<-01>1<+00>,M3.4.4/50,M10.4.4/50",
	};
	(void)state;
	for (size_t z = 0; z < COUNT_OF(zones); z++) {
		be_in(zones[z]);
		int64_t longest = -1;
		for (time_t t = 1767225600; t < 1767225600 + 366 * 86400; t += 900) {
			struct tm local;
			char text[32];
			int64_t ms, shown = t + localtime_r(&t, &local)->tm_gmtoff;
			strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
			assert_int_equal(moment_parse(text, MOMENT_NEXT, 0, &ms, NULL), 0);
			bool repeated = shown <= longest;
			if (repeated ? ms >= (int64_t)t * 1000 : ms != (int64_t)t * 1000)
				fail_msg("%s: %s is read as %lld, is %lld", zones[z], text, (long long)ms / 1000, (long long)t);
			longest = shown > longest ? shown : longest;
		}
	}
	be_in(CENTRAL_EUROPE);
}

static void refused(void **state)
{
	static const struct { const char *text, *says; } rows[] = {
		{ "", "expected" }, { "soon", "expected" }, { "+", "expected" }, { "-", "expected" }, { "now-", "expected" },
		{ "now+", "expected" },
		{ "now-hours", "expected" }, { "now+x", "expected" }, { "now-2fortnights", "expected" }, { "now2", "expected" },
		{ "nowadays", "expected" },
		{ "now-1:", "expected" }, { "now+1:60", "expected" }, { "now+1000000000", "expected" },
		{ "now-99999999999999999999days", "expected" },
		{ "25:00", "expected" }, { "24:00", "expected" }, { "18:60", "expected" }, { "18:00x", "expected" },
		{ "12:00:", "expected" },
		{ "13:00pm", "expected" }, { "0:30am", "expected" }, { "12", "expected" }, { "18:00Z", "expected" },
		{ "x7d", "expected" },
		{ "99999999999999", "expected" }, { "13/45", "expected" }, { "2026-13", "expected" }, { "2026-13-01", "expected" },
		{ "26-11-20", "expected" },
		{ "11-12", "expected" }, { "2026-10-21T", "expected" }, { "2026-10-21T25:00", "expected" }, { "2026-10-21x", "expected" },
		{ "2026-10-21T18:00+", "expected" }, { "todayish", "expected" }, { "tomorrow tomorrow", "expected" },
		{ "\xff\xfe", "expected" },
		{ "2026-02-30", "no such day" }, { "2027-02-29", "no such day" }, { "2026-04-31T12:00", "no such day" },
		{ "02/29", "no such day" },
		{ "0230", "no such day" }, { "2100-02-29", "no such day" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		for (int sense = MOMENT_PAST; sense <= MOMENT_NEXT; sense++) {
			struct error err = ERROR_INIT;
			int64_t ms;
			if (!moment_parse(rows[i].text, (enum moment_sense)sense, utc("2026-11-20T12:00:00Z"), &ms, &err))
				fail_msg("'%s' was taken as %lld", rows[i].text, (long long)ms);
			if (!strstr(err.text, rows[i].says) || !strstr(err.text, rows[i].text))
				fail_msg("%s: %s", rows[i].text, err.text);
		}
}

static void months(void **state)
{
	static const struct { const char *text, *from, *to; } rows[] = {
		{ "2026-11", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z" },
		{ "2026-12", "2026-11-30T23:00:00Z", "2026-12-31T23:00:00Z" },
		{ "2026-03", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z" },
		{ "2028-02", "2028-01-31T23:00:00Z", "2028-02-29T23:00:00Z" },
	};
	static const char *const none[] = { "", "2026", "2026-0", "2026-13", "2026-11-01", "26-11", "month" };
	int64_t from, to;
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		assert_true(moment_month(rows[i].text, &from, &to));
		assert_int_equal(from, utc(rows[i].from));
		assert_int_equal(to, utc(rows[i].to));
		assert_int_equal(moment_month_of(to - 1, 0), from);
		assert_int_equal(moment_month_of(from, 1), to);
		assert_int_equal(moment_month_of(from, 13), moment_month_of(to, 12));
	}
	for (size_t i = 0; i < COUNT_OF(none); i++)
		if (moment_month(none[i], &from, &to))
			fail_msg("'%s' was taken", none[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_in_full_means_the_same_in_both_senses),
		cmocka_unit_test(what_is_left_out_is_of_today_or_the_next),
		cmocka_unit_test(what_goes_back),
		cmocka_unit_test(clocks_that_are_set),
		cmocka_unit_test(every_quarter_of_an_hour_in_many_zones),
		cmocka_unit_test(refused),
		cmocka_unit_test(months),
	};
	be_in(CENTRAL_EUROPE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
