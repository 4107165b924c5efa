/* SPDX-License-Identifier: MIT
 * Tasks that begin on idle GPUs while their captures are being made.
 */
#include "core/test_world.h"

static struct world *capture_world(unsigned gpus)
{
	struct core_config config = plain_config();
	config.estimators = capture_estimators();
	return new_world(gpus, &config);
}

static struct spec *captured(unsigned gpus)
{
	return to_be_captured(spec_of(0, gpus));
}

/* As the daemon does it: the capture is in the spec, then it is read. */
static void capture_comes(struct world *w, task_id id, int64_t question, uint64_t mib)
{
	struct estimate_result r = { .value = { "replay", mib, mib, mib + 100, .fenced = true }, .note = "counted" };
	struct task *t = core_task(w->c, id);
	if (t) {
		t->spec->capture_until_s = 0;
		t->spec->capture = alloc_string("it");
	}
	core_estimated(w->c, question, true, &r, w->now);
	check(w);
	core_turn(w->c, w->now);
	check(w);
}

static uint64_t held_for(const struct world *w, task_id id)
{
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(w->c->fleet, &at, &r);)
		if (r.task->id == id)
			return r.held_mib;
	return 0;
}

static void an_idle_gpu_waits_for_no_capture(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	task_id a = submit(w, captured(1)), b = submit(w, captured(1));
	int64_t of_a = w->question - 1;
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "none");
	assert_non_null(strstr(core_task(w->c, a)->estimate.note, "before its capture was made"));
	assert_int_equal(state(w, b), TASK_PENDING);
	assert_string_equal(reason_of(w, b), "Estimating");
	assert_int_equal(held_for(w, a), w->c->config.map.min_free_mib);
	hold_memory(w, a, 3000);
	pass(w, 3);
	capture_comes(w, a, of_a, 12000);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "replay");
	assert_int_equal(task_attempt(core_task(w->c, a))->claim_mib, 12100);
	assert_int_equal(task_attempt(core_task(w->c, a))->fence_mib, 0);
	assert_int_equal(held_for(w, a), 12100);
	capture_comes(w, b, of_a + 1, 8000);
	pass(w, 3);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_true(task_attempt(core_task(w->c, b))->fence_mib > 0);
	end_world(w);
}

/* They would write the same files. That it is can be told late. */
static void a_capture_that_is_not_laid_aside_is_waited_for(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	struct spec *s = captured(1);
	s->capture_aside = false;
	task_id a = submit(w, s);
	pass(w, 2);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_string_equal(reason_of(w, a), "Estimating");
	s->capture_aside = true;
	core_reconsider(w->c);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	end_world(w);
}

/* What it takes is not known for some seconds, and may be all there is. */
static void nobody_joins_who_has_just_begun_so(void **unused)
{
	(void)unused;
	for (int comes = 0; comes < 2; comes++) {
		struct world *w = capture_world(1);
		task_id a = submit(w, captured(1)), b = submit(w, spec_of(9000, 1));
		int64_t question = w->question;
		hold_memory(w, a, 500);
		pass(w, 2);
		assert_int_equal(state(w, b), TASK_PENDING);
		assert_string_equal(reason_of(w, b), "Capture");
		if (comes)
			capture_comes(w, a, question, 35000);
		pass(w, comes ? 2 : (int)(w->c->config.window.span_ms / 1000));
		assert_string_equal(comes ? reason_of(w, b) : "", comes ? "Memory" : "");
		assert_int_equal(state(w, b), comes ? TASK_PENDING : TASK_RUNNING);
		end_world(w);
	}
}

/* It loads its data, and has nothing on the GPU yet. */
static void nobody_waits_longer_than_a_window_for_a_capture(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	task_id a = submit(w, captured(1)), b = submit(w, spec_of(9000, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	pass(w, (int)(w->c->config.window.span_ms / 1000) - 1);
	assert_string_equal(reason_of(w, b), "Capture");
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* Who waits for a GPU goes first, and a GPU that others are on, or that is smaller than another, is not for tasks of which
 * nothing is known. */
static void only_what_idles_for_nothing_is_taken(void **unused)
{
	(void)unused;
	struct world *w = capture_world(2);
	submit(w, spec_of(1000, 1));
	task_id two = submit(w, spec_of(40000, 2)), a = submit(w, captured(1));
	assert_int_equal(state(w, two), TASK_PENDING);
	assert_int_equal(state(w, a), TASK_PENDING);
	core_cancel(w->c, two, 1000, w->now, NULL);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	task_id b = submit(w, captured(1));
	assert_int_equal(state(w, b), TASK_PENDING);
	end_world(w);

	w = capture_world(2);
	w->last_mib = 20480;
	sample(w);
	for (int i = 0; i < 2; i++)
		a = b, b = submit(w, captured(1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(task_attempt(core_task(w->c, a))->gpus[0], uuid_of(0));
	assert_int_equal(state(w, b), TASK_PENDING);
	end_world(w);

	w = capture_world(1);
	w->foreign_mib = 2000;
	sample(w);
	a = submit(w, captured(1));
	assert_int_equal(state(w, a), TASK_PENDING);
	w->foreign_mib = 0;
	pass(w, 2);
	assert_int_equal(state(w, a), TASK_RUNNING);
	end_world(w);
}

static struct spec *important(struct spec *s, int priority)
{
	s->priority = priority;
	return s;
}

static void as_many_as_are_idle_begin_the_first_first(void **unused)
{
	(void)unused;
	struct world *w = capture_world(3);
	task_id whole = submit(w, spec_of(0, 3));
	task_id low = submit(w, captured(1)), high = submit(w, important(captured(1), 5)), last = submit(w, captured(2));
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	exits(w, whole, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, high), TASK_RUNNING);
	assert_int_equal(state(w, low), TASK_RUNNING);
	assert_int_equal(state(w, last), TASK_PENDING);	/* one GPU is left */
	exits(w, low, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, last), TASK_RUNNING);
	end_world(w);
}

/* An array's limit holds, what is held by a person stays, and a user has no more than he may. */
static struct allowance one_task(void *ctx, uid_t uid)
{
	(void)ctx, (void)uid;
	return (struct allowance){ .most[ALLOWANCE_RUNNING] = 1 };
}

static void limits_hold(void **unused)
{
	(void)unused;
	struct world *w = capture_world(3);
	struct spec *s = array_of(captured(1), 3);
	s->array_limit = 1;
	submit(w, s);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	assert_int_equal(state(w, TASK_ID(1, 0)), TASK_RUNNING);
	exits(w, TASK_ID(1, 0), 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, TASK_ID(1, 1)), TASK_RUNNING);
	assert_int_equal(core_count(w->c, TASK_RUNNING), 1);
	s = captured(1);
	s->hold = true;
	task_id h = submit(w, s);
	assert_int_equal(state(w, h), TASK_HELD);
	assert_int_equal(core_release(w->c, h, 1000, w->now, NULL), 0);
	pass(w, 1);
	assert_int_equal(state(w, h), TASK_RUNNING);
	end_world(w);

	w = capture_world(3);
	w->c->ops.allowance = one_task;
	submit(w, captured(1));
	task_id b = submit(w, captured(1));
	assert_int_equal(state(w, b), TASK_PENDING);
	s = captured(1);
	s->uid = 1001;
	assert_int_equal(state(w, submit(w, s)), TASK_RUNNING);
	end_world(w);
}

static void one_without_a_capture_after_all_goes_on(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	task_id a = submit(w, captured(1)), b = submit(w, spec_of(9000, 1));
	struct estimate_result r = { .note = "replay: no capture: it asked for a file" };
	hold_memory(w, a, 500);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_PENDING);
	core_estimated(w->c, w->question, false, &r, w->now);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "none");
	assert_non_null(strstr(core_task(w->c, a)->estimate.note, "no capture: it asked for a file"));
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* What runs of its kind took comes before what a capture says, whenever that comes. */
static void what_was_learnt_meanwhile_stands(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	task_id a = submit(w, captured(1));
	int64_t question = w->question;
	core_task(w->c, a)->estimate.claim_mib = 7000;
	capture_comes(w, a, question, 2000);
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 7000);
	end_world(w);
}

/* Its load alone is waited for: it does without that, and others may join it. */
static void what_is_declared_stands(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	struct spec *s = captured(1);
	s->gpu_mem_mib = 3000;
	s->model = alloc_string("Linear");
	task_id a = submit(w, s), b = submit(w, spec_of(9000, 1));
	int64_t question = w->question;
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(task_attempt(core_task(w->c, a))->claim_mib, 3000);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	capture_comes(w, a, question, 2000);
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 3000);
	end_world(w);
}

static void an_answer_after_the_end_is_for_nobody(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	task_id a = submit(w, captured(1));
	int64_t question = w->question;
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(w->ended[0].state, TASK_COMPLETED);
	capture_comes(w, a, question, 2000);
	assert_int_equal(estimates_open(w->c->estimates), 0);
	end_world(w);
}

static void a_restart_waits_on(void **unused)
{
	(void)unused;
	struct world *w = capture_world(1);
	char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = 1 }, { .kind = EV_ESTIMATED, .t_ms = 2, .u.estimate = { .estimator = "none" } },
		{ .kind = EV_PLACED, .t_ms = 3, .u.placed = { .gpus = gpu, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = 5120 } },
	};
	restore(w, TASK_ID(7, -1), captured(1), log, COUNT_OF(log));
	assert_int_equal(w->n_questions, 1);
	w->next_job = 7;
	hold_memory(w, TASK_ID(7, -1), 500);
	task_id b = submit(w, spec_of(9000, 1));
	pass(w, 1);
	assert_string_equal(reason_of(w, b), "Capture");
	capture_comes(w, TASK_ID(7, -1), w->question, 12000);
	assert_int_equal(held_for(w, TASK_ID(7, -1)), 12100);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);

	w = capture_world(1);	/* and not for what is known */
	const struct event known[] = {
		log[0], log[1], log[2], { .kind = EV_ESTIMATED, .t_ms = 4, .u.estimate = { .estimator = "replay", .claim_mib = 9000 } },
	};
	struct spec *s = captured(1);
	s->capture_until_s = 0;
	s->capture = alloc_string("it");
	restore(w, TASK_ID(7, -1), s, known, COUNT_OF(known));
	assert_int_equal(w->n_questions, 0);
	assert_int_equal(task_attempt(core_task(w->c, TASK_ID(7, -1)))->claim_mib, 9000);
	pass(w, 1);
	assert_int_equal(held_for(w, TASK_ID(7, -1)), 9000);
	end_world(w);
}

static unsigned n_asked;

static struct allowance count_asked(void *ctx, uid_t uid)
{
	(void)ctx, (void)uid;
	n_asked++;
	return (struct allowance){ { 0 } };
}

/* What each that waits may have is asked of it, so that is how many were looked at. */
static void where_no_gpu_is_idle_nobody_is_asked(void **unused)
{
	(void)unused;
	struct world *w = capture_world(2);
	w->c->ops.allowance = count_asked;
	core_drain(w->c, "GPU-1", true);
	submit(w, spec_of(10000, 1));
	for (int i = 0; i < 50; i++)
		assert_int_equal(state(w, submit(w, captured(1))), TASK_PENDING);
	n_asked = 0;
	assert_int_equal(state(w, submit(w, captured(1))), TASK_PENDING);
	assert_int_equal(n_asked, 0);
	core_drain(w->c, "GPU-1", false);
	pass(w, 1);
	assert_int_equal(fleet_count_runs(w->c->fleet), 2);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_no_gpu_is_idle_nobody_is_asked),
		cmocka_unit_test(an_idle_gpu_waits_for_no_capture), cmocka_unit_test(nobody_joins_who_has_just_begun_so),
		cmocka_unit_test(a_capture_that_is_not_laid_aside_is_waited_for),
		cmocka_unit_test(nobody_waits_longer_than_a_window_for_a_capture),
		cmocka_unit_test(only_what_idles_for_nothing_is_taken), cmocka_unit_test(as_many_as_are_idle_begin_the_first_first),
		cmocka_unit_test(limits_hold), cmocka_unit_test(one_without_a_capture_after_all_goes_on),
		cmocka_unit_test(what_was_learnt_meanwhile_stands), cmocka_unit_test(what_is_declared_stands),
		cmocka_unit_test(an_answer_after_the_end_is_for_nobody), cmocka_unit_test(a_restart_waits_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
