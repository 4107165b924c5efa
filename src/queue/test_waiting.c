/* SPDX-License-Identifier: MIT
 * Who waits for whom: every kind against every state, several dependencies, groups that share a spec, targets that come back,
 * and the cost: an array of a thousand on which nine thousand tasks depend; random changes against the rule written once more.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "queue/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define TARGETS 1200
#define ID(n) TASK_ID((n) + 1, -1)	/* there is no job 0 */

/* The state of the nth job; TASK_STATE_COUNT: there is no such job. */
struct table { enum task_state states[TARGETS]; unsigned n_looked_up; };

static bool state_from_table(task_id id, enum task_state *state, void *ctx)
{
	struct table *t = ctx;
	t->n_looked_up++;
	*state = t->states[TASK_JOB(id) - 1];
	return *state != TASK_STATE_COUNT;
}

static struct task waiter(uint32_t job, size_t n_deps)
{
	struct spec *s = spec_create();
	s->deps = alloc_zero((n_deps + 1) * sizeof *s->deps);
	s->n_deps = n_deps;
	return (struct task){ .id = TASK_ID(job, -1), .spec = s, .waiting_for_deps = true };
}

static struct task waiter_for(uint32_t job, enum dependency_kind kind, uint32_t target)
{
	struct task t = waiter(job, 1);
	t.spec->deps[0] = (struct dependency){ kind, ID(target) };
	return t;
}

static size_t tell(struct waiting *w, struct table *t, uint32_t job, enum task_state state, task_id *first)
{
	task_id *ready;
	t->states[job] = state;
	size_t n = waiting_told(w, ID(job), &state, &ready);
	if (first)
		*first = n ? ready[0] : 0;
	free(ready);
	return n;
}

static int met(enum dependency_kind kind, enum task_state state)
{
	struct table table = { .states = { state } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t = waiter_for(5, kind, 0);
	int is = waiting_add(w, &t);
	waiting_destroy(w);
	spec_unref(t.spec);
	return is;
}

static void every_kind_in_every_state(void **unused)
{
	(void)unused;
	for (enum task_state s = 0; s < TASK_STATE_COUNT; s++) {
		bool ended = task_state_terminal(s), ok = s == TASK_COMPLETED;
		assert_int_equal(met(DEP_AFTERANY, s), ended ? 1 : 0);
		assert_int_equal(met(DEP_AFTEROK, s), !ended ? 0 : ok ? 1 : -1);
		assert_int_equal(met(DEP_AFTERNOTOK, s), !ended ? 0 : ok ? -1 : 1);
		assert_int_equal(met(DEP_AFTERCORR, s), met(DEP_AFTEROK, s));
		assert_int_equal(met(DEP_AFTER, s), ended || s == TASK_RUNNING ? 1 : 0);
	}
	assert_int_equal(met(DEP_AFTERANY, TASK_STATE_COUNT), -1);
}

static bool element_state(task_id id, enum task_state *state, void *ctx)
{
	*state = ((enum task_state *)ctx)[TASK_INDEX(id)];
	return TASK_JOB(id) == 1 && TASK_INDEX(id) >= 0;
}

/* Elements of one array share a spec, and wait each for its own element of the other. */
static void elements_wait_for_their_own(void **unused)
{
	enum task_state states[3] = { TASK_RUNNING, TASK_COMPLETED, TASK_FAILED };
	struct waiting *w = waiting_create(element_state, states);
	struct task first = waiter(5, 1), tasks[3];
	task_id *ready;
	(void)unused;
	first.spec->deps[0] = (struct dependency){ DEP_AFTERCORR, TASK_ID(1, -1) };
	for (int i = 0; i < 3; i++) {
		tasks[i] = first;
		tasks[i].id = TASK_ID(5, i);
		assert_int_equal(waiting_add(w, &tasks[i]), i == 0 ? WAITING_OPEN : i == 1 ? WAITING_MET : WAITING_NEVER);
	}
	states[0] = TASK_COMPLETED;
	assert_int_equal(waiting_told(w, TASK_ID(1, 0), &states[0], &ready), 1);
	assert_true(ready[0] == TASK_ID(5, 0));
	free(ready);
	assert_int_equal(waiting_is(w, &tasks[0]), WAITING_MET);
	assert_int_equal(waiting_is(w, &tasks[2]), WAITING_NEVER);
	for (int i = 0; i < 3; i++)
		waiting_remove(w, &tasks[i]);
	waiting_destroy(w);
	spec_unref(first.spec);
}

static void a_start_is_told_where_it_is_waited_for(void **unused)
{
	struct table table = { .states = { TASK_PENDING, TASK_PENDING } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task after = waiter_for(5, DEP_AFTER, 0), any = waiter_for(6, DEP_AFTERANY, 1);
	task_id first;
	(void)unused;
	assert_int_equal(waiting_add(w, &after), WAITING_OPEN);
	assert_int_equal(waiting_add(w, &any), WAITING_OPEN);
	assert_true(waiting_for_start(w, ID(0)));
	assert_false(waiting_for_start(w, ID(1)));
	assert_int_equal(tell(w, &table, 0, TASK_RUNNING, &first), 1);
	assert_true(first == after.id);
	waiting_remove(w, &after);
	waiting_destroy(w);
	spec_unref(after.spec);
	spec_unref(any.spec);
}

static void several_are_met_when_the_last_is(void **unused)
{
	struct table table = { .states = { TASK_COMPLETED, TASK_RUNNING, TASK_RUNNING } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t = waiter(9, 3);
	bool never;
	task_id ready;
	(void)unused;
	for (uint32_t i = 0; i < 3; i++)
		t.spec->deps[i] = (struct dependency){ DEP_AFTEROK, ID(i) };
	assert_int_equal(waiting_add(w, &t), WAITING_OPEN);
	assert_ptr_equal(waiting_for(w, &t, &never), &t.spec->deps[1]);
	assert_false(never);
	assert_int_equal(tell(w, &table, 1, TASK_COMPLETED, NULL), 0);
	assert_ptr_equal(waiting_for(w, &t, &never), &t.spec->deps[2]);
	assert_int_equal(tell(w, &table, 2, TASK_FAILED, NULL), 0);
	assert_ptr_equal(waiting_for(w, &t, &never), &t.spec->deps[2]);
	assert_true(never);
	/* It was queued again, so it may still be met; so may one that was met become open. */
	assert_int_equal(tell(w, &table, 2, TASK_PENDING, NULL), 0);
	assert_int_equal(tell(w, &table, 0, TASK_PENDING, NULL), 0);
	assert_int_equal(tell(w, &table, 2, TASK_COMPLETED, NULL), 0);
	assert_int_equal(tell(w, &table, 0, TASK_COMPLETED, &ready), 1);
	assert_int_equal(ready, t.id);
	assert_null(waiting_for(w, &t, &never));
	waiting_remove(w, &t);
	assert_int_equal(tell(w, &table, 0, TASK_COMPLETED, NULL), 0);
	waiting_destroy(w);
	spec_unref(t.spec);
}

static void what_is_waited_for_is_looked_up_once(void **unused)
{
	enum { N = 100 };
	struct table table = { .states = { TASK_RUNNING, TASK_COMPLETED } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task one = waiter_for(5, DEP_AFTERANY, 0), other = waiter_for(6, DEP_AFTERNOTOK, 0),
		    done = waiter_for(7, DEP_AFTEROK, 1);
	task_id *ready;
	(void)unused;
	for (int i = 0; i < N; i++) {	/* elements share a spec */
		one.id = TASK_ID(5, N - i);
		assert_int_equal(waiting_add(w, &one), WAITING_OPEN);
		assert_int_equal(waiting_add(w, &one), WAITING_OPEN);	/* twice is once */
	}
	assert_int_equal(waiting_add(w, &other), WAITING_OPEN);
	assert_int_equal(table.n_looked_up, 1);
	for (int i = 0; i < N; i++) {	/* and those whose dependencies are met go on at once */
		done.id = TASK_ID(7, i);
		assert_int_equal(waiting_add(w, &done), WAITING_MET);
		waiting_remove(w, &done);
	}
	assert_int_equal(table.n_looked_up, 2);
	one.id = TASK_ID(5, 50);
	waiting_remove(w, &one);	/* cancelled */
	table.states[0] = TASK_CANCELLED;
	assert_int_equal(waiting_told(w, ID(0), NULL, &ready), N);
	for (int i = 0; i < N - 1; i++)
		assert_int_equal(ready[i], TASK_ID(5, i < 49 ? i + 1 : i + 2));
	assert_int_equal(ready[N - 1], other.id);
	assert_int_equal(table.n_looked_up, 3);
	free(ready);
	waiting_destroy(w);
	spec_unref(one.spec);
	spec_unref(other.spec);
	spec_unref(done.spec);
}

/* Nine thousand that each wait for each of a thousand: nine million edges, and each end costs its own. */
static void a_thousand_with_nine_thousand_behind_them(void **unused)
{
	enum { FIRST = 1000, BEHIND = 9000 };
	struct table *table = alloc_zero(sizeof *table);
	struct waiting *w = waiting_create(state_from_table, table);
	struct task *t = alloc_zero(BEHIND * sizeof *t);
	size_t n = 0;
	(void)unused;
	for (uint32_t i = 0; i < FIRST; i++)
		table->states[i] = TASK_RUNNING;
	for (uint32_t i = 0; i < BEHIND; i++) {
		t[i] = waiter_for(2000 + i, DEP_AFTERANY, i % FIRST);
		assert_int_equal(waiting_add(w, &t[i]), WAITING_OPEN);
	}
	assert_int_equal(table->n_looked_up, FIRST);
	for (uint32_t i = 0; i < FIRST; i++)
		n += tell(w, table, i, TASK_CANCELLED, NULL);
	assert_int_equal(n, BEHIND);
	assert_int_equal(table->n_looked_up, FIRST);
	for (uint32_t i = 0; i < BEHIND; i++) {
		waiting_remove(w, &t[i]);
		spec_unref(t[i].spec);
	}
	waiting_destroy(w);
	free(t);
	free(table);
}

static clock_t time_told(size_t n_deps)
{
	enum { N = 5000 };
	struct table table = { .states = { TASK_RUNNING } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t = waiter(5, n_deps);
	for (size_t i = 0; i < n_deps; i++)
		t.spec->deps[i] = (struct dependency){ DEP_AFTERANY, ID(0) };
	for (int i = 0; i < N; i++) {
		t.id = TASK_ID(5, i);
		waiting_add(w, &t);
	}
	clock_t began = clock();
	assert_int_equal(tell(w, &table, 0, TASK_COMPLETED, NULL), N);
	clock_t took = clock() - began;
	waiting_destroy(w);
	spec_unref(t.spec);
	return took;
}

/* An array that names one task five hundred times was listed, and sorted, as often. */
static void who_names_one_task_often_is_told_once(void **unused)
{
	(void)unused;
	assert_true(time_told(500) < 50 * time_told(1) + CLOCKS_PER_SEC / 100);
}

/* After every turn it is asked for each client that waits, along chains: at most one look, however much is met already. */
static void what_keeps_a_task_is_not_searched_for_each_time(void **unused)
{
	enum { DEPS = 1000, ASKED = 20000 };
	struct table table = { .states = { TASK_COMPLETED, TASK_RUNNING } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t[] = { waiter_for(5, DEP_AFTEROK, 1), waiter(6, DEPS) };
	clock_t took[2];
	bool never;
	(void)unused;
	for (size_t i = 0; i < DEPS; i++)
		t[1].spec->deps[i] = (struct dependency){ DEP_AFTEROK, ID(i == DEPS - 1) };
	for (size_t k = 0; k < 2; k++) {
		waiting_add(w, &t[k]);
		clock_t began = clock();
		for (int i = 0; i < ASKED; i++)
			assert_ptr_equal(waiting_for(w, &t[k], &never), &t[k].spec->deps[t[k].spec->n_deps - 1]);
		took[k] = clock() - began;
	}
	assert_true(took[1] < 20 * took[0] + CLOCKS_PER_SEC / 100);
	tell(w, &table, 0, TASK_RUNNING, NULL);	/* it runs again: now it is the first that keeps it */
	assert_ptr_equal(waiting_for(w, &t[1], &never), &t[1].spec->deps[0]);
	tell(w, &table, 1, TASK_FAILED, NULL);
	assert_ptr_equal(waiting_for(w, &t[1], &never), &t[1].spec->deps[DEPS - 1]);
	assert_true(never);
	waiting_destroy(w);
	spec_unref(t[0].spec);
	spec_unref(t[1].spec);
}

/* The rule, written once more: nothing is counted, all is asked. */
static int by_rule(const struct task *t, const struct table *table)
{
	int all = WAITING_MET;
	for (size_t i = 0; i < t->spec->n_deps; i++) {
		const struct dependency *d = &t->spec->deps[i];
		enum task_state s = table->states[TASK_JOB(d->task) - 1];
		bool is_open = s != TASK_STATE_COUNT && !task_state_terminal(s);
		bool ok = s != TASK_STATE_COUNT && (d->kind == DEP_AFTERANY || (d->kind == DEP_AFTEROK) == (s == TASK_COMPLETED));
		if (!is_open && !ok)
			return WAITING_NEVER;
		if (is_open)
			all = WAITING_OPEN;
	}
	return all;
}

static void check_rule(struct waiting *w, const struct task *t, const struct table *table)
{
	bool never;
	const struct dependency *d = waiting_for(w, t, &never);
	int is = by_rule(t, table);
	assert_int_equal(never, is == WAITING_NEVER);
	assert_int_equal(d == NULL, is == WAITING_MET);
	for (size_t i = 0; d && &t->spec->deps[i] < d; i++) {
		struct task before = { .spec = &(struct spec){ .deps = &t->spec->deps[i], .n_deps = 1 } };
		assert_int_not_equal(by_rule(&before, table), is);
	}
}

static void random_changes_follow_the_rule(void **unused)
{
	enum { JOBS = 12, TASKS = 40, STEPS = 20000 };
	struct table table = { .n_looked_up = 0 };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t[TASKS];
	bool waits[TASKS] = { false };
	(void)unused;
	srand(20261122);
	for (uint32_t i = 0; i < TASKS; i++) {
		t[i] = waiter(100 + i, (size_t)(1 + rand() % 4));
		for (size_t k = 0; k < t[i].spec->n_deps; k++)
			t[i].spec->deps[k] = (struct dependency){ (enum dependency_kind)(rand() % 3), ID(rand() % JOBS) };
	}
	for (int step = 0; step < STEPS; step++) {
		int i = rand() % TASKS;
		if (rand() % 2) {
			size_t expected = 0;
			uint32_t job = (uint32_t)(rand() % JOBS);
			enum task_state s = (enum task_state)(rand() % TASK_STATE_COUNT);
			table.states[job] = s;
			for (int k = 0; k < TASKS; k++)
				for (size_t d = 0; waits[k] && by_rule(&t[k], &table) == WAITING_MET && d < t[k].spec->n_deps; d++)
					if (t[k].spec->deps[d].task == ID(job)) {
						expected++;
						break;
					}
			assert_int_equal(tell(w, &table, job, s, NULL), expected);
		} else if (waits[i]) {
			waiting_remove(w, &t[i]);
			waits[i] = false;
		} else {
			assert_int_equal(waiting_add(w, &t[i]), by_rule(&t[i], &table));
			waits[i] = true;
		}
		if (waits[i])
			check_rule(w, &t[i], &table);
	}
	waiting_destroy(w);
	for (int i = 0; i < TASKS; i++)
		spec_unref(t[i].spec);
}

static void who_is_named_by_one_that_waits(void **state)
{
	(void)state;
	struct table table = { .states = { TASK_FAILED, TASK_FAILED } };
	struct waiting *w = waiting_create(state_from_table, &table);
	struct task t = waiter_for(5, DEP_AFTEROK, 0);
	waiting_add(w, &t);
	assert_true(waiting_names(w, ID(0)));
	assert_true(waiting_names(w, TASK_ID(TASK_JOB(ID(0)), 3)));	/* an element of what is waited for as a whole */
	assert_false(waiting_names(w, ID(1)));
	waiting_remove(w, &t);
	assert_false(waiting_names(w, ID(0)));
	waiting_destroy(w);
	spec_unref(t.spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_in_every_state),
		cmocka_unit_test(elements_wait_for_their_own),
		cmocka_unit_test(a_start_is_told_where_it_is_waited_for), cmocka_unit_test(several_are_met_when_the_last_is),
		cmocka_unit_test(what_is_waited_for_is_looked_up_once),
		cmocka_unit_test(a_thousand_with_nine_thousand_behind_them),
		cmocka_unit_test(who_is_named_by_one_that_waits),
		cmocka_unit_test(who_names_one_task_often_is_told_once),
		cmocka_unit_test(what_keeps_a_task_is_not_searched_for_each_time), cmocka_unit_test(random_changes_follow_the_rule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
