/* SPDX-License-Identifier: MIT
 * Suspended tasks: who may stop and resume them, and what is measured and believed of them meanwhile.
 */
#include "core/test_world.h"

#include <math.h>

#define ROOT 0
#define OWNER 1000
#define ADA 2000

static task_id runs_on_0(struct world *w)
{
	task_id id = submit(w, spec_of(10000, 1));
	core_started(w->c, id, (struct proc_id){ 100, 1 }, w->now);
	hold_memory(w, id, 10000);
	pass(w, 1);
	assert_string_equal(gpu_of(w, id), "GPU-0");
	return id;
}

static void the_owner_does_not_resume_what_an_administrator_suspended(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id id = runs_on_0(w);
	struct error err = ERROR_INIT;
	assert_int_equal(core_suspend(w->c, id, ROOT, w->now, &err), 0);
	assert_int_equal(core_resume(w->c, id, OWNER, w->now, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_true(core_task(w->c, id)->suspended);
	assert_int_equal(core_resume(w->c, id, ROOT, w->now, &err), 0);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), 0);
	assert_int_equal(core_resume(w->c, id, OWNER, w->now, &err), 0);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), 0);
	assert_int_equal(core_resume(w->c, id, ROOT, w->now, &err), 0);
	assert_false(core_task(w->c, id)->suspended);
	end_world(w);
}

static void nobody_suspends_his_task_into_a_reservation(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	struct core_reservation r = { 7, ADA, w->now.wall_ms + 3600000, w->now.wall_ms + 7200000, 1, gpus };
	task_id id = runs_on_0(w);
	struct error err = ERROR_INIT;
	core_reserve(w->c, &r, 1);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.text, "reserved for another user"));
	r.uid = OWNER;
	core_reserve(w->c, &r, 1);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), 0);
	assert_int_equal(core_resume(w->c, id, OWNER, w->now, &err), 0);
	r.uid = ADA;
	core_reserve(w->c, &r, 1);
	assert_int_equal(core_suspend(w->c, id, ROOT, w->now, &err), 0);	/* he knows what he does */
	end_world(w);
}

static double work_s(const struct world *w, task_id id)
{
	struct measured m;
	assert_true(fleet_measured(w->c->fleet, id, &m));
	return m.work_s;
}

static void what_stands_still_does_no_work(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	task_id id = runs_on_0(w);
	struct error err = ERROR_INIT;
	pass(w, 10);
	double done = work_s(w, id);
	assert_true(done >= 9);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), 0);
	pass(w, 30);
	assert_true(work_s(w, id) == done);
	assert_int_equal(core_resume(w->c, id, OWNER, w->now, &err), 0);
	pass(w, 5);
	assert_true(work_s(w, id) >= done + 4 && work_s(w, id) <= done + 6);
	struct task_times times = task_times(core_task(w->c, id), w->now.wall_ms);
	assert_true(times.suspended_s == 30 && times.run_s == 16);
	end_world(w);
}

/* A limit that stands still is no promise to anybody. */
static void the_head_is_promised_nothing_by_who_is_suspended(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.order = ORDER_FIFO;
	config.map.max_smact = (double)NAN;
	struct world *w = new_world(2, &config);
	struct spec *limited = spec_of(20000, 1), *brief = spec_of(5000, 1);
	struct error err = ERROR_INIT;
	limited->time_limit_s = 3600;
	brief->time_limit_s = 60;
	task_id id = submit(w, limited);
	core_started(w->c, id, (struct proc_id){ 100, 1 }, w->now);
	hold_memory(w, id, 20000);
	pass(w, 1);
	assert_int_equal(core_suspend(w->c, id, OWNER, w->now, &err), 0);
	task_id head = submit(w, spec_of(38000, 2));
	pass(w, 1);
	assert_int_equal(state(w, head), TASK_PENDING);
	assert_int_equal(state(w, submit(w, spec_ref(brief))), TASK_PENDING);
	assert_int_equal(core_resume(w->c, id, OWNER, w->now, &err), 0);
	assert_int_equal(state(w, submit(w, brief)), TASK_RUNNING);
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_owner_does_not_resume_what_an_administrator_suspended),
		cmocka_unit_test(nobody_suspends_his_task_into_a_reservation),
		cmocka_unit_test(what_stands_still_does_no_work),
		cmocka_unit_test(the_head_is_promised_nothing_by_who_is_suspended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
