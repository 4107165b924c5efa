/* SPDX-License-Identifier: MIT
 * Tasks that wait for others or for a time: arrays and their limits, dependencies, --begin.
 */
#include "core/test_world.h"

static void arrays_keep_to_their_limit(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	struct world *w = new_world(4, &config);
	struct spec *s = array_of(spec_of(1000, 1), 6);
	for (uint32_t i = 0; i < 6; i++)
		s->array[i] = 5 - i;
	s->array_limit = 2;
	submit(w, s);
	task_id *ids;
	assert_int_equal(core_job_tasks(w->c, 1, &ids), 6);
	free(ids);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 2);
	core_cancel(w->c, TASK_ID(1, 0), 1000, w->now, NULL);	/* parked or queued: out at once */
	for (int i = 0; i < 20 && w->n_ended < 6; i++) {
		assert_true(core_count(w->c, TASK_RUNNING) <= 2);
		for (uint32_t k = 0; k < 6; k++)
			if (core_task(w->c, TASK_ID(1, k)) && state(w, TASK_ID(1, k)) == TASK_RUNNING) {
				exits(w, TASK_ID(1, k), 0, SCAN_NOTHING);
				break;
			}
		pass(w, 1);
	}
	assert_int_equal(w->n_ended, 6);
	end_world(w);
}

static void limit_array(struct world *w, uint32_t n, uint32_t limit)
{
	for (uint32_t i = 0; i < n; i++) {
		struct event ev = { .u.updated = { .set_array_limit = true, .array_limit = limit } };
		if (core_task(w->c, TASK_ID(1, i)))
			assert_int_equal(core_update(w->c, TASK_ID(1, i), &ev, w->now, NULL), 0);
		assert_int_equal(core_check(w->c, NULL), 0);
	}
	pass(w, 1);
}

static void one_element_ends(struct world *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (core_task(w->c, TASK_ID(1, i)) && state(w, TASK_ID(1, i)) == TASK_RUNNING) {
			exits(w, TASK_ID(1, i), 0, SCAN_NOTHING);
			break;
		}
	pass(w, 1);
	pass(w, 1);
}

/* More start at once; with fewer, who runs goes on, and nobody starts until that many have ended; with none, all that find
 * room. */
static void an_arrays_limit_is_changed(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	struct world *w = new_world(4, &config);
	struct spec *s = array_of(spec_of(1000, 1), 9);
	s->array_limit = 2;
	s->exclusive = true;
	submit(w, s);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 2);
	limit_array(w, 9, 3);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 3);
	assert_string_equal(reason_of(w, TASK_ID(1, 8)), "ArrayLimit");
	limit_array(w, 9, 1);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 3);
	one_element_ends(w, 9);
	one_element_ends(w, 9);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	one_element_ends(w, 9);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	limit_array(w, 9, 0);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 4);
	assert_string_not_equal(reason_of(w, TASK_ID(1, 8)), "ArrayLimit");
	limit_array(w, 9, 2);
	one_element_ends(w, 9);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 3);
	end_world(w);
}

/* Also behind an element that had ended when it was changed, and came back. */
static void a_changed_limit_is_there_after_a_restart(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	struct spec *s = array_of(spec_of(1000, 1), 6);
	s->array_limit = 1;
	s->exclusive = true;
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms },
		{ .kind = EV_UPDATED, .t_ms = w->now.wall_ms, .u.updated = { .set_array_limit = true, .array_limit = 3 } },
	};
	for (uint32_t i = 0; i < 6; i++)
		restore(w, TASK_ID(1, i), i ? spec_ref(s) : s, log, i ? 2 : 1);
	pass(w, 1);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 3);
	end_world(w);
}

static void only_arrays_have_a_limit(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct event ev = { .u.updated = { .set_array_limit = true, .array_limit = 2 } };
	struct error err = ERROR_INIT;
	task_id one = submit(w, spec_of(1000, 1));
	assert_int_equal(core_update(w->c, one, &ev, w->now, &err), -1);
	assert_non_null(strstr(err.text, "is no array"));
	end_world(w);
}

static void dependencies_open_and_never_open(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(1000, 1));
	task_id b = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a));
	task_id c = submit(w, starts_after(spec_of(1000, 1), DEP_AFTERNOTOK, a));
	assert_int_equal(state(w, b), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_PENDING);
	assert_string_equal(reason_of(w, c), "DependencyNeverSatisfied");
	scoped_json *o = core_task_json(w->c, core_task(w->c, c), w->now, NULL);
	assert_non_null(strstr(json_string_value(json_object_get(o, "reason_text")), "afternotok:1 "));
	task_id d = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, c));
	assert_true(core_waits_in_vain(w->c, core_task(w->c, c)));
	assert_true(core_waits_in_vain(w->c, core_task(w->c, d)));	/* for one that never runs */
	end_world(w);
}

/* By the wall clock, after its dependencies, and again after a restart; a cancel takes it out. */
static void a_task_begins_at_its_time(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *waits = spec_of(1000, 1), *gone = spec_of(1000, 1), *behind = spec_of(1000, 1);
	waits->begin_s = gone->begin_s = behind->begin_s = w->now.wall_ms / 1000 + 100;
	task_id a = submit(w, waits), b = submit(w, gone), d = submit(w, starts_after(behind, DEP_AFTERANY, a));
	pass(w, 50);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_string_equal(reason_of(w, a), "BeginTime");
	scoped_json *o = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	assert_true(json_is_string(json_object_get(o, "begin_time")));
	assert_int_equal(core_cancel(w->c, b, 0, w->now, NULL), 0);
	pass(w, 51);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, d), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, d), TASK_RUNNING);
	end_world(w);
}

static int begins_at(struct world *w, task_id id, int64_t begin_s)
{
	struct event ev = { .u.updated = { .set_begin = true, .begin_s = begin_s } };
	int rc = core_update(w->c, id, &ev, w->now, NULL);
	assert_int_equal(core_check(w->c, NULL), 0);
	return rc;
}

/* Sooner, later, at once, and of one that waited for nothing; not of one that runs, nor does it open what waits for others. */
static void a_tasks_time_is_changed(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *later = spec_of(1000, 1), *behind = spec_of(1000, 1);
	const int64_t now_s = w->now.wall_ms / 1000;
	later->begin_s = behind->begin_s = now_s + 1000;
	task_id a = submit(w, later), b = submit(w, starts_after(behind, DEP_AFTEROK, a));
	assert_int_equal(begins_at(w, a, now_s + 50), 0);
	pass(w, 40);
	assert_string_equal(reason_of(w, a), "BeginTime");
	assert_int_equal(begins_at(w, a, now_s + 100), 0);
	pass(w, 40);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_int_equal(begins_at(w, a, 0), 0);
	assert_int_equal(begins_at(w, b, 0), 0);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(begins_at(w, a, now_s + 1000), -1);
	assert_string_equal(reason_of(w, b), "Dependency");
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	struct spec *alone = spec_of(1000, 1);
	alone->exclusive = true;
	task_id c = submit(w, alone);
	pass(w, 1);
	assert_int_equal(begins_at(w, c, w->now.wall_ms / 1000 + 30), 0);
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 10);
	assert_string_equal(reason_of(w, c), "BeginTime");
	pass(w, 30);
	assert_int_equal(state(w, c), TASK_RUNNING);
	end_world(w);
}

static struct spec *retried(unsigned retries)
{
	struct spec *s = spec_of(30000, 1);	/* one of them on a GPU */
	s->retries = retries;
	return s;
}

/* After its delay, behind who came meanwhile, and whatever became of those it depended on; then it is over. */
static void a_task_that_failed_runs_again(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id first = submit(w, spec_of(1000, 1));
	exits(w, first, 0, SCAN_NOTHING);
	task_id a = submit(w, starts_after(retried(1), DEP_AFTEROK, first));
	assert_int_equal(state(w, a), TASK_RUNNING);
	pass(w, 5);
	task_id b = submit(w, spec_of(30000, 1)), c = submit(w, starts_after(spec_of(1000, 1), DEP_AFTERNOTOK, a));
	exits(w, a, 1, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_int_equal(state(w, c), TASK_PENDING);	/* it is not over */
	assert_string_equal(reason_of(w, a), "BeginTime");
	scoped_json *o = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	assert_non_null(strstr(json_string_value(json_object_get(o, "reason_text")), "retry 1 of 1"));
	task_id d = submit(w, spec_of(30000, 1));
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, d), TASK_RUNNING);
	exits(w, d, 0, SCAN_NOTHING);
	pass(w, 6);
	assert_int_equal(state(w, a), TASK_PENDING);
	pass(w, 4);
	assert_int_equal(state(w, a), TASK_RUNNING);
	exits(w, a, 1, SCAN_NOTHING);
	assert_null(core_task(w->c, a));
	pass(w, 1);
	assert_int_equal(state(w, c), TASK_RUNNING);
	end_world(w);
}

/* Cancelled, held and released, begun at once, and with a clock that was set meanwhile. */
static void a_delay_before_a_retry_is_no_promise(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	task_id gone = submit(w, retried(3)), held = submit(w, retried(3)), hurried = submit(w, retried(3)), a = submit(w, retried(3));
	const task_id all[] = { gone, held, hurried, a };
	for (size_t i = 0; i < COUNT_OF(all); i++)
		exits(w, all[i], 1, SCAN_NOTHING);
	assert_int_equal(core_cancel(w->c, gone, 0, w->now, NULL), 0);
	assert_null(core_task(w->c, gone));
	assert_int_equal(core_hold(w->c, held, 0, w->now, NULL), 0);
	assert_int_equal(begins_at(w, hurried, 0), 0);
	pass(w, 1);
	assert_int_equal(state(w, hurried), TASK_RUNNING);
	w->now.wall_ms -= 3600000;
	core_clock_set(w->c, -3600000, w->now);
	pass(w, 5);
	assert_int_equal(state(w, a), TASK_PENDING);
	pass(w, 6);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, held), TASK_HELD);
	assert_int_equal(core_release(w->c, held, 0, w->now, NULL), 0);
	pass(w, 1);
	assert_int_equal(state(w, held), TASK_RUNNING);
	end_world(w);
}

/* What a person says in the delay is a time of the clock, which stays when that is set, and when it is to wait for another,
 * too; the delay of another moves along. */
static void a_time_that_is_said_in_a_delay_is_one_of_the_clock(void **unused)
{
	(void)unused;
	for (int by_s = -3600; by_s <= 3600; by_s += 7200) {
		struct world *w = new_world(4, NULL);
		task_id said = submit(w, retried(1)), after = submit(w, retried(1)), a = submit(w, retried(1));
		task_id other = submit(w, spec_of(1000, 1));
		const int64_t begin_s = w->now.wall_ms / 1000 + 3700;
		exits(w, said, 1, SCAN_NOTHING);
		exits(w, after, 1, SCAN_NOTHING);
		exits(w, a, 1, SCAN_NOTHING);
		assert_int_equal(begins_at(w, said, begin_s), 0);
		assert_int_equal(begins_at(w, after, begin_s), 0);
		struct dependency ends = { DEP_AFTERANY, other };
		struct event ev = { .u.updated = { .set_deps = true, .deps = &ends, .n_deps = 1 } };
		assert_int_equal(core_update(w->c, after, &ev, w->now, NULL), 0);
		exits(w, other, 0, SCAN_NOTHING);
		pass(w, 1);
		w->now.wall_ms += by_s * 1000;
		core_clock_set(w->c, by_s * 1000, w->now);
		assert_int_equal(core_task(w->c, said)->begin_s, begin_s);
		assert_int_equal(core_task(w->c, after)->begin_s, begin_s);
		pass(w, 12);
		assert_int_equal(state(w, a), TASK_RUNNING);
		assert_int_equal(state(w, said), TASK_PENDING);
		pass(w, by_s < 0 ? 7270 : 70);
		assert_int_equal(state(w, said), TASK_PENDING);
		pass(w, 30);
		assert_int_equal(state(w, said), TASK_RUNNING);
		assert_int_equal(state(w, after), TASK_RUNNING);
		end_world(w);
	}
}

/* Of so many elements; held where it waits for nothing else. */
static struct spec *array_after(uint32_t n, task_id other, enum dependency_kind kind)
{
	struct spec *s = array_of(spec_of(1000, 1), n);
	s->hold = !other;
	return other ? starts_after(s, kind, other) : s;
}

/* That the elements of an array wait is looked up for all of them at once, and when the last of the other array ends. */
static void an_array_after_an_array_is_no_square(void **unused)
{
	enum { N = 100 };
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, array_after(N, 0, DEP_AFTERANY)), b = submit(w, array_after(N, a, DEP_AFTERANY));
	task_id c = submit(w, array_after(1, TASK_ID(TASK_JOB(a), 7), DEP_AFTERNOTOK));
	assert_true(w->n_looked_up <= 2);
	w->n_looked_up = 0;
	for (int i = 0; i < N; i++) {
		assert_true(core_job_state(w->c, TASK_JOB(a), &(enum task_state){ 0 }));
		assert_true(core_task(w->c, TASK_ID(TASK_JOB(b), i))->waiting_for_deps);
		assert_int_equal(core_task(w->c, TASK_ID(TASK_JOB(c), 0))->waiting_for_deps, i <= 7);
		assert_int_equal(core_cancel(w->c, TASK_ID(TASK_JOB(a), i), 0, w->now, NULL), 0);
	}
	assert_false(core_job_state(w->c, TASK_JOB(a), &(enum task_state){ 0 }));
	assert_int_equal(w->n_looked_up, 1);	/* for all of b; what c waits for ended here */
	for (int i = 0; i < N; i++)
		assert_false(core_task(w->c, TASK_ID(TASK_JOB(b), i))->waiting_for_deps);
	end_world(w);
}

static struct spec *to_be_killed(struct spec *s, int yes)
{
	s->kill_on_invalid_dep = yes;
	return s;
}

/* By what is said of the task, else by the setting; who waits in vain behind one that stays, stays. */
static void who_waits_in_vain_is_cancelled_where_that_is_said(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	struct world *w = new_world(2, &config);
	task_id a = submit(w, spec_of(1000, 1)), unsaid = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a)),
		no = submit(w, to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTEROK, a), -1)),
		yes = submit(w, to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTEROK, a), 1)),
		behind = submit(w, to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTEROK, no), 1)),
		held = submit(w, to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTEROK, a), 1)),
		any = submit(w, starts_after(spec_of(1000, 1), DEP_AFTERANY, yes));
	assert_int_equal(core_hold(w->c, held, 1000, w->now, NULL), 0);
	exits(w, a, 1, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, unsaid), TASK_PENDING);
	assert_int_equal(state(w, no), TASK_PENDING);
	assert_int_equal(state(w, yes), TASK_CANCELLED);
	assert_int_equal(state(w, behind), TASK_PENDING);
	assert_int_equal(state(w, held), TASK_CANCELLED);
	assert_int_equal(state(w, any), TASK_RUNNING);
	config.kill_invalid_dep = true;
	core_reconfigure(w->c, &config);
	pass(w, 1);
	assert_int_equal(state(w, unsaid), TASK_CANCELLED);
	assert_int_equal(state(w, no), TASK_PENDING);
	end_world(w);
}

/* In one turn, and in no call deeper than for one. */
static void a_long_chain_that_waits_in_vain_is_cancelled(void **unused)
{
	(void)unused;
	enum { LONG = 3000 };
	struct core_config config = plain_config();
	config.kill_invalid_dep = true;
	struct world *w = new_world(1, &config);
	task_id first = submit(w, spec_of(1000, 1)), id = first;
	for (int i = 0; i < LONG; i++) {
		uint32_t job = ++w->next_job;
		core_submit(w->c, job, starts_after(spec_of(1000, 1), DEP_AFTEROK, id), w->now);
		id = TASK_ID(job, -1);
	}
	exits(w, first, 1, SCAN_NOTHING);
	assert_int_equal(w->n_ended, LONG + 1);
	assert_int_equal(state(w, id), TASK_CANCELLED);
	end_world(w);
}

/* An element whose fellow failed, the others go on; what ended while no daemon was there is found at its start. */
static void elements_and_restarts_in_vain(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, array_of(spec_of(1000, 1), 2)),
		b = submit(w, array_of(to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTERCORR, a), 1), 2));
	exits(w, TASK_ID(TASK_JOB(a), 1), 1, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(TASK_JOB(b), 1)), TASK_CANCELLED);
	assert_int_equal(state(w, TASK_ID(TASK_JOB(b), 0)), TASK_PENDING);
	const struct event log[] = { { .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms } };
	task_id late = TASK_ID(70, -1);
	restore(w, late, to_be_killed(starts_after(spec_of(1000, 1), DEP_AFTEROK, TASK_ID(TASK_JOB(a), 1)), 1), log, 1);
	pass(w, 1);
	assert_int_equal(state(w, late), TASK_CANCELLED);
	end_world(w);
}

/* Nor are tasks of their own that all wait for one array: not when it ends, not after a restart. */
static void many_tasks_after_an_array_are_no_square(void **unused)
{
	enum { N = 100, BEHIND = 300 };
	(void)unused;
	struct world *w = new_world(1, NULL), *again = new_world(1, NULL);
	const struct event submitted = { .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms };
	task_id a = submit(w, array_after(N, 0, DEP_AFTERANY));
	for (int i = 0; i < BEHIND; i++) {
		struct spec *s = starts_after(spec_of(1000, 1), DEP_AFTEROK, a);
		restore(again, submit(w, spec_ref(s)), s, &submitted, 1);
	}
	assert_int_equal(w->n_looked_up, 1);
	assert_int_equal(again->n_looked_up, 1);
	for (int i = 0; i < N; i++)
		assert_int_equal(core_cancel(w->c, TASK_ID(TASK_JOB(a), i), 0, w->now, NULL), 0);
	assert_int_equal(w->n_looked_up, 2);
	end_world(again);
	end_world(w);
}

/* A task that came back after its end is waited for again. */
static void a_requeued_task_is_waited_for(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *held = spec_of(1000, 1);
	held->hold = true;
	task_id a = submit(w, spec_ref(held)), b = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, a));
	const struct event log[] = { { .kind = EV_SUBMITTED }, { .kind = EV_CANCELLED } };
	assert_int_equal(core_cancel(w->c, a, 0, w->now, NULL), 0);
	assert_string_equal(reason_of(w, b), "DependencyNeverSatisfied");
	restore(w, a, held, log, COUNT_OF(log));
	assert_int_equal(core_requeue(w->c, a, 0, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_string_equal(reason_of(w, b), "Dependency");
	exits(w, a, 0, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* In the order of the queue, behind them who is not in it; as many as are told. */
static void starts_are_told_in_order(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id runs = submit(w, spec_of(40000, 1)), after = submit(w, starts_after(spec_of(1000, 1), DEP_AFTEROK, runs));
	task_id first = submit(w, spec_of(40000, 1)), second = submit(w, spec_of(40000, 1));
	core_hold(w->c, submit(w, spec_of(1000, 1)), 1000, w->now, NULL);
	const task_id expected[] = { first, second, after };
	scoped_json *few = core_starts_json(w->c, w->now);
	assert_int_equal(json_array_size(json_object_get(few, "starts")), 3);
	assert_true(json_is_false(json_object_get(few, "truncated")));
	for (size_t i = 0; i < 3; i++) {
		char id[TASK_ID_TEXT];
		const json_t *one = json_array_get(json_object_get(few, "starts"), i);
		assert_string_equal(json_string_value(json_object_get(one, "id")), task_id_text(expected[i], id));
	}
	for (int i = 0; i < 600; i++)
		submit(w, spec_of(40000, 1));
	scoped_json *many = core_starts_json(w->c, w->now);
	assert_int_equal(json_array_size(json_object_get(many, "starts")), 500);
	assert_true(json_is_true(json_object_get(many, "truncated")));
	end_world(w);
}

/* Each job once and in order, arrays as one; nobody else's, no other name, none that ended. */
static void jobs_of_a_name_are_found(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	scoped_free uint32_t *jobs = NULL, *few = NULL;
	static const struct { const char *name; uid_t uid; uint32_t elements; } made[] = {
		{ "sweep", 1000, 0 }, { "sweep", 1000, 3 }, { "sweep", 1001, 0 }, { "other", 1000, 0 }, { "sweep", 1000, 0 },
		{ "sweep", 1000, 0 },
	};
	task_id ids[COUNT_OF(made)];
	for (size_t i = 0; i < COUNT_OF(made); i++) {
		struct spec *s = made[i].elements ? array_of(spec_of(1000, 1), made[i].elements) : spec_of(1000, 1);
		s->hold = true;
		s->uid = made[i].uid;
		s->name = alloc_string(made[i].name);
		ids[i] = submit(w, s);
	}
	assert_int_equal(core_cancel(w->c, ids[4], 1000, w->now, NULL), 0);
	assert_int_equal(core_jobs_named(w->c, 1000, "sweep", 10, &jobs), 3);
	assert_int_equal(jobs[0], TASK_JOB(ids[0]));
	assert_int_equal(jobs[1], TASK_JOB(ids[1]));
	assert_int_equal(jobs[2], TASK_JOB(ids[5]));
	assert_int_equal(core_jobs_named(w->c, 1000, "sweep", 2, &few), 2);
	end_world(w);
}

static void expect_named(struct world *w, const char *name, const task_id *ids, size_t n)
{
	scoped_free uint32_t *jobs = NULL;
	assert_int_equal(core_jobs_named(w->c, 1000, name, 100, &jobs), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(jobs[i], TASK_JOB(ids[i]));
}

/* Those that come and go: from the beginning, the end and between; one that gets another name, and its own again. */
static void jobs_of_a_name_come_and_go(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id ids[6];
	for (size_t i = 0; i < COUNT_OF(ids); i++) {
		struct spec *s = spec_of(1000, 1);
		s->hold = true;
		s->name = alloc_string("sweep");
		ids[i] = submit(w, s);
	}
	const task_id middle = ids[2];
	for (int i = 0; i < 2; i++) {
		struct event ev = { .u.updated.name = alloc_string(i ? "sweep" : "other") };
		assert_int_equal(core_update(w->c, middle, &ev, w->now, NULL), 0);
		event_clear(&ev);
		const task_id without[] = { ids[0], ids[1], ids[3], ids[4], ids[5] };
		expect_named(w, "other", &middle, !i);
		expect_named(w, "sweep", i ? ids : without, i ? 6 : 5);
	}
	core_cancel(w->c, ids[1], 1000, w->now, NULL);
	core_cancel(w->c, ids[4], 1000, w->now, NULL);
	const task_id left[] = { ids[0], ids[2], ids[3], ids[5] };
	expect_named(w, "sweep", left, COUNT_OF(left));
	core_cancel(w->c, ids[0], 1000, w->now, NULL);
	core_cancel(w->c, ids[5], 1000, w->now, NULL);
	expect_named(w, "sweep", &ids[2], 2);
	core_cancel(w->c, ids[2], 1000, w->now, NULL);
	core_cancel(w->c, ids[3], 1000, w->now, NULL);
	expect_named(w, "sweep", NULL, 0);
	end_world(w);
}

/* Asked between what makes room for it and the next turn. */
static void nobody_waits_behind_himself(void **unused)
{
	(void)unused;
	const struct core_config config = ordered(ORDER_BACKFILL, 1000);
	struct world *w = new_world(1, &config);
	task_id first = submit(w, spec_of(30000, 1)), next = submit(w, spec_of(30000, 1)), last = submit(w, spec_of(30000, 1));
	const struct exit_report r = { .have_record = true };
	core_exited(w->c, first, &r, w->now);
	w->now.mono_ms += 1000;
	struct snapshot s = { .mono_ms = w->now.mono_ms, .wall_ms = w->now.wall_ms };
	struct gpu_reading *g = snapshot_add_gpu(&s);
	snprintf(g->uuid, sizeof g->uuid, "%s", uuid_of(0));
	g->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM;
	g->mem_total_mib = 40960;
	core_snapshot(w->c, &s, CORE_MPS_APART, w->now);
	snapshot_clear(&s);
	assert_string_equal(reason_of(w, next), "Priority");
	scoped_free char *why = why_of(w, next), *behind = why_of(w, last);
	assert_non_null(strstr(behind, "task 2 is before it"));
	assert_null(strstr(why, "before it"));
	core_turn(w->c, w->now);
	assert_int_equal(state(w, next), TASK_RUNNING);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_keep_to_their_limit),
		cmocka_unit_test(an_arrays_limit_is_changed),
		cmocka_unit_test(a_changed_limit_is_there_after_a_restart),
		cmocka_unit_test(only_arrays_have_a_limit),
		cmocka_unit_test(who_waits_in_vain_is_cancelled_where_that_is_said),
		cmocka_unit_test(a_long_chain_that_waits_in_vain_is_cancelled), cmocka_unit_test(elements_and_restarts_in_vain),
		cmocka_unit_test(dependencies_open_and_never_open),
		cmocka_unit_test(a_task_begins_at_its_time),
		cmocka_unit_test(a_tasks_time_is_changed),
		cmocka_unit_test(a_task_that_failed_runs_again),
		cmocka_unit_test(a_delay_before_a_retry_is_no_promise),
		cmocka_unit_test(a_time_that_is_said_in_a_delay_is_one_of_the_clock),
		cmocka_unit_test(an_array_after_an_array_is_no_square),
		cmocka_unit_test(many_tasks_after_an_array_are_no_square),
		cmocka_unit_test(a_requeued_task_is_waited_for),
		cmocka_unit_test(jobs_of_a_name_are_found),
		cmocka_unit_test(jobs_of_a_name_come_and_go),
		cmocka_unit_test(starts_are_told_in_order),
		cmocka_unit_test(nobody_waits_behind_himself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
