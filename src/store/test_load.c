/* SPDX-License-Identifier: MIT
 * Reading: a task that comes back from its log equals the one that lived; damage stays in the task it is in.
 */
#include "store/test_fixture.h"

static void every_step_of_a_life_survives_a_restart(void **state)
{
	const struct event life[] = {
		{ .kind = EV_HELD, .t_ms = 2000, .u.by.uid = 1000 },
		{ .kind = EV_RELEASED, .t_ms = 3000, .u.by.uid = 0 },
		{ .kind = EV_ESTIMATED, .t_ms = 3000,
		  .u.estimate = { .estimator = "declared", .need_mib = 10, .claim_mib = 12 } },
		{ .kind = EV_UPDATED, .t_ms = 3500, .u.updated = { .set_priority = true, .priority = 9, .name = (char *)"b" } },
		fixture_placed(4000),
		{ .kind = EV_STARTED, .t_ms = 4100, .u.started.shim = { .pid = 99, .start_ticks = 12345678901 } },
		{ .kind = EV_MEASURED, .t_ms = 5000, .u.measured = { .peak_mib = 7000, .mean_smact = 0.5, .alone_s = NAN } },
		fixture_ended(6000, VERDICT_OOM, NEXT_RECOVER, TASK_PENDING),
		fixture_placed(7000),
		{ .kind = EV_STOP_ASKED, .t_ms = 8000, .u.stop = { .reason = STOP_CANCEL, .uid = 1000 } },
		fixture_ended(8001, VERDICT_CANCELLED, NEXT_DONE, TASK_CANCELLED),
		{ .kind = EV_REQUEUED, .t_ms = 9000, .u.by.uid = 1000 },
	};
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 1000, 1000);
	for (size_t i = 0; i < COUNT_OF(life); i++) {
		fixture_event(s, t, life[i]);
		fixture_commit(s);
		store_close(s);
		s = fixture_open(*state);
		fixture_same_as_stored(s, t);
		assert_int_equal(fixture_live(s).n, task_state_terminal(t->state) ? 0 : 1);
	}
	assert_int_equal(t->n_events, COUNT_OF(life) + 1);
	store_close(s);
	task_destroy(t);
}

static void the_request_comes_back_whole(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 4000000000U, 1000);
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	struct task *again = store_load_task(s, t->id, &err);
	assert_int_equal(again->spec->uid, 4000000000U);
	assert_int_equal(again->spec->gid, 100);
	assert_string_equal(again->spec->user, "ada");
	assert_string_equal(again->spec->environ[1], t->spec->environ[1]);
	assert_null(again->spec->environ[2]);
	scoped_json *a = spec_to_json(t->spec);
	scoped_json *b = spec_to_json(again->spec);
	assert_true(json_equal(a, b));
	task_destroy(again);
	task_destroy(t);
	store_close(s);
}

struct shared { const struct spec *spec; unsigned n; };

static int one_spec(void *ctx, struct task *t, const char *broken)
{
	struct shared *sh = ctx;
	assert_null(broken);
	if (sh->n++)
		assert_ptr_equal(t->spec, sh->spec);
	assert_string_equal(t->spec->environ[1], "SECRET=" FIXTURE_SECRET);
	sh->spec = t->spec;	/* kept alive by the loader until the next job */
	task_destroy(t);
	return 0;
}

static void elements_share_one_request(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct spec *spec = fixture_spec(1000);
	uint32_t job = store_next_job(s);
	assert_int_equal(store_add_job(s, job, spec, 1, &err), 0);
	for (int i = 0; i < 5; i++) {
		struct task *t = task_create(TASK_ID(job, i), spec_ref(spec));
		fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
		task_destroy(t);
	}
	spec_unref(spec);
	fixture_commit(s);
	struct shared sh = { 0 };
	assert_int_equal(store_load_live(s, one_spec, &sh, &err), 0);
	assert_int_equal(sh.n, 5);
	store_close(s);
}

static struct fixture_list finished(struct store *s, struct store_span span)
{
	struct fixture_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	if (store_load_finished(s, &span, fixture_collect, &l, &err))
		fail_msg("%s", err.text);
	return l;
}

static void finished_tasks_by_span_and_user(void **state)
{
	struct store *s = fixture_open(*state);
	task_id late = fixture_finished(s, 1000, 3000);		/* ends at 3100 */
	task_id early = fixture_finished(s, 1000, 1000);	/* ends at 1100 */
	task_id other = fixture_finished(s, 2000, 2000);	/* ends at 2100 */
	task_destroy(fixture_submit(s, 1000, 10));
	fixture_commit(s);
	struct fixture_list l = finished(s, (struct store_span){ 0, 1000000, -1, 0, 0 });
	assert_int_equal(l.n, 3);
	assert_int_equal(l.ids[0], early);
	assert_int_equal(l.ids[1], other);
	assert_int_equal(l.ids[2], late);
	assert_int_equal(finished(s, (struct store_span){ 1100, 3100, -1, 0, 0 }).n, 2);	/* from is in, to is not */
	assert_int_equal(finished(s, (struct store_span){ 1101, 3101, -1, 0, 0 }).n, 2);
	l = finished(s, (struct store_span){ 0, 1000000, 2000, 0, 0 });
	assert_int_equal(l.n, 1);
	assert_int_equal(l.ids[0], other);
	assert_int_equal(fixture_live(s).n, 1);
	store_close(s);
}

/* A span may begin and end between tasks of one moment; those beside it are all others. */
static void a_span_divides_a_moment(void **state)
{
	struct store *s = fixture_open(*state);
	struct error err = ERROR_INIT;
	task_id ids[4];
	for (size_t i = 0; i < COUNT_OF(ids); i++)
		ids[i] = fixture_finished(s, 1000, 1000);	/* all end at 1100 */
	fixture_commit(s);
	task_destroy(fixture_submit(s, 1000, 1000));	/* waits */
	struct task *late = fixture_submit(s, 1000, 1000);	/* waited, and ran when those were gone */
	fixture_event(s, late, fixture_placed(5000));
	fixture_event(s, late, fixture_ended(5100, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	task_destroy(late);
	fixture_commit(s);
	const struct store_span middle = { 1100, 1100, -1, ids[0] + 1, ids[3] };
	struct fixture_list l = finished(s, middle), beside = { .n = 0 };
	assert_int_equal(l.n, 2);
	assert_int_equal(l.ids[0], ids[1]);
	assert_int_equal(l.ids[1], ids[2]);
	assert_int_equal(store_load_beside(s, &middle, 1000, 1100, fixture_collect, &beside, &err), 0);
	assert_int_equal(beside.n, 2);
	assert_int_equal(beside.ids[0] + beside.ids[1], ids[0] + ids[3]);
	store_close(s);
}

/* Submitted and placed by a clock that was ahead, or behind, and set right since: by times as they are now it was there. */
static void who_was_there_is_told_by_the_clock_as_it_is(void **state)
{
	static const struct { int64_t submit_ms, by_ms; unsigned times; } was[] = {
		{ 2000000, -1500000, 1 }, { 100, 499900, 1 }, { 2000000, -50000, STORE_CLOCKS_KEPT + 14 },
	};
	struct store *s = fixture_open(*state);
	struct error err = ERROR_INIT;
	for (size_t i = 0; i < COUNT_OF(was); i++) {
		struct task *t = fixture_submit(s, 1000, was[i].submit_ms);
		int64_t now_ms = was[i].submit_ms + 10;
		fixture_event(s, t, fixture_placed(now_ms));
		for (unsigned k = 0; k < was[i].times; k++) {
			now_ms += was[i].by_ms + 1;
			fixture_event(s, t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = now_ms, .u.clock.by_ms = was[i].by_ms });
		}
		if (i == 1)
			fixture_event(s, t, fixture_ended(500400, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
		task_destroy(t);
	}
	task_id counted = fixture_finished(s, 2000, 500200);	/* until 500300 */
	task_destroy(fixture_submit(s, 1000, 500250));	/* waits */
	fixture_commit(s);
	const struct store_span one = { 500300, 500301, 2000, 0, 0 };
	struct fixture_list beside = { .n = 0 };
	assert_int_equal(finished(s, one).ids[0], counted);
	assert_int_equal(store_load_beside(s, &one, 500210, 500300, fixture_collect, &beside, &err), 0);
	assert_int_equal(beside.n, COUNT_OF(was));
	store_close(s);
}

static int no_environ(void *ctx, struct task *t, const char *broken)
{
	(void)ctx;
	assert_null(broken);
	assert_null(t->spec->environ[0]);
	task_destroy(t);
	return 0;
}

/* A process beside the one that writes: what is committed, and nothing is changed by looking. */
static void a_reader_beside_the_daemon(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	assert_null(store_open_reader("/nonexistent", &err));
	fixture_finished(s, 1000, 1000);
	fixture_commit(s);
	struct store *reader = store_open_reader(*state, &err);
	if (!reader)
		fail_msg("%s", err.text);
	task_id later = fixture_finished(s, 1000, 2000);
	assert_int_equal(finished(reader, (struct store_span){ 0, 1000000, -1, 0, 0 }).n, 1);
	fixture_commit(s);
	assert_int_equal(finished(reader, (struct store_span){ 0, 1000000, -1, 0, 0 }).n, 2);
	task_destroy(store_load_task(reader, later, &err));
	assert_int_equal(store_set_meta(reader, "a", "b", &err), -1);
	store_close(reader);
	fixture_finished(s, 1000, 3000);
	fixture_commit(s);
	store_close(s);
}

struct beside { struct store *reader, *writer; unsigned n, snapshots; int64_t tasks; };

static int end_one_beside(void *ctx, struct task *t, const char *broken)
{
	struct beside *seen = ctx;
	struct error err = ERROR_INIT;
	int64_t tasks;
	(void)broken;
	if (seen->n++ % 100 == 0)
		fixture_finished(seen->writer, 1000, 2000000);
	fixture_commit(seen->writer);
	assert_int_equal(store_query_int(seen->reader, "SELECT count(*) FROM tasks", &tasks, &err), 0);
	seen->snapshots += tasks != seen->tasks;
	seen->tasks = tasks;
	task_destroy(t);
	return 0;
}

/* It reads many in one transaction, and not all: what is committed meanwhile is written back. */
static void a_reader_lets_go_on_the_way(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	for (unsigned i = 0; i < 600; i++)
		fixture_finished(s, 1000, 1000);
	fixture_commit(s);
	struct beside seen = { .reader = store_open_reader(*state, &err), .writer = s };
	const struct store_span span = { 0, 1000000, -1, 0, 0 };
	assert_int_equal(store_load_finished(seen.reader, &span, end_one_beside, &seen, &err), 0);
	assert_int_equal(seen.n, 600);
	assert_int_equal(seen.snapshots, 3);
	assert_true(sqlite3_get_autocommit(seen.reader->db));
	store_close(seen.reader);
	store_close(s);
}

static void a_reader_of_another_release_says_what_to_do(void **state)
{
	struct error err = ERROR_INIT;
	store_close(fixture_open(*state));
	fixture_sql(*state, "PRAGMA user_version=1; ALTER TABLE outcomes DROP COLUMN cores");
	assert_null(store_open_reader(*state, &err));
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_non_null(strstr(err.text, "is of schema 1, "));
	assert_non_null(strstr(err.text, "restart radd"));
}

/* One after the other, as for `rad show` of an ended array: the request, which names all elements, is read once. */
static void elements_asked_for_one_by_one_share_it_too(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	task_id other = fixture_finished(s, 1000, 1000), ids[2];
	struct spec *spec = fixture_spec(1000);
	uint32_t job = store_next_job(s);
	assert_int_equal(store_add_job(s, job, spec, 1, &err), 0);
	for (int i = 0; i < 2; i++) {
		struct task *t = task_create(ids[i] = TASK_ID(job, i), spec_ref(spec));
		fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
		task_destroy(t);
	}
	fixture_commit(s);
	struct task *a = store_load_task(s, ids[0], &err), *b = store_load_task(s, ids[1], &err);
	struct task *c = store_load_task(s, other, &err), *d = store_load_task(s, ids[0], &err);
	assert_ptr_equal(a->spec, b->spec);
	assert_ptr_not_equal(b->spec, c->spec);
	fixture_same_task(a, d);
	store_close(s);
	assert_string_equal(a->spec->user, "ada");	/* each keeps its own reference */
	spec_unref(spec);
	task_destroy(a);
	task_destroy(b);
	task_destroy(c);
	task_destroy(d);
}

static void reports_do_not_see_environments(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	fixture_finished(s, 1000, 1);
	assert_int_equal(store_load_finished(s, &(struct store_span){ 0, 1000, -1, 0, 0 }, no_environ, NULL, &err), 0);
	store_close(s);
}

static int only_whose(void *ctx, struct task *t, const char *broken)
{
	assert_null(broken);
	assert_int_equal(t->spec->uid, 1000);
	assert_string_equal(t->spec->user, "ada");
	assert_int_equal(t->attempts[0].seen.peak_mib, 8000);
	++*(int *)ctx;
	task_destroy(t);
	return 0;
}

/* What was measured on the way is not looked at, and for sums neither is the request nor the estimate. */
static void sums_are_read_from_little(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct store_span span = { 0, 1000, -1, 0, 0, false };
	int n = 0;
	fixture_finished(s, 1000, 1);
	fixture_commit(s);
	fixture_sql(*state, "UPDATE events SET seq = seq * 10; INSERT INTO events SELECT seq + 1, task, t_ms, 'measured', 'no JSON'"
		    " FROM events WHERE kind = 'placed'");
	assert_string_equal(finished(s, span).broken[0], "");
	fixture_sql(*state, "INSERT INTO events SELECT seq + 1, task, t_ms, 'estimated', 'no JSON' FROM events"
		    " WHERE kind = 'submitted'; UPDATE jobs SET spec = 'no JSON'");
	assert_string_not_equal(finished(s, span).broken[0], "");
	span.sums = true;
	assert_int_equal(store_load_finished(s, &span, only_whose, &n, &err), 0);
	assert_int_equal(n, 1);
	store_close(s);
}

/* Submitted at 0 on hold (or to begin at 50 s), let go at 50 s, run from 60 to 100 s; or, cancelled at 100 s as it was. */
static void submit_waiting(struct store *s, bool hold, bool runs)
{
	struct error err = ERROR_INIT;
	struct spec *spec = fixture_spec(1000);
	uint32_t job = store_next_job(s);
	spec->hold = hold;
	spec->begin_s = hold ? 0 : 50;
	assert_int_equal(store_add_job(s, job, spec, 1, &err), 0);
	struct task *t = task_create(TASK_ID(job, -1), spec);
	fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
	if (runs) {
		fixture_event(s, t, (struct event){ .kind = hold ? EV_RELEASED : EV_ELIGIBLE, .t_ms = 50001 });
		fixture_event(s, t, fixture_placed(60001));
		fixture_event(s, t, fixture_ended(100001, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	} else {
		fixture_event(s, t, (struct event){ .kind = EV_CANCELLED, .t_ms = 100001 });
	}
	task_destroy(t);
}

static int held_first(void *ctx, struct task *t, const char *broken)
{
	const struct task_times times = task_times(t, 0);
	bool ran = t->state == TASK_COMPLETED;
	assert_null(broken);
	assert_true(times.held_s == (ran ? 50 : 100) && times.wait_s == (ran ? 10 : 0) && times.run_s == (ran ? 40 : 0));
	++*(int *)ctx;
	task_destroy(t);
	return 0;
}

/* What was held at its submission was no task to sums, which read no request: it was not billed. */
static void sums_know_what_was_held(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	for (unsigned i = 0; i < 4; i++) {
		submit_waiting(s, i % 2, i / 2);
		fixture_finished(s, 1000, 1);
	}
	fixture_commit(s);
	for (int sums = 0; sums < 2; sums++) {
		int n = 0;
		assert_int_equal(store_load_finished(s, &(struct store_span){ 10000, 200000, -1, 0, 0, sums }, held_first, &n, &err), 0);
		assert_int_equal(n, 4);
	}
	store_close(s);
}

static void unknown_tasks_are_not_found(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	assert_null(store_load_task(s, TASK_ID(12, 3), &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "12_3"));
	store_close(s);
}

/* Six tasks; what the SQL does to five of them must not reach the sixth. */
static void damage_stays_in_its_task(void **state)
{
	static const char *const reasons[] = {
		"event 2 of its log: ", "unknown event 'teleported'", "is not JSON", "its stored request is missing",
		"its stored request is not JSON", "",
	};
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	for (size_t i = 0; i < COUNT_OF(reasons); i++)
		task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state,
		"INSERT INTO events(task, t_ms, kind, body) VALUES ((1 << 20), 5, 'requeued', '{}');"
		"INSERT INTO events(task, t_ms, kind, body) VALUES ((2 << 20), 5, 'teleported', '{}');"
		"UPDATE events SET body = '{' WHERE task = (3 << 20);"
		"DELETE FROM jobs WHERE job = 4;"
		"UPDATE jobs SET spec = 'x' WHERE job = 5");
	s = fixture_open(*state);
	struct fixture_list l = fixture_live(s);
	assert_int_equal(l.n, COUNT_OF(reasons));
	for (size_t i = 0; i < COUNT_OF(reasons); i++)
		if (*reasons[i] ? !strstr(l.broken[i], reasons[i]) : *l.broken[i])
			fail_msg("task %zu: '%s', expected '%s'", i + 1, l.broken[i], reasons[i]);
	assert_null(store_load_task(s, TASK_ID(1, -1), &err));
	assert_int_equal(strncmp(err.text, "task 1: event 2 of its log: ", 28), 0);
	struct task *t = store_load_task(s, TASK_ID(6, -1), &err);
	fixture_event(s, t, fixture_placed(10));
	fixture_commit(s);
	task_destroy(t);
	store_close(s);
}

static int step_and_commit(void *ctx, struct task *t, const char *broken)
{
	assert_null(broken);
	fixture_event(ctx, t, fixture_placed(10));
	fixture_commit(ctx);
	task_destroy(t);
	return 0;
}

static void the_store_may_be_used_while_it_is_read(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	for (int i = 0; i < 5; i++)
		task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	assert_int_equal(store_load_live(s, step_and_commit, s, &err), 0);
	struct fixture_list l = { .stop_at = 2 };
	assert_int_equal(store_load_live(s, fixture_collect, &l, &err), 0);
	assert_int_equal(l.n, 2);
	struct task *t = store_load_task(s, TASK_ID(5, -1), &err);
	assert_int_equal(t->state, TASK_RUNNING);
	task_destroy(t);
	store_close(s);
}

static void a_missing_index_is_made_again(void **state)
{
	struct store *s = fixture_open(*state);
	task_id done = fixture_finished(s, 1000, 1000);
	struct task *t = fixture_submit(s, 1000, 2000);
	task_id odd = fixture_finished(s, 1000, 3000);
	fixture_commit(s);
	store_close(s);
	fixture_sql(*state, "INSERT INTO events(task, t_ms, kind, body) VALUES ((3 << 20), 5, 'teleported', '{}');"
		    "DELETE FROM tasks");
	s = fixture_open(*state);
	struct fixture_list l = fixture_live(s);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.ids[0], t->id);
	assert_string_equal(l.broken[0], "");
	assert_int_equal(l.ids[1], odd);	/* broken ones stay in sight */
	l = finished(s, (struct store_span){ 1100, 1101, 1000, 0, 0 });
	assert_int_equal(l.n, 1);
	assert_int_equal(l.ids[0], done);
	store_close(s);
	task_destroy(t);
}

static int plan_text(void *ctx, int n, char **values, char **names)
{
	(void)names;
	buf_printf(ctx, "%s\n", values[n - 1]);
	return 0;
}

/* A start must not grow with the history. */
static void live_tasks_are_found_without_a_scan(void **state)
{
	struct store *s = fixture_open(*state);
	scoped_buf plan = { 0 };
	sqlite3_exec(s->db, "EXPLAIN QUERY PLAN SELECT task FROM tasks WHERE live = 1 ORDER BY task", plan_text, &plan, NULL);
	assert_non_null(strstr(buf_text(&plan), "tasks_live"));
	buf_drop(&plan, plan.len);
	store_close(s);
}

static void expect_index(struct store *s, int64_t uid, const char *index)
{
	scoped_buf plan = { 0 };
	scoped_free char *folding = alloc_printf("EXPLAIN QUERY PLAN %s",
						  STORE_ENDED_OF(uid, "end_ms < 7 AND (end_ms, task) > (3, 9)"));
	scoped_free char *loading = alloc_printf("EXPLAIN QUERY PLAN %s", STORE_ENDED_OF(uid, STORE_IN_SPAN("5", "1", "9", "0")));
	sqlite3_exec(s->db, folding, plan_text, &plan, NULL);
	sqlite3_exec(s->db, loading, plan_text, &plan, NULL);
	const char *first = strstr(buf_text(&plan), index);
	assert_non_null(first);
	assert_non_null(strstr(first + 1, index));
	assert_null(strstr(buf_text(&plan), "TEMP B-TREE"));
}

/* Who has few tasks must not pay for those of others; also in a file of before there was an index for that. */
static void what_one_user_had_is_found_without_a_scan(void **state)
{
	struct store *s = fixture_open(*state);
	store_close(s);
	fixture_sql(*state, FIXTURE_BEFORE_9 "DROP INDEX tasks_ended_of; PRAGMA user_version = 7");
	s = fixture_open(*state);
	expect_index(s, 1000, "tasks_ended_of (uid=?");
	expect_index(s, -1, "tasks_ended (end_ms");
	store_close(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(every_step_of_a_life_survives_a_restart),
		T(the_request_comes_back_whole),
		T(elements_share_one_request),
		T(finished_tasks_by_span_and_user),
		T(a_span_divides_a_moment), T(who_was_there_is_told_by_the_clock_as_it_is),
		T(a_reader_beside_the_daemon),
		T(a_reader_lets_go_on_the_way),
		T(a_reader_of_another_release_says_what_to_do),
		T(elements_asked_for_one_by_one_share_it_too),
		T(reports_do_not_see_environments),
		T(sums_are_read_from_little), T(sums_know_what_was_held),
		T(unknown_tasks_are_not_found),
		T(damage_stays_in_its_task),
		T(the_store_may_be_used_while_it_is_read),
		T(a_missing_index_is_made_again),
		T(live_tasks_are_found_without_a_scan),
		T(what_one_user_had_is_found_without_a_scan),
	};
	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
