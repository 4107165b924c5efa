/* SPDX-License-Identifier: MIT
 * GPUs that are out of use for a while, drained or off the bus: who waits for them holds up nobody, and what comes back is
 * used.
 */
#include "core/pass_private.h"
#include "core/test_world.h"

/* One of its GPUs is no part of the plan any more. */
static void a_task_of_two_gpus_of_which_one_is_drained(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(3, &config);
	teach_time(w, 32000, 2, 100);
	teach_time(w, 30000, 1, 100);
	task_id wide = submit(w, spec_of(32000, 2)), small = submit(w, spec_of(30000, 1)), next = submit(w, spec_of(30000, 1));
	assert_string_equal(gpu_of(w, wide), "GPU-0");
	core_drain(w->c, "GPU-1", true);
	pass(w, 3);
	assert_int_equal(state(w, small), TASK_RUNNING);
	assert_int_equal(state(w, next), TASK_PENDING);
	exits(w, wide, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_string_equal(gpu_of(w, next), "GPU-0");
	end_world(w);
}

/* Two GPUs of which one is drained: who needs both cannot start until somebody sees to that, whatever else ends. It is first
 * again once both are there. */
static void who_lacks_a_gpu_that_is_out_of_use_holds_up_nobody(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = ordered((enum core_order)order, 600);
		struct world *w = new_world(2, &config);
		core_drain(w->c, uuid_of(1), true);
		task_id wide = submit(w, spec_of(30000, 2)), a = submit(w, spec_of(30000, 1)), b = submit(w, spec_of(30000, 1));
		pass(w, 2);
		assert_int_equal(state(w, wide), TASK_PENDING);
		assert_int_equal(state(w, a), TASK_RUNNING);
		assert_string_equal(core_task_reason(w->c, core_task(w->c, b), w->now), "Memory");
		core_drain(w->c, uuid_of(1), false);
		pass(w, 2);
		if (order == ORDER_STRICT) {
			assert_int_equal(pass_head(w->c->pass), wide);
			assert_int_equal(state(w, b), TASK_PENDING);
			assert_string_equal(core_task_reason(w->c, core_task(w->c, b), w->now), "Priority");
			exits(w, a, 0, SCAN_NOTHING);
			pass(w, 2);
			assert_int_equal(state(w, wide), TASK_RUNNING);
		}
		end_world(w);
	}
}

/* Nor is its user's next task later for it. */
static void who_lacks_a_gpu_takes_no_turn(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = ordered((enum core_order)order, 600);
		struct world *w = new_world(2, &config);
		struct spec *of_other = spec_of(30000, 1), *of_third = spec_of(30000, 1);
		of_other->uid = 1001;
		of_third->uid = 1002;
		core_remember_used(w->c, 1001, 600, w->now.wall_ms, w->now);
		core_drain(w->c, uuid_of(1), true);
		task_id runs = submit(w, of_third);
		submit(w, spec_of(30000, 2));
		task_id next = submit(w, spec_of(30000, 1)), other = submit(w, of_other);
		exits(w, runs, 0, SCAN_NOTHING);
		pass(w, 2);
		if (state(w, next) != TASK_RUNNING)
			fail_msg("%s: another user's goes first", core_order_name(config.order));
		assert_int_equal(state(w, other), TASK_PENDING);
		end_world(w);
	}
}

static task_id first_that_is_asked(const struct world *w)
{
	struct queue_walk walk;
	queue_walk_begin_past(&walk, tasks_queue(w->c->tasks), QUEUE_MAIN, w->c->pass->aside);
	const struct task *t = queue_walk_next(&walk);
	queue_walk_end(&walk);
	return t ? t->id : 0;
}

/* Of many that lack a GPU each is asked once, and again when it or what it lacks is another. */
static void who_lacks_a_gpu_is_not_asked_by_every_pass(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = ordered((enum core_order)order, 600);
		struct event less = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 5000 } };
		struct world *w = new_world(2, &config);
		w->last_mib = 80000;
		sample(w);
		core_drain(w->c, uuid_of(1), true);
		task_id runs = submit(w, spec_of(30000, 1)), large = submit(w, spec_of(60000, 1)), other = submit(w, spec_of(60000, 1)),
			small = submit(w, spec_of(30000, 1));
		pass(w, 2);
		assert_int_equal(first_that_is_asked(w), small);
		assert_int_equal(core_update(w->c, other, &less, w->now, NULL), 0);
		pass(w, 2);
		assert_string_equal(gpu_of(w, other), "GPU-0");
		core_drain(w->c, uuid_of(1), false);
		pass(w, 2);
		assert_string_equal(gpu_of(w, large), "GPU-1");
		assert_int_equal(state(w, runs), TASK_RUNNING);
		end_world(w);
	}
}

/* What was learnt of it may be that it fits on another. */
static void who_lacked_a_gpu_by_a_guess_is_asked_again(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 600);
	struct world *w = new_world(2, &config);
	struct spec *guessed = spec_of(0, 1);
	struct outcome peak = { .told_ms = w->now.wall_ms, .signature = guessed->signature, .gpu_name = "NVIDIA H100", .estimator = "",
				.verdict = VERDICT_OK, .seen = { .peak_mib = 60000, .warm = true } };
	w->last_mib = 80000;
	core_remember(w->c, &peak);
	sample(w);
	core_drain(w->c, uuid_of(1), true);
	task_id large = submit(w, spec_ref(guessed));
	pass(w, 2);
	assert_int_equal(state(w, large), TASK_PENDING);
	assert_int_equal(first_that_is_asked(w), 0);
	peak.told_ms = w->now.wall_ms;
	peak.gpu_name = "NVIDIA A100";
	peak.seen.peak_mib = 20000;
	core_remember(w->c, &peak);
	pass(w, 2);
	assert_string_equal(gpu_of(w, large), "GPU-0");
	spec_unref(guessed);
	end_world(w);
}

/* They do not take the places of those whom a plan is for. */
static void many_who_lack_a_gpu_keep_nobody_from_a_plan(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	struct world *w = new_world(3, &config);
	teach_time(w, 30000, 1, 100);
	core_drain(w->c, uuid_of(2), true);
	for (int i = 0; i < 2; i++)
		submit(w, spec_of(30000, 1));
	for (int i = 0; i < PLAN_WAITING; i++)
		submit(w, spec_of(30000, 3));
	task_id next = submit(w, spec_of(30000, 1));
	pass(w, 2);
	assert_int_equal(w->c->pass->plan.n_waiting, 1);
	assert_int_equal(w->c->pass->plan.waiting[0].p.id, next);
	end_world(w);
}

/* Nor do they use up how many are tried behind a head. */
static void many_who_lack_a_gpu_hide_nobody_behind_a_head(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 100000);
	struct world *w = new_world(2, &config);
	core_drain(w->c, uuid_of(1), true);
	task_id runs = submit(w, spec_of(20000, 1)), head = submit(w, spec_of(30000, 1));
	submit(w, array_of(spec_of(30000, 2), 2 * PASS_BEHIND));
	task_id small = submit(w, spec_of(5000, 1));
	pass(w, 2);
	assert_int_equal(state(w, runs), TASK_RUNNING);
	assert_int_equal(pass_head(w->c->pass), head);
	assert_int_equal(state(w, small), TASK_RUNNING);
	end_world(w);
}

/* What the head had kept of the host is for others while all GPUs are out of use, and its again afterwards. */
static void nobody_is_first_while_all_are_out_of_use(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 2 * CORE_ORDER_COUNT; i++) {
		bool drained = i % 2;
		struct core_config config = ordered((enum core_order)(i / 2), 0);
		config.host_cpus = 2;
		struct world *w = new_world(1, &config);
		struct spec *wants = spec_of(30000, 1), *cpu = spec_of(0, 0);
		wants->cpus = 2;
		task_id runs = submit(w, spec_of(30000, 1)), head = submit(w, wants), small = submit(w, cpu);
		pass(w, 2);
		assert_int_equal(pass_head(w->c->pass), head);
		assert_int_equal(state(w, small), TASK_PENDING);
		core_drain(w->c, uuid_of(0), drained);
		w->n_gpus = drained;	/* or it has fallen off the bus */
		pass(w, 2);
		assert_int_equal(pass_head(w->c->pass), 0);
		assert_int_equal(state(w, small), TASK_RUNNING);
		core_drain(w->c, uuid_of(0), false);
		w->n_gpus = 1;
		pass(w, 2);
		assert_int_equal(pass_head(w->c->pass), head);
		exits(w, small, 0, SCAN_NOTHING);
		exits(w, runs, 0, SCAN_NOTHING);
		pass(w, 2);
		assert_int_equal(state(w, head), TASK_RUNNING);
		end_world(w);
	}
}

/* A GPU that comes back smaller (another one in its place) can run the head no more: nothing is kept for it. */
static void one_that_no_gpu_can_run_any_more_keeps_nothing(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 2 * CORE_ORDER_COUNT; i++) {
		struct core_config config = ordered((enum core_order)(i / 2), 0);
		config.host_cpus = 2;
		struct world *w = new_world(1, &config);
		struct spec *wants = spec_of(30000, 1), *cpu = spec_of(0, 0);
		wants->cpus = 2;
		task_id runs = submit(w, spec_ref(wants));
		if (i % 2)	/* it recovers */
			exits(w, runs, 1, SCAN_GPU_OOM);
		task_id head = submit(w, wants), small = submit(w, cpu);
		pass(w, 2);
		assert_int_equal(state(w, small), TASK_PENDING);
		w->last_mib = 20000;
		pass(w, 2);
		exits(w, runs, 0, SCAN_NOTHING);
		pass(w, 2);
		assert_int_equal(state(w, head), TASK_PENDING);
		assert_int_equal(state(w, small), TASK_RUNNING);
		end_world(w);
	}
}

/* No task comes or ends when a GPU is free for tasks again: undrained, back on the bus, or left by a foreign process. */
static void a_plan_takes_in_a_gpu_that_comes_back(void **unused)
{
	(void)unused;
	for (int how = 0; how < 3; how++) {
		struct core_config config = ordered(ORDER_PLAN, 100000);
		config.map.share = SHARE_NEVER;
		struct world *w = new_world(2, &config);
		teach_time(w, 30000, 1, 3000);
		if (how == 0)
			core_drain(w->c, "GPU-1", true);
		w->n_gpus = how == 1 ? 1 : 2;
		sample(w);
		task_id runs = submit(w, spec_of(30000, 1));
		w->foreign_mib = how == 2 ? 5000 : 0;
		sample(w);
		task_id next = submit(w, spec_of(30000, 1));
		hold_memory(w, runs, 30000);
		pass(w, 3);
		assert_int_equal(state(w, next), TASK_PENDING);
		if (how == 0)
			core_drain(w->c, "GPU-1", false);
		w->n_gpus = 2;
		w->foreign_mib = 0;
		pass(w, 3);
		assert_string_equal(gpu_of(w, next), "GPU-1");
		end_world(w);
	}
}

/* A driver that fails to answer once: the plan is as good as it was. */
static void a_gpu_that_went_and_is_back_costs_no_plan(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(2, &config);
	teach_time(w, 30000, 1, 3000);
	sample(w);
	task_id runs[2] = { submit(w, spec_of(30000, 1)), submit(w, spec_of(30000, 1)) };
	pass(w, 3);
	hold_memory(w, runs[0], 30000);
	hold_memory(w, runs[1], 30000);
	pass(w, 3);
	task_id next = submit(w, spec_of(30000, 1));
	later(w, 100);
	const struct pass *p = w->c->pass;
	int64_t made_ms = p->plan.made_ms;
	assert_true(w->now.mono_ms - made_ms <= 100 && p->plan.n_waiting);
	for (int i = 0; i < 2; i++) {
		core_drain(w->c, "GPU-1", !i);
		later(w, 100);
	}
	pass(w, 3);
	assert_int_equal(state(w, next), TASK_PENDING);
	assert_int_equal(p->plan.made_ms, made_ms);
	core_drain(w->c, "GPU-1", true);
	pass(w, 3);
	assert_true(p->plan.made_ms > made_ms);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_of_two_gpus_of_which_one_is_drained),
		cmocka_unit_test(who_lacks_a_gpu_that_is_out_of_use_holds_up_nobody),
		cmocka_unit_test(who_lacks_a_gpu_takes_no_turn),
		cmocka_unit_test(who_lacks_a_gpu_is_not_asked_by_every_pass),
		cmocka_unit_test(who_lacked_a_gpu_by_a_guess_is_asked_again),
		cmocka_unit_test(many_who_lack_a_gpu_keep_nobody_from_a_plan),
		cmocka_unit_test(many_who_lack_a_gpu_hide_nobody_behind_a_head),
		cmocka_unit_test(nobody_is_first_while_all_are_out_of_use),
		cmocka_unit_test(one_that_no_gpu_can_run_any_more_keeps_nothing),
		cmocka_unit_test(a_plan_takes_in_a_gpu_that_comes_back),
		cmocka_unit_test(a_gpu_that_went_and_is_back_costs_no_plan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
