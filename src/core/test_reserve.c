/* SPDX-License-Identifier: MIT
 * Reservations: who may start on whose GPUs and when, who goes first there, and which GPUs one gets.
 */
#include "core/test_world.h"

#include "base/json.h"

#include <math.h>

#define ADA 2000
#define HOUR_MS INT64_C(3600000)

static char gpus[MAX_GPUS][GPU_UUID_LEN];

/* Of GPUs 0 to n - 1, for Ada. */
static struct core_reservation reserved(const struct world *w, unsigned n, int64_t in_ms, int64_t for_ms)
{
	for (unsigned i = 0; i < n; i++)
		strcpy(gpus[i], uuid_of(i));
	return (struct core_reservation){ 7, ADA, w->now.wall_ms + in_ms, w->now.wall_ms + in_ms + for_ms, n, gpus };
}

/* Of GPUs that users share. */
static struct world *shared_world(unsigned n)
{
	struct core_config config = plain_config();
	config.map.share = SHARE_STREAMS;
	config.map.max_gract = (double)NAN;	/* loads are not what this is about */
	config.fence = false;
	return new_world(n, &config);
}

static struct spec *limited(uint64_t mib, int64_t limit_s)
{
	struct spec *s = spec_of(mib, 1);
	s->time_limit_s = limit_s;
	return s;
}

static struct spec *of_ada(uint64_t mib)
{
	struct spec *s = spec_of(mib, 1);
	s->uid = ADA;
	return s;
}

static void whoever_ends_before_it_may_start(void **unused)
{
	(void)unused;
	struct world *w = shared_world(1);
	struct core_reservation r = reserved(w, 1, 2 * HOUR_MS, HOUR_MS);
	core_reserve(w->c, &r, 1);
	task_id brief = submit(w, limited(1000, 3600)), exact = submit(w, limited(1000, 7200)), early = submit(w, of_ada(1000));
	assert_int_equal(state(w, brief), TASK_RUNNING);
	assert_int_equal(state(w, exact), TASK_RUNNING);
	assert_int_equal(state(w, early), TASK_RUNNING);	/* it is hers: nobody else loses by it */
	task_id lasting = submit(w, limited(1000, 7201));
	assert_int_equal(state(w, lasting), TASK_PENDING);
	scoped_json *o = core_task_json(w->c, core_task(w->c, lasting), w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(o, "reason")), "Reserved");
	scoped_json *why = core_why_json(w->c, lasting, w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(why, "gpus"), 0), "text")),
		"GPU 0: reserved for another user in 2 h 0 min, and the task may take 2 h 0 min: a --time of up to 2 h 0 min would fit");
	end_world(w);
}

static void of_unknown_length_none_starts_for_a_while_before(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	struct core_reservation r = reserved(w, 1, 4 * HOUR_MS + 60000, HOUR_MS);
	core_reserve(w->c, &r, 1);
	assert_int_equal(state(w, submit(w, spec_of(1000, 1))), TASK_RUNNING);
	later(w, 120000);
	task_id b = submit(w, spec_of(1000, 1));
	assert_int_equal(state(w, b), TASK_PENDING);
	scoped_json *why = core_why_json(w->c, b, w->now, NULL);
	assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(why, "gpus"), 0), "text")),
		"GPU 0: reserved for another user in 3 h 59 min, and nobody knows how long the task takes: such tasks do not start in the "
		"last 4 h 0 min before a reservation (reserve_lead); a --time of up to 3 h 59 min would fit");
	later(w, 4 * HOUR_MS);		/* it has begun */
	assert_int_equal(state(w, b), TASK_PENDING);
	assert_int_equal(state(w, submit(w, limited(1000, 10))), TASK_PENDING);
	/* The wiring takes it away when it is over. */
	core_reserve(w->c, NULL, 0);
	core_turn(w->c, w->now);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

static void its_user_goes_first_whatever_the_order(void **unused)
{
	(void)unused;
	for (unsigned order = 0; order < CORE_ORDER_COUNT; order++) {
		struct core_config config = plain_config();
		config.order = (enum core_order)order;
		config.map.rank = RANK_EXCLUSIVE;
		struct world *w = new_world(2, &config);
		struct core_reservation r = reserved(w, 1, 0, HOUR_MS);
		task_id a = submit(w, spec_of(30000, 2)), b = submit(w, spec_of(30000, 2)), hers = submit(w, of_ada(1000));
		assert_int_equal(state(w, a), TASK_RUNNING);
		core_reserve(w->c, &r, 1);
		exits(w, a, 0, SCAN_NOTHING);
		pass(w, 3);
		assert_int_equal(state(w, b), TASK_PENDING);	/* it is before her, and wants what is hers */
		assert_string_equal(gpu_of(w, hers), "GPU-0");
		/* It cannot start before the reservation ends, so it holds up nobody on what is not hers. */
		assert_int_equal(state(w, submit(w, of_ada(1000))), TASK_RUNNING);
		end_world(w);
	}
}

/* In the recovery queue those of all users stand in one line: hers is looked for behind one that may not start there. */
static void its_user_goes_first_after_an_out_of_memory_too(void **unused)
{
	(void)unused;
	struct world *w = shared_world(2);
	core_drain(w->c, "GPU-0", true);
	task_id n = submit(w, spec_of(10000, 1)), liar = submit(w, spec_of(5000, 1)), hers = submit(w, of_ada(5000));
	hold_memory(w, n, 9000);
	hold_memory(w, liar, 25000);
	hold_memory(w, hers, 6000);
	pass(w, 5);
	exits(w, liar, 1, SCAN_GPU_OOM);
	exits(w, hers, 1, SCAN_GPU_OOM);
	struct core_reservation r = reserved(w, 1, 0, HOUR_MS);
	core_reserve(w->c, &r, 1);
	core_drain(w->c, "GPU-0", false);
	pass(w, 2);
	assert_string_equal(gpu_of(w, n), "GPU-1");
	assert_int_equal(state(w, liar), TASK_PENDING);
	assert_string_equal(gpu_of(w, hers), "GPU-0");
	end_world(w);
}

static void one_that_a_reservation_bars_holds_up_nobody_there(void **unused)
{
	(void)unused;
	struct core_config config = plain_config();
	config.map.rank = RANK_EXCLUSIVE;
	struct world *w = new_world(2, &config);
	struct core_reservation r = reserved(w, 1, HOUR_MS, HOUR_MS);
	core_reserve(w->c, &r, 1);
	task_id runs = submit(w, spec_of(1000, 1)), lasts = submit(w, spec_of(1000, 1));
	assert_string_equal(gpu_of(w, runs), "GPU-1");
	assert_int_equal(state(w, lasts), TASK_PENDING);
	task_id brief = submit(w, limited(1000, 60)), next = submit(w, limited(1000, 60));
	assert_string_equal(gpu_of(w, brief), "GPU-0");
	exits(w, runs, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_string_equal(gpu_of(w, lasts), "GPU-1");	/* where it may run it is still the first */
	assert_int_equal(state(w, next), TASK_PENDING);
	end_world(w);
}

static void what_was_kept_for_others_is_given_up_when_it_begins(void **unused)
{
	(void)unused;
	struct world *w = shared_world(1);
	task_id n = submit(w, spec_of(10000, 1)), liar = submit(w, spec_of(5000, 1));
	hold_memory(w, n, 9000);
	hold_memory(w, liar, 31000);
	pass(w, 5);
	exits(w, liar, 1, SCAN_GPU_OOM);
	assert_true(fleet_kept_for(w->c->fleet, 0) == liar);
	struct core_reservation r = reserved(w, 1, 0, HOUR_MS);
	core_reserve(w->c, &r, 1);
	core_turn(w->c, w->now);
	check(w);
	assert_true(!fleet_kept_for(w->c->fleet, 0));
	task_id hers = submit(w, of_ada(1000));
	pass(w, 2);			/* the liar's memory is seen to be free */
	assert_int_equal(state(w, hers), TASK_RUNNING);
	assert_int_equal(state(w, liar), TASK_PENDING);
	assert_int_equal(state(w, n), TASK_RUNNING);	/* nobody is ended for it */
	end_world(w);
}

static void several_gpus_are_taken_beside_a_reserved_one(void **unused)
{
	(void)unused;
	struct world *w = new_world(3, NULL);
	struct core_reservation r = reserved(w, 1, 0, HOUR_MS);
	core_reserve(w->c, &r, 1);
	task_id two = submit(w, spec_of(1000, 2)), three = submit(w, spec_of(1000, 3));
	assert_int_equal(state(w, two), TASK_RUNNING);
	assert_string_not_equal(gpu_of(w, two), "GPU-0");
	assert_int_equal(state(w, three), TASK_PENDING);
	end_world(w);
}

static void it_gets_gpus_that_are_free_then(void **unused)
{
	(void)unused;
	struct world *w = new_world(4, NULL);
	char got[SPEC_MAX_GPUS][GPU_UUID_LEN];
	struct error err = ERROR_INIT;
	assert_string_equal(gpu_of(w, submit(w, spec_of(30000, 1))), "GPU-0");		/* nobody knows for how long */
	assert_string_equal(gpu_of(w, submit(w, limited(30000, 60))), "GPU-1");		/* gone by then */
	core_drain(w->c, "GPU-2", true);
	struct core_reservation want = { .uid = ADA, .begin_ms = w->now.wall_ms + HOUR_MS, .end_ms = w->now.wall_ms + 2 * HOUR_MS,
					 .n_gpus = 2, .gpus = got };
	assert_int_equal(core_pick_reserved(w->c, NULL, 0, &want, false, w->now, &err), 0);
	assert_string_equal(got[0], "GPU-1");
	assert_string_equal(got[1], "GPU-3");
	/* Another one at the same time finds what is left; at another, what it likes. */
	char others[SPEC_MAX_GPUS][GPU_UUID_LEN];
	struct core_reservation more = want;
	more.gpus = others;
	more.n_gpus = 3;
	assert_int_equal(core_pick_reserved(w->c, &want, 1, &more, false, w->now, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.text, "3 GPUs wanted, and 2 of 4 are free"));
	w->mig = true;
	pass(w, 1);
	assert_int_equal(core_pick_reserved(w->c, NULL, 0, &more, false, w->now, &err), -1);
	assert_non_null(strstr(err.text, "0 of 0 are free of other reservations at that time; 'rad reserve' lists them, and MIG"));
	w->mig = false;
	pass(w, 1);
	more.n_gpus = 4;
	more.begin_ms = want.end_ms;
	more.end_ms = want.end_ms + 1000;
	assert_int_equal(core_pick_reserved(w->c, &want, 1, &more, false, w->now, &err), 0);
	/* Those that are named are checked. */
	more = want;
	more.n_gpus = 1;
	assert_int_equal(core_pick_reserved(w->c, &want, 1, &more, true, w->now, &err), -1);
	assert_non_null(strstr(err.text, "GPU-1: is in reservation 0"));
	more = (struct core_reservation){ .uid = ADA, .begin_ms = want.begin_ms, .end_ms = want.end_ms, .n_gpus = 2,
					  .gpus = (char [2][GPU_UUID_LEN]){ "GPU-0", "GPU-1" } };
	scoped_json *overlaps = core_overlaps_json(w->c, &more, w->now);
	assert_int_equal(json_array_size(overlaps), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(overlaps, 0), "task")), "1");
	assert_true(json_is_null(json_object_get(json_array_get(overlaps, 0), "end_time")));
	end_world(w);
}

/* Its like took 100 s. Until then it is gone before the reservation begins; after that nobody knows when it ends, and whoever
 * reserves is told of it. */
static void one_that_is_overdue_is_in_the_way(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	teach_time(w, 5000, 1, 100);
	hold_memory(w, submit(w, spec_of(5000, 1)), 5000);
	for (int overdue = 0; overdue < 2; overdue++) {
		pass(w, 80);
		struct core_reservation r = reserved(w, 1, HOUR_MS, HOUR_MS);
		scoped_json *overlaps = core_overlaps_json(w->c, &r, w->now);
		assert_int_equal(json_array_size(overlaps), overdue);
		if (overdue)
			assert_true(json_is_null(json_object_get(json_array_get(overlaps, 0), "end_time")));
	}
	end_world(w);
}

/* One that was drained before radd was restarted is the first that the next radd knows of. */
static void they_are_named_in_the_order_of_their_numbers(void **unused)
{
	(void)unused;
	struct world *w = new_world(1, NULL);
	char got[SPEC_MAX_GPUS][GPU_UUID_LEN];
	struct error err = ERROR_INIT;
	struct core_reservation want = { .uid = ADA, .begin_ms = w->now.wall_ms, .end_ms = w->now.wall_ms + HOUR_MS, .n_gpus = 4,
					 .gpus = got };
	core_drain(w->c, "GPU-3", true);
	w->n_gpus = 4;
	pass(w, 1);
	assert_int_equal(core_pick_reserved(w->c, NULL, 0, &want, false, w->now, &err), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(got[i], uuid_of(i));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_ends_before_it_may_start),
		cmocka_unit_test(of_unknown_length_none_starts_for_a_while_before),
		cmocka_unit_test(its_user_goes_first_whatever_the_order),
		cmocka_unit_test(its_user_goes_first_after_an_out_of_memory_too),
		cmocka_unit_test(one_that_a_reservation_bars_holds_up_nobody_there),
		cmocka_unit_test(what_was_kept_for_others_is_given_up_when_it_begins),
		cmocka_unit_test(several_gpus_are_taken_beside_a_reserved_one),
		cmocka_unit_test(it_gets_gpus_that_are_free_then),
		cmocka_unit_test(one_that_is_overdue_is_in_the_way),
		cmocka_unit_test(they_are_named_in_the_order_of_their_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
