/* SPDX-License-Identifier: MIT
 * The order of the queue, and what tasks may do to each other: backfill without starvation, limits on slow-downs, gain.
 */
#include "base/json.h"
#include "core/pass_private.h"
#include "core/test_world.h"

static void later_tasks_pass_a_head_that_does_not_fit(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = ordered((enum core_order)order, 600);
		bool passes = order == ORDER_BACKFILL || order == ORDER_PLAN;
		struct world *w = new_world(2, &config);
		task_id runs = submit(w, spec_of(30000, 1)), head = submit(w, spec_of(35000, 2)), small = submit(w, spec_of(5000, 1));
		assert_int_equal(state(w, runs), TASK_RUNNING);
		assert_int_equal(state(w, head), TASK_PENDING);
		assert_int_equal(state(w, small), passes ? TASK_RUNNING : TASK_PENDING);
		/* Also one that comes when nothing else has changed. */
		assert_int_equal(state(w, submit(w, spec_of(5000, 1))), passes ? TASK_RUNNING : TASK_PENDING);
		end_world(w);
	}
}

/* What is remembered of a task behind the head must not outlive what it was refused for. */
static void who_was_refused_behind_the_head_is_asked_again_for_less(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 600);
	struct world *w = new_world(2, &config);
	struct event less = { .u.updated = { .set_gpu_mem = true, .gpu_mem_mib = 5000 } };
	struct error err = ERROR_INIT;
	w->mps_together = true;
	pass(w, 1);
	task_id there[2] = { submit(w, spec_of(30000, 1)), submit(w, spec_of(30000, 1)) };
	submit(w, spec_of(35000, 2));
	task_id changed = submit(w, spec_of(20000, 1)), waits = submit(w, spec_of(20000, 1));
	pass(w, 3);
	assert_int_equal(state(w, changed), TASK_PENDING);
	assert_int_equal(core_update(w->c, changed, &less, w->now, &err), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, changed), TASK_RUNNING);
	assert_int_equal(state(w, waits), TASK_PENDING);
	exits(w, there[0], 0, SCAN_NOTHING);
	pass(w, 3);
	assert_int_equal(state(w, waits), TASK_RUNNING);
	end_world(w);
}

static bool present(const struct world *w, task_id id)
{
	for (unsigned i = 0; i < w->n_procs; i++)
		if (w->procs[i].task == id)
			return true;
	return false;
}

/* Small tasks come for ever, two every ten seconds; each runs for a minute, so the GPUs are never empty by themselves.
 * Returns after how many seconds the head started, -1: it did not. */
static int stream_of_small_tasks(struct core_config config, int seconds)
{
	struct world *w = new_world(4, &config);
	enum { LIVES = 60 };
	struct { task_id id; int since; } live[64];
	unsigned n = 0;
	int started = -1;
	task_id head = 0;
	for (int t = 0; t < seconds && started < 0; t++) {
		if (t == 60)
			head = submit(w, spec_of(39000, 4));
		for (int k = 0; t % 10 == 0 && k < 2 && n < 64; k++) {
			live[n].id = submit(w, spec_of(9000, 1));
			live[n++].since = -1;
		}
		pass(w, 1);
		for (unsigned i = 0; i < n; i++) {
			if (live[i].since < 0 && state(w, live[i].id) == TASK_RUNNING && !present(w, live[i].id)) {
				live[i].since = t;
				hold_memory(w, live[i].id, 9000);
			} else if (live[i].since >= 0 && t - live[i].since >= LIVES) {
				exits(w, live[i].id, 0, SCAN_NOTHING);
				live[i--] = live[--n];
			}
		}
		if (head && state(w, head) == TASK_RUNNING)
			started = t - 60;
	}
	end_world(w);
	return started;
}

static void a_wide_task_starts_in_an_endless_stream_of_small_ones(void **unused)
{
	(void)unused;
	/* Kept after 200 s, free when the last of those that ran then has ended. */
	int after = stream_of_small_tasks(ordered(ORDER_BACKFILL, 200), 600);
	assert_true(after >= 200 && after <= 200 + 60 + 5);
	/* Without keeping it would wait for ever: the stream is dense enough. */
	assert_int_equal(stream_of_small_tasks(ordered(ORDER_BACKFILL, 10000), 600), -1);
}

static void a_plan_starves_nobody(void **unused)
{
	(void)unused;
	/* The stream's tasks and their time are known once some have ended; the head is put off by plan after plan. */
	struct core_config config = ordered(ORDER_PLAN, 200);
	int after = stream_of_small_tasks(config, 1200);
	assert_true(after >= 0 && after <= 600);
}

static unsigned kept(const struct world *w, task_id id)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < fleet_size(w->c->fleet); i++)
		n += fleet_kept_for(w->c->fleet, i) == id;
	return n;
}

/* Two GPUs, each with a task, and a head that wants both and had waited long enough. */
static struct world *with_a_head(task_id *head)
{
	struct core_config config = ordered(ORDER_BACKFILL, 30);
	struct world *w = new_world(2, &config);
	hold_memory(w, submit(w, spec_of(20000, 1)), 20000);
	hold_memory(w, submit(w, spec_of(20000, 1)), 20000);
	*head = submit(w, spec_of(35000, 2));
	pass(w, 29);
	assert_int_equal(kept(w, *head), 0);
	pass(w, 1);
	assert_int_equal(kept(w, *head), 2);
	return w;
}

static void what_is_kept_for_the_head_ends_with_it(void **unused)
{
	(void)unused;
	task_id head;
	struct world *w = with_a_head(&head);
	task_id small = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, small), TASK_PENDING);
	assert_int_equal(core_cancel(w->c, head, 1000, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, small), TASK_RUNNING);
	end_world(w);

	w = with_a_head(&head);
	small = submit(w, spec_of(5000, 1));
	assert_int_equal(core_hold(w->c, head, 1000, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, small), TASK_RUNNING);
	assert_int_equal(kept(w, head), 0);
	end_world(w);
}

/* A stream that never quite fills the GPUs, and now and then one of the same user that goes before the head and has to wait for
 * a moment. The head's time goes on all the same. */
static void being_overtaken_does_not_begin_the_wait_anew(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 100);
	struct world *w = new_world(2, &config);
	task_id there[2] = { submit(w, spec_of(20000, 1)), submit(w, spec_of(20000, 1)) };
	for (int i = 0; i < 2; i++)
		hold_memory(w, there[i], 20000);
	task_id head = submit(w, spec_of(35000, 2));
	for (int i = 0; i < 9; i++) {
		pass(w, 8);
		struct spec *urgent = spec_of(25000, 1);
		urgent->priority = 10;
		task_id first = submit(w, urgent);
		assert_int_equal(state(w, first), TASK_PENDING);
		pass(w, 1);
		exits(w, there[i % 2], 0, SCAN_NOTHING);
		pass(w, 2);
		assert_int_equal(state(w, first), TASK_RUNNING);
		hold_memory(w, first, 25000);
		there[i % 2] = first;
	}
	assert_int_equal(kept(w, head), 0);
	pass(w, 2);
	assert_int_equal(kept(w, head), 2);
	end_world(w);
}

/* A recovering task that need not be alone, but needs more than the stream ever leaves free at one time. */
static void a_recovering_task_is_not_passed_for_ever(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = ordered((enum core_order)order, 100);
		config.recover.mode = RECOVER_GROW;
		struct world *w = new_world(1, &config);
		task_id grows = submit(w, spec_of(20000, 1)), there[2];
		hold_memory(w, grows, 20000);
		there[0] = submit(w, spec_of(18000, 1));
		exits(w, grows, 1, SCAN_GPU_OOM);
		assert_int_equal(core_task(w->c, grows)->queue, QUEUE_RECOVERY);
		there[1] = submit(w, spec_of(18000, 1));
		pass(w, 2);
		for (int s = 0; s < 200 && state(w, grows) != TASK_RUNNING; s++) {
			if (s % 20 == 0 && state(w, there[s / 20 % 2]) == TASK_RUNNING) {
				exits(w, there[s / 20 % 2], 0, SCAN_NOTHING);
				there[s / 20 % 2] = submit(w, spec_of(18000, 1));
			}
			pass(w, 1);
		}
		assert_int_equal(state(w, grows), TASK_RUNNING);
		end_world(w);
	}
}

static void a_task_of_higher_priority_is_the_head_instead(void **unused)
{
	(void)unused;
	task_id head;
	struct world *w = with_a_head(&head);
	struct spec *urgent = spec_of(5000, 1);
	urgent->priority = 10;
	assert_int_equal(state(w, submit(w, urgent)), TASK_RUNNING);
	/* The other is the head again: those who overtake it by right do not make it wait longer. */
	assert_int_equal(kept(w, head), 2);
	end_world(w);
}

static void a_drained_gpu_is_not_kept(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 5);
	struct world *w = new_world(3, &config);
	for (int i = 0; i < 3; i++)
		submit(w, spec_of(20000, 1));
	task_id head = submit(w, spec_of(35000, 2));
	pass(w, 6);
	assert_int_equal(kept(w, head), 2);
	core_drain(w->c, fleet_kept_for(w->c->fleet, 0) ? "GPU-0" : "GPU-1", true);
	pass(w, 1);
	assert_int_equal(kept(w, head), 2);
	assert_int_equal(fleet_kept_for(w->c->fleet, 2), head);
	/* Nor one that nobody can read any longer; and there is no third, so the other one would idle for as long. Others start
	 * there, and the next one that waits has GPUs kept for it. */
	w->n_gpus = 2;
	pass(w, 1);
	assert_int_equal(kept(w, head), 0);
	task_id behind = submit(w, spec_of(35000, 1));
	pass(w, 6);
	assert_int_equal(state(w, behind), TASK_PENDING);
	assert_int_equal(kept(w, behind), 1);
	/* It was passed for long enough already. */
	w->n_gpus = 3;
	pass(w, 1);
	assert_int_equal(kept(w, behind), 0);
	assert_int_equal(kept(w, head), 2);
	end_world(w);
}

/* A task that completed after a minute alone, with this load. */
static void teach(struct world *w, uint64_t mib, double smact)
{
	task_id id = submit(w, spec_of(mib, 1));
	hold_memory(w, id, mib);
	w->smact = smact;
	pass(w, 120);
	exits(w, id, 0, SCAN_NOTHING);
	pass(w, 2);
}

/* One GPU, of which a process that is nobody's has half: there is room for one task of 100 s at a time, now and later. */
static void a_plan_counts_on_no_memory_of_others(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_STREAMS;
	config.map.foreign_share = true;
	struct world *w = new_world(1, &config);
	teach_time(w, 12000, 1, 100);
	w->foreign_mib = 20000;
	pass(w, 3);
	task_id id[3];
	for (int i = 0; i < 3; i++)
		id[i] = submit(w, spec_of(12000, 1));
	pass(w, 3);
	assert_int_equal(state(w, id[0]), TASK_RUNNING);
	scoped_json *starts = core_starts_json(w->c, w->now);
	for (int i = 1; i < 3; i++) {
		const json_t *one = start_among(starts, id[i]);
		double in_s = json_number_value(json_object_get(one, "in_s"));
		assert_string_equal(json_string_value(json_object_get(one, "source")), "plan");
		assert_true(in_s > 100 * i - 40 && in_s < 100 * i + 1);
	}
	end_world(w);
}

/* Of three GPUs one is busy for 3000 s, one for 50 s, and one is free; a task of two GPUs waits that takes 4000 s, and behind
 * it one that takes 900 s. Whoever lets that one have the free GPU, as backfill does, is done 850 s later. */
static void a_plan_has_the_long_task_start_first(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(3, &config);
	teach_time(w, 30000, 1, 100);
	teach_time(w, 31000, 1, 900);
	teach_time(w, 32000, 2, 4000);
	teach_time(w, 33000, 1, 3000);
	task_id longer = submit(w, spec_of(33000, 1)), runs = submit(w, spec_of(30000, 1));
	hold_memory(w, longer, 33000);
	hold_memory(w, runs, 30000);
	pass(w, 50);
	task_id wide = submit(w, spec_of(32000, 2)), small = submit(w, spec_of(31000, 1));
	pass(w, 3);
	assert_int_equal(state(w, small), TASK_PENDING);
	scoped_free char *why = why_of(w, small);
	assert_non_null(strstr(why, "\"Planned\""));
	assert_non_null(strstr(why, "in about 49 min"));	/* when the longer one has ended */
	assert_non_null(strstr(why, "\"the plan has it start on GPU 0\""));
	exits(w, runs, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_int_equal(state(w, wide), TASK_RUNNING);
	end_world(w);
}

/* As above, but the wide one could not start if all its GPUs were free: nobody waits for its sake. */
static void a_plan_promises_nothing_to_who_is_short_of_host_memory(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	config.host_mem_mib = 64000;
	struct world *w = new_world(3, &config);
	struct spec *much = spec_of(33000, 1), *more = spec_of(32000, 2);
	much->host_mem_mib = 40000;
	more->host_mem_mib = 30000;
	teach_time(w, 30000, 1, 100);
	teach_time(w, 31000, 1, 900);
	teach_time(w, 32000, 2, 4000);
	teach_time(w, 33000, 1, 3000);
	hold_memory(w, submit(w, much), 33000);
	hold_memory(w, submit(w, spec_of(30000, 1)), 30000);
	pass(w, 50);
	task_id wide = submit(w, more), small = submit(w, spec_of(31000, 1)), next = submit(w, spec_of(31000, 1));
	pass(w, 3);
	assert_int_equal(state(w, small), TASK_RUNNING);
	scoped_free char *why = why_of(w, wide);
	assert_non_null(strstr(why, "\"HostMemory\""));
	assert_null(strstr(why, "in about"));
	scoped_json *starts = core_starts_json(w->c, w->now);
	assert_true(json_is_null(json_object_get(start_among(starts, wide), "start_time")));
	assert_string_equal(json_string_value(json_object_get(start_among(starts, next), "source")), "plan");
	double in_s = json_number_value(json_object_get(start_among(starts, next), "in_s"));
	assert_true(in_s > 30 && in_s < 60);	/* when the one of 100 s has ended */
	end_world(w);
}

/* It prints that it has done so many of its seconds, one after the other. */
static void prints(struct world *w, task_id id, double done_s, double whole_s)
{
	struct progress_report r = { .source = PROGRESS_LINES, .t_ms = w->now.mono_ms, .fraction = done_s / whole_s,
				     .left_s = whole_s - done_s, .spread_s = 1, .stands_ms = 60000, .per_s = 1,
				     .whole_units = whole_s, .advanced = done_s, .series = 1 };
	core_progress(w->c, id, &r, (uint64_t)id, w->now);
}

/* As before, with nothing learnt: those that run say how long they and others of their signature take. */
static void a_plan_takes_the_word_of_siblings(void **unused)
{
	(void)unused;
	for (int printing = 0; printing < 2; printing++) {
		struct core_config config = ordered(ORDER_PLAN, 100000);
		config.map.share = SHARE_NEVER;
		struct world *w = new_world(4, &config);
		task_id runs = submit(w, spec_of(30000, 1)), longer = submit(w, spec_of(33000, 1));
		task_id sibling = submit(w, spec_of(31000, 1));
		struct spec *limited = spec_of(32000, 2);
		limited->time_limit_s = 4000;
		hold_memory(w, runs, 30000);
		hold_memory(w, longer, 33000);
		hold_memory(w, sibling, 31000);
		for (int s = 10; s <= 40 && printing; s += 10) {
			pass(w, 10);
			prints(w, runs, s, 90);
			prints(w, longer, s, 3000);
			prints(w, sibling, s, 900);
		}
		submit(w, limited);
		task_id small = submit(w, spec_of(31000, 1));
		pass(w, 3);
		assert_int_equal(state(w, small), printing ? TASK_PENDING : TASK_RUNNING);
		end_world(w);
	}
}

/* Three that fill the GPU, in slices, and have room: one after the other the first is done in a third of the time. */
static void a_plan_holds_back_who_would_only_slow_the_others(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_STREAMS;
	config.map.rank = RANK_GAIN;	/* until there is a plan */
	struct world *w = new_world(1, &config);
	teach(w, 9000, 1);
	task_id tasks[3];
	for (int i = 0; i < 3; i++)
		hold_memory(w, tasks[i] = submit(w, spec_of(9000, 1)), 9000);
	pass(w, 60);
	assert_int_equal(state(w, tasks[0]), TASK_RUNNING);
	assert_int_equal(state(w, tasks[1]), TASK_PENDING);
	assert_int_equal(state(w, tasks[2]), TASK_PENDING);
	scoped_free char *why = why_of(w, tasks[1]);
	assert_non_null(strstr(why, "\"PlannedLater\""));
	assert_non_null(strstr(why, "it would mostly slow who runs there: the plan has it start when no task does, in about 1 min"));
	pass(w, 60);
	exits(w, tasks[0], 0, SCAN_NOTHING);
	pass(w, 3);
	assert_int_equal(state(w, tasks[1]), TASK_RUNNING);	/* they are alike, so it goes by the queue */
	assert_int_equal(state(w, tasks[2]), TASK_PENDING);
	end_world(w);
}

/* Another user's task, with as much to do: his own may wait for each other, and for nobody else's. */
static void a_plan_holds_nobody_back_for_another_user(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_STREAMS;
	config.map.rank = RANK_GAIN;
	struct world *w = new_world(1, &config);
	teach(w, 9000, 1);
	struct spec *theirs = spec_of(9000, 1), *more = spec_of(9000, 1);
	theirs->uid = more->uid = 1001;
	task_id runs = submit(w, spec_of(9000, 1));
	hold_memory(w, runs, 9000);
	task_id other = submit(w, theirs);
	pass(w, 5);
	assert_int_equal(state(w, runs), TASK_RUNNING);
	assert_int_equal(state(w, other), TASK_RUNNING);
	task_id next = submit(w, more);
	pass(w, 5);
	assert_int_equal(state(w, next), TASK_PENDING);
	end_world(w);
}

/* Three tasks run, one waits for two GPUs, and one more comes behind it; the times of `known` of these five are known. Returns
 * whether the last one has to wait. `elsewhere`: a sixth, whose time is known, is on a GPU that is drained. */
static bool last_of_five_waits(unsigned known, bool elsewhere)
{
	static const int64_t limits_s[] = { 90, 900, 3000, 900 };
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(elsewhere ? 5 : 4, &config);
	task_id small = 0;
	if (elsewhere) {
		struct spec *spec = spec_of(30000, 1);
		spec->time_limit_s = 900;
		core_drain(w->c, gpu_of(w, submit(w, spec)), true);
	}
	for (unsigned i = 0; i < 4; i++) {
		struct spec *spec = spec_of(30000 + 1000 * i, 1), *wide = spec_of(40000, 2);
		spec->time_limit_s = i + 1 < known ? limits_s[i] : 0;
		wide->time_limit_s = 4000;
		if (i == 3)
			submit(w, wide);
		else
			spec_unref(wide);
		small = submit(w, spec);
		hold_memory(w, small, 30000 + 1000 * i);
	}
	pass(w, 3);
	bool waits = state(w, small) == TASK_PENDING;
	scoped_json *why = core_why_json(w->c, submit(w, spec_of(1000, 2)), w->now, NULL);
	const json_t *plan = json_object_get(why, "plan");
	assert_int_equal(json_is_null(plan), waits);
	assert_true(waits || json_integer_value(json_object_get(plan, "known")) == known);	/* of these five, and that one */
	assert_true(waits || json_integer_value(json_object_get(plan, "of")) == 6);
	end_world(w);
	return waits;
}

/* With the times of two it is backfill, where the small one starts at once; with those of three a plan keeps the GPU that is
 * free for who wants two. Who runs where no plan may place anybody tells nothing of those that it is about. */
static void a_plan_wants_half_of_the_times(void **unused)
{
	(void)unused;
	for (unsigned known = 1; known <= 4; known++)
		assert_int_equal(last_of_five_waits(known, false), known >= 3);
	assert_false(last_of_five_waits(2, true));
	assert_true(last_of_five_waits(3, true));
}

/* As `rad why` has it; -1: nothing is said of a plan. */
static int plan_is_of(struct world *w, task_id id)
{
	scoped_json *why = core_why_json(w->c, id, w->now, NULL);
	const json_t *plan = json_object_get(why, "plan");
	return json_is_null(plan) ? -1 : (int)json_integer_value(json_object_get(plan, "of"));
}

/* Plans are made once a second at most: who asks at once for a task that came since is not told of those before it alone. */
static void what_an_outdated_plan_counted_is_not_told(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(1, &config);
	submit(w, spec_of(1000, 1));
	task_id second = submit(w, spec_of(1000, 1));
	assert_int_equal(plan_is_of(w, second), -1);
	pass(w, 3);
	assert_int_equal(plan_is_of(w, second), 2);
	end_world(w);
}

static void without_times_a_plan_is_backfill(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(2, &config);
	hold_memory(w, submit(w, spec_of(30000, 1)), 30000);
	task_id wide = submit(w, spec_of(32000, 2)), small = submit(w, spec_of(31000, 1));
	pass(w, 3);
	assert_int_equal(state(w, wide), TASK_PENDING);
	assert_int_equal(state(w, small), TASK_RUNNING);
	end_world(w);
}

/* Of one that waits nothing is known but how long it takes; of the other, its load. */
static void a_plan_takes_an_unknown_load_for_more_than_half(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 100000);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(1, &config);
	teach(w, 9000, 0.25);
	struct spec *unknown = spec_of(12000, 1);
	unknown->time_limit_s = 900;
	hold_memory(w, submit(w, spec_of(9000, 1)), 9000);
	struct spec *half = spec_of(9500, 1);	/* its GRACT is not known, and no less than its SMACT */
	remember_load(w, half, NAN, 0.9, 300);
	task_id ids[] = { submit(w, unknown), submit(w, spec_of(9000, 1)), submit(w, half) };
	pass(w, 3);
	assert_float_equal(pass_planned(w->c->pass, ids[2])->p.load.gract, 0.9, 0);
	const struct planned *first = pass_planned(w->c->pass, ids[0]), *second = pass_planned(w->c->pass, ids[1]);
	assert_true(first && second);
	assert_float_equal(first->p.load.smact, 0.7, 0);
	assert_float_equal(first->p.load.gract, 0.7, 0);
	assert_float_equal(second->p.load.smact, 0.25, 0.01);
	end_world(w);
}

/* The plan is full of tasks that came before it. */
static void who_was_passed_for_long_enough_has_a_place_in_a_full_plan(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 30);
	config.map.share = SHARE_NEVER;
	struct world *w = new_world(2, &config);
	teach_time(w, 30000, 1, 100);
	task_id runs = submit(w, spec_of(30000, 1));
	for (int i = 0; i < 71; i++)
		submit(w, spec_of(30000, 1));
	pass(w, 3);
	struct spec *urgent = spec_of(30000, 1);
	urgent->priority = 10;
	task_id first = submit(w, urgent);
	pass(w, 60);
	exits(w, runs, 0, SCAN_NOTHING);
	pass(w, 3);
	assert_int_equal(state(w, first), TASK_RUNNING);
	for (unsigned job = 1; job <= w->next_job; job++)	/* and none of those that it displaced is lost */
		if (state(w, TASK_ID(job, -1)) == TASK_PENDING)
			free(why_of(w, TASK_ID(job, -1)));
	end_world(w);
}

/* A task that a former radd left: submitted, and with `oom` it ran once, and out of memory. */
static struct task *left_behind(struct world *w, struct spec *s, bool oom, bool alone_next)
{
	char gpus[1][GPU_UUID_LEN] = { "GPU-0" };
	const struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = w->now.wall_ms },
		{ .kind = EV_ESTIMATED, .u.estimate = { .claim_mib = s->gpu_mem_mib } },
		{ .kind = EV_PLACED, .u.placed = { .gpus = gpus, .n_gpus = 1, .mode = SHARE_MPS, .claim_mib = s->gpu_mem_mib } },
		{ .kind = EV_ENDED, .u.ended = { .verdict = VERDICT_OOM, .exit_code = 1, .next = NEXT_RECOVER,
						 .state = TASK_PENDING, .next_exclusive = alone_next } },
	};
	return restore(w, TASK_ID(++w->next_job, -1), s, log, oom ? COUNT_OF(log) : 2);
}

/* Nothing has happened yet that a plan is made for. */
static void a_plan_after_a_restart(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_PLAN, 30);
	for (int oom = 0; oom < 2; oom++) {
		struct world *w = new_world(1, &config);
		struct task *t = left_behind(w, spec_of(30000, 1), oom, true);
		assert_int_equal(t->queue, oom ? QUEUE_RECOVERY : QUEUE_MAIN);
			pass(w, 2);
		assert_int_equal(state(w, TASK_ID(1, -1)), TASK_RUNNING);
		end_world(w);
	}
}

static task_id submit_shared(struct world *w, uint64_t mib, enum share_mode mode)
{
	struct spec *s = spec_of(mib, 1);
	s->share = mode;
	task_id id = submit(w, s);
	hold_memory(w, id, mib);
	pass(w, 31);
	return id;
}

/* It ran out of memory at its fence and asks for more now. Two heavy tasks gain nothing on one GPU, so by gain it would wait
 * for the other to end; a plan holds no user's task back for another's. One that is to be alone waits for a GPU to itself. */
static void a_plan_has_recovering_tasks_start_too(void **unused)
{
	(void)unused;
	for (int alone = 0; alone < 2; alone++) {
		struct core_config config = ordered(ORDER_PLAN, 100000);
		config.map.share = SHARE_STREAMS;
		config.map.rank = RANK_GAIN;
		struct world *w = new_world(1, &config);
		teach(w, 9000, 1);
		task_id runs = submit(w, spec_of(9000, 1));
		hold_memory(w, runs, 9000);
		struct spec *theirs = spec_of(9000, 1);
		theirs->uid = 1001;
		struct task *t = left_behind(w, theirs, true, alone);
		assert_int_equal(t->queue, QUEUE_RECOVERY);
		pass(w, 5);
		assert_int_equal(state(w, runs), TASK_RUNNING);
		assert_int_equal(t->state, alone ? TASK_PENDING : TASK_RUNNING);
		end_world(w);
	}
}

/* The recovering task is asked first, and the GPU that it could have is kept for the head; which then starts elsewhere. */
static void what_the_head_did_not_need_is_for_those_before_it_at_once(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_BACKFILL, 5);
	struct world *w = new_world(2, &config);
	submit_shared(w, 22000, SHARE_MPS);
	task_id leaves = submit_shared(w, 20000, SHARE_STREAMS);
	submit_shared(w, 10000, SHARE_STREAMS);
	task_id head = submit(w, spec_of(20000, 1));
	pass(w, 6);
	assert_int_equal(fleet_kept_for(w->c->fleet, 0), head);
	struct spec *s = spec_of(15000, 1);
	s->share = SHARE_MPS;
	struct task *t = left_behind(w, s, true, false);
	pass(w, 1);
	assert_int_equal(t->state, TASK_PENDING);
	exits(w, leaves, 0, SCAN_NOTHING);
	for (int i = 0; i < 60 && state(w, head) == TASK_PENDING; i++)
		pass(w, 1);
	assert_string_equal(gpu_of(w, head), "GPU-1");
	assert_string_equal(gpu_of(w, t->id), "GPU-0");
	end_world(w);
}

static task_id submit_limited(struct world *w, uint64_t mib, double max_slowdown)
{
	struct spec *s = spec_of(mib, 1);
	s->max_slowdown = max_slowdown;
	return submit(w, s);
}

static void limits_on_slow_downs_are_kept(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 0);
	config.map.share = SHARE_STREAMS;
	struct world *w = new_world(1, &config);
	teach(w, 9000, 0.9);
	teach(w, 3000, 0.1);
	task_id heavy = submit_limited(w, 9000, 1.5), light = submit(w, spec_of(3000, 1)), second = submit(w, spec_of(9000, 1));
	assert_int_equal(state(w, heavy), TASK_RUNNING);
	assert_int_equal(state(w, light), TASK_RUNNING);	/* 0.82 / 0.9 is left to the heavy one */
	assert_int_equal(state(w, second), TASK_PENDING);	/* 0.41 / 0.9 would be */
	struct error err = ERROR_INIT;
	json_t *why = core_why_json(w->c, second, w->now, &err);
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "Slowdown");
	json_decref(why);
	struct event ev = { .u.updated = { .set_max_slowdown = true, .max_slowdown = 0 } };
	assert_int_equal(core_update(w->c, heavy, &ev, w->now, NULL), 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, second), TASK_RUNNING);
	end_world(w);
}

static void gain_goes_by_the_load_until_it_has_seen(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.rank = RANK_GAIN;
	config.map.share = SHARE_STREAMS;
	struct world *w = new_world(1, &config);
	w->smact = 0.95;
	task_id a = submit(w, spec_of(3000, 1)), joins = submit(w, spec_of(2000, 1)), b = submit(w, spec_of(4000, 1));
	hold_memory(w, a, 3000);
	assert_int_equal(state(w, joins), TASK_RUNNING);	/* two halves of a GPU, as far as anybody knows */
	assert_int_equal(state(w, b), TASK_PENDING);
	json_t *why = core_why_json(w->c, b, w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "Load");
	json_decref(why);
	pass(w, 40);	/* they were seen: they fill the GPU */
	why = core_why_json(w->c, b, w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(why, "reason")), "Gain");
	json_decref(why);
	w->smact = 0.2;
	pass(w, 120);	/* and no longer does */
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

/* GPUs kept under one order are not kept for ever under another. */
static void what_was_kept_is_decided_anew_under_other_settings(void **unused)
{
	(void)unused;
	struct core_config config = ordered(ORDER_FIFO, 100);
	struct world *w = new_world(2, &config);
	task_id runs = submit(w, spec_of(30000, 1)), head = submit(w, spec_of(35000, 2));
	pass(w, 10);
	assert_int_equal(kept(w, head), 2);
	config.order = ORDER_BACKFILL;
	core_reconfigure(w->c, &config);
	core_turn(w->c, w->now);
	assert_int_equal(kept(w, head), 0);
	pass(w, 100);
	assert_int_equal(kept(w, head), 2);
	config.order = ORDER_STRICT;
	core_reconfigure(w->c, &config);
	core_turn(w->c, w->now);
	assert_int_equal(kept(w, head), 2);	/* it has waited for long enough already */
	exits(w, runs, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, head), TASK_RUNNING);
	end_world(w);
}

/* To ask whether something could ever run changes nothing: a task that comes in the turn of a sample, after such a question, is
 * placed as it would have been without. */
static void feasibility_is_asked_without_a_trace(void **unused)
{
	(void)unused;
	for (int asked = 0; asked < 2; asked++) {
		struct core_config config = ordered(ORDER_BACKFILL, 600);
		config.map.rank = RANK_GAIN;
		struct world *w = new_world(1, &config);
		struct spec *probe = spec_of(1000, 1);
		w->smact = 0.1;
		task_id first = submit(w, spec_of(5000, 1));
		hold_memory(w, first, 5000);
		pass(w, 60);	/* its load is seen by now */
		sample(w);
		if (asked)
			assert_int_equal(core_feasible(w->c, probe, NULL), 0);
		assert_int_equal(state(w, submit(w, spec_of(5000, 1))), TASK_RUNNING);
		spec_unref(probe);
		end_world(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_tasks_pass_a_head_that_does_not_fit),
		cmocka_unit_test(who_was_refused_behind_the_head_is_asked_again_for_less),
		cmocka_unit_test(a_wide_task_starts_in_an_endless_stream_of_small_ones),
		cmocka_unit_test(a_plan_starves_nobody),
		cmocka_unit_test(a_plan_counts_on_no_memory_of_others),
		cmocka_unit_test(a_plan_has_the_long_task_start_first),
		cmocka_unit_test(a_plan_promises_nothing_to_who_is_short_of_host_memory),
		cmocka_unit_test(a_plan_takes_the_word_of_siblings),
		cmocka_unit_test(a_plan_holds_back_who_would_only_slow_the_others),
		cmocka_unit_test(a_plan_holds_nobody_back_for_another_user),
		cmocka_unit_test(a_plan_wants_half_of_the_times),
		cmocka_unit_test(what_an_outdated_plan_counted_is_not_told),
		cmocka_unit_test(without_times_a_plan_is_backfill),
		cmocka_unit_test(a_plan_takes_an_unknown_load_for_more_than_half),
		cmocka_unit_test(who_was_passed_for_long_enough_has_a_place_in_a_full_plan),
		cmocka_unit_test(a_plan_after_a_restart),
		cmocka_unit_test(a_plan_has_recovering_tasks_start_too),
		cmocka_unit_test(what_the_head_did_not_need_is_for_those_before_it_at_once),
		cmocka_unit_test(what_is_kept_for_the_head_ends_with_it),
		cmocka_unit_test(being_overtaken_does_not_begin_the_wait_anew),
		cmocka_unit_test(a_recovering_task_is_not_passed_for_ever),
		cmocka_unit_test(a_task_of_higher_priority_is_the_head_instead),
		cmocka_unit_test(a_drained_gpu_is_not_kept),
		cmocka_unit_test(limits_on_slow_downs_are_kept),
		cmocka_unit_test(gain_goes_by_the_load_until_it_has_seen),
		cmocka_unit_test(feasibility_is_asked_without_a_trace),
		cmocka_unit_test(what_was_kept_is_decided_anew_under_other_settings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
