/* SPDX-License-Identifier: MIT
 * Tasks without GPUs (CPU tasks): they wait for the host and for their users' limits alone, and no GPU waits for them.
 */
#include "core/fleet_private.h"
#include "core/test_world.h"

#include "base/json.h"

#include <string.h>

static struct core_config with_cpus(enum core_order order, unsigned cpus)
{
	struct core_config c = plain_config();
	c.order = order;
	c.host_cpus = cpus;
	c.max_cpu = 0;
	c.pass_max_ms = 100000;
	return c;
}

static struct spec *cpu_task(uid_t uid, unsigned cpus)
{
	struct spec *s = spec_of(0, 0);
	s->uid = uid;
	s->cpus = cpus;
	return s;
}

static struct spec *gpu_task(uid_t uid, unsigned cpus)
{
	struct spec *s = spec_of(30000, 1);
	s->uid = uid;
	s->cpus = cpus;
	return s;
}

static struct spec *whole_gpu(uid_t uid)
{
	struct spec *s = gpu_task(uid, 0);
	s->exclusive = true;
	return s;
}

static const struct attempt *attempt_of(const struct world *w, task_id id)
{
	return task_attempt(core_task(w->c, id));
}

static void no_gpu_is_waited_for(void **unused)
{
	(void)unused;
	for (enum core_order order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_cpus(order, 0);
		struct world *w = new_world(1, &config);
		task_id a = submit(w, whole_gpu(1000)), b = submit(w, whole_gpu(1000)), c = submit(w, cpu_task(1000, 0));
		assert_int_equal(state(w, a), TASK_RUNNING);
		assert_int_equal(state(w, b), TASK_PENDING);
		assert_int_equal(state(w, c), TASK_RUNNING);
		assert_int_equal(attempt_of(w, c)->n_gpus, 0);
		assert_int_equal(attempt_of(w, c)->claim_mib, 0);
		pass(w, 200);
		scoped_json *shown = core_task_json(w->c, core_task(w->c, c), w->now, NULL);
		const json_t *attempt = json_array_get(json_object_get(shown, "attempts"), 0);
		assert_true(json_is_null(json_object_get(attempt, "mean_smact")) && json_is_null(json_object_get(attempt, "energy_j")));
		exits(w, c, 0, SCAN_NOTHING);
		assert_int_equal(state(w, c), TASK_COMPLETED);
		exits(w, a, 0, SCAN_NOTHING);
		pass(w, 20);
		assert_int_equal(state(w, b), TASK_RUNNING);
		end_world(w);
	}
}

static void gpus_that_are_drained_or_were_never_read_hold_nobody(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL), *blind = blind_world(1, NULL);
	core_drain(w->c, uuid_of(0), true);
	core_drain(w->c, uuid_of(1), true);
	pass(w, 2);
	assert_int_equal(state(w, submit(w, gpu_task(1000, 0))), TASK_PENDING);
	assert_int_equal(state(w, submit(w, cpu_task(1000, 0))), TASK_RUNNING);
	end_world(w);
	task_id waits = submit(blind, gpu_task(1000, 0)), runs = submit(blind, cpu_task(1000, 0));
	assert_int_equal(state(blind, waits), TASK_PENDING);
	assert_int_equal(state(blind, runs), TASK_RUNNING);
	assert_true(core_turn(blind->c, blind->now) > blind->now.mono_ms);
	blind->n_gpus = 0;	/* the driver answers, and there are none */
	pass(blind, 3);
	exits(blind, runs, 0, SCAN_NOTHING);
	end_world(blind);
}

/* Five hundred of them do not bring the host down: who says nothing holds one CPU. */
static void cpus_bound_how_many_run(void **unused)
{
	(void)unused;
	for (enum core_order order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_cpus(order, 4);
		struct world *w = new_world(1, &config);
		task_id ids[7];
		for (size_t i = 0; i < COUNT_OF(ids); i++)
			ids[i] = submit(w, cpu_task(1000, 0));
		for (size_t i = 0; i < COUNT_OF(ids); i++)
			assert_int_equal(state(w, ids[i]), i < 4 ? TASK_RUNNING : TASK_PENDING);
		assert_string_equal(reason_of(w, ids[5]), "HostCpus");
		scoped_free char *why = why_of(w, ids[5]);
		assert_non_null(strstr(why, "asks for 1 CPU (as a task without GPUs does by itself): 0 of 4 are free"));
		assert_non_null(strstr(why, "\"gpus_requested\": 0"));
		/* A GPU task asks for what it says alone, and has none of them before it. */
		task_id gpu = submit(w, gpu_task(1000, 0));
		assert_int_equal(state(w, gpu), TASK_RUNNING);
		exits(w, ids[0], 0, SCAN_NOTHING);
		assert_int_equal(state(w, ids[4]), TASK_RUNNING);
		assert_int_equal(state(w, ids[5]), TASK_PENDING);
		end_world(w);
	}
}

static void a_task_with_a_gpu_has_its_cpus_first(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 4);
	struct world *w = new_world(1, &config);
	task_id all = submit(w, cpu_task(1000, 4)), cpu = submit(w, cpu_task(1000, 2)), gpu = submit(w, gpu_task(1000, 3));
	assert_int_equal(state(w, cpu), TASK_PENDING);
	exits(w, all, 0, SCAN_NOTHING);
	assert_int_equal(state(w, gpu), TASK_RUNNING);
	assert_int_equal(state(w, cpu), TASK_PENDING);
	exits(w, gpu, 0, SCAN_NOTHING);
	assert_int_equal(state(w, cpu), TASK_RUNNING);
	end_world(w);
}

/* One that wants all CPUs while small ones come for ever, with GPUs or without. */
static void a_large_one_is_not_passed_for_ever(void **unused)
{
	(void)unused;
	for (unsigned gpus = 0; gpus < 2; gpus++) {
		struct core_config config = with_cpus(ORDER_BACKFILL, 4);
		struct world *w = new_world(4, &config);
		struct spec *small = gpus ? gpu_task(1000, 2) : cpu_task(1000, 2);
		assert_in_range(starts_among_small_ones(w, small, cpu_task(1000, 4)), 100, 180);
		end_world(w);
	}
}

/* Nor one with a GPU: under `strict`, too, where nobody of its own queue passes it. */
static void none_with_a_gpu_is_passed_by_them_for_ever(void **unused)
{
	(void)unused;
	for (enum core_order order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_cpus(order, 4);
		struct world *w = new_world(1, &config);
		int after = starts_among_small_ones(w, cpu_task(1000, 2), gpu_task(1000, 4));
		if (after < 0 || after > 180)
			fail_msg("%s: %d", core_order_name(order), after);
		end_world(w);
	}
}

/* A task that waits for its GPU has insisted for long, and asks for no CPU: it is in no other's way. */
static void one_that_waits_for_a_gpu_alone_keeps_no_room(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 16);
	struct world *w = new_world(1, &config);
	submit(w, whole_gpu(1000));
	submit(w, whole_gpu(1000));
	pass(w, 150);
	assert_in_range(starts_among_small_ones(w, cpu_task(1000, 8), cpu_task(1000, 16)), 100, 160);
	end_world(w);
}

/* What was kept for one that is held, or that its user may not have, is for others again. */
static void room_is_kept_for_nobody_who_cannot_use_it(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 4);
	struct world *w = new_world(1, &config);
	struct error err = ERROR_INIT;
	task_id a = submit(w, cpu_task(1000, 2)), large = submit(w, cpu_task(1001, 4));
	pass(w, 110);
	task_id b = submit(w, cpu_task(1000, 1));	/* the pass in which it is noted that the large one waited long enough */
	task_id c = submit(w, cpu_task(1000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);
	assert_int_equal(state(w, c), TASK_PENDING);
	assert_int_equal(core_hold(w->c, large, 1001, w->now, &err), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_RUNNING);
	exits(w, a, 0, SCAN_NOTHING);
	end_world(w);
}

static void users_take_turns_by_how_many_they_run(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_PLAN, 2);
	struct world *w = new_world(1, &config);
	task_id his[5], hers[2];
	for (size_t i = 0; i < COUNT_OF(his); i++)
		his[i] = submit(w, cpu_task(1000, 0));
	/* That she has a GPU is nothing to it. */
	assert_int_equal(state(w, submit(w, gpu_task(1001, 0))), TASK_RUNNING);
	for (size_t i = 0; i < COUNT_OF(hers); i++)
		hers[i] = submit(w, cpu_task(1001, 0));
	exits(w, his[0], 0, SCAN_NOTHING);
	assert_int_equal(state(w, hers[0]), TASK_RUNNING);
	exits(w, his[1], 0, SCAN_NOTHING);
	assert_int_equal(state(w, his[2]), TASK_RUNNING);
	assert_int_equal(state(w, hers[1]), TASK_PENDING);
	end_world(w);
}

/* Who runs one still is who has no GPU. */
static void a_turn_at_a_gpu_is_not_spent(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 0);
	struct world *w = new_world(2, &config);
	core_remember_used(w->c, 1002, 1e6, w->now.wall_ms, w->now);
	task_id a = submit(w, whole_gpu(1000)), b = submit(w, whole_gpu(1001));
	submit(w, cpu_task(1002, 0));
	task_id later = submit(w, whole_gpu(1001)), first = submit(w, whole_gpu(1002));
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_int_equal(state(w, first), TASK_RUNNING);
	assert_int_equal(state(w, later), TASK_PENDING);
	exits(w, b, 0, SCAN_NOTHING);
	end_world(w);
}

static void limits_of_users_count_tasks_and_not_gpus(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 0);
	config.allowance.most[ALLOWANCE_GPUS] = 1;
	config.allowance.most[ALLOWANCE_MEM] = 1000;
	struct world *w = new_world(2, &config);
	assert_int_equal(state(w, submit(w, cpu_task(1000, 0))), TASK_RUNNING);
	config.allowance = (struct allowance){ .most[ALLOWANCE_RUNNING] = 2 };
	core_reconfigure(w->c, &config);
	task_id last = submit(w, cpu_task(1000, 0)), waits = submit(w, cpu_task(1000, 0));
	assert_int_equal(state(w, waits), TASK_PENDING);
	assert_string_equal(reason_of(w, waits), "UserLimit");
	assert_int_equal(state(w, submit(w, cpu_task(1001, 0))), TASK_RUNNING);
	exits(w, last, 0, SCAN_NOTHING);
	assert_int_equal(state(w, waits), TASK_RUNNING);
	end_world(w);
}

/* What keeps the user's first GPU task from its GPU keeps no CPU task. */
static void a_limit_of_gpus_is_no_reason(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 1);
	config.allowance.most[ALLOWANCE_GPUS] = 1;
	struct world *w = new_world(2, &config);
	submit(w, whole_gpu(1000));
	task_id gpu = submit(w, whole_gpu(1000)), cpu = submit(w, cpu_task(1000, 0)), waits = submit(w, cpu_task(1000, 0));
	assert_string_equal(reason_of(w, gpu), "UserLimit");
	assert_int_equal(state(w, cpu), TASK_RUNNING);
	assert_string_equal(reason_of(w, waits), "HostCpus");
	end_world(w);
}

/* Not by runs of the same command that had a GPU; nor does it teach anything about these. */
static void nobody_estimates_it(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *s = cpu_task(1000, 0);
	teach_time(w, 30000, 1, 300);
	free(s->signature);
	s->signature = alloc_string("1000:1:30000");
	task_id a = submit(w, s);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "none");
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 0);
	uint64_t learnt = estimates_version(w->c->estimates);
	exits(w, a, 0, SCAN_NOTHING);
	assert_int_equal(estimates_version(w->c->estimates), learnt);
	end_world(w);
}

static void chains_go_from_one_to_the_other(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id prepare = submit(w, cpu_task(1000, 0)), train = submit(w, starts_after(gpu_task(1000, 0), DEP_AFTEROK, prepare));
	task_id plot = submit(w, starts_after(cpu_task(1000, 0), DEP_AFTEROK, train));
	assert_int_equal(state(w, train), TASK_PENDING);
	exits(w, prepare, 0, SCAN_NOTHING);
	assert_int_equal(state(w, train), TASK_RUNNING);
	assert_int_equal(state(w, plot), TASK_PENDING);
	exits(w, train, 0, SCAN_NOTHING);
	assert_int_equal(state(w, plot), TASK_RUNNING);
	end_world(w);
}

/* Its output may speak of a GPU's memory as much as it likes. */
static void it_runs_out_of_no_gpus_memory(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, cpu_task(1000, 0));
	exits(w, a, 1, SCAN_GPU_OOM);
	assert_int_equal(state(w, a), TASK_FAILED);
	end_world(w);
}

static void it_is_changed_in_nothing_of_gpus(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 1);
	struct world *w = new_world(1, &config);
	struct error err = ERROR_INIT;
	submit(w, cpu_task(1000, 0));
	task_id a = submit(w, cpu_task(1000, 0));
	struct event mem = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 4000 } };
	struct event slow = { .u.updated = { .set_max_slowdown = true, .max_slowdown = 2 } };
	struct event first = { .u.updated = { .set_priority = true, .priority = 5 } };
	assert_int_equal(core_update(w->c, a, &mem, w->now, &err), -1);
	assert_non_null(strstr(err.text, "asks for no GPU"));
	assert_int_equal(core_update(w->c, a, &slow, w->now, &err), -1);
	assert_int_equal(core_update(w->c, a, &first, w->now, &err), 0);
	end_world(w);
}

static void a_restart_finds_it(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 1);
	struct world *w = new_world(1, &config);
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms }, { .kind = EV_ESTIMATED, .t_ms = w->now.wall_ms, .u.estimate = { "none" } },
		{ .kind = EV_PLACED, .t_ms = w->now.wall_ms, .u.placed = { .mode = SHARE_NEVER } },
	};
	task_id a = restore(w, TASK_ID(++w->next_job, -1), cpu_task(1000, 0), log, COUNT_OF(log))->id;
	task_id b = submit(w, cpu_task(1000, 0));
	core_started(w->c, a, (struct proc_id){ 400, 1 }, w->now);
	assert_int_equal(attempt_of(w, a)->shim.pid, 400);
	pass(w, 100);
	assert_int_equal(state(w, b), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* A program that goes to a GPU all the same is counted there, and told; when it has left, nothing is held for it. */
static void one_that_takes_a_gpu_is_booked_there(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_BACKFILL, 0);
	config.map.rank = RANK_EXCLUSIVE;
	struct world *w = new_world(1, &config);
	task_id a = submit(w, cpu_task(1000, 0));
	hold_memory(w, a, 7000);
	w->procs[0].stuck = 1;
	pass(w, 6);
	assert_int_equal(attempt_of(w, a)->n_gpus, 1);
	assert_int_equal(fair_taken_of(w->c->fair, 1000).gpus, 1);
	assert_string_equal(reason_of(w, a), "OtherGpus");
	scoped_free char *why = why_of(w, a);
	assert_non_null(strstr(why, "was given no GPU; its processes are on GPU 0, where it is counted now. Submit it with --gpus 1"));
	task_id b = submit(w, gpu_task(1000, 0));
	assert_int_equal(state(w, b), TASK_PENDING);
	w->n_procs = 0;
	pass(w, 100);
	assert_int_equal(attempt_of(w, a)->n_gpus, 0);
	assert_int_equal(state(w, b), TASK_RUNNING);
	exits(w, a, 0, SCAN_NOTHING);
	end_world(w);
}

/* Where a plan has somebody wait, nobody's end may be what it waits for: a CPU task's brings no GPU. */
static void a_plan_counts_none_of_them(void **unused)
{
	(void)unused;
	struct core_config config = with_cpus(ORDER_PLAN, 0);
	struct world *w = new_world(2, &config);
	teach_time(w, 30000, 1, 300);
	submit(w, cpu_task(1000, 0));
	task_id ids[4];
	for (size_t i = 0; i < COUNT_OF(ids); i++)
		ids[i] = submit(w, gpu_task(1000, 0));
	pass(w, 30);
	assert_int_equal(state(w, ids[0]), TASK_RUNNING);
	assert_int_equal(state(w, ids[1]), TASK_RUNNING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_non_null(starts);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_gpu_is_waited_for),
		cmocka_unit_test(gpus_that_are_drained_or_were_never_read_hold_nobody),
		cmocka_unit_test(cpus_bound_how_many_run),
		cmocka_unit_test(a_task_with_a_gpu_has_its_cpus_first),
		cmocka_unit_test(a_large_one_is_not_passed_for_ever),
		cmocka_unit_test(none_with_a_gpu_is_passed_by_them_for_ever),
		cmocka_unit_test(one_that_waits_for_a_gpu_alone_keeps_no_room),
		cmocka_unit_test(room_is_kept_for_nobody_who_cannot_use_it),
		cmocka_unit_test(users_take_turns_by_how_many_they_run),
		cmocka_unit_test(a_turn_at_a_gpu_is_not_spent),
		cmocka_unit_test(limits_of_users_count_tasks_and_not_gpus),
		cmocka_unit_test(a_limit_of_gpus_is_no_reason),
		cmocka_unit_test(nobody_estimates_it),
		cmocka_unit_test(chains_go_from_one_to_the_other),
		cmocka_unit_test(it_runs_out_of_no_gpus_memory),
		cmocka_unit_test(it_is_changed_in_nothing_of_gpus),
		cmocka_unit_test(a_restart_finds_it),
		cmocka_unit_test(one_that_takes_a_gpu_is_booked_there),
		cmocka_unit_test(a_plan_counts_none_of_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
