/* SPDX-License-Identifier: MIT
 * Time slots: who is asked to make place, for whom, when, and how often; what follows from going and from staying.
 */
#include "core/test_world.h"

#include <math.h>

#define HOUR 3600

static struct core_config with_slots(int64_t slot_s)
{
	struct core_config c = plain_config();
	c.order = ORDER_BACKFILL;
	c.slot_ms = slot_s * 1000;
	c.map.max_smact = c.map.max_gract = NAN;
	c.map.slack_mib = 0;
	return c;
}

static unsigned asks(const struct world *w, task_id id)
{
	return happened(w, id, EV_SLOT_ASKED);
}

static enum verdict last_verdict(const struct world *w, task_id id)
{
	enum verdict v = VERDICT_NONE;
	for (unsigned i = 0; i < w->n_log; i++)
		if (w->log[i].kind == EV_ENDED && w->log[i].task == id)
			v = w->log[i].verdict;
	return v;
}

/* A task that runs, on its own GPU memory. */
static task_id runs(struct world *w, struct spec *s)
{
	uint64_t mib = s->gpu_mem_mib;
	task_id id = submit(w, s);
	assert_int_equal(state(w, id), TASK_RUNNING);
	core_started(w->c, id, (struct proc_id){ (pid_t)TASK_JOB(id) + 500, 1 }, w->now);
	hold_memory(w, id, mib);
	pass(w, 1);
	return id;
}

/* Hours go by in few samples. */
static void wait_s(struct world *w, int64_t seconds)
{
	later(w, seconds * 1000 + 1000);
	pass(w, 2);
}

static void nobody_is_asked_while_nobody_waits(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(2 * HOUR);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1));
	wait_s(w, 20 * HOUR);
	assert_int_equal(asks(w, first), 0);
	/* From then on it stands there for as long as it likes, and no longer. */
	task_id second = submit(w, spec_of(30000, 1));
	pass(w, 2);
	assert_int_equal(asks(w, first), 1);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_int_equal(last_verdict(w, first), VERDICT_SLOT);
	pass(w, 2);
	assert_int_equal(state(w, second), TASK_RUNNING);
	assert_int_equal(state(w, first), TASK_PENDING);
	end_world(w);
}

/* Who asks for a day to save, and stays, is waited for as long as a slot lasts: then it is another's turn. */
static void a_long_wish_to_save_holds_up_nobody(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(2, &config);
	struct spec *s = spec_of(30000, 1);
	s->signal = 10;
	s->signal_before_s = 65535;
	task_id stays = runs(w, s);
	wait_s(w, 1);
	task_id other = runs(w, spec_of(30000, 1));
	wait_s(w, 2 * HOUR);
	submit(w, spec_of(35000, 1));
	pass(w, 2);
	assert_int_equal(asks(w, stays), 1);
	wait_s(w, HOUR - 60);
	assert_int_equal(asks(w, other), 0);
	wait_s(w, 120);
	assert_int_equal(asks(w, other), 1);
	end_world(w);
}

/* However many wait before it for a GPU that is drained. */
static void who_waits_behind_many_that_lack_a_gpu_is_made_place_for(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(2, &config);
	core_drain(w->c, uuid_of(1), true);
	task_id first = runs(w, spec_of(30000, 1));
	submit(w, array_of(spec_of(30000, 2), 1100));
	submit(w, spec_of(35000, 1));
	wait_s(w, HOUR);
	assert_int_equal(asks(w, first), 1);
	end_world(w);
}

static void a_slot_is_undisturbed(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(2 * HOUR);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1));
	submit(w, spec_of(30000, 1));
	wait_s(w, 2 * HOUR - 10);
	assert_int_equal(asks(w, first), 0);
	wait_s(w, 10);
	assert_int_equal(asks(w, first), 1);
	end_world(w);
}

/* 30 of 40 GiB are taken: a task of 5 GiB fits beside, and one of two GPUs can never run here. */
static void nobody_is_asked_in_vain(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(2, &config);
	task_id old = runs(w, spec_of(30000, 1)), other = runs(w, spec_of(30000, 1));
	struct spec *s = spec_of(39000, 2);
	s->slot_s = -1;
	wait_s(w, 2 * HOUR);
	assert_int_equal(state(w, submit(w, spec_of(5000, 1))), TASK_RUNNING);
	assert_int_equal(asks(w, old) + asks(w, other), 0);
	/* A task of one GPU needs one of them: the one whose slot is over for longest goes. */
	task_id waits = submit(w, spec_of(35000, 1));
	pass(w, 2);
	assert_int_equal(asks(w, old) + asks(w, other), 1);
	pass(w, 20);
	assert_int_equal(asks(w, old) + asks(w, other), 1);
	assert_int_equal(state(w, waits), TASK_PENDING);
	spec_unref(s);
	end_world(w);
}

/* It hears nothing: it would be asked first, being over for longest, and the one who can go would not be asked meanwhile. */
static void one_that_is_suspended_is_not_asked(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct error err = ERROR_INIT;
	struct world *w = new_world(2, &config);
	task_id stopped = runs(w, spec_of(30000, 1));
	wait_s(w, 60);
	task_id other = runs(w, spec_of(30000, 1));
	assert_int_equal(core_suspend(w->c, stopped, 0, w->now, &err), 0);
	wait_s(w, 2 * HOUR);
	submit(w, spec_of(35000, 1));
	pass(w, 2);
	assert_int_equal(asks(w, stopped), 0);
	assert_int_equal(asks(w, other), 1);
	end_world(w);
	/* Once it goes on it is asked as others are, though nothing else moves. */
	w = new_world(1, &config);
	stopped = runs(w, spec_of(30000, 1));
	assert_int_equal(core_suspend(w->c, stopped, 0, w->now, &err), 0);
	submit(w, spec_of(35000, 1));
	wait_s(w, 2 * HOUR);
	assert_int_equal(asks(w, stopped), 0);
	assert_int_equal(core_resume(w->c, stopped, 0, w->now, &err), 0);
	pass(w, 2);
	assert_int_equal(asks(w, stopped), 1);
	end_world(w);
}

static void a_task_of_two_gpus_has_two_asked(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(3, &config);
	struct spec *stays = spec_of(30000, 1);
	stays->slot_s = -1;
	task_id a = runs(w, spec_of(30000, 1)), b = runs(w, stays), c = runs(w, spec_of(30000, 1));
	wait_s(w, 2 * HOUR);
	task_id wide = submit(w, spec_of(30000, 2));
	pass(w, 2);
	assert_int_equal(asks(w, a), 1);
	assert_int_equal(asks(w, b), 0);
	assert_int_equal(asks(w, c), 1);
	exits(w, a, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	exits(w, c, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, wide), TASK_RUNNING);
	end_world(w);
}

static void lower_priority_makes_nobody_go(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1));
	struct spec *low = spec_of(30000, 1);
	low->priority = -1;
	wait_s(w, 2 * HOUR);
	submit(w, low);
	pass(w, 5);
	assert_int_equal(asks(w, first), 0);
	submit(w, spec_of(30000, 1));
	pass(w, 5);
	assert_int_equal(asks(w, first), 1);
	end_world(w);
}

/* Two that wait share what is there: each slot is one turn, in the order in which they came into the queue. */
static void turns_are_taken(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	task_id ids[3];
	for (int i = 0; i < 3; i++)
		ids[i] = i ? submit(w, spec_of(30000, 1)) : runs(w, spec_of(30000, 1));
	for (int turn = 0; turn < 7; turn++) {
		task_id now = ids[turn % 3], next = ids[(turn + 1) % 3];
		wait_s(w, HOUR);
		assert_int_equal(asks(w, now), turn / 3 + 1);
		exits(w, now, SPEC_REQUEUE_CODE, SCAN_NOTHING);
		pass(w, 2);
		assert_int_equal(state(w, next), TASK_RUNNING);
		core_started(w->c, next, (struct proc_id){ 700 + turn, 1 }, w->now);
		hold_memory(w, next, 30000);
	}
	/* No turn was charged. */
	const struct task *t = core_task(w->c, ids[0]);
	assert_int_equal(t->n_slots, 3);
	assert_int_equal(t->recoveries, 0);
	end_world(w);
}

static void one_that_stays_keeps_its_gpu(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1));
	submit(w, spec_of(30000, 1));
	for (unsigned k = 1; k <= TIMESLOTS_ASKS; k++) {
		wait_s(w, HOUR - 60);
		assert_int_equal(asks(w, first), k - 1);
		wait_s(w, 60);
		assert_int_equal(asks(w, first), k);
	}
	wait_s(w, 100 * HOUR);
	assert_int_equal(asks(w, first), TIMESLOTS_ASKS);
	assert_int_equal(state(w, first), TASK_RUNNING);
	struct error err = ERROR_INIT;
	json_t *why = core_why_json(w->c, first, w->now, &err);
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "SlotOver");
	json_decref(why);
	/* Late is better than never. */
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_int_equal(last_verdict(w, first), VERDICT_SLOT);
	end_world(w);
}

static void the_code_means_nothing_unasked(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *own = spec_of(30000, 1);
	own->slot_s = HOUR;
	task_id first = runs(w, own);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_int_equal(state(w, first), TASK_FAILED);
	/* Another code of its own choice; and what it asked for is not what another exit means. */
	struct spec *coded = spec_of(30000, 1), *fails = spec_of(30000, 1);
	coded->requeue_code = 42;
	pass(w, 2);
	task_id second = runs(w, coded), third = submit(w, fails);
	wait_s(w, HOUR);
	exits(w, second, 42, SCAN_NOTHING);
	assert_int_equal(last_verdict(w, second), VERDICT_SLOT);
	pass(w, 2);
	assert_int_equal(state(w, third), TASK_RUNNING);
	core_started(w->c, third, (struct proc_id){ 900, 1 }, w->now);
	wait_s(w, HOUR);
	assert_int_equal(asks(w, third), 1);
	exits(w, third, 42, SCAN_NOTHING);
	assert_int_equal(state(w, third), TASK_FAILED);
	end_world(w);
}

static void one_that_may_not_run_again_has_no_slot(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *once = spec_of(30000, 1);
	once->requeue = false;
	task_id first = runs(w, once);
	submit(w, spec_of(30000, 1));
	wait_s(w, 5 * HOUR);
	assert_int_equal(asks(w, first), 0);
	end_world(w);
}

static void the_limit_is_for_all_slots_together(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *s = spec_of(30000, 1);
	s->time_limit_s = 90 * 60;
	task_id first = runs(w, s), second = submit(w, spec_of(30000, 1));
	wait_s(w, HOUR);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	exits(w, second, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, first), TASK_RUNNING);
	core_started(w->c, first, (struct proc_id){ 900, 1 }, w->now);
	wait_s(w, 25 * 60);
	assert_int_equal(core_task(w->c, first)->stopping, STOP_NONE);
	wait_s(w, 6 * 60);
	assert_int_equal(core_task(w->c, first)->stopping, STOP_TIME_LIMIT);
	end_world(w);
}

/* An MPS client that makes place is no death from which neighbours could have died. */
static void one_that_goes_is_no_failure_beside_others(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *stays = spec_of(8000, 1);
	stays->slot_s = -1;
	task_id first = runs(w, spec_of(30000, 1)), beside = runs(w, stays);
	wait_s(w, HOUR);
	submit(w, spec_of(30000, 1));
	pass(w, 2);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_int_equal(last_verdict(w, first), VERDICT_SLOT);	/* at once: nobody waits for a cohort */
	exits(w, beside, 1, SCAN_NOTHING);
	pass(w, 10);
	assert_int_equal(last_verdict(w, beside), VERDICT_FAILED);
	end_world(w);
}

/* It has left its GPUs, and whose fault its end was is not known yet. */
static void one_that_waits_for_its_verdict_is_looked_at(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *stays = spec_of(8000, 1);
	stays->slot_s = -1;
	task_id first = runs(w, spec_of(30000, 1));
	runs(w, stays);
	wait_s(w, HOUR);
	submit(w, spec_of(30000, 1));
	pass(w, 2);
	assert_int_equal(asks(w, first), 1);
	exits(w, first, 1, SCAN_DEVICE_FAULT);
	assert_int_equal(state(w, first), TASK_RUNNING);
	assert_string_equal(core_task_reason(w->c, core_task(w->c, first), w->now), "SlotEnds");
	end_world(w);
}

static void what_slots_cost_is_counted(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1)), second = submit(w, spec_of(30000, 1));
	wait_s(w, HOUR);
	pass(w, 40);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	const struct task *t = core_task(w->c, first);
	int64_t to_save_ms = t->attempts[0].end_ms - t->attempts[0].slot_asked_ms;
	assert_in_range(to_save_ms, 40000, 45000);
	assert_int_equal(t->slot_lost_ms, to_save_ms);
	assert_int_equal(t->lost_ms, to_save_ms);
	pass(w, 2);
	exits(w, second, 0, SCAN_NOTHING);
	pass(w, 2);
	core_started(w->c, first, (struct proc_id){ 900, 1 }, w->now);
	hold_memory(w, first, 30000);
	pass(w, 25);
	struct progress_report p = { .t_ms = w->now.mono_ms, .source = PROGRESS_TQDM, .advanced = 7, .whole_units = 100,
				     .fraction = 0.6, .left_s = -1, .spread_s = -1 };
	core_progress(w->c, first, &p, 77, w->now);
	submit(w, spec_of(30000, 1));
	wait_s(w, HOUR);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	/* From its placement to its first progress 25 s and what it took to be placed; and again the time to save. */
	assert_in_range(t->attempts[1].seen.begin_s * 1000, 25000, 28000);
	assert_int_equal(t->slot_lost_ms, to_save_ms + (int64_t)(t->attempts[1].seen.begin_s * 1000) +
			 t->attempts[1].end_ms - t->attempts[1].slot_asked_ms);
	assert_int_equal(t->lost_ms, t->slot_lost_ms);
	/* 60 % took what both did: two thirds of that are left. */
	enum work_known known = WORK_UNKNOWN;
	double work_s = t->attempts[0].seen.work_s + t->attempts[1].seen.work_s;
	assert_true(fabs(estimates_work_s(w->c->estimates, t, &known) - work_s * 0.4 / 0.6) < 1);
	assert_true(known == WORK_RUNS && work_s > HOUR);
	end_world(w);
}

/* A restart finds it asked: it is not asked again before its time, and its exit still counts. */
static void a_restart_goes_on_with_it(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *s = spec_of(30000, 1);
	int64_t then = w->now.wall_ms - 90 * 60 * 1000;
	char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = then },
		{ .kind = EV_ESTIMATED, .t_ms = then, .u.estimate = { "declared", 30000, 30000, 30000 } },
		{ .kind = EV_PLACED, .t_ms = then, .u.placed = { gpu, 1, SHARE_MPS, 30000, false } },
		{ .kind = EV_STARTED, .t_ms = then, .u.started.shim = { 4242, 1 } },
		{ .kind = EV_SLOT_ASKED, .t_ms = w->now.wall_ms - 30 * 60 * 1000 },
	};
	struct task *t = restore(w, TASK_ID(77, -1), s, log, COUNT_OF(log));
	hold_memory(w, t->id, 30000);
	submit(w, spec_of(30000, 1));
	pass(w, 5);
	assert_int_equal(asks(w, TASK_ID(77, -1)), 0);
	assert_false(core_is_leaving(w->c, t, w->now));
	wait_s(w, 30 * 60);
	assert_int_equal(asks(w, TASK_ID(77, -1)), 1);
	assert_false(core_is_leaving(w->c, t, w->now));	/* it stayed the first time */
	exits(w, TASK_ID(77, -1), SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_int_equal(last_verdict(w, TASK_ID(77, -1)), VERDICT_SLOT);
	end_world(w);
}

static void it_teaches_memory_and_no_duration(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(1, &config);
	struct spec *s = spec_of(0, 1);
	struct spec *kin = spec_of(0, 1);
	task_id first = submit(w, s);
	core_started(w->c, first, (struct proc_id){ 800, 1 }, w->now);
	hold_memory(w, first, 9000);
	pass(w, 200);
	wait_s(w, HOUR);
	struct spec *other = spec_of(39000, 1);
	submit(w, other);
	pass(w, 3);
	assert_int_equal(asks(w, first), 1);
	spec_ref(kin);
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	task_id later = submit(w, kin);
	const struct task *t = core_task(w->c, later);
	enum work_known known = WORK_RUNS;
	assert_string_equal(t->estimate.estimator, "history");
	assert_in_range(t->estimate.comfort_mib, 9000, 9500);
	estimates_work_s(w->c->estimates, t, &known);
	assert_true(known == WORK_UNKNOWN);
	spec_unref(kin);
	end_world(w);
}

static struct spec *of_user(uid_t uid)
{
	struct spec *s = spec_of(30000, 1);
	s->uid = uid;
	s->slot_s = -1;
	return s;
}

/* Among users it is whose turn it would be: nobody goes for a second task of one who runs as much, for a newcomer at once. */
static void nobody_goes_out_of_turn(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(HOUR);
	struct world *w = new_world(2, &config);
	task_id mine = runs(w, spec_of(30000, 1));
	runs(w, of_user(2000));
	submit(w, of_user(2000));
	wait_s(w, 3 * HOUR);
	assert_int_equal(asks(w, mine), 0);
	task_id new = submit(w, of_user(3000));
	pass(w, 3);
	assert_int_equal(asks(w, mine), 1);
	exits(w, mine, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, new), TASK_RUNNING);
	/* Without turns, who waits is who came first. */
	end_world(w);
	config.fair.on = false;
	w = new_world(2, &config);
	mine = runs(w, spec_of(30000, 1));
	runs(w, of_user(2000));
	submit(w, of_user(2000));
	wait_s(w, HOUR);
	assert_int_equal(asks(w, mine), 1);
	end_world(w);
}

/* How long that task stands before it is asked, while another waits; then it goes, the other runs and ends, and it is back. */
static int64_t stands_s(struct world *w, task_id first)
{
	unsigned before = asks(w, first);
	int64_t from_ms = task_attempt(core_task(w->c, first))->start_ms;
	task_id other = submit(w, spec_of(30000, 1));
	for (int i = 0; i < 2 * HOUR && asks(w, first) == before; i++)
		pass(w, 1);
	int64_t stood_ms = w->now.wall_ms - from_ms;
	exits(w, first, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	core_started(w->c, other, (struct proc_id){ (pid_t)TASK_JOB(other) + 500, 1 }, w->now);
	exits(w, other, 0, SCAN_NOTHING);
	pass(w, 2);
	core_started(w->c, first, (struct proc_id){ (pid_t)TASK_JOB(other) + 5000, 1 }, w->now);
	hold_memory(w, first, 30000);
	return stood_ms / 1000;
}

/* A program that takes longer to start than its slot lasts would never do anything: 12 starts a minute, for ever. */
static void a_slot_too_short_to_start_in_grows(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(5);
	struct world *w = new_world(1, &config);
	task_id first = runs(w, spec_of(30000, 1));
	for (int64_t s = 5; s < 600; s *= 2)
		assert_in_range(stands_s(w, first), s, s + 3);
	assert_in_range(stands_s(w, first), 600, 603);
	assert_in_range(stands_s(w, first), 600, 603);
	/* It got somewhere: its slot is as long as it says. */
	struct progress_report p = { .t_ms = w->now.mono_ms, .source = PROGRESS_TQDM, .advanced = 7, .whole_units = 100,
				     .fraction = 0.07, .left_s = -1, .spread_s = -1 };
	core_progress(w->c, first, &p, 77, w->now);
	stands_s(w, first);
	assert_in_range(stands_s(w, first), 5, 8);
	end_world(w);
	/* Of slots in which everything can start, nothing is said. */
	config = with_slots(HOUR);
	w = new_world(1, &config);
	first = runs(w, spec_of(30000, 1));
	for (int i = 0; i < 3; i++)
		assert_in_range(stands_s(w, first), HOUR, HOUR + 3);
	end_world(w);
}

/* However many stand before it that no end helps: their user has what he may have, or they lack a GPU that is drained. */
static void many_that_cannot_start_hide_nobody(void **unused)
{
	(void)unused;
	for (unsigned i = 0; i < 2 * CORE_ORDER_COUNT; i++) {
		struct core_config config = with_slots(10);
		config.order = (enum core_order)(i / 2);
		bool limited = i % 2;
		if (limited)
			config.allowance.most[ALLOWANCE_GPUS] = 1;
		struct world *w = new_world(2, &config);
		task_id stays = runs(w, spec_of(30000, 1));
		if (limited) {
			struct spec *has = of_user(1001);
			has->slot_s = -1;
			runs(w, has);
		} else {
			core_drain(w->c, uuid_of(1), true);
		}
		for (unsigned k = 0; k < 40; k++) {
			struct spec *s = of_user(1001);
			s->gpus = limited ? 1 : 2;
			s->priority = 10;
			submit(w, s);
		}
		submit(w, of_user(1002));
		pass(w, 20);
		if (asks(w, stays) != 1)
			fail_msg("%s, %s: asked %u times", core_order_name(config.order), limited ? "limited" : "drained", asks(w, stays));
		end_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_that_cannot_start_hide_nobody),
		cmocka_unit_test(who_waits_behind_many_that_lack_a_gpu_is_made_place_for),
		cmocka_unit_test(nobody_is_asked_while_nobody_waits),
		cmocka_unit_test(a_long_wish_to_save_holds_up_nobody), cmocka_unit_test(a_slot_is_undisturbed),
		cmocka_unit_test(nobody_is_asked_in_vain),
		cmocka_unit_test(one_that_is_suspended_is_not_asked),
		cmocka_unit_test(a_task_of_two_gpus_has_two_asked),
		cmocka_unit_test(lower_priority_makes_nobody_go),
		cmocka_unit_test(turns_are_taken),
		cmocka_unit_test(one_that_stays_keeps_its_gpu),
		cmocka_unit_test(the_code_means_nothing_unasked),
		cmocka_unit_test(one_that_may_not_run_again_has_no_slot),
		cmocka_unit_test(the_limit_is_for_all_slots_together),
		cmocka_unit_test(one_that_goes_is_no_failure_beside_others),
		cmocka_unit_test(one_that_waits_for_its_verdict_is_looked_at),
		cmocka_unit_test(what_slots_cost_is_counted),
		cmocka_unit_test(a_restart_goes_on_with_it),
		cmocka_unit_test(it_teaches_memory_and_no_duration),
		cmocka_unit_test(nobody_goes_out_of_turn),
		cmocka_unit_test(a_slot_too_short_to_start_in_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
