/* SPDX-License-Identifier: MIT
 * The task record: every (state, event) pair, a life with recovery, the times' invariant, and both JSON forms there and back.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "task/task.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char two_gpus[2][GPU_UUID_LEN] = { "GPU-aaaa", "GPU-bbbb" };

static struct task *new_task(void)
{
	struct spec *s = spec_create();
	s->user = alloc_string("ada");
	s->name = alloc_string("train");
	return task_create(TASK_ID(7, -1), s);
}

static void apply(struct task *t, struct event ev)
{
	struct error err = ERROR_INIT;
	ev.task = t->id;
	if (task_apply(t, &ev, &err))
		fail_msg("%s", err.text);
}

static struct event placed(int64_t t_ms)
{
	return (struct event){ .kind = EV_PLACED, .t_ms = t_ms,
		.u.placed = { .gpus = two_gpus, .n_gpus = 2, .mode = SHARE_MPS, .claim_mib = 9000, .fence_mib = 9000 } };
}

static struct event ended(int64_t t_ms, enum verdict v, enum task_next next, enum task_state state)
{
	return (struct event){ .kind = EV_ENDED, .t_ms = t_ms, .u.ended = { .verdict = v, .next = next, .state = state,
		.evidence = (char *)"because", .seen = { .peak_mib = 8000, .mean_smact = NAN, .alone_s = 1, .energy_j = 2 } } };
}

/* Brings a new task into a state by legal events. */
static struct task *task_in(enum task_state s)
{
	struct task *t = new_task();
	t->spec->hold = s == TASK_HELD;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1000 });
	if (s == TASK_RUNNING || task_state_terminal(s))
		apply(t, placed(2000));
	if (task_state_terminal(s))
		apply(t, ended(3000, VERDICT_OK, NEXT_DONE, s));
	assert_int_equal(t->state, s);
	return t;
}

static void every_pair_follows_the_table(void **state)
{
	(void)state;
	for (unsigned s = 0; s < TASK_STATE_COUNT; s++)
		for (unsigned k = 0; k < EVENT_KIND_COUNT; k++) {
			struct task *t = task_in((enum task_state)s);
			struct event ev = k == EV_PLACED ? placed(5000) : (struct event){ .t_ms = 5000 };
			if (k == EV_MOVED)
				ev.u.moved.gpus = two_gpus, ev.u.moved.n_gpus = 2;
			struct error err = ERROR_INIT;
			if (k == EV_ENDED)
				ev = ended(5000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED);
			ev.kind = (enum event_kind)k;
			bool legal = task_event_allowed((enum task_state)s, ev.kind) && k != EV_SUBMITTED;
			uint32_t before = t->n_events;
			assert_int_equal(task_apply(t, &ev, &err), legal ? 0 : -1);
			assert_int_equal(t->n_events, before + (legal ? 1 : 0));
			if (!legal) {
				assert_int_equal(t->state, s);
				assert_non_null(strstr(err.text, "task 7"));
			}
			task_destroy(t);
		}
}

/* What the table of states cannot tell: each names its task, and leaves it as it was. */
static void events_that_make_no_sense_are_refused(void **state)
{
	(void)state;
	struct event bad[] = { placed(5000), placed(5000), { .kind = EV_MOVED },
			       ended(5000, VERDICT_OK, NEXT_DONE, TASK_PENDING) };
	bad[0].u.placed.n_gpus = 0;
	bad[1].u.placed.n_gpus = SPEC_MAX_GPUS + 1;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct task *t = task_in(bad[i].kind == EV_PLACED ? TASK_PENDING : TASK_RUNNING);
		struct error err = ERROR_INIT;
		uint32_t before = t->n_events;
		assert_int_equal(task_apply(t, &bad[i], &err), -1);
		assert_memory_equal(err.text, "task 7: ", strlen("task 7: "));
		assert_int_equal(t->n_events, before);
		task_destroy(t);
	}
}

/* Without GPUs is placed what asks for none; where it is found on some, and when it has left them, is noted too. */
static void a_task_that_asks_for_no_gpu_may_have_none(void **state)
{
	(void)state;
	struct task *t = task_in(TASK_PENDING);
	t->gpus = 0;
	apply(t, (struct event){ .kind = EV_PLACED, .t_ms = 5000, .u.placed = { .mode = SHARE_NEVER } });
	assert_int_equal(task_attempt(t)->n_gpus, 0);
	apply(t, (struct event){ .kind = EV_MOVED, .t_ms = 6000, .u.moved = { .gpus = two_gpus, .n_gpus = 2, .n_extra = 2 } });
	assert_int_equal(task_attempt(t)->n_given, 0);
	assert_non_null(task_attempt(t)->given);
	apply(t, (struct event){ .kind = EV_MOVED, .t_ms = 7000 });
	assert_int_equal(task_attempt(t)->n_gpus, 0);
	struct event ev = { .kind = EV_PLACED, .t_ms = 5000, .u.placed = { .mode = SHARE_NEVER } }, back;
	struct error err = ERROR_INIT;
	scoped_json *body = event_to_json(&ev);
	assert_int_equal(event_from_json(EV_PLACED, body, &back, &err), 0);
	assert_int_equal(back.u.placed.n_gpus, 0);
	event_clear(&back);
	task_destroy(t);
}

/* The spec is asked for, and shared by all elements of an array: a new name is the task's alone. */
static void a_new_name_is_the_tasks_alone(void **state)
{
	(void)state;
	struct task *t = new_task(), *other = task_create(TASK_ID(7, 1), spec_ref(t->spec));
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1000 });
	assert_string_equal(task_name(t), "train");
	apply(t, (struct event){ .kind = EV_UPDATED, .t_ms = 2000, .u.updated.name = (char *)"once" });
	apply(t, (struct event){ .kind = EV_UPDATED, .t_ms = 3000, .u.updated.name = (char *)"twice" });
	apply(t, (struct event){ .kind = EV_UPDATED, .t_ms = 4000, .u.updated.set_priority = true });
	assert_string_equal(task_name(t), "twice");
	assert_string_equal(task_name(other), "train");
	task_destroy(t);
	task_destroy(other);
	t = task_create(TASK_ID(8, -1), spec_create());
	assert_string_equal(task_name(t), "");
	task_destroy(t);
}

static void a_life_with_recovery_books_every_millisecond(void **state)
{
	(void)state;
	struct task *t = new_task();
	t->spec->hold = true;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10000 });
	apply(t, (struct event){ .kind = EV_RELEASED, .t_ms = 14000 });
	apply(t, placed(20000));
	apply(t, (struct event){ .kind = EV_STARTED, .t_ms = 20100, .u.started.shim = { 42, 99 } });
	struct event oom = ended(50000, VERDICT_OOM, NEXT_RECOVER, TASK_PENDING);
	oom.u.ended.next_claim_mib = 13500;
	oom.u.ended.next_exclusive = true;
	apply(t, oom);
	assert_int_equal(t->state, TASK_PENDING);
	assert_int_equal(t->queue, QUEUE_RECOVERY);
	assert_int_equal(t->claim_floor_mib, 13500);
	assert_true(t->exclusive_next);
	assert_int_equal(t->recoveries, 1);
	apply(t, placed(61000));
	apply(t, (struct event){ .kind = EV_STARTED, .t_ms = 61000, .u.started.shim = { 43, 100 } });
	apply(t, ended(90000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));

	struct task_times times = task_times(t, 999999);
	assert_true(times.held_s == 4 && times.wait_s == 17 && times.run_s == 59);
	assert_true(times.jct_s == 80 && times.jct_s == times.wait_s + times.held_s + times.run_s);
	assert_true(times.lost_s == 29.9);
	assert_int_equal(t->n_attempts, 2);
	assert_int_equal(t->attempts[0].shim.pid, 42);
	task_destroy(t);
}

/* That it ran before is kept; what it was over for is no time of its own, so from submission to end is longer than its jct. */
static void over_until_it_was_requeued(void **state)
{
	(void)state;
	struct task *t = new_task();
	struct event again = placed(70000);
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10000 });
	apply(t, placed(12000));
	apply(t, ended(20000, VERDICT_FAILED, NEXT_DONE, TASK_FAILED));
	apply(t, (struct event){ .kind = EV_REQUEUED, .t_ms = 60000 });
	apply(t, (struct event){ .kind = EV_HELD, .t_ms = 61000 });
	apply(t, (struct event){ .kind = EV_RELEASED, .t_ms = 66000 });
	apply(t, again);
	apply(t, ended(90000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	apply(t, (struct event){ .kind = EV_REQUEUED, .t_ms = 100000 });
	apply(t, (struct event){ .kind = EV_CANCELLED, .t_ms = 103000 });
	struct task_times times = task_times(t, 999999);
	assert_true(times.wait_s == 2 + 1 + 4 + 3 && times.held_s == 5 && times.run_s == 8 + 20 && times.lost_s == 8);
	assert_true(times.jct_s == times.wait_s + times.held_s + times.run_s);
	assert_true((double)(t->end_ms - t->submit_ms) / 1000 == times.jct_s + 40 + 10);
	task_destroy(t);
}

/* The estimate is made anew, and the history knows what was too little. Of the machine's memory nothing else does. */
static void what_was_too_little_is_not_asked_for_again(void **state)
{
	(void)state;
	struct task *t = new_task();
	struct event killed = ended(20000, VERDICT_HOST_OOM, NEXT_QUEUE, TASK_FAILED);
	killed.u.ended.next_host_mem_mib = 1500;
	killed.u.ended.next_claim_mib = 9000;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10000 });
	apply(t, placed(12000));
	apply(t, killed);
	apply(t, placed(21000));
	apply(t, ended(30000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	apply(t, (struct event){ .kind = EV_REQUEUED, .t_ms = 60000 });
	assert_int_equal(t->host_mem_mib, 1500);
	assert_int_equal(t->claim_floor_mib, 0);
	task_destroy(t);
}

/* The delay before a retry counts as held, and moves with the clock; it goes behind who waits then. Whoever cancels and
 * requeues it does not want the delay. */
static void a_retry_waits_and_goes_behind(void **state)
{
	(void)state;
	struct task *t = new_task();
	struct event failed = ended(20400, VERDICT_FAILED, NEXT_QUEUE, TASK_FAILED);
	failed.u.ended.next_delay_s = 10;
	t->retries = 2;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10000 });
	apply(t, placed(12000));
	apply(t, failed);
	assert_true(t->state == TASK_PENDING && t->queue == QUEUE_MAIN && t->waiting_for_deps && t->retrying);
	assert_true(t->begin_s == 31 && t->queued_ms == 20400);
	apply(t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = 3620400, .u.clock.by_ms = 3600000 });
	assert_int_equal(t->begin_s, 3631);
	apply(t, (struct event){ .kind = EV_ELIGIBLE, .t_ms = 3631000 });
	assert_true(!t->waiting_for_deps && !t->retrying && !t->begin_s);
	apply(t, placed(3632000));
	struct task_times times = task_times(t, 3632000);
	assert_true(times.wait_s == 3 && times.held_s == 10.6 && times.run_s == 8.4 && times.lost_s == 8.4);
	failed.t_ms = 3640000;
	apply(t, failed);
	scoped_json *o = task_to_json(t, 3640000);
	assert_int_equal(json_integer_value(json_object_get(o, "retries")), 2);
	assert_int_equal(json_integer_value(json_object_get(o, "retries_used")), 2);
	apply(t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = 40000, .u.clock.by_ms = -3600000 });
	apply(t, (struct event){ .kind = EV_CANCELLED, .t_ms = 41000 });
	apply(t, (struct event){ .kind = EV_REQUEUED, .t_ms = 42000 });
	assert_true(!t->waiting_for_deps && !t->retrying && !t->begin_s && !task_retries_used(t));
	task_destroy(t);
}

/* Time that a person took from it is no time of its own: not run, not lost, and not of its limit. */
static void suspended_time_is_apart(void **state)
{
	(void)state;
	struct task *t = new_task();
	t->time_limit_s = 100;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10000 });
	apply(t, placed(20000));
	apply(t, (struct event){ .kind = EV_STARTED, .t_ms = 20000, .u.started.shim = { 42, 99 } });
	apply(t, (struct event){ .kind = EV_SUSPENDED, .t_ms = 25000, .u.by.uid = 7 });
	assert_int_equal(t->suspended_uid, 7);
	assert_true(task_limit_ends_ms(t) == INT64_MAX);
	struct task_times times = task_times(t, 26000);
	assert_true(times.run_s == 5 && times.suspended_s == 1);
	apply(t, (struct event){ .kind = EV_RESUMED, .t_ms = 32000 });
	assert_true(task_limit_ends_ms(t) == 20000 + 100000 + 7000);
	apply(t, (struct event){ .kind = EV_SUSPENDED, .t_ms = 40000 });
	apply(t, ended(43000, VERDICT_FAILED, NEXT_DONE, TASK_FAILED));	/* killed where it stood */
	times = task_times(t, 99000);
	assert_true(times.wait_s == 10 && times.run_s == 13 && times.suspended_s == 10 && times.jct_s == 33);
	assert_true(times.lost_s == 13);
	task_destroy(t);
}

static void a_clock_set_back_books_nothing(void **state)
{
	(void)state;
	struct task *t = task_in(TASK_RUNNING);
	apply(t, ended(500, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	struct task_times times = task_times(t, 0);
	assert_true(times.run_s == 0 && times.wait_s == 1);
	assert_int_equal(t->end_ms, 2000);
	task_destroy(t);
}

static void dependencies_count_as_held(void **state)
{
	(void)state;
	struct task *t = new_task();
	t->spec->deps = alloc_zero(sizeof *t->spec->deps);
	t->spec->n_deps = 1;
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1000 });
	assert_int_equal(t->state, TASK_PENDING);
	assert_true(t->waiting_for_deps);
	apply(t, (struct event){ .kind = EV_ELIGIBLE, .t_ms = 5000 });
	struct task_times times = task_times(t, 6000);
	assert_true(times.held_s == 4 && times.wait_s == 1);
	task_destroy(t);
}

static void events_survive_json(void **state)
{
	(void)state;
	struct event all[] = {
		{ .kind = EV_SUBMITTED }, { .kind = EV_HELD, .u.by.uid = 1000 }, { .kind = EV_RELEASED, .u.by.uid = 0 },
		{ .kind = EV_ELIGIBLE },
		{ .kind = EV_UPDATED, .u.updated = { .set_priority = true, .priority = -5, .set_gpu_mem = true,
			.gpu_mem_mib = 77, .set_array_limit = true, .array_limit = 8,
			.set_begin = true, .begin_s = 1900000000, .set_gpus = true, .gpus = 2, .set_host_mem = true,
			.host_mem_mib = 99, .set_retries = true, .retries = 3,
			.set_deps = true, .deps = (struct dependency[]){ { DEP_AFTER, TASK_ID(9, -1) } }, .n_deps = 1, .name = (char *)"other" } },
		{ .kind = EV_ESTIMATED, .u.estimate = { .estimator = "declared", .need_mib = 1, .comfort_mib = 2,
			.claim_mib = 3, .fenced = true, .note = (char *)"said so" } },
		placed(0), { .kind = EV_STARTED, .u.started.shim = { 5, 1ULL << 40 } },
		{ .kind = EV_STOP_ASKED, .u.stop = { STOP_TIME_LIMIT, 1000 } },
		{ .kind = EV_MEASURED, .u.measured = { 9, 0.5, NAN, 1.5, true, 0.25, NAN, .cpu = { 9000, 500, -1 } } },
		ended(0, VERDICT_NEIGHBOUR, NEXT_QUEUE, TASK_PENDING),
		{ .kind = EV_CANCELLED, .u.by.unmet = { DEP_AFTEROK, TASK_ID(3, 4) } }, { .kind = EV_REQUEUED, .u.by.uid = 4 },
		{ .kind = EV_SLOT_ASKED },
		{ .kind = EV_MOVED, .u.moved = { .gpus = two_gpus, .n_gpus = 2, .n_extra = 1 } },
		{ .kind = EV_SUSPENDED, .u.by.uid = 5 }, { .kind = EV_RESUMED, .u.by.uid = 6 },
		{ .kind = EV_CLOCK_SET, .u.clock.by_ms = -7 }, { .kind = EV_WARNED },
	};
	all[EV_ENDED].u.ended.next_delay_s = 40;
	assert_int_equal(COUNT_OF(all), EVENT_KIND_COUNT);
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		assert_int_equal(all[i].kind, i);
		json_t *body = event_to_json(&all[i]);
		struct event back = { 0 };
		struct error err = ERROR_INIT;
		if (event_from_json(all[i].kind, body, &back, &err))
			fail_msg("%s", err.text);
		json_t *again = event_to_json(&back);
		assert_true(json_equal(body, again));
		assert_true(i != EV_ENDED || back.u.ended.next_delay_s == 40);
		json_decref(body);
		json_decref(again);
		event_clear(&back);
	}
}

static void what_it_was_given_is_kept_when_it_moves(void **state)
{
	(void)state;
	struct task *t = task_in(TASK_RUNNING);
	char others[3][GPU_UUID_LEN] = { "GPU-bbbb", "GPU-cccc", "GPU-dddd" };
	apply(t, (struct event){ .kind = EV_MOVED, .t_ms = 3000, .u.moved = { others, 3, 1 } });
	apply(t, (struct event){ .kind = EV_MOVED, .t_ms = 4000, .u.moved = { others, 2, 0 } });
	const struct attempt *a = task_attempt(t);
	assert_true(a->n_gpus == 2 && a->n_given == 2 && a->n_moves == 2 && !a->n_extra);
	assert_string_equal(a->given[0], "GPU-aaaa");
	assert_string_equal(a->gpus[1], "GPU-cccc");
	struct error err = ERROR_INIT;
	struct event none = { .kind = EV_MOVED, .t_ms = 5000, .u.moved = { others, 1, 1 } };
	assert_int_equal(task_apply(t, &none, &err), -1);	/* it holds one at least */
	task_destroy(t);
}

/* What earlier versions did not write is not known. */
static void older_bodies_are_read(void **state)
{
	(void)state;
	json_t *body = json_pack("{si, sf, sb}", "peak_mib", 9, "mean_smact", 0.5, "warm", 1);
	struct event ev = { 0 };
	assert_int_equal(event_from_json(EV_MEASURED, body, &ev, NULL), 0);
	assert_true(ev.u.measured.peak_mib == 9 && ev.u.measured.warm);
	assert_true(isnan(ev.u.measured.alone_gract) && isnan(ev.u.measured.alone_smact));
	assert_int_equal(ev.u.measured.cpu.ran_ms, 0);
	json_decref(body);
	body = json_pack("{ss, si}", "estimator", "declared", "claim_mib", 7);
	assert_int_equal(event_from_json(EV_ESTIMATED, body, &ev, NULL), 0);
	assert_true(ev.u.estimate.claim_mib == 7 && !ev.u.estimate.note);
	json_decref(body);
	body = json_pack("{ss, ss, ss}", "verdict", "failed", "next", "done", "state", "FAILED");
	assert_int_equal(event_from_json(EV_ENDED, body, &ev, NULL), 0);
	assert_int_equal(ev.u.ended.next_delay_s, 0);
	event_clear(&ev);
	json_decref(body);
	body = json_pack("{s[s], ss, si, sb}", "gpus", "GPU-1", "mode", "mps", "claim_mib", 7, "fenced", 1);
	assert_int_equal(event_from_json(EV_PLACED, body, &ev, NULL), 0);
	assert_int_equal(ev.u.placed.fence_mib, 7);
	event_clear(&ev);
	json_decref(body);
}

static void the_last_estimate_counts_and_says_why(void **state)
{
	(void)state;
	char note[] = "first";
	struct task *t = new_task();
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1000 });
	apply(t, (struct event){ .kind = EV_ESTIMATED, .t_ms = 1500, .u.estimate = { "none", .note = note } });
	note[0] = 'x';	/* the task has its own */
	assert_string_equal(t->estimate.note, "first");
	apply(t, (struct event){ .kind = EV_ESTIMATED, .t_ms = 2000, .u.estimate = { "history", 5, 6, 7, .note = (char *)"second" } });
	assert_int_equal(t->estimated_ms, 2000);
	json_t *o = task_to_json(t, 9000), *e = json_object_get(o, "estimate");
	assert_string_equal(json_string_value(json_object_get(e, "note")), "second");
	assert_string_equal(json_string_value(json_object_get(e, "estimator")), "history");
	json_decref(o);
	task_destroy(t);
}

/* It began with nothing known; nothing said later takes back what an out-of-memory taught. */
static void an_estimate_of_a_running_task_is_its_claim(void **state)
{
	(void)state;
	for (int failed = 0; failed < 2; failed++) {
		struct task *t = new_task();
		struct event go = placed(3000);
		apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1000 });
		apply(t, (struct event){ .kind = EV_ESTIMATED, .t_ms = 1000, .u.estimate = { "none" } });
		t->claim_floor_mib = failed ? 9000 : 0;
		go.u.placed.claim_mib = failed ? 9000 : 5120;
		apply(t, go);
		apply(t, (struct event){ .kind = EV_ESTIMATED, .t_ms = 4000, .u.estimate = { "none", .note = (char *)"no capture" } });
		assert_int_equal(task_attempt(t)->claim_mib, failed ? 9000 : 5120);
		apply(t, (struct event){ .kind = EV_ESTIMATED, .t_ms = 5000, .u.estimate = { "replay", .claim_mib = 3000 } });
		assert_int_equal(task_attempt(t)->claim_mib, failed ? 9000 : 3000);
		assert_int_equal(t->estimate.claim_mib, 3000);
		task_destroy(t);
	}
}

/* A day forward while it waits, and two back while it runs and is suspended: nobody waited or ran for a day. */
static void a_clock_that_is_set_changes_no_time(void **state)
{
	(void)state;
	const int64_t day = 86400000;
	struct task *t = new_task();
	struct event go = placed(11 * day + 4000);
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 10 * day });
	apply(t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = 11 * day + 3000, .u.clock.by_ms = day });
	assert_int_equal(t->submit_ms, 11 * day);
	assert_int_equal(t->queued_ms, 11 * day);
	apply(t, go);
	apply(t, (struct event){ .kind = EV_STARTED, .t_ms = 11 * day + 5000, .u.started.shim = { 5, 6 } });
	apply(t, (struct event){ .kind = EV_SUSPENDED, .t_ms = 11 * day + 7000 });
	apply(t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = 9 * day + 8000, .u.clock.by_ms = -2 * day });
	apply(t, (struct event){ .kind = EV_RESUMED, .t_ms = 9 * day + 9000 });
	assert_int_equal(task_attempt(t)->start_ms, 9 * day + 5000);
	assert_int_equal(t->suspended_ms, 2000);
	apply(t, ended(9 * day + 15000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	struct task_times times = task_times(t, 99 * day);
	assert_true(times.wait_s == 4 && times.run_s == 9 && times.suspended_s == 2 && times.jct_s == 15);
	assert_true(t->end_ms - t->submit_ms == 15000);
	task_destroy(t);
}

/* It ended by a clock that was set back since, of which ended tasks are not told: what it waits and runs then counts. */
static void one_that_is_requeued_after_the_clock_was_set_counts(void **state)
{
	(void)state;
	const int64_t day = 86400000;
	struct task *t = new_task();
	struct event go = placed(11 * day + 1000);
	apply(t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 11 * day });
	apply(t, go);
	apply(t, ended(11 * day + 3000, VERDICT_FAILED, NEXT_DONE, TASK_FAILED));
	apply(t, (struct event){ .kind = EV_REQUEUED, .t_ms = 10 * day });
	struct task_times times = task_times(t, 10 * day + 5000);
	assert_true(times.wait_s == 6 && times.run_s == 2);
	task_destroy(t);
}

static void broken_event_bodies_are_refused(void **state)
{
	(void)state;
	static const struct { enum event_kind kind; const char *body; } bad[] = {
		{ EV_MOVED, "{}" }, { EV_MOVED, "{\"gpus\":[\"GPU-1\"],\"extra\":-1}" }, { EV_MOVED, "{\"gpus\":[7],\"extra\":0}" },
		{ EV_PLACED, "{}" }, { EV_PLACED, "{\"gpus\":0,\"mode\":\"mps\"}" },
		{ EV_PLACED, "{\"gpus\":[1],\"mode\":\"mps\",\"claim_mib\":1}" },
		{ EV_PLACED, "{\"gpus\":[\"GPU-1\"],\"mode\":\"magic\",\"claim_mib\":1}" },
		{ EV_ENDED, "{}" }, { EV_ENDED, "{\"verdict\":\"ok\",\"next\":\"done\",\"state\":\"NOWHERE\"}" },
		{ EV_STOP_ASKED, "{\"reason\":\"mood\"}" }, { EV_HELD, "{\"uid\":-1}" }, { EVENT_KIND_COUNT, "{}" },
		{ EV_MEASURED, "{\"peak_mib\":\"many\"}" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		json_t *body = json_loads(bad[i].body, 0, NULL);
		struct event ev = { 0 };
		struct error err = ERROR_INIT;
		assert_non_null(body);
		assert_int_equal(event_from_json(bad[i].kind, body, &ev, &err), -1);
		assert_true(err.text[0]);
		json_decref(body);
	}
}

static void ids_read_and_print(void **state)
{
	(void)state;
	char text[TASK_ID_TEXT];
	task_id id;
	assert_int_equal(task_id_parse("12", &id, NULL), 0);
	assert_true(TASK_JOB(id) == 12 && TASK_INDEX(id) == -1);
	assert_string_equal(task_id_text(id, text), "12");
	assert_int_equal(task_id_parse("12_3", &id, NULL), 0);
	assert_true(TASK_JOB(id) == 12 && TASK_INDEX(id) == 3);
	assert_string_equal(task_id_text(id, text), "12_3");
	static const char *const bad[] = { "", "0", "-1", "12_", "12_x", "12 ", "x", "99999999999", "1_1048575", "012" };
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(task_id_parse(bad[i], &id, NULL), -1);
}

static struct spec *full_spec(void)
{
	struct spec *s = spec_create();
	static const struct spec_rlimit limit = { 7, 1024, -1 };
	s->name = alloc_string("a/b");
	s->user = alloc_string("ada");
	s->script = alloc_string("echo \"hi\"\n");
	spec_set_argv(s, (char *[]){ (char *)"plain", (char *)"not utf-8: \xff\xfe", (char *)"", NULL });
	s->cwd = alloc_string("/tmp");
	s->gpus = 2;
	s->gpu_mem_mib = 1234;
	s->share = SHARE_STREAMS;
	s->max_slowdown = 1.5;
	s->rlimits = alloc_zero(sizeof limit);
	s->rlimits[0] = limit;
	s->n_rlimits = 1;
	s->deps = alloc_zero(sizeof *s->deps);
	s->deps[0] = (struct dependency){ DEP_AFTERNOTOK, TASK_ID(3, 1) };
	s->n_deps = 1;
	s->array = alloc_zero(2 * sizeof *s->array);
	s->array[1] = 9;
	s->n_array = 2;
	s->array_limit = 4;
	s->estimates_mib[1] = 5;
	return s;
}

static void specs_survive_json(void **state)
{
	(void)state;
	struct spec *s = full_spec();
	json_t *o = spec_to_json(s), *env = json_loads("[\"A=1\",\"B=\"]", 0, NULL);
	struct error err = ERROR_INIT;
	struct spec *back = spec_from_json(o, env, &err);
	if (!back)
		fail_msg("%s", err.text);
	json_t *again = spec_to_json(back);
	assert_true(json_equal(o, again));
	assert_string_equal(back->argv[0], "plain");
	assert_string_equal(back->argv[1], "not utf-8: \xff\xfe");
	assert_string_equal(back->argv[2], "");
	assert_null(back->argv[3]);
	assert_string_equal(back->environ[1], "B=");
	assert_null(json_object_get(o, "environ"));
	json_decref(o);
	json_decref(env);
	json_decref(again);
	spec_unref(back);
	spec_unref(s);
}

/* What a new spec has is left out, zero or not; what differs is said, zero or not. */
static void a_spec_says_what_differs(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct spec *s = spec_create();
	json_t *o = spec_to_json(s);
	static const char *const left_out[] = { "gpus", "requeue", "priority", "gpu_mem_mib", "max_slowdown", "hold", "signal",
						"retries" };
	for (size_t i = 0; i < COUNT_OF(left_out); i++)
		assert_null(json_object_get(o, left_out[i]));
	json_decref(o);
	s->gpus = 3;
	s->requeue = false;
	s->priority = -1;
	s->max_slowdown = 0.5;
	s->retries = 3;
	o = spec_to_json(s);
	struct spec *back = spec_from_json(o, NULL, &err);
	assert_non_null(back);
	assert_true(json_is_false(json_object_get(o, "requeue")));
	assert_true(back->gpus == 3 && !back->requeue && back->priority == -1 && back->max_slowdown == 0.5 && back->retries == 3);
	json_decref(o);
	spec_unref(back);
	spec_unref(s);
}

static void hostile_specs_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"[]", "{\"gpus\":-1}", "{\"gpus\":65}", "{\"gpus\":\"two\"}", "{\"gpu_mem_mib\":-1}", "{\"name\":5}",
		"{\"argv\":\"ls\"}", "{\"argv\":[5]}", "{\"argv\":[[0]]}", "{\"array\":[-1]}", "{\"array\":[99999999]}",
		"{\"deps\":[[\"before\",\"1\"]]}", "{\"deps\":[[\"afterok\",\"x\"]]}", "{\"share\":\"all\"}",
		"{\"max_slowdown\":-1}", "{\"name\":\"a\\u0000b\"}", "{\"umask\":4096}",
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		json_t *o = json_loads(bad[i], JSON_ALLOW_NUL, NULL);
		struct error err = ERROR_INIT;
		assert_non_null(o);
		if (spec_from_json(o, NULL, &err))
			fail_msg("accepted: %s", bad[i]);
		assert_true(err.text[0]);
		json_decref(o);
	}
}

static void paths_expand(void **state)
{
	(void)state;
	struct spec *s = full_spec();
	char *path = spec_expand_path(s, "/l/%x-%u-%j-%A_%a-%%-%q", TASK_ID(12, 3));
	assert_string_equal(path, "/l/a_b-ada-12_3-12_3-%-%q");
	free(path);
	path = spec_expand_path(s, "%04a-%2A-%5j-%3%-%n%t%s-%12", TASK_ID(12, 3));
	assert_string_equal(path, "0003-12-12_3-%-00batch-%12");
	free(path);
	path = spec_expand_path(s, "%6J", TASK_ID(12, -1));
	assert_string_equal(path, "000012");
	free(path);
	spec_unref(s);
}

/* A command can be copied to a shell, an adopted process's too; an announced job has a name. */
static void commands_are_quoted(void **state)
{
	(void)state;
	char *const words[] = { (char *)"bash", (char *)"-c", (char *)"echo $X", NULL };
	char *const job[] = { (char *)"slurm job 7", NULL };
	const struct { int64_t pid; const char *by; char *const *argv; const char *shown; } rows[] = {
		{ 0, NULL, words, "bash -c 'echo $X'" }, { 12, NULL, words, "bash -c 'echo $X'" }, { 12, "slurm:7", job, "slurm job 7" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s = spec_create();
		spec_set_argv(s, rows[i].argv);
		s->process_pid = rows[i].pid;
		s->announced = rows[i].by ? alloc_string(rows[i].by) : NULL;
		char *shown = spec_command_text(s);
		assert_string_equal(shown, rows[i].shown);
		free(shown);
		spec_unref(s);
	}
}

static void task_objects_have_the_members_of_the_contract(void **state)
{
	(void)state;
	static const char *const members[] = { "id", "name", "user", "state", "priority", "gpus_requested", "share", "command",
		"cwd", "log_path", "submit_time", "begin_time", "start_time", "end_time", "wait_s", "held_s", "run_s", "lost_s", "jct_s",
		"suspended_s", "time_limit_s", "exit_code", "signal", "slowdown", "estimate", "attempts", "terminal", "process", "lease",
		"capture_notes" };
	struct task *t = task_in(TASK_COMPLETED);
	json_t *o = task_to_json(t, 9000);
	for (size_t i = 0; i < COUNT_OF(members); i++)
		if (!json_object_get(o, members[i]))
			fail_msg("no member %s", members[i]);
	assert_int_equal(json_array_size(json_object_get(o, "attempts")), 1);
	assert_true(json_is_null(json_object_get(o, "signal")));
	assert_int_equal(json_integer_value(json_object_get(o, "exit_code")), 0);
	json_decref(o);
	task_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_follows_the_table),
		cmocka_unit_test(events_that_make_no_sense_are_refused),
		cmocka_unit_test(a_task_that_asks_for_no_gpu_may_have_none),
		cmocka_unit_test(a_new_name_is_the_tasks_alone),
		cmocka_unit_test(a_life_with_recovery_books_every_millisecond),
		cmocka_unit_test(over_until_it_was_requeued), cmocka_unit_test(what_was_too_little_is_not_asked_for_again),
		cmocka_unit_test(a_retry_waits_and_goes_behind),
		cmocka_unit_test(suspended_time_is_apart),
		cmocka_unit_test(a_clock_set_back_books_nothing),
		cmocka_unit_test(dependencies_count_as_held),
		cmocka_unit_test(events_survive_json),
		cmocka_unit_test(what_it_was_given_is_kept_when_it_moves),
		cmocka_unit_test(older_bodies_are_read),
		cmocka_unit_test(the_last_estimate_counts_and_says_why),
		cmocka_unit_test(an_estimate_of_a_running_task_is_its_claim),
		cmocka_unit_test(a_clock_that_is_set_changes_no_time),
		cmocka_unit_test(one_that_is_requeued_after_the_clock_was_set_counts),
		cmocka_unit_test(broken_event_bodies_are_refused),
		cmocka_unit_test(ids_read_and_print),
		cmocka_unit_test(specs_survive_json),
		cmocka_unit_test(a_spec_says_what_differs),
		cmocka_unit_test(hostile_specs_are_refused),
		cmocka_unit_test(paths_expand),
		cmocka_unit_test(commands_are_quoted),
		cmocka_unit_test(task_objects_have_the_members_of_the_contract),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
