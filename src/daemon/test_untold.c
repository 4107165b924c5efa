/* SPDX-License-Identifier: MIT */
#include "daemon/untold.h"

#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static size_t known(const struct untold *u, task_id id, int64_t uid)
{
	scoped_json *o = untold_json(u, id, uid);
	return json_object_size(o);
}

static void the_last_of_each_user_are_kept(void **state)
{
	(void)state;
	struct untold *u = untold_create();
	untold_add(u, 2, TASK_ID(9, -1), 1000, "his");
	for (int i = 0; i < 100; i++)
		untold_add(u, 1, TASK_ID(3, i), 1000 + i, "hers");
	assert_int_equal(known(u, TASK_ID(3, -1), 1), 50);
	assert_int_equal(known(u, TASK_ID(3, 49), 1), 0);
	assert_int_equal(known(u, TASK_ID(3, 50), 1), 1);
	assert_int_equal(known(u, TASK_ID(3, 50), 2), 0);	/* not of who asks */
	assert_int_equal(known(u, TASK_ID(3, 50), -1), 1);
	assert_int_equal(known(u, TASK_ID(9, -1), 2), 1);
	/* Of one task the last, which takes no other's place. */
	untold_add(u, 1, TASK_ID(3, 50), 7000, "again");
	assert_int_equal(known(u, TASK_ID(3, -1), 1), 50);
	scoped_json *o = untold_json(u, TASK_ID(3, 50), 1);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "3_50"), "text")), "again");
	untold_destroy(u);
}

/* A path of letters of two bytes is longer than is kept, and is cut between two of them. */
static void what_is_long_is_cut_between_characters(void **state)
{
	(void)state;
	struct untold *u = untold_create();
	char why[2 * 400 + 2] = "x";
	for (int i = 0; i < 400; i++)
		memcpy(why + 1 + 2 * i, "\xc3\xa9", 2);
	untold_add(u, 1, TASK_ID(3, -1), 1000, why);
	scoped_json *o = untold_json(u, TASK_ID(3, -1), 1);
	const char *text = json_string_value(json_object_get(json_object_get(o, "3"), "text"));
	assert_int_equal(strlen(text), 299);
	assert_memory_equal(text, why, 299);
	untold_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_last_of_each_user_are_kept),
					    cmocka_unit_test(what_is_long_is_cut_between_characters) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
