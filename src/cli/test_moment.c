/* SPDX-License-Identifier: MIT
 * Moments to come, in a time zone whose clocks are set forward at 2:00 on 2026-03-29 and back at 3:00 on 2026-10-25.
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

static int64_t utc(const char *iso)
{
	int64_t ms;
	assert_int_equal(clock_parse_iso(iso, &ms), 0);
	return ms;
}

static void forms_are_read(void **state)
{
	(void)state;
	static const struct { const char *now, *text, *want; } ok[] = {
		{ "2026-11-20T12:00:00Z", "18:00", "2026-11-20T17:00:00Z" },
		{ "2026-11-20T12:00:00Z", "18:00:30", "2026-11-20T17:00:30Z" },
		{ "2026-11-20T18:00:00Z", "18:00", "2026-11-21T17:00:00Z" },
		{ "2026-12-31T18:00:00Z", "18:00", "2027-01-01T17:00:00Z" },
		{ "2026-11-20T12:00:00Z", "2026-11-22T18:00", "2026-11-22T17:00:00Z" },
		{ "2026-11-20T12:00:00Z", "2026-11-22 18:00:05", "2026-11-22T17:00:05Z" },
		{ "2026-11-20T12:00:00Z", "2026-11-22", "2026-11-21T23:00:00Z" },
		{ "2026-11-20T12:00:00Z", "2026-11-22T18:00:00Z", "2026-11-22T18:00:00Z" },
		{ "2026-11-20T12:00:00Z", "now", "2026-11-20T12:00:00Z" },
		{ "2026-11-20T12:00:00Z", "+90m", "2026-11-20T13:30:00Z" },
		{ "2026-11-20T12:00:00Z", "now+2h", "2026-11-20T14:00:00Z" },
		{ "2026-11-20T12:00:00Z", "now+2hours", "2026-11-20T14:00:00Z" },
		{ "2026-11-20T12:00:00Z", "tomorrow", "2026-11-20T23:00:00Z" },
		/* Summer begins and ends between now and then. */
		{ "2026-03-28T20:00:00Z", "18:00", "2026-03-29T16:00:00Z" },
		{ "2026-10-24T20:00:00Z", "18:00", "2026-10-25T17:00:00Z" },
		/* 2:30 comes twice: the first counts. */
		{ "2026-10-24T20:00:00Z", "2026-10-25T02:30", "2026-10-25T00:30:00Z" },
		{ "2026-10-24T20:00:00Z", "02:30", "2026-10-25T00:30:00Z" },
		/* Left out tonight, and past today: the day after. */
		{ "2026-03-29T00:30:00Z", "02:30", "2026-03-30T00:30:00Z" },
	};
	for (size_t i = 0; i < COUNT_OF(ok); i++) {
		struct error err = ERROR_INIT;
		int64_t ms;
		if (moment_parse(ok[i].text, utc(ok[i].now), &ms, &err))
			fail_msg("%s: %s", ok[i].text, err.text);
		char got[CLOCK_ISO_LEN], want[CLOCK_ISO_LEN];
		assert_string_equal(clock_iso(ms, got), clock_iso(utc(ok[i].want), want));
	}
}

static void what_is_no_time_is_refused(void **state)
{
	(void)state;
	static const struct { const char *text, *says; } bad[] = {
		{ "2026-03-29T02:30", "leave that time out" }, { "2026-02-30", "no such day" }, { "2026-13-01", "expected" },
		{ "25:00", "expected" }, { "18:00x", "expected" }, { "", "expected" }, { "yesterday", "expected" }, { "+", "expected" },
		{ "now-2h", "expected" }, { "18:60", "expected" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct error err = ERROR_INIT;
		int64_t ms;
		assert_int_equal(moment_parse(bad[i].text, utc("2026-03-01T12:00:00Z"), &ms, &err), -1);
		if (!strstr(err.text, bad[i].says))
			fail_msg("%s: %s", bad[i].text, err.text);
	}
}

int main(void)
{
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_are_read),
		cmocka_unit_test(what_is_no_time_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
