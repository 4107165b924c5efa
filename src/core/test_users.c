/* SPDX-License-Identifier: MIT
 * Several users under MPS: one server for all, or one each and turns.
 */
#include "core/test_world.h"

#include <math.h>

#define LIVES 60	/* seconds that a task runs */

static struct core_config with_users(enum core_order order, bool together)
{
	struct core_config c = plain_config();
	c.order = order;
	c.pass_max_ms = 100000 * 1000;
	c.map.max_smact = c.map.max_gract = NAN;
	c.map.slack_mib = 0;
	c.mps_together = together;
	return c;
}

static struct world *world_of(unsigned gpus, const struct core_config *config)
{
	struct world *w = new_world(gpus, config);
	w->mps_together = true;
	pass(w, 1);
	return w;
}

static task_id submit_of(struct world *w, uid_t uid, int64_t priority, unsigned gpus)
{
	struct spec *s = spec_of(9000, gpus);
	s->uid = uid;
	s->priority = priority;
	return submit(w, s);
}

static bool runs(const struct world *w, task_id id)
{
	return state(w, id) == TASK_RUNNING;
}

static unsigned turns(const struct world *w)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < fleet_size(w->c->fleet); i++)
		n += fleet_turn_of(w->c->fleet, i) != 0;
	return n;
}

/* A user's tasks, of which new ones come for ever. */
struct stream { uid_t uid; struct { task_id id; int since; } live[64]; unsigned n; int idle_s, longest_idle_s; };

/* One second: every ten `come`, each ends when it has run for its time. */
static void flow(struct world *w, struct stream *s, int t, int come)
{
	unsigned running = 0;
	for (int k = 0; t % 10 == 0 && k < come && s->n < 40; k++) {
		s->live[s->n].id = submit_of(w, s->uid, 0, 1);
		s->live[s->n++].since = -1;
	}
	for (unsigned i = 0; i < s->n; i++) {
		if (s->live[i].since < 0 && runs(w, s->live[i].id)) {
			s->live[i].since = t;
			hold_memory(w, s->live[i].id, 9000);
		} else if (s->live[i].since >= 0 && t - s->live[i].since >= LIVES) {
			exits(w, s->live[i].id, 0, SCAN_NOTHING);
			s->live[i--] = s->live[--s->n];
			continue;
		}
		running += s->live[i].since >= 0;
	}
	s->idle_s = running ? 0 : s->idle_s + 1;
	s->longest_idle_s = s->idle_s > s->longest_idle_s ? s->idle_s : s->longest_idle_s;
}

/* After how many seconds the first task of another user starts in an endless stream of one user's; -1: not in ten minutes. */
static int first_task_waits(const struct core_config *config, unsigned gpus, int come)
{
	struct world *w = world_of(gpus, config);
	struct stream s = { .uid = 1000 };
	task_id first = 0;
	int started = -1;
	for (int t = 0; t < 660 && started < 0; t++) {
		if (t == 55)
			first = submit_of(w, 1001, 0, 1);
		flow(w, &s, t, come);
		pass(w, 1);
		if (first && runs(w, first))
			started = t - 55;
	}
	end_world(w);
	return started;
}

static void a_users_first_task_waits_for_those_that_run_and_no_longer(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config apart = with_users((enum core_order)order, false), together = with_users((enum core_order)order, true);
		/* Two GPUs and a new task of the first user's every ten seconds: never empty by themselves, and nobody waits. */
		int waited = first_task_waits(&apart, 2, 1);
		/* A plan has its own order, in which some go before it. */
		int most = order == ORDER_PLAN ? 2 * LIVES : LIVES + 5;
		if (waited < 0 || waited > most)
			fail_msg("%s: %d s", core_order_name((enum core_order)order), waited);
		assert_in_range(first_task_waits(&together, 2, 1), 0, 2);
	}
}

/* Not the head of the queue, which waits for something else. */
static void a_turn_is_not_the_heads_alone(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_BACKFILL, false);
	struct world *w = world_of(2, &config);
	task_id a = submit_of(w, 1000, 0, 1), b = submit_of(w, 1000, 0, 1);
	hold_memory(w, a, 9000);
	hold_memory(w, b, 9000);
	struct spec *wide = spec_of(39000, 2);
	wide->exclusive = true;
	task_id head = submit(w, wide), turn = submit_of(w, 1001, 0, 1), late = submit_of(w, 1000, 0, 1);
	assert_string_equal(reason_of(w, turn), "MpsUser");
	assert_int_equal(turns(w), 1);
	/* The other GPU is the first user's still. */
	assert_true(runs(w, late));
	assert_string_not_equal(gpu_of(w, late), gpu_of(w, a));
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_true(runs(w, turn) && !runs(w, head));
	assert_int_equal(turns(w), 0);
	end_world(w);
}

static void who_goes_first_in_the_queue_goes_first_at_a_server(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_BACKFILL, false);
	struct world *w = world_of(1, &config);
	task_id a = submit_of(w, 1000, 0, 1);
	hold_memory(w, a, 9000);
	pass(w, 1);
	task_id turn = submit_of(w, 1001, 0, 1), late = submit_of(w, 1000, -5, 1), early = submit_of(w, 1000, 5, 1);
	assert_string_equal(reason_of(w, turn), "MpsUser");
	assert_true(!runs(w, late) && runs(w, early));
	assert_int_equal(turns(w), 1);
	hold_memory(w, early, 9000);
	/* It goes: the others may come again. */
	assert_int_equal(core_cancel(w->c, turn, 0, w->now, NULL), 0);
	pass(w, 1);
	assert_int_equal(turns(w), 0);
	assert_true(runs(w, late));
	end_world(w);
}

/* One turn a user, however many of his tasks wait; and it stays on the GPU that was chosen. */
static void a_user_takes_one_turn_at_a_time(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_BACKFILL, false);
	struct world *w = world_of(3, &config);
	task_id first[5];
	for (unsigned i = 0; i < 5; i++)
		hold_memory(w, first[i] = submit_of(w, 1000, 0, 1), 9000), pass(w, 1);
	task_id mine[6];
	for (unsigned i = 0; i < 6; i++)
		mine[i] = submit_of(w, 1001, 0, 1);
	assert_int_equal(turns(w), 1);
	uint32_t chosen = 0;
	while (!fleet_turn_of(w->c->fleet, chosen))
		chosen++;
	for (unsigned i = 0; i < 10; i++) {
		submit_of(w, 1000, 0, 1);
		pass(w, 1);
		assert_int_equal(fleet_turn_of(w->c->fleet, chosen), mine[0]);
	}
	assert_int_equal(turns(w), 1);
	end_world(w);
}

static void two_streams_take_turns(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_BACKFILL, false);
	struct world *w = world_of(1, &config);
	struct stream a = { .uid = 1000 }, b = { .uid = 1001 };
	for (int t = 0; t < 1500; t++) {
		flow(w, &a, t, 1);
		flow(w, &b, t, 1);
		pass(w, 1);
	}
	/* Those that run there, and those of the other who are before one in the queue. */
	assert_in_range(a.longest_idle_s, 1, 4 * LIVES);
	assert_in_range(b.longest_idle_s, 1, 4 * LIVES);
	end_world(w);
}

static void one_server_serves_all_users_or_one(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_FIFO, true);
	struct world *w = world_of(1, &config);
	task_id a = submit_of(w, 1000, 0, 1), b = submit_of(w, 1001, 0, 1);
	assert_true(runs(w, a) && runs(w, b));
	assert_true(task_attempt(core_task(w->c, a))->together && task_attempt(core_task(w->c, b))->together);
	assert_int_equal(core_mps_clients(w->c, gpu_of(w, a), MAP_MPS_ALL), 2);
	assert_int_equal(core_mps_clients(w->c, gpu_of(w, a), 1000), 0);
	/* Changed: who runs ends under it, and nobody joins, not even the same user. */
	config.mps_together = false;
	core_reconfigure(w->c, &config);
	task_id c = submit_of(w, 1000, 0, 1);
	assert_string_equal(reason_of(w, c), "MpsUser");
	exits(w, a, 0, SCAN_NOTHING);
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_true(runs(w, c) && !task_attempt(core_task(w->c, c))->together);
	/* And back. */
	config.mps_together = true;
	core_reconfigure(w->c, &config);
	task_id d = submit_of(w, 1000, 0, 1);
	assert_string_equal(reason_of(w, d), "MpsUser");
	exits(w, c, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_true(runs(w, d) && task_attempt(core_task(w->c, d))->together);
	end_world(w);
}

static const char *evidence_of(const struct world *w, task_id id, unsigned attempt)
{
	const struct task *t = core_task(w->c, id);
	return t && attempt < t->n_attempts && t->attempts[attempt].evidence ? t->attempts[attempt].evidence : "";
}

static struct world *two_users(task_id *a, task_id *b)
{
	struct core_config config = with_users(ORDER_FIFO, true);
	struct world *w = world_of(2, &config);
	core_drain(w->c, "GPU-1", true);
	*a = submit_of(w, 1000, 0, 1);
	*b = submit_of(w, 1001, 0, 1);
	hold_memory(w, *a, 4000);
	hold_memory(w, *b, 4000);
	pass(w, 3);
	assert_string_equal(gpu_of(w, *a), gpu_of(w, *b));
	return w;
}

/* Each is told of the other, neither is charged, and both run again where no fault of others reaches them. */
static void users_whose_tasks_die_together_are_told_of_each_other(void **unused)
{
	(void)unused;
	task_id a, b;
	struct world *w = two_users(&a, &b);
	exits(w, a, 1, SCAN_DEVICE_FAULT);
	exits(w, b, 1, SCAN_DEVICE_FAULT);
	pass(w, 6);
	assert_non_null(strstr(evidence_of(w, a, 0), "task 2 of another user, another client of its MPS server, died at the"));
	assert_non_null(strstr(evidence_of(w, b, 0), "task 1 of another user, another client of its MPS server, died at the"));
	/* One GPU: one runs alone, the other waits, and is told why. */
	task_id again = runs(w, a) ? a : b, waits = runs(w, a) ? b : a;
	assert_true(runs(w, again) && !runs(w, waits));
	assert_int_equal(task_attempt(core_task(w->c, again))->mode, SHARE_STREAMS);
	json_t *o = core_task_json(w->c, core_task(w->c, waits), w->now, NULL);
	assert_non_null(strstr(json_string_value(json_object_get(o, "reason_text")), "it runs again, alone at first, since"));
	json_decref(o);
	/* It faults again with nobody to blame. */
	exits(w, again, 1, SCAN_DEVICE_FAULT);
	pass(w, 6);
	assert_int_equal(state(w, again), TASK_FAILED);
	assert_true(runs(w, waits));
	exits(w, waits, 0, SCAN_NOTHING);
	assert_int_equal(state(w, waits), TASK_COMPLETED);
	end_world(w);
}

/* Ending one may take SIGKILL, and that takes the others along: it is no fault of theirs. */
static void who_dies_of_anothers_kill_is_not_charged(void **unused)
{
	(void)unused;
	static const struct exit_report ends[] = { { .have_record = true, .signal = 9 }, { .have_record = false } };
	for (unsigned i = 0; i < 2; i++) {
		task_id a, b;
		struct world *w = two_users(&a, &b);
		if (ends[i].have_record)
			assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
		end_process(w, a);
		core_exited(w->c, a, &ends[i], w->now);
		assert_int_equal(state(w, a), ends[i].have_record ? TASK_CANCELLED : TASK_LOST);
		w->now.mono_ms += 1000;
		exits(w, b, 1, SCAN_DEVICE_FAULT);
		pass(w, 8);
		assert_non_null(strstr(evidence_of(w, b, 0), "task 1 of another user"));
		assert_true(runs(w, b));
		end_world(w);
	}
	/* One that was asked to end, and did, takes nobody along. */
	task_id a, b;
	struct world *w = two_users(&a, &b);
	assert_int_equal(core_cancel(w->c, a, 1000, w->now, NULL), 0);
	end_process(w, a);
	core_exited(w->c, a, &(struct exit_report){ .have_record = true, .signal = 15 }, w->now);
	exits(w, b, 1, SCAN_DEVICE_FAULT);
	pass(w, 8);
	assert_int_equal(state(w, b), TASK_FAILED);
	end_world(w);
}

/* A driver that has no such server: whatever is wished. */
static void a_machine_without_such_a_server_keeps_users_apart(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_FIFO, true);
	struct world *w = world_of(1, &config);
	w->mps_together = false;
	pass(w, 1);
	task_id a = submit_of(w, 1000, 0, 1), b = submit_of(w, 1001, 0, 1);
	assert_true(runs(w, a) && !task_attempt(core_task(w->c, a))->together);
	assert_string_equal(reason_of(w, b), "MpsUser");
	end_world(w);
}

/* Another daemon is told of all that is held, however many users there are. */
static void what_users_hold_is_told_in_few_rows_too(void **unused)
{
	(void)unused;
	struct core_config config = with_users(ORDER_FIFO, true);
	struct world *w = world_of(3, &config);
	struct core_claim all[64], few[7];
	uint64_t mib = 0;
	unsigned tasks = 0;
	for (uid_t uid = 1000; uid < 1012; uid++)
		submit_of(w, uid, 0, 1);
	pass(w, 1);
	assert_int_equal(core_claims(w->c, all, COUNT_OF(all)), 12);
	assert_int_equal(core_claims(w->c, few, COUNT_OF(few)), COUNT_OF(few));
	for (size_t i = 0; i < COUNT_OF(few); i++) {
		mib += few[i].held_mib;
		tasks += few[i].n_tasks;
	}
	for (size_t i = 0; i < 12; i++)
		mib -= all[i].held_mib;
	assert_int_equal(tasks, 12);
	assert_int_equal(mib, 0);
	end_world(w);
}

/* A head whose user has what he may have by now starts when one of his ends: meanwhile the room is for others. */
static void nothing_is_kept_for_a_head_that_may_not_start(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 600);
	config.allowance.most[ALLOWANCE_RUNNING] = 2;
	config.host_cpus = 4;
	config.max_cpu = 0;
	struct world *w = new_world(2, &config);
	struct spec *wide = spec_of(30000, 2), *cpus = spec_of(0, 0);
	wide->cpus = cpus->cpus = 4;
	cpus->uid = 1001;
	struct spec *found = spec_of(1000, 1);
	char gpus[1][GPU_UUID_LEN] = { "GPU-1" };
	found->process_pid = 7;
	submit(w, spec_of(30000, 1));
	task_id head = submit(w, wide);
	pass(w, 1);
	assert_int_equal(pass_head(w->c->pass), head);
	core_adopt(w->c, ++w->next_job, found, gpus, 1, w->now);
	task_id other = submit(w, cpus);
	assert_string_equal(reason_of(w, head), "UserLimit");
	assert_int_equal(state(w, other), TASK_RUNNING);
	end_world(w);
}

int main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
		T(a_users_first_task_waits_for_those_that_run_and_no_longer), T(a_turn_is_not_the_heads_alone),
		T(who_goes_first_in_the_queue_goes_first_at_a_server), T(a_user_takes_one_turn_at_a_time), T(two_streams_take_turns),
		T(one_server_serves_all_users_or_one),
		T(users_whose_tasks_die_together_are_told_of_each_other), T(who_dies_of_anothers_kill_is_not_charged),
		T(a_machine_without_such_a_server_keeps_users_apart), T(what_users_hold_is_told_in_few_rows_too),
		T(nothing_is_kept_for_a_head_that_may_not_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
