/* SPDX-License-Identifier: MIT
 * Text that does not fit, or is printed only in part, is cut between characters.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EURO "\xe2\x82\xac"

static void the_part_of_a_character_at_the_end_goes(void **state)
{
	static const struct { const char *text; size_t n, whole; } rows[] = {
		{ "abc", 3, 3 }, { "", 0, 0 }, { EURO, 3, 3 }, { EURO, 2, 0 }, { EURO, 1, 0 }, { "a" EURO, 3, 1 }, { "a\xc3\xa4", 3, 3 },
		{ "a\xc3\xa4", 2, 1 }, { "\U0001f600", 4, 4 }, { "\U0001f600", 3, 0 }, { "a\xa4\xa4\xa4\xa4", 5, 5 }, { "\xa4", 1, 1 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(text_whole(rows[i].text, rows[i].n), rows[i].whole);
}

static void a_precision_cuts_between_characters(void **state)
{
	(void)state;
	char out[80];
	assert_int_equal(text_printf(out, sizeof out, "'%.4s' and '%.5s'", "a" EURO EURO, EURO EURO), 4 + 3 + 9);
	assert_string_equal(out, "'a" EURO "' and '" EURO "'");
	text_printf(out, sizeof out, "%d %5.1f %lld %zu %c %% %-8.2s|%.03s|%.*s|%s", -1, 2.5, 1ll << 40, (size_t)7, 'x', EURO,
		    EURO "b", 2, "abc", EURO);
	assert_string_equal(out, "-1   2.5 1099511627776 7 x %         |" EURO "|ab|" EURO);
	/* Of what has no end, no more is read than is printed. */
	static const char unended[3] = { 'a', 'b', 'c' };
	text_printf(out, sizeof out, "%.3s", unended);
	assert_string_equal(out, "abc");
	/* What is no UTF-8 stays as it is. */
	text_printf(out, sizeof out, "%.2s", "\xa4\xa4\xa4");
	assert_string_equal(out, "\xa4\xa4");
}

static void room_ends_between_characters(void **state)
{
	(void)state;
	char out[5];
	assert_int_equal(text_printf(out, sizeof out, "%s", "ab" EURO "c"), 6);
	assert_string_equal(out, "ab");
	assert_int_equal(text_printf(out, sizeof out, "a%s", EURO), 4);
	assert_string_equal(out, "a" EURO);
	assert_int_equal(text_printf(NULL, 0, "%s", EURO), 3);
}

/* Whoever makes text for people does so, and no one has to think of it. */
static void all_that_people_read_is_cut_so(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	error_set(&err, ERR_INVALID, "'%.4s' is wrong", "ab" EURO);
	assert_string_equal(err.text, "'ab' is wrong");
	error_wrap(&err, "%.2s", EURO);
	assert_string_equal(err.text, ": 'ab' is wrong");
	scoped_free char *made = alloc_printf("%.4s|", "ab" EURO);
	assert_string_equal(made, "ab|");
	scoped_buf b = { 0 };
	buf_printf(&b, "%.4s|%d", "ab" EURO, 5);
	assert_string_equal(buf_text(&b), "ab|5");
	scoped_json *j = json_printf("%.4s|", "ab" EURO);
	assert_string_equal(json_string_value(j), "ab|");
}

static void a_long_format_is_printed_all_the_same(void **state)
{
	(void)state;
	char fmt[TEXT_FORMAT + 20], out[TEXT_FORMAT + 20];
	memset(fmt, 'x', sizeof fmt);
	strcpy(fmt + TEXT_FORMAT, "%.3s");
	text_printf(out, sizeof out, fmt, "abcdef");
	assert_string_equal(out + TEXT_FORMAT, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_part_of_a_character_at_the_end_goes), cmocka_unit_test(a_precision_cuts_between_characters),
		cmocka_unit_test(room_ends_between_characters), cmocka_unit_test(all_that_people_read_is_cut_so),
		cmocka_unit_test(a_long_format_is_printed_all_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
