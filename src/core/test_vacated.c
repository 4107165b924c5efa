/* SPDX-License-Identifier: MIT
 * What tasks vacate when their time slots are over: it is kept for whom they were asked, for as long as that makes sense, and
 * no longer.
 */
#include "core/test_world.h"

#define GRACE_S 300

/* Tasks that go when they are asked, each after a time of its own, and do something in each slot. */
struct pool {
	task_id ids[8];
	unsigned n;
	uint32_t begun[8];	/* attempts */
	int save_s[8];
};

#define STAYS 1000000		/* for save_s: it never goes */

static struct core_config with_slots(enum core_order order, int64_t slot_s)
{
	struct core_config c = ordered(order, 3600);
	c.slot_ms = slot_s * 1000;
	return c;
}

static void pool_add(struct pool *k, struct world *w, struct spec *s, int save_s)
{
	k->begun[k->n] = 0;
	k->save_s[k->n] = save_s;
	k->ids[k->n++] = submit(w, s);
}

static void member_begins(struct pool *k, struct world *w, unsigned i)
{
	static pid_t pid = 5000;
	const struct progress_report p = { .t_ms = w->now.mono_ms, .source = PROGRESS_TQDM, .advanced = 7, .whole_units = 100000,
					   .fraction = 0.00007, .left_s = -1, .spread_s = -1 };
	const struct task *t = core_task(w->c, k->ids[i]);
	if (t->n_attempts == k->begun[i])
		return;
	k->begun[i] = t->n_attempts;
	core_started(w->c, k->ids[i], (struct proc_id){ pid++, 1 }, w->now);
	core_progress(w->c, k->ids[i], &p, (uint64_t)pid, w->now);
	end_process(w, k->ids[i]);
	hold_memory(w, k->ids[i], t->spec->gpu_mem_mib);
}

/* A second goes by. */
static void pool_goes_on(struct pool *k, struct world *w)
{
	pass(w, 1);
	for (unsigned i = 0; i < k->n; i++) {
		const struct task *t = core_task(w->c, k->ids[i]);
		if (state(w, k->ids[i]) != TASK_RUNNING)
			continue;
		member_begins(k, w, i);
		if (timeslots_leaving(w->c->timeslots, t, w->now.wall_ms) &&
		    (w->now.wall_ms - task_attempt(t)->slot_asked_ms) / 1000 >= k->save_s[i])
			exits(w, k->ids[i], SPEC_REQUEUE_CODE, SCAN_NOTHING);
	}
}

static void pool_for(struct pool *k, struct world *w, int seconds)
{
	for (int s = 0; s < seconds; s++)
		pool_goes_on(k, w);
}

/* Until that task runs; -1: not within so many seconds. */
static int pool_until(struct pool *k, struct world *w, task_id id, int most_s)
{
	for (int s = 0; s < most_s; s++) {
		if (state(w, id) == TASK_RUNNING)
			return s;
		pool_goes_on(k, w);
	}
	return -1;
}

static unsigned kept(const struct world *w, task_id id)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < fleet_size(w->c->fleet); i++)
		n += fleet_kept_for(w->c->fleet, i) == id;
	return n;
}

static unsigned pool_runs(const struct pool *k, const struct world *w)
{
	unsigned n = 0;
	for (unsigned i = 0; i < k->n; i++)
		n += state(w, k->ids[i]) == TASK_RUNNING;
	return n;
}

static unsigned asks(const struct world *w, task_id id)
{
	return happened(w, id, EV_SLOT_ASKED);
}

static struct spec *wide_of(unsigned gpus)
{
	struct spec *s = spec_of(30000, gpus);
	s->exclusive = true;
	s->slot_s = -1;
	return s;
}

/* Four GPUs and so many members that save for 1, 3, 5, ... s; their first slots are over. */
static struct world *with_pool(struct pool *k, const struct core_config *config, unsigned n)
{
	struct world *w = new_world(4, config);
	k->n = 0;
	for (unsigned i = 0; i < n; i++)
		pool_add(k, w, spec_of(30000, 1), 1 + 2 * (int)i);
	pool_for(k, w, 6);
	return w;
}

/* They do not save equally fast: who went first would have its GPU again before the last has gone, for ever. */
static void a_wide_task_gets_what_is_left_for_it(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 5);
		struct pool k;
		struct world *w = with_pool(&k, &config, 4);
		task_id wide = submit(w, wide_of(4));
		/* The last saves for 7 s, and a GPU settles. */
		assert_in_range(pool_until(&k, w, wide, 60), 7, 7 + 3);
		for (unsigned i = 0; i < k.n; i++)
			assert_int_equal(asks(w, k.ids[i]), 1);
		end_world(w);
	}
}

/* Six take turns on four GPUs, so their slots are never over at the same time. Two that are asked go before it; then nobody
 * begins a new slot before it has started. */
static void nobody_begins_a_slot_before_a_wide_task(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 20);
		struct pool k = { .n = 0 };
		struct world *w = new_world(4, &config);
		for (int i = 0; i < 6; i++) {
			pool_add(&k, w, spec_of(30000, 1), 1);
			pool_for(&k, w, 7);
		}
		pool_for(&k, w, 60);
		task_id wide = submit(w, wide_of(4));
		/* Before it two that wait, each for a slot that is over within 20 s; then what they began. */
		assert_in_range(pool_until(&k, w, wide, 120), 1, 2 * (20 + 1 + 3));
		end_world(w);
	}
}

/* One of the four hears nothing: the others would go in vain. What waits for one GPU goes on having one of those asked. */
static void nobody_goes_for_what_one_that_hears_nothing_keeps(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 20);
		struct pool k = { .n = 0 };
		struct world *w = new_world(4, &config);
		for (int i = 0; i < 4; i++)
			pool_add(&k, w, spec_of(30000, 1), 1);
		w->deaf = k.ids[1];
		pool_for(&k, w, 30);
		task_id wide = submit(w, wide_of(4));
		pool_for(&k, w, 3);
		assert_int_equal(asks(w, w->deaf), 1);
		assert_int_equal(asks(w, k.ids[0]) + asks(w, k.ids[2]) + asks(w, k.ids[3]), 0);
		assert_null(pass_vacated_for(w->c->pass, wide));
		assert_int_equal(pool_runs(&k, w), 4);
		assert_string_equal(core_task_reason(w->c, core_task(w->c, w->deaf), w->now), "SlotOver");
		/* It got a handler: it is asked anew, and goes. */
		task_id late = w->deaf;
		w->deaf = 0;
		assert_in_range(pool_until(&k, w, wide, 2 * GRACE_S), 1, GRACE_S + 1 + 3);
		assert_int_equal(asks(w, late), 2);
		end_world(w);
	}
}

/* Nothing of its GPU idles while it is asked: what fits beside it starts. */
static void one_that_hears_nothing_is_not_waited_for(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 20);
	struct pool k = { .n = 0 };
	struct world *w = new_world(1, &config);
	pool_add(&k, w, spec_of(30000, 1), 1);
	w->deaf = k.ids[0];
	pool_for(&k, w, 30);
	task_id large = submit(w, spec_of(35000, 1));
	pool_for(&k, w, 3);
	assert_int_equal(asks(w, w->deaf), 1);
	assert_false(core_is_leaving(w->c, core_task(w->c, w->deaf), w->now));
	assert_null(pass_vacated_for(w->c->pass, large));
	task_id small = submit(w, spec_of(5000, 1));
	assert_int_equal(state(w, small), TASK_RUNNING);
	exits(w, small, 0, SCAN_NOTHING);
	pool_for(&k, w, 2 * GRACE_S);
	assert_int_equal(asks(w, w->deaf), TIMESLOTS_ASKS);
	end_world(w);
}

static void what_is_kept_is_given_back_where_nobody_wants_it(void **unused)
{
	(void)unused;
	for (int held = 0; held < 2; held++) {
		struct core_config config = with_slots(ORDER_PLAN, 5);
		struct pool k;
		struct world *w = with_pool(&k, &config, 4);
		task_id wide = submit(w, wide_of(4));
		pool_for(&k, w, 4);
		assert_int_equal(kept(w, wide), 4);
		assert_int_equal(pool_runs(&k, w), 2);
		if (held)
			assert_int_equal(core_hold(w->c, wide, 1000, w->now, NULL), 0);
		else
			assert_int_equal(core_cancel(w->c, wide, 1000, w->now, NULL), 0);
		core_turn(w->c, w->now);
		assert_int_equal(pool_runs(&k, w), 4);
		end_world(w);
	}
}

/* Who goes before it in the order goes before it here. It has lost its place, and the others need not wait for it. */
static void one_that_goes_before_it_takes_the_place(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 5);
	struct pool k;
	struct world *w = with_pool(&k, &config, 4);
	struct spec *urgent = spec_of(30000, 1);
	task_id wide = submit(w, wide_of(4));
	pool_for(&k, w, 4);
	assert_int_equal(kept(w, wide), 4);
	urgent->priority = 10;
	urgent->slot_s = -1;
	task_id first = submit(w, urgent);
	assert_in_range(pool_until(&k, w, first, 10), 0, 2);
	pool_for(&k, w, 2);
	assert_int_equal(kept(w, wide), 0);
	assert_true(pool_runs(&k, w) >= 1);
	pool_for(&k, w, 20);
	assert_int_equal(pool_runs(&k, w), 3);
	exits(w, first, 0, SCAN_NOTHING);
	/* Somebody passes it on the GPU that is free now, and has his slot. */
	assert_in_range(pool_until(&k, w, wide, 60), 0, 5 + 7 + 3 + 3);
	end_world(w);
}

/* One of the four stays: when its time to save is over nothing is kept any more, and the others are back. */
static void nobody_waits_longer_than_the_grace_of_one_that_stays(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 3600);
		struct pool k;
		struct world *w = with_pool(&k, &config, 4);
		k.save_s[3] = STAYS;
		later(w, 3600 * 1000);
		task_id wide = submit(w, wide_of(4));
		pool_for(&k, w, GRACE_S - 5);
		assert_int_equal(kept(w, wide), 4);
		assert_int_equal(pool_runs(&k, w), 1);
		pool_for(&k, w, 5 + 5);
		assert_int_equal(kept(w, wide), order == ORDER_FIFO ? 4 : 0);
		if (order == ORDER_BACKFILL)
			assert_int_equal(pool_runs(&k, w), 4);
		end_world(w);
	}
}

/* It has a handler, for something else perhaps. What it costs others to wait for it they pay once in an attempt. */
static void one_that_stayed_is_not_waited_for_again(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 2 * GRACE_S);
	struct pool k;
	struct world *w = with_pool(&k, &config, 4);
	k.save_s[3] = STAYS;
	task_id wide = submit(w, wide_of(4));
	pool_for(&k, w, 2 * GRACE_S + GRACE_S - 10);
	assert_int_equal(kept(w, wide), 4);
	pool_for(&k, w, 20);
	assert_int_equal(asks(w, k.ids[3]), 1);
	for (int s = 0; s < 4 * GRACE_S; s++) {
		pool_goes_on(&k, w);
		assert_int_equal(kept(w, wide), 0);
		assert_int_equal(pool_runs(&k, w), 4);
	}
	assert_int_equal(asks(w, k.ids[3]), TIMESLOTS_ASKS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(asks(w, k.ids[i]), 1);
	/* Another attempt is another chance. */
	k.save_s[3] = 1;
	exits(w, k.ids[3], SPEC_REQUEUE_CODE, SCAN_NOTHING);
	assert_in_range(pool_until(&k, w, wide, 3 * GRACE_S), 0, 2 * GRACE_S + 7 + 3);
	end_world(w);
}

/* Its process has gone, and the driver lists it still. */
static void memory_that_is_not_given_back_is_not_waited_for_for_ever(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 3600);
	struct pool k;
	struct world *w = with_pool(&k, &config, 4);
	later(w, 3600 * 1000);
	task_id wide = submit(w, wide_of(4));
	while (state(w, k.ids[0]) == TASK_RUNNING)
		pool_goes_on(&k, w);
	hold_memory(w, k.ids[0], 30000);
	w->procs[w->n_procs - 1].stuck = 1;
	pool_for(&k, w, GRACE_S - 5);
	assert_int_equal(kept(w, wide), 4);
	assert_int_equal(pool_runs(&k, w), 0);
	pool_for(&k, w, 5 + 5);
	assert_int_equal(kept(w, wide), 0);
	assert_int_equal(pool_runs(&k, w), 3);
	end_world(w);
}

static void a_gpu_that_goes_is_not_waited_for(void **unused)
{
	(void)unused;
	for (int drained = 0; drained < 2; drained++) {
		struct core_config config = with_slots(ORDER_BACKFILL, 5);
		struct pool k;
		struct world *w = with_pool(&k, &config, 4);
		task_id wide = submit(w, wide_of(4));
		pool_for(&k, w, 4);
		assert_int_equal(kept(w, wide), 4);
		if (drained)
			core_drain(w->c, "GPU-3", true);
		else
			w->n_gpus = 3;
		pool_for(&k, w, 20);
		assert_int_equal(kept(w, wide), 0);
		assert_true(pool_runs(&k, w) >= 3);
		w->n_gpus = 4;
		core_drain(w->c, "GPU-3", false);
		/* Who waits for one of the three has his turn; then as above. */
		assert_in_range(pool_until(&k, w, wide, 60), 0, 7 + 3 + 5 + 7 + 3);
		end_world(w);
	}
}

/* Of four GPUs each wants three. The first one is not kept waiting by what is kept for the second. */
static void two_wide_tasks_go_one_after_the_other(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 5);
		struct pool k;
		struct world *w = with_pool(&k, &config, 4);
		task_id first = submit(w, wide_of(3)), second = submit(w, wide_of(3));
		assert_in_range(pool_until(&k, w, first, 60), 3, 7 + 3);
		hold_memory(w, first, 30000);
		pool_for(&k, w, 20);
		assert_int_equal(state(w, second), TASK_PENDING);
		exits(w, first, 0, SCAN_NOTHING);
		assert_in_range(pool_until(&k, w, second, 60), 0, 5 + 7 + 3);
		end_world(w);
	}
}

/* A radd before this one asked the one on GPU 0, which has not gone yet; GPU 1 is free already. Whoever waits behind the wide
 * task is not started there in the first turn. */
static void a_restart_keeps_what_is_being_vacated(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 3600);
	struct world *w = blind_world(2, &config);
	int64_t then = w->now.wall_ms - 2 * 3600 * 1000;
	char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	struct event log[] = {
		{ .kind = EV_SUBMITTED, .t_ms = then },
		{ .kind = EV_ESTIMATED, .t_ms = then, .u.estimate = { "declared", 30000, 30000, 30000 } },
		{ .kind = EV_PLACED, .t_ms = then, .u.placed = { gpu, 1, SHARE_MPS, 30000, false } },
		{ .kind = EV_STARTED, .t_ms = then, .u.started.shim = { 4242, 1 } },
		{ .kind = EV_SLOT_ASKED, .t_ms = w->now.wall_ms - 2000 },
	};
	task_id leaves = restore(w, TASK_ID(77, -1), spec_of(30000, 1), log, COUNT_OF(log))->id;
	log[0].t_ms = log[1].t_ms = w->now.wall_ms - 5000;
	task_id wide = restore(w, TASK_ID(78, -1), wide_of(2), log, 2)->id;
	log[0].t_ms = log[1].t_ms = w->now.wall_ms - 1000;
	task_id small = restore(w, TASK_ID(79, -1), spec_of(30000, 1), log, 2)->id;
	hold_memory(w, leaves, 30000);
	pass(w, 3);
	assert_int_equal(state(w, small), TASK_PENDING);
	assert_int_equal(kept(w, wide), 2);
	exits(w, leaves, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, wide), TASK_RUNNING);
	end_world(w);
}

/* Two tasks of one user make place for another one only if it is his turn when both have gone. He had more of late, so it is
 * theirs then, though not while one of them still runs. */
static void users_are_weighed_as_if_all_had_gone(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 3600);
	struct world *w = new_world(2, &config);
	struct pool k = { .n = 0 };
	struct spec *s = wide_of(2);
	core_remember_used(w->c, 2000, 1e6, w->now.wall_ms, w->now);
	for (int i = 0; i < 2; i++)
		pool_add(&k, w, spec_of(30000, 1), 1);
	pool_for(&k, w, 2);
	later(w, 3601 * 1000);
	core_remember_start(w->c, 2000, w->now.wall_ms - 60000, w->now);	/* he is not owed a start yet */
	s->uid = 2000;
	task_id wide = submit(w, s);
	pool_for(&k, w, 10);
	assert_int_equal(asks(w, k.ids[0]) + asks(w, k.ids[1]), 0);
	/* After pass_max he is. */
	later(w, 3601 * 1000);
	assert_in_range(pool_until(&k, w, wide, 20), 0, 5);
	end_world(w);
}

/* Under fifo one whose limit is over before the head is promised its GPUs may use them. Of those who were asked nobody knows
 * when they end. */
static void nobody_is_lent_what_is_being_vacated(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_FIFO, 3600);
	struct world *w = new_world(2, &config);
	struct pool k = { .n = 0 };
	for (int i = 0; i < 2; i++) {
		struct spec *s = spec_of(30000, 1);
		s->time_limit_s = 10 * 3600;
		pool_add(&k, w, s, 20);
	}
	pool_for(&k, w, 2);
	later(w, 3601 * 1000);
	task_id wide = submit(w, wide_of(2));
	pool_for(&k, w, 2);
	struct spec *brief = spec_of(5000, 1);
	brief->time_limit_s = 60;
	assert_int_equal(state(w, submit(w, brief)), TASK_PENDING);
	assert_in_range(pool_until(&k, w, wide, 60), 15, 25);
	end_world(w);
}

static struct spec *with_cpus(struct spec *s, unsigned cpus)
{
	s->cpus = cpus;
	return s;
}

/* So many members of so many CPUs on GPUs of their own, which save for 1, 7, 13, ... s; one GPU is free. */
static struct world *with_cpu_pool(struct pool *k, struct core_config *config, unsigned n, unsigned cpus)
{
	config->host_cpus = n * cpus;
	config->max_cpu = 0;
	struct world *w = new_world(n + 1, config);
	k->n = 0;
	for (unsigned i = 0; i < n; i++)
		pool_add(k, w, with_cpus(spec_of(30000, 1), cpus), 1 + 6 * (int)i);
	pool_for(k, w, 6);
	return w;
}

/* Its GPU is free; who goes first, or a task without GPUs, would have its CPUs before the last one has gone. */
static void cpus_are_kept_too(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = with_slots((enum core_order)order, 5);
		struct pool k;
		struct world *w = with_cpu_pool(&k, &config, 2, 4);
		struct spec *s = with_cpus(spec_of(30000, 1), 8);
		s->slot_s = -1;
		task_id wants = submit(w, s), without = submit(w, with_cpus(spec_of(0, 0), 1));
		assert_in_range(pool_until(&k, w, wants, 60), 7, 7 + 3);
		assert_int_equal(asks(w, k.ids[0]), 1);
		assert_int_equal(asks(w, k.ids[1]), 1);
		assert_int_equal(state(w, without), TASK_PENDING);
		end_world(w);
	}
}

/* Nobody wants them any more: tasks without GPUs, which nothing else wakes, have them at once. */
static void cpus_are_given_back_where_nobody_wants_them(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 5);
	struct pool k;
	struct world *w = with_cpu_pool(&k, &config, 2, 4);
	k.save_s[1] = STAYS;
	task_id wants = submit(w, with_cpus(spec_of(30000, 1), 8)), without = submit(w, with_cpus(spec_of(0, 0), 1));
	pool_for(&k, w, 20);
	assert_int_equal(pool_runs(&k, w), 1);
	assert_int_equal(state(w, without), TASK_PENDING);
	core_cancel(w->c, wants, 1000, w->now, NULL);
	core_turn(w->c, w->now);
	assert_true(state(w, without) == TASK_RUNNING || pool_runs(&k, w) == 2);
	end_world(w);
}

/* Not what it asked for when it was looked at. */
static void what_is_kept_of_the_host_is_what_is_asked_for_now(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 5);
	struct pool k;
	config.host_mem_mib = 10000;
	struct world *w = with_cpu_pool(&k, &config, 2, 4);
	k.save_s[1] = STAYS;
	struct spec *s = with_cpus(spec_of(30000, 1), 8), *o = spec_of(1000, 1);
	s->host_mem_mib = 8000;
	o->host_mem_mib = 5000;
	task_id wants = submit(w, s);
	pool_for(&k, w, 20);
	task_id other = submit(w, o);
	assert_non_null(pass_vacated_for(w->c->pass, wants));
	assert_string_equal(reason_of(w, other), "HostMemory");
	struct event less = { .u.updated = { .set_host_mem = true, .host_mem_mib = 4000 } };
	assert_int_equal(core_update(w->c, wants, &less, w->now, NULL), 0);
	assert_string_not_equal(reason_of(w, other), "HostMemory");
	end_world(w);
}

/* Two that wait would each find a GPU and the CPUs; together they do not, so nobody goes for the second one. */
static void cpus_are_promised_once(void **unused)
{
	(void)unused;
	struct core_config config = with_slots(ORDER_BACKFILL, 20);
	struct pool k;
	struct world *w = with_cpu_pool(&k, &config, 4, 2);
	k.save_s[0] = 13;
	pool_for(&k, w, 30);
	task_id first = submit(w, with_cpus(spec_of(30000, 1), 4)), second = submit(w, with_cpus(spec_of(30000, 1), 6));
	pool_for(&k, w, 4);
	assert_int_equal(asks(w, k.ids[0]) + asks(w, k.ids[1]), 2);
	assert_int_equal(asks(w, k.ids[2]) + asks(w, k.ids[3]), 0);
	assert_non_null(pass_vacated_for(w->c->pass, first));
	assert_null(pass_vacated_for(w->c->pass, second));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wide_task_gets_what_is_left_for_it),
		cmocka_unit_test(nobody_begins_a_slot_before_a_wide_task),
		cmocka_unit_test(nobody_goes_for_what_one_that_hears_nothing_keeps),
		cmocka_unit_test(one_that_hears_nothing_is_not_waited_for),
		cmocka_unit_test(what_is_kept_is_given_back_where_nobody_wants_it),
		cmocka_unit_test(one_that_goes_before_it_takes_the_place),
		cmocka_unit_test(nobody_waits_longer_than_the_grace_of_one_that_stays),
		cmocka_unit_test(one_that_stayed_is_not_waited_for_again),
		cmocka_unit_test(memory_that_is_not_given_back_is_not_waited_for_for_ever),
		cmocka_unit_test(a_gpu_that_goes_is_not_waited_for),
		cmocka_unit_test(two_wide_tasks_go_one_after_the_other),
		cmocka_unit_test(a_restart_keeps_what_is_being_vacated),
		cmocka_unit_test(users_are_weighed_as_if_all_had_gone),
		cmocka_unit_test(nobody_is_lent_what_is_being_vacated),
		cmocka_unit_test(cpus_are_kept_too),
		cmocka_unit_test(cpus_are_given_back_where_nobody_wants_them),
		cmocka_unit_test(what_is_kept_of_the_host_is_what_is_asked_for_now),
		cmocka_unit_test(cpus_are_promised_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
