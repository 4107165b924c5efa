/* SPDX-License-Identifier: MIT
 * Tests of track_run.c: what a task is as a run, and which points its GPUs' series gives.
 */
#include "cli/track_run.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define AT INT64_C(1764000000000)	/* 2025-11-24T16:00:00Z */

/* With ' for ", which C would have to escape. */
static json_t *read_json(const char *text)
{
	json_error_t why;
	scoped_free char *copy = alloc_string(text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json_t *o = json_loads(copy, 0, &why);
	if (!o)
		fail_msg("%s", why.text);
	return o;
}

/* One that ran out of memory after 12 s on GPU 1, and ran on both from 15 s to 40 s. */
static json_t *task(void)
{
	return read_json(
		"{'id': '7_2', 'name': 'train', 'user': 'ann', 'state': 'COMPLETED', 'gpus_requested': 2, 'share': 'mps', 'exit_code': 0,"
		" 'submit_time': '2025-11-24T15:59:59.000Z', 'end_time': '2025-11-24T16:00:40.000Z',"
		" 'command': 'python train.py --lr 0.1 -b=32 --amp --layers 2 -3 --note \\u0027a  b\\u0027 --we$ird x --lr 5', 'attempts': ["
		" {'start': '2025-11-24T16:00:01.500Z', 'end': '2025-11-24T16:00:12.000Z', 'gpus': ['GPU-b'], 'energy_j': 10,"
		"  'peak_mib': 100},"
		" {'start': '2025-11-24T16:00:15.000Z', 'end': '2025-11-24T16:00:40.000Z', 'gpus': ['GPU-a', 'GPU-b'], 'energy_j': 30,"
		"  'peak_mib': 200, 'verdict': 'ok'}]}");
}

/* Parts of 5 s from AT on: GPU a always as 0.2, GPU b as the number of its part in tenths, with one that is not known. */
static json_t *series(void)
{
	return read_json(
		"{'gpus': [{'index': 4, 'uuid': 'GPU-a', 'mem_total_mib': 1000}, {'index': 5, 'uuid': 'GPU-b'}], 'series': ["
		" {'gpu': 0, 'from': '2025-11-24T16:00:00.000Z', 'step_s': 5, 'mem_mib': [500,500,500,500,500,500,500,500],"
		"  'smact': [0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2]},"
		" {'gpu': 1, 'from': '2025-11-24T16:00:00.000Z', 'step_s': 5, 'smact': [0,0.1,0.2,0.3,null,0.5,null,null]}]}");
}

static const json_t *find(const json_t *list, const char *key, json_int_t step)
{
	size_t i;
	json_t *o;
	json_array_foreach(list, i, o)
		if (!strcmp(json_string_value(json_object_get(o, "key")), key) &&
		    (step < 0 || json_integer_value(json_object_get(o, "step")) == step))
			return o;
	return NULL;
}

static double value(const json_t *list, const char *key, json_int_t step)
{
	return json_number_value(json_object_get(find(list, key, step), "value"));
}

static const char *text(const json_t *list, const char *key)
{
	return json_string_value(json_object_get(find(list, key, -1), "value"));
}

static void test_params(void **state)
{
	(void)state;
	scoped_json *t = task();
	scoped_json *p = track_run_params(t);
	assert_string_equal(text(p, "lr"), "0.1");	/* the first of two */
	assert_string_equal(text(p, "b"), "32");
	assert_string_equal(text(p, "amp"), "True");
	assert_string_equal(text(p, "layers"), "2 -3");	/* a number is no option */
	assert_string_equal(text(p, "note"), "a  b");
	assert_string_equal(text(p, "array_index"), "2");
	assert_string_equal(text(p, "gpus"), "2");
	assert_null(find(p, "we$ird", -1));
}

static void test_end(void **state)
{
	(void)state;
	scoped_json *t = task();
	scoped_json *sums = track_run_sums(t), *tags = track_run_tags(t);
	assert_string_equal(track_run_status(t), "FINISHED");
	assert_true(value(sums, "rad/energy_j", 0) == 40 && value(sums, "rad/peak_mib", 0) == 200);
	assert_true(value(sums, "rad/attempts", 0) == 2);
	assert_null(find(sums, "rad/slowdown", 0));	/* not known */
	assert_string_equal(text(tags, "rad.exit_code"), "0");
	static const char *const words[][2] = { { "RUNNING", "RUNNING" }, { "PENDING", "SCHEDULED" }, { "TIMEOUT", "KILLED" },
						{ "CANCELLED", "KILLED" }, { "OUT_OF_MEMORY", "FAILED" }, { "LOST", "FAILED" } };
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		json_object_set_new(t, "state", json_string(words[i][0]));
		assert_string_equal(track_run_status(t), words[i][1]);
	}
}

static void test_points(void **state)
{
	(void)state;
	scoped_json *t = task(), *s = series(), *p = json_array();
	track_run_points(t, s, (struct track_span){ AT, AT + 40000 }, TRACK_STEP_MS, AT + 60000, p);
	/* Slot 0: GPU b alone, since 1.5 s. Slot 1: both attempts, each GPU once. Slot 3: of GPU b nothing is known. */
	assert_int_equal(json_integer_value(json_object_get(find(p, "system/DCGMI - SM Active", 0), "timestamp")), AT + 1500);
	assert_true(value(p, "system/DCGMI - SM Active", 0) > 0.0499 && value(p, "system/DCGMI - SM Active", 0) < 0.0501);
	assert_null(find(p, "system/gpu_4_memory_usage_percentage", 0));
	assert_true(value(p, "system/gpu_4_memory_usage_percentage", 1) == 50);
	assert_true(value(p, "system/gpu_4_memory_usage_megabytes", 1) == 524.288);
	assert_true(value(p, "system/DCGMI - SM Active", 1) > 0.224 && value(p, "system/DCGMI - SM Active", 1) < 0.226);
	assert_true(value(p, "system/DCGMI - SM Active", 2) > 0.349 && value(p, "system/DCGMI - SM Active", 2) < 0.351);
	assert_true(value(p, "system/DCGMI - SM Active", 3) == 0.2);
	assert_null(find(p, "system/gpu_5_memory_usage_megabytes", -1));
	assert_null(find(p, "system/DCGMI - SM Active", 4));
	/* In order of time, so that a batch that was taken says from where to go on. */
	for (size_t i = 1; i < json_array_size(p); i++)
		assert_true(json_integer_value(json_object_get(json_array_get(p, i - 1), "timestamp")) <=
			    json_integer_value(json_object_get(json_array_get(p, i), "timestamp")));
}

static void test_go_on(void **state)
{
	(void)state;
	scoped_json *t = task(), *s = series(), *all = json_array();
	track_run_points(t, s, (struct track_span){ AT, AT + 40000 }, TRACK_STEP_MS, AT + 60000, all);
	for (size_t most = 1; most <= json_array_size(all) + 1; most++) {
		size_t at = 0;
		int64_t sent = AT;
		while (at < json_array_size(all)) {
			scoped_json *rest = json_array();
			track_run_points(t, s, (struct track_span){ sent, AT + 40000 }, TRACK_STEP_MS, AT + 60000, rest);
			size_t n = track_run_cut(all, at, most);
			assert_true(n > 0);
			if (most < 6)	/* a slot is larger: no cut is good */
				break;
			assert_true(n <= most && json_equal(json_array_get(rest, 0), json_array_get(all, at)));
			at += n;
			sent = track_run_after(json_integer_value(json_object_get(json_array_get(all, at - 1), "timestamp")));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_params), cmocka_unit_test(test_end), cmocka_unit_test(test_points), cmocka_unit_test(test_go_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
