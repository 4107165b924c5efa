/* SPDX-License-Identifier: MIT
 * Of a task's object the members that are wanted are made, as they are in the whole, and no others.
 */
#include "task/task.h"

#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static json_t *list_of(const char *const *names, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_text(names[i]));
	return list;
}

static void names_are_of_members_and_of_their_members(void **state)
{
	static const char *const names[] = { "name", "estimate.claim_mib", "attempts[].gpus", "attempts.peak_mib", "load" };
	(void)state;
	scoped_json *list = list_of(names, COUNT_OF(names));
	const struct task_wants w = task_wants_of(list), all = task_wants_of(NULL);
	assert_true(task_wants(&w, "name") && task_wants(&w, "estimate") && task_wants(&w, "attempts"));
	assert_false(task_wants(&w, "nam") || task_wants(&w, "names") || task_wants(&w, "claim_mib") || task_wants(&w, "user"));
	assert_true(task_wants_whole(&w, "name") && task_wants_whole(&w, "load"));
	assert_false(task_wants_whole(&w, "estimate") || task_wants_whole(&w, "attempts") || task_wants_whole(&w, "user"));
	assert_true(task_wants_within(&w, "attempts", "gpus") && task_wants_within(&w, "attempts", "peak_mib"));
	assert_false(task_wants_within(&w, "attempts", "load") || task_wants_within(&w, "estimate", "gpus"));
	assert_true(task_wants(&all, "user") && task_wants_whole(&all, "attempts") && task_wants(NULL, "user"));
	assert_true(task_wants_whole(NULL, "attempts"));
}

static struct task *ended_task(void)
{
	struct spec *s = spec_create();
	char gpus[2][GPU_UUID_LEN] = { "GPU-0", "GPU-1" };
	struct event events[] = {
		{ .kind = EV_SUBMITTED, .t_ms = 1000 },
		{ .kind = EV_ESTIMATED, .t_ms = 1000, .u.estimate = { .estimator = "declared", .need_mib = 900, .claim_mib = 1000 } },
		{ .kind = EV_PLACED, .t_ms = 2000, .u.placed = { .gpus = gpus, .n_gpus = 2, .claim_mib = 1000 } },
		{ .kind = EV_STARTED, .t_ms = 2000, .u.started = { { 7, 1 } } },
		{ .kind = EV_ENDED, .t_ms = 9000, .u.ended = { .verdict = VERDICT_OK, .seen = task_measured_nothing(),
							       .next = NEXT_DONE, .state = TASK_COMPLETED } },
	};
	s->gpus = 2;
	s->name = strdup("wanted");
	struct task *t = task_create(TASK_ID(3, -1), s);
	for (size_t i = 0; i < COUNT_OF(events); i++)
		assert_int_equal(task_apply(t, &events[i], NULL), 0);
	return t;
}

/* Each member alone, and of attempts each of theirs. */
static void each_is_as_it_is_in_the_whole(void **state)
{
	const char *name;
	json_t *value;
	(void)state;
	struct task *t = ended_task();
	scoped_json *whole = task_to_json(t, 9000), *attempts = json_incref(json_object_get(whole, "attempts"));
	assert_int_equal(json_array_size(attempts), 1);
	json_object_foreach(whole, name, value) {
		scoped_json *list = list_of(&name, 1);
		const struct task_wants w = task_wants_of(list);
		scoped_json *some = task_to_json_some(t, 9000, &w);
		size_t least = strcmp(name, "id") ? 2 : 1, two_of_slowdown = !strncmp(name, "slowdown", 8);
		assert_int_equal(json_object_size(some), least + two_of_slowdown);
		assert_true(json_equal(json_object_get(some, name), value));
	}
	json_object_foreach(json_array_get(attempts, 0), name, value) {
		char path[80];
		snprintf(path, sizeof path, "attempts[].%s", name);
		scoped_json *list = list_of(&(const char *){ path }, 1);
		const struct task_wants w = task_wants_of(list);
		scoped_json *some = task_to_json_some(t, 9000, &w);
		const json_t *one = json_array_get(json_object_get(some, "attempts"), 0);
		assert_int_equal(json_object_size(one), 1);
		assert_true(json_equal(json_object_get(one, name), value));
	}
	task_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_of_members_and_of_their_members),
		cmocka_unit_test(each_is_as_it_is_in_the_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
