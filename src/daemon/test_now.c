/* SPDX-License-Identifier: MIT
 * Clocks of the test's own: steps that are small, one that is set while it is told that it was set, one that is set in the
 * middle of an event.
 */
#include "base/clock.h"
#include "test_world.h"

#define DAY_MS INT64_C(86400000)

/* In place of base/clock.c. The time since boot goes on by itself, so that nothing can hang on two readings being the same. */
static int64_t boot_ms, wall_ahead_ms;

int64_t clock_mono_us(void) { return clock_boot_ms() * 1000; }
int64_t clock_mono_ms(void) { return clock_boot_ms(); }
int64_t clock_boot_ms(void) { return boot_ms; }
int64_t clock_wall_ms(void) { return boot_ms + wall_ahead_ms; }

struct sets {
	struct world w;
	int64_t by_ms[10];
	size_t n;
	int64_t again_ms;	/* the clock is set once more by so much while it is told */
	int64_t in_event_ms;	/* or at the next event */
	enum event_kind at;	/* of this kind */
};

static void on_set(void *ctx, int64_t by_ms)
{
	struct sets *s = ctx;
	assert_true(s->n < COUNT_OF(s->by_ms));
	s->by_ms[s->n++] = by_ms;
	wall_ahead_ms += s->again_ms;
	s->again_ms = 0;
	core_clock_set(s->w.core, by_ms, now_read());
}

/* As parts of the daemon may: one asks for the time in the middle of each event. */
static void on_event(void *part, const struct event *ev, const struct task *t)
{
	struct sets *s = part;
	(void)t;
	if (ev->kind == s->at) {
		wall_ahead_ms += s->in_event_ms;
		s->in_event_ms = 0;
	}
	assert_int_equal(now_read().wall_ms, boot_ms + wall_ahead_ms);
}

static int setup(void **state)
{
	struct sets *s = alloc_zero(sizeof *s);
	boot_ms = 1000000;
	wall_ahead_ms = 20000 * DAY_MS;
	world_open(&s->w);
	s->w.also = on_event;
	s->w.part = s;
	now_watch(s->w.store, on_set, s);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct sets *s = *state;
	now_watch(NULL, NULL, NULL);
	world_close(&s->w);
	free(s);
	return 0;
}

static void step(int64_t by_ms)
{
	boot_ms += 1000;
	wall_ahead_ms += by_ms;
	now_read();
}

static void test_small_steps_count_once_they_are_a_second(void **state)
{
	struct sets *s = *state;
	for (unsigned i = 0; i < 9; i++)
		step(i % 2 ? -900 : 900);	/* there and back */
	assert_int_equal(s->n, 0);
	step(-900);
	step(-400);
	step(-400);
	assert_int_equal(s->n, 0);
	step(-400);
	assert_int_equal(s->n, 1);
	assert_int_equal(s->by_ms[0], -1200);
}

/* What a radd that lives let pass as small, its successor does not take for a clock that was set while it was away. */
static void test_small_steps_are_nothing_to_a_restart(void **state)
{
	struct sets *s = *state;
	for (unsigned i = 0; i < 7; i++)
		step(400);
	assert_int_equal(s->n, 2);
	now_watch(NULL, NULL, NULL);
	assert_int_equal(now_set_since(s->w.store), 0);
	wall_ahead_ms += 5000;
	assert_int_equal(now_set_since(s->w.store), 5400);
}

static void test_set_again_while_it_is_told(void **state)
{
	struct sets *s = *state;
	s->again_ms = -3 * DAY_MS;
	task_id held = world_submit_held(&s->w);
	step(DAY_MS);
	assert_int_equal(s->n, 2);
	assert_int_equal(s->by_ms[0], DAY_MS);
	assert_int_equal(s->by_ms[1], -3 * DAY_MS);
	assert_int_equal(core_task(s->w.core, held)->submit_ms, boot_ms - 1000 + wall_ahead_ms);
	now_watch(NULL, NULL, NULL);
	assert_int_equal(now_set_since(s->w.store), 0);
}

/* The same in memory and in the log, moved once, and a minute is a minute. */
static void check_moved(struct sets *s, task_id id, unsigned sets)
{
	struct error err = ERROR_INIT;
	unsigned n = 0;
	for (size_t i = 0; i < s->w.n_events; i++)
		n += s->w.events[i].kind == EV_CLOCK_SET && s->w.events[i].task == id;
	assert_int_equal(n, sets);
	struct task *stored = store_load_task(s->w.store, id, &err);
	const struct task *t = core_task(s->w.core, id);
	assert_non_null(stored);
	scoped_json *was = task_to_json(t ? t : stored, clock_wall_ms()), *is = task_to_json(stored, clock_wall_ms());
	assert_true(json_equal(was, is));
	assert_int_equal(stored->submit_ms, 1000000 + wall_ahead_ms - (sets ? 0 : DAY_MS));
	struct task_times times = task_times(stored, clock_wall_ms());
	assert_true(times.wait_s == 0 && times.held_s == (t ? 60 : 0) && times.run_s == (t ? 0 : 60));
	task_destroy(stored);
	assert_int_equal(core_check(s->w.core, &err), 0);
}

static void test_set_in_the_middle_of_an_event(void **state)
{
	static const enum event_kind kinds[] = { EV_SUBMITTED, EV_RELEASED, EV_PLACED, EV_ENDED };
	struct sets *s = *state;
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		s->n = s->w.n_events = 0;
		boot_ms = 1000000;
		task_id held = world_submit_held(&s->w);
		s->at = kinds[i];
		s->in_event_ms = DAY_MS;
		task_id runs = world_submit_held(&s->w);
		world_snapshot(&s->w);
		assert_int_equal(core_release(s->w.core, runs, getuid(), now_read(), NULL), 0);
		core_turn(s->w.core, now_read());
		core_started(s->w.core, runs, (struct proc_id){ 100, 1 }, now_read());
		boot_ms += 60000;
		core_exited(s->w.core, runs, &(struct exit_report){ .have_record = true }, now_read());
		core_turn(s->w.core, now_read());
		world_commit(&s->w);
		assert_null(core_task(s->w.core, runs));
		assert_int_equal(s->n, 1);
		check_moved(s, held, 1);
		check_moved(s, runs, kinds[i] != EV_ENDED);	/* one that has ended keeps its times */
		assert_int_equal(core_cancel(s->w.core, held, getuid(), now_read(), NULL), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_small_steps_count_once_they_are_a_second, setup, teardown),
		cmocka_unit_test_setup_teardown(test_small_steps_are_nothing_to_a_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_again_while_it_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_in_the_middle_of_an_event, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
