/* SPDX-License-Identifier: MIT
 * Time limits: the warning, the end, and clocks.
 */
#include "core/test_world.h"

static void limits_warn_then_stop(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *s = spec_of(1000, 1);
	s->time_limit_s = 60;
	s->signal = SIGUSR1;
	s->signal_before_s = 20;
	task_id a = submit(w, s);
	pass(w, 39);
	assert_int_equal(w->signalled, 0);
	pass(w, 2);
	assert_int_equal(w->signalled, SIGUSR1);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 20);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	exits(w, a, 143, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_TIMEOUT);
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
		cmocka_unit_test(limits_do_not_follow_the_wall_clock),
		cmocka_unit_test(a_limit_stands_still_while_the_machine_sleeps),
		cmocka_unit_test(a_limit_can_be_changed_while_the_task_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
