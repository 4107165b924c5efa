/* SPDX-License-Identifier: MIT
 * What attempts taught: as it was told so it comes back, an older file's log is read for it once, and a start is quick.
 */
#include "store/test_fixture.h"

#include "base/clock.h"

struct told { struct outcome list[8]; char texts[8][3][64]; size_t n; };

static void keep(void *ctx, const struct outcome *o)
{
	struct told *t = ctx;
	const char *texts[] = { o->signature, o->gpu_name, o->estimator };
	assert_true(t->n < COUNT_OF(t->list));
	for (size_t i = 0; i < 3; i++)
		snprintf(t->texts[t->n][i], sizeof t->texts[t->n][i], "%s", texts[i]);
	t->list[t->n] = *o;
	t->list[t->n].signature = t->texts[t->n][0];
	t->list[t->n].gpu_name = t->texts[t->n][1];
	t->list[t->n].estimator = t->texts[t->n][2];
	t->n++;
}

static void load(struct store *s, int64_t from_ms, unsigned most, struct told *t)
{
	struct error err = ERROR_INIT;
	t->n = 0;
	if (store_load_outcomes(s, from_ms, most, keep, t, &err))
		fail_msg("%s", err.text);
}

static void add(struct store *s, const struct outcome *o)
{
	struct error err = ERROR_INIT;
	if (store_add_outcome(s, o, &err))
		fail_msg("%s", err.text);
}

static void what_was_told_comes_back(void **state)
{
	const struct outcome o = { .told_ms = 5000, .signature = "u1-a", .gpu_name = "NVIDIA H200", .estimator = "replay",
		.comfort_mib = 7000, .verdict = VERDICT_OOM, .fenced = true, .claim_mib = 7500, .retry_mib = 11000,
		.host_pace = 1.25, .cores = 2.5,
		.seen = { .peak_mib = 7400, .warm = true, .alone_s = 12.125,
			  .pace = { .ran_s = 20, .whole = 1000, .alone_units = 40, .alone_s = 8 }, .alone_gract = 1 / 3.0,
			  .alone_smact = NAN, .alone_dram = 0.25, .alone_watts = NAN,
			  .inferred = { { 0.5, 0.25 }, 0.125, 0.5, NAN, NAN, NAN, LOAD_INFERRED } } };
	struct store *s = fixture_open(*state);
	struct told t;
	add(s, &o);
	for (int64_t i = 1; i < 4; i++)
		add(s, &(struct outcome){ .told_ms = i * 1000, .signature = "", .gpu_name = "", .estimator = "none" });
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	load(s, 0, 100, &t);
	assert_int_equal(t.n, 4);
	assert_string_equal(t.list[0].signature, o.signature);
	assert_string_equal(t.list[0].gpu_name, o.gpu_name);
	assert_string_equal(t.list[0].estimator, o.estimator);
	assert_int_equal(t.list[0].told_ms, o.told_ms);
	assert_int_equal(t.list[0].comfort_mib, o.comfort_mib);
	assert_int_equal(t.list[0].verdict, o.verdict);
	assert_int_equal(t.list[0].claim_mib, o.claim_mib);
	assert_int_equal(t.list[0].retry_mib, o.retry_mib);
	assert_int_equal(t.list[0].seen.peak_mib, o.seen.peak_mib);
	assert_true(t.list[0].fenced && t.list[0].seen.warm);
	assert_true(t.list[0].seen.alone_s == o.seen.alone_s && t.list[0].seen.alone_gract == o.seen.alone_gract);
	assert_true(isnan(t.list[0].seen.alone_smact) && isnan(t.list[0].seen.alone_watts));
	const struct load_belief *in = &t.list[0].seen.inferred;
	assert_true(t.list[0].seen.alone_dram == 0.25 && in->source == LOAD_INFERRED && in->load.smact == 0.25);
	assert_true(in->gract_sd == 0.125 && isnan(in->dram));
	assert_int_equal(t.list[1].seen.inferred.source, LOAD_UNKNOWN);
	assert_memory_equal(&t.list[0].seen.pace, &o.seen.pace, sizeof o.seen.pace);
	assert_true(t.list[1].seen.pace.ran_s == 0);
	assert_true(t.list[0].host_pace == o.host_pace && !(t.list[1].host_pace > 0));
	assert_true(t.list[0].cores == o.cores && !(t.list[1].cores > 0));
	assert_int_equal(t.list[3].told_ms, 3000);	/* as they were told, whatever the clock said */
	load(s, 2000, 100, &t);
	assert_int_equal(t.n, 3);
	load(s, 2000, 2, &t);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.list[0].told_ms, 2000);
	store_close(s);
}

static void no_part_of_a_turn_is_kept(void **state)
{
	struct store *s = fixture_open(*state);
	struct told t;
	add(s, &(struct outcome){ .signature = "u1-a", .gpu_name = "", .estimator = "none" });
	store_close(s);
	s = fixture_open(*state);
	load(s, 0, 100, &t);
	assert_int_equal(t.n, 0);
	store_close(s);
}

/* A task of a file that was written before outcomes were: estimated, out of memory once, then completed. */
static void older_tasks_are_learnt_from(void **state)
{
	struct store *s = fixture_open(*state);
	struct spec *spec = fixture_spec(1000);
	struct error err = ERROR_INIT;
	struct told t;
	uint32_t job = store_next_job(s);
	spec->signature = alloc_string("u1000-0123456789abcdef");
	assert_int_equal(store_add_job(s, job, spec, 1000, &err), 0);
	struct task *task = task_create(TASK_ID(job, -1), spec);
	const struct event life[] = {
		{ .kind = EV_SUBMITTED, .t_ms = 1000 },
		{ .kind = EV_ESTIMATED, .t_ms = 1000, .u.estimate = { "replay", 8000, 8500, 9000, true, true, NULL } },
		fixture_placed(2000), fixture_ended(3000, VERDICT_OOM, NEXT_RECOVER, TASK_PENDING),
		fixture_placed(4000), fixture_ended(5000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED),
	};
	for (size_t i = 0; i < COUNT_OF(life); i++) {
		struct event ev = life[i];
		if (ev.kind == EV_ENDED && ev.u.ended.verdict == VERDICT_OOM)
			ev.u.ended.next_claim_mib = 13500;
		fixture_event(s, task, ev);
	}
	task_destroy(task);
	task_destroy(fixture_submit(s, 1000, 10));
	fixture_finished(s, 1000, 100);
	fixture_commit(s);
	store_close(s);
	/* Damage stays where it is. */
	fixture_sql(*state, "INSERT INTO events(task, t_ms, kind, body) VALUES (1048576, 9, 'ended', '{broken'),"
		    " (1048576, 9, 'ended', '{\"peak_mib\": \"much\", \"warm\": [1], \"verdict\": 7}')");
	fixture_sql(*state, FIXTURE_BEFORE_9 "DROP TABLE outcomes; ALTER TABLE jobs DROP COLUMN folded;"
		    " DROP INDEX tasks_ended_of; PRAGMA user_version = 2");
	s = fixture_open(*state);
	load(s, 0, 100, &t);
	assert_int_equal(t.n, 3);
	assert_string_equal(t.list[0].signature, "u1000-0123456789abcdef");
	assert_string_equal(t.list[0].estimator, "replay");
	assert_int_equal(t.list[0].comfort_mib, 8500);
	assert_int_equal(t.list[0].verdict, VERDICT_OOM);
	assert_int_equal(t.list[0].told_ms, 3000);
	assert_int_equal(t.list[0].claim_mib, 9000);
	assert_int_equal(t.list[0].retry_mib, 13500);
	assert_int_equal(t.list[0].seen.peak_mib, 8000);
	assert_true(t.list[0].fenced && t.list[0].seen.warm);
	assert_true(isnan(t.list[0].seen.alone_s));
	assert_int_equal(t.list[1].verdict, VERDICT_OK);
	assert_int_equal(t.list[1].retry_mib, 0);
	assert_string_equal(t.list[2].signature, "");
	assert_string_equal(t.list[2].estimator, "none");
	store_close(s);
}

/* Of before anything was inferred. */
static void outcomes_of_an_older_schema_are_read(void **state)
{
	struct store *s = fixture_open(*state);
	struct told t;
	add(s, &(struct outcome){ .told_ms = 1, .signature = "u1-a", .gpu_name = "G", .estimator = "none",
				  .seen = { .peak_mib = 7 } });
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state, FIXTURE_BEFORE_9
		    "ALTER TABLE outcomes DROP COLUMN inferred; ALTER TABLE outcomes DROP COLUMN alone_watts;"
		    "ALTER TABLE outcomes DROP COLUMN alone_dram; ALTER TABLE outcomes DROP COLUMN pace;"
		    "ALTER TABLE jobs DROP COLUMN folded; DROP INDEX tasks_ended_of; PRAGMA user_version = 4");
	s = fixture_open(*state);
	load(s, 0, 100, &t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.list[0].seen.peak_mib, 7);
	assert_int_equal(t.list[0].seen.inferred.source, LOAD_UNKNOWN);
	assert_true(isnan(t.list[0].seen.alone_dram) && !(t.list[0].host_pace > 0));
	store_close(s);
	fixture_sql(*state, "UPDATE outcomes SET inferred = '{broken'");
	s = fixture_open(*state);
	load(s, 0, 100, &t);
	assert_int_equal(t.list[0].seen.inferred.source, LOAD_UNKNOWN);
	store_close(s);
}

#define MANY 100000

static void learn(void *ctx, const struct outcome *o)
{
	history_note(ctx, o);
}

static void a_long_history_is_read_in_no_time(void **state)
{
	struct store *s = fixture_open(*state);
	char signature[40];
	for (int i = 0; i < MANY; i++) {
		snprintf(signature, sizeof signature, "u1000-%016x", i / 4);
		add(s, &(struct outcome){ .told_ms = i, .signature = signature, .gpu_name = "NVIDIA H200", .estimator = "history",
			.comfort_mib = 8000, .verdict = VERDICT_OK, .seen = { .peak_mib = 8000, .warm = true, .alone_s = 60,
			.alone_gract = 0.5, .alone_smact = 0.25 } });
	}
	fixture_commit(s);
	struct history *h = history_create(HISTORY_SIGNATURES);
	int64_t since = clock_mono_ms();
	assert_int_equal(store_load_outcomes(s, 0, MANY, learn, h, NULL), 0);
	int64_t took = clock_mono_ms() - since;
	print_message("%d outcomes in %lld ms\n", MANY, (long long)took);
	assert_int_equal(history_count(h), MANY / 4);
	assert_int_equal(history_lookup(h, signature, "NVIDIA H200").runs, 4);
	assert_true(took < 20000);	/* some 100 ms; sanitizers and busy machines take longer */
	history_destroy(h);
	store_close(s);
}

/* The newest of each signature, and of all; what is too old whatever its number. */
static void what_is_taught_is_bounded(void **state)
{
	struct store *s = fixture_open(*state);
	struct store_trimming trimming = { 0 };
	struct error err = ERROR_INIT;
	struct told t;
	for (int64_t i = 0; i < 1000; i++)
		add(s, &(struct outcome){ .told_ms = i, .signature = i % 2 ? "storm" : "a", .gpu_name = "", .estimator = "none" });
	add(s, &(struct outcome){ .told_ms = 2000, .signature = "b", .gpu_name = "", .estimator = "none" });
	fixture_commit(s);
	int rc;
	while (!(rc = store_trim_outcomes(s, &trimming, 500, 3, 6, &err)))
		fixture_commit(s);
	assert_int_equal(rc, 1);
	store_trimming_clear(&trimming);
	fixture_commit(s);
	load(s, 0, 1000000, &t);
	assert_int_equal(t.n, 6);
	assert_int_equal(t.list[0].told_ms, 995);
	assert_string_equal(t.list[5].signature, "b");
	store_close(s);
}

/* A storm of one signature is trimmed to a few; what was taught before it is still among the newest. */
static void a_storm_pushes_out_nothing(void **state)
{
	struct store *s = fixture_open(*state);
	struct store_trimming trimming = { 0 };
	struct error err = ERROR_INIT;
	struct told t;
	add(s, &(struct outcome){ .told_ms = 1, .signature = "before", .gpu_name = "", .estimator = "none" });
	for (int64_t i = 0; i < 100; i++)
		add(s, &(struct outcome){ .told_ms = 2, .signature = "storm", .gpu_name = "", .estimator = "none" });
	assert_int_equal(store_trim_outcomes(s, &trimming, 0, 3, 5, &err), 1);
	store_trimming_clear(&trimming);
	fixture_commit(s);
	load(s, 0, 5, &t);
	assert_int_equal(t.n, 4);
	assert_string_equal(t.list[0].signature, "before");
	load(s, 0, 4, &t);
	assert_int_equal(t.n, 4);
	load(s, 0, 3, &t);
	assert_int_equal(t.n, 3);
	assert_string_equal(t.list[0].signature, "storm");
	store_close(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(what_is_taught_is_bounded), T(a_storm_pushes_out_nothing),
		T(what_was_told_comes_back), T(no_part_of_a_turn_is_kept), T(older_tasks_are_learnt_from),
		T(outcomes_of_an_older_schema_are_read),
		T(a_long_history_is_read_in_no_time),
	};
	return cmocka_run_group_tests_name("outcomes", tests, NULL, NULL);
}
