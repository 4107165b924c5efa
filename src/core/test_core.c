/* SPDX-License-Identifier: MIT
 * The core with made-up GPUs and a clock of the test's own: placements, the ledger's holds, recovery, cohorts, arrays,
 * dependencies, time limits, and that a core restored from its events decides as the one before it would have.
 */
#include "core/test_world.h"

static void tasks_go_where_memory_is_and_the_claim_is_held_at_once(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(20000, 1)), b = submit(w, spec_of(20000, 1)), c = submit(w, spec_of(10000, 1));
	/* No process has taken anything yet, so the driver shows both GPUs empty. */
	assert_string_equal(gpu_of(w, a), "GPU-0");
	assert_string_equal(gpu_of(w, b), "GPU-1");
	assert_string_equal(gpu_of(w, c), "GPU-0");
	task_id d = submit(w, spec_of(25000, 1)), e = submit(w, spec_of(1000, 1));
	assert_int_equal(state(w, d), TASK_PENDING);
	assert_int_equal(state(w, e), TASK_PENDING);	/* it would fit, but nothing overtakes the head */
	exits(w, b, 0, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_COMPLETED);
	assert_int_equal(state(w, d), TASK_PENDING);	/* the memory is not yet seen to be free */
	pass(w, 1);
	assert_string_equal(gpu_of(w, d), "GPU-1");
	assert_int_equal(state(w, e), TASK_RUNNING);
	end_world(w);
}

static void an_out_of_memory_is_rerun_alone_and_neighbours_go_on(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.fence = false;
	struct world *w = new_world(2, &config);
	task_id n1 = submit(w, spec_of(10000, 1)), n2 = submit(w, spec_of(10000, 1)), liar = submit(w, spec_of(5000, 1));
	hold_memory(w, n1, 9000);
	hold_memory(w, n2, 9000);
	hold_memory(w, liar, 31000);
	pass(w, 5);
	exits(w, liar, 1, SCAN_GPU_OOM);
	assert_int_equal(state(w, liar), TASK_PENDING);
	assert_int_equal(core_task(w->c, liar)->queue, QUEUE_RECOVERY);
	assert_int_equal(state(w, n1), TASK_RUNNING);
	assert_int_equal(state(w, n2), TASK_RUNNING);
	assert_true(core_task(w->c, liar)->exclusive_next);
	/* One GPU is kept for it: a later task may only go to the other. */
	task_id later = submit(w, spec_of(1000, 1));
	const char *kept = NULL;
	for (uint32_t i = 0; i < fleet_size(w->c->fleet); i++)
		if (fleet_kept_for(w->c->fleet, i) == liar)
			kept = uuid_of(i);
	assert_non_null(kept);
	assert_int_equal(state(w, later), TASK_RUNNING);
	assert_string_not_equal(gpu_of(w, later), kept);
	exits(w, kept == uuid_of(0) ? n1 : n2, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_string_equal(gpu_of(w, liar), kept);
	/* And nobody joins it there before it is warm. */
	task_id joiner = submit(w, spec_of(30000, 1));
	assert_int_equal(state(w, joiner), TASK_PENDING);
	end_world(w);
}

static void the_first_tasks_on_an_idle_gpu_meet_a_known_load(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	struct world *w = new_world(1, &config);	/* one sample: no load could be measured over any time yet */
	for (int i = 0; i < 3; i++)
		assert_int_equal(state(w, submit(w, spec_of(1000, 1))), TASK_RUNNING);
	end_world(w);
}

static void unestimated_tasks_wait_for_each_other_to_get_warm(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(0, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	hold_memory(w, a, 14000);	/* leaves less than a third of 40 GiB for each of two */
	pass(w, 8);
	hold_memory(w, a, 2000);	/* it was loading */
	task_id b = submit(w, spec_of(0, 1));
	pass(w, 9);
	assert_int_equal(state(w, b), TASK_PENDING);
	pass(w, 5);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* Where there is a third of the GPU for each, two start at once, and the third one waits. */
static void two_unestimated_tasks_start_on_an_empty_gpu(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(0, 1)), b = submit(w, spec_of(0, 1)), c = submit(w, spec_of(0, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, c), TASK_RUNNING);
	end_world(w);
}

/* What does not stand still, or does not compute, is believed when `warm` and a window have passed, as ever. */
static void memory_that_may_still_grow_is_believed_late(void **unused)
{
	(void)unused;
	for (int idle = 0; idle < 2; idle++) {
		struct world *w = new_world(1, NULL);
		task_id a = submit(w, spec_of(0, 1));
		hold_memory(w, a, 14000);	/* no room for two of which nothing is known */
		pass(w, 1);
		task_id b = submit(w, spec_of(0, 1));
		w->smact = idle ? 0 : 0.2;
		for (int i = 0; i < 8; i++) {
			if (!idle)
				hold_memory(w, a, 1000);
			pass(w, 10);
			assert_int_equal(state(w, b), TASK_PENDING);
		}
		pass(w, 20);
		assert_int_equal(state(w, b), TASK_RUNNING);
		end_world(w);
	}
}

/* In company nobody can say who computes: only a run that has taken what was expected of it is believed early. */
static void in_company_what_was_expected_is_believed_early(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(4000, 1)), b = submit(w, spec_of(4000, 1));
	hold_memory(w, a, 3900);
	hold_memory(w, b, 1500);
	pass(w, 12);
	struct measured x, y;
	assert_true(fleet_measured(w->c->fleet, a, &x) && fleet_measured(w->c->fleet, b, &y));
	assert_true(x.warm && !y.warm);
	end_world(w);
}

static void a_lone_out_of_memory_on_an_open_gpu_is_final(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *s = spec_of(0, 1);
	s->exclusive = true;
	task_id a = submit(w, s);
	hold_memory(w, a, 40000);
	pass(w, 3);
	exits(w, a, 1, SCAN_GPU_OOM);
	assert_int_equal(state(w, a), TASK_OUT_OF_MEMORY);
	end_world(w);
}

static void kept_gpus_are_given_up_after_a_while(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.recover.keep_max_ms = 20000;
	config.map.max_smact = 1;
	config.fence = false;
	struct world *w = new_world(2, &config);
	task_id n1 = submit(w, spec_of(20000, 1)), n2 = submit(w, spec_of(20000, 1));
	task_id o = submit(w, spec_of(5000, 1)), n3 = submit(w, spec_of(5000, 1));
	assert_string_equal(gpu_of(w, o), "GPU-0");
	assert_string_equal(gpu_of(w, n3), "GPU-1");
	hold_memory(w, n1, 20000);
	hold_memory(w, n2, 20000);
	hold_memory(w, o, 20900);
	hold_memory(w, n3, 5000);
	pass(w, 3);
	exits(w, o, 1, SCAN_GPU_OOM);
	assert_true(core_task(w->c, o)->exclusive_next);
	exits(w, n2, 0, SCAN_NOTHING);
	pass(w, 15);
	assert_int_equal(state(w, o), TASK_PENDING);	/* GPU 1 has room, but it is to run alone */
	pass(w, 10);
	assert_string_equal(gpu_of(w, o), "GPU-1");	/* beside n3 after all, with a larger claim */
	assert_true(task_attempt(core_task(w->c, o))->claim_mib >= 20900 + 5120);
	end_world(w);
}

static void mps_clients_that_die_together_are_one_cohort(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(5000, 1)), c = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	hold_memory(w, c, 4000);
	pass(w, 3);
	exits(w, a, 1, SCAN_DEVICE_FAULT);
	assert_int_equal(state(w, a), TASK_RUNNING);	/* the verdict waits for the others */
	w->now.mono_ms += 1000;
	exits(w, b, 1, SCAN_DEVICE_FAULT);
	pass(w, 10);
	for (unsigned i = 0; i < w->n_log; i++)
		if (w->log[i].kind == EV_ENDED)
			assert_int_equal(w->log[i].verdict, VERDICT_NEIGHBOUR);
	assert_true(!task_state_terminal(state(w, a)) && !task_state_terminal(state(w, b)));
	assert_int_equal(state(w, c), TASK_RUNNING);
	end_world(w);
}

/* Its end is known, only not whose fault it was: there is nobody to warn or to stop any more. */
static void who_waits_for_a_verdict_is_not_stopped(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *limited = spec_of(5000, 1);
	limited->time_limit_s = 60;
	limited->signal = SIGUSR1;
	limited->signal_before_s = 2;
	task_id a = submit(w, limited), b = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	pass(w, 57);
	exits(w, a, 1, SCAN_DEVICE_FAULT);
	pass(w, 4);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(w->signalled, 0);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 6);
	assert_int_equal(state(w, a), TASK_FAILED);
	end_world(w);
}

/* A person's word that comes between the end and the verdict is heard all the same, as by a radd that was started anew. */
static void who_waits_for_a_verdict_can_be_cancelled_or_requeued(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(5000, 1)), c = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	hold_memory(w, c, 4000);
	pass(w, 3);
	exits(w, a, 1, SCAN_DEVICE_FAULT);
	exits(w, b, 1, SCAN_DEVICE_FAULT);	/* with a: both would be run again, alone */
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
	pass(w, 10);
	assert_int_equal(state(w, a), TASK_CANCELLED);
	assert_false(task_state_terminal(state(w, b)));
	exits(w, c, 1, SCAN_DEVICE_FAULT);	/* by itself, so that it would have failed */
	assert_int_equal(state(w, c), TASK_RUNNING);
	assert_int_equal(core_requeue(w->c, c, 1000, w->now, NULL), 0);
	pass(w, 6);
	assert_int_equal(core_task(w->c, c)->attempts[0].verdict, VERDICT_CANCELLED);
	assert_false(task_state_terminal(state(w, c)));
	end_world(w);
}

static void one_client_that_dies_alone_is_guilty(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	pass(w, 3);
	exits(w, a, 1, SCAN_DEVICE_FAULT);
	pass(w, 10);
	assert_int_equal(state(w, a), TASK_FAILED);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* An error of its own is what it failed of, and whoever sits at a terminal waits for the end. */
static void who_has_an_error_of_its_own_waits_for_nobody(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *at_terminal = spec_of(5000, 1);
	at_terminal->terminal = alloc_string("/tmp/terminal");
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, at_terminal), c = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	hold_memory(w, c, 4000);
	pass(w, 3);
	exits(w, a, 1, SCAN_OTHER_ERROR);
	assert_int_equal(state(w, a), TASK_FAILED);
	exits(w, b, 3, SCAN_NOTHING);
	assert_true(task_state_terminal(state(w, b)));
	exits(w, c, 1, SCAN_NOTHING);	/* of a neighbour's fault, perhaps */
	assert_int_equal(state(w, c), TASK_RUNNING);
	end_world(w);
}

/* Elements of an array that each end with exit 1, having done nothing: it is their own doing. */
static void who_was_no_client_is_no_part_of_a_cohort(void **unused)
{
	(void)unused;
	static const struct exit_report small = { .have_record = true, .exit_code = 1, .max_rss_kib = 3000 },
		client = { .have_record = true, .signal = SIGSEGV, .max_rss_kib = 300000 };
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(5000, 1)), c = submit(w, spec_of(5000, 1));
	end_process(w, a);
	core_exited(w->c, a, &small, w->now);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_FAILED);	/* at once: nobody's word would change it */
	end_process(w, b);
	core_exited(w->c, b, &small, w->now);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_FAILED);
	end_process(w, c);
	core_exited(w->c, c, &client, w->now);
	pass(w, 10);
	assert_int_equal(state(w, c), TASK_FAILED);	/* nor did they end one that was */
	end_world(w);
}

/* Two that fail quickly, one after the other on the same GPU, did not take each other down. */
static void clients_that_were_not_there_together_are_no_cohort(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1));
	exits(w, a, 4, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_FAILED);
	w->now.mono_ms += 500;
	w->now.wall_ms += 500;
	sample(w);
	task_id b = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, b), TASK_RUNNING);
	w->now.mono_ms += 500;
	w->now.wall_ms += 500;
	exits(w, b, 5, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_FAILED);
	end_world(w);
}

/* The verdict waits for neighbours; the attempt's time does not. */
static void an_attempt_ends_when_its_processes_do(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(5000, 1)), b = submit(w, spec_of(5000, 1));
	hold_memory(w, a, 4000);
	hold_memory(w, b, 4000);
	pass(w, 3);
	int64_t exit_ms = w->now.wall_ms;
	exits(w, a, 1, SCAN_OTHER_ERROR);
	pass(w, 10);
	int64_t ended_ms = 0;
	for (unsigned i = 0; i < w->n_log; i++)
		if (w->log[i].kind == EV_ENDED)
			ended_ms = w->log[i].t_ms;
	assert_int_equal(state(w, a), TASK_FAILED);
	assert_int_equal(ended_ms, exit_ms);
	end_world(w);
}

/* No exit record, or no program that could have exited: unknown is not 0. */
static void an_end_that_nobody_saw_has_no_exit_code(void **unused)
{
	(void)unused;
	static const struct { struct exit_report end; bool cancelled; int code; } rows[] = {
		{ { .have_record = false }, false, -1 },
		{ { .never_began = true }, true, -1 },
		{ { .never_began = true, .have_record = true }, false, -1 },
		{ { .have_record = true, .unseen = true }, false, -1 },
		{ { .have_record = true }, false, 0 },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct world *w = new_world(1, NULL);
		task_id a = submit(w, spec_of(5000, 1));
		if (rows[i].cancelled)
			assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
		end_process(w, a);
		core_exited(w->c, a, &rows[i].end, w->now);
		pass(w, 3);
		assert_int_equal(w->log[w->n_log - 1].kind, EV_ENDED);
		assert_int_equal(w->log[w->n_log - 1].exit_code, rows[i].code);
		end_world(w);
	}
}

static void a_drained_gpu_is_known_before_it_is_read(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	core_drain(w->c, "GPU-1", true);
	w->n_gpus = 2;
	pass(w, 1);
	submit(w, spec_of(30000, 1));
	task_id b = submit(w, spec_of(30000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);
	core_drain(w->c, "GPU-1", false);
	pass(w, 1);
	assert_string_equal(gpu_of(w, b), "GPU-1");
	end_world(w);
}

static void arrays_keep_to_their_limit(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	struct world *w = new_world(4, &config);
	struct spec *s = spec_of(1000, 1);
	s->n_array = 6;
	s->array = alloc_zero(6 * sizeof *s->array);
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

/* What a fresh task is expected to do is not shown as if it had been measured. */
static void an_expected_load_says_so(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	submit(w, spec_of(1000, 1));
	for (int i = 0; i < 2; i++) {
		json_t *o = core_gpus_json(w->c, w->now), *gpu = json_array_get(json_object_get(o, "gpus"), 0);
		assert_int_equal(!strcmp(json_string_value(json_object_get(gpu, "smact_source")), "expected"), !i);
		assert_true(json_is_number(json_object_get(gpu, "smact")));
		json_decref(o);
		pass(w, 120);
	}
	end_world(w);
}

static void dependencies_open_and_never_open(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(1000, 1));
	struct spec *ok = spec_of(1000, 1), *bad = spec_of(1000, 1);
	struct dependency after = { DEP_AFTEROK, a }, not = { DEP_AFTERNOTOK, a };
	ok->deps = alloc_zero(sizeof after);
	bad->deps = alloc_zero(sizeof not);
	*ok->deps = after;
	*bad->deps = not;
	ok->n_deps = bad->n_deps = 1;
	task_id b = submit(w, ok), c = submit(w, bad);
	assert_int_equal(state(w, b), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_PENDING);
	json_t *o = core_task_json(w->c, core_task(w->c, c), w->now);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "DependencyNeverSatisfied");
	assert_non_null(strstr(json_string_value(json_object_get(o, "reason_text")), "afternotok:1 "));
	json_decref(o);
	struct spec *next = spec_of(1000, 1);
	next->deps = alloc_zero(sizeof after);
	*next->deps = (struct dependency){ DEP_AFTEROK, c };
	next->n_deps = 1;
	task_id d = submit(w, next);
	assert_true(core_waits_in_vain(w->c, core_task(w->c, c)));
	assert_true(core_waits_in_vain(w->c, core_task(w->c, d)));	/* for one that never runs */
	end_world(w);
}

/* By the wall clock, after its dependencies, and again after a restart; a cancel takes it out. */
static void a_task_begins_at_its_time(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *later = spec_of(1000, 1), *gone = spec_of(1000, 1), *after = spec_of(1000, 1);
	later->begin_s = gone->begin_s = after->begin_s = w->now.wall_ms / 1000 + 100;
	task_id a = submit(w, later), b = submit(w, gone);
	after->deps = alloc_zero(sizeof *after->deps);
	*after->deps = (struct dependency){ DEP_AFTERANY, a };
	after->n_deps = 1;
	task_id d = submit(w, after);
	pass(w, 50);
	assert_int_equal(state(w, a), TASK_PENDING);
	json_t *o = core_task_json(w->c, core_task(w->c, a), w->now);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "BeginTime");
	assert_true(json_is_string(json_object_get(o, "begin_time")));
	json_decref(o);
	assert_int_equal(core_cancel(w->c, b, 0, w->now, NULL), 0);
	pass(w, 51);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, d), TASK_PENDING);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, d), TASK_RUNNING);
	end_world(w);
}

/* What a person named stays where he named it: a clock that ran ahead, and is put right while radd is away, begins nothing. */
static void a_restart_begins_by_the_clock_as_it_is_set(void **unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct world *w = new_world(1, NULL);
		struct spec *s = spec_of(1000, 1);
		int64_t back_ms = i ? 86400000 : 0;
		s->begin_s = w->now.wall_ms / 1000 + 100;
		struct task *t = task_create(TASK_ID(7, -1), s);
		struct event ev = { .kind = EV_SUBMITTED, .task = t->id, .t_ms = w->now.wall_ms };
		assert_int_equal(task_apply(t, &ev, NULL), 0);
		w->now.wall_ms += 200000;
		core_restore(w->c, t, w->now);
		w->now.wall_ms -= back_ms;
		if (back_ms)
			core_clock_set(w->c, -back_ms, w->now);
		pass(w, 5);
		assert_int_equal(state(w, t->id), i ? TASK_PENDING : TASK_RUNNING);
		end_world(w);
	}
}

static struct spec *array_of(uint32_t n, task_id after, enum dependency_kind kind)
{
	struct spec *s = spec_of(1000, 1);
	s->array = alloc_zero(n * sizeof *s->array);
	s->n_array = n;
	for (uint32_t i = 0; i < n; i++)
		s->array[i] = i;
	s->hold = !after;
	s->deps = alloc_zero(sizeof *s->deps);
	s->deps[0] = (struct dependency){ kind, after };
	s->n_deps = after ? 1 : 0;
	return s;
}

/* That the elements of an array wait is looked up for all of them at once, and when the last of the other array ends. */
static void an_array_after_an_array_is_no_square(void **unused)
{
	enum { N = 100 };
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, array_of(N, 0, DEP_AFTERANY)), b = submit(w, array_of(N, a, DEP_AFTERANY));
	task_id c = submit(w, array_of(1, TASK_ID(TASK_JOB(a), 7), DEP_AFTERNOTOK));
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

/* Nor are tasks of their own that all wait for one array: not when it ends, not after a restart. */
static void many_tasks_after_an_array_are_no_square(void **unused)
{
	enum { N = 100, BEHIND = 300 };
	(void)unused;
	struct world *w = new_world(1, NULL), *again = new_world(1, NULL);
	struct event submitted = { .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms };
	task_id a = submit(w, array_of(N, 0, DEP_AFTERANY));
	for (int i = 0; i < BEHIND; i++) {
		struct spec *s = array_of(0, a, DEP_AFTEROK);
		struct task *t = task_create(submit(w, spec_ref(s)), s);
		assert_int_equal(task_apply(t, &submitted, NULL), 0);
		core_restore(again->c, t, again->now);
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
	struct spec *held = spec_of(1000, 1), *after = spec_of(1000, 1);
	held->hold = true;
	task_id a = submit(w, held);
	after->deps = alloc_zero(sizeof *after->deps);
	after->deps[0] = (struct dependency){ DEP_AFTEROK, a };
	after->n_deps = 1;
	task_id b = submit(w, after);
	struct task *t = task_create(a, spec_ref(held));
	struct event events[] = { { .kind = EV_SUBMITTED }, { .kind = EV_CANCELLED }, };
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		assert_int_equal(task_apply(t, &events[i], NULL), 0);
	assert_int_equal(core_cancel(w->c, a, 0, w->now, NULL), 0);
	json_t *o = core_task_json(w->c, core_task(w->c, b), w->now);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "DependencyNeverSatisfied");
	json_decref(o);
	core_restore(w->c, t, w->now);
	assert_int_equal(core_requeue(w->c, a, 0, w->now, NULL), 0);
	core_turn(w->c, w->now);
	o = core_task_json(w->c, core_task(w->c, b), w->now);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "Dependency");
	json_decref(o);
	exits(w, a, 0, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

static void limits_warn_then_stop(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *s = spec_of(1000, 1);
	s->time_limit_s = 60;
	s->signal = SIGUSR1;
	s->signal_before_s = 20;
	task_id a = submit(w, s);
	pass(w, 39);
	assert_int_equal(w->signalled, 0);
	pass(w, 2);
	assert_int_equal(w->signalled, SIGUSR1);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 20);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	exits(w, a, 143, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_TIMEOUT);
	end_world(w);
}

/* Somebody sets the wall clock: limits run on, neither shorter nor longer. */
static void limits_do_not_follow_the_wall_clock(void **unused)
{
	(void)unused;
	for (int64_t jump = -86400000; jump <= 86400000; jump += 172800000) {
		struct world *w = new_world(1, NULL);
		struct spec *s = spec_of(1000, 1);
		s->time_limit_s = 60;
		task_id a = submit(w, s);
		core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
		pass(w, 10);
		w->now.wall_ms += jump;
		pass(w, 45);
		assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
		pass(w, 6);
		assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
		end_world(w);
	}
}

/* The machine slept, which the wall clock tells and ours does not count; what woke it set the clock. */
static void a_limit_stands_still_while_the_machine_sleeps(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct spec *s = spec_of(1000, 1);
	s->time_limit_s = 60;
	task_id a = submit(w, s);
	core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
	pass(w, 10);
	w->now.wall_ms += 8 * 3600000 + 2000;
	core_clock_set(w->c, 2000, w->now);
	pass(w, 45);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 6);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	end_world(w);
}

/* Another limit counts from the same beginning. */
static void a_limit_can_be_changed_while_the_task_runs(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(1000, 1));
	struct event ev = { .u.updated = { .set_time_limit = true, .time_limit_s = 100 } };
	core_started(w->c, a, (struct proc_id){ 100, 1 }, w->now);
	pass(w, 50);
	assert_int_equal(core_update(w->c, a, &ev, w->now, NULL), 0);
	pass(w, 48);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_NONE);
	pass(w, 3);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_TIME_LIMIT);
	end_world(w);
}

static void stale_drained_and_vanished_gpus_get_nothing(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	core_drain(w->c, "GPU-1", true);
	task_id a = submit(w, spec_of(30000, 1)), b = submit(w, spec_of(30000, 1));
	assert_string_equal(gpu_of(w, a), "GPU-0");
	assert_int_equal(state(w, b), TASK_PENDING);
	core_drain(w->c, "GPU-1", false);
	w->n_gpus = 1;	/* and now it is gone */
	pass(w, 12);
	assert_int_equal(state(w, b), TASK_PENDING);
	w->n_gpus = 2;
	pass(w, 1);
	assert_string_equal(gpu_of(w, b), "GPU-1");
	end_world(w);
}

/* Each time one thing alone changes that keeps the head of the queue from its GPU. */
static void a_blocked_queue_goes_on_as_soon_as_something_helps(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	core_drain(w->c, "GPU-0", true);
	task_id drained = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, drained), TASK_PENDING);
	core_drain(w->c, "GPU-0", false);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, drained), TASK_RUNNING);
	exits(w, drained, 0, SCAN_NOTHING);

	w->now.mono_ms += 20000;
	task_id stale = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, stale), TASK_PENDING);
	sample(w);
	assert_int_equal(state(w, stale), TASK_RUNNING);

	hold_memory(w, stale, 5000);
	w->smact = .95;
	pass(w, 100);
	task_id busy = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, busy), TASK_PENDING);
	w->smact = .1;
	pass(w, 95);
	assert_int_equal(state(w, busy), TASK_RUNNING);
	hold_memory(w, busy, 5000);

	pass(w, 100);
	task_id large = submit(w, spec_of(38000, 1)), behind = submit(w, spec_of(5000, 1));
	struct spec *first = spec_of(5000, 1);
	assert_int_equal(state(w, large), TASK_PENDING);
	assert_int_equal(state(w, behind), TASK_PENDING);
	first->priority = 9;
	assert_int_equal(state(w, submit(w, first)), TASK_RUNNING);
	pass(w, 1);
	struct event too_large = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 50000 } };
	assert_int_equal(core_update(w->c, large, &too_large, w->now, NULL), -1);
	struct event smaller = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 6000 } };
	assert_int_equal(core_update(w->c, large, &smaller, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, large), TASK_RUNNING);
	end_world(w);
}

static void what_no_gpu_has_is_refused(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	struct error err = ERROR_INIT;
	struct spec *big = spec_of(50000, 1), *many = spec_of(0, 3);
	assert_int_equal(core_feasible(w->c, big, &err), -1);
	assert_int_equal(core_feasible(w->c, many, &err), -1);
	spec_unref(big);
	spec_unref(many);
	end_world(w);
}

static void people_hold_release_cancel_and_requeue(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct error err = ERROR_INIT;
	struct spec *s = spec_of(1000, 1);
	s->hold = true;
	task_id a = submit(w, s);
	assert_int_equal(state(w, a), TASK_HELD);
	assert_int_equal(core_hold(w->c, a, 1000, w->now, &err), -1);
	assert_int_equal(core_release(w->c, a, 1000, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(core_requeue(w->c, a, 1000, w->now, NULL), 0);
	assert_int_equal(core_task(w->c, a)->stopping, STOP_REQUEUE);
	exits(w, a, 143, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(core_task(w->c, a)->n_attempts, 2);
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
	exits(w, a, 143, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_CANCELLED);
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, &err), -1);
	end_world(w);
}

/* Of 30,000 MiB, running, as a store would have it. */
static struct task *stored_running(struct world *w)
{
	task_id a = submit(w, spec_of(30000, 1));
	struct spec *same = spec_ref(core_task(w->c, a)->spec);
	struct task *t = task_create(a, same);
	struct event submitted = { .kind = EV_SUBMITTED, .task = a, .t_ms = w->now.wall_ms };
	struct event estimated = { .kind = EV_ESTIMATED, .task = a, .u.estimate = core_task(w->c, a)->estimate };
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	struct event placed = { .kind = EV_PLACED, .task = a, .t_ms = w->now.wall_ms,
		.u.placed = { .gpus = gpus, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = 30000 } };
	task_apply(t, &submitted, NULL);
	task_apply(t, &estimated, NULL);
	task_apply(t, &placed, NULL);
	return t;
}

static void a_restored_core_holds_what_runs(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL), *again = new_world(1, NULL);
	struct task *t = stored_running(w);
	task_id a = t->id;
	end_world(w);
	core_restore(again->c, t, again->now);
	again->next_job = 1;
	sample(again);
	task_id b = submit(again, spec_of(30000, 1));
	assert_int_equal(state(again, a), TASK_RUNNING);
	assert_int_equal(state(again, b), TASK_PENDING);
	end_world(again);
}

/* It ended an hour after its start, while radd was stopped for a day: it is not to pay for the day. What is said of an end that
 * was there to be noticed counts for nothing. */
static void who_ended_while_radd_was_stopped_ended_then(void **unused)
{
	(void)unused;
	static const struct { int64_t said_s, noticed_s, ended_s; } rows[] = {
		{ 3600, 0, 3600 }, { 0, 0, 86400 }, { 3600, 120, 86520 }, { 90000, 0, 86400 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct world *w = new_world(1, NULL), *again = new_world(1, NULL);
		struct task *t = stored_running(w);
		int64_t start_ms = w->now.wall_ms;
		again->now.wall_ms = start_ms + 86400000;
		core_restore(again->c, t, again->now);
		again->now.wall_ms += rows[i].noticed_s * 1000;
		again->now.mono_ms += rows[i].noticed_s * 1000;
		const struct exit_report r = { .have_record = true, .ended_ms = rows[i].said_s ? start_ms + rows[i].said_s * 1000 : 0 };
		core_exited(again->c, t->id, &r, again->now);	/* it is gone from the core then */
		assert_int_equal(again->n_log, 1);
		assert_int_equal(again->log[0].state, TASK_COMPLETED);
		assert_int_equal((again->log[0].t_ms - start_ms) / 1000, rows[i].ended_s);
		end_world(again);
		end_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_go_where_memory_is_and_the_claim_is_held_at_once),
		cmocka_unit_test(an_out_of_memory_is_rerun_alone_and_neighbours_go_on),
		cmocka_unit_test(the_first_tasks_on_an_idle_gpu_meet_a_known_load),
		cmocka_unit_test(unestimated_tasks_wait_for_each_other_to_get_warm),
		cmocka_unit_test(two_unestimated_tasks_start_on_an_empty_gpu),
		cmocka_unit_test(memory_that_may_still_grow_is_believed_late),
		cmocka_unit_test(in_company_what_was_expected_is_believed_early),
		cmocka_unit_test(a_lone_out_of_memory_on_an_open_gpu_is_final),
		cmocka_unit_test(kept_gpus_are_given_up_after_a_while),
		cmocka_unit_test(mps_clients_that_die_together_are_one_cohort),
		cmocka_unit_test(who_waits_for_a_verdict_can_be_cancelled_or_requeued),
		cmocka_unit_test(one_client_that_dies_alone_is_guilty),
		cmocka_unit_test(who_has_an_error_of_its_own_waits_for_nobody),
		cmocka_unit_test(who_waits_for_a_verdict_is_not_stopped),
		cmocka_unit_test(clients_that_were_not_there_together_are_no_cohort),
		cmocka_unit_test(an_attempt_ends_when_its_processes_do),
		cmocka_unit_test(an_end_that_nobody_saw_has_no_exit_code),
		cmocka_unit_test(who_ended_while_radd_was_stopped_ended_then),
		cmocka_unit_test(a_drained_gpu_is_known_before_it_is_read),
		cmocka_unit_test(arrays_keep_to_their_limit),
		cmocka_unit_test(an_expected_load_says_so), cmocka_unit_test(dependencies_open_and_never_open),
		cmocka_unit_test(a_task_begins_at_its_time),
		cmocka_unit_test(a_restart_begins_by_the_clock_as_it_is_set),
		cmocka_unit_test(an_array_after_an_array_is_no_square),
		cmocka_unit_test(many_tasks_after_an_array_are_no_square),
		cmocka_unit_test(a_requeued_task_is_waited_for),
		cmocka_unit_test(limits_warn_then_stop),
		cmocka_unit_test(limits_do_not_follow_the_wall_clock),
		cmocka_unit_test(a_limit_stands_still_while_the_machine_sleeps),
		cmocka_unit_test(a_limit_can_be_changed_while_the_task_runs),
		cmocka_unit_test(who_was_no_client_is_no_part_of_a_cohort), cmocka_unit_test(stale_drained_and_vanished_gpus_get_nothing),
		cmocka_unit_test(a_blocked_queue_goes_on_as_soon_as_something_helps),
		cmocka_unit_test(what_no_gpu_has_is_refused),
		cmocka_unit_test(people_hold_release_cancel_and_requeue),
		cmocka_unit_test(a_restored_core_holds_what_runs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
