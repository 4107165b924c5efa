/* SPDX-License-Identifier: MIT
 * The queue against a plain sorted array under random operations, its order in words, speed at 100,000 tasks.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"
#include "queue/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct task make(uint32_t job, enum task_queue queue, int64_t priority, int64_t queued_ms)
{
	static struct spec spec = { .uid = 1000, .gpus = 1 };

	return (struct task){ .id = TASK_ID(job, -1), .spec = &spec, .gpus = 1, .queue = queue, .priority = priority,
			      .queued_ms = queued_ms };
}

/* A queue of users who are all alike. */
static const struct fair_config even = { true, 7 * INT64_C(86400000) };
static const int64_t pass_max_ms = 3600000;

static struct fair *new_fair(void)
{
	return fair_create(&even, &pass_max_ms);
}

static void end_queue(struct queue *q, struct fair *f)
{
	queue_destroy(q);
	fair_destroy(f);
}

static struct task *first_of(const struct queue *q)
{
	struct queue_walk w;

	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	struct task *t = queue_walk_next(&w);
	queue_walk_end(&w);
	return t;
}

static void test_order(void **state)
{
	struct task late_high = make(1, QUEUE_MAIN, 10, 900), early = make(2, QUEUE_MAIN, 0, 100), twin = make(3, QUEUE_MAIN, 0, 100),
		    low = make(4, QUEUE_MAIN, -5, 50), old_oom = make(5, QUEUE_RECOVERY, -9, 200),
		    new_oom = make(6, QUEUE_RECOVERY, 99, 300);
	struct task *pushed[] = { &low, &twin, &new_oom, &early, &late_high, &old_oom };
	struct task *expected[] = { &old_oom, &new_oom, &late_high, &early, &twin, &low };
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	struct queue_walk w;

	(void)state;
	assert_null(first_of(q));
	for (size_t i = 0; i < COUNT_OF(pushed); i++)
		queue_push(q, pushed[i]);
	queue_push(q, &early);
	assert_int_equal(queue_length(q), COUNT_OF(expected));
	assert_ptr_equal(first_of(q), expected[0]);
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	for (size_t i = 0; i < COUNT_OF(expected); i++)
		assert_ptr_equal(queue_walk_next(&w), expected[i]);
	assert_null(queue_walk_next(&w));
	queue_walk_end(&w);
	end_queue(q, f);
	queue_destroy(NULL);
}

/* Priority may be INT64_MIN or MAX: comparing by subtraction would overflow. */
static void test_extreme_keys(void **state)
{
	struct task a = make(1, QUEUE_MAIN, INT64_MAX, INT64_MAX), b = make(2, QUEUE_MAIN, INT64_MIN, INT64_MIN);
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	struct queue_walk w;

	(void)state;
	queue_push(q, &b);
	queue_push(q, &a);
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	assert_ptr_equal(queue_walk_next(&w), &a);
	assert_ptr_equal(queue_walk_next(&w), &b);
	queue_walk_end(&w);
	end_queue(q, f);
}

static void test_walk_while_removing(void **state)
{
	struct task tasks[200];
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	struct queue_walk w;
	unsigned seen = 0;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(tasks); i++) {
		tasks[i] = make(i + 1, QUEUE_MAIN, 0, i);
		queue_push(q, &tasks[i]);
	}
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	for (struct task *t; (t = queue_walk_next(&w));) {
		assert_ptr_equal(t, &tasks[seen++]);
		if (seen % 3)
			assert_true(queue_remove(q, t));
	}
	queue_walk_end(&w);
	assert_int_equal(seen, COUNT_OF(tasks));
	assert_int_equal(queue_length(q), COUNT_OF(tasks) / 3);
	end_queue(q, f);
}

/* The order as a sentence, written once more and differently. */
static int by_rule(const void *pa, const void *pb)
{
	const struct task *a = *(struct task *const *)pa, *b = *(struct task *const *)pb;

	if (a->queue != b->queue)
		return a->queue == QUEUE_RECOVERY ? -1 : 1;
	if (a->queue == QUEUE_MAIN && a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	if (a->queued_ms != b->queued_ms)
		return a->queued_ms < b->queued_ms ? -1 : 1;
	return a->id < b->id ? -1 : 1;
}

static void check_same(const struct queue *q, struct task **model, size_t n)
{
	struct queue_walk w;

	qsort(model, n, sizeof *model, by_rule);
	assert_int_equal(queue_length(q), n);
	assert_ptr_equal(first_of(q), n ? model[0] : NULL);
	queue_walk_begin(&w, q, QUEUE_RECOVERY);
	for (size_t i = 0; i < n; i++)
		assert_ptr_equal(queue_walk_next(&w), model[i]);
	assert_null(queue_walk_next(&w));
	queue_walk_end(&w);
}

static void test_random_operations_against_a_sorted_array(void **state)
{
	enum { TASKS = 300, STEPS = 6000 };
	struct task *tasks = alloc_zero(TASKS * sizeof *tasks);
	struct task *model[TASKS];
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	size_t n = 0;

	(void)state;
	srand(20261120);
	for (uint32_t i = 0; i < TASKS; i++)
		tasks[i] = make(i + 1, QUEUE_MAIN, 0, 0);
	for (int step = 0; step < STEPS; step++) {
		uint32_t i = (uint32_t)rand() % TASKS;
		struct task *t = &tasks[i];
		size_t at = 0;

		while (at < n && model[at] != t)
			at++;
		assert_int_equal(queue_contains(q, t), at < n);
		if (at < n) {
			assert_true(queue_remove(q, t));
			model[at] = model[--n];
		} else {
			assert_false(queue_remove(q, t));
			*t = make(i + 1, rand() % 5 ? QUEUE_MAIN : QUEUE_RECOVERY, rand() % 7 - 3, rand() % 40);
			queue_push(q, t);
			model[n++] = t;
		}
		if (step % 50 == 0)
			check_same(q, model, n);
	}
	check_same(q, model, n);
	end_queue(q, f);
	free(tasks);
}

static void assert_past(const struct queue *q, uint64_t mark, struct task *const *expected)
{
	struct queue_walk w;

	queue_walk_begin_past(&w, q, QUEUE_MAIN, mark);
	for (; *expected; expected++)
		assert_ptr_equal(queue_walk_next(&w), *expected);
	assert_null(queue_walk_next(&w));
	queue_walk_end(&w);
}

/* Under that mark alone, and until an event changes it or it comes anew; also where the walk finds its place again. */
static void test_set_aside(void **state)
{
	struct task a = make(1, QUEUE_MAIN, 0, 1), b = make(2, QUEUE_MAIN, 0, 2), c = make(3, QUEUE_MAIN, 0, 3),
		    d = make(4, QUEUE_MAIN, 0, 4);
	struct task *all[] = { &a, &b, &c, &d };
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	struct queue_walk w;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(all); i++)
		queue_push(q, all[i]);
	queue_walk_begin_past(&w, q, QUEUE_MAIN, 7);
	for (struct task *t; (t = queue_walk_next(&w));)
		if (t != &c)
			queue_walk_set_aside(&w);
	queue_walk_end(&w);
	assert_past(q, 7, (struct task *[]){ &c, NULL });
	assert_past(q, 0, (struct task *[]){ &a, &b, &c, &d, NULL });
	assert_past(q, 8, (struct task *[]){ &a, &b, &c, &d, NULL });
	b.n_events++;
	assert_past(q, 7, (struct task *[]){ &b, &c, NULL });
	assert_true(queue_remove(q, &d));
	queue_push(q, &d);
	assert_past(q, 7, (struct task *[]){ &b, &c, &d, NULL });
	queue_walk_begin_past(&w, q, QUEUE_MAIN, 7);
	assert_ptr_equal(queue_walk_next(&w), &b);
	assert_true(queue_remove(q, &b) && queue_remove(q, &c));
	assert_ptr_equal(queue_walk_next(&w), &d);
	queue_walk_set_aside(&w);
	assert_null(queue_walk_next(&w));
	queue_walk_end(&w);
	assert_past(q, 7, (struct task *[]){ NULL });
	end_queue(q, f);
}

/* Tasks come in order of time, which degenerates a tree without balance into a list: 100,000 of them would take minutes. */
static void test_hundred_thousand_in_order(void **state)
{
	enum { TASKS = 100000 };
	struct task *tasks = alloc_zero(TASKS * sizeof *tasks);
	struct fair *f = new_fair();
	struct queue *q = queue_create(f);
	int64_t begin = clock_mono_ms();

	(void)state;
	for (uint32_t i = 0; i < TASKS; i++) {
		tasks[i] = make(i + 1, QUEUE_MAIN, 0, i);
		queue_push(q, &tasks[i]);
	}
	for (uint32_t i = 0; i < TASKS; i++) {
		assert_ptr_equal(first_of(q), &tasks[i]);
		assert_true(queue_remove(q, &tasks[i]));
	}
	print_message("100,000 pushes and pops in order: %lld ms\n", (long long)(clock_mono_ms() - begin));
	assert_true(clock_mono_ms() - begin < 20000);
	end_queue(q, f);
	free(tasks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_extreme_keys),
		cmocka_unit_test(test_walk_while_removing),
		cmocka_unit_test(test_random_operations_against_a_sorted_array),
		cmocka_unit_test(test_set_aside),
		cmocka_unit_test(test_hundred_thousand_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
