/* SPDX-License-Identifier: MIT
 * Cores: who may join others on a GPU by what running tasks are seen to take of them.
 */
#include "core/test_world.h"

#include "base/json.h"
#include "tests/capture_write.h"

#include <math.h>

static struct core_config with_cores(unsigned cpus)
{
	struct core_config c = plain_config();
	c.host_cpus = cpus;
	c.max_cpu = 1;		/* as many as there are */
	c.map.max_smact = c.map.max_gract = NAN;
	c.map.max_tasks = 0;
	return c;
}

/* Each test counts its own seconds: sums of one that takes so many cores, and waits for so many, all the time. */
static void takes(struct world *w, task_id id, double busy, double waiting, int seconds)
{
	double ms = seconds * 1000.0;
	struct cpu_sums now = { (int64_t)ms, (int64_t)(busy * ms), waiting < 0 ? -1 : (int64_t)(waiting * ms) };
	core_cpu(w->c, id, &now);
}

static struct spec *kind(unsigned n)
{
	struct spec *s = spec_of(1000, 1);
	free(s->signature);
	s->signature = alloc_printf("1000:kind %u", n);
	return s;
}

/* How many of so many run when all are submitted at once, of which nothing is known. */
static unsigned run_of(unsigned n, unsigned gpus, const struct core_config *config)
{
	struct world *w = new_world(gpus, config);
	unsigned running = 0;
	task_id ids[40];
	for (unsigned i = 0; i < n; i++)
		ids[i] = submit(w, kind(0));
	pass(w, 2);
	for (unsigned i = 0; i < n; i++)
		running += state(w, ids[i]) == TASK_RUNNING;
	end_world(w);
	return running;
}

/* Three for each two cores; an idle GPU whatever there is, and no bound where cores are enough, not known, or not asked for. */
static void as_many_as_gain(void **unused)
{
	(void)unused;
	static const struct { unsigned cpus; double max_cpu; unsigned gpus, run; } rows[] = {
		{ 1, 1, 1, 1 }, { 2, 1, 1, 3 }, { 4, 1, 1, 6 }, { 8, 1, 1, 12 }, { 16, 1, 1, 20 }, { 2, 1, 4, 4 }, { 1, 1, 4, 4 },
		{ 4, 0.5, 1, 3 }, { 2, 1.5, 1, 4 }, { 4, 1.5, 1, 9 }, { 2, 2, 1, 6 }, { 2, 0, 1, 20 }, { 0, 1, 1, 20 },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct core_config config = with_cores(rows[i].cpus);
		config.max_cpu = rows[i].max_cpu;
		assert_int_equal(run_of(20, rows[i].gpus, &config), rows[i].run);
	}
	struct core_config unknown = with_cores(1);
	unknown.host_cpus = CORE_HOST_AUTO;
	assert_int_equal(run_of(20, 1, &unknown), 20);
}

static bool joins(struct world *w, unsigned what)
{
	task_id id = submit(w, kind(what));
	pass(w, 2);
	bool runs = state(w, id) == TASK_RUNNING;
	if (runs)
		exits(w, id, 0, SCAN_NOTHING);
	else
		core_cancel(w->c, id, 0, w->now, &(struct error){ 0 });
	pass(w, 2);
	return runs;
}

/* What the tasks there are seen to do decides, not how many they are: those that wait for nothing leave room, others do not. */
static void by_what_is_seen(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	struct world *w = new_world(1, &config);
	task_id a = submit(w, kind(1)), b = submit(w, kind(2)), c = submit(w, kind(3));
	pass(w, 1);
	assert_int_equal(state(w, c), TASK_RUNNING);
	assert_false(joins(w, 9));
	takes(w, a, 0.1, 0, 6);	/* they mostly sleep */
	takes(w, b, 0.2, 0, 6);
	takes(w, c, 0.1, 0, 6);
	assert_true(joins(w, 9));
	for (int s = 12; s < 100; s += 6) {	/* now each takes what it gets of two cores */
		takes(w, a, 0.6, 0.4, s);
		takes(w, b, 0.6, 0.4, s);
		takes(w, c, 0.6, 0.4, s);
	}
	assert_false(joins(w, 9));
	end_world(w);
}

/* Nothing else moves: the sums alone let them start, the first in line as well as one behind it that was refused before. */
static void cores_get_free(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	config.order = ORDER_BACKFILL;
	for (int behind = 0; behind < 2; behind++) {
		struct world *w = new_world(1, &config);
		task_id ids[3];
		w->mps_together = true;	/* what was refused is remembered then */
		pass(w, 1);
		for (int i = 0; i < 3; i++)
			ids[i] = submit(w, kind(1));
		if (behind)
			submit(w, spec_of(40000, 1));	/* wants the GPU idle */
		task_id waits = submit(w, kind(2));
		pass(w, 60);
		assert_int_equal(state(w, waits), TASK_PENDING);
		for (int i = 0; i < 3; i++)
			takes(w, ids[i], 0.1, 0, 6);
		pass(w, 1);
		assert_int_equal(state(w, waits), TASK_RUNNING);
		end_world(w);
	}
}

/* No GPU moves as one ends that has none: who was refused for its cores, behind the first in line, is asked again. */
static void cores_of_a_task_without_gpu_get_free(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	config.order = ORDER_BACKFILL;
	struct world *w = new_world(1, &config);
	w->mps_together = true;
	pass(w, 1);
	submit(w, kind(1));
	task_id without = submit(w, spec_of(0, 0));
	pass(w, 1);
	assert_int_equal(state(w, without), TASK_RUNNING);
	takes(w, without, 2, 2, 6);
	submit(w, spec_of(40000, 1));	/* wants the GPU idle */
	task_id waits = submit(w, kind(2));
	pass(w, 60);
	assert_string_equal(reason_of(w, waits), "Cores");
	exits(w, without, 0, SCAN_NOTHING);
	assert_int_equal(state(w, waits), TASK_RUNNING);
	end_world(w);
}

/* Sixty-four threads on sixteen cores are one task that wants all there is: small ones go beside it, a second one like it does
 * not, and what it starts too much does not count. */
static void own_threads_are_its_own_affair(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(16);
	config.order = ORDER_BACKFILL;
	struct world *w = new_world(1, &config);
	task_id greedy = submit(w, kind(1));
	pass(w, 1);
	takes(w, greedy, 16, 48, 60);
	task_id small[3];
	for (int i = 0; i < 3; i++) {
		small[i] = submit(w, kind(2));
		pass(w, 2);
		assert_int_equal(state(w, small[i]), TASK_RUNNING);
		takes(w, small[i], 0.5, 0.5, 60);
		takes(w, greedy, 15, 49, 120 + 60 * i);
	}
	/* One of its kind ended, so it is known what another would want. */
	for (int i = 0; i < 3; i++)
		exits(w, small[i], 0, SCAN_NOTHING);
	exits(w, greedy, 0, SCAN_NOTHING);
	pass(w, 2);
	task_id again = submit(w, kind(1)), second = submit(w, kind(1));
	pass(w, 2);
	assert_int_equal(state(w, again), TASK_RUNNING);
	assert_int_equal(state(w, second), TASK_PENDING);
	assert_true(joins(w, 2));
	exits(w, again, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, second), TASK_RUNNING);
	end_world(w);
}

/* Where the kernel does not tell of waiting, a task is not taken to want nothing. */
static void unknown_is_not_zero(void **unused)
{
	(void)unused;
	for (unsigned cpus = 2; cpus <= 3; cpus++) {	/* as one core each, no less and no more */
		struct core_config config = with_cores(cpus);
		struct world *w = new_world(1, &config);
		task_id ids[3];
		for (int i = 0; i < 3; i++)
			ids[i] = submit(w, kind(1));
		pass(w, 1);
		for (int i = 0; i < 3; i++)
			takes(w, ids[i], 0.1, -1, 6);
		assert_int_equal(joins(w, 2), cpus == 3);
		end_world(w);
	}
}

static void reason_tells_whose_they_are(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	struct world *w = new_world(1, &config);
	struct error err = ERROR_INIT;
	task_id a = submit(w, kind(1));
	for (int i = 0; i < 2; i++)
		submit(w, kind(1));
	takes(w, a, 0.75, 0.25, 8);
	task_id id = submit(w, kind(2));
	pass(w, 2);
	scoped_json *why = core_why_json(w->c, id, w->now, &err), *shown = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	const json_t *cores = json_object_get(why, "cores");
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "Cores");
	assert_non_null(strstr(json_string_value(json_object_get(json_array_get(json_object_get(why, "gpus"), 0), "text")),
			       "need 2.0 of 2 cores and this one about 0.7: it would gain 0.00 of a task"));
	assert_true(json_number_value(json_object_get(cores, "need")) == 2);
	assert_int_equal(json_array_size(json_object_get(cores, "tasks")), 3);
	const json_t *attempt = json_array_get(json_object_get(shown, "attempts"), 0);
	assert_true(json_real_value(json_object_get(attempt, "cores")) == 0.75);
	assert_true(json_real_value(json_object_get(attempt, "cores_waited")) == 0.25);
	end_world(w);
}

/* Where small ones gain, one that wants all cores may not: its GPU is kept, and it starts there when that is idle. */
static void the_first_in_line_is_not_starved(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(8);
	config.order = ORDER_BACKFILL;
	config.pass_max_ms = 100000;
	struct world *w = new_world(1, &config);
	task_id large = submit(w, kind(1));
	pass(w, 1);
	takes(w, large, 8, 0, 60);
	exits(w, large, 0, SCAN_NOTHING);	/* it is known what it wants */
	pass(w, 2);
	task_id small[5];
	for (int i = 0; i < 5; i++)
		small[i] = submit(w, kind(2));
	pass(w, 1);
	large = submit(w, kind(1));
	int started = -1;
	for (int t = 0; t < 400 && started < 0; t++) {
		pass(w, 1);
		if (t % 20 == 19) {	/* they come for ever */
			int k = t / 20 % 5;
			if (state(w, small[k]) == TASK_RUNNING)
				exits(w, small[k], 0, SCAN_NOTHING);
			small[k] = submit(w, kind(2));
		}
		if (state(w, large) == TASK_RUNNING)
			started = t;
	}
	assert_in_range(started, 99, 200);
	end_world(w);
}

/* Plans know nothing of cores: what they would have start beside others waits, and an idle GPU is taken. */
static void plans_are_asked_too(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(1);
	config.order = ORDER_PLAN;
	config.map.rank = RANK_GAIN;
	struct world *w = new_world(2, &config);
	task_id ids[4], before = submit(w, kind(1));
	pass(w, 60);
	exits(w, before, 0, SCAN_NOTHING);	/* its time is known, so there is a plan */
	pass(w, 5);
	for (int i = 0; i < 4; i++)
		ids[i] = submit(w, kind(1));
	pass(w, 5);
	assert_int_equal(state(w, ids[0]), TASK_RUNNING);
	assert_int_equal(state(w, ids[1]), TASK_RUNNING);
	assert_string_not_equal(gpu_of(w, ids[0]), gpu_of(w, ids[1]));
	assert_int_equal(state(w, ids[2]), TASK_PENDING);
	exits(w, ids[0], 0, SCAN_NOTHING);
	pass(w, 5);
	assert_int_not_equal(state(w, ids[2]), state(w, ids[3]));	/* one of the two, as the plan has it, where it is idle */
	end_world(w);
}

/* A slot that is over gives back the cores of its task, too. */
static void slots_make_place_for_cores(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	config.order = ORDER_BACKFILL;
	config.slot_ms = 1000000;
	struct world *w = new_world(1, &config);
	task_id ids[3];
	for (int i = 0; i < 3; i++) {
		ids[i] = submit(w, kind(1));
		core_started(w->c, ids[i], (struct proc_id){ 400 + i, 1 }, w->now);
		takes(w, ids[i], 0.6, 0.4, 60);
		pass(w, 10);
	}
	pass(w, 985);
	task_id waits = submit(w, kind(1));
	pass(w, 3);
	unsigned asks = 0;
	for (int i = 0; i < 3; i++)
		asks += core_task(w->c, ids[i])->attempts[0].slot_asks;
	assert_int_equal(asks, 1);	/* one is enough */
	exits(w, ids[0], SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, waits), TASK_RUNNING);
	end_world(w);
}

/* While others want all cores it would be for nothing; once they want less, it is asked to go. */
static void slots_are_asked_when_cores_get_free(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	config.order = ORDER_BACKFILL;
	config.slot_ms = 100000;
	struct world *w = new_world(1, &config);
	task_id ids[3];
	for (int i = 0; i < 3; i++) {
		struct spec *s = kind(1);
		s->slot_s = i ? -1 : 0;
		ids[i] = submit(w, s);
		core_started(w->c, ids[i], (struct proc_id){ 400 + i, 1 }, w->now);
		takes(w, ids[i], 0.1, 0, 10);
		pass(w, 5);
	}
	for (int i = 0; i < 3; i++)
		for (int k = 2; k < 12; k++)
			takes(w, ids[i], 2, 0, 10 * k);
	task_id waits = submit(w, kind(2));
	pass(w, 200);
	assert_int_equal(state(w, waits), TASK_PENDING);
	assert_int_equal(core_task(w->c, ids[0])->attempts[0].slot_asks, 0);
	for (int k = 0; k < 10; k++)
		for (int i = 1; i < 3; i++) {
			struct cpu_sums now = { 200000 + k * 10000, 220000, 0 };
			core_cpu(w->c, ids[i], &now);
		}
	pass(w, 10);
	assert_int_equal(core_task(w->c, ids[0])->attempts[0].slot_asks, 1);
	end_world(w);
}

/* One with a capture, whose two loaders keep two cores busy each; of a capture of before nothing is said of them. */
static struct spec *loads(unsigned n, bool told)
{
	static const uint64_t host[10] = { 1000 }, kernels[1][8] = { { 0, 0, 0, 1000, 1000000, 8000000, 1000, 0 } };
	static const uint64_t loaders[2][5] = { { 2, 100000, 2, 2, 2 }, { 2, 100000, 2, 2, 2 } };
	const struct capture_texts texts = { "2.11.0", "", "" };
	struct capture_writer w;
	struct spec *s = kind(n);
	s->gpu_mem_mib = 0;
	write_begin(&w, &texts, 0, 0, 0);
	write_alloc(&w, 4096);
	write_end_loaders(&w, host, kernels, 1, loaders, told ? 2 : 0);
	s->capture = write_base64(&w.out);
	buf_free(&w.out);
	return s;
}

/* Whoever reads captures answers at once. */
static task_id submit_read(struct world *w, struct spec *s)
{
	const struct estimate_context context = { .gpu_name = w->gpu_name, .gpu_total_mib = 40000 };
	struct estimate_result said;
	task_id id = submit(w, s);
	bool spoke = estimate_ask(w->asked, core_task(w->c, id)->spec, 0, &context, &said);
	if (spoke)
		estimate_add_load(core_task(w->c, id)->spec, &context, &said);
	core_estimated(w->c, w->question, spoke, &said, w->now);
	pass(w, 2);
	return id;
}

static const char *expected_of(struct world *w, task_id id, double *cores)
{
	scoped_json *shown = core_task_json(w->c, core_task(w->c, id), w->now, NULL);
	const json_t *expected = json_object_get(json_object_get(shown, "estimate"), "cores_expected");
	*cores = json_number_value(json_object_get(expected, "cores"));
	const char *source = json_string_value(json_object_get(expected, "source"));
	return !source ? "unknown" : !strcmp(source, "capture") ? "capture" : "history";
}

/* Nobody ran before: what captures say of loaders keeps the third from starting, where it would start if they said nothing. */
static void captures_tell_of_loaders(void **unused)
{
	(void)unused;
	for (int told = 0; told < 2; told++) {
		struct core_config config = with_cores(8);
		struct world *w = new_world(1, &config);
		task_id ids[3];
		double cores;
		for (unsigned i = 0; i < 3; i++)
			ids[i] = submit_read(w, loads(i, told));
		assert_int_equal(state(w, ids[1]), TASK_RUNNING);
		assert_int_equal(state(w, ids[2]), told ? TASK_PENDING : TASK_RUNNING);
		assert_string_equal(expected_of(w, ids[2], &cores), told ? "capture" : "unknown");
		if (told) {
			assert_true(cores == 5);
			assert_string_equal(core_task_reason(w->c, core_task(w->c, ids[2]), w->now), "Cores");
			exits(w, ids[0], 0, SCAN_NOTHING);
			pass(w, 2);
			assert_int_equal(state(w, ids[2]), TASK_RUNNING);
		}
		end_world(w);
	}
}

/* While it imports it takes a core; that is no sign of what its loaders take later. Once it is warm, what is seen counts. */
static void what_a_start_takes_is_not_believed(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(8);
	struct world *w = new_world(1, &config);
	task_id ids[3];
	for (unsigned i = 0; i < 3; i++)
		ids[i] = submit_read(w, loads(i, true));
	for (int s = 6; s < 60; s += 6)
		for (int i = 0; i < 2; i++)
			takes(w, ids[i], 1, 0, s);
	pass(w, 2);
	assert_int_equal(state(w, ids[2]), TASK_PENDING);
	for (int s = 60; s < 130; s += 6)	/* a start does not take so long */
		for (int i = 0; i < 2; i++)
			takes(w, ids[i], 1, 0, s);
	pass(w, 2);
	assert_int_equal(state(w, ids[2]), TASK_RUNNING);
	end_world(w);
	w = new_world(1, &config);
	for (unsigned i = 0; i < 3; i++) {
		ids[i] = submit_read(w, loads(i, true));
		hold_memory(w, ids[i], 900);
	}
	pass(w, 100);
	for (int s = 6; s < 19; s += 6)
		for (int i = 0; i < 2; i++)
			takes(w, ids[i], 1, 0, s);
	pass(w, 2);
	assert_int_equal(state(w, ids[2]), TASK_RUNNING);
	end_world(w);
}

/* What a run wanted is known better than what its capture says. */
static void runs_are_believed_before_captures(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(8);
	struct world *w = new_world(1, &config);
	task_id a = submit_read(w, loads(1, true));
	double cores;
	pass(w, 1);
	takes(w, a, 2, 1, 6);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	a = submit_read(w, loads(1, true));
	assert_string_equal(expected_of(w, a, &cores), "history");
	assert_true(cores == 3);
	end_world(w);
}

static double start_of(struct world *w, task_id id, const char *source)
{
	scoped_json *starts = core_starts_json(w->c, w->now);
	char text[TASK_ID_TEXT];
	size_t i;
	json_t *one;
	task_id_text(id, text);
	json_array_foreach(json_object_get(starts, "starts"), i, one)
		if (!strcmp(json_string_value(json_object_get(one, "id")), text)) {
			assert_string_equal(json_string_value(json_object_get(one, "source")), source);
			return json_number_value(json_object_get(one, "in_s"));
		}
	fail_msg("task %s has no expected start", text);
	return NAN;
}

/* Memory for all of them is there: each that waits starts as one of those that run leaves its core. */
static void starts_are_told_by_ends_that_leave_cores(void **unused)
{
	(void)unused;
	struct core_config config = with_cores(2);
	struct world *w = new_world(1, &config);
	task_id ids[3];
	for (int i = 0; i < 3; i++) {
		struct spec *s = kind(1);
		s->time_limit_s = 300 * (i + 1);
		ids[i] = submit(w, s);
		pass(w, 5);
		takes(w, ids[i], 0.5, 0.5, 10);
		assert_int_equal(state(w, ids[i]), TASK_RUNNING);
	}
	pass(w, 60);
	struct spec *s = kind(2);
	s->time_limit_s = 1000;
	task_id first = submit(w, s), second = submit(w, kind(2)), third = submit(w, kind(2));
	pass(w, 3);
	assert_int_equal(state(w, first), TASK_PENDING);
	assert_string_equal(core_task_reason(w->c, core_task(w->c, first), w->now), "Cores");
	task_id waiting[] = { first, second, third };
	double gone_s = 60 + 3 * 5 + 3;
	for (int i = 0; i < 3; i++)
		assert_true(fabs(start_of(w, waiting[i], "limit") - (300 * (i + 1) - gone_s)) < 20);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_gain),
		cmocka_unit_test(by_what_is_seen),
		cmocka_unit_test(cores_get_free), cmocka_unit_test(cores_of_a_task_without_gpu_get_free),
		cmocka_unit_test(own_threads_are_its_own_affair),
		cmocka_unit_test(unknown_is_not_zero),
		cmocka_unit_test(reason_tells_whose_they_are),
		cmocka_unit_test(the_first_in_line_is_not_starved),
		cmocka_unit_test(plans_are_asked_too),
		cmocka_unit_test(slots_make_place_for_cores),
		cmocka_unit_test(slots_are_asked_when_cores_get_free),
		cmocka_unit_test(captures_tell_of_loaders),
		cmocka_unit_test(what_a_start_takes_is_not_believed),
		cmocka_unit_test(runs_are_believed_before_captures),
		cmocka_unit_test(starts_are_told_by_ends_that_leave_cores),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
