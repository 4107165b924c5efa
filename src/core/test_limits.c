/* SPDX-License-Identifier: MIT
 * Time limits: the warning, the end, and clocks.
 */
#include "core/test_world.h"

/* With a limit of a minute, and a signal twenty seconds before. */
static struct spec *warned_spec(void)
{
	struct spec *s = spec_of(1000, 1);
	s->time_limit_s = 60;
	s->signal = SIGUSR1;
	s->signal_before_s = 20;
	return s;
}

static void limits_warn_then_stop(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, warned_spec());
	pass(w, 39);
	assert_int_equal(happened(w, a, EV_WARNED), 0);
	pass(w, 2);
	assert_int_equal(happened(w, a, EV_WARNED), 1);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 20);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	exits(w, a, 143, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_TIMEOUT);
	end_world(w);
}

/* A program that saves its work at the signal is not to save it twice because radd was restarted. One of which that radd had
 * not come to it is warned by the next. */
static void one_that_was_warned_is_not_warned_by_the_next_radd(void **unused)
{
	(void)unused;
	for (size_t warned = 0; warned < 2; warned++) {
		struct world *w = new_world(1, NULL);
		char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
		int64_t began_ms = w->now.wall_ms;
		const struct event log[] = {
			{ .kind = EV_SUBMITTED, .t_ms = began_ms },
			{ .kind = EV_PLACED, .t_ms = began_ms, .u.placed = { .gpus = gpus, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = 1000 } },
			{ .kind = EV_STARTED, .t_ms = began_ms, .u.started.shim = { 100, 1 } },
			{ .kind = EV_WARNED, .t_ms = began_ms + 40000 },
		};
		w->now.wall_ms += 45000;
		task_id a = restore(w, TASK_ID(1, -1), warned_spec(), log, COUNT_OF(log) - !warned)->id;
		pass(w, 10);
		assert_int_equal(happened(w, a, EV_WARNED), !warned);
		pass(w, 10);
		assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
		end_world(w);
	}
}

/* It was told of an end that is none any more. Within the same warning a longer limit changes nothing. */
static void a_later_end_is_warned_of_again(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, warned_spec());
	struct event longer = { .u.updated = { .set_time_limit = true, .time_limit_s = 65 } };
	core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
	pass(w, 50);
	assert_int_equal(core_update(w->c, a, &longer, w->now, NULL), 0);
	pass(w, 5);
	assert_int_equal(happened(w, a, EV_WARNED), 1);
	longer.u.updated.time_limit_s = 100;
	assert_int_equal(core_update(w->c, a, &longer, w->now, NULL), 0);
	pass(w, 20);
	assert_int_equal(happened(w, a, EV_WARNED), 1);
	pass(w, 10);
	assert_int_equal(happened(w, a, EV_WARNED), 2);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	end_world(w);
}

/* A task with a limit of a minute, of which it has run ten seconds. */
static task_id ten_seconds_of_a_minute(struct world *w)
{
	struct spec *s = spec_of(1000, 1);
	s->time_limit_s = 60;
	task_id a = submit(w, s);
	core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
	pass(w, 10);
	return a;
}

/* After 50 seconds more, and no sooner. Ends the world. */
static void ends_at_its_minute(struct world *w, task_id a)
{
	pass(w, 45);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 6);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	end_world(w);
}

/* Somebody sets the wall clock: limits run on, neither shorter nor longer. */
static void limits_do_not_follow_the_wall_clock(void **unused)
{
	(void)unused;
	for (int64_t jump = -86400000; jump <= 86400000; jump += 172800000) {
		struct world *w = new_world(1, NULL);
		task_id a = ten_seconds_of_a_minute(w);
		w->now.wall_ms += jump;
		ends_at_its_minute(w, a);
	}
}

/* The machine slept, which the wall clock tells and ours does not count; what woke it set the clock. */
static void a_limit_stands_still_while_the_machine_sleeps(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = ten_seconds_of_a_minute(w);
	w->now.wall_ms += 8 * 3600000 + 2000;
	core_clock_set(w->c, 2000, w->now);
	ends_at_its_minute(w, a);
}

/* Another limit counts from the same beginning. */
static void a_limit_can_be_changed_while_the_task_runs(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(1000, 1));
	struct event ev = { .u.updated = { .set_time_limit = true, .time_limit_s = 100 } };
	core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
	pass(w, 50);
	assert_int_equal(core_update(w->c, a, &ev, w->now, NULL), 0);
	pass(w, 48);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 3);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_warn_then_stop),
		cmocka_unit_test(one_that_was_warned_is_not_warned_by_the_next_radd),
		cmocka_unit_test(a_later_end_is_warned_of_again),
		cmocka_unit_test(limits_do_not_follow_the_wall_clock),
		cmocka_unit_test(a_limit_stands_still_while_the_machine_sleeps),
		cmocka_unit_test(a_limit_can_be_changed_while_the_task_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
