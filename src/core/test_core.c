/* SPDX-License-Identifier: MIT
 * The core with made-up GPUs and a clock of the test's own: where tasks go, what is held of a GPU and when it is believed, and
 * what people do to tasks.
 */
#include "core/test_world.h"

#include "models/margins.h"

#include <math.h>

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
	assert_string_equal(gpu_of(w, e), "GPU-0");	/* which is not kept for the head */
	exits(w, b, 0, SCAN_NOTHING);
	assert_int_equal(state(w, b), TASK_COMPLETED);
	assert_int_equal(state(w, d), TASK_PENDING);	/* the memory is not yet seen to be free */
	pass(w, 1);
	assert_string_equal(gpu_of(w, d), "GPU-1");
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

/* Of tasks that keep a GPU busy for a tenth of the time, none keeps its SMs busy for longer: what is not known is no half. */
static void of_a_load_that_is_known_by_half_the_rest_is_bounded(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	for (int i = 0; i < 4; i++) {
		struct spec *s = spec_of(1000, 1);
		remember_load(w, s, 0.1, NAN, 3600);
		assert_int_equal(state(w, submit(w, s)), TASK_RUNNING);
	}
	end_world(w);
}

static void so_many_of_unknown_load_start_and_the_next_when_they_were_seen(bool ledger, int many)
{
	struct core_config config = plain_config();
	config.map.ledger = ledger;
	struct world *w = new_world(1, &config);
	for (int i = 0; i < many; i++)
		assert_int_equal(state(w, submit(w, spec_of(1000, 1))), TASK_RUNNING);
	task_id next = submit(w, spec_of(1000, 1));
	assert_int_equal(state(w, next), TASK_PENDING);
	w->smact = 0.3;
	pass(w, 12);
	assert_int_equal(state(w, next), TASK_RUNNING);
	end_world(w);
}

static void four_of_unknown_load_start_at_once_and_two_without_a_ledger(void **unused)
{
	(void)unused;
	so_many_of_unknown_load_start_and_the_next_when_they_were_seen(true, 4);
	so_many_of_unknown_load_start_and_the_next_when_they_were_seen(false, 2);
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

/* A GPU of so much memory, on which nothing but that keeps tasks apart. */
static struct world *world_of(uint64_t mib)
{
	struct core_config config = core_config_default();
	config.map.max_smact = config.map.max_gract = NAN;
	config.map.max_tasks = 0;
	struct world *w = blind_world(1, &config);
	w->last_mib = mib;
	sample(w);
	return w;
}

/* Where none was seen yet, as many start as find room for what scripts usually take; the ledger holds `min_free` of it. */
static void on_a_large_gpu_more_than_two_start(void **unused)
{
	(void)unused;
	struct world *w = world_of(5 * MARGIN_USUAL_MIB);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(state(w, submit(w, spec_of(0, 1))), TASK_RUNNING);
	task_id sixth = submit(w, spec_of(0, 1));
	pass(w, 2);
	assert_int_equal(state(w, sixth), TASK_PENDING);
	assert_string_equal(reason_of(w, sixth), "Cold");
	end_world(w);
}

/* Of several signatures not all take the most that is usual: with 37 GiB for one and 8 in the mean six fit into 120 GiB. */
static void of_several_signatures_more_start(void **unused)
{
	(void)unused;
	struct world *w = world_of(120 << 10);
	for (unsigned i = 0; i < 7; i++) {
		struct spec *s = spec_of(0, 1);
		free(s->signature);
		s->signature = alloc_printf("1000:kind-%u", i);
		assert_int_equal(state(w, submit(w, s)), i < 6 ? TASK_RUNNING : TASK_PENDING);
	}
	end_world(w);
}

/* That a third of one signature does not fit says nothing of another: 111 GiB would be wanted, and 89 are. */
static void one_of_another_signature_starts_where_one_more_did_not(void **unused)
{
	(void)unused;
	struct world *w = world_of(95 << 10);
	submit(w, spec_of(0, 1));
	submit(w, spec_of(0, 1));
	task_id third = submit(w, spec_of(0, 1));
	struct spec *other = spec_of(0, 1);
	free(other->signature);
	other->signature = alloc_string("1000:other");
	assert_int_equal(state(w, submit(w, other)), TASK_RUNNING);
	assert_int_equal(state(w, third), TASK_PENDING);
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

/* Taken out of the machine after it was drained, and another is in its place: nobody waits for it; its number is another's. */
static void a_drained_gpu_that_went_away_is_no_reason(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	core_drain(w->c, "GPU-gone", true);
	pass(w, 1);
	submit(w, spec_of(30000, 1));
	task_id b = submit(w, spec_of(30000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);
	scoped_json *why = core_why_json(w->c, b, w->now, NULL), *gpus = core_gpus_json(w->c, w->now);
	assert_int_equal(json_array_size(json_object_get(gpus, "gpus")), 1);
	assert_int_equal(json_array_size(json_object_get(why, "gpus")), 1);
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "Memory");
	core_drain(w->c, "GPU-lost", true);	/* of two more, most would be drained */
	scoped_json *still = core_why_json(w->c, b, w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(still, "reason")), "Memory");
	scoped_json *wide = core_why_json(w->c, submit(w, spec_of(1000, 3)), w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(wide, "reason_text")),
			    "3 GPUs wanted, and there is only 1: ask for fewer");
	end_world(w);
}

static void whom_a_task_meets_on_two_gpus_it_is_said_to_meet_once(void **unused)
{
	(void)unused;
	struct world *w = new_world(2, NULL);
	task_id a = submit(w, spec_of(1000, 2)), b = submit(w, spec_of(1000, 2)), one = submit(w, spec_of(1000, 1));
	pass(w, 100);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, one), TASK_RUNNING);
	scoped_json *o = core_task_json(w->c, core_task(w->c, a), w->now, NULL);
	scoped_free char *with = json_dumps(json_object_get(o, "shared_with"), JSON_COMPACT);
	assert_string_equal(with, "[\"2\",\"3\"]");
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

/* While its GPU is not listed, as in prohibited mode, a task goes on, and what the GPU said last says nothing of it. */
static void what_a_gpu_said_last_is_not_what_it_does_while_it_is_away(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id id = submit(w, spec_of(30000, 1));
	struct measured m;
	hold_memory(w, id, 20000);
	pass(w, 59);
	w->smact = 0.8;
	pass(w, 20);
	assert_true(fleet_measured(w->c->fleet, id, &m));
	const double mean = m.mean_smact, alone = m.alone_smact;
	w->n_gpus = 0;
	pass(w, 120);
	assert_true(fleet_measured(w->c->fleet, id, &m));
	assert_true(m.mean_smact == mean && m.alone_smact == alone);
	assert_true(m.alone_s > 190);	/* it runs on */
	end_world(w);
}

/* A driver that hung, or a machine that was stopped: the next reading says nothing of the hour before it. */
static void a_silence_is_not_filled_with_what_comes_after_it(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id id = submit(w, spec_of(30000, 1));
	struct measured m;
	hold_memory(w, id, 20000);
	pass(w, 60);
	w->smact = 0.8;
	later(w, 3600000);
	assert_true(fleet_measured(w->c->fleet, id, &m));
	assert_true(fabs(m.mean_smact - 0.2) < 0.01 && fabs(m.alone_smact - 0.2) < 0.01);
	assert_true(m.alone_s > 3600);
	end_world(w);
}

/* As while an administrator cuts it into instances. */
static void a_gpu_that_contradicts_itself_is_not_the_largest(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct snapshot s = { .mono_ms = w->now.mono_ms, .wall_ms = w->now.wall_ms };
	struct gpu_reading *r = snapshot_add_gpu(&s);
	strcpy(r->uuid, "GPU-9");
	r->valid = GPU_MEM_TOTAL | GPU_MEM_RESERVED;
	r->mem_total_mib = 512;
	r->mem_reserved_mib = 600;
	core_snapshot(w->c, &s, CORE_MPS_APART, w->now);
	snapshot_clear(&s);
	assert_int_equal(fleet_largest_mib(w->c->fleet), 40960);
	end_world(w);
}

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
	scoped_free char *why = why_of(w, a);
	assert_non_null(strstr(why, "it is to be run again, and its processes were asked to end"));
	exits(w, a, 143, SCAN_NOTHING);
	pass(w, 1);
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(core_task(w->c, a)->n_attempts, 2);
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
	assert_int_equal(core_requeue(w->c, a, 1000, w->now, &err), -1);	/* it will be cancelled, whoever wants what */
	assert_int_equal(err.code, ERR_CONFLICT);
	exits(w, a, 143, SCAN_NOTHING);
	assert_int_equal(state(w, a), TASK_CANCELLED);
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, &err), -1);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_go_where_memory_is_and_the_claim_is_held_at_once),
		cmocka_unit_test(the_first_tasks_on_an_idle_gpu_meet_a_known_load),
		cmocka_unit_test(of_a_load_that_is_known_by_half_the_rest_is_bounded),
		cmocka_unit_test(four_of_unknown_load_start_at_once_and_two_without_a_ledger),
		cmocka_unit_test(unestimated_tasks_wait_for_each_other_to_get_warm),
		cmocka_unit_test(two_unestimated_tasks_start_on_an_empty_gpu),
		cmocka_unit_test(on_a_large_gpu_more_than_two_start), cmocka_unit_test(of_several_signatures_more_start),
		cmocka_unit_test(one_of_another_signature_starts_where_one_more_did_not),
		cmocka_unit_test(memory_that_may_still_grow_is_believed_late),
		cmocka_unit_test(in_company_what_was_expected_is_believed_early),
		cmocka_unit_test(whom_a_task_meets_on_two_gpus_it_is_said_to_meet_once),
		cmocka_unit_test(a_drained_gpu_is_known_before_it_is_read),
		cmocka_unit_test(a_drained_gpu_that_went_away_is_no_reason),
		cmocka_unit_test(an_expected_load_says_so),
		cmocka_unit_test(stale_drained_and_vanished_gpus_get_nothing),
		cmocka_unit_test(a_silence_is_not_filled_with_what_comes_after_it),
		cmocka_unit_test(what_a_gpu_said_last_is_not_what_it_does_while_it_is_away),
		cmocka_unit_test(a_gpu_that_contradicts_itself_is_not_the_largest),
		cmocka_unit_test(a_blocked_queue_goes_on_as_soon_as_something_helps),
		cmocka_unit_test(what_no_gpu_has_is_refused),
		cmocka_unit_test(people_hold_release_cancel_and_requeue),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
