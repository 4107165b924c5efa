/* SPDX-License-Identifier: MIT
 * What cannot be removed yet is removed later, and holds up nobody.
 */
#include "daemon/forgetting.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <cmocka.h>

static uv_loop_t loop;
static struct forgetting *f;
static atomic_int easy, stubborn, refusals;

static bool go(const char *path)
{
	assert_string_equal(path, "easy");
	atomic_fetch_add(&easy, 1);
	return true;
}

static bool refuse(const char *path)
{
	assert_string_equal(path, "stubborn");
	return atomic_fetch_add(&stubborn, 1) >= atomic_load(&refusals);
}

static int setup(void **state)
{
	(void)state;
	easy = stubborn = refusals = 0;
	assert_int_equal(uv_loop_init(&loop), 0);
	f = forgetting_create(&loop);
	return 0;
}

/* The loop stays alive for as long as something is to be done. */
static int teardown(void **state)
{
	(void)state;
	forgetting_destroy(f);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

static void what_goes_later_is_tried_until_it_is_gone(void **state)
{
	(void)state;
	refusals = 5;
	forgetting_add(f, refuse, alloc_string("stubborn"));
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(stubborn, 6);
	assert_int_equal(uv_run(&loop, UV_RUN_NOWAIT), 0);	/* and no more after that */
}

static void what_comes_meanwhile_waits_for_nothing(void **state)
{
	(void)state;
	refusals = 1000000;
	forgetting_add(f, refuse, alloc_string("stubborn"));
	while (stubborn < 6)		/* its next try is a second away */
		uv_run(&loop, UV_RUN_ONCE);
	int before = stubborn;
	for (int i = 0; i < 10; i++)
		forgetting_add(f, go, alloc_string("easy"));
	while (easy < 10)
		uv_run(&loop, UV_RUN_ONCE);
	assert_true(stubborn <= before + 1);
}

static void who_leaves_tries_everything_still(void **state)
{
	(void)state;
	refusals = 1000000;
	forgetting_add(f, refuse, alloc_string("stubborn"));
	for (int i = 0; i < 10; i++)
		forgetting_add(f, go, alloc_string("easy"));
	forgetting_destroy(f);
	f = NULL;
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(easy, 10);
	assert_true(stubborn > 1);
}

static void nothing_is_left_of_what_is_never_gone(void **state)
{
	(void)state;
	refusals = 1000000;
	forgetting_add(f, refuse, alloc_string("stubborn"));
	while (stubborn < 3)
		uv_run(&loop, UV_RUN_ONCE);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(what_goes_later_is_tried_until_it_is_gone), T(what_comes_meanwhile_waits_for_nothing),
		T(who_leaves_tries_everything_still), T(nothing_is_left_of_what_is_never_gone),
#undef T
	};
	return cmocka_run_group_tests_name("forgetting", tests, NULL, NULL);
}
