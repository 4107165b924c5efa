/* SPDX-License-Identifier: MIT
 * Members of radd's objects: what is not there is unknown, and which tasks people see as one.
 */
#include "cli/member.h"

#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void times_and_ids(void **state)
{
	(void)state;
	scoped_json *o = json_pack("{ss, sn, ss, ss}", "start", "1970-01-01T00:00:01.500Z", "end", "id", "12_3", "odd", "soon");
	scoped_json *none = json_pack("{ss}", "id", "x");
	assert_int_equal(member_ms(o, "start", -1), 1500);
	assert_int_equal(member_ms(o, "end", -1), -1);
	assert_int_equal(member_ms(o, "odd", -1), -1);
	assert_int_equal(member_ms(NULL, "start", 7), 7);
	assert_true(member_id(o) == TASK_ID(12, 3));
	assert_true(!member_id(none) && !member_id(NULL));
}

static json_t *waiting(const char *id, const char *task_state, const char *reason, int priority)
{
	return json_pack("{ss, ss, ss, si, ss, ss}", "id", id, "state", task_state, "reason", reason, "priority", priority,
			 "name", "sweep", "user", "ada");
}

static void elements_that_wait_for_the_same_are_seen_as_one(void **state)
{
	(void)state;
	static const struct { const char *id, *task_state, *reason; int priority; bool alike; } rows[] = {
		{ "8_4", "PENDING", "Memory", 0, true }, { "8", "PENDING", "Memory", 0, true }, { "9_4", "PENDING", "Memory", 0, false },
		{ "8_4", "HELD", "Memory", 0, false }, { "8_4", "PENDING", "Load", 0, false }, { "8_4", "PENDING", "Memory", 1, false },
	};
	scoped_json *first = waiting("8_3", "PENDING", "Memory", 0), *runs = waiting("8_5", "RUNNING", "", 0);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_json *other = waiting(rows[i].id, rows[i].task_state, rows[i].reason, rows[i].priority);
		assert_int_equal(member_wait_alike(first, other), rows[i].alike);
		assert_int_equal(member_wait_alike(other, first), rows[i].alike);
	}
	assert_false(member_wait_alike(runs, runs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_and_ids),
		cmocka_unit_test(elements_that_wait_for_the_same_are_seen_as_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
