/* SPDX-License-Identifier: MIT
 * Moments of accounts, in the forms of sacct and ours.
 */
#include "cli/span_moment.h"

#include "base/clock.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t at(const char *iso)
{
	int64_t ms = 0;
	assert_int_equal(clock_parse_iso(iso, &ms), 0);
	return ms;
}

static void forms(void **state)
{
	(void)state;
	static const struct { const char *text, *means; } rows[] = {
		{ "now", "2026-11-22T16:30:00Z" }, { "now-2hours", "2026-11-22T14:30:00Z" }, { "now-1hour", "2026-11-22T15:30:00Z" },
		{ "now+90", "2026-11-22T16:31:30Z" }, { "now-3days", "2026-11-19T16:30:00Z" }, { "now-1week", "2026-11-15T16:30:00Z" },
		{ "now-2h", "2026-11-22T14:30:00Z" }, { "12h", "2026-11-22T04:30:00Z" }, { "7d", "2026-11-15T16:30:00Z" },
		{ "today", "2026-11-22T00:00:00Z" }, { "midnight", "2026-11-22T00:00:00Z" }, { "noon", "2026-11-22T12:00:00Z" },
		{ "teatime", "2026-11-22T16:00:00Z" }, { "yesterday", "2026-11-21T00:00:00Z" }, { "tomorrow", "2026-11-23T00:00:00Z" },
		{ "month", "2026-11-01T00:00:00Z" }, { "2026-10", "2026-10-01T00:00:00Z" }, { "2026-11-20", "2026-11-20T00:00:00Z" },
		{ "2026-11-20T16:05", "2026-11-20T16:05:00Z" }, { "2026-11-20T16:05:09", "2026-11-20T16:05:09Z" },
		{ "2026-11-20 16:05", "2026-11-20T16:05:00Z" }, { "2026-11-20T16:00:00Z", "2026-11-20T16:00:00Z" },
		{ "16:05", "2026-11-22T16:05:00Z" }, { "16:05:30", "2026-11-22T16:05:30Z" }, { "4:05pm", "2026-11-22T16:05:00Z" },
		{ "11/20", "2026-11-20T00:00:00Z" }, { "11/20/25", "2025-11-20T00:00:00Z" }, { "11/20-16:05", "2026-11-20T16:05:00Z" },
		{ "11.20.26", "2026-11-20T00:00:00Z" }, { "1120", "2026-11-20T00:00:00Z" }, { "112025", "2025-11-20T00:00:00Z" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		int64_t ms = 0;
		struct error err = ERROR_INIT;
		if (span_moment_parse(rows[i].text, at("2026-11-22T16:30:00Z"), &ms, &err))
			fail_msg("%s", err.text);
		if (ms != at(rows[i].means))
			fail_msg("%s: %lld s beside %s", rows[i].text, (long long)(ms - at(rows[i].means)) / 1000, rows[i].means);
	}
}

static void refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "", "soon", "now-", "now-hours", "now-2fortnights", "now2", "25:00", "13/45", "2026-13",
					   "x7d", "now-1:", "99999999999999", "now-99999999999999999999days" };
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		int64_t ms;
		struct error err = ERROR_INIT;
		if (!span_moment_parse(bad[i], at("2026-11-22T16:30:00Z"), &ms, &err))
			fail_msg("'%s' was taken", bad[i]);
		assert_non_null(strstr(err.text, "expected 7d"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(forms), cmocka_unit_test(refused) };
	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
