/* SPDX-License-Identifier: MIT
 * The rule of doc/errors.md: set once, wrapped on the way up, harmless without an object, never past the buffer.
 */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int leaf(struct error *err)
{
	return error_set(err, ERR_INVALID, "'%s' is not a size", "20Q");
}

static int caller(struct error *err)
{
	return leaf(err) ? error_wrap(err, "%s:%d", "train.rad", 4) : 0;
}

static void the_leaf_sets_and_callers_prepend(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	assert_int_equal(caller(&err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.text, "train.rad:4: '20Q' is not a size");
}

static void no_object_is_no_problem(void **state)
{
	(void)state;
	assert_int_equal(caller(NULL), -1);
	assert_int_equal(error_errno(NULL, "x"), -1);
}

static void system_errors_name_the_cause(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	errno = ENOENT;
	assert_int_equal(error_errno(&err, "%s", "/no/such"), -1);
	assert_int_equal(err.code, ERR_SYSTEM);
	assert_string_equal(err.text, "/no/such: No such file or directory");
}

static void one_handed_on_is_the_whole_of_it(void **state)
{
	(void)state;
	struct error aside = ERROR_INIT, err = ERROR_INIT;
	errno = EMFILE;
	error_errno(&aside, "opening");
	assert_int_equal(error_pass(&err, &aside), -1);
	assert_int_equal(error_pass(NULL, &aside), -1);
	assert_true(error_is_shortage(&err));
	assert_string_equal(err.text, aside.text);
}

static void what_does_not_fit_is_cut_between_characters(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	char many[2 * sizeof err.text + 1];
	for (size_t i = 0; i < sizeof many - 1; i += 2)
		memcpy(many + i, "\xc3\xa9", 3);
	for (int before = 0; before < 2; before++) {
		size_t most = sizeof err.text - 1;
		error_set(&err, ERR_INVALID, "%.*s%s", before, "x", many);
		assert_int_equal(strlen(err.text), most - (most - (size_t)before) % 2);
		error_wrap(&err, "%.*s", before, "x");
		assert_int_equal(strlen(err.text), most - (most - 2) % 2);
	}
	error_set(&err, ERR_INVALID, "%s\xe2\x82\xac", "whole: ");
	assert_string_equal(err.text, "whole: \xe2\x82\xac");
}

/* A full quota is waited for as a full disk is; what is not there, or not allowed, is nothing that comes back. */
static void shortages_are_told_apart(void **state)
{
	(void)state;
	static const struct { int no; bool is; } rows[] = { { ENOSPC, true }, { EDQUOT, true }, { EMFILE, true }, { EACCES, false },
							    { ENOENT, false } };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err = ERROR_INIT;
		errno = rows[i].no;
		error_errno(&err, "x");
		assert_int_equal(error_is_shortage(&err), rows[i].is);
	}
	struct error said = ERROR_INIT;
	error_set(&said, ERR_INVALID, "x");
	assert_false(error_is_shortage(&said));
}

static void long_texts_are_cut_not_spilled(void **state)
{
	(void)state;
	struct { struct error err; char guard[8]; } box = { .guard = "guarded" };
	char huge[5000];
	memset(huge, 'x', sizeof huge - 1);
	huge[sizeof huge - 1] = 0;
	error_set(&box.err, ERR_INVALID, "%s", huge);
	for (int i = 0; i < 10; i++)
		error_wrap(&box.err, "%s", huge);
	assert_int_equal(strlen(box.err.text), sizeof box.err.text - 1);
	assert_string_equal(box.guard, "guarded");
}

static void codes_have_words_and_come_back(void **state)
{
	(void)state;
	for (int c = ERR_NONE; c <= ERR_INTERNAL; c++)
		assert_int_equal(error_code_from_name(error_code_name((enum error_code)c)), c);
	assert_int_equal(error_code_from_name("no such word"), ERR_INTERNAL);
	assert_int_equal(error_code_from_name(NULL), ERR_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_leaf_sets_and_callers_prepend), cmocka_unit_test(no_object_is_no_problem),
		cmocka_unit_test(system_errors_name_the_cause), cmocka_unit_test(one_handed_on_is_the_whole_of_it),
		cmocka_unit_test(what_does_not_fit_is_cut_between_characters), cmocka_unit_test(long_texts_are_cut_not_spilled),
		cmocka_unit_test(codes_have_words_and_come_back), cmocka_unit_test(shortages_are_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
