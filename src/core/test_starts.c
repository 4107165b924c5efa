/* SPDX-License-Identifier: MIT
 * When those who wait are said to start, where no plan says it: by ends, memory and loads.
 */
#include "base/json.h"
#include "core/test_world.h"

#include <math.h>

enum { ALICE = 1000, BOB };

/* One GPU, with a task of load 0.3 for 100 s and one of 0.85 for 500 s. What waits is let in when both together no longer keep
 * the GPU too busy: memory is there all the time, and after 100 s it would be 0.85 alone. */
static void starts_are_told_by_loads_too(void **unused)
{
	(void)unused;
	static const struct { double max_gract, least_s, most_s; } row[] = { { 0.90, 60, 100 }, { 0.80, 460, 500 } };
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct core_config config = ordered(ORDER_FIFO, 100000);
		config.map.share = SHARE_STREAMS;
		struct world *w = new_world(1, &config);
		w->smact = 0.3;
		teach_time(w, 5000, 1, 100);
		w->smact = 0.85;
		teach_time(w, 6000, 1, 500);
		task_id less = submit(w, spec_of(5000, 1)), more = submit(w, spec_of(6000, 1));
		hold_memory(w, less, 5000);
		hold_memory(w, more, 6000);
		assert_int_equal(state(w, less), TASK_RUNNING);
		assert_int_equal(state(w, more), TASK_RUNNING);
		w->smact = 1;
		pass(w, 10);
		config.map.max_gract = row[i].max_gract;
		core_reconfigure(w->c, &config);
		task_id next = submit(w, spec_of(3000, 1));
		pass(w, 1);
		assert_int_equal(state(w, next), TASK_PENDING);
		scoped_json *starts = core_starts_json(w->c, w->now);
		double in_s = json_number_value(json_object_get(start_among(starts, next), "in_s"));
		assert_true(in_s > row[i].least_s && in_s < row[i].most_s);
		end_world(w);
	}
}

/* Whoever has its GPU alone, by the policy or by the setting: one after the other, though there is memory for all. */
static void starts_of_those_who_run_alone_follow_each_other(void **unused)
{
	(void)unused;
	for (int by_policy = 0; by_policy < 2; by_policy++) {
		struct core_config config = ordered(ORDER_FIFO, 100000);
		task_id id[3];
		config.map.rank = by_policy ? RANK_EXCLUSIVE : RANK_MAGM;
		config.map.share = by_policy ? SHARE_MPS : SHARE_NEVER;
		struct world *w = new_world(1, &config);
		teach_time(w, 5000, 1, 100);
		for (int i = 0; i < 3; i++)
			id[i] = submit(w, spec_of(5000, 1));
		assert_int_equal(state(w, id[0]), TASK_RUNNING);
		scoped_json *starts = core_starts_json(w->c, w->now);
		for (int i = 1; i < 3; i++) {
			double in_s = json_number_value(json_object_get(start_among(starts, id[i]), "in_s"));
			assert_true(in_s > 100 * i - 40 && in_s < 100 * i + 1);
		}
		end_world(w);
	}
}

static task_id submit_for(struct world *w, uint64_t mib, int64_t limit_s)
{
	struct spec *s = spec_of(mib, 1);
	s->time_limit_s = limit_s;
	return submit(w, s);
}

static void nobody_waits_and_nothing_runs(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_int_equal(json_array_size(json_object_get(starts, "starts")), 0);
	end_world(w);
}

/* For a task without an estimate min_free is held, in the play as on the GPU: beside 34000 MiB there is room for one. */
static void starts_count_with_what_is_held_for_the_unknown(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100000);
	config.map.max_tasks = 0;
	struct world *w = new_world(1, &config);
	task_id runs = submit_for(w, 38000, 1000), id[] = { submit_for(w, 34000, 500), submit_for(w, 0, 100), submit_for(w, 0, 100) };
	const double expected_s[] = { 1000, 1000, 1100 };
	assert_int_equal(state(w, runs), TASK_RUNNING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	for (size_t i = 0; i < COUNT_OF(id); i++)
		assert_true(fabs(json_number_value(json_object_get(start_among(starts, id[i]), "in_s")) - expected_s[i]) < 1);
	end_world(w);
}

/* The wide one waits for an end that nobody knows; so does the small one behind it, though a GPU is free before. */
static void who_stands_behind_an_unknown_start_has_none(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(2, &config);
	teach_time(w, 5000, 1, 100);
	task_id known = submit(w, spec_of(5000, 1)), unknown = submit(w, spec_of(6000, 1));
	assert_int_equal(state(w, known), TASK_RUNNING);
	assert_int_equal(state(w, unknown), TASK_RUNNING);
	task_id wide = submit(w, spec_of(7000, 2)), small = submit(w, spec_of(5000, 1));
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_true(json_is_null(json_object_get(start_among(starts, wide), "start_time")));
	assert_true(json_is_null(json_object_get(start_among(starts, small), "start_time")));
	end_world(w);
}

static struct allowance two_gpus(void *ctx, uid_t uid)
{
	(void)ctx;
	struct allowance a = { { 0 } };
	a.most[ALLOWANCE_GPUS] = uid == ALICE ? 2 : 0;
	return a;
}

static double starts_in(const json_t *starts, task_id id)
{
	return json_number_value(json_object_get(start_among(starts, id), "in_s"));
}

/* There is room for all of Alice's on the idle GPUs, but she may have two at a time: they follow each other, in their order,
 * and the wide one does not let the small ones behind it pass. Bob waits for nobody's limit but for a GPU. */
static void what_a_user_may_have_is_played(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(4, &config);
	w->c->ops.allowance = two_gpus;
	teach_time(w, 5000, 1, 100);
	task_id hers[6];
	for (int i = 0; i < 6; i++) {
		struct spec *s = spec_of(5000, i == 3 ? 2 : 1);
		s->uid = ALICE;
		s->time_limit_s = i == 3 ? 300 : 0;
		hers[i] = submit(w, s);
	}
	for (int i = 0; i < 2; i++) {
		struct spec *s = spec_of(5000, 1);
		s->uid = BOB;
		assert_int_equal(state(w, submit(w, s)), TASK_RUNNING);
	}
	struct spec *s = spec_of(5000, 1);
	s->uid = BOB;
	task_id bobs = submit(w, s);
	assert_int_equal(state(w, hers[1]), TASK_RUNNING);
	assert_int_equal(state(w, hers[2]), TASK_PENDING);
	assert_int_equal(state(w, bobs), TASK_PENDING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	const double expected_s[] = { 100, 200, 500, 500 };
	for (int i = 2; i < 6; i++)
		assert_true(fabs(starts_in(starts, hers[i]) - expected_s[i - 2]) < 30);
	assert_true(fabs(starts_in(starts, bobs) - 100) < 30);
	end_world(w);
}

static struct allowance one_task(void *ctx, uid_t uid)
{
	(void)ctx, (void)uid;
	struct allowance a = { { 0 } };
	a.most[ALLOWANCE_RUNNING] = 1;
	return a;
}

/* It is on no GPU, but its user may have one task at a time. */
static void the_end_of_a_task_without_gpus_is_one(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	w->c->ops.allowance = one_task;
	struct spec *s = spec_of(0, 0);
	s->time_limit_s = 100;
	assert_int_equal(state(w, submit(w, s)), TASK_RUNNING);
	task_id next = submit_for(w, 5000, 50), last = submit_for(w, 5000, 50);
	assert_int_equal(state(w, next), TASK_PENDING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_true(fabs(starts_in(starts, next) - 100) < 2);
	assert_true(fabs(starts_in(starts, last) - 150) < 2);
	end_world(w);
}

/* The larger GPU is taken for longer than the other; who wants just that one does not start on the other. */
static void one_that_wants_a_certain_gpu_is_said_to_wait_for_that(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100000);
	struct world *w = blind_world(2, &config);
	struct spec *s = spec_of(2000, 1), *both[2] = { spec_of(70000, 1), spec_of(30000, 1) };
	w->last_mib = 81920;
	sample(w);
	for (int i = 0; i < 2; i++) {
		both[i]->exclusive = true;
		both[i]->time_limit_s = i ? 100 : 1000;
		submit(w, both[i]);
	}
	s->constraint = alloc_string("mem>=80G");
	task_id wants = submit(w, s);
	pass(w, 1);
	assert_int_equal(state(w, wants), TASK_PENDING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	double in_s = json_number_value(json_object_get(start_among(starts, wants), "in_s"));
	assert_true(in_s > 900 && in_s < 1000);
	end_world(w);
}

/* Each of two gets half of the GPU: after 40 s, about 80 of the 100 that they take alone are left. */
static void what_those_who_slow_each_other_did_counts_and_not_the_time(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100000);
	config.map.share = SHARE_STREAMS;
	struct world *w = new_world(1, &config);
	w->smact = 1;
	teach_time(w, 15000, 1, 100);
	fleet_watch_slowdown(w->c->fleet);
	for (int i = 0; i < 2; i++)
		hold_memory(w, submit(w, spec_of(15000, 1)), 15000);
	pass(w, 40);
	assert_int_equal(fleet_count_runs(w->c->fleet), 2);
	task_id next = submit(w, spec_of(15000, 1));
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_true(starts_in(starts, next) > 75 && starts_in(starts, next) < 90);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_of_those_who_run_alone_follow_each_other),
		cmocka_unit_test(who_stands_behind_an_unknown_start_has_none),
		cmocka_unit_test(nobody_waits_and_nothing_runs),
		cmocka_unit_test(what_a_user_may_have_is_played),
		cmocka_unit_test(the_end_of_a_task_without_gpus_is_one),
		cmocka_unit_test(starts_are_told_by_loads_too),
		cmocka_unit_test(starts_count_with_what_is_held_for_the_unknown),
		cmocka_unit_test(what_those_who_slow_each_other_did_counts_and_not_the_time),
		cmocka_unit_test(one_that_wants_a_certain_gpu_is_said_to_wait_for_that),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
