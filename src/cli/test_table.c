/* SPDX-License-Identifier: MIT
 * Tables at the widths of terminals: nothing wider than asked for, and what matters stays.
 */
#include "cli/member.h"
#include "cli/queue_table.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct term wide = { .utf8 = true };

static char *printed(const struct table *t, const struct term *term)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	table_print(t, term, out);
	fclose(out);
	return text;
}

/* The columns of the longest line. */
static unsigned widest(const char *text)
{
	unsigned most = 0;
	scoped_free char *copy = alloc_string(text);
	for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned columns = term_columns(line);
		most = columns > most ? columns : most;
	}
	return most;
}

static struct table *three_columns(void)
{
	static const struct table_column columns[] = {
		{ "ID", .right = true }, { "NAME", .min = 4 }, { "MEM", .right = true, .drop = 1 }, { "WHERE", .drop = 2 },
	};
	struct table *t = table_create(columns, COUNT_OF(columns));
	table_cell(t, STYLE_PLAIN, "12");
	table_cell(t, STYLE_BAD, "a-long-name");
	table_cell(t, STYLE_PLAIN, "40.0G");
	table_cell(t, STYLE_PLAIN, "here");
	return t;
}

static void test_the_last_one_goes_on_below(void **state)
{
	(void)state;
	static const struct table_column columns[] = { { "ID", .right = true }, { "NOTES", .min = 20, .wrap = true } };
	struct table *t = table_create(columns, COUNT_OF(columns));
	table_cell(t, STYLE_PLAIN, "1");
	table_cell(t, STYLE_PLAIN, "no capture: rad capture makes one");
	table_cell(t, STYLE_PLAIN, "2");
	table_cell(t, STYLE_PLAIN, "short");
	struct term narrow = { .utf8 = true, .width = 28 };
	scoped_free char *text = printed(t, &narrow), *all = printed(t, &wide);
	assert_string_equal(text, "ID  NOTES\n 1  no capture: rad capture\n    makes one\n 2  short\n");
	assert_string_equal(all, "ID  NOTES\n 1  no capture: rad capture makes one\n 2  short\n");
	table_destroy(t);
}

static void test_all_columns_where_there_is_room(void **state)
{
	(void)state;
	struct table *t = three_columns();
	scoped_free char *text = printed(t, &wide);
	assert_string_equal(text, "ID  NAME           MEM  WHERE\n12  a-long-name  40.0G  here\n");
	table_destroy(t);
}

static void test_shortened_before_anything_is_left_out(void **state)
{
	(void)state;
	struct table *t = three_columns();
	scoped_free char *text = printed(t, &(struct term){ .utf8 = true, .width = 24 });
	assert_string_equal(text, "ID  NAME      MEM  WHERE\n12  a-lon…  40.0G  here\n");
	table_destroy(t);
}

/* Runs of a sweep are told apart by what stands last in their names. */
/* A column of one cell in a window of so many columns. */
static void assert_cut(const struct table_column *column, unsigned width, const char *cell, const char *cut)
{
	struct table *t = table_create(column, 1);
	table_cell(t, STYLE_PLAIN, cell);
	scoped_free char *text = printed(t, &(struct term){ .utf8 = true, .width = width });
	scoped_free char *want = alloc_printf("%s\n%s\n", column->title, cut);
	assert_string_equal(text, want);
	table_destroy(t);
}

static void test_names_keep_their_ends(void **state)
{
	(void)state;
	static const struct table_column columns[] = { { "NAME", .min = 6, .ends = true } };
	static const struct { const char *name, *cut; } names[] = {
		{ "resnet50-imagenet-lr-0.01", "resn…-0.01" }, { "short-name", "short-name" }, { "short-names", "shor…names" },
		{ "模型模型模型模型", "模型…模型" }, { "a\nmuch longer one", "a?mu…r one" },
	};
	for (size_t i = 0; i < COUNT_OF(names); i++)
		assert_cut(columns, 10, names[i].name, names[i].cut);
	scoped_free char *poor = term_text_ends("resnet50-imagenet-lr-0.01", 10, &(struct term){ .width = 10 });
	assert_string_equal(poor, "resn~-0.01");
}

static void test_lists_are_cut_between_words(void **state)
{
	(void)state;
	static const struct table_column columns[] = { { "TASKS", .min = 5, .list = true } };
	static const struct { const char *list, *cut; } lists[] = {
		{ "1110 1112 1115_0", "1110 1112 …" }, { "1110 1112", "1110 1112" }, { "1110 11125 1", "1110 11125 1" },
		{ "1110 11125 13", "1110 11125 …" }, { "1110 111256 13", "1110 …" }, { "1234567890_1234 5", "1234567890_…" }, { "", "" },
	};
	for (size_t i = 0; i < COUNT_OF(lists); i++)
		assert_cut(columns, 12, lists[i].list, lists[i].cut);
}

static void test_percent_stays_with_its_number(void **state)
{
	(void)state;
	scoped_free char *text = term_wrap("of its work at least 5 % is wanted", 0, &(struct term){ .utf8 = true, .width = 22 });
	assert_string_equal(text, "of its work at least\n5 % is wanted");
}

static void test_what_matters_least_goes_first(void **state)
{
	(void)state;
	struct table *t = three_columns();
	scoped_free char *less = printed(t, &(struct term){ .utf8 = true, .width = 15 });
	scoped_free char *least = printed(t, &(struct term){ .utf8 = true, .width = 10 });
	assert_string_equal(less, "ID  NAME    MEM\n12  a-l…  40.0G\n");
	assert_string_equal(least, "ID  NAME\n12  a-lon…\n");
	table_destroy(t);
}

static void test_one_line_of_it_is_as_in_the_whole(void **state)
{
	(void)state;
	struct table *t = three_columns();
	struct term coloured = { .utf8 = true, .colour = true };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	table_print_one(t, 0, true, &coloured, out);
	table_print_one(t, 0, false, &coloured, out);
	fclose(out);
	assert_string_equal(text, "12  a-long-name  40.0G  here\n12  \033[91ma-long-name\033[0m  40.0G  here\n");
	free(text);
	table_destroy(t);
}

/* ---- the table of tasks ---- */

static json_t *task(const char *id, const char *state, const char *reason, bool progress)
{
	return json_pack("{ss, ss, ss, ss, si, si, sf, so, s{si}, s[{s[s]}], ss}", "id", id, "name",
		"llama-7b-fine-tuning-with-a-long-name", "user", "anna-lena", "state", state, "priority", 0, "gpus_requested", 1, "run_s",
		93784.0, "progress", progress ? json_pack("{sf, sf}", "percent", 42.0, "left_s", 40000.0) : json_null(), "estimate",
		"claim_mib", 40000, "attempts", "gpus", "GPU-0", "reason", reason);
}

static char *queue_at(unsigned width, bool progress)
{
	static const char *const why = "PlannedLater";
	scoped_json *tasks = json_pack("[o, o, o]", task("12", "RUNNING", "", progress), task("13_4", "PENDING", why, false),
				       task("13_5", "PENDING", why, false));
	scoped_json *gpus = json_pack("[{ss, si}]", "uuid", "GPU-0", "index", 3);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	queue_table_print(tasks, gpus, false, false, &(struct term){ .utf8 = true, .width = width }, out);
	fclose(out);
	return text;
}

static void test_tasks_at_all_widths(void **state)
{
	(void)state;
	for (unsigned width = 60; width <= 200; width++)
		for (int progress = 0; progress < 2; progress++) {
			scoped_free char *text = queue_at(width, progress);
			if (widest(text) > width)
				fail_msg("%u columns at %u:\n%s", widest(text), width, text);
			static const char *const kept[] = { "ID", "NAME", "USER", "ST", "TIME", "GPU(REASON)", "13_[4-5]", " R ", "PD",
							    "1-02:03:04", "(PlannedLater)" };
			for (size_t i = 0; i < COUNT_OF(kept); i++)
				if (!strstr(text, kept[i]))
					fail_msg("no %s at %u:\n%s", kept[i], width, text);
		}
}

/* What stands there is copied to other commands: a list that is cut off names tasks that were never meant. */
static void test_elements_are_all_named(void **state)
{
	(void)state;
	scoped_buf elements = { 0 };
	for (int i = 1; i < 1000; i += 2)
		buf_printf(&elements, "%s%d", i > 1 ? "," : "", i);
	json_t *one = task("13_1", "PENDING", "ArrayLimit", false);
	json_object_set_new(one, "elements", json_string(buf_text(&elements)));
	scoped_json *tasks = json_pack("[o]", one);
	scoped_free char *text = NULL, *wanted = alloc_printf("13_[%s]  ", buf_text(&elements));
	size_t size;
	FILE *out = open_memstream(&text, &size);
	queue_table_print(tasks, NULL, false, false, &(struct term){ .utf8 = true }, out);
	fclose(out);
	assert_non_null(strstr(text, wanted));
}

static void test_wide_enough_shows_all(void **state)
{
	(void)state;
	scoped_free char *text = queue_at(200, true);
	static const char *const all[] = { "DONE", "LEFT", "GPUS", "MEM", "42%", "11h07m", "39.1G", "(PlannedLater)",
					   "llama-7b-fine-tuning-with-a-long-name" };
	for (size_t i = 0; i < COUNT_OF(all); i++)
		assert_non_null(strstr(text, all[i]));
}

/* It still holds its GPU, which whoever cancelled it waits for. */
static void test_one_that_is_asked_to_end_says_so(void **state)
{
	(void)state;
	scoped_json *tasks = json_pack("[o]", task("12", "RUNNING", "Stopping", false));
	scoped_json *gpus = json_pack("[{ss, si}]", "uuid", "GPU-0", "index", 3);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	queue_table_print(tasks, gpus, false, false, &(struct term){ .utf8 = true }, out);
	fclose(out);
	assert_non_null(strstr(text, "  3 (Stopping)"));
	free(text);
}

/* A newer radd may have states that this rad does not know. */
static void test_an_unknown_state_is_one(void **state)
{
	(void)state;
	scoped_json *tasks = json_pack("[o, o]", task("12", "THINKING", "", false), task("13", "THINKING", "", false));
	scoped_free char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	queue_table_print(tasks, NULL, false, false, &(struct term){ .utf8 = true }, out);
	fclose(out);
	assert_non_null(strstr(text, "  ?  "));
	struct queue_rows groups = queue_table_groups(tasks);
	scoped_free char *ids = queue_table_ids(groups.rows[0].tasks, groups.rows[0].n);
	assert_string_equal(ids, "12");
	assert_false(task_state_terminal(member_state(json_array_get(tasks, 0))));
	queue_table_clear(&groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_one_goes_on_below), cmocka_unit_test(test_all_columns_where_there_is_room),
		cmocka_unit_test(test_shortened_before_anything_is_left_out),
		cmocka_unit_test(test_names_keep_their_ends), cmocka_unit_test(test_lists_are_cut_between_words),
		cmocka_unit_test(test_percent_stays_with_its_number),
		cmocka_unit_test(test_what_matters_least_goes_first),
		cmocka_unit_test(test_one_line_of_it_is_as_in_the_whole),
		cmocka_unit_test(test_tasks_at_all_widths),
		cmocka_unit_test(test_elements_are_all_named),
		cmocka_unit_test(test_wide_enough_shows_all),
		cmocka_unit_test(test_one_that_is_asked_to_end_says_so), cmocka_unit_test(test_an_unknown_state_is_one),
	};
	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
