/* SPDX-License-Identifier: MIT
 * Tests of ids.c: what `rad queue` prints is read, and what is no id is refused whole.
 */
#include "cli/ids.h"

#include "base/buf.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void expect(const char *word, const char *ids, bool several)
{
	struct ids got = { 0 };
	struct error err = ERROR_INIT;
	scoped_buf text = { 0 };
	char id[TASK_ID_TEXT];
	assert_int_equal(ids_add(word, &got, &err), 0);
	for (size_t i = 0; i < got.n; i++)
		buf_printf(&text, "%s%s", i ? " " : "", task_id_text(got.list[i], id));
	assert_string_equal(buf_text(&text), ids);
	assert_int_equal(got.several, several);
	ids_clear(&got);
}

static void reads_what_queue_prints(void **state)
{
	(void)state;
	expect("12", "12", false);
	expect("12_3", "12_3", false);
	expect("8_[4-7]", "8_4 8_5 8_6 8_7", true);
	expect("8_[4-6,9]", "8_4 8_5 8_6 8_9", true);
	expect("8_[0-9:4%2]", "8_0 8_4 8_8", true);
	expect("4-6,12", "4 5 6 12", true);
	expect("12,4,4,8_[1,0],8", "4 8 8_0 8_1 12", true);
}

static void refuses_what_is_none(void **state)
{
	static const char *const words[] = {
		"", ",", "4,", "a", "4-", "-4", "9-4", "8_[", "8_[]", "8_[4-", "8_[4]]", "8_3_[4]", "8_4-9", "4-8_3", "1-4294967296",
		"8_[9-4]", "8_[4,4]", "0", "8_[1000000]", "[4-9]", "4--9", "8_[4][5]",
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		struct ids got = { 0 };
		struct error err = ERROR_INIT;
		assert_int_equal(ids_add(words[i], &got, &err), -1);
		ids_clear(&got);
		assert_non_null(strstr(err.text, "names no tasks"));
	}
}

/* Of a list the one that is wrong is told. */
static void names_what_is_none(void **state)
{
	struct ids got = { 0 };
	struct error err = ERROR_INIT;
	(void)state;
	assert_int_equal(ids_add("46,63-66,47_3-5,48", &got, &err), -1);
	assert_memory_equal(err.text, "'47_3-5' names no tasks", 23);
	assert_non_null(strstr(err.text, "12_[4-7,9]"));
	ids_clear(&got);
}

/* Who gives a name is told how ids are found by it. */
static void tells_a_name_from_an_id(void **state)
{
	struct ids got = { 0 };
	struct error err = ERROR_INIT;
	(void)state;
	assert_int_equal(ids_add("train.py", &got, &err), -1);
	assert_string_equal(err.text, "'train.py' names no tasks: write ids, as 12 or 12_3: 'rad queue -t all --name=train.py' finds "
			    "those of a name");
	ids_clear(&got);
}

static void bounds_what_it_stands_for(void **state)
{
	struct ids got = { 0 };
	struct error err = ERROR_INIT;
	(void)state;
	assert_int_equal(ids_add("1-10000", &got, &err), 0);
	assert_int_equal(got.n, 10000);
	ids_clear(&got);
	assert_int_equal(ids_add("1-4294967295", &got, &err), -1);
	ids_clear(&got);
	assert_non_null(strstr(err.text, "more than 10000"));
	assert_int_equal(ids_add("1,2-10001", &got, &err), -1);
	ids_clear(&got);
}

static void has_elements_of_whole_arrays(void **state)
{
	struct ids got = { 0 };
	(void)state;
	assert_int_equal(ids_add("4-6,8_[1-2]", &got, NULL), 0);
	assert_true(ids_have(&got, TASK_ID(5, -1)));
	assert_true(ids_have(&got, TASK_ID(5, 7)));
	assert_true(ids_have(&got, TASK_ID(8, 2)));
	assert_false(ids_have(&got, TASK_ID(8, 3)));
	assert_false(ids_have(&got, TASK_ID(8, -1)));
	ids_clear(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_queue_prints),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(names_what_is_none),
		cmocka_unit_test(tells_a_name_from_an_id),
		cmocka_unit_test(bounds_what_it_stands_for),
		cmocka_unit_test(has_elements_of_whole_arrays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
