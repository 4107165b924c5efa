/* SPDX-License-Identifier: MIT
 * Estimates of estimators that take long (a capture's replay): they come from another process, while the task waits, and
 * tell of load and time as well.
 */
#include "core/test_world.h"
#include "base/json.h"
#include "base/scope.h"
#include <math.h>

static bool has_summary(const struct spec *s)
{
	return s->model;
}

static bool never_called(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
			 struct estimate_result *out)
{
	(void)s, (void)declared_mib, (void)c, (void)out;
	fail_msg("a slow estimator was asked in the core");
	return false;
}

static struct world *slow_world_of(uint32_t n_gpus)
{
	static struct estimator table[5];
	struct core_config config = plain_config();
	table[0] = *estimate_find("declared", NULL);
	table[1] = (struct estimator){ "slow", has_summary, never_called };
	table[2] = (struct estimator){ "slower", has_summary, never_called };
	table[3] = *estimate_find("none", NULL);
	config.estimators = table;
	config.map.foreign_share = true;
	return new_world(n_gpus, &config);
}

static struct world *slow_world(void)
{
	return slow_world_of(1);
}

static task_id submit_slow(struct world *w, uint32_t elements)
{
	struct spec *s = spec_of(0, 1);
	s->model = alloc_string("Linear");
	return submit(w, elements ? array_of(s, elements) : s);
}

static void tasks_wait_for_slow_estimators_and_others_do_not(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id a = submit_slow(w, 0), b = submit(w, spec_of(1000, 1));
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_string_equal(reason_of(w, a), "Estimating");
	assert_int_equal(state(w, b), TASK_RUNNING);
	struct estimate_result r = { .value = { "slow", 2000, 2000, 2100 }, .note = "counted" };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(core_task(w->c, a)->estimate.note, "counted");
	assert_int_equal(task_attempt(core_task(w->c, a))->claim_mib, 2100);
	core_estimated(w->c, w->question, true, &r, w->now);	/* late: nobody asks any more */
	end_world(w);
}

/* Two guesses alike but for the need: the first was refused beside another's process, and the second is not the same. */
static void a_guess_is_cut_beside_foreign_memory_where_its_need_is_there(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	struct estimate_result r = { .value = { "slow", 24000, 24000, 70000 } };
	w->foreign_mib = 20000;
	pass(w, 1);
	task_id a = submit_slow(w, 0);
	core_estimated(w->c, w->question, true, &r, w->now);
	pass(w, 1);
	assert_string_equal(reason_of(w, a), "Memory");
	task_id b = submit_slow(w, 0);
	r.value.need_mib = r.value.comfort_mib = 17500;
	core_estimated(w->c, w->question, true, &r, w->now);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(task_attempt(core_task(w->c, b))->claim_mib, 20960);
	assert_int_equal(task_attempt(core_task(w->c, b))->mode, SHARE_NEVER);
	end_world(w);
}

static void an_array_asks_once(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	submit_slow(w, 20);
	assert_int_equal(w->n_questions, 1);
	core_cancel(w->c, TASK_ID(1, 3), 1000, w->now, NULL);
	struct estimate_result r = { .value = { "slow", 100, 100, 110 } };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	assert_true(core_count(w->c, TASK_RUNNING) > 0);
	for (int i = 0; i < 20; i++)
		if (i != 3)
			assert_string_equal(core_task(w->c, TASK_ID(1, i))->estimate.estimator, "slow");
	end_world(w);
}

static void who_does_not_answer_is_passed_over(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id a = submit_slow(w, 0);
	struct estimate_result r = { .note = "slow: no answer within 10 s" };
	assert_string_equal(w->asked->name, "slow");
	core_estimated(w->c, w->question, false, &r, w->now);
	assert_string_equal(w->asked->name, "slower");
	assert_string_equal(reason_of(w, a), "Estimating");
	snprintf(r.note, sizeof r.note, "slower: it crashed");
	core_estimated(w->c, w->question, false, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	const struct estimate *e = &core_task(w->c, a)->estimate;
	assert_string_equal(e->estimator, "none");
	assert_non_null(strstr(e->note, "slow: no answer within 10 s; slower: it crashed"));
	end_world(w);
}

static void what_changed_while_it_was_asked_is_asked_anew(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	struct event ev = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 3000 } };
	task_id a = submit_slow(w, 0), b = submit_slow(w, 0);
	int64_t first = w->question - 1, second = w->question;
	struct estimate_result declared = { .value = { "declared", 3000, 3000, 3000 } };
	core_update(w->c, a, &ev, w->now, NULL);
	assert_true(w->question > second);	/* about the load that its summary tells of */
	core_estimated(w->c, w->question, true, &declared, w->now);
	core_turn(w->c, w->now);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "declared");
	assert_int_equal(state(w, a), TASK_RUNNING);
	struct estimate_result r = { .value = { "slow", 100, 100, 110 } };
	core_estimated(w->c, first, true, &r, w->now);
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 3000);
	core_cancel(w->c, b, 1000, w->now, NULL);
	core_estimated(w->c, second, true, &r, w->now);
	assert_int_equal(state(w, b), TASK_CANCELLED);
	end_world(w);
}

/* Two questions are open about the same: whichever is answered first counts, once. */
static void a_second_answer_to_the_same_is_not_heard(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	struct event declares = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 3000 } };
	struct event takes_back = { .u.updated = { .set_gpu_mem = true } };
	task_id n = submit(w, spec_of(38000, 1)), a = submit_slow(w, 0);
	int64_t first = w->question;
	core_update(w->c, a, &declares, w->now, NULL);
	submit_slow(w, 0);
	core_update(w->c, a, &takes_back, w->now, NULL);
	int64_t second = w->question;
	assert_string_equal(reason_of(w, a), "Estimating");
	struct estimate_result r = { .value = { "slow", 100, 100, 110 } }, late = { .value = { "slow", 200, 200, 220 } };
	core_estimated(w->c, first, true, &r, w->now);
	core_estimated(w->c, second, true, &late, w->now);
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 110);
	exits(w, n, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, a), TASK_RUNNING);
	end_world(w);
}

/* Cancelled before it was estimated, and brought back from the store: only then it is asked about again. */
static void a_finished_task_is_estimated_when_it_is_requeued(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	struct spec *s = spec_of(0, 1);
	s->model = alloc_string("Linear");
	const struct event log[] = { { .kind = EV_SUBMITTED, .t_ms = 1 }, { .kind = EV_CANCELLED, .t_ms = 2 } };
	restore(w, TASK_ID(7, -1), s, log, COUNT_OF(log));
	assert_int_equal(w->n_questions, 0);
	core_requeue(w->c, TASK_ID(7, -1), 1000, w->now, NULL);
	assert_int_equal(w->n_questions, 1);
	assert_string_equal(reason_of(w, TASK_ID(7, -1)), "Estimating");
	struct estimate_result r = { .value = { "slow", 100, 100, 110 } };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, TASK_ID(7, -1)), TASK_RUNNING);
	end_world(w);
}

/* What a slow estimator said stands when something is learnt, up to what is refuted by it. */
static void slow_answers_are_not_asked_for_again(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id n = submit(w, spec_of(38000, 1)), a = submit_slow(w, 0);
	struct estimate_result r = { .value = { "slow", 6000, 6000, 6100 }, .note = "counted" };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_PENDING);
	struct outcome o = { .told_ms = w->now.wall_ms + 1, .signature = core_task(w->c, a)->spec->signature, .gpu_name = "",
		.estimator = "", .verdict = VERDICT_OOM, .claim_mib = 7000, .retry_mib = 9000, .seen.peak_mib = 7000 };
	core_remember(w->c, &o);
	exits(w, n, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(w->n_questions, 1);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "slow");
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 9000);
	assert_non_null(strstr(core_task(w->c, a)->estimate.note, "counted; raised"));
	end_world(w);
}

static struct spec *declared_with_capture(void)
{
	struct spec *s = spec_of(3000, 1);
	s->capture = alloc_string("UkFE");
	return s;
}

/* Memory is declared, and stays as declared; what the capture tells of load comes with it, from another process. */
static void a_declaration_with_a_capture_waits_for_its_load(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id a = submit(w, declared_with_capture());
	struct load_belief guess = { .load = { 0.9, 0.4 }, .source = LOAD_GUESSED };
	struct estimate_result r = { .value = { "declared", 3000, 3000, 3000, .prior = guess } };
	assert_int_equal(w->n_questions, 1);
	assert_string_equal(reason_of(w, a), "Estimating");
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "declared");
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 3000);
	struct load_belief known = estimates_load(w->c->estimates, core_task(w->c, a), "NVIDIA A100");
	assert_int_equal(known.source, LOAD_GUESSED);
	assert_true(fabs(known.load.smact - 0.4) < 1e-12);
	end_world(w);
}

/* The answer of the process that reads the capture: its steps take so long together. */
static void tell_run(struct world *w, double run_s)
{
	struct load_belief guess = { .load = { 0.9, 0.4 }, .source = LOAD_GUESSED, .run_s = run_s };
	struct estimate_result r = { .value = { "declared", 3000, 3000, 3000, .prior = guess } };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
}

/* Where a limit is sooner that is it, and runs that were seen know better. */
static void a_capture_tells_the_time_of_a_run(void **unused)
{
	static const struct { int64_t limit_s; bool ran; double s; enum work_known how; } cases[] = {
		{ 0, false, 7200, WORK_COUNTED }, { 90000, false, 7200, WORK_COUNTED }, { 3600, false, 3600, WORK_LIMIT },
		{ 0, true, 900, WORK_RUNS }, { 600, true, 600, WORK_LIMIT },
	};
	(void)unused;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct world *w = slow_world();
		struct spec *s = declared_with_capture();
		s->time_limit_s = cases[i].limit_s;
		const struct outcome ran = { .signature = s->signature, .gpu_name = "NVIDIA A100", .estimator = "", .verdict = VERDICT_OK,
					     .seen = { .warm = true, .work_s = 900 } };
		if (cases[i].ran)
			core_remember(w->c, &ran);
		task_id a = submit(w, s);
		tell_run(w, 7200);
		enum work_known how = WORK_UNKNOWN;
		assert_true(estimates_work_s(w->c->estimates, core_task(w->c, a), &how) == cases[i].s);
		assert_int_equal(how, cases[i].how);
		end_world(w);
	}
}

/* One that its own clock ends after an hour, of two that all its steps would take. */
static task_id submit_clocked(struct world *w)
{
	task_id a = submit(w, declared_with_capture());
	struct load_belief guess = { .load = { 0.9, 0.4 }, .source = LOAD_GUESSED, .run_s = 7200, .limit_s = 3600 };
	struct estimate_result r = { .value = { "declared", 3000, 3000, 3000, .prior = guess } };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	return a;
}

static double next_start_s(struct world *w)
{
	scoped_json *starts = core_starts_json(w->c, w->now);
	return json_number_value(json_object_get(json_array_get(json_object_get(starts, "starts"), 0), "in_s"));
}

static void progress_is(struct world *w, task_id id, double fraction, double left_s)
{
	const struct progress_report said = { .source = PROGRESS_LINES, .t_ms = w->now.mono_ms, .fraction = fraction, .left_s = left_s,
		.spread_s = 10, .stands_ms = INT64_MAX, .whole_units = 1000, .advanced = 1000 * fraction, .per_s = 0.1, .series = 1 };
	core_progress(w->c, id, &said, 7, w->now);
}

/* Two beside each other, each slowed by the other: each ends when its clock says so all the same, whatever its progress
 * promises, and is learnt as one that takes so long. */
static void a_run_that_its_own_clock_ends_is_as_long_in_company(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	struct measured m;
	task_id a = submit_clocked(w), b = submit_clocked(w);
	hold_memory(w, a, 2900);
	hold_memory(w, b, 2900);
	assert_true(fabs(estimates_clock_s(w->c->estimates, core_task(w->c, a), w->now) - 3610) < 2);
	pass(w, 10);
	progress_is(w, a, 0.001, 9000);
	pass(w, 100);
	progress_is(w, a, 0.011, 9000);
	pass(w, 1490);
	progress_is(w, a, 0.15, 9000);
	assert_true(fleet_measured(w->c->fleet, a, &m) && m.work_s < 1500);	/* of 1600 s */
	struct spec *alone = spec_of(1000, 1);
	alone->exclusive = true;
	submit(w, alone);
	assert_true(fabs(next_start_s(w) - 2010) < 3);
	assert_true(fabs(estimates_clock_s(w->c->estimates, core_task(w->c, a), w->now) - 2010) < 3);
	scoped_json *told = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	assert_true(fabs(json_number_value(json_object_get(json_object_get(told, "progress"), "left_s")) - 2010) < 3);
	pass(w, 2020);
	exits(w, a, 0, SCAN_NOTHING);
	assert_true(fleet_measured(w->c->fleet, b, &m) && m.work_s < 3500);
	enum work_known how;
	double s = estimates_work_s(w->c->estimates, core_task(w->c, b), &how);
	assert_true(how == WORK_RUNS && fabs(s - 3620) < 3);
	end_world(w);
}

/* When others may start is told by it, as a guess; whether it is out of the way of a reservation is not: it runs for longer. */
static void what_a_capture_counted_is_no_promise(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id runs = submit(w, declared_with_capture());
	tell_run(w, 7200);
	assert_int_equal(state(w, runs), TASK_RUNNING);
	struct spec *alone = spec_of(1000, 1);
	alone->exclusive = true;
	submit(w, alone);
	scoped_json *starts = core_starts_json(w->c, w->now);
	const json_t *next = json_array_get(json_object_get(starts, "starts"), 0);
	assert_string_equal(json_string_value(json_object_get(next, "source")), "capture");
	assert_true(fabs(json_number_value(json_object_get(next, "in_s")) - 7200) < 1);
	end_world(w);
	w = slow_world();
	char uuid[1][GPU_UUID_LEN];
	strcpy(uuid[0], uuid_of(0));
	const struct core_reservation r = { 7, 1234, w->now.wall_ms + 7 * 1800000, w->now.wall_ms + 5 * 3600000, 1, uuid };
	core_reserve(w->c, &r, 1);
	runs = submit(w, declared_with_capture());
	tell_run(w, 7200);
	assert_int_equal(state(w, runs), TASK_PENDING);	/* as one of which nobody knows how long it takes, some hours before */
	end_world(w);
}

/* Nobody could read the capture: the declaration is not lost with it. */
static void a_declaration_outlives_a_capture_that_cannot_be_read(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	task_id a = submit(w, declared_with_capture());
	struct estimate_result r = { .note = "it took too long" };
	core_estimated(w->c, w->question, false, &r, w->now);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(w->n_questions, 1);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "declared");
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 3000);
	assert_int_equal(core_task(w->c, a)->estimate.prior.source, LOAD_UNKNOWN);
	end_world(w);
}

/* As test_order.c's three that fill the GPU, but that is what captures say. */
static void guesses_hold_nobody_back(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_STREAMS;
	config.map.rank = RANK_GAIN;
	struct world *w = new_world(1, &config);
	const struct load_belief guess = { .load = { 0.95, 0.9 }, .source = LOAD_GUESSED, .gract_sd = 0.1, .smact_sd = 0.1,
					   .run_s = 600 };
	task_id tasks[3];
	for (int i = 0; i < 3; i++) {
		tasks[i] = submit(w, declared_with_capture());
		struct estimate_result r = { .value = { "declared", 3000, 3000, 3000, .prior = guess } };
		core_estimated(w->c, w->question, true, &r, w->now);
		hold_memory(w, tasks[i], 3000);
	}
	pass(w, 60);
	for (int i = 0; i < 3; i++)
		assert_int_equal(state(w, tasks[i]), TASK_RUNNING);
	end_world(w);
}

/* What radd asks another process of it: a step that the host decides, of which the GPU takes four tenths. */
static task_id submit_guessed_on(struct world *w, uint64_t mib, uint32_t n_gpus)
{
	struct spec *s = declared_with_capture();
	s->gpu_mem_mib = mib;
	s->gpus = n_gpus;
	snprintf(s->signature, strlen(s->signature) + 1, "1:%u", (unsigned)(mib % 1000));
	task_id id = submit(w, s);
	const struct load_belief guess = { .load = { 0.4, 0.2 }, .watts = 200, .source = LOAD_GUESSED, .host = 0.99 };
	struct estimate_result r = { .value = { "declared", mib, mib, mib, .prior = guess } };
	core_estimated(w->c, w->question, true, &r, w->now);
	core_turn(w->c, w->now);
	return id;
}

static task_id submit_guessed(struct world *w, uint64_t mib)
{
	return submit_guessed_on(w, mib, 1);
}

/* The GPU is less busy than five tasks were said to make it: here hosts are slower, and of the sixth that is known before it
 * runs. A restart forgets nothing of it. */
static void a_slower_host_is_learnt(void **unused)
{
	(void)unused;
	struct world *w = slow_world(), *again = new_world(1, NULL);
	w->learns = again->c;
	w->smact = 0.3;
	for (uint64_t i = 0; i < 6; i++) {
		scoped_json *known = core_host_pace_json(w->c);
		assert_int_equal(json_integer_value(json_object_get(known, "tasks")), i);
		task_id a = submit_guessed(w, 3000 + i);
		scoped_json *shown = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
		const json_t *load = json_object_get(json_object_get(shown, "estimate"), "load");
		double gract = json_number_value(json_object_get(load, "gract")), pace = pow(4.0 / 3, (double)i / (double)(i + 5));
		assert_true(fabs(gract - 0.4 / pace) < 0.004);
		assert_true(json_is_null(json_object_get(load, "host_pace")) == (i == 0));
		struct load_belief used = estimates_load(w->c->estimates, core_task(w->c, a), "NVIDIA A100");
		assert_true(fabs(used.load.gract - gract) < 0.001 && fabs(used.load.smact - gract / 2) < 0.001);
		if (i == 5)
			break;
		hold_memory(w, a, 2900);
		pass(w, 100);
		exits(w, a, 0, SCAN_NOTHING);
		w->n_procs = 0;
		pass(w, 1);
		assert_int_equal(state(w, a), TASK_COMPLETED);
	}
	scoped_json *here = core_host_pace_json(w->c), *there = core_host_pace_json(again->c);
	assert_true(json_equal(here, there));
	end_world(w);
	end_world(again);
}

/* Beside others, or while its memory grows, so that it does not train yet, or where it may have hung until it failed: what is
 * seen then is no host's. */
static void what_tells_no_pace(void **unused)
{
	(void)unused;
	struct world *w = slow_world();
	w->smact = 0.3;
	task_id a = submit_guessed(w, 3000), b = submit_guessed(w, 3001);
	hold_memory(w, a, 2900);
	hold_memory(w, b, 2900);
	pass(w, 100);
	exits(w, a, 0, SCAN_NOTHING);
	exits(w, b, 0, SCAN_NOTHING);
	w->n_procs = 0;
	pass(w, 1);
	task_id c = submit_guessed(w, 3002);
	struct measured m;
	hold_memory(w, c, 900);
	for (int i = 0; i < 10; i++, w->procs[0].mib += 200)
		pass(w, 1);
	assert_true(fleet_measured(w->c->fleet, c, &m) && m.alone_gract > 0.29 && m.alone_s > 8);
	exits(w, c, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_COMPLETED);
	assert_int_equal(state(w, c), TASK_COMPLETED);
	w->n_procs = 0;
	pass(w, 1);
	task_id d = submit_guessed(w, 3003);
	hold_memory(w, d, 2900);
	pass(w, 100);
	assert_true(fleet_measured(w->c->fleet, d, &m) && m.warm && m.alone_s > 90 && m.alone_gract > 0.1);
	exits(w, d, 1, SCAN_NOTHING);
	assert_int_equal(state(w, d), TASK_FAILED);
	scoped_json *known = core_host_pace_json(w->c);
	assert_true(json_is_null(known));
	end_world(w);
}

/* A capture is of one process: of two that wait for each other it says too little. */
static void two_gpus_tell_no_pace(void **unused)
{
	(void)unused;
	struct world *w = slow_world_of(2);
	w->smact = 0.3;
	task_id a = submit_guessed_on(w, 3000, 2);
	struct measured m;
	hold_memory(w, a, 2900);
	pass(w, 100);
	assert_true(fleet_measured(w->c->fleet, a, &m) && m.warm && m.alone_s > 90 && m.alone_gract > 0.1);
	exits(w, a, 0, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_COMPLETED);
	scoped_json *known = core_host_pace_json(w->c);
	assert_true(json_is_null(known));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_wait_for_slow_estimators_and_others_do_not),
		cmocka_unit_test(a_guess_is_cut_beside_foreign_memory_where_its_need_is_there),
		cmocka_unit_test(an_array_asks_once),
		cmocka_unit_test(who_does_not_answer_is_passed_over),
		cmocka_unit_test(what_changed_while_it_was_asked_is_asked_anew),
		cmocka_unit_test(a_second_answer_to_the_same_is_not_heard),
		cmocka_unit_test(a_finished_task_is_estimated_when_it_is_requeued),
		cmocka_unit_test(slow_answers_are_not_asked_for_again),
		cmocka_unit_test(a_declaration_with_a_capture_waits_for_its_load),
		cmocka_unit_test(a_capture_tells_the_time_of_a_run),
		cmocka_unit_test(a_run_that_its_own_clock_ends_is_as_long_in_company),
		cmocka_unit_test(what_a_capture_counted_is_no_promise),
		cmocka_unit_test(a_declaration_outlives_a_capture_that_cannot_be_read),
		cmocka_unit_test(guesses_hold_nobody_back),
		cmocka_unit_test(a_slower_host_is_learnt),
		cmocka_unit_test(what_tells_no_pace),
		cmocka_unit_test(two_gpus_tell_no_pace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
