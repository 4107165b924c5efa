/* SPDX-License-Identifier: MIT
 * What a task asks for is changed while it waits, and what of it can be while it runs.
 */
#include "core/test_world.h"

static int update(struct world *w, task_id id, struct event ev, struct error *err)
{
	int rc = core_update(w->c, id, &ev, w->now, err);
	check(w);
	if (!rc)
		pass(w, 1);
	return rc;
}

#define UPDATE(...) (struct event){ .u.updated = { __VA_ARGS__ } }

static struct world *one_at_a_time(unsigned gpus)
{
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	config.host_mem_mib = 10000;
	return new_world(gpus, &config);
}

/* A task that has all GPUs to itself, so that others wait. */
static task_id busy(struct world *w)
{
	struct spec *s = spec_of(1000, w->n_gpus);
	s->exclusive = true;
	task_id id = submit(w, s);
	assert_int_equal(state(w, id), TASK_RUNNING);
	return id;
}

static void it_starts_on_as_many_gpus_as_it_asks_for_now(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(4);
	task_id first = busy(w), more = submit(w, spec_of(1000, 1)), fewer = submit(w, spec_of(1000, 4)),
		one = submit(w, array_of(spec_of(1000, 3), 2));
	struct error err = ERROR_INIT;
	assert_int_equal(update(w, more, UPDATE(.set_gpus = true, .gpus = 3), &err), 0);
	assert_int_equal(update(w, fewer, UPDATE(.set_gpus = true, .gpus = 2), &err), 0);
	assert_int_equal(update(w, TASK_ID(TASK_JOB(one), 1), UPDATE(.set_gpus = true, .gpus = 1), &err), 0);
	assert_int_equal(update(w, more, UPDATE(.set_gpus = true, .gpus = 5), &err), -1);
	assert_non_null(strstr(err.text, "5 GPUs"));
	exits(w, first, 0, SCAN_NOTHING);
	pass(w, 5);
	assert_int_equal(task_attempt(core_task(w->c, more))->n_gpus, 3);
	assert_int_equal(task_attempt(core_task(w->c, fewer))->n_gpus, 2);
	assert_int_equal(task_attempt(core_task(w->c, TASK_ID(TASK_JOB(one), 0)))->n_gpus, 3);
	assert_int_equal(task_attempt(core_task(w->c, TASK_ID(TASK_JOB(one), 1)))->n_gpus, 1);
	end_world(w);
}

/* From the queue for GPUs to the other one, and back. */
static void a_task_that_asks_for_no_gpu_any_more_waits_for_none(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(1);
	task_id first = busy(w), none = submit(w, spec_of(0, 1)), parked = submit(w, array_of(spec_of(0, 1), 3)), back;
	struct spec *cpu = spec_of(0, 0);
	cpu->hold = true;
	back = submit(w, cpu);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(update(w, TASK_ID(TASK_JOB(parked), i), UPDATE(.set_array_limit = true, .array_limit = 1), NULL), 0);
	assert_int_equal(update(w, none, UPDATE(.set_gpus = true), NULL), 0);
	assert_int_equal(state(w, none), TASK_RUNNING);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(update(w, TASK_ID(TASK_JOB(parked), i), UPDATE(.set_gpus = true), NULL), 0);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 3);	/* of these, one at a time */
	assert_string_equal(reason_of(w, TASK_ID(TASK_JOB(parked), 2)), "ArrayLimit");
	assert_int_equal(update(w, back, UPDATE(.set_gpus = true, .gpus = 1), NULL), 0);
	assert_int_equal(core_release(w->c, back, 1000, w->now, NULL), 0);
	pass(w, 1);
	assert_int_equal(state(w, back), TASK_PENDING);
	exits(w, first, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, back), TASK_RUNNING);
	assert_int_equal(task_attempt(core_task(w->c, back))->n_gpus, 1);
	end_world(w);
}

/* What earlier runs took is told of as many GPUs, and so is what this one teaches. */
static void with_other_gpus_it_is_another_program(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(2);
	task_id id = submit(w, spec_of(0, 1));
	struct task *t = (struct task *)core_task(w->c, id);
	assert_string_equal(task_signature(t), t->spec->signature);
	exits(w, id, 1, SCAN_NOTHING);
	pass(w, 15);
	task_id first = busy(w);
	id = submit(w, spec_of(0, 1));
	assert_int_equal(update(w, id, UPDATE(.set_gpus = true, .gpus = 2), NULL), 0);
	t = (struct task *)core_task(w->c, id);
	assert_null(task_signature(t));
	assert_true(t->estimated);	/* asked anew */
	exits(w, first, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, id), TASK_RUNNING);
	assert_string_equal(history_outcome(t, "", 0).signature, "");
	end_world(w);
}

static void the_memory_of_the_machine_is_asked_for_anew(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(2);
	struct spec *s = spec_of(1000, 1), *second = spec_of(1000, 1);
	struct error err = ERROR_INIT;
	s->host_mem_mib = second->host_mem_mib = 6000;
	submit(w, s);
	task_id id = submit(w, second);
	assert_string_equal(reason_of(w, id), "HostMemory");
	assert_int_equal(update(w, id, UPDATE(.set_host_mem = true, .host_mem_mib = 20000), &err), -1);
	assert_non_null(strstr(err.text, "host memory wanted"));
	assert_int_equal(update(w, id, UPDATE(.set_host_mem = true, .host_mem_mib = 4000), &err), 0);
	assert_int_equal(state(w, id), TASK_RUNNING);
	assert_int_equal(task_host_limit_mib(core_task(w->c, id)), 4000);
	end_world(w);
}

static void what_it_was_started_with_is_settled_while_it_runs(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(2);
	struct error err = ERROR_INIT;
	task_id id = submit(w, spec_of(1000, 1));
	assert_int_equal(update(w, id, UPDATE(.set_gpus = true, .gpus = 2), &err), -1);
	assert_non_null(strstr(err.text, "is RUNNING, and its gpus can be changed only while it waits"));
	assert_int_equal(update(w, id, UPDATE(.set_host_mem = true, .host_mem_mib = 2), &err), -1);
	assert_non_null(strstr(err.text, "its mem can"));
	assert_int_equal(update(w, id, UPDATE(.set_retries = true, .retries = 2), &err), 0);
	exits(w, id, 1, SCAN_NOTHING);
	assert_int_equal(state(w, id), TASK_PENDING);
	assert_string_equal(reason_of(w, id), "BeginTime");
	assert_int_equal(update(w, id, UPDATE(.set_retries = true), &err), 0);
	pass(w, 15);
	assert_int_equal(state(w, id), TASK_RUNNING);
	exits(w, id, 1, SCAN_NOTHING);
	assert_int_equal(state(w, id), TASK_FAILED);
	end_world(w);
}

/* The log says on how many it was placed. */
static void it_is_so_after_a_restart(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(2);
	char uuids[2][GPU_UUID_LEN] = { "GPU-0", "GPU-1" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms },
		{ .kind = EV_UPDATED, .t_ms = w->now.wall_ms, .u.updated = { .set_gpus = true, .gpus = 2, .set_host_mem = true,
			.host_mem_mib = 4000, .set_retries = true, .retries = 1 } },
		{ .kind = EV_ESTIMATED, .t_ms = w->now.wall_ms },
		{ .kind = EV_PLACED, .t_ms = w->now.wall_ms, .u.placed = { .gpus = uuids, .n_gpus = 2, .mode = SHARE_STREAMS } },
	};
	const struct task *t = restore(w, TASK_ID(1, -1), spec_of(0, 0), log, COUNT_OF(log));
	pass(w, 2);
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(task_attempt(t)->n_gpus, 2);
	assert_true(t->gpus == 2 && t->host_mem_mib == 4000 && t->retries == 1);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_starts_on_as_many_gpus_as_it_asks_for_now),
		cmocka_unit_test(a_task_that_asks_for_no_gpu_any_more_waits_for_none),
		cmocka_unit_test(with_other_gpus_it_is_another_program),
		cmocka_unit_test(the_memory_of_the_machine_is_asked_for_anew),
		cmocka_unit_test(what_it_was_started_with_is_settled_while_it_runs),
		cmocka_unit_test(it_is_so_after_a_restart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
