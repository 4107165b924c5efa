/* SPDX-License-Identifier: MIT
 * Every operation by itself: what it answers, what it changes, and whom it refuses.
 */
#include "daemon/listing.h"
#include "daemon/test_asking.h"

#include <sqlite3.h>
#include <time.h>

/* Submitting ----------------------------------------------------------------------------------------------------------- */

static void a_submission_is_kept_and_told(void **state)
{
	struct asking *s = *state;
	scoped_json *one = submit(s, getuid(), "{}"), *array = submit(s, getuid(), "{\"array\":[3,4,5]}");
	assert_string_equal(text_of(one, "id"), "1");
	assert_int_equal(number_of(one, "tasks"), 1);
	assert_string_equal(text_of(json_object_get(one, "estimate"), "estimator"), "declared");
	assert_string_equal(text_of(array, "id"), "2");
	assert_int_equal(number_of(array, "tasks"), 3);
	struct task *stored = store_load_task(s->w.store, TASK_ID(2, 4), NULL);
	assert_non_null(stored);
	assert_int_equal(stored->spec->uid, getuid());
	task_destroy(stored);
}

static void who_submits_is_asked_of_the_database(void **state)
{
	struct asking *s = *state;
	struct reply reply;
	struct error err;
	scoped_free char *what = submission(s, "{\"user\":\"root\"}");
	assert_int_equal(ask(s, STRANGER, "submit", what, &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);
	assert_int_equal(s->w.n_events, 0);
	while (!s->named)
		uv_run(&s->w.loop, UV_RUN_ONCE);
	scoped_json *done = good(s, STRANGER, "submit", what);
	const struct task *t = core_task(s->w.core, TASK_ID(1, -1));
	assert_string_equal(t->spec->user, "user4242");	/* and not what the message says */
	assert_int_equal(t->spec->uid, STRANGER);
	submit_refused(s, NOBODY, "{}", ERR_DENIED, "no account");
}

static void submissions_that_cannot_be(void **state)
{
	struct asking *s = *state;
	learn_name(s, getuid());
	refused(s, getuid(), "submit", "", ERR_INVALID, "");
	refused(s, getuid(), "submit", "\"spec\":[1]", ERR_INVALID, "");
	submit_refused(s, STRANGER, "{\"priority\":5}", ERR_DENIED, "administrator");
	submit_refused(s, getuid(), "{\"gpus\":3}", ERR_INVALID, "GPUs");
	submit_refused(s, getuid(), "{\"gpu_mem_mib\":1000000}", ERR_INVALID, "");
	submit_refused(s, getuid(), "{\"deps\":[[\"afterok\",\"77\"]]}", ERR_NOT_FOUND, "77");
	submit_refused(s, STRANGER, "{\"array\":[1,2,3,4]}", ERR_UNAVAILABLE, "user_tasks");
	assert_int_equal(s->w.n_events, 0);
}

/* What was submitted of all jobs until now. */
static void lose_requests(struct asking *s)
{
	sqlite3 *db;
	scoped_free char *path = alloc_printf("%s/rad.db", s->w.state_dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE jobs SET spec = 'not to be read'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

/* The store's rows of them are enough: the request of each may be megabytes, and one submission may wait for thousands. */
static void what_is_waited_for_is_not_read(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{\"array\":[0,1]}"));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1\""));
	lose_requests(s);
	json_decref(submit(s, getuid(), "{\"deps\":[[\"afterany\",\"1_0\"],[\"afterany\",\"1_1\"]]}"));
	json_decref(submit(s, getuid(), "{\"deps\":[[\"aftercorr\",\"1\"]],\"array\":[0,1]}"));
	assert_false(core_task(s->w.core, TASK_ID(2, -1))->waiting_for_deps);
	assert_true(core_waits_in_vain(s->w.core, core_task(s->w.core, TASK_ID(3, 1))));
}

static void a_dry_run_changes_nothing(void **state)
{
	struct asking *s = *state;
	learn_name(s, getuid());
	scoped_free char *what = submission(s, "{}"), *dry = alloc_printf("%s,\"dry_run\":true", what);
	scoped_json *said = good(s, getuid(), "submit", dry);
	assert_true(json_is_true(json_object_get(said, "dry_run")));
	assert_int_equal(s->w.n_events, 0);
	assert_int_equal(store_next_job(s->w.store), 1);
}

/* Changing ------------------------------------------------------------------------------------------------------------- */

static void changes_are_for_the_owner_and_the_administrator(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
	refused(s, STRANGER, "signal", "\"id\":\"1\",\"signal\":10", ERR_DENIED, "belongs to");
	refused(s, getuid(), "signal", "\"id\":\"9\",\"signal\":10", ERR_NOT_FOUND, "9");
	refused(s, getuid(), "signal", "\"id\":\"1\",\"signal\":10", ERR_CONFLICT, "is HELD: signals are for tasks that run");
	refused(s, getuid(), "signal", "\"id\":\"1\",\"signal\":99", ERR_INVALID, "signal");
	refused(s, getuid(), "signal", "\"id\":\"1\"", ERR_INVALID, "'signal'");
	static const char *const ops[] = { "cancel", "hold", "release", "requeue", "update", "capturing", "captured" };
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		refused(s, STRANGER, ops[i], "\"id\":\"1\"", ERR_DENIED, "belongs to");
		refused(s, getuid(), ops[i], "\"id\":\"9\"", ERR_NOT_FOUND, "9");
		refused(s, getuid(), ops[i], "\"id\":\"x\"", ERR_INVALID, "x");
		refused(s, getuid(), ops[i], "\"id\":1", ERR_INVALID, "as text");
	}
	refused(s, getuid(), "captured", "\"id\":\"1\",\"capture\":\"YQ==\"", ERR_CONFLICT, "task 1: waits for no capture");
	refused(s, getuid(), "capturing", "\"id\":\"1\",\"begun\":true", ERR_CONFLICT, "task 1: waits for no capture");
	refused(s, getuid(), "captured", "\"id\":\"1\",\"capture\":[]", ERR_INVALID, "capture");
}

static void hold_release_update_cancel_requeue(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, STRANGER, "{\"hold\":true}"));
	const struct task *t = core_task(s->w.core, TASK_ID(1, -1));
	scoped_json *released = good(s, STRANGER, "release", "\"id\":\"1\"");
	assert_int_equal(t->state, TASK_PENDING);
	assert_int_equal(number_of(released, "changed"), 1);
	json_decref(good(s, getuid(), "hold", "\"id\":\"1\""));
	assert_int_equal(t->state, TASK_HELD);
	refused(s, STRANGER, "hold", "\"id\":\"1\"", ERR_CONFLICT, "");
	json_decref(good(s, STRANGER, "update", "\"id\":\"1\",\"priority\":-3,\"time_limit_s\":60,\"name\":\"new\""));
	assert_int_equal(t->priority, -3);
	refused(s, STRANGER, "update", "\"id\":\"1\",\"priority\":3", ERR_DENIED, "administrator");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"name\":\"x\\n\\u001b[2J\"", ERR_INVALID, "control character");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"name\":\"\"", ERR_INVALID, "'name' is missing");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"max_slowdown\":-1", ERR_INVALID, "max_slowdown");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"max_slowdown\":0.5", ERR_INVALID, "max_slowdown");	/* as at submission */
	refused(s, STRANGER, "update", "\"id\":\"1\",\"time_limit_s\":\"x\"", ERR_INVALID, "time_limit_s");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"time_limit_s\":9,\"time_limit_by_s\":9", ERR_INVALID, "give one of them");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"time_limit_by_s\":-60", ERR_INVALID, "its time limit is 60 s");
	refused(s, STRANGER, "update", "\"id\":\"1\",\"time_limit_by_s\":3162240000", ERR_INVALID, "than a hundred years");
	refused(s, getuid(), "update", "\"id\":\"9\",\"time_limit_by_s\":60", ERR_NOT_FOUND, "9");
	const struct { const char *members; enum error_code code; const char *says; } bad[] = {
		{ "\"gpus\":-1", ERR_INVALID, "'gpus'" }, { "\"gpus\":65", ERR_INVALID, "'gpus'" },
		{ "\"gpus\":\"2\"", ERR_INVALID, "'gpus'" },
		{ "\"retries\":101", ERR_INVALID, "'retries'" }, { "\"host_mem_mib\":-1", ERR_INVALID, "'host_mem_mib'" },
		{ "\"deps\":7", ERR_INVALID, "'deps'" }, { "\"deps\":[7]", ERR_INVALID, "'deps'" },
		{ "\"deps\":[[\"afterok\"]]", ERR_INVALID, "task id" }, { "\"deps\":[[\"before\",\"1\"]]", ERR_INVALID, "no kind" },
		{ "\"deps\":[[\"afterok\",\"0\"]]", ERR_INVALID, "task id" },
		{ "\"deps\":[[\"afterok\",\"9\"]]", ERR_NOT_FOUND, "no such task" },
		{ "\"deps\":[[\"afterok\",\"1\"]]", ERR_INVALID, "cannot wait for itself" },
	};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		scoped_free char *members = alloc_printf("\"id\":\"1\",%s", bad[i].members);
		refused(s, STRANGER, "update", members, bad[i].code, bad[i].says);
	}
	json_decref(good(s, STRANGER, "update", "\"id\":\"1\",\"gpus\":2,\"retries\":1,\"host_mem_mib\":100,\"deps\":[]"));
	assert_true(t->gpus == 2 && t->retries == 1 && t->host_mem_mib == 100);
	refused(s, STRANGER, "cancel", "\"id\":\"1\",\"states\":[\"PENDING\",\"RUNNING\"]", ERR_CONFLICT, "is HELD by now");
	refused(s, STRANGER, "cancel", "\"id\":\"1\",\"states\":[7]", ERR_CONFLICT, "is HELD by now");
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\",\"states\":[\"PENDING\",\"HELD\"]"));
	assert_null(core_task(s->w.core, TASK_ID(1, -1)));
	refused(s, STRANGER, "cancel", "\"id\":\"1\"", ERR_CONFLICT, "has ended already (CANCELLED)");
	refused(s, STRANGER, "requeue", "\"id\":\"7\"", ERR_NOT_FOUND, "");
	json_decref(good(s, STRANGER, "requeue", "\"id\":\"1\""));
	assert_int_equal(core_task(s->w.core, TASK_ID(1, -1))->state, TASK_PENDING);
}

/* Each element is read from the store: as many as one submission makes, a piece a turn. */
static void a_requeue_is_bounded(void **state)
{
	struct asking *s = *state;
	scoped_buf fields = { 0 };
	buf_add_text(&fields, "{\"hold\":true,\"array\":[0");
	for (int i = 1; i < SPEC_MAX_ARRAY / 2 + 1; i++)
		buf_printf(&fields, ",%d", i);
	buf_add_text(&fields, "]}");
	for (int i = 0; i < 2; i++)
		json_decref(submit(s, getuid(), buf_text(&fields)));
	json_decref(good(s, getuid(), "cancel", "\"ids\":[\"1\",\"2\"]"));
	refused(s, getuid(), "requeue", "\"ids\":[\"1\",\"2\"]", ERR_INVALID, "more than 10000 tasks");
	refused(s, STRANGER, "requeue", "\"id\":\"1\"", ERR_DENIED, "task 1_0: belongs to");
	scoped_json *again = good(s, getuid(), "requeue", "\"id\":\"2\"");
	assert_int_equal(number_of(again, "changed"), SPEC_MAX_ARRAY / 2 + 1);
	assert_true(s->pieces > 2);	/* and others had their turns in between */
	refused(s, getuid(), "requeue", "\"id\":\"2\"", ERR_CONFLICT, "");
}

#define MANY 2000

static char *ids_from(int first, int n)
{
	scoped_buf ids = { 0 };
	for (int i = first; i < first + n; i++)
		buf_printf(&ids, "%s\"%d\"", i > first ? "," : "\"ids\":[", i);
	buf_add_text(&ids, "]");
	return alloc_string(buf_text(&ids));
}

/* Of all at once and of some at a time: it was quadratic, since every piece read of each job anew. */
static void a_requeue_of_many_jobs_looks_at_each_once(void **state)
{
	struct asking *s = *state;
	scoped_free char *all = ids_from(1, MANY);
	for (int i = 0; i < MANY; i++)
		json_decref(submit(s, getuid(), "{\"hold\":true}"));
	json_decref(good(s, getuid(), "cancel", all));
	clock_t began = clock();
	scoped_json *again = good(s, getuid(), "requeue", all);
	clock_t whole = clock() - began;
	assert_int_equal(number_of(again, "changed"), MANY);
	assert_true(s->pieces > 2);
	json_decref(good(s, getuid(), "cancel", all));
	began = clock();
	for (int i = 1; i < MANY; i += 50) {
		scoped_free char *some = ids_from(i, 50);
		json_decref(good(s, getuid(), "requeue", some));
	}
	assert_true(whole < 3 * (clock() - began));
}

static void an_array_is_changed_where_it_can_be(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{\"array\":[0,1,2],\"hold\":true}"));
	json_decref(good(s, getuid(), "release", "\"id\":\"1_1\""));
	scoped_json *rest = good(s, getuid(), "release", "\"id\":\"1\"");
	assert_int_equal(number_of(rest, "changed"), 2);
	refused(s, getuid(), "release", "\"id\":\"1\"", ERR_CONFLICT, "");
	scoped_json *all = good(s, getuid(), "cancel", "\"id\":\"1\"");
	assert_int_equal(number_of(all, "changed"), 3);
	refused(s, getuid(), "cancel", "\"id\":\"1\"", ERR_CONFLICT, "all elements");
}

/* Whoever names one that ended, or never was, gets a reason. */
static void an_element_that_does_not_live_is_not_changed(void **state)
{
	struct asking *s = *state;
	static const char *const ops[] = { "cancel", "hold", "release", "update" };
	json_decref(submit(s, getuid(), "{\"array\":[0,1],\"hold\":true}"));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1_0\""));
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		refused(s, STRANGER, ops[i], "\"id\":\"1_0\"", ERR_NOT_FOUND, "1_0");
		refused(s, getuid(), ops[i], "\"id\":\"1_7\",\"name\":\"x\"", ERR_NOT_FOUND, "1_7");
	}
}

/* As many as a request may name, in one piece. */
static void to_say_that_tasks_have_ended_they_are_not_read(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
	json_decref(submit(s, getuid(), "{\"array\":[0,1],\"hold\":true}"));
	json_decref(good(s, getuid(), "cancel", "\"ids\":[\"1\",\"2\"]"));
	lose_requests(s);
	refused(s, getuid(), "hold", "\"id\":\"1\"", ERR_CONFLICT, "task 1: has ended already (CANCELLED)");
	refused(s, getuid(), "hold", "\"id\":\"2\"", ERR_CONFLICT, "task 2: all elements of this array have ended already");
	refused(s, getuid(), "signal", "\"ids\":[\"2_0\",\"2_1\"],\"signal\":10", ERR_CONFLICT,
		"task 2_0: has ended already (CANCELLED)");
	refused(s, getuid(), "signal", "\"id\":\"3_0\",\"signal\":10", ERR_NOT_FOUND, "task 3_0: there is none");
}

/* As long as a piece may take, which is what a task with thousands of processes costs. */
static int signal_slowly(void *ctx, const struct task *t, int signal)
{
	(void)ctx, (void)t;
	assert_int_equal(signal, SIGUSR1);
	for (int64_t until_us = clock_mono_us() + 5000; clock_mono_us() < until_us;)
		;
	return 1;
}

static void tasks_are_signalled_in_pieces(void **state)
{
	struct asking *s = *state;
	s->q.signal = signal_slowly;
	for (int i = 0; i < 2; i++)
		json_decref(submit(s, getuid(), "{\"array\":[0,1]}"));
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
	core_turn(s->w.core, now_read());
	assert_true(world_saw(&s->w, EV_PLACED, TASK_ID(2, 1)));
	scoped_json *told = good(s, getuid(), "signal", "\"ids\":[\"3\",\"2\",\"1\"],\"signal\":10");
	assert_int_equal(number_of(told, "changed"), 4);
	assert_int_equal(s->pieces, 5);
	refused(s, STRANGER, "signal", "\"ids\":[\"1\",\"2\"],\"signal\":10", ERR_DENIED, "belongs to");
	refused(s, getuid(), "signal", "\"id\":\"3\",\"signal\":10", ERR_CONFLICT, "signals are for tasks that run");
}

static void ended_tasks_are_removed_by_their_owner(void **state)
{
	struct asking *s = *state;
	const char *all = "\"before_ms\":1700000000000";
	json_decref(submit(s, STRANGER, "{\"hold\":true}"));
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
	refused(s, STRANGER, "purge", "", ERR_INVALID, "before_ms");
	refused(s, STRANGER, "purge", "\"before_ms\":1,\"uid\":-1", ERR_DENIED, "administrator");
	refused(s, STRANGER, "purge", "\"before_ms\":1,\"uid\":0", ERR_DENIED, "administrator");
	scoped_json *none = good(s, STRANGER, "purge", all);
	assert_int_equal(number_of(none, "tasks"), 0);		/* it ended just now */
	scoped_free char *now = alloc_printf("\"before_ms\":%lld,\"uid\":-1", (long long)clock_wall_ms());
	scoped_free char *count = alloc_printf("%s,\"dry_run\":true", now);
	usleep(2000);
	scoped_json *counted = good(s, getuid(), "purge", count), *gone = good(s, getuid(), "purge", now);
	assert_true(json_is_true(json_object_get(gone, "done")));
	assert_int_equal(number_of(counted, "tasks"), number_of(gone, "tasks"));
}

/* Looking -------------------------------------------------------------------------------------------------------------- */

static void lists_have_the_living_and_shows_the_ended_too(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{\"array\":[0,1],\"hold\":true}"));
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1_0\""));
	scoped_json *list = listed(s, "list", ""), *array = listed(s, "show", "\"id\":\"1\"");
	scoped_json *one = listed(s, "show", "\"id\":\"1_0\"");
	assert_int_equal(json_array_size(json_object_get(list, "tasks")), 2);
	assert_int_equal(json_array_size(json_object_get(array, "tasks")), 2);
	assert_string_equal(text_of(json_array_get(json_object_get(one, "tasks"), 0), "state"), "CANCELLED");
	scoped_json *some = listed(s, "list", "\"members\":[\"state\",\"id\",\"none\"]");
	const json_t *first = json_array_get(json_object_get(some, "tasks"), 0);
	assert_int_equal(json_array_size(json_object_get(some, "tasks")), 2);
	assert_int_equal(json_object_size(first), 2);
	assert_string_equal(text_of(first, "id"), "1_1");
	assert_string_equal(text_of(first, "state"), "HELD");
	/* Those that are cheap to make are the same as those that come with everything. */
	scoped_json *brief = listed(s, "list", "\"members\":[\"id\",\"run_s\",\"estimate\",\"attempts\",\"reason\",\"reason_text\"]");
	const json_t *cheap = json_array_get(json_object_get(brief, "tasks"), 0);
	const json_t *whole = json_array_get(json_object_get(list, "tasks"), 0);
	const char *name;
	json_t *value;
	assert_int_equal(json_object_size(cheap), 6);
	json_object_foreach((json_t *)cheap, name, value)
		assert_true(json_equal(value, json_object_get(whole, name)));
	/* A member of a member comes alone, and not where it is null. */
	scoped_json *deep = listed(s, "list",
				   "\"members\":[\"id\",\"estimate.estimator\",\"estimate.none\",\"attempts.gpus\",\"x.y\"]");
	const json_t *bare = json_array_get(json_object_get(deep, "tasks"), 0);
	assert_int_equal(json_object_size(bare), json_is_object(json_object_get(whole, "estimate")) ? 2 : 1);
	/* What waits for the same in one array is one line, what does not is not. */
	json_decref(submit(s, getuid(), "{\"array\":[0,1,2,3,4,5],\"hold\":true}"));
	json_decref(good(s, getuid(), "update", "\"ids\":[\"3_2\"],\"priority\":7"));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"3_5\""));
	scoped_json *folded = listed(s, "list", "\"fold\":true,\"members\":[\"id\",\"state\",\"priority\"]");
	scoped_buf lines = { 0 };
	size_t i;
	json_t *line;
	json_array_foreach(json_object_get(folded, "tasks"), i, line)
		buf_printf(&lines, "%s %s %lld\n", text_of(line, "id"), json_object_get(line, "elements") ? text_of(line, "elements") : "-",
			   (long long)number_of(line, "count"));
	assert_string_equal(buf_text(&lines), "1_1 - 0\n2 - 0\n3_0 0-1 2\n3_2 - 0\n3_3 3-4 2\n");
	/* So of an array, of which some elements have ended. */
	scoped_json *array_some = listed(s, "show", "\"id\":\"1\",\"members\":[\"id\",\"state\",\"reason\"]");
	const json_t *ended = json_array_get(json_object_get(array_some, "tasks"), 0);
	assert_int_equal(json_array_size(json_object_get(array_some, "tasks")), 2);
	assert_int_equal(json_object_size(ended), 3);
	assert_string_equal(text_of(ended, "state"), "CANCELLED");
	refused(s, getuid(), "show", "\"id\":\"1\",\"members\":1", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "list", "\"members\":\"id\"", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "list", "\"members\":[\"id\",1]", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "show", "\"id\":\"5\"", ERR_NOT_FOUND, "5");
	refused(s, getuid(), "show", "", ERR_INVALID, "'id'");
}

static void picked(const char *members, const char *expected)
{
	scoped_json *names = json_loads(members, 0, NULL), *wanted = json_loads(expected, 0, NULL);
	scoped_json *some = listing_pick(names, json_loads("{\"id\":\"7\",\"none\":null,\"estimate\":{\"claim_mib\":5},\"attempts\":["
		"{\"verdict\":\"oom\",\"peak_mib\":null,\"gpus\":[\"a\"]},{\"verdict\":\"ok\",\"peak_mib\":3,\"gpus\":[\"b\"]}]}", 0, NULL));
	assert_non_null(wanted);
	assert_true(json_equal(some, wanted));
}

static void of_a_task_members_are_told(void **state)
{
	(void)state;
	picked("[\"id\",\"none\",\"absent\"]", "{\"id\":\"7\",\"none\":null}");
	picked("[\"estimate.claim_mib\",\"estimate.none\",\"id.x\",\"absent.x\",\"absent[].x\",\"id[].x\",\"[].x\",\".\"]",
	       "{\"estimate.claim_mib\":5}");
	picked("[\"attempts.verdict\"]", "{\"attempts.verdict\":\"ok\"}");
	picked("[\"attempts[].peak_mib\",\"attempts[].gpus\"]",
	       "{\"attempts\":[{\"gpus\":[\"a\"]},{\"peak_mib\":3,\"gpus\":[\"b\"]}]}");
}

/* Between the question and its piece. */
static void a_task_that_cannot_be_read_is_no_gap_in_a_list(void **state)
{
	struct asking *s = *state;
	struct reply reply;
	struct error err;
	assert_int_equal(ask(s, getuid(), "show", "\"id\":\"5_1\"", &reply, &err), 0);
	assert_int_equal(walk_step(reply.walk, INT64_MAX, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	walk_destroy(reply.walk);
}

static void events_and_why(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, getuid(), "{}"));
	scoped_json *events = good(s, getuid(), "events", "\"id\":\"1\""), *why = good(s, getuid(), "why", "\"id\":\"1\"");
	assert_string_equal(text_of(json_array_get(json_object_get(events, "events"), 0), "event"), "submitted");
	assert_string_equal(text_of(why, "state"), "PENDING");
	assert_int_equal(json_array_size(json_object_get(why, "gpus")), 2);
	refused(s, getuid(), "events", "\"id\":[]", ERR_INVALID, "'id'");
	refused(s, getuid(), "why", "\"id\":\"3\"", ERR_NOT_FOUND, "");
}

static void a_wait_is_over_when_the_last_one_is(void **state)
{
	struct asking *s = *state;
	struct reply reply, until;
	struct error err;
	json_decref(submit(s, getuid(), "{\"array\":[0,1],\"hold\":true}"));
	assert_int_equal(ask(s, getuid(), "wait", "\"ids\":[\"1\",\"1\",\"1_0\"]", &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_WAIT);
	assert_int_equal(ask(s, getuid(), "wait", "\"ids\":[\"1_0\"],\"until\":\"start\"", &until, &err), 0);
	assert_false(awaiting_is_over(reply.awaiting));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1_1\""));
	assert_false(awaiting_is_over(reply.awaiting));
	assert_false(awaiting_is_over(until.awaiting));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1_0\""));
	assert_true(awaiting_is_over(reply.awaiting));
	assert_true(awaiting_is_over(until.awaiting));
	struct reply list = { .walk = awaiting_walk(reply.awaiting) };
	scoped_json *tasks = walked(&list);
	assert_int_equal(json_array_size(json_object_get(tasks, "tasks")), 3);	/* each as it was named */
	awaiting_destroy(reply.awaiting);
	awaiting_destroy(until.awaiting);
	refused(s, getuid(), "wait", "\"ids\":[]", ERR_INVALID, "'ids'");
	refused(s, getuid(), "wait", "\"ids\":[\"x\"]", ERR_INVALID, "");
	refused(s, getuid(), "wait", "\"ids\":[\"44\"]", ERR_NOT_FOUND, "44");
}

static void the_history_is_looked_up_elsewhere(void **state)
{
	struct asking *s = *state;
	static const char *const ops[] = { "acct", "series" };
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		struct reply reply;
		struct error err;
		assert_int_equal(ask(s, getuid(), ops[i], "\"from_ms\":5,\"to_ms\":9,\"uid\":1,\"more\":\"x\",\"totals\":false",
				     &reply, &err), 0);
		assert_int_equal(reply.kind, REPLY_LOOKUP);
		scoped_json *o = json_loads(reply.lookup, 0, NULL);
		assert_string_equal(text_of(o, "op"), ops[i]);
		assert_int_equal(number_of(o, "to_ms"), 9);
		assert_null(json_object_get(o, "more"));
		assert_int_equal(json_is_false(json_object_get(o, "totals")), !i);
		free(reply.lookup);
		refused(s, getuid(), ops[i], "\"from_ms\":\"yesterday\"", ERR_INVALID, "from_ms");
	}
	refused(s, getuid(), "acct", "\"after\":\"the last\"", ERR_INVALID, "after");
	refused(s, getuid(), "acct", "\"months\":[5,5]", ERR_INVALID, "'months' must be a list of moments");
	refused(s, getuid(), "acct", "\"months\":{}", ERR_INVALID, "'months' must be a list of moments");
	refused(s, getuid(), "acct", "\"members\":[1]", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "acct", "\"members\":[\"" "01234567890123456789012345678901234567890123456789012345678901234" "\"]",
		ERR_INVALID, "64 bytes");
}

/* GPUs and the daemon -------------------------------------------------------------------------------------------------- */

static void gpus_are_drained_by_the_administrator(void **state)
{
	struct asking *s = *state;
	scoped_json *done = good(s, getuid(), "drain", "\"gpu\":\"1\""), *gpus = good(s, STRANGER, "gpus", "");
	assert_string_equal(text_of(done, "uuid"), "GPU-1");
	assert_int_equal(json_array_size(json_object_get(gpus, "gpus")), 2);
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(gpus, "gpus"), 1), "drained")));
	scoped_free char *kept = store_get_meta(s->w.store, "drained:GPU-1");
	assert_non_null(kept);
	scoped_json *back = good(s, getuid(), "undrain", "\"gpu\":\"GPU-1\"");
	scoped_json *twice = good(s, getuid(), "undrain", "\"gpu\":\"GPU-1\"");
	assert_null(store_get_meta(s->w.store, "drained:GPU-1"));
	assert_true(json_is_true(json_object_get(back, "changed")) && json_is_false(json_object_get(twice, "changed")));
	/* Why, and until when. */
	json_decref(good(s, getuid(), "drain", "\"gpu\":\"1\",\"reason\":\"fan\\nnoise\",\"until_ms\":4000000000000"));
	scoped_json *again = good(s, STRANGER, "gpus", "");
	const json_t *drain = json_object_get(json_array_get(json_object_get(again, "gpus"), 1), "drain");
	assert_string_equal(text_of(drain, "reason"), "fan?noise");
	assert_string_equal(text_of(drain, "until_time"), "2096-10-02T07:06:40.000Z");
	assert_true(json_is_null(json_object_get(json_array_get(json_object_get(again, "gpus"), 0), "drain")));
	json_decref(good(s, getuid(), "undrain", "\"gpu\":\"1\""));
	refused(s, getuid(), "drain", "\"gpu\":\"1\",\"until_ms\":1000", ERR_INVALID, "past");
	refused(s, getuid(), "drain", "\"gpu\":\"1\",\"until_ms\":\"soon\"", ERR_INVALID, "until_ms");
	refused(s, STRANGER, "drain", "\"gpu\":\"1\"", ERR_DENIED, "administrator");
	refused(s, STRANGER, "undrain", "\"gpu\":\"1\"", ERR_DENIED, "administrator");
	refused(s, getuid(), "drain", "\"gpu\":\"7\"", ERR_NOT_FOUND, "7");
	refused(s, getuid(), "drain", "", ERR_INVALID, "'gpu'");
}

#define RESERVE(gpus, from, to) "\"gpus\":" gpus ",\"uid\":4242,\"begin_ms\":" from ",\"end_ms\":" to

static void gpus_are_reserved_by_the_administrator(void **state)
{
	struct asking *s = *state;
	int64_t now = clock_wall_ms();
	scoped_free char *span = alloc_printf("\"uid\":4242,\"begin_ms\":%lld,\"end_ms\":%lld", (long long)now + 3600000,
					      (long long)now + 7200000);
	scoped_free char *two = alloc_printf("\"gpus\":2,\"reason\":\"de\\u0007mo\",%s", span);
	scoped_free char *one = alloc_printf("\"gpus\":[\"1\"],%s", span);
	scoped_json *made = good(s, getuid(), "reserve", two);
	assert_int_equal(number_of(made, "id"), 1);
	assert_int_equal(json_array_size(json_object_get(made, "gpus")), 2);
	refused(s, getuid(), "reserve", one, ERR_CONFLICT, "reservation 1");
	refused(s, getuid(), "reserve", two, ERR_CONFLICT, "0 of 2");
	/* Whose they are is asked first. */
	struct reply reply;
	struct error err;
	assert_int_equal(ask(s, NOBODY, "reservations", "", &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);
	while (!reserving_are_named(s->q.reserving, s->q.names))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	scoped_json *listed = good(s, NOBODY, "reservations", ""), *gpus = good(s, NOBODY, "gpus", "");
	const json_t *first = json_array_get(json_object_get(listed, "reservations"), 0);
	assert_string_equal(text_of(first, "reason"), "de?mo");
	assert_true(json_is_false(json_object_get(first, "active")));
	assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(gpus, "gpus"), 0), "reservations")), 1);
	/* Another life of the daemon has it too. */
	struct reserving *again = reserving_create(&s->w.loop, s->w.core, s->w.store);
	assert_int_equal(reserving_restore(again, NULL), 0);
	uid_t user = 0;
	assert_true(reserving_user(again, 1, &user) && user == STRANGER);
	reserving_destroy(again);
	refused(s, NOBODY, "unreserve", "\"id\":1", ERR_DENIED, "administrator");
	json_decref(good(s, STRANGER, "unreserve", "\"id\":1"));
	refused(s, getuid(), "unreserve", "\"id\":1", ERR_NOT_FOUND, "reservation 1");
	scoped_json *next = good(s, getuid(), "reserve", one);
	assert_int_equal(number_of(next, "id"), 2);	/* no id comes twice */
	json_decref(good(s, getuid(), "unreserve", "\"id\":2"));
	refused(s, STRANGER, "reserve", two, ERR_DENIED, "administrator");
	refused(s, getuid(), "reserve", RESERVE("2", "1000", "2000"), ERR_INVALID, "past");
	refused(s, getuid(), "reserve", RESERVE("2", "4000000000000", "4000000001000"), ERR_INVALID, "within a year");
	refused(s, getuid(), "reserve", RESERVE("2", "4000000000000", "4000000000000"), ERR_INVALID, "before it begins");
	refused(s, getuid(), "reserve", RESERVE("0", "1", "2"), ERR_INVALID, "gpus");
	refused(s, getuid(), "reserve", RESERVE("[]", "1", "2"), ERR_INVALID, "gpus");
	refused(s, getuid(), "reserve", RESERVE("[0]", "1", "2"), ERR_INVALID, "as text");
	refused(s, getuid(), "reserve", RESERVE("[\"0\",\"GPU-0\"]", "1", "2"), ERR_INVALID, "twice");
	refused(s, getuid(), "reserve", RESERVE("[\"9\"]", "1", "2"), ERR_NOT_FOUND, "9");
	refused(s, getuid(), "reserve", "\"gpus\":1,\"begin_ms\":1", ERR_INVALID, "uid");
	refused(s, getuid(), "unreserve", "", ERR_INVALID, "'id'");
}

static void status_says_what_radd_is(void **state)
{
	struct asking *s = *state;
	s->mps = true;
	scoped_json *status = good(s, STRANGER, "status", "");
	assert_string_equal(text_of(status, "version"), RAD_VERSION);
	assert_string_equal(text_of(status, "state_dir"), s->w.state_dir);
	assert_int_equal(number_of(status, "gpus"), 2);
	assert_true(json_is_true(json_object_get(status, "mps_available")));
	assert_string_equal(text_of(status, "mps_users"), "together");
	assert_true(json_is_null(json_object_get(status, "snapshot_age_s")));
}

static void what_is_no_operation(void **state)
{
	struct asking *s = *state;
	refused(s, getuid(), "dance", "", ERR_INVALID, "knows no operation 'dance'");
	scoped_json *json = json_loads("{\"v\":999,\"op\":\"status\"}", 0, NULL);
	const struct message m = { .json = json, .uid = getuid() };
	struct error err = ERROR_INIT;
	struct reply reply;
	assert_int_equal(requests_run(&s->q, &m, &reply, &err), -1);
}

int main(int argc, char **argv)
{
	ASKING_MAIN(argc, argv);
	const struct CMUnitTest tests[] = {
		T(a_submission_is_kept_and_told), T(who_submits_is_asked_of_the_database), T(submissions_that_cannot_be),
		T(what_is_waited_for_is_not_read), T(a_dry_run_changes_nothing), T(changes_are_for_the_owner_and_the_administrator),
		T(hold_release_update_cancel_requeue), T(a_requeue_is_bounded), T(a_requeue_of_many_jobs_looks_at_each_once),
		T(an_array_is_changed_where_it_can_be), T(an_element_that_does_not_live_is_not_changed),
		T(to_say_that_tasks_have_ended_they_are_not_read), T(tasks_are_signalled_in_pieces),
		T(ended_tasks_are_removed_by_their_owner), T(lists_have_the_living_and_shows_the_ended_too), T(of_a_task_members_are_told),
		T(a_task_that_cannot_be_read_is_no_gap_in_a_list), T(events_and_why), T(a_wait_is_over_when_the_last_one_is),
		T(the_history_is_looked_up_elsewhere), T(gpus_are_drained_by_the_administrator),
		T(gpus_are_reserved_by_the_administrator), T(status_says_what_radd_is), T(what_is_no_operation),
	};
	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
