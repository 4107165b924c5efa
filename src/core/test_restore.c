/* SPDX-License-Identifier: MIT
 * A core that is restored from a log decides as the one before it would have.
 */
#include "core/test_world.h"

/* Of 30,000 MiB, running, and placed at that time by the wall clock. */
static task_id restore_running(struct world *w, int64_t placed_ms)
{
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = placed_ms },
		{ .kind = EV_ESTIMATED, .t_ms = placed_ms, .u.estimate = { "declared", 30000, 30000, 30000 } },
		{ .kind = EV_PLACED, .t_ms = placed_ms,
		  .u.placed = { .gpus = gpus, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = 30000 } },
	};
	return restore(w, TASK_ID(++w->next_job, -1), spec_of(30000, 1), log, COUNT_OF(log))->id;
}

static void a_restored_core_holds_what_runs(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = restore_running(w, w->now.wall_ms);
	sample(w);
	task_id b = submit(w, spec_of(30000, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, b), TASK_PENDING);
	end_world(w);
}

/* It ended an hour after its start, while radd was stopped for a day: it is not to pay for the day. What is said of an end that
 * was there to be noticed counts for nothing. */
static void who_ended_while_radd_was_stopped_ended_then(void **unused)
{
	(void)unused;
	static const struct { int64_t said_s, noticed_s, ended_s; } rows[] = {
		{ 3600, 0, 3600 }, { 0, 0, 86400 }, { 3600, 120, 86520 }, { 90000, 0, 86400 },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct world *w = new_world(1, NULL);
		int64_t start_ms = w->now.wall_ms;
		w->now.wall_ms += 86400000;
		task_id a = restore_running(w, start_ms);
		w->now.wall_ms += rows[i].noticed_s * 1000;
		w->now.mono_ms += rows[i].noticed_s * 1000;
		const struct exit_report r = { .have_record = true, .ended_ms = rows[i].said_s ? start_ms + rows[i].said_s * 1000 : 0 };
		core_exited(w->c, a, &r, w->now);	/* it is gone from the core then */
		assert_int_equal(w->n_log, 1);
		assert_int_equal(w->log[0].state, TASK_COMPLETED);
		assert_int_equal((w->log[0].t_ms - start_ms) / 1000, rows[i].ended_s);
		end_world(w);
	}
}

/* What a person named stays where he named it: a clock that ran ahead, and is put right while radd is away, begins nothing. */
static void a_restart_begins_by_the_clock_as_it_is_set(void **unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct world *w = new_world(1, NULL);
		struct spec *s = spec_of(1000, 1);
		int64_t back_ms = i ? 86400000 : 0;
		s->begin_s = w->now.wall_ms / 1000 + 100;
		const struct event submitted = { .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms };
		w->now.wall_ms += 200000;
		const struct task *t = restore(w, TASK_ID(7, -1), s, &submitted, 1);
		w->now.wall_ms -= back_ms;
		if (back_ms)
			core_clock_set(w->c, -back_ms, w->now);
		pass(w, 5);
		assert_int_equal(state(w, t->id), i ? TASK_PENDING : TASK_RUNNING);
		end_world(w);
	}
}

/* What it depends on is not asked again: a delay is no new wait for others. */
static void a_delay_before_a_retry_goes_on_after_a_restart(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	const int64_t ms = w->now.wall_ms;
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = ms },
		{ .kind = EV_ESTIMATED, .t_ms = ms, .u.estimate = { "declared", 30000, 30000, 30000 } },
		{ .kind = EV_ELIGIBLE, .t_ms = ms },
		{ .kind = EV_PLACED, .t_ms = ms, .u.placed = { .gpus = gpus, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = 30000 } },
		{ .kind = EV_ENDED, .t_ms = ms, .u.ended = { .verdict = VERDICT_FAILED, .exit_code = 1, .next = NEXT_QUEUE,
							     .state = TASK_FAILED, .next_delay_s = 20 } },
	};
	struct spec *s = starts_after(spec_of(30000, 1), DEP_AFTEROK, TASK_ID(99, -1));	/* which radd knows no more */
	s->retries = 1;
	pass(w, 5);
	task_id a = restore(w, TASK_ID(++w->next_job, -1), s, log, COUNT_OF(log))->id;
	pass(w, 10);
	assert_string_equal(reason_of(w, a), "BeginTime");
	pass(w, 7);
	assert_int_equal(state(w, a), TASK_RUNNING);
	exits(w, a, 1, SCAN_NOTHING);
	assert_null(core_task(w->c, a));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restored_core_holds_what_runs),
		cmocka_unit_test(who_ended_while_radd_was_stopped_ended_then),
		cmocka_unit_test(a_restart_begins_by_the_clock_as_it_is_set),
		cmocka_unit_test(a_delay_before_a_retry_goes_on_after_a_restart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
