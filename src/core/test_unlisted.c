/* SPDX-License-Identifier: MIT
 * Memory that no process is listed with: the task's that was alone there while it came, everybody else's problem otherwise.
 */
#include "core/fleet_private.h"
#include "core/test_world.h"

static struct fleet_gpu look(const struct world *w)
{
	return fleet_look(w->c->fleet, (uint32_t)fleet_slot_of(w->c->fleet, uuid_of(0)), w->now.mono_ms);
}

static uint64_t peak_of(const struct world *w, task_id id)
{
	return fleet_metered(fleet_run(w->c->fleet, id)).peak_mib;
}

static uint64_t observed_of(const struct world *w, task_id id)
{
	return ledger_find(&w->c->fleet->slots[fleet_slot_of(w->c->fleet, uuid_of(0))]->ledger, id)->observed_mib;
}

/* One GPU that was seen without tasks, if only once, and what others had in use there. */
static struct world *seen_idle(uint64_t foreign_mib)
{
	struct world *w = new_world(1, NULL);
	w->foreign_mib = foreign_mib;
	if (foreign_mib)
		pass(w, UNLISTED_READINGS);
	return w;
}

static task_id start(struct world *w, uint64_t mib)
{
	task_id id = submit(w, spec_of(6000, 1));
	assert_string_equal(gpu_of(w, id), "GPU-0");
	hold_memory(w, id, mib);
	pass(w, 1);
	return id;
}

static void what_comes_while_one_is_alone_is_its_own(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(0);
	task_id a = start(w, 700);
	w->foreign_mib = 3300;
	pass(w, UNLISTED_READINGS);
	assert_int_equal(look(w).foreign_mib, 0);
	assert_int_equal(peak_of(w, a), 4000);
	end_world(w);
}

static void what_was_there_before_is_not(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(900);
	task_id a = start(w, 700);
	pass(w, UNLISTED_READINGS);
	assert_int_equal(look(w).foreign_mib, 900);
	w->foreign_mib = 900 + 3300;
	pass(w, UNLISTED_READINGS);
	assert_int_equal(look(w).foreign_mib, 900);
	assert_int_equal(core_task(w->c, a)->state, TASK_RUNNING);
	end_world(w);
}

/* The GPU's memory was read just before the list of its processes. */
static void what_was_not_listed_yet_is_not(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(0);
	task_id a = start(w, 700);
	for (int i = 0; i < 5; i++) {
		w->foreign_mib = 3300;
		pass(w, UNLISTED_READINGS - 1);
		assert_int_equal(look(w).foreign_mib, 3300);
		w->foreign_mib = 0;
		pass(w, 1);
	}
	assert_int_equal(peak_of(w, a), 700);
	end_world(w);
}

static void in_company_nobody_can_tell(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(0);
	task_id a = start(w, 700);
	w->foreign_mib = 3000;
	pass(w, UNLISTED_READINGS);
	task_id b = start(w, 500);
	w->foreign_mib = 3000 + 2000;
	pass(w, UNLISTED_READINGS);
	assert_int_equal(look(w).foreign_mib, 2000);	/* the first one keeps what it was known to have */
	w->foreign_mib = 1000;
	pass(w, 1);
	assert_int_equal(look(w).foreign_mib, 0);
	assert_int_equal(observed_of(w, a), 1700);	/* but not what is gone */
	w->foreign_mib = 5000;
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 1);	/* what the first one had was not given back yet */
	w->foreign_mib = 2000;
	pass(w, UNLISTED_READINGS);
	assert_int_equal(look(w).foreign_mib, 0);	/* now it can be told */
	assert_int_equal(peak_of(w, b), 2500);
	end_world(w);
}

/* Whether it is listed, or says itself that it has a task there. */
static void a_foreigner_is_company(void **unused)
{
	(void)unused;
	struct core_claim claim = { .uid = 1001, .n_tasks = 1 };
	memcpy(claim.uuid, uuid_of(0), strlen(uuid_of(0)) + 1);
	for (int listed = 0; listed < 2; listed++) {
		struct world *w = seen_idle(0);
		task_id a = start(w, 700);
		w->foreigner = listed;
		if (!listed)
			fleet_set_others(w->c->fleet, &claim, 1);
		w->foreign_mib = 3300;
		pass(w, UNLISTED_READINGS);
		assert_int_equal(observed_of(w, a), 700);
		fleet_set_others(w->c->fleet, NULL, 0);
		w->foreigner = false;
		pass(w, 1);	/* its memory was read before the list of processes */
		assert_int_equal(observed_of(w, a), 700);
		pass(w, UNLISTED_READINGS - 1);
		assert_int_equal(observed_of(w, a), 4000);
		end_world(w);
	}
}

/* A process that is adopted, or comes from another GPU, was there before its task was. */
static void what_a_foreigner_had_was_not_there_before(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(0);
	w->foreigner = true;
	w->foreign_mib = 900;
	pass(w, UNLISTED_READINGS);
	task_id a = start(w, 700);
	w->foreigner = false;
	pass(w, UNLISTED_READINGS);
	assert_int_equal(observed_of(w, a), 1600);
	end_world(w);
}

/* After a restart it may all have been there before. */
static void a_gpu_that_was_never_seen_without_tasks_tells_nothing(void **unused)
{
	(void)unused;
	struct world *w = seen_idle(0);
	start(w, 700);
	struct slot *slot = w->c->fleet->slots[fleet_slot_of(w->c->fleet, uuid_of(0))];
	slot->unlisted = (struct unlisted){ 0 };
	w->foreign_mib = 3300;
	pass(w, 10);
	assert_int_equal(look(w).foreign_mib, 3300);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_while_one_is_alone_is_its_own),
		cmocka_unit_test(what_was_there_before_is_not),
		cmocka_unit_test(what_was_not_listed_yet_is_not),
		cmocka_unit_test(in_company_nobody_can_tell),
		cmocka_unit_test(a_foreigner_is_company),
		cmocka_unit_test(what_a_foreigner_had_was_not_there_before),
		cmocka_unit_test(a_gpu_that_was_never_seen_without_tasks_tells_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
