/* SPDX-License-Identifier: MIT
 * Members of radd's objects: what is not there is unknown, and which tasks people see as one.
 */
#include "cli/member.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/format.h"
#include "cli/which.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

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

static void gpus_in_a_row_are_told_as_a_row(void **state)
{
	(void)state;
	static const struct { const char *uuids, *told; } rows[] = {
		{ "[]", "" }, { "['a0']", "0" }, { "['a0','a1']", "0,1" }, { "['a0','a1','a2']", "0-2" },
		{ "['a3','a1','a2','a10']", "3,1,2,10" },
		{ "['a9','a10','a11','m0','m1','m2']", "9-11,0:0,0:1,0:2" }, { "['GPU-gone-and-long','a1','a2','a3']", "GPU-gone-and,1-3" },
	};
	scoped_json *gpus = json_array();
	for (int i = 0; i < 12; i++)
		json_array_append_new(gpus, json_pack("{so, so}", "uuid", json_sprintf("a%d", i), "number", json_sprintf("%d", i)));
	for (int i = 0; i < 3; i++)
		json_array_append_new(gpus, json_pack("{so, so}", "uuid", json_sprintf("m%d", i), "number", json_sprintf("0:%d", i)));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_free char *text = alloc_string(rows[i].uuids);
		for (char *quote = text; (quote = strchr(quote, '\'')); )
			*quote = '"';
		scoped_json *uuids = json_loads(text, 0, NULL);
		scoped_free char *told = format_gpus(uuids, gpus);
		assert_string_equal(told, rows[i].told);
	}
}

static void what_was_told_of_gpus_can_be_said(void **state)
{
	(void)state;
	static const struct { const char *said, *names; } rows[] = {
		{ "0-2,5", "[\"0\",\"1\",\"2\",\"5\"]" }, { "1:0,GPU-8a-3", "[\"1:0\",\"GPU-8a-3\"]" }, { "3-1", "[\"3-1\"]" },
		{ "0-4000", "[\"0-4000\"]" }, { "01", "[\"01\"]" }, { "", "[\"\"]" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_json *names = json_array();
		which_gpus(rows[i].said, names);
		scoped_free char *text = json_dumps(names, JSON_COMPACT);
		assert_string_equal(text, rows[i].names);
	}
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

/* What one attempt does not tell is not taken for 0, nor the others for unknown. */
static void attempts_are_summed_up(void **state)
{
	(void)state;
	scoped_json *task = json_pack("{s[{sf, sn}, {sn, sf}, {sf, sf}]}",
				      "attempts", "j", 3.0, "mib", "j", "mib", 7.0, "j", 2.0, "mib", 5.0);
	assert_true(member_over_attempts(task, "j", true) == 5);
	assert_true(member_over_attempts(task, "mib", false) == 7);
	assert_true(isnan(member_over_attempts(task, "watts", true)) && isnan(member_over_attempts(NULL, "j", false)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_and_ids), cmocka_unit_test(attempts_are_summed_up),
		cmocka_unit_test(gpus_in_a_row_are_told_as_a_row),
		cmocka_unit_test(what_was_told_of_gpus_can_be_said),
		cmocka_unit_test(elements_that_wait_for_the_same_are_seen_as_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
