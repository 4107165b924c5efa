/* SPDX-License-Identifier: MIT
 * What an end comes to: running out of memory and going again alone, faults that several meet at once, ends that nobody saw.
 */
#include "core/pass_private.h"
#include "core/test_world.h"

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

/* `words`: somebody sets a limit of his own each second. */
static void pass_with(struct world *w, int seconds, bool words)
{
	for (int i = 0; i < seconds; i++) {
		if (words)
			core_reconsider(w->c);
		pass(w, 1);
	}
}

static void kept_for_a_while(bool words)
{
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
	pass_with(w, 15, words);
	assert_int_equal(state(w, o), TASK_PENDING);	/* GPU 1 has room, but it is to run alone */
	pass_with(w, 10, words);
	assert_string_equal(gpu_of(w, o), "GPU-1");	/* beside n3 after all, with a larger claim */
	assert_true(task_attempt(core_task(w->c, o))->claim_mib >= 20900 + 5120);
	end_world(w);
}

static void kept_gpus_are_given_up_after_a_while(void **unused)
{
	(void)unused;
	kept_for_a_while(false);
	kept_for_a_while(true);
}

/* Neither alone nor with a larger claim it has a place: what is over is over once, and not at each turn of the loop. */
static void what_is_over_asks_for_one_pass(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.recover.keep_max_ms = 20000;
	config.map.max_smact = 1;
	config.fence = false;
	struct world *w = new_world(1, &config);
	task_id stays = submit(w, spec_of(20000, 1)), o = submit(w, spec_of(5000, 1));
	hold_memory(w, stays, 20000);
	hold_memory(w, o, 20900);
	pass(w, 3);
	exits(w, o, 1, SCAN_GPU_OOM);
	assert_int_equal(fleet_kept_for(w->c->fleet, 0), o);
	pass(w, 30);
	assert_int_equal(state(w, o), TASK_PENDING);
	assert_int_equal(fleet_kept_for(w->c->fleet, 0), o);
	assert_false(w->c->pass->asked);
	end_world(w);
}

static struct spec *on_large_ones(uint64_t mib)
{
	struct spec *s = spec_of(mib, 1);
	s->constraint = alloc_string("mem>30G");
	return s;
}

/* The other one is idle, and of no use to it. */
static void a_gpu_that_it_may_not_use_is_not_kept_for_it(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	config.fence = false;
	struct world *w = new_world(2, &config);
	w->last_mib = 24576;
	pass(w, 2);
	task_id stays = submit(w, on_large_ones(20000)), oom = submit(w, on_large_ones(5000));
	assert_string_equal(gpu_of(w, oom), "GPU-0");
	hold_memory(w, stays, 20000);
	hold_memory(w, oom, 20900);
	pass(w, 3);
	exits(w, oom, 1, SCAN_GPU_OOM);
	assert_true(core_task(w->c, oom)->exclusive_next);
	assert_int_equal(fleet_kept_for(w->c->fleet, 0), oom);
	assert_string_equal(gpu_of(w, submit(w, spec_of(1000, 1))), "GPU-1");
	end_world(w);
}

/* It would be waited for until somebody mends it, while the other empties. */
static void a_kept_gpu_that_falls_silent_is_exchanged(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.max_smact = 1;
	config.fence = false;
	struct world *w = new_world(2, &config);
	task_id n1 = submit(w, spec_of(20000, 1)), n2 = submit(w, spec_of(20000, 1)), n3 = submit(w, spec_of(5000, 1)),
		oom = submit(w, spec_of(5000, 1));
	assert_string_equal(gpu_of(w, oom), "GPU-1");
	hold_memory(w, oom, 20900);
	pass(w, 3);
	exits(w, oom, 1, SCAN_GPU_OOM);
	assert_int_equal(fleet_kept_for(w->c->fleet, 1), oom);
	w->n_gpus = 1;
	pass(w, 2);
	assert_int_equal(fleet_kept_for(w->c->fleet, 0), oom);
	assert_int_equal(fleet_kept_for(w->c->fleet, 1), 0);
	exits(w, n1, 0, SCAN_NOTHING);
	exits(w, n3, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_string_equal(gpu_of(w, oom), "GPU-0");
	assert_int_equal(state(w, n2), TASK_RUNNING);
	end_world(w);
}

/* An error of a library is taken for a lack of memory where the GPU was full. Whether it was is not known of one that fell off
 * the bus, which is why the task failed, or of which there was no word for long. */
static void a_gpu_that_does_not_answer_is_not_known_to_be_full(void **unused)
{
	(void)unused;
	static const enum verdict verdicts[] = { VERDICT_OOM, VERDICT_FAILED, VERDICT_FAILED };
	for (unsigned how = 0; how < COUNT_OF(verdicts); how++) {
		struct world *w = new_world(1, NULL);
		struct spec *s = spec_of(40000, 1);
		struct exit_report r = { .have_record = true, .exit_code = 1 };
		s->exclusive = true;
		task_id id = submit(w, s);
		hold_memory(w, id, 40900);
		pass(w, 3);
		w->fallen = how == 1;
		w->n_gpus = how == 2 ? 0 : 1;
		pass(w, how == 2 ? 90 : 3);
		r.output.kind = SCAN_OTHER_ERROR;
		snprintf(r.output.source, sizeof r.output.source, "cuDNN");
		core_exited(w->c, id, &r, w->now);
		assert_int_equal(w->log[w->n_log - 1].kind, EV_ENDED);
		assert_int_equal(w->log[w->n_log - 1].verdict, verdicts[how]);
		end_world(w);
	}
}

static void mps_clients_that_die_together_are_one_cohort(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id ids[3];
	submit_clients(w, 3, ids);
	exits(w, ids[0], 1, SCAN_DEVICE_FAULT);
	assert_int_equal(state(w, ids[0]), TASK_RUNNING);	/* the verdict waits for the others */
	w->now.mono_ms += 1000;
	exits(w, ids[1], 1, SCAN_DEVICE_FAULT);
	pass(w, 10);
	for (unsigned i = 0; i < w->n_log; i++)
		if (w->log[i].kind == EV_ENDED)
			assert_int_equal(w->log[i].verdict, VERDICT_NEIGHBOUR);
	assert_true(!task_state_terminal(state(w, ids[0])) && !task_state_terminal(state(w, ids[1])));
	assert_int_equal(state(w, ids[2]), TASK_RUNNING);
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
	assert_int_equal(happened(w, a, EV_WARNED), 0);
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
	task_id ids[3];
	submit_clients(w, 3, ids);
	exits(w, ids[0], 1, SCAN_DEVICE_FAULT);
	exits(w, ids[1], 1, SCAN_DEVICE_FAULT);	/* with the first: both would be run again, alone */
	assert_int_equal(core_cancel(w->c, ids[0], 1000, w->now, NULL), 0);
	pass(w, 10);
	assert_int_equal(state(w, ids[0]), TASK_CANCELLED);
	assert_false(task_state_terminal(state(w, ids[1])));
	exits(w, ids[2], 1, SCAN_DEVICE_FAULT);	/* by itself, so that it would have failed */
	assert_int_equal(state(w, ids[2]), TASK_RUNNING);
	assert_int_equal(core_requeue(w->c, ids[2], 1000, w->now, NULL), 0);
	pass(w, 6);
	assert_int_equal(core_task(w->c, ids[2])->attempts[0].verdict, VERDICT_CANCELLED);
	assert_false(task_state_terminal(state(w, ids[2])));
	end_world(w);
}

static void one_client_that_dies_alone_is_guilty(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id ids[2];
	submit_clients(w, 2, ids);
	exits(w, ids[0], 1, SCAN_DEVICE_FAULT);
	pass(w, 10);
	assert_int_equal(state(w, ids[0]), TASK_FAILED);
	assert_int_equal(state(w, ids[1]), TASK_RUNNING);
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
	later(w, 500);
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
	task_id ids[2];
	submit_clients(w, 2, ids);
	int64_t exit_ms = w->now.wall_ms;
	exits(w, ids[0], 1, SCAN_OTHER_ERROR);
	pass(w, 10);
	int64_t ended_ms = 0;
	for (unsigned i = 0; i < w->n_log; i++)
		if (w->log[i].kind == EV_ENDED)
			ended_ms = w->log[i].t_ms;
	assert_int_equal(state(w, ids[0]), TASK_FAILED);
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

/* A larger GPU that it may not use is none: it ran alone on as much as there is for it. */
static void the_largest_gpu_is_one_that_it_may_use(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	w->last_mib = 24576;
	pass(w, 2);
	struct spec *bound = spec_of(20000, 1);
	bound->constraint = alloc_string("mem<30G");
	bound->exclusive = true;
	task_id a = submit(w, bound);
	assert_string_equal(gpu_of(w, a), "GPU-1");
	exits(w, a, 1, SCAN_GPU_OOM);
	assert_int_equal(core_task(w->c, a) ? state(w, a) : TASK_OUT_OF_MEMORY, TASK_OUT_OF_MEMORY);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_out_of_memory_is_rerun_alone_and_neighbours_go_on),
		cmocka_unit_test(a_lone_out_of_memory_on_an_open_gpu_is_final),
		cmocka_unit_test(kept_gpus_are_given_up_after_a_while),
		cmocka_unit_test(what_is_over_asks_for_one_pass),
		cmocka_unit_test(a_gpu_that_it_may_not_use_is_not_kept_for_it),
		cmocka_unit_test(a_kept_gpu_that_falls_silent_is_exchanged),
		cmocka_unit_test(a_gpu_that_does_not_answer_is_not_known_to_be_full),
		cmocka_unit_test(mps_clients_that_die_together_are_one_cohort),
		cmocka_unit_test(who_waits_for_a_verdict_is_not_stopped),
		cmocka_unit_test(who_waits_for_a_verdict_can_be_cancelled_or_requeued),
		cmocka_unit_test(one_client_that_dies_alone_is_guilty),
		cmocka_unit_test(who_has_an_error_of_its_own_waits_for_nobody),
		cmocka_unit_test(who_was_no_client_is_no_part_of_a_cohort),
		cmocka_unit_test(clients_that_were_not_there_together_are_no_cohort),
		cmocka_unit_test(an_attempt_ends_when_its_processes_do),
		cmocka_unit_test(an_end_that_nobody_saw_has_no_exit_code),
		cmocka_unit_test(the_largest_gpu_is_one_that_it_may_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
