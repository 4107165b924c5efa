/* SPDX-License-Identifier: MIT
 * The host's pace: what one GRACT tells is what was put in, a few tasks move it little, odd ones hardly, and a guess of a step
 * on a slower host is what the model of a step says of it.
 */
#include "estimate/hostpace.h"

#include "base/scope.h"
#include "estimate/activity.h"
#include "models/hostpace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define H200 "NVIDIA H200"

/* A step of 10 ms that the host decides: it takes 9.9 of it, the GPU 4. */
static struct load_belief light(void)
{
	return (struct load_belief){ .load = { 0.4, 0.2, 1e5 }, .gract_sd = 0.1, .smact_sd = 0.09, .dram = 0.1, .dram_sd = 0.04,
				     .watts = 275, .source = LOAD_GUESSED, .host = 0.99 };
}

static void note_of(struct hostpaces *h, unsigned uid, unsigned number, double pace)
{
	char signature[32];
	snprintf(signature, sizeof signature, "u%u-%08x", uid, number);
	hostpace_note(h, signature, pace);
}

static void note(struct hostpaces *h, unsigned number, double pace)
{
	note_of(h, 1000, number, pace);
}

static void what_a_load_tells_is_what_a_pace_makes(void **state)
{
	(void)state;
	for (double pace = 0.6; pace < 3; pace += 0.1) {
		struct load_belief guess = light(), there = light();
		double longer = hostpace_apply(&there, pace, H200);
		assert_true(fabs(there.load.gract * longer - 0.4) < 1e-12 && fabs(there.load.smact * longer - 0.2) < 1e-12);
		assert_true(fabs(hostpace_told(&guess, there.load.gract) / pace - 1) < 1e-9);
		assert_true(there.load.kernels * longer / 1e5 > 0.999 && there.host <= 1);
		assert_true(fabs((there.watts - 75) * longer - 200) < 1e-9);
	}
}

/* The same work, and all that the host does twice: what the model says of that, but for a step's fixed part. */
static void a_slower_host_is_one_that_has_more_to_do(void **state)
{
	struct capture_kernel k = { .count = 1000, .flops = 1000000, .bytes = 8000000, .blocks = 1000, .class = KERNEL_POINTWISE };
	struct capture c = { .host = { .forward = 20000 }, .kernels = &k, .n_kernels = 1, .steps = 700 };
	struct activity once, twice;
	struct load_belief guess;

	(void)state;
	assert_int_equal(activity_from_capture(&c, H200, &once, NULL), 0);
	c.host.forward *= 2;
	assert_int_equal(activity_from_capture(&c, H200, &twice, NULL), 0);
	guess = once.load;
	assert_true(fabs(once.step_s * hostpace_apply(&guess, 2, H200) / twice.step_s - 1) < 0.01);
	assert_true(fabs(guess.load.gract / twice.load.load.gract - 1) < 0.01);
	assert_true(fabs(guess.load.smact / twice.load.load.smact - 1) < 0.01);
	assert_true(fabs(guess.watts - twice.load.watts) < 1);
	assert_true(fabs(guess.run_s / twice.load.run_s - 1) < 0.01);
}

static void where_the_gpu_decides_the_host_does_not_matter(void **state)
{
	struct load_belief guess = light(), before;

	(void)state;
	guess.load.gract = 0.999;
	guess.host = 0.2;
	before = guess;
	assert_true(hostpace_apply(&guess, 2, H200) < 1.001);
	assert_true(fabs(guess.load.gract - before.load.gract) < 0.001 && fabs(guess.watts - before.watts) < 1);
	assert_true(hostpace_told(&before, 0.5) == 0);
	before.host = 1;	/* a guess by which host and GPU take the same: only slow hosts could be told from it */
	assert_true(hostpace_told(&before, 0.5) == 0);
}

/* On fast hosts the GPU decides of more and more tasks. Left out, they would leave the word to the slow ones. */
static void fast_hosts_are_heard(void **state)
{
	struct load_belief guess = light();
	double most = hostpace_told(&guess, HOSTPACE_BUSY);
	struct hostpaces *h = hostpace_create();

	(void)state;
	assert_true(most > 0.3 && most < 0.5);
	assert_true(hostpace_told(&guess, 0.9) == most && hostpace_told(&guess, 1) == most);
	guess.load.gract = 0.02;
	assert_true(hostpace_told(&guess, 0.9) == 1 / HOSTPACE_MOST);
	guess = (struct load_belief){ .load = { 0.7 }, .source = LOAD_GUESSED, .host = 0.9 };
	for (unsigned i = 0; i < 20; i++)
		note(h, i, i < 11 ? hostpace_told(&guess, 0.95) : 1.1);
	assert_true(hostpace_of(h).pace < 1);
	hostpace_destroy(h);
}

/* One who submits many kinds of tasks with captures that are wrong has one voice. */
static void a_user_counts_once(void **state)
{
	struct hostpaces *h = hostpace_create();

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		note_of(h, 666, i, 4);
	for (unsigned i = 0; i < 3; i++)
		note_of(h, 1000, i, 1.2);
	assert_true(hostpace_of(h).tasks == HOSTPACE_KEPT && hostpace_of(h).pace < 1.2);
	for (unsigned i = 0; i < 1000; i++)
		note_of(h, 666, i, i % 2 ? 4 : 0.25);
	assert_true(hostpace_of(h).pace >= 1 && hostpace_of(h).pace < 1.2);	/* the three are still there */
	for (unsigned i = 0; i < 1000; i++)
		note_of(h, 666, i, 0.25);
	assert_true(hostpace_of(h).pace == 1);		/* who is right cannot be told */
	note_of(h, 1001, 0, 1.3);
	assert_true(hostpace_of(h).pace > 1.05 && hostpace_of(h).pace < 1.2);
	hostpace_destroy(h);
}

/* Two users with as many tasks each know as much as one with all of them. */
static void users_add_up(void **state)
{
	struct hostpaces *one = hostpace_create(), *two = hostpace_create();

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		note(one, i, 1.5);
		note_of(two, 1000 + i % 2, i, 1.5);
	}
	assert_true(fabs(hostpace_of(one).pace - hostpace_of(two).pace) < 1e-12);
	hostpace_destroy(one);
	hostpace_destroy(two);
}

static void what_is_not_known_tells_nothing(void **state)
{
	const double odd[] = { NAN, 0, -1, INFINITY };
	struct load_belief guess = light(), unknown = load_unknown(), measured = light();

	(void)state;
	for (size_t i = 0; i < COUNT_OF(odd); i++) {
		assert_true(hostpace_told(&guess, odd[i]) == 0);
		assert_true(hostpace_apply(&guess, i == 3 ? 0 : odd[i], H200) == 1);
	}
	guess.host = 0;
	assert_true(hostpace_told(&guess, 0.3) == 0 && hostpace_apply(&guess, 2, H200) == 1);
	assert_true(hostpace_told(&unknown, 0.3) == 0 && hostpace_apply(&unknown, 2, H200) == 1);
	measured.source = LOAD_MEASURED;
	assert_true(hostpace_told(&measured, 0.3) == 0 && hostpace_apply(&measured, 2, H200) == 1);
	guess = light();
	guess.dram = NAN;
	hostpace_apply(&guess, 2, NULL);
	assert_true(guess.load.gract < 0.3 && isnan(guess.watts) && isnan(guess.dram));
}

static void two_tasks_move_it_little_and_many_do(void **state)
{
	struct hostpaces *h = hostpace_create();
	struct hostpace now = hostpace_of(h);

	(void)state;
	assert_true(now.pace == 1 && now.tasks == 0);
	note(h, 1, 1.5);
	note(h, 2, 1.5);
	assert_true(hostpace_of(h).pace < 1.15 && hostpace_of(h).tasks == 2);
	for (unsigned i = 3; i <= 10; i++)
		note(h, i, 1.5);
	now = hostpace_of(h);
	assert_true(now.tasks == 10 && fabs(now.pace - pow(1.5, 10 / (10 + HOSTPACE_SHRINK))) < 1e-12);
	for (unsigned i = 11; i <= 13; i++)
		note(h, i, 100);	/* as if they waited for their data */
	assert_true(fabs(hostpace_of(h).pace - pow(1.5, 13 / (13 + HOSTPACE_SHRINK))) < 1e-12);
	for (unsigned i = 0; i < 1000; i++)
		note(h, i, i % 2 ? 1e300 : INFINITY);
	assert_true(hostpace_of(h).tasks == HOSTPACE_KEPT && hostpace_of(h).pace <= HOSTPACE_MOST);
	hostpace_destroy(h);
	hostpace_destroy(NULL);
}

/* An array of a thousand elements is one task, and what it was first gives way to what it was last. */
static void runs_of_one_kind_count_once(void **state)
{
	struct hostpaces *h = hostpace_create();

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		note(h, i, 1.2);
	for (unsigned i = 0; i < 1000; i++)
		note(h, 0, i < 999 ? 3 : 1.2);
	assert_true(hostpace_of(h).tasks == 5 && fabs(hostpace_of(h).pace - pow(1.2, 5 / (5 + HOSTPACE_SHRINK))) < 1e-12);
	hostpace_note(h, "", 3);
	note(h, 7, 0);
	note(h, 8, NAN);
	note(h, 9, -2);
	assert_int_equal(hostpace_of(h).tasks, 5);
	hostpace_destroy(h);
}

/* What the machine was is forgotten: the newest HOSTPACE_KEPT count. */
static void the_newest_count(void **state)
{
	struct hostpaces *h = hostpace_create();

	(void)state;
	for (unsigned i = 0; i < HOSTPACE_KEPT; i++)
		note(h, i, 0.5);
	for (unsigned i = 0; i < HOSTPACE_KEPT; i++)
		note(h, 1000 + i, 2);
	assert_int_equal(hostpace_of(h).tasks, HOSTPACE_KEPT);
	assert_true(hostpace_of(h).pace > 1.8 && hostpace_of(h).pace < 2);
	hostpace_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_load_tells_is_what_a_pace_makes),
		cmocka_unit_test(a_slower_host_is_one_that_has_more_to_do),
		cmocka_unit_test(where_the_gpu_decides_the_host_does_not_matter),
		cmocka_unit_test(what_is_not_known_tells_nothing),
		cmocka_unit_test(two_tasks_move_it_little_and_many_do),
		cmocka_unit_test(runs_of_one_kind_count_once),
		cmocka_unit_test(the_newest_count),
		cmocka_unit_test(fast_hosts_are_heard),
		cmocka_unit_test(a_user_counts_once),
		cmocka_unit_test(users_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
