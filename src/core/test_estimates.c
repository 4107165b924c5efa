/* SPDX-License-Identifier: MIT
 * Estimates in the core: what ended tasks teach the ones that wait.
 */
#include "core/test_world.h"

#include <math.h>

/* Runs one task of that memory until it is warm, and ends it well. */
static void teach(struct world *w, uint64_t mib)
{
	task_id a = submit(w, spec_of(0, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	hold_memory(w, a, mib);
	pass(w, 100);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_COMPLETED);
}

static void the_second_task_of_a_sweep_is_placed_on_knowledge(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(0, 1)), b = submit(w, spec_of(0, 1)), c = submit(w, spec_of(0, 1));
	hold_memory(w, a, 8000);
	pass(w, 8);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_PENDING);	/* nothing is known: two at a time */
	pass(w, 12);
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, c), TASK_RUNNING);
	const struct estimate *e = &core_task(w->c, c)->estimate;
	assert_string_equal(e->estimator, "history");
	assert_string_equal(e->note, "1 earlier run took 8000 MiB");
	assert_int_equal(e->claim_mib, 8401);
	assert_int_equal(task_attempt(core_task(w->c, c))->fence_mib, 8401 + 256);	/* worked out: an eighth of the slack more */
	/* A task of another signature knows nothing. */
	struct spec *other = spec_of(0, 1);
	other->batch_size = 7;
	other->signature[0] = '2';
	task_id d = submit(w, other);
	assert_string_equal(core_task(w->c, d)->estimate.estimator, "none");
	end_world(w);
}

/* It starts as soon as that is known, though nothing moved on the GPU. */
static void of_whom_nothing_is_known_as_many_start_as_usually_fit(void **unused)
{
	(void)unused;
	struct core_config config = core_config_default();
	config.map.max_smact = config.map.max_gract = NAN;
	struct world *w = new_world(1, &config);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(state(w, submit(w, spec_of(0, 1))), TASK_RUNNING);
	task_id third = submit(w, spec_of(0, 1));
	pass(w, 2);
	assert_int_equal(state(w, third), TASK_PENDING);
	for (unsigned i = 0; i < HISTORY_USUAL_LEAST; i++) {
		char signature[] = "u1-kind-a";
		signature[8] += (char)i;
		struct outcome o = { .told_ms = 1, .signature = signature, .gpu_name = w->gpu_name, .estimator = "none",
			.verdict = VERDICT_OK, .seen = { .peak_mib = 4000, .warm = true } };
		core_remember(w->c, &o);
	}
	pass(w, 1);
	assert_int_equal(state(w, third), TASK_RUNNING);
	end_world(w);
}

static void a_declaration_comes_before_history(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	teach(w, 8000);
	struct spec *s = spec_of(0, 1);
	s->gpu_mem_mib = 5000;
	task_id a = submit(w, s);
	assert_string_equal(core_task(w->c, a)->estimate.estimator, "declared");
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 5000);
	end_world(w);
}

/* Looking again at a task that waits leaves no trace while it comes to the same. */
static void the_same_estimate_is_said_once(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	unsigned said = 0;
	teach(w, 8000);
	submit(w, spec_of(38000, 1));
	task_id a = submit(w, spec_of(0, 1));
	struct outcome o = { .told_ms = w->now.wall_ms + 5000, .signature = core_task(w->c, a)->spec->signature,
		.gpu_name = w->gpu_name, .estimator = "none", .verdict = VERDICT_OK, .seen = { .peak_mib = 7000, .warm = true } };
	core_remember(w->c, &o);
	pass(w, 4);
	assert_int_equal(state(w, a), TASK_PENDING);
	for (unsigned i = 0; i < w->n_log; i++)
		said += w->log[i].task == a && w->log[i].kind == EV_ESTIMATED;
	assert_int_equal(said, 1);
	o.seen.peak_mib = 9000;
	o.told_ms++;
	core_remember(w->c, &o);
	pass(w, 4);
	assert_int_equal(state(w, a), TASK_PENDING);
	assert_int_equal(core_task(w->c, a)->estimate.comfort_mib, 9000);
	end_world(w);
}

static void a_chosen_estimator_alone_is_asked(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	struct estimator chosen = *estimate_find("declared", NULL);
	config.estimator = &chosen;
	for (int baseline = 0; baseline < 2; baseline++) {
		chosen.baseline = baseline;	/* which `auto` would pass over */
		struct world *w = new_world(1, &config);
		teach(w, 8000);
		task_id a = submit(w, spec_of(0, 1)), b = submit(w, spec_of(3000, 1));
		assert_string_equal(core_task(w->c, a)->estimate.estimator, "none");
		assert_string_equal(core_task(w->c, b)->estimate.estimator, "declared");
		end_world(w);
	}
}

static void other_models_of_gpu_have_a_wider_margin(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	teach(w, 8000);
	w->gpu_name = "NVIDIA H200";	/* the machine has two models from now on */
	pass(w, 1);
	task_id a = submit(w, spec_of(0, 1));
	assert_int_equal(core_task(w->c, a)->estimate.claim_mib, 8000 + 2001);
	assert_non_null(strstr(core_task(w->c, a)->estimate.note, "NVIDIA A100"));
	end_world(w);
}

static void one_out_of_memory_raises_its_signature(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.fence = false;
	struct world *w = new_world(1, &config);
	struct spec *full = spec_of(33000, 1);
	task_id n = submit(w, full), a = submit(w, spec_of(0, 1)), b = submit(w, spec_of(0, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, b), TASK_PENDING);
	hold_memory(w, n, 33000);
	hold_memory(w, a, 7000);
	pass(w, 3);
	exits(w, a, 1, SCAN_GPU_OOM);
	assert_int_equal(core_task(w->c, a)->queue, QUEUE_RECOVERY);
	uint64_t next = core_task(w->c, a)->claim_floor_mib;
	exits(w, n, 0, SCAN_NOTHING);
	pass(w, 1);
	hold_memory(w, a, 7000);
	pass(w, 100);
	/* It joins once the first is warm, and asks for more than that had when it failed. */
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_true(task_attempt(core_task(w->c, b))->claim_mib > 7000);
	assert_true(task_attempt(core_task(w->c, b))->claim_mib <= next);
	assert_non_null(strstr(core_task(w->c, b)->estimate.note, "ran out of memory"));
	/* The whole run is better knowledge: the one after it is held at what that took. */
	exits(w, a, 0, SCAN_NOTHING);
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 1);
	task_id c = submit(w, spec_of(0, 1));
	assert_int_equal(core_task(w->c, c)->estimate.claim_mib, 7000 + 351);
	end_world(w);
}

/* Its siblings take the same step, until it is seen how much of it was for nothing. */
static void what_a_context_lacked_is_taken_back(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	w->mps_together = true;
	pass(w, 1);
	task_id a = submit(w, spec_of(300, 1));
	exits(w, a, 1, SCAN_GPU_OOM);
	assert_int_equal(core_task(w->c, a)->claim_floor_mib, 300 + 5120);
	task_id b = submit(w, spec_of(300, 1));
	assert_int_equal(core_task(w->c, b)->estimate.claim_mib, 300 + 5120);
	core_cancel(w->c, b, 1000, w->now, NULL);
	pass(w, 1);
	assert_int_equal(task_attempt(core_task(w->c, a))->fence_mib, 300 + 5120);	/* declared: no more than the claim */
	hold_memory(w, a, 726);
	pass(w, 100);
	exits(w, a, 0, SCAN_NOTHING);
	task_id c = submit(w, spec_of(300, 1));
	assert_int_equal(core_task(w->c, c)->estimate.claim_mib, 726 + 256);
	end_world(w);
}

static void what_a_task_does_alone_is_expected_of_the_next(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct load l;
	w->smact = 0.3;
	teach(w, 8000);
	w->smact = 0;
	pass(w, 100);
	submit(w, spec_of(0, 1));
	l = fleet_look(w->c->fleet, 0, w->now.mono_ms).load;
	assert_true(l.smact > 0.29 && l.smact < 0.31);
	assert_true(l.gract > 0.29 && l.gract < 0.31);
	struct spec *other = spec_of(1000, 1);
	submit(w, other);
	l = fleet_look(w->c->fleet, 0, w->now.mono_ms).load;
	assert_true(l.smact > 0.55 && l.smact < 0.57);	/* nothing is known of that one: 0.26 */
	assert_true(l.gract > 0.79 && l.gract < 0.81);	/* and 0.5 */
	end_world(w);
}

/* Two that are never alone: what the GPU shows of both says something of each, and the next run knows it as what it is. */
static void what_tasks_do_in_company_is_inferred_and_learnt(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.fence = false;
	struct world *w = new_world(1, &config);
	task_id a = submit(w, spec_of(4000, 1)), b = submit(w, spec_of(5000, 1));
	struct measured m;
	hold_memory(w, a, 3900);
	hold_memory(w, b, 4900);
	w->smact = 1.5;	/* no such figure */
	pass(w, 10);
	assert_true(fleet_measured(w->c->fleet, a, &m));
	assert_int_equal(m.inferred.source, LOAD_UNKNOWN);
	w->smact = 0.3;
	pass(w, 20);
	assert_true(fleet_measured(w->c->fleet, a, &m));
	assert_int_equal(m.inferred.source, LOAD_INFERRED);
	assert_true(m.inferred.load.smact < 0.3 && m.inferred.smact_sd > LOAD_LEAST_SD);
	exits(w, a, 0, SCAN_NOTHING);
	task_id next = submit(w, spec_of(4000, 1));
	struct load_belief l = estimates_load(w->c->estimates, core_task(w->c, next), "NVIDIA A100");
	assert_int_equal(l.source, LOAD_INFERRED);
	assert_true(l.load.smact < 0.3 && l.smact_sd >= LOAD_LEAST_SD);
	hold_memory(w, next, 3900);
	pass(w, 5);
	exits(w, next, 0, SCAN_NOTHING);
	pass(w, 60);	/* alone: measured, so nobody is left to learn of, */
	task_id last = submit(w, spec_of(4000, 1));
	exits(w, last, 0, SCAN_NOTHING);
	assert_true(fleet_measured(w->c->fleet, b, &m));	/* and what company showed of it is kept */
	assert_int_equal(m.inferred.source, LOAD_INFERRED);
	end_world(w);
}

/* While memory still grows a task is not what it will be: that stretch says nothing of it. */
static void what_loads_teaches_no_load(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id a = submit(w, spec_of(4000, 1)), b = submit(w, spec_of(8000, 1));
	struct measured m;
	w->smact = 0.3;
	hold_memory(w, a, 3900);
	for (int i = 0; i < 10; i++) {
		hold_memory(w, b, 500);
		pass(w, 2);
	}
	assert_true(fleet_measured(w->c->fleet, b, &m));
	assert_int_equal(m.inferred.source, LOAD_UNKNOWN);
	pass(w, 5);
	assert_true(fleet_measured(w->c->fleet, b, &m));
	assert_int_equal(m.inferred.source, LOAD_INFERRED);
	end_world(w);
}

static void what_was_learnt_survives_a_restart(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.fence = false;
	struct world *w = new_world(1, &config), *again = new_world(1, NULL);
	w->learns = again->c;
	teach(w, 8000);
	w->smact = 0.6;
	teach(w, 9000);
	task_id a = submit(w, spec_of(0, 1)), b = submit(again, spec_of(0, 1));
	const struct estimate *x = &core_task(w->c, a)->estimate, *y = &core_task(again->c, b)->estimate;
	assert_string_equal(x->note, y->note);
	assert_int_equal(x->claim_mib, 9000 + 451);
	assert_int_equal(x->claim_mib, y->claim_mib);
	assert_int_equal(x->fenced, y->fenced);
	assert_string_equal(x->note, "2 earlier runs took up to 9000 MiB");
	struct share_task h = estimates_load(w->c->estimates, core_task(w->c, a), "NVIDIA A100").load;
	struct share_task k = estimates_load(again->c->estimates, core_task(w->c, a), "NVIDIA A100").load;
	assert_true(h.gract == k.gract && h.smact == k.smact && isfinite(h.gract));
	end_world(w);
	end_world(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_task_of_a_sweep_is_placed_on_knowledge),
		cmocka_unit_test(of_whom_nothing_is_known_as_many_start_as_usually_fit),
		cmocka_unit_test(a_declaration_comes_before_history),
		cmocka_unit_test(the_same_estimate_is_said_once),
		cmocka_unit_test(a_chosen_estimator_alone_is_asked),
		cmocka_unit_test(other_models_of_gpu_have_a_wider_margin),
		cmocka_unit_test(one_out_of_memory_raises_its_signature),
		cmocka_unit_test(what_a_context_lacked_is_taken_back),
		cmocka_unit_test(what_a_task_does_alone_is_expected_of_the_next),
		cmocka_unit_test(what_tasks_do_in_company_is_inferred_and_learnt),
		cmocka_unit_test(what_loads_teaches_no_load),
		cmocka_unit_test(what_was_learnt_survives_a_restart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
