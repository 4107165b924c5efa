/* SPDX-License-Identifier: MIT
 * Rows of accounts: they say what the log says, are gone when it goes on, and are made for stores that have none.
 */
#include "store/test_fixture.h"

static const struct store_span all_time = { 0, INT64_MAX, -1, 0, 0, false, true };

static int keep_one(void *ctx, struct task *t, const char *broken)
{
	assert_null(broken);
	*(struct task **)ctx = t;
	return 1;
}

/* The first that ended. */
static struct task *brief_of(struct store *s)
{
	struct task *t = NULL;
	struct error err = ERROR_INIT;
	assert_int_equal(store_load_finished(s, &all_time, keep_one, &t, &err), 0);
	assert_non_null(t);
	return t;
}

static int64_t count(struct store *s, const char *table)
{
	scoped_free char *sql = alloc_printf("SELECT count(*) FROM %s", table);
	int64_t n = -1;
	assert_int_equal(store_query_int(s, sql, &n, NULL), 0);
	return n;
}

/* Of those that rows have. `prefix`: what their names begin with. */
static unsigned same_members(const json_t *full, const json_t *brief, const char *prefix)
{
	unsigned n = 0;
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)full, key, value) {
		scoped_free char *name = alloc_printf("%s%s", prefix, key);
		if (!store_account_has(name))
			continue;
		scoped_free char *a = json_dumps(value, JSON_ENCODE_ANY);
		scoped_free char *b = json_dumps(json_object_get(brief, key), JSON_ENCODE_ANY);
		if (strcmp(a, b ? b : "nothing"))
			fail_msg("%s: %s, in the row %s", name, a, b ? b : "nothing");
		n++;
	}
	return n;
}

static void same_accounts(const struct task *t, const struct task *row)
{
	scoped_json *full = task_to_json(t, 1000000), *brief = task_to_json(row, 1000000);
	const json_t *attempts = json_object_get(full, "attempts"), *of_row = json_object_get(brief, "attempts");
	assert_int_equal(same_members(full, brief, ""), 20);
	assert_int_equal(json_array_size(attempts), json_array_size(of_row));
	for (size_t i = 0; i < json_array_size(attempts); i++)
		assert_int_equal(same_members(json_array_get(attempts, i), json_array_get(of_row, i), "attempts[]."), 15);
	assert_int_equal(t->spec->uid, row->spec->uid);
	assert_int_equal(t->spec->gid, row->spec->gid);
	for (unsigned i = 0; i < t->n_attempts; i++)
		assert_int_equal(t->attempts[i].placed_ms, row->attempts[i].placed_ms);
}

static struct task *live_through(struct store *s)
{
	struct event last = fixture_ended(9000, VERDICT_OK, NEXT_DONE, TASK_COMPLETED);
	last.u.ended.seen.energy_j = 12.5;
	last.u.ended.seen.host_peak_mib = 77;
	last.u.ended.seen.cpu = (struct cpu_sums){ 1000, 2500, 10 };
	const struct event life[] = {
		{ .kind = EV_HELD, .t_ms = 2000, .u.by.uid = 1000 },
		{ .kind = EV_RELEASED, .t_ms = 3000, .u.by.uid = 0 },
		{ .kind = EV_ESTIMATED, .t_ms = 3000,
		  .u.estimate = { .estimator = "declared", .need_mib = 10, .comfort_mib = 11, .claim_mib = 12,
				  .note = (char *)"said \"so\"" } },
		{ .kind = EV_UPDATED, .t_ms = 3500, .u.updated = { .set_priority = true, .priority = 9, .set_time_limit = true,
		  .time_limit_s = 60, .name = (char *)"b" } },
		fixture_placed(4000),
		{ .kind = EV_STARTED, .t_ms = 4100, .u.started.shim = { .pid = 99, .start_ticks = 12345678901 } },
		fixture_ended(6000, VERDICT_OOM, NEXT_RECOVER, TASK_PENDING),
		fixture_placed(7000),
		{ .kind = EV_STARTED, .t_ms = 7050, .u.started.shim = { .pid = 99, .start_ticks = 12345678901 } },
		{ .kind = EV_SUSPENDED, .t_ms = 7500 },
		{ .kind = EV_RESUMED, .t_ms = 8000 },
		last,
	};
	struct task *t = fixture_submit(s, 1000, 1000);
	for (size_t i = 0; i < COUNT_OF(life); i++)
		fixture_event(s, t, life[i]);
	fixture_commit(s);
	return t;
}

static void rows_say_what_the_log_says(void **state)
{
	struct store *s = fixture_open(*state);
	struct task *t = live_through(s), *row = brief_of(s);
	assert_true(row->n_events == 0);	/* no event was read */
	same_accounts(t, row);
	task_destroy(row);
	task_destroy(t);
	store_close(s);
}

static void one_that_was_cancelled_in_the_queue_has_no_attempt(void **state)
{
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 1000, 1000);
	fixture_event(s, t, (struct event){ .kind = EV_CANCELLED, .t_ms = 2000, .u.by.uid = 1000 });
	fixture_commit(s);
	struct task *row = brief_of(s);
	assert_true(row->n_events == 0);
	same_accounts(t, row);
	task_destroy(row);
	task_destroy(t);
	store_close(s);
}

static void rows_go_when_the_task_is_queued_again_or_forgotten(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct task *t = live_through(s);
	fixture_finished(s, 1000, 20000);
	assert_int_equal(count(s, "accounts"), 2);
	assert_int_equal(count(s, "account_attempts"), 3);
	fixture_event(s, t, (struct event){ .kind = EV_REQUEUED, .t_ms = 30000, .u.by.uid = 1000 });
	fixture_commit(s);
	assert_int_equal(count(s, "accounts"), 1);
	assert_int_equal(count(s, "account_attempts"), 1);
	struct store_folding f = { .before_ms = INT64_MAX, .purge = true };
	assert_int_equal(store_fold(s, &f, 64, &err), 1);
	fixture_commit(s);
	assert_int_equal(count(s, "accounts"), 0);
	assert_int_equal(count(s, "account_attempts"), 0);
	task_destroy(t);
	store_close(s);
}

static void the_log_is_read_where_rows_are_missing_or_damaged(void **state)
{
	static const char *const harm[] = {
		"UPDATE accounts SET state = 'DREAMING'", "UPDATE account_attempts SET verdict = 'fine' WHERE n = 1",
		"UPDATE accounts SET attempts = 4000000000", "DELETE FROM account_attempts WHERE n = 1", "DELETE FROM accounts",
	};
	struct store *s = fixture_open(*state);
	struct task *t = live_through(s);
	for (size_t i = 0; i < COUNT_OF(harm); i++) {
		assert_int_equal(store_exec(s, harm[i], NULL), 0);
		struct task *row = brief_of(s);
		assert_true(row->n_events > 0);
		same_accounts(t, row);
		task_destroy(row);
	}
	task_destroy(t);
	store_close(s);
}

static void rows_are_made_for_an_older_store(void **state)
{
	struct store *s = fixture_open(*state);
	struct task *t = live_through(s);
	task_destroy(fixture_submit(s, 1000, 50000));
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state, FIXTURE_BEFORE_12 "PRAGMA user_version = 11");
	s = fixture_open(*state);
	assert_true(fixture_exists(*state, "rad.db.v11"));
	struct task *row = brief_of(s);
	assert_true(row->n_events == 0);
	same_accounts(t, row);
	assert_int_equal(fixture_live(s).n, 1);
	task_destroy(row);
	task_destroy(t);
	store_close(s);
}

static void what_rows_do_not_have_is_known(void **state)
{
	(void)state;
	assert_true(store_account_has("attempts[].gpus") && store_account_has("estimate.claim_mib") && store_account_has("feed"));
	assert_true(store_account_has("attempts.peak_mib"));
	assert_false(store_account_has("attempts") || store_account_has("attempts[].load") || store_account_has("command"));
	assert_false(store_account_has("gpus") || store_account_has("share") || store_account_has(""));
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(rows_say_what_the_log_says),
		T(one_that_was_cancelled_in_the_queue_has_no_attempt),
		T(rows_go_when_the_task_is_queued_again_or_forgotten),
		T(the_log_is_read_where_rows_are_missing_or_damaged),
		T(rows_are_made_for_an_older_store),
		T(what_rows_do_not_have_is_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
