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

#define ON(...) (struct dependency[]){ __VA_ARGS__ }, .n_deps = COUNT_OF(((struct dependency[]){ __VA_ARGS__ }))
#define DEPENDS(...) UPDATE(.set_deps = true, .deps = ON(__VA_ARGS__))
#define DEPENDS_ON_NOTHING UPDATE(.set_deps = true)

/* Set, replaced by another, by one that is met already, and taken away; also of one that waited in vain. */
static void what_it_waits_for_is_changed(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(4);
	task_id a = submit(w, spec_of(1000, 1)), b = submit(w, spec_of(1000, 1)), done = submit(w, spec_of(1000, 1));
	exits(w, done, 0, SCAN_NOTHING);
	task_id after_a = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a)),
		later = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a)),
		free_again = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a));
	assert_int_equal(update(w, after_a, DEPENDS({ DEP_AFTEROK, b }), NULL), 0);
	assert_string_equal(reason_of(w, after_a), "Dependency");
	assert_int_equal(update(w, later, DEPENDS({ DEP_AFTEROK, done }), NULL), 0);
	assert_int_equal(state(w, later), TASK_RUNNING);
	assert_int_equal(update(w, free_again, DEPENDS_ON_NOTHING, NULL), 0);
	assert_int_equal(state(w, free_again), TASK_RUNNING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_string_equal(reason_of(w, after_a), "Dependency");	/* what it named first is nothing to it */
	exits(w, b, 1, SCAN_NOTHING);
	assert_string_equal(reason_of(w, after_a), "DependencyNeverSatisfied");
	assert_int_equal(update(w, after_a, DEPENDS({ DEP_AFTERANY, b }, { DEP_AFTER, later }), NULL), 0);
	assert_int_equal(state(w, after_a), TASK_RUNNING);
	assert_int_equal(update(w, after_a, DEPENDS({ DEP_AFTERANY, b }, { DEP_AFTEROK, later }), NULL), -1);
	end_world(w);
}

/* Twice, so that what is known of the first change is not taken for the second; and back to what is in the spec. */
static void it_is_changed_again(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(4);
	task_id a = submit(w, spec_of(1000, 1)), b = submit(w, spec_of(1000, 1)), n = submit(w, spec_of(1000, 1));
	struct spec *s = array_of(starts_after(spec_of(1000, 1), DEP_AFTEROK, a), 2);
	s->hold = true;
	uint32_t job = TASK_JOB(submit(w, s));
	assert_int_equal(update(w, TASK_ID(job, 0), DEPENDS({ DEP_AFTEROK, b }), NULL), 0);
	assert_int_equal(update(w, TASK_ID(job, 0), DEPENDS({ DEP_AFTEROK, n }), NULL), 0);
	assert_int_equal(update(w, TASK_ID(job, 1), DEPENDS({ DEP_AFTEROK, n }), NULL), 0);
	assert_int_equal(update(w, TASK_ID(job, 1), DEPENDS({ DEP_AFTEROK, a }), NULL), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(core_release(w->c, TASK_ID(job, i), 1000, w->now, NULL), 0);
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(job, 0)), TASK_PENDING);
	exits(w, n, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(job, 0)), TASK_RUNNING);
	assert_int_equal(state(w, TASK_ID(job, 1)), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(job, 1)), TASK_RUNNING);
	end_world(w);
}

/* A delay before a retry goes, and one that is to recover keeps its place in that queue. */
static void who_could_start_waits_for_others_from_now_on(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(2);
	char uuids[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms }, { .kind = EV_ESTIMATED, .t_ms = w->now.wall_ms },
		{ .kind = EV_PLACED, .t_ms = w->now.wall_ms, .u.placed = { .gpus = uuids, .n_gpus = 1, .mode = SHARE_STREAMS } },
		{ .kind = EV_ENDED, .t_ms = w->now.wall_ms, .u.ended = { .verdict = VERDICT_OOM, .next = NEXT_RECOVER,
			.seen = task_measured_nothing() } },
	};
	struct spec *again = spec_of(1000, 1);
	again->retries = 1;
	task_id fails = submit(w, again), first = submit(w, spec_of(1000, 1)), oom = TASK_ID(70, -1);
	restore(w, oom, spec_of(1000, 1), log, COUNT_OF(log));
	assert_int_equal(update(w, oom, DEPENDS({ DEP_AFTERANY, first }), NULL), 0);
	exits(w, fails, 1, SCAN_NOTHING);
	assert_string_equal(reason_of(w, fails), "BeginTime");
	assert_int_equal(update(w, fails, DEPENDS({ DEP_AFTERANY, first }), NULL), 0);
	pass(w, 30);
	assert_string_equal(reason_of(w, fails), "Dependency");
	assert_string_equal(reason_of(w, oom), "Dependency");
	assert_int_equal(core_task(w->c, oom)->queue, QUEUE_RECOVERY);
	exits(w, first, 1, SCAN_NOTHING);
	pass(w, 30);
	assert_int_equal(state(w, fails), TASK_RUNNING);
	assert_int_equal(state(w, oom), TASK_RUNNING);
	end_world(w);
}

static int ring(struct world *w, task_id id, task_id on, struct error *err)
{
	struct dependency d = { DEP_AFTERANY, on };
	scoped_free task_id *ids = NULL;
	size_t n = TASK_INDEX(id) >= 0 ? 0 : core_job_tasks(w->c, TASK_JOB(id), &ids);
	return core_check_deps(w->c, n ? ids : &id, n ? n : 1, &d, 1, err);
}

static void nobody_waits_for_himself(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(1);
	struct error err = ERROR_INIT;
	busy(w);
	task_id a = submit(w, spec_of(1000, 1)), b = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a)),
		c = submit(w, starts_after(spec_of(1000, 1), DEP_AFTER, b)),
		array = submit(w, array_of(starts_after(spec_of(1000, 1), DEP_AFTEROK, c), 3)), e1 = TASK_ID(TASK_JOB(array), 1),
		e2 = TASK_ID(TASK_JOB(array), 2), last = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, array));
	assert_int_equal(ring(w, a, a, &err), -1);
	assert_non_null(strstr(err.text, "cannot wait for itself"));
	assert_int_equal(ring(w, a, c, &err), -1);
	assert_non_null(strstr(err.text, "task 2 would wait for itself, by way of task 3, which waits for it"));
	assert_int_equal(ring(w, a, last, NULL), -1);
	assert_int_equal(ring(w, a, e1, NULL), -1);
	assert_int_equal(ring(w, array, last, NULL), -1);
	assert_int_equal(ring(w, e1, last, NULL), -1);
	assert_int_equal(ring(w, array, e1, NULL), -1);
	assert_int_equal(ring(w, e1, array, NULL), -1);
	assert_int_equal(ring(w, e1, e2, NULL), 0);	/* its elements one after the other, if somebody wants that */
	assert_int_equal(ring(w, last, a, NULL), 0);
	/* Between elements of two arrays, each has its own way. */
	task_id other = submit(w, array_of(starts_after(spec_of(1000, 1), DEP_AFTERCORR, array), 3));
	assert_int_equal(ring(w, e1, TASK_ID(TASK_JOB(other), 1), NULL), -1);
	assert_int_equal(ring(w, e1, TASK_ID(TASK_JOB(other), 2), NULL), 0);
	end_world(w);
}

static void a_long_chain_is_followed_to_its_end(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(1);
	enum { LONG = 5000 };
	task_id first, id;
	busy(w);
	first = id = submit(w, spec_of(1000, 1));
	for (int i = 0; i < LONG; i++) {
		uint32_t job = ++w->next_job;
		core_submit(w->c, job, starts_after(spec_of(1000, 1), DEP_AFTEROK, id), w->now);
		id = TASK_ID(job, -1);
	}
	assert_int_equal(ring(w, first, id, NULL), -1);
	end_world(w);
}

static void changed_dependencies_are_there_after_a_restart(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(4);
	struct dependency on = { DEP_AFTEROK, submit(w, spec_of(1000, 1)) };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms },
		{ .kind = EV_UPDATED, .t_ms = w->now.wall_ms, .u.updated = { .set_deps = true, .deps = &on, .n_deps = 1 } },
	}, cleared[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms },
		{ .kind = EV_UPDATED, .t_ms = w->now.wall_ms, .u.updated = { .set_deps = true } },
	};
	restore(w, TASK_ID(70, -1), spec_of(1000, 1), log, COUNT_OF(log));
	restore(w, TASK_ID(71, -1), starts_after(spec_of(1000, 1), DEP_AFTEROK, on.task), cleared, COUNT_OF(cleared));
	pass(w, 1);
	assert_string_equal(reason_of(w, TASK_ID(70, -1)), "Dependency");
	assert_int_equal(state(w, TASK_ID(71, -1)), TASK_RUNNING);
	exits(w, on.task, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(70, -1)), TASK_RUNNING);
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

static void what_a_task_waits_for_counts_on_when_its_spec_grows(void **unused)
{
	(void)unused;
	struct world *w = one_at_a_time(1);
	size_t before;
	struct spec *s = spec_of(1000, 1);
	s->hold = true;
	task_id runs = submit(w, spec_of(1000, 1)), waits;
	exits(w, runs, 0, SCAN_NOTHING);
	waits = submit(w, s);
	assert_int_equal(update(w, waits, DEPENDS({ DEP_AFTERANY, runs }), NULL), 0);
	before = core_user_bytes(w->c, 1000);
	core_spec_grew(w->c, TASK_JOB(waits), 500);
	assert_int_equal(core_user_bytes(w->c, 1000), before + 500);
	end_world(w);
}

/* The head, for which GPUs and memory of the machine are kept, waits for something else from now on: for its time, or for
 * places of its array. A task without GPUs asks for that memory, and nobody else is in the queue. */
static void what_is_kept_for_one_that_is_no_longer_next_is_free(void **unused)
{
	(void)unused;
	for (int how = 0; how < 3; how++) {
		struct world *w = one_at_a_time(1);
		struct spec *s = how ? array_of(spec_of(1000, 1), 2) : spec_of(1000, 1), *cpu = spec_of(0, 0);
		s->host_mem_mib = 3000;
		s->exclusive = true;
		cpu->host_mem_mib = how ? 6000 : 8000;	/* of 10000, the first of the array has 3000 too */
		if (!how)
			busy(w);
		task_id job = submit(w, s), head = how ? TASK_ID(TASK_JOB(job), 1) : job, other = submit(w, cpu);
		assert_int_equal(fair_insists(w->c->fair), head);
		assert_int_equal(fleet_kept_for(w->c->fleet, 0), head);
		assert_string_equal(reason_of(w, other), "HostMemory");
		struct event later = UPDATE(.set_begin = true, .begin_s = w->now.wall_ms / 1000 + 86400);
		struct event parked = UPDATE(.set_array_limit = true, .array_limit = 1);
		assert_int_equal(update(w, head, how == 2 ? parked : later, NULL), 0);
		assert_string_equal(reason_of(w, head), how == 2 ? "ArrayLimit" : "BeginTime");
		assert_int_equal(fair_insists(w->c->fair), 0);
		assert_int_equal(fleet_kept_for(w->c->fleet, 0), 0);
		assert_int_equal(state(w, other), TASK_RUNNING);
		end_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_starts_on_as_many_gpus_as_it_asks_for_now),
		cmocka_unit_test(a_task_that_asks_for_no_gpu_any_more_waits_for_none),
		cmocka_unit_test(with_other_gpus_it_is_another_program),
		cmocka_unit_test(the_memory_of_the_machine_is_asked_for_anew),
		cmocka_unit_test(what_it_was_started_with_is_settled_while_it_runs),
		cmocka_unit_test(it_is_so_after_a_restart), cmocka_unit_test(what_it_waits_for_is_changed),
		cmocka_unit_test(it_is_changed_again), cmocka_unit_test(who_could_start_waits_for_others_from_now_on),
		cmocka_unit_test(nobody_waits_for_himself), cmocka_unit_test(a_long_chain_is_followed_to_its_end),
		cmocka_unit_test(changed_dependencies_are_there_after_a_restart),
		cmocka_unit_test(what_a_task_waits_for_counts_on_when_its_spec_grows),
		cmocka_unit_test(what_is_kept_for_one_that_is_no_longer_next_is_free),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
