/* SPDX-License-Identifier: MIT
 * Whose turn it is: the sums against the integral they stand for, the four ranks, walks of a queue of several users, what a
 * user may have.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"
#include "queue/allowance.h"
#include "queue/queue.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_MS 3600000

static struct fair_config config = { true, 24 * HOUR_MS };
static const int64_t pass_max_ms = HOUR_MS;

static void about(double a, double b)
{
	if (fabs(a - b) > 1e-6 * (1 + fabs(b)))
		fail_msg("%.9g is not %.9g", a, b);
}

static double used(const struct fair *f, uid_t uid)
{
	return fair_look(f, fair_find(f, uid)).used_s;
}

/* Added up second by second, in other words than the code. */
static double by_sum(double rate, int64_t from_s, int64_t until_s, int64_t now_s)
{
	double sum = 0;
	for (int64_t s = from_s; s < until_s; s++)
		sum += rate * pow(0.5, ((double)now_s - ((double)s + 0.5)) / 86400);
	return sum;
}

static void what_was_used_decays(void **unused)
{
	(void)unused;
	struct fair *f = fair_create(&config, &pass_max_ms);
	fair_change_rate(f, 1, 2, 0);
	fair_change_rate(f, 1, -1.5, 7200 * 1000);
	fair_go_on(f, 10000 * 1000);
	about(used(f, 1), by_sum(2, 0, 7200, 10000) + by_sum(0.5, 7200, 10000, 10000));
	/* However often it is looked at. */
	fair_change_rate(f, 1, 0, 8000 * 1000);
	fair_change_rate(f, 1, 0, 9000 * 1000);
	about(used(f, 1), by_sum(2, 0, 7200, 10000) + by_sum(0.5, 7200, 10000, 10000));
	/* Time does not go back, neither its own nor a user's. */
	fair_change_rate(f, 1, 0, 0);
	fair_go_on(f, 0);
	about(used(f, 1), by_sum(2, 0, 7200, 10000) + by_sum(0.5, 7200, 10000, 10000));
	/* A half-life after his last task ended there is half of it, whatever sums of fractions left as a rate. */
	fair_take(f, 1, 1, (struct fair_taken){ 1, 2, 100 }, 0);
	fair_take(f, 1, -1, (struct fair_taken){ 1, 2, 100 }, 10000 * 1000);
	double then = used(f, 1);
	fair_go_on(f, (10000 + 86400) * INT64_C(1000));
	about(used(f, 1), then / 2);
	fair_destroy(f);
	fair_destroy(NULL);
}

static void a_restart_remembers(void **unused)
{
	(void)unused;
	struct fair *f = fair_create(&config, &pass_max_ms);
	fair_remember(f, 1, 1000, -24 * (int64_t)HOUR_MS);
	fair_remember(f, 2, NAN, 0);
	fair_remember(f, 3, -5, 0);
	fair_change_rate(f, 1, 1, -50 * (int64_t)HOUR_MS);	/* it ran since before that was noted */
	fair_go_on(f, 0);
	about(used(f, 1), 500 + by_sum(1, -86400, 0, 0));
	about(used(f, 2), 0);
	about(used(f, 3), 0);
	assert_null(fair_find(f, 4));
	fair_destroy(f);
}

/* Queues ---------------------------------------------------------------------------------------------------------------- */

#define USERS 4
static struct spec specs[USERS] = {
	{ .uid = 10, .gpus = 1 }, { .uid = 11, .gpus = 1 }, { .uid = 12, .gpus = 1 }, { .uid = 13, .gpus = 2 },
};

static struct task task_of(uint32_t job, unsigned user, int64_t priority, int64_t queued_ms)
{
	return (struct task){ .id = TASK_ID(job, -1), .spec = &specs[user], .gpus = specs[user].gpus, .priority = priority,
			      .queued_ms = queued_ms };
}

/* The jobs in order, ended by 0. */
static void expect_order(const struct queue *q, const uint32_t *jobs)
{
	struct queue_walk w;
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	for (struct task *t; (t = queue_walk_next(&w)); jobs++)
		assert_int_equal(TASK_JOB(t->id), *jobs);
	assert_int_equal(*jobs, 0);
	queue_walk_end(&w);
}

#define ORDER(q, ...) expect_order(q, (const uint32_t[]){ __VA_ARGS__, 0 })

static void users_take_turns(void **unused)
{
	(void)unused;
	struct fair *f = fair_create(&config, &pass_max_ms);
	struct queue *q = queue_create(f);
	struct task t[] = { task_of(1, 0, 0, 1), task_of(2, 0, 0, 2), task_of(3, 0, 0, 3), task_of(4, 1, 0, 4), task_of(5, 1, 0, 5),
			    task_of(6, 2, 0, 6), task_of(7, 2, 5, 7), task_of(8, 3, 0, 8), task_of(9, 3, 0, 9) };
	fair_go_on(f, 100 * (int64_t)HOUR_MS);
	for (size_t i = 0; i < COUNT_OF(t); i++)
		queue_push(q, &t[i]);
	assert_int_equal(queue_users(q), 4);
	/* All alike: one each, first come first served; 12 had his by priority; 13 takes two GPUs at a time. */
	ORDER(q, 7, 1, 4, 8, 2, 5, 6, 3, 9);
	/* 10 had most lately, 13 least. */
	fair_remember(f, 10, 9000, 100 * (int64_t)HOUR_MS);
	fair_remember(f, 11, 100, 100 * (int64_t)HOUR_MS);
	fair_remember(f, 12, 50, 100 * (int64_t)HOUR_MS);
	ORDER(q, 7, 8, 4, 1, 6, 5, 9, 2, 3);
	/* Whoever runs something comes after those who run nothing, however little he had. */
	fair_take(f, 13, 1, (struct fair_taken){ 1, 1, 0 }, 100 * (int64_t)HOUR_MS);
	ORDER(q, 7, 4, 1, 8, 6, 5, 9, 2, 3);
	/* A task that was passed for too long goes before them, but not before those who are owed a start. */
	fair_insist(f, t[7].id, 99 * (int64_t)HOUR_MS);
	ORDER(q, 7, 4, 1, 8, 6, 5, 9, 2, 3);
	fair_take(f, 11, 1, (struct fair_taken){ 1, 1, 0 }, 100 * (int64_t)HOUR_MS);
	fair_take(f, 11, -1, (struct fair_taken){ 1, 1, 0 }, 100 * (int64_t)HOUR_MS);
	ORDER(q, 7, 1, 8, 4, 6, 5, 9, 2, 3);
	config.on = false;
	ORDER(q, 7, 1, 2, 3, 4, 5, 6, 8, 9);
	config.on = true;
	queue_destroy(q);
	fair_destroy(f);
}

static void a_walk_leaves_a_user_and_minds_changes(void **unused)
{
	(void)unused;
	struct fair *f = fair_create(&config, &pass_max_ms);
	struct queue *q = queue_create(f);
	struct queue_walk w;
	struct task t[] = { task_of(1, 0, 0, 1), task_of(2, 0, 0, 2), task_of(3, 1, 0, 3), task_of(4, 1, 0, 4), task_of(5, 2, 0, 5) };
	fair_go_on(f, 0);
	for (size_t i = 0; i < COUNT_OF(t); i++)
		queue_push(q, &t[i]);
	queue_walk_begin(&w, q, QUEUE_MAIN);
	assert_ptr_equal(queue_walk_next(&w), &t[0]);
	queue_walk_leave_user(&w);
	queue_walk_leave_user(&w);	/* twice is once */
	assert_true(queue_remove(q, &t[2]));	/* before the walk came by it */
	assert_ptr_equal(queue_walk_next(&w), &t[3]);
	assert_true(queue_remove(q, &t[3]));
	assert_ptr_equal(queue_walk_next(&w), &t[4]);
	assert_true(queue_remove(q, &t[4]));
	assert_null(queue_walk_next(&w));
	assert_null(queue_walk_next(&w));
	queue_walk_end(&w);
	assert_int_equal(queue_users(q), 1);
	queue_destroy(q);
	fair_destroy(f);
}

/* What a pass does with 25 users and 10,000 tasks: a walk that looks at the first hundred, each time somebody's turn. */
static void ten_thousand_of_twenty_five(void **unused)
{
	enum { TASKS = 10000, PASSES = 1000 };
	(void)unused;
	struct spec *many = alloc_zero(25 * sizeof *many);
	struct task *t = alloc_zero(TASKS * sizeof *t);
	struct fair *f = fair_create(&config, &pass_max_ms);
	struct queue *q = queue_create(f);
	for (uint32_t i = 0; i < TASKS; i++) {
		many[i % 25] = (struct spec){ .uid = 100 + i % 25, .gpus = 1 };
		t[i] = (struct task){ .id = TASK_ID(i + 1, -1), .spec = &many[i % 25], .gpus = 1, .queued_ms = i };
		queue_push(q, &t[i]);
		fair_change_rate(f, 100 + i % 25, 0.001, i);
	}
	int64_t begin = clock_mono_ms();
	for (int pass = 0; pass < PASSES; pass++) {
		struct queue_walk w;
		fair_go_on(f, TASKS + pass);
		queue_walk_begin(&w, q, QUEUE_RECOVERY);
		for (int i = 0; i < 100; i++)
			assert_non_null(queue_walk_next(&w));
		queue_walk_end(&w);
	}
	double us = (double)(clock_mono_ms() - begin) * 1000 / PASSES;
	print_message("a walk by 100 of 10,000 tasks of 25 users: %.0f us\n", us);
	assert_true(us < 20000);
	queue_destroy(q);
	fair_destroy(f);
	free(t);
	free(many);
}

/* What a user may have -------------------------------------------------------------------------------------------------- */

static void allowances(void **unused)
{
	(void)unused;
	struct allowance a = { 0 };
	struct fair_taken none = { 0 }, two = { 2, 3, 3000 }, one = { 1, 2, 1000 };
	bool never;
	assert_false(allowance_limits(&a));
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_COUNT);
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++)
		assert_int_equal(allowance_find(allowance_word((enum allowance_kind)k), strlen(allowance_word((enum allowance_kind)k))), k);
	assert_int_equal(allowance_find("max-gpus=3", 8), ALLOWANCE_GPUS);
	assert_int_equal(allowance_find("max_gpu", 7), ALLOWANCE_COUNT);
	assert_int_equal(allowance_find("", 0), ALLOWANCE_COUNT);
	a.most[ALLOWANCE_RUNNING] = 2;
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_RUNNING);
	assert_false(never);
	a.most[ALLOWANCE_RUNNING] = 3;
	a.most[ALLOWANCE_GPUS] = 4;
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_GPUS);
	assert_false(never);
	assert_int_equal(allowance_refuses(&a, &none, &one, &never), ALLOWANCE_COUNT);
	a.most[ALLOWANCE_GPUS] = 1;	/* lowered below what he has, and below what it asks for */
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_GPUS);
	assert_true(never);
	a.most[ALLOWANCE_GPUS] = 5;
	a.most[ALLOWANCE_MEM] = 3999;
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_MEM);
	a.most[ALLOWANCE_MEM] = 4000;
	assert_int_equal(allowance_refuses(&a, &two, &one, &never), ALLOWANCE_COUNT);
	a.most[ALLOWANCE_GPUS] = a.most[ALLOWANCE_MEM] = 1;	/* of which a CPU task takes none */
	assert_int_equal(allowance_refuses(&a, &two, &(struct fair_taken){ 1, 0, 0, 1 }, &never), ALLOWANCE_COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_used_decays),
		cmocka_unit_test(a_restart_remembers),
		cmocka_unit_test(users_take_turns),
		cmocka_unit_test(a_walk_leaves_a_user_and_minds_changes),
		cmocka_unit_test(ten_thousand_of_twenty_five),
		cmocka_unit_test(allowances),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
