/* SPDX-License-Identifier: MIT
 * Plans: small problems whose best answer is known, what a plan never does, and that equal problems have equal plans.
 */
#include "map/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEAVY ((struct share_task){ 1, 1 })
#define GIB 1024

static struct plan_gpu gpus[PLAN_GPUS];
static struct plan_task tasks[PLAN_TASKS];
static struct plan p;

static void some_gpus(size_t n, enum share_mode first)
{
	p = (struct plan){ .gpus = gpus, .n_gpus = n, .tasks = tasks };
	for (size_t i = 0; i < n; i++)
		gpus[i] = (struct plan_gpu){ .total_mib = 40 * GIB, .free_mib = 40 * GIB, .first = first };
}

static struct plan_task *add(double left_s, uint64_t mib, unsigned n_gpus, struct share_task load)
{
	tasks[p.n] = (struct plan_task){ .id = TASK_ID(p.n + 1, -1), .left_s = left_s, .mib = mib, .gpus = n_gpus, .load = load,
					 .may = ((uint64_t)1 << p.n_gpus) - 1 };
	return &tasks[p.n++];
}

static const struct plan_task *planned(unsigned job)
{
	for (size_t i = 0; i < p.n; i++)
		if (tasks[i].id == TASK_ID(job, -1))
			return &tasks[i];
	fail();
	return NULL;
}

static void near(double a, double b)
{
	if (fabs(a - b) > 1e-3)
		fail_msg("%f, not %f", a, b);
}

/* 5 4 3 3 3 on two: the longest first, wherever there is room, gives 5 + 3 and 4 + 3 + 3 = 10; 5 + 4 is best. */
static void five_tasks_on_two_gpus(void **state)
{
	(void)state;
	static const double lengths[] = { 500, 400, 300, 300, 300 };
	some_gpus(2, SHARE_STREAMS);
	for (size_t i = 0; i < 5; i++)
		add(lengths[i], 30 * GIB, 1, HEAVY);
	near(plan_improve(&p, 2000), 900);
	assert_int_equal(planned(1)->on, planned(2)->on);
	assert_int_equal(planned(3)->on, planned(4)->on);
}

/* A wide task needs both GPUs; started first it ends with the others, started last they idle. */
static void the_wide_task_does_not_come_last(void **state)
{
	(void)state;
	some_gpus(4, SHARE_STREAMS);
	for (int i = 0; i < 4; i++)
		add(1000, 30 * GIB, 1, HEAVY);
	add(2000, 30 * GIB, 2, HEAVY);
	near(plan_improve(&p, 2000), 2000);
	near(planned(5)->start_s, 0);
}

static void those_who_fit_beside_each_other_do_not_wait(void **state)
{
	(void)state;
	some_gpus(1, SHARE_MPS);
	for (int i = 0; i < 3; i++)
		add(600, 9 * GIB, 1, (struct share_task){ 0.2, 0.1 });
	assert_true(plan_improve(&p, 200) < 700);
	for (unsigned job = 1; job <= 3; job++)
		near(planned(job)->start_s, 0);
}

static void a_task_alone_has_nobody_beside_it(void **state)
{
	(void)state;
	some_gpus(1, SHARE_MPS);
	add(600, 9 * GIB, 1, (struct share_task){ 0.2, 0.1 })->alone = true;
	add(600, 9 * GIB, 1, (struct share_task){ 0.2, 0.1 });
	near(plan_improve(&p, 200), 1200);
}

/* It runs on GPU 0 and holds half of it; what nobody accounts for stays taken as long as somebody is there. */
static void what_runs_is_waited_for(void **state)
{
	(void)state;
	some_gpus(1, SHARE_STREAMS);
	struct plan_task *runs = add(500, 20 * GIB, 1, HEAVY);
	runs->on = 1;
	p.n_running = 1;
	gpus[0].free_mib = 15 * GIB;
	gpus[0].mode = SHARE_STREAMS;
	add(100, 30 * GIB, 1, HEAVY);
	near(plan_improve(&p, 200), 600);
	near(planned(2)->start_s, 500);
	assert_int_equal(planned(1)->on, 1);
}

static void only_gpus_that_a_task_may_use(void **state)
{
	(void)state;
	some_gpus(3, SHARE_STREAMS);
	for (int i = 0; i < 6; i++)
		add(100, 30 * GIB, 1, HEAVY)->may = 4;
	near(plan_improve(&p, 500), 600);
	for (unsigned job = 1; job <= 6; job++)
		assert_int_equal(planned(job)->on, 4);
}

/* Four that fill the GPU, each for 600 s: all at once they are done after 4 x 600 / 0.92, one after the other after 2400, and
 * in the mean after 2.5 x 600. */
static void who_would_only_slow_those_there_is_held_back(void **state)
{
	(void)state;
	some_gpus(1, SHARE_STREAMS);
	p.mean = 0.2;
	for (int i = 0; i < 4; i++)
		add(600, 5 * GIB, 1, HEAVY);
	near(plan_improve(&p, 2000), 4 * 600 / 0.92);
	for (unsigned job = 1; job <= 4; job++) {
		near(planned(job)->start_s, 0);
		assert_int_equal(planned(job)->among, 0);
	}
	for (int i = 0; i < 4; i++)
		tasks[i].patient = true;
	near(plan_improve(&p, 2000), 2400);
	for (unsigned i = 0; i < 4; i++) {
		near(tasks[i].start_s, 600 * i);
		assert_true(!i || tasks[i].among == 1);
	}
}

static void nobody_is_held_back_where_all_gain(void **state)
{
	(void)state;
	some_gpus(1, SHARE_MPS);
	p.mean = 0.2;
	for (int i = 0; i < 4; i++)
		add(600, 5 * GIB, 1, (struct share_task){ 0.2, 0.1 })->patient = true;
	plan_improve(&p, 2000);
	for (unsigned job = 1; job <= 4; job++)
		near(planned(job)->start_s, 0);
}

/* Half of their work is to begin, which both do at the same time; then slices are shared, of which 8 % go to switching. */
static void tasks_begin_beside_each_other(void **state)
{
	(void)state;
	some_gpus(1, SHARE_STREAMS);
	add(100, 5 * GIB, 1, HEAVY)->begin_s = 50;
	add(100, 5 * GIB, 1, HEAVY)->begin_s = 50;
	near(plan_improve(&p, 200), 50 + 2 * 50 / 0.92);
	/* The second is begun while the first, which has begun, computes alone: none is slowed by the other's beginning. */
	some_gpus(1, SHARE_STREAMS);
	struct plan_task *runs = add(50, 5 * GIB, 1, HEAVY);
	runs->on = 1;
	p.n_running = 1;
	gpus[0].mode = SHARE_STREAMS;
	add(100, 5 * GIB, 1, HEAVY)->begin_s = 50;
	near(plan_improve(&p, 200), 100);
}

/* What its clock ends leaves then, however slow it was: the one that needs all memory starts at 600, not after 600 / 0.46. */
static void company_does_not_lengthen_what_a_clock_ends(void **state)
{
	(void)state;
	some_gpus(1, SHARE_STREAMS);
	for (int i = 0; i < 2; i++) {
		struct plan_task *runs = add(600, 5 * GIB, 1, HEAVY);
		runs->on = 1, runs->clock_s = 600;
	}
	p.n_running = 2;
	gpus[0].mode = SHARE_STREAMS;
	gpus[0].free_mib = 30 * GIB;
	add(100, 38 * GIB, 1, HEAVY);
	near(plan_improve(&p, 500), 600 + 0.54 * 600);	/* as which it counts, more than the last end at 700 */
	near(planned(3)->start_s, 600);
	/* Where its work is done first, its clock does not matter. */
	tasks[0].clock_s = tasks[1].clock_s = 2000;
	near(plan_improve(&p, 500), 1200 / 0.92 + 100);
}

/* Beside it the new one would be done at 624; but the other would have done 276 s of its 600. */
static void to_slow_what_a_clock_ends_is_a_cost(void **state)
{
	(void)state;
	some_gpus(1, SHARE_STREAMS);
	p.mean = 0.2;
	struct plan_task *runs = add(600, 5 * GIB, 1, HEAVY);
	runs->on = 1, runs->clock_s = 600;
	p.n_running = 1;
	gpus[0].mode = SHARE_STREAMS;
	add(300, 5 * GIB, 1, HEAVY)->patient = true;
	near(plan_improve(&p, 500), 900);
	near(planned(2)->start_s, 600);
}

static void those_who_are_alike_keep_their_turns(void **state)
{
	(void)state;
	some_gpus(2, SHARE_STREAMS);
	for (unsigned i = 0; i < 12; i++) {
		add(i % 3 ? 300 : 500, 30 * GIB, 1, HEAVY)->turn = i * 7 % 12;
		tasks[i].id = TASK_ID(1 + i * 7 % 12, -1);
	}
	plan_improve(&p, 500);
	for (unsigned i = 0; i < 12; i++)
		for (unsigned k = 0; k < 12; k++)
			assert_true(tasks[i].left_s != tasks[k].left_s || tasks[i].start_s >= tasks[k].start_s || tasks[i].turn < tasks[k].turn);
	for (unsigned i = 0; i < 12; i++)	/* which took nobody's number or place */
		assert_int_equal(planned(i + 1)->turn, i);
}

static void equal_problems_have_equal_plans(void **state)
{
	(void)state;
	struct plan_task first[PLAN_TASKS];
	double end_s[2];
	for (int k = 0; k < 2; k++) {
		some_gpus(4, SHARE_MPS);
		for (unsigned i = 0; i < 30; i++)
			add(100 + 37 * (i * i % 23), (2 + i * 7 % 19) * GIB, 1 + (i % 7 == 0), (struct share_task){ 0.9, 0.3 + 0.02 * i });
		end_s[k] = plan_improve(&p, 1000);
		if (!k)
			memcpy(first, tasks, sizeof first);
	}
	near(end_s[0], end_s[1]);
	for (unsigned i = 0; i < 30; i++)
		assert_true(first[i].id == tasks[i].id && first[i].start_s == tasks[i].start_s && first[i].on == tasks[i].on);
}

static void a_better_plan_is_never_given_up(void **state)
{
	(void)state;
	some_gpus(4, SHARE_MPS);
	for (unsigned i = 0; i < 40; i++)
		add(100 + 61 * (i * i % 29), (2 + i * 5 % 21) * GIB, 1 + (i % 9 == 0), (struct share_task){ 0.9, 0.6 });
	double before = plan_improve(&p, 100), after = 0;
	for (int k = 0; k < 5; k++)
		after = plan_improve(&p, 400);
	assert_true(after <= before * 1.01);
}

static unsigned dice;

static unsigned draw(unsigned below)
{
	dice = dice * 1664525 + 1013904223;
	return (dice >> 16) % below;
}

/* One or two run on two GPUs, and two wait, some of which can be held back. */
static void small_problem(void)
{
	some_gpus(2, draw(2) ? SHARE_MPS : SHARE_STREAMS);
	for (unsigned i = 0, n = 3 + draw(2); i < n; i++) {
		bool runs = i + 2 < n;
		struct plan_task *t = add(runs ? 50 + draw(400) : 200 + draw(900), (5 + draw(15)) * GIB, 1 + !draw(4),
					  (struct share_task){ 0.3 + 0.1 * draw(8), 0.1 + 0.1 * draw(8) });
		p.n_running += runs;
		t->on = !runs ? 0 : t->gpus == 2 ? 3 : 1 + draw(2);
		t->patient = !runs && draw(2);
		t->begin_s = runs ? 0 : draw(2) * 10;
		for (unsigned g = 0; g < 2 && runs; g++)
			if (t->on >> g & 1) {
				gpus[g].free_mib -= t->mib;
				gpus[g].mode = gpus[g].first;
			}
	}
}

/* The end of the best of all plans for those who wait. */
static double best_of_all(const struct plan_task waiting[2])
{
	double best_s = INFINITY;
	for (unsigned way = 0; way < 2 * 4 * 4 * 64; way++) {
		for (unsigned i = 0; i < 2; i++) {
			struct plan_task *t = &tasks[p.n_running + i];
			*t = waiting[(i + way) % 2];
			t->on = t->gpus == 2 ? 3 : 1 + (way >> (1 + i) & 1);
			t->keeps = way >> (3 + i) & 1;
			t->among = t->patient ? way >> (5 + 3 * i) & 7 : 0;
		}
		best_s = fmin(best_s, plan_improve(&p, 0));
	}
	return best_s;
}

/* A search comes upon the same plans over and over, and remembers what they cost. */
static void the_best_of_a_small_problem_is_found(void **state)
{
	(void)state;
	dice = 8;	/* among these problems each part of what a plan is known by counts */
	for (int i = 0; i < 60; i++) {
		small_problem();
		struct plan_task waiting[2] = { tasks[p.n_running], tasks[p.n_running + 1] };
		double found_s = plan_improve(&p, 4000);
		near(found_s, best_of_all(waiting));
	}
}

/* Every GPU has 64 tasks: one step costs a thousand times what one of a small plan does. A turn of the loop is waiting. */
static void a_plan_that_is_slow_to_play_is_tried_less_often(void **state)
{
	(void)state;
	some_gpus(PLAN_GPUS - 1, SHARE_STREAMS);
	for (int i = 0; i < 64; i++)
		add(100 + i * 37 % 991, 512, PLAN_GPUS - 1, HEAVY);
	assert_true(plan_improve(&p, 2000000000) < INFINITY);
}

int main(void)
{
	const struct CMUnitTest tests_here[] = {
		cmocka_unit_test(five_tasks_on_two_gpus),
		cmocka_unit_test(the_wide_task_does_not_come_last),
		cmocka_unit_test(those_who_fit_beside_each_other_do_not_wait),
		cmocka_unit_test(a_task_alone_has_nobody_beside_it),
		cmocka_unit_test(what_runs_is_waited_for),
		cmocka_unit_test(only_gpus_that_a_task_may_use),
		cmocka_unit_test(who_would_only_slow_those_there_is_held_back),
		cmocka_unit_test(nobody_is_held_back_where_all_gain),
		cmocka_unit_test(tasks_begin_beside_each_other),
		cmocka_unit_test(company_does_not_lengthen_what_a_clock_ends),
		cmocka_unit_test(to_slow_what_a_clock_ends_is_a_cost),
		cmocka_unit_test(those_who_are_alike_keep_their_turns),
		cmocka_unit_test(equal_problems_have_equal_plans),
		cmocka_unit_test(a_better_plan_is_never_given_up),
		cmocka_unit_test(the_best_of_a_small_problem_is_found),
		cmocka_unit_test(a_plan_that_is_slow_to_play_is_tried_less_often),
	};
	return cmocka_run_group_tests(tests_here, NULL, NULL);
}
