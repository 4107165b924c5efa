/* SPDX-License-Identifier: MIT
 * Words and texts as people, shells and spreadsheets read them.
 */
#include "base/words.h"

#include "base/buf.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void a_path_is_called_by_its_last_part(void **state)
{
	(void)state;
	assert_string_equal(words_base("/usr/bin/python3"), "python3");
	assert_string_equal(words_base("train.py"), "train.py");
	assert_string_equal(words_base("runs/"), "runs/");
	assert_string_equal(words_base("/"), "/");
	assert_string_equal(words_base(""), "");
}

static void a_key_may_have_dashes(void **state)
{
	(void)state;
	assert_true(words_are_key("gpu-mem", 7, "gpu_mem") && words_are_key("gpu_mem=12G", 7, "gpu_mem"));
	assert_false(words_are_key("gpu-mem", 6, "gpu_mem") || words_are_key("gpu-mem", 7, "gpu_me"));
	assert_false(words_are_key("", 0, "gpu_mem") || words_are_key("GPU_MEM", 7, "gpu_mem"));
}

static void a_dash_of_text_is_none_of_an_option(void **state)
{
	(void)state;
	assert_true(words_other_dash("\u2013gpus") && words_other_dash("-\u2014gpus") && words_other_dash("\u2212"));
	assert_false(words_other_dash("--gpus") || words_other_dash("gpus\u2013"));
	assert_false(words_other_dash("\u2026") || words_other_dash(""));
	assert_false(words_other_dash("\xe2\x80") || words_other_dash("\xe2"));
}

static void characters_that_mislead_are_few(void **state)
{
	static const struct { const char *text; size_t bytes; } rows[] = {
		{ "\u061b", 0 }, { "\u061c", 2 }, { "\u200d", 0 }, { "\u200e", 3 }, { "\u200f", 3 }, { "\u2027", 0 }, { "\u2028", 3 },
		{ "\u202e", 3 }, { "\u202f", 0 }, { "\u2065", 0 }, { "\u2066", 3 }, { "\u2069", 3 }, { "\u206a", 0 }, { "\U000dffff", 0 },
		{ "\U000e0000", 4 }, { "\U000e007f", 4 }, { "\U000e0080", 0 }, { "a", 0 }, { "", 0 }, { "\xf3\xa0\x80", 0 }, { "\xe2", 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(words_turns(rows[i].text), rows[i].bytes);
}

static void control_characters_are_those_beyond_ascii_too(void **state)
{
	static const struct { const char *text; size_t bytes; } rows[] = {
		{ "\x1b[2J", 1 }, { "\n", 1 }, { "\x7f", 1 }, { "\xc2\x80", 2 }, { "\xc2\x9b", 2 }, { "\xc2\x9f", 2 }, { "\xc2\xa0", 0 },
		{ "\xc3\x9b", 0 }, { "\x9b", 0 }, { "\xc2", 0 }, { " ", 0 }, { "", 0 },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		assert_int_equal(words_controls(rows[i].text), rows[i].bytes);
	char text[] = "\x1b[2J\xc2\x9b" "a\xc3\xa9\n";
	words_replace_controls(text, '?');
	assert_string_equal(text, "?[2J?a\xc3\xa9?");
}

static void text_is_cut_between_characters(void **state)
{
	(void)state;
	assert_int_equal(words_cut("abc", 3), 3);
	assert_int_equal(words_cut("abc", 9), 3);
	assert_int_equal(words_cut("abc", 2), 2);
	assert_int_equal(words_cut("a\xc3\xa4\xe2\x82\xac", 2), 1);
	assert_int_equal(words_cut("a\xc3\xa4\xe2\x82\xac", 5), 3);
	assert_int_equal(words_cut("a\xc3\xa4\xe2\x82\xac", 6), 6);
	assert_int_equal(words_cut("\xa4\xa4\xa4", 2), 2);	/* no character is there to be cut */
}

static void a_field_of_csv_is_text_to_readers_and_spreadsheets(void **state)
{
	static const struct { const char *text, *field; } rows[] = {
		{ "train", "train" }, { "", "" }, { "a,b", "\"a,b\"" }, { "say \"hi\"", "\"say \"\"hi\"\"\"" },
		{ "two\nlines", "\"two\nlines\"" }, { "=1+1", "\"'=1+1\"" }, { "@f", "\"'@f\"" }, { "\t=1", "\"'\t=1\"" }, { "a=1", "a=1" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_buf b = { 0 };
		words_add_csv(&b, rows[i].text);
		assert_string_equal(buf_text(&b), rows[i].field);
	}
}

static void words_for_a_shell_are_in_quotes(void **state)
{
	scoped_buf b = { 0 };
	(void)state;
	words_add_shell(&b, "it's $HOME");
	assert_string_equal(buf_text(&b), "'it'\\''s $HOME'");
}

static void words_for_people_are_quoted_where_a_shell_wants_it(void **state)
{
	static const struct { const char *word, *shown; } rows[] = {
		{ "python", "python" }, { "--lr=0.1", "--lr=0.1" }, { "/a/b,c:d@e%f+g_h", "/a/b,c:d@e%f+g_h" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "", "''" }, { "a b", "'a b'" }, { "$X", "'$X'" }, { "it's", "'it'\\''s'" }, { "~", "'~'" },
		{ "a;b", "'a;b'" }, { "*", "'*'" },
		{ "[1]", "'[1]'" }, { "a\nb", "'a\nb'" },
	};
	scoped_buf line = { 0 };
	char *rest, *word;
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_buf b = { 0 };
		words_add_shell_word(&b, rows[i].word);
		assert_string_equal(buf_text(&b), rows[i].shown);
		buf_printf(&line, "%s ", rows[i].shown);
	}
	rest = line.data;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		word = words_next_shell_word(&rest);
		assert_string_equal(word, rows[i].word);
	}
	assert_null(words_next_shell_word(&rest));
	char odd[] = "a\\";	/* a quote that is not closed, a stroke at the end */
	rest = odd;
	assert_string_equal(words_next_shell_word(&rest), "a\\");
	char open[] = " 'a b";
	rest = open;
	assert_string_equal(words_next_shell_word(&rest), "a b");
	assert_null(words_next_shell_word(&rest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_called_by_its_last_part), cmocka_unit_test(a_key_may_have_dashes),
		cmocka_unit_test(a_dash_of_text_is_none_of_an_option),
		cmocka_unit_test(characters_that_mislead_are_few),
		cmocka_unit_test(control_characters_are_those_beyond_ascii_too),
		cmocka_unit_test(text_is_cut_between_characters),
		cmocka_unit_test(a_field_of_csv_is_text_to_readers_and_spreadsheets),
		cmocka_unit_test(words_for_a_shell_are_in_quotes),
		cmocka_unit_test(words_for_people_are_quoted_where_a_shell_wants_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
