/* SPDX-License-Identifier: MIT
 * Writing: every event there and back, transactions that fail, job numbers, small values, privacy.
 */
#include "store/test_fixture.h"

static struct event sample(enum event_kind kind)
{
	struct event ev = { .kind = kind, .t_ms = 2000 + (int64_t)kind };
	switch (kind) {
	case EV_UPDATED:
		ev.u.updated.set_priority = ev.u.updated.set_gpu_mem = true;
		ev.u.updated.priority = -5;
		ev.u.updated.gpu_mem_mib = 4096;
		ev.u.updated.name = (char *)"new name";
		return ev;
	case EV_ESTIMATED:
		ev.u.estimate = (struct estimate){ .estimator = "declared", .need_mib = 1, .comfort_mib = 2,
						  .claim_mib = 3, .fenced = true };
		return ev;
	case EV_PLACED:
		return fixture_placed(ev.t_ms);
	case EV_STARTED:
		ev.u.started.shim = (struct proc_id){ .pid = 4321, .start_ticks = 987654321 };
		return ev;
	case EV_STOP_ASKED:
		ev.u.stop.reason = STOP_TIME_LIMIT;
		ev.u.stop.uid = 77;
		return ev;
	case EV_MEASURED:
		ev.u.measured = (struct measured){ .peak_mib = 5, .mean_smact = NAN, .alone_s = 7.25,
						  .energy_j = 1e6, .warm = true };
		return ev;
	case EV_ENDED:
		return fixture_ended(ev.t_ms, VERDICT_OOM, NEXT_RECOVER, TASK_PENDING);
	case EV_MOVED:
		ev = fixture_placed(ev.t_ms);
		return (struct event){ .kind = kind, .t_ms = ev.t_ms, .u.moved = { ev.u.placed.gpus, ev.u.placed.n_gpus, 0 } };
	case EV_SUBMITTED:
	case EV_ELIGIBLE:
		return ev;
	default:
		ev.u.by.uid = 78;
		return ev;
	}
}

struct next_event { unsigned n; };

static int same_as_sample(void *ctx, const struct event *ev)
{
	struct next_event *next = ctx;
	struct event want = sample((enum event_kind)next->n);
	assert_int_equal(ev->kind, next->n);
	assert_int_equal(ev->task, TASK_ID(1, -1));
	assert_int_equal(ev->t_ms, want.t_ms);
	scoped_json *a = event_to_json(&want);
	scoped_json *b = event_to_json(ev);
	assert_true(json_equal(a, b));
	next->n++;
	return 0;
}

static void every_event_comes_back(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct task *t = task_create(TASK_ID(1, -1), fixture_spec(1000));
	for (unsigned k = 0; k < EVENT_KIND_COUNT; k++) {
		struct event ev = sample((enum event_kind)k);
		ev.task = t->id;
		assert_int_equal(store_append(s, &ev, t, &err), 0);
	}
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	struct next_event next = { 0 };
	assert_int_equal(store_load_events(s, t->id, same_as_sample, &next, &err), 0);
	assert_int_equal(next.n, EVENT_KIND_COUNT);
	store_close(s);
	task_destroy(t);
}

static void what_is_not_committed_is_gone(void **state)
{
	struct store *s = fixture_open(*state);
	task_destroy(fixture_submit(s, 1000, 1));
	assert_true(s->dirty);
	fixture_commit(s);
	assert_false(s->dirty);
	task_destroy(fixture_submit(s, 1000, 2));
	store_close(s);
	s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 1);
	assert_int_equal(store_next_job(s), 2);
	store_close(s);
}

static void job_numbers_are_never_used_twice(void **state)
{
	struct store *s = fixture_open(*state);
	assert_int_equal(TASK_JOB(fixture_finished(s, 1000, 1)), 1);
	assert_int_equal(TASK_JOB(fixture_finished(s, 1000, 1)), 2);
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	assert_int_equal(store_next_job(s), 3);
	assert_int_equal(store_next_job(s), 4);
	store_close(s);
}

/* Adds tasks until one fails; the transaction stays open. */
static void fill_up(struct store *s, struct error *err)
{
	for (int i = 0; i < 100000; i++) {
		struct spec *spec = fixture_spec(1000);
		struct task *t = task_create(TASK_ID(store_next_job(s), -1), spec);
		struct event ev = { .kind = EV_SUBMITTED, .task = t->id, .t_ms = 5 };
		task_apply(t, &ev, NULL);
		int rc = store_add_job(s, TASK_JOB(t->id), spec, 5, err) ? -1 : store_append(s, &ev, t, err);
		task_destroy(t);
		if (rc)
			return;
	}
	fail_msg("the store never became full");
}

static void a_full_store_keeps_the_past_and_recovers(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 1000, 1);
	fixture_commit(s);
	assert_int_equal(store_exec(s, "PRAGMA max_page_count = 40", &err), 0);
	fill_up(s, &err);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.text, "no room on the disk"));
	assert_true(s->dirty);
	struct error again = ERROR_INIT;
	assert_int_equal(store_set_meta(s, "turn", "1", &again), -1);	/* doomed: the rest of the turn fails alike */
	assert_string_equal(again.text, err.text);
	assert_int_equal(store_commit(s, &again), -1);
	assert_string_equal(again.text, err.text);
	assert_false(s->dirty);
	assert_int_equal(fixture_live(s).n, 1);
	assert_int_equal(store_exec(s, "PRAGMA max_page_count = 100000", &err), 0);
	fixture_event(s, t, fixture_placed(10));
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 1);
	fixture_same_as_stored(s, t);
	store_close(s);
	task_destroy(t);
}

static void a_duplicate_job_dooms_its_turn_only(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 1000, 1);
	fixture_commit(s);
	assert_int_equal(store_set_meta(s, "turn", "7", &err), 0);
	assert_int_equal(store_add_job(s, TASK_JOB(t->id), t->spec, 2, &err), -1);
	assert_int_equal(store_commit(s, &err), -1);
	assert_null(store_get_meta(s, "turn"));
	assert_int_equal(store_set_meta(s, "turn", "8", &err), 0);
	fixture_commit(s);
	scoped_free char *turn = store_get_meta(s, "turn");
	assert_string_equal(turn, "8");
	store_close(s);
	task_destroy(t);
}

static void a_reader_from_outside_sees_whole_turns(void **state)
{
	scoped_free char *path = fixture_path(*state, "rad.db");
	struct store *s = fixture_open(*state);
	sqlite3 *db;
	sqlite3_stmt *st;
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), 0);
	task_destroy(fixture_submit(s, 1000, 1));
	const char *sql = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM events)";
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), 0);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(st, 0), 0);
	fixture_commit(s);	/* a reader in the middle of its read is no hindrance */
	sqlite3_reset(st);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(st, 0), 2);
	sqlite3_finalize(st);
	sqlite3_close(db);
	store_close(s);
}

static void each_commit_waits_for_the_disk(void **state)
{
	struct store *s = fixture_open(*state);
	int64_t mode = 0;
	assert_int_equal(store_query_int(s, "PRAGMA synchronous", &mode, NULL), 0);
	assert_int_equal(mode, 2);	/* FULL */
	store_close(s);
}

static int join(void *ctx, const char *key, const char *value)
{
	buf_printf(ctx, "%s=%s;", key, value);
	return !strcmp(value, "stop");
}

static void small_values(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	assert_null(store_get_meta(s, "turn"));
	assert_int_equal(store_set_meta(s, "drained:GPU-2", "by ada", &err), 0);
	assert_int_equal(store_set_meta(s, "drained:GPU-1", "", &err), 0);
	assert_int_equal(store_set_meta(s, "drained:GPU-3", "x", &err), 0);
	assert_int_equal(store_set_meta(s, "drained:GPU-3", NULL, &err), 0);
	assert_int_equal(store_set_meta(s, "drained:GPU-10", "", &err), 0);
	assert_int_equal(store_set_meta(s, "drained%", "not a pattern", &err), 0);
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	scoped_buf all = { 0 };
	assert_int_equal(store_each_meta(s, "drained:", join, &all, NULL), 0);
	assert_string_equal(buf_text(&all), "drained:GPU-1=;drained:GPU-2=by ada;drained:GPU-10=;");
	assert_int_equal(sqlite3_exec(s->db, "ALTER TABLE meta RENAME TO lost", NULL, NULL, NULL), 0);
	assert_int_equal(store_each_meta(s, "drained:", join, &all, &err), -1);
	assert_non_null(strstr(err.text, "no such table: meta"));
	store_close(s);
}

static int contains_secret(void *ctx, int n, char **values, char **names)
{
	(void)names;
	for (int i = 0; i < n; i++)
		*(int *)ctx += values[i] && strstr(values[i], FIXTURE_SECRET);
	return 0;
}

static int count_secrets(struct store *s, const char *sql)
{
	int n = 0;
	assert_int_equal(sqlite3_exec(s->db, sql, contains_secret, &n, NULL), 0);
	return n;
}

static void environments_are_kept_apart(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	task_id id = fixture_finished(s, 1000, 1);
	fixture_commit(s);
	assert_int_equal(count_secrets(s, "SELECT environ FROM jobs"), 1);
	assert_int_equal(count_secrets(s, "SELECT spec, user FROM jobs"), 0);
	assert_int_equal(count_secrets(s, "SELECT * FROM events"), 0);
	assert_int_equal(count_secrets(s, "SELECT * FROM tasks"), 0);
	struct task *t = store_load_task(s, id, &err);
	assert_string_equal(t->spec->environ[1], "SECRET=" FIXTURE_SECRET);
	task_destroy(t);
	store_close(s);
}

static int states_text(void *ctx, task_id id, enum task_state st)
{
	char name[TASK_ID_TEXT];
	buf_printf(ctx, "%s:%s ", task_id_text(id, name), task_state_code(st));
	return 0;
}

static void states_of_a_job(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	task_id one = fixture_finished(s, 1000, 1);
	uint32_t job = store_next_job(s);
	struct spec *spec = fixture_spec(1000);
	assert_int_equal(store_add_job(s, job, spec, 1, &err), 0);
	for (int i = 0; i < 3; i++) {
		struct task *t = task_create(TASK_ID(job, i * 5), spec_ref(spec));
		fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
		if (i == 1)
			fixture_event(s, t, (struct event){ .kind = EV_CANCELLED, .t_ms = 2 });
		task_destroy(t);
	}
	spec_unref(spec);
	task_destroy(fixture_submit(s, 1000, 3));
	fixture_commit(s);
	scoped_buf text = { 0 };
	assert_int_equal(store_states(s, TASK_ID(job, -1), states_text, &text, &err), 0);
	assert_string_equal(buf_text(&text), "2_0:PD 2_5:CA 2_10:PD ");
	buf_drop(&text, text.len);
	assert_int_equal(store_states(s, one, states_text, &text, &err), 0);
	assert_string_equal(buf_text(&text), "1:CD ");
	buf_drop(&text, text.len);
	assert_int_equal(store_states(s, TASK_ID(99, -1), states_text, &text, &err), 0);
	assert_int_equal(text.len, 0);
	store_close(s);
}

static int count_event(void *ctx, const struct event *ev)
{
	(void)ev;
	++*(int *)ctx;
	return 0;
}

static int events_of(struct store *s, task_id id)
{
	int n = 0;
	assert_int_equal(store_load_events(s, id, count_event, &n, NULL), 0);
	return n;
}

static void fold_all(struct store *s, int64_t before_ms, bool forget)
{
	struct store_folding f = { .before_ms = before_ms, .forget = forget };
	struct error err = ERROR_INIT;
	int rc;
	while (!(rc = store_fold(s, &f, 2, &err)))
		;
	if (rc < 0)
		fail_msg("%s", err.text);
	fixture_commit(s);
}

/* How many events of that kind are in its log. */
static int64_t kept(struct store *s, task_id id, const char *kind)
{
	struct error err = ERROR_INIT;
	scoped_free char *sql = alloc_printf("SELECT count(*) FROM events WHERE task = %lld AND kind = '%s'", (long long)id, kind);
	int64_t n = -1;
	if (store_query_int(s, sql, &n, &err))
		fail_msg("%s", err.text);
	return n;
}

/* As radd has it, and as its successor reads it. */
static void a_clock_that_is_set_for_ever_fills_no_log(void **state)
{
	struct store *s = fixture_open(*state);
	struct task *other = fixture_submit(s, 1000, 900), *t = fixture_submit(s, 1000, 1000);
	int64_t t_ms = 5000;
	for (int i = 0; i < 100; i++) {
		int64_t by_ms = i % 3 ? 7000 : -2000;
		t_ms += 1000 + by_ms;
		fixture_event(s, other, (struct event){ .kind = EV_CLOCK_SET, .t_ms = t_ms, .u.clock.by_ms = by_ms });
		fixture_event(s, t, (struct event){ .kind = EV_CLOCK_SET, .t_ms = t_ms, .u.clock.by_ms = by_ms });
		if (i == 9 || i == 60)
			fixture_event(s, t, (struct event){ .kind = i == 9 ? EV_HELD : EV_RELEASED, .t_ms = t_ms + 10 });
	}
	fixture_commit(s);
	assert_int_equal(kept(s, other->id, "clock_set"), STORE_CLOCKS_KEPT);
	assert_int_equal(kept(s, t->id, "clock_set"), 10 + 2 * STORE_CLOCKS_KEPT);
	struct task *all[] = { other, t };
	for (size_t i = 0; i < COUNT_OF(all); i++) {
		struct task *read = store_load_task(s, all[i]->id, NULL);
		scoped_free char *was = fixture_task_text(all[i]), *is = fixture_task_text(read);
		assert_string_equal(was, is);
		task_destroy(read);
		task_destroy(all[i]);
	}
	store_close(s);
}

/* One that was measured on its way, and has a script. */
static task_id finished_with_much(struct store *s, int64_t t_ms)
{
	struct spec *spec = fixture_spec(1000);
	uint32_t job = store_next_job(s);
	free(spec->script);
	free(spec->capture);
	spec->script = alloc_string("python train.py");
	spec->capture = alloc_string("UkFEQ0FQ");
	assert_int_equal(store_add_job(s, job, spec, t_ms, NULL), 0);
	struct task *t = task_create(TASK_ID(job, -1), spec);
	fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = t_ms });
	fixture_event(s, t, fixture_placed(t_ms + 10));
	for (int i = 0; i < 5; i++)
		fixture_event(s, t, (struct event){ .kind = EV_MEASURED, .t_ms = t_ms + 20 + i, .u.measured.peak_mib = 5 });
	fixture_event(s, t, fixture_ended(t_ms + 100, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	task_id id = t->id;
	task_destroy(t);
	return id;
}

static json_t *told(struct store *s, task_id id)
{
	struct error err = ERROR_INIT;
	struct task *t = store_load_task(s, id, &err);
	if (!t)
		fail_msg("%s", err.text);
	json_t *o = task_to_json(t, 100000);
	task_destroy(t);
	return o;
}

/* Of what has ended, what was measured on the way is not even read; and its request, read without the environment, does not do
 * for somebody who runs it again. */
static void what_has_ended_is_told_without_its_way(void **state)
{
	struct error err = ERROR_INIT;
	struct store *s = fixture_open(*state);
	task_id id = finished_with_much(s, 1000);
	fixture_commit(s);
	struct task *t = store_load_ended(s, id, &err);
	assert_null(t->spec->environ[0]);
	task_destroy(t);
	t = store_load_task(s, id, &err);
	assert_string_equal(t->spec->environ[1], "SECRET=" FIXTURE_SECRET);
	task_destroy(t);
	scoped_json *whole = told(s, id);
	assert_int_equal(store_exec(s, "UPDATE events SET body = 'damaged' WHERE kind = 'measured'", &err), 0);
	t = store_load_ended(s, id, &err);
	assert_non_null(t);
	scoped_json *ended = task_to_json(t, 100000);
	assert_true(json_equal(whole, ended));
	task_destroy(t);
	assert_null(store_load_task(s, id, &err));
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_null(store_load_ended(s, TASK_ID(99, -1), &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	store_close(s);
}

/* The request that was read last is kept, for arrays; not beyond its change. */
static void what_was_read_last_is_not_older_than_the_store(void **state)
{
	struct store *s = fixture_open(*state);
	task_id id = finished_with_much(s, 1000);
	struct task *before = store_load_task(s, id, NULL);
	struct spec *spec = spec_create();
	spec->script = alloc_string("python other.py");
	assert_int_equal(store_set_spec(s, TASK_JOB(id), spec, NULL), 0);
	spec_unref(spec);
	struct task *t = store_load_task(s, id, NULL);
	assert_string_equal(t->spec->script, "python other.py");
	assert_string_equal(before->spec->script, "python train.py");
	task_destroy(before);
	task_destroy(t);
	fixture_commit(s);
	fold_all(s, 5000, false);
	t = store_load_task(s, id, NULL);
	assert_string_equal(t->spec->script, "");
	task_destroy(t);
	store_close(s);
}

static int deny_third_select(void *ctx, int action, const char *a, const char *b, const char *c, const char *d)
{
	int *selects = ctx;
	(void)a, (void)b, (void)c, (void)d;
	return action == SQLITE_SELECT && ++*selects == 3 ? SQLITE_DENY : SQLITE_OK;
}

/* The first SELECT finds the task, the second whether it is folded, the third whether its job has ended. */
static void folding_tells_what_it_cannot_read(void **state)
{
	struct store *s = fixture_open(*state);
	struct store_folding f = { .before_ms = 5000 };
	struct error err = ERROR_INIT;
	int selects = 0;
	finished_with_much(s, 1000);
	fixture_commit(s);
	sqlite3_set_authorizer(s->db, deny_third_select, &selects);
	assert_int_equal(store_fold(s, &f, 2, &err), -1);
	assert_int_equal(selects, 3);
	assert_int_equal(f.at, 0);
	sqlite3_set_authorizer(s->db, NULL, NULL);
	assert_int_equal(store_fold(s, &f, 2, &err), 1);
	store_close(s);
}

static void what_ended_long_ago_is_folded(void **state)
{
	struct store *s = fixture_open(*state);
	task_id old = finished_with_much(s, 1000), late = finished_with_much(s, 9000);
	struct task *alive = fixture_submit(s, 1000, 1000);
	fixture_commit(s);
	scoped_json *before = told(s, old), *before_late = told(s, late);
	fold_all(s, 5000, false);
	scoped_json *after = told(s, old), *after_late = told(s, late);
	assert_true(json_equal(before, after));		/* all that accounts are made of */
	assert_true(json_equal(before_late, after_late));
	assert_true(store_is_folded(s, TASK_JOB(old)));
	assert_false(store_is_folded(s, TASK_JOB(late)));
	assert_false(store_is_folded(s, TASK_JOB(alive->id)));
	assert_int_equal(events_of(s, old), 3);
	assert_int_equal(events_of(s, late), 8);
	struct task *t = store_load_task(s, old, NULL);
	assert_string_equal(t->spec->script, "");
	assert_null(t->spec->capture);
	assert_null(t->spec->environ[0]);
	task_destroy(t);
	t = store_load_task(s, late, NULL);
	assert_string_equal(t->spec->script, "python train.py");
	task_destroy(t);
	task_destroy(alive);
	store_close(s);
}

/* Elements end one by one; the script is all's. */
static void an_array_is_folded_as_a_whole(void **state)
{
	struct store *s = fixture_open(*state);
	uint32_t job = store_next_job(s);
	struct spec *spec = fixture_spec(1000);
	assert_int_equal(store_add_job(s, job, spec, 1, NULL), 0);
	struct task *second = NULL;
	for (int i = 0; i < 2; i++) {
		struct task *t = task_create(TASK_ID(job, i), spec_ref(spec));
		fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
		if (i)
			second = t;
		else
			fixture_event(s, t, (struct event){ .kind = EV_CANCELLED, .t_ms = 2 });
		if (!i)
			task_destroy(t);
	}
	spec_unref(spec);
	fold_all(s, 1000, false);
	assert_false(store_is_folded(s, job));
	fixture_event(s, second, (struct event){ .kind = EV_CANCELLED, .t_ms = 2000 });
	task_destroy(second);
	fold_all(s, 1000, false);
	assert_false(store_is_folded(s, job));
	fold_all(s, 3000, false);
	assert_true(store_is_folded(s, job));
	store_close(s);
}

static void what_is_forgotten_is_gone_but_for_its_number(void **state)
{
	struct store *s = fixture_open(*state);
	task_id first = finished_with_much(s, 1000), last = finished_with_much(s, 2000);
	fixture_commit(s);
	fold_all(s, 5000, true);	/* nothing was folded yet */
	assert_int_equal(events_of(s, first), 8);
	fold_all(s, 5000, false);
	fold_all(s, 5000, true);
	struct error err = ERROR_INIT;
	assert_null(store_load_task(s, first, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(store_load_task(s, last, &err));
	assert_int_equal(events_of(s, last), 0);
	store_close(s);
	s = fixture_open(*state);
	assert_int_equal(store_next_job(s), TASK_JOB(last) + 1);
	store_close(s);
}

static int note_statement(unsigned what, void *ctx, void *statement, void *sql)
{
	(void)what, (void)sql;
	*(int *)ctx += strstr(sqlite3_sql(statement), "live = 1 OR") != NULL;
	return 0;
}

/* One of its elements runs for months, and each of the others would have all of them looked at, every day. */
static void an_array_is_asked_once_whether_it_has_ended(void **state)
{
	struct store *s = fixture_open(*state);
	struct store_folding f = { .before_ms = 5000 };
	struct error err = ERROR_INIT;
	int looks = 0;
	for (int i = 0; i < 4; i++) {
		scoped_free char *sql = alloc_printf("INSERT INTO tasks(task, uid, live, state, submit_ms, end_ms) VALUES (%lld, 1000, %d, "
						     "'RUNNING', 1000, %d)", (long long)TASK_ID(7, i), i == 3, i == 3 ? 0 : 1000 + i);
		assert_int_equal(store_exec(s, sql, &err), 0);
	}
	assert_int_equal(sqlite3_trace_v2(s->db, SQLITE_TRACE_STMT, note_statement, &looks), SQLITE_OK);
	assert_int_equal(store_fold(s, &f, 10, &err), 1);
	assert_int_equal(looks, 1);
	store_close(s);
}

static struct store_folding purge_all(struct store *s, struct store_folding f)
{
	struct error err = ERROR_INIT;
	int rc;
	f.purge = true;
	while (!(rc = store_fold(s, &f, 2, &err)))
		;
	if (rc < 0)
		fail_msg("%s", err.text);
	fixture_commit(s);
	return f;
}

static bool is_that(void *ctx, task_id id)
{
	return id == *(task_id *)ctx;
}

static void what_is_purged_is_old_ended_and_waited_for_by_none(void **state)
{
	struct store *s = fixture_open(*state);
	task_id old = finished_with_much(s, 1000), named = finished_with_much(s, 1100), late = finished_with_much(s, 9000);
	struct task *alive = fixture_submit(s, 1000, 1000);
	const struct store_folding base = { .before_ms = 5000, .named = is_that, .ctx = &named };
	fixture_commit(s);
	struct store_folding f = base;
	f.dry_run = true;
	f = purge_all(s, f);
	assert_int_equal(f.tasks, 1);
	assert_int_equal(f.kept, 1);
	assert_int_equal(events_of(s, old), 8);		/* only counted */
	f = base;
	f.one_user = true;
	f.uid = 1001;
	assert_int_equal(purge_all(s, f).tasks, 0);	/* another's */
	f.uid = 1000;
	assert_int_equal(purge_all(s, f).tasks, 1);
	assert_int_equal(events_of(s, old), 0);
	assert_int_equal(events_of(s, named), 8);
	assert_int_equal(events_of(s, late), 8);
	assert_int_equal(events_of(s, alive->id), 1);
	task_destroy(alive);
	store_close(s);
}

static void so_many_ended_tasks_are_kept(void **state)
{
	struct store *s = fixture_open(*state);
	for (int i = 0; i < 5; i++)
		finished_with_much(s, 1000 * i);
	fixture_commit(s);
	assert_int_equal(store_kept_from(s, 5), 100);
	assert_int_equal(store_kept_from(s, 6), 0);
	assert_int_equal(purge_all(s, (struct store_folding){ .before_ms = store_kept_from(s, 2) }).tasks, 3);
	int64_t told = -1;
	assert_int_equal(purge_all(s, (struct store_folding){ .before_ms = 9000 }).tasks, 2);
	assert_int_equal(store_query_int(s, "SELECT count(*) FROM jobs WHERE environ LIKE '%" FIXTURE_SECRET "%' OR length(spec) > 2",
					 &told, NULL), 0);
	assert_int_equal(told, 0);	/* the row of the newest stays, for its number */
	store_close(s);
}

static int64_t pages(struct store *s, const char *which)
{
	int64_t n = 0;
	scoped_free char *sql = alloc_printf("PRAGMA %s", which);
	assert_int_equal(store_query_int(s, sql, &n, NULL), 0);
	return n;
}

static void room_that_became_free_goes_back_to_the_disk(void **state)
{
	struct store *s = fixture_open(*state);
	struct error err = ERROR_INIT;
	for (int i = 0; i < 2000; i++)
		finished_with_much(s, 1000);
	fixture_commit(s);
	int64_t before = pages(s, "page_count"), after;
	purge_all(s, (struct store_folding){ .before_ms = 5000 });
	assert_int_equal(pages(s, "page_count"), before);
	assert_int_equal(store_shrink(s, 10, &err), 0);
	fixture_commit(s);
	assert_int_equal(pages(s, "page_count"), before - 10);
	while (!store_shrink(s, 100, &err))
		fixture_commit(s);
	after = pages(s, "page_count");
	assert_true(after < before / 2);
	assert_in_range(pages(s, "freelist_count"), 100, 300);	/* some stay, to be used again */
	store_close(s);
}

/* As people are told: "move rad.db and rad.db-wal away to begin anew". */
static void numbers_go_on_beside_a_store_that_is_begun_anew(void **state)
{
	struct store *s = fixture_open(*state);
	task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	store_close(s);
	scoped_free char *db = fixture_path(*state, "rad.db"), *copy = fixture_path(*state, "copy");
	assert_int_equal(rename(db, copy), 0);
	s = fixture_open(*state);
	uint32_t next = store_next_job(s);
	assert_true(next > 1);
	task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	assert_int_equal(store_next_job(s), next + 2);	/* as ever, where nothing was lost */
	store_close(s);
	assert_int_equal(rename(copy, db), 0);		/* and the old one is put back */
	s = fixture_open(*state);
	assert_true(store_next_job(s) > next + 2);
	store_close(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(every_event_comes_back),
		T(what_is_not_committed_is_gone),
		T(a_clock_that_is_set_for_ever_fills_no_log), T(what_was_read_last_is_not_older_than_the_store),
		T(what_has_ended_is_told_without_its_way),
		T(what_ended_long_ago_is_folded), T(folding_tells_what_it_cannot_read),
		T(an_array_is_folded_as_a_whole), T(an_array_is_asked_once_whether_it_has_ended),
		T(what_is_forgotten_is_gone_but_for_its_number),
		T(what_is_purged_is_old_ended_and_waited_for_by_none),
		T(so_many_ended_tasks_are_kept),
		T(room_that_became_free_goes_back_to_the_disk),
		T(numbers_go_on_beside_a_store_that_is_begun_anew),
		T(job_numbers_are_never_used_twice),
		T(a_full_store_keeps_the_past_and_recovers),
		T(a_duplicate_job_dooms_its_turn_only),
		T(a_reader_from_outside_sees_whole_turns),
		T(each_commit_waits_for_the_disk),
		T(small_values),
		T(environments_are_kept_apart),
		T(states_of_a_job),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
