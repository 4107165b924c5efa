/* SPDX-License-Identifier: MIT
 * The host's ledger in placement: memory and CPUs that tasks ask for, and those who ask for nothing.
 */
#include "core/test_world.h"

#include "base/json.h"
#include "base/scope.h"

#include <math.h>

static struct core_config with_host(uint64_t mem_mib, unsigned cpus)
{
	struct core_config c = plain_config();
	c.order = ORDER_BACKFILL;
	c.host_mem_mib = mem_mib;
	c.host_cpus = cpus;
	c.map.max_smact = c.map.max_gract = 1;
	return c;
}

static struct spec *asks_for(uint64_t mem_mib, unsigned cpus)
{
	struct spec *s = spec_of(1000, 1);
	s->host_mem_mib = mem_mib;
	s->cpus = cpus;
	return s;
}

static const char *reason(struct world *w, task_id id, char text[300])
{
	static char word[40];
	struct error err = ERROR_INIT;
	json_t *why = core_why_json(w->c, id, w->now, &err);
	snprintf(word, sizeof word, "%s", json_string_value(json_object_get(why, "reason")));
	snprintf(text, 300, "%s", json_string_value(json_object_get(why, "reason_text")));
	json_decref(why);
	return word;
}

static void no_more_is_given_than_there_is(void **unused)
{
	(void)unused;
	struct core_config config = with_host(64000, 16);
	struct world *w = new_world(4, &config);
	char text[300];
	task_id a = submit(w, asks_for(40000, 4)), b = submit(w, asks_for(30000, 4)), c = submit(w, asks_for(0, 13));
	task_id d = submit(w, asks_for(24000, 12)), e = submit(w, spec_of(1000, 1));
	assert_int_equal(state(w, a), TASK_RUNNING);
	assert_int_equal(state(w, b), TASK_PENDING);
	assert_string_equal(reason(w, b, text), "HostMemory");
	assert_non_null(strstr(text, "29.3G of host memory"));
	assert_int_equal(state(w, c), TASK_PENDING);
	assert_string_equal(reason(w, c, text), "HostCpus");
	assert_non_null(strstr(text, "13 CPUs: 0 of 16 are free"));
	assert_int_equal(state(w, d), TASK_RUNNING);	/* to the last of both */
	assert_int_equal(state(w, e), TASK_RUNNING);	/* who asks for nothing takes nothing */
	exits(w, a, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(state(w, c), TASK_PENDING);
	exits(w, b, 0, SCAN_NOTHING);
	exits(w, d, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, c), TASK_RUNNING);
	json_t *gpus = core_gpus_json(w->c, w->now), *host = json_object_get(gpus, "host");
	assert_int_equal(json_integer_value(json_object_get(host, "cpus_held")), 13);
	assert_int_equal(json_integer_value(json_object_get(host, "mem_held_mib")), 0);
	json_decref(gpus);
	end_world(w);
}

static void what_never_fits_is_refused(void **unused)
{
	(void)unused;
	struct core_config config = with_host(64000, 16);
	struct world *w = new_world(1, &config);
	struct error err = ERROR_INIT;
	struct spec *s = asks_for(64001, 0), *c = asks_for(0, 17), *ok = asks_for(64000, 16);
	assert_int_equal(core_feasible(w->c, s, &err), -1);
	assert_non_null(strstr(err.text, "host_mem"));
	assert_int_equal(core_feasible(w->c, c, &err), -1);
	assert_non_null(strstr(err.text, "host_cpus"));
	assert_int_equal(core_feasible(w->c, ok, &err), 0);
	/* Settings changed since: it blocks nobody. */
	task_id first = submit(w, asks_for(0, 8)), never = submit(w, asks_for(0, 12));
	config.host_cpus = 10;
	core_reconfigure(w->c, &config);
	exits(w, first, 0, SCAN_NOTHING);
	char text[300];
	assert_string_equal(reason(w, never, text), "Infeasible");
	assert_int_equal(state(w, submit(w, asks_for(0, 10))), TASK_RUNNING);
	spec_unref(s);
	spec_unref(c);
	spec_unref(ok);
	end_world(w);
}

static void off_and_unknown_place_by_nothing(void **unused)
{
	(void)unused;
	uint64_t values[] = { 0, CORE_HOST_AUTO };
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		struct core_config config = with_host(0, 0);
		config.host_mem_mib = config.host_cpus = values[i];
		struct world *w = new_world(1, &config);
		for (int k = 0; k < 3; k++)
			assert_int_equal(state(w, submit(w, asks_for(1 << 20, 4096))), TASK_RUNNING);
		end_world(w);
	}
}

/* Small ones come for ever; the large one was the head for pass_max, and what it needs is kept for it then. */
static void nobody_starves_for_the_host(void **unused)
{
	(void)unused;
	struct core_config config = with_host(64000, 16);
	config.pass_max_ms = 100000;
	struct world *w = new_world(4, &config);
	assert_in_range(starts_among_small_ones(w, asks_for(0, 8), asks_for(0, 16)), 100, 160);
	end_world(w);
}

/* A slot that is over gives back what its task asked of the host, too. */
static void slots_make_place_on_the_host(void **unused)
{
	(void)unused;
	struct core_config config = with_host(64000, 16);
	config.slot_ms = 1000000;
	struct world *w = new_world(4, &config);
	task_id a = submit(w, asks_for(40000, 0));
	core_started(w->c, a, (struct proc_id){ 400, 1 }, w->now);
	pass(w, 1005);
	task_id b = submit(w, asks_for(40000, 0));
	pass(w, 3);
	assert_int_equal(core_task(w->c, a)->attempts[0].slot_asks, 1);
	exits(w, a, SPEC_REQUEUE_CODE, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, b), TASK_RUNNING);
	end_world(w);
}

static struct spec *feeds_from(const char *feed, uid_t uid, uint64_t mem_mib, unsigned cpus)
{
	struct spec *s = spec_of(1000, 1);
	s->uid = uid;
	s->feed = alloc_string(feed);
	s->feed_mem_mib = mem_mib;
	s->feed_cpus = cpus;
	s->cpus = 1;
	return s;
}

static json_int_t held(struct world *w, const char *what)
{
	scoped_json *gpus = core_gpus_json(w->c, w->now);
	return json_integer_value(json_object_get(json_object_get(gpus, "host"), what));
}

/* Whoever runs it, the loader is one; that of another user, or of another name, is another. */
static void a_loader_is_counted_once(void **unused)
{
	(void)unused;
	struct core_config config = with_host(64000, 16);
	struct world *w = new_world(4, &config);
	char text[300];
	task_id a = submit(w, feeds_from("x", 1000, 30000, 6)), b = submit(w, feeds_from("x", 1000, 30000, 6));
	assert_int_equal(state(w, b), TASK_RUNNING);
	assert_int_equal(held(w, "cpus_held"), 8);
	assert_int_equal(held(w, "mem_held_mib"), 30000);
	/* A larger ask counts by what it is larger. */
	task_id c = submit(w, feeds_from("x", 1000, 34000, 4));
	assert_int_equal(state(w, c), TASK_RUNNING);
	assert_int_equal(held(w, "cpus_held"), 9);
	assert_int_equal(held(w, "mem_held_mib"), 34000);
	task_id other = submit(w, feeds_from("x", 1001, 10000, 6));
	assert_int_equal(state(w, other), TASK_RUNNING);
	assert_int_equal(held(w, "cpus_held"), 16);
	task_id y = submit(w, feeds_from("y", 1000, 20001, 0));
	assert_int_equal(state(w, y), TASK_PENDING);
	assert_string_equal(reason(w, y, text), "HostMemory");
	exits(w, a, 0, SCAN_NOTHING);
	exits(w, c, 0, SCAN_NOTHING);
	assert_int_equal(held(w, "mem_held_mib"), 44000);
	exits(w, b, 0, SCAN_NOTHING);
	pass(w, 2);
	assert_int_equal(state(w, y), TASK_RUNNING);
	assert_int_equal(held(w, "mem_held_mib"), 30001);
	exits(w, other, 0, SCAN_NOTHING);
	exits(w, y, 0, SCAN_NOTHING);
	assert_int_equal(held(w, "mem_held_mib") + held(w, "cpus_held"), 0);
	struct error err = ERROR_INIT;
	struct spec *never = feeds_from("x", 1000, 0, 16);
	assert_int_equal(core_feasible(w->c, never, &err), -1);
	spec_unref(never);
	end_world(w);
}

/* Of two GPUs that are as good as each other it takes the one where its feed is, of its user. */
static void tasks_of_a_feed_go_together(void **unused)
{
	(void)unused;
	static const struct { const char *feed; uid_t uid; const char *gpu; } steps[] = {
		{ NULL, 1000, "GPU-0" }, { "x", 1000, "GPU-1" }, { "x", 1001, "GPU-0" }, { NULL, 1000, "GPU-1" }, { "x", 1000, "GPU-1" },
	};
	struct core_config config = with_host(0, 0);
	config.map.max_tasks = 0;
	struct world *w = new_world(2, &config);
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		struct spec *s = spec_of(1000, 1);
		s->uid = steps[i].uid;
		s->feed = steps[i].feed ? alloc_string(steps[i].feed) : NULL;
		s->share = SHARE_STREAMS;
		task_id id = submit(w, s);
		assert_int_equal(state(w, id), TASK_RUNNING);
		assert_string_equal(task_attempt(core_task(w->c, id))->gpus[0], steps[i].gpu);
	}
	end_world(w);
}

/* Under what ships, with a GPU that stands idle. By the law of sharing two tasks that wait for their loader half of the time
 * lose nothing beside each other: then the feed decides, of a task that is planned too. Two that are busy all the time would
 * lose nearly half, and what nobody knows is not put to the test. */
static void what_a_feed_would_lose_is_asked_first(void **unused)
{
	(void)unused;
	static const struct { const char *feed; double gract, smact; enum core_order order; const char *gpu; } cases[] = {
		{ "x", .5, .25, ORDER_BACKFILL, "GPU-0" }, { NULL, .5, .25, ORDER_BACKFILL, "GPU-1" },
		{ "x", .95, .85, ORDER_BACKFILL, "GPU-1" }, { "x", NAN, NAN, ORDER_BACKFILL, "GPU-1" },
		{ "x", .5, .25, ORDER_PLAN, "GPU-0" }, { NULL, .5, .25, ORDER_PLAN, "GPU-1" },
		{ "x", .95, .85, ORDER_PLAN, "GPU-1" }, { "x", NAN, NAN, ORDER_PLAN, "GPU-1" },
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct core_config config = core_config_default();
		config.order = cases[i].order;
		struct world *w = new_world(2, &config);
		for (int k = 0; k < 2; k++) {
			struct spec *s = spec_of(1000, 1);
			s->feed = cases[i].feed ? alloc_string(cases[i].feed) : NULL;
			if (isfinite(cases[i].gract))
				remember_load(w, s, cases[i].gract, cases[i].smact, 3600);
			task_id id = submit(w, s);
			pass(w, 3);
			assert_string_equal(gpu_of(w, id), k ? cases[i].gpu : "GPU-0");
		}
		end_world(w);
	}
}

/* A large task waits for the end of the small one on GPU 0, the other GPU being full for longer: whoever comes is put beside
 * that, though his feed is on GPU 0. */
static void a_feed_does_not_take_what_is_planned_for_another(void **unused)
{
	(void)unused;
	static const struct { uint64_t mib; double work_s; const char *feed, *gpu; } steps[] = {
		{ 25000, 1000, "x", "GPU-0" }, { 36000, 9000, NULL, "GPU-1" }, { 38000, 4000, NULL, "" }, { 2000, 5000, "x", "GPU-1" },
	};
	struct core_config config = core_config_default();
	struct world *w = new_world(2, &config);
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		struct spec *s = spec_of(steps[i].mib, 1);
		s->feed = steps[i].feed ? alloc_string(steps[i].feed) : NULL;
		remember_load(w, s, .3, .1, steps[i].work_s);
		task_id id = submit(w, s);
		pass(w, 3);
		assert_int_equal(state(w, id), *steps[i].gpu ? TASK_RUNNING : TASK_PENDING);
		if (*steps[i].gpu)
			assert_string_equal(gpu_of(w, id), steps[i].gpu);
	}
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_is_given_than_there_is),
		cmocka_unit_test(what_never_fits_is_refused),
		cmocka_unit_test(off_and_unknown_place_by_nothing),
		cmocka_unit_test(nobody_starves_for_the_host),
		cmocka_unit_test(slots_make_place_on_the_host),
		cmocka_unit_test(a_loader_is_counted_once),
		cmocka_unit_test(tasks_of_a_feed_go_together),
		cmocka_unit_test(what_a_feed_would_lose_is_asked_first),
		cmocka_unit_test(a_feed_does_not_take_what_is_planned_for_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
