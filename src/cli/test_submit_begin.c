/* SPDX-License-Identifier: MIT
 * Tests of submit_begin.c: times as people write them, over the end of summer time, and what is no time.
 */
#include "cli/submit_caller.h"

#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* A Wednesday at 12:00:00 in Berlin, four days before the clock goes back there. */
static void test_begin(void **state)
{
	const int64_t now = 1792576800;	/* 2026-10-21T10:00:00Z */
	static const struct { const char *text; int64_t at; } good[] = {
		{ "now", 0 }, { "now+60", 60 }, { "now+1hour", 3600 }, { "now+2hours", 7200 }, { "NOW+30minutes", 1800 },
		{ "now+1day", 86400 }, { "now+1week", 604800 }, { "now+90m", 5400 }, { "now+1:00:00", 3600 }, { "12:01", 60 },
		{ "12:00", 86400 }, { "11:59:30", 86370 }, { "4:00pm", 14400 }, { "12:00am", 43200 }, { "midnight", 43200 },
		{ "noon", 86400 }, { "tomorrow", 43200 }, { "2026-10-21T13:00", 3600 }, { "2026-10-22T12:00:01", 86401 },
		{ "2026-10-26T12:00", 5 * 86400 + 3600 }, { "2026-10-22", 43200 }, { "today", -43200 }, { "2020-02-29", 0 },
	};
	static const char *const bad[] = {
		"", "soon", "now+", "now+x", "now-1", "now+1fortnight", "24:00", "12:60", "12", "2026-13-01", "2026-02-30",
		"2026-10-21T", "2026-10-21T25:00", "2026-10-21 13:00", "13:00pm", "now+99999999999", "2099-01-01", "12:00:",
		"now+1000000weeks"
	};
	(void)state;
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		int64_t at = -1;
		struct error err = ERROR_INIT;
		if (submit_caller_begin(good[i].text, now, &at, &err))
			fail_msg("%s", err.text);
		if (good[i].at && at != now + good[i].at)
			fail_msg("%s: %lld, not %lld", good[i].text, (long long)(at - now), (long long)good[i].at);
	}
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		int64_t at;
		struct error err = ERROR_INIT;
		if (!submit_caller_begin(bad[i], now, &at, &err))
			fail_msg("'%s' was taken as %lld", bad[i], (long long)at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_begin) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
