/* SPDX-License-Identifier: MIT
 * Reading a command line: tables of any length, the order of options, and what is said of each mistake.
 */
#include "base/args.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct { bool json; const char *size; } got;

static const struct args_option options[] = {
	{ "json", 'j', NULL, "print JSON", .flag = &got.json }, { "size", 's', "SIZE", "how large", .value = &got.size },
	{ "set", 0, "KEY=VALUE", "a setting" }, { "nice", 0, "[N]", "lower" }, { "sizes", 0, NULL, "all of them" },
	{ "model-name", 0, "NAME", "which" }, { "output", 0, "FILE", "where to" }, { 0 },
};

/* Splits at blanks. */
static int read_line(struct args *a, const char *line, enum args_place place, struct error *err)
{
	static char copy[300], *argv[40];
	int argc = 0;
	snprintf(copy, sizeof copy, "rad %s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	got.json = false;
	got.size = NULL;
	return args_read(a, argc, argv, options, place, err);
}

static void values_and_words(void **state)
{
	(void)state;
	struct args a;
	assert_int_equal(read_line(&a, "--set a=1 x --size=3 -s4 --set=b=2 -j y --nice --nice=5", ARGS_ANYWHERE, NULL), 0);
	assert_true(got.json);
	assert_string_equal(got.size, "4");
	assert_int_equal(a.n_words, 2);
	assert_string_equal(a.words[0], "x");
	assert_string_equal(a.words[1], "y");
	static const struct { const char *name, *value; } order[] = {
		{ "set", "a=1" }, { "size", "3" }, { "size", "4" }, { "set", "b=2" }, { "json", NULL }, { "nice", NULL }, { "nice", "5" },
	};
	assert_int_equal(a.n_given, COUNT_OF(order));
	for (size_t i = 0; i < COUNT_OF(order); i++) {
		assert_string_equal(a.given[i].option->name, order[i].name);
		if (order[i].value)
			assert_string_equal(a.given[i].value, order[i].value);
		else
			assert_null(a.given[i].value);
	}
	args_clear(&a);
}

static void options_may_end_at_the_first_word(void **state)
{
	(void)state;
	struct args a;
	assert_int_equal(read_line(&a, "-j train.py --size 3", ARGS_FIRST, NULL), 0);
	assert_int_equal(a.n_words, 3);
	assert_false(a.dashes);
	args_clear(&a);
	assert_int_equal(read_line(&a, "-j -- --size", ARGS_FIRST, NULL), 0);
	assert_true(a.dashes && a.n_words == 1 && got.json && !got.size);
	args_clear(&a);
	assert_int_equal(read_line(&a, "--", ARGS_FIRST, NULL), 0);
	assert_true(a.dashes && !a.n_words && !a.words[0]);
	args_clear(&a);
	assert_int_equal(read_line(&a, "-h --frobnicate", ARGS_FIRST, NULL), 0);
	assert_true(a.help);
	args_clear(&a);
}

static void names_cut_short(void **state)
{
	(void)state;
	static const char *const taken[] = { "--mode 5", "--mode=5", "--model-na=5", "--model-name 5", "--model-name=5" };
	static const char *const others[] = { "--model 5", "--model=5", "x --model 5", "--model" };
	struct args a;
	for (size_t i = 0; i < COUNT_OF(taken); i++) {
		if (read_line(&a, taken[i], ARGS_ANYWHERE, NULL) || a.n_given != 1 || strcmp(a.given[0].option->name, "model-name") ||
		    strcmp(a.given[0].value, "5"))
			fail_msg("not taken: %s", taken[i]);
		args_clear(&a);
	}
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		struct error err = ERROR_INIT;
		if (!read_line(&a, others[i], ARGS_ANYWHERE, &err))
			fail_msg("taken: %s", others[i]);
		if (i < 3 && !strstr(err.text, "unknown option '--model"))
			fail_msg("'%s' gave: %s", others[i], err.text);
		args_clear(&a);
	}
	/* a value that looks like it is none */
	assert_int_equal(read_line(&a, "--size --model --json", ARGS_ANYWHERE, NULL), 0);
	assert_string_equal(got.size, "--model");
	args_clear(&a);
	assert_int_equal(read_line(&a, "-s --model", ARGS_ANYWHERE, NULL), 0);
	args_clear(&a);
}

static void mistakes(void **state)
{
	(void)state;
	static const struct { const char *line, *says; } rows[] = {
		{ "--jsno", "unknown option '--jsno': did you mean '--json'?" }, { "x --frobnicate y", "unknown option '--frobnicate'" },
		{ "--jsno=3", "did you mean '--json'?" }, { "--si 4", "unknown option '--si'" }, { "--json -Z", "unknown option '-Z'" },
		{ "-jZ", "unknown option '-Z'" }, { "--size", "--size needs a value: --size=SIZE" }, { "-s", "--size needs a value" },
		{ "--json=1", "--json takes no value, but '--json=1' was given" }, { "--help=1", "--help takes no value" },
		{ "--hepl", "did you mean '--help'?" }, { "--size-limit 4", "'--size-limit': did you mean '--size'?" },
		{ "--jobs", "unknown option '--jobs'" },
		{ "--output=", "--output has an empty value (is a variable not set?): --output=FILE" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct args a;
		struct error err = ERROR_INIT;
		if (!read_line(&a, rows[i].line, ARGS_ANYWHERE, &err))
			fail_msg("taken: %s", rows[i].line);
		if (!strstr(err.text, rows[i].says))
			fail_msg("'%s' gave: %s", rows[i].line, err.text);
		args_clear(&a);
	}
}

/* Ten times more than any verb has; the last row is as good as the first. */
static void tables_of_any_length(void **state)
{
	(void)state;
	enum { MANY = 400 };
	scoped_free struct args_option *many = alloc_zero((MANY + 1) * sizeof *many);
	static char names[MANY][16];
	const char *value = NULL;
	for (size_t i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "option-%03zu", i);
		many[i] = (struct args_option){ names[i], 0, "N", "one of many", .value = &value };
	}
	char *argv[] = { "rad", "--option-399=last", "--option-3990", NULL };
	struct args a;
	struct error err = ERROR_INIT;
	assert_int_equal(args_read(&a, 2, argv, many, ARGS_ANYWHERE, NULL), 0);
	assert_ptr_equal(a.given[0].option, &many[MANY - 1]);
	assert_string_equal(value, "last");
	args_clear(&a);
	assert_int_equal(args_read(&a, 3, argv, many, ARGS_ANYWHERE, &err), -1);
	assert_non_null(strstr(err.text, "did you mean '--option-3"));
	args_clear(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_and_words), cmocka_unit_test(options_may_end_at_the_first_word), cmocka_unit_test(names_cut_short),
		cmocka_unit_test(mistakes), cmocka_unit_test(tables_of_any_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
