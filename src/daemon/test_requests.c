/* SPDX-License-Identifier: MIT
 * Every operation by itself: what it answers, what it changes, and whom it refuses. The core sees two made-up GPUs; nothing is
 * sent and nothing runs.
 */
#include "daemon/now.h"
#include "daemon/remembering.h"
#include "daemon/requests.h"

#include "daemon/test_world.h"
#include "base/clock.h"
#include "submit/wire.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>

#define STRANGER 4242	/* has an account; may not act for others */
#define NOBODY 4243	/* has none */

struct asking {
	struct world w;
	struct names *names;
	struct drains *drains;
	struct reserving *reserving;
	struct usages *stored;
	struct recording *recording;
	struct counting counting;
	struct requests q;
	struct capturing *capturing;
	struct names *groups;
	struct allowing *allowing;
	bool mps;
	pid_t child;			/* that does nothing */
	task_id departed;		/* of which that was told last, and how */
	struct exit_report report;
	unsigned named, pieces;		/* pieces: in which the last request was done */
};

/* The test is its own user database. */
static int name(void)
{
	unsigned uid;
	if (scanf("%u", &uid) != 1)
		return 2;
	if (uid != NOBODY)
		printf("user%u\n", uid);
	return 0;
}

/* Odd ones are students. */
static int groups(void)
{
	unsigned uid;
	if (scanf("%u", &uid) != 1)
		return 2;
	puts(uid % 2 ? "students:all:" : "all:");
	return 0;
}

static enum core_mps has_mps(void *ctx, const char **why)
{
	*why = "its control daemon knows it";
	return ((struct asking *)ctx)->mps ? CORE_MPS_TOGETHER : CORE_MPS_NONE;
}

static void no_troubles(void *ctx, json_t *list)
{
	(void)ctx, (void)list;
}

static bool departed(void *ctx, task_id id, const struct exit_report *report)
{
	struct asking *s = ctx;
	bool again = s->departed == id;
	s->departed = id;
	s->report = *report;
	return !again;
}

static void on_named(void *ctx)
{
	((struct asking *)ctx)->named++;
}

static int setup(void **state)
{
	struct asking *s = alloc_zero(sizeof *s);
	world_open(&s->w);
	if (!(s->child = fork()))
		for (;;)
			pause();
	s->w.config.user_tasks = 3;
	s->names = names_create(&s->w.loop, "/proc/self/exe", "--name", WORLD_PATIENCE_MS, on_named, s);
	s->groups = names_create(&s->w.loop, "/proc/self/exe", "--groups", WORLD_PATIENCE_MS, on_named, s);
	s->allowing = allowing_create(s->w.store, s->names, s->groups, &s->w.config);
	s->drains = drains_create(&s->w.loop, s->w.core, s->w.store);
	s->reserving = reserving_create(&s->w.loop, s->w.core, s->w.store);
	s->stored = usages_create_even(STORED_BURST_US);
	s->recording = recording_create(s->w.store, &s->w.config);
	s->capturing = capturing_create(&s->w.loop, NULL, NULL, NULL);	/* nobody waits there */
	s->q = (struct requests){ .core = s->w.core, .store = s->w.store, .names = s->names, .allowing = s->allowing,
				  .drains = s->drains, .reserving = s->reserving,
				  .stored = s->stored, .counting = &s->counting, .recording = s->recording,
				  .capturing = s->capturing,
				  .config = &s->w.config, .state_dir = s->w.state_dir, .socket_path = "/run/sock",
				  .started_ms = 1000, .has_mps = has_mps, .troubles = no_troubles,
				  .departed = departed, .ctx = s };
	world_snapshot(&s->w);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct asking *s = *state;
	kill(s->child, SIGKILL);
	waitpid(s->child, NULL, 0);
	names_destroy(s->names);
	names_destroy(s->groups);
	allowing_destroy(s->allowing);
	drains_destroy(s->drains);
	reserving_destroy(s->reserving);
	usages_destroy(s->stored);
	capturing_destroy(s->capturing);
	recording_destroy(s->recording);
	world_close(&s->w);
	free(s);
	return 0;
}

/* Asking --------------------------------------------------------------------------------------------------------------- */

/* Long changes are asked for again until they are done, as the server does. */
static int ask(struct asking *s, uid_t uid, const char *op, const char *fields, struct reply *reply, struct error *err)
{
	scoped_free char *text = alloc_printf("{\"v\":%d,\"op\":\"%s\"%s%s}", WIRE_VERSION, op, *fields ? "," : "", fields);
	scoped_json *json = json_loads(text, 0, NULL);
	if (!json)
		fail_msg("the test's own request is not JSON: %s", text);
	struct message m = { .json = json, .bytes = strlen(text), .uid = uid, .gid = uid, .pid = getpid() };
	*err = ERROR_INIT;
	int rc = requests_run(&s->q, &m, reply, err);
	for (s->pieces = 1; !rc && reply->kind == REPLY_MORE; s->pieces++) {
		scoped_json *so_far = reply->json;
		world_commit(&s->w);
		m.so_far = so_far;
		rc = requests_run(&s->q, &m, reply, err);
	}
	return rc;
}

/* The answer, which comes at once. */
static json_t *good(struct asking *s, uid_t uid, const char *op, const char *fields)
{
	struct reply reply;
	struct error err;
	if (ask(s, uid, op, fields, &reply, &err))
		fail_msg("%s %s: %s", op, fields, err.text);
	assert_int_equal(reply.kind, REPLY_NOW);
	world_commit(&s->w);
	return reply.json;
}

static void refused(struct asking *s, uid_t uid, const char *op, const char *fields, enum error_code code, const char *words)
{
	struct reply reply;
	struct error err;
	size_t before = s->w.n_events;
	if (!ask(s, uid, op, fields, &reply, &err))
		fail_msg("%s %s was not refused", op, fields);
	if (err.code != code || !strstr(err.text, words))
		fail_msg("%s %s: %s: %s; expected %s: %s", op, fields, error_code_name(err.code), err.text, error_code_name(code), words);
	assert_int_equal(s->w.n_events, before);	/* and nothing was changed */
}

/* A list that is walked to its end. */
static json_t *walked(struct reply *reply)
{
	struct error err = ERROR_INIT;
	int rc;
	while (!(rc = walk_step(reply->walk, INT64_MAX, &err)))
		;
	if (rc < 0)
		fail_msg("%s", err.text);
	scoped_buf text = walk_finish(reply->walk);
	walk_destroy(reply->walk);
	return json_loads(buf_text(&text), 0, NULL);
}

static json_t *listed(struct asking *s, const char *op, const char *fields)
{
	struct reply reply;
	struct error err;
	if (ask(s, getuid(), op, fields, &reply, &err))
		fail_msg("%s %s: %s", op, fields, err.text);
	assert_int_equal(reply.kind, REPLY_WALK);
	return walked(&reply);
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* A submission of `true` with those more fields of the spec, as rad sends it. */
static char *submission(struct asking *s, const char *fields)
{
	struct spec *spec = world_spec(&s->w, NULL);
	scoped_json *whole = spec_to_json(spec), *more = json_loads(fields, 0, NULL);
	spec_unref(spec);
	assert_non_null(more);
	json_object_update(whole, more);
	scoped_free char *text = json_dumps(whole, JSON_COMPACT);
	return alloc_printf("\"spec\":%s,\"environ\":[\"PATH=/bin\"]", text);
}

static void learn_name(struct asking *s, uid_t uid)
{
	const char *said;
	while (names_of(s->names, uid, &said) == NAME_ASKED)
		uv_run(&s->w.loop, UV_RUN_ONCE);
}

static json_t *submit(struct asking *s, uid_t uid, const char *fields)
{
	scoped_free char *what = submission(s, fields);
	learn_name(s, uid);
	return good(s, uid, "submit", what);
}

static void submit_refused(struct asking *s, uid_t uid, const char *fields, enum error_code code, const char *words)
{
	scoped_free char *what = submission(s, fields);
	learn_name(s, uid);
	refused(s, uid, "submit", what, code, words);
}

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

/* The store's rows of them are enough: the request of each may be megabytes, and one submission may wait for thousands. */
static void what_is_waited_for_is_not_read(void **state)
{
	struct asking *s = *state;
	sqlite3 *db;
	scoped_free char *path = alloc_printf("%s/rad.db", s->w.state_dir);
	json_decref(submit(s, getuid(), "{\"array\":[0,1]}"));
	json_decref(good(s, getuid(), "cancel", "\"id\":\"1\""));
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE jobs SET spec = 'not to be read'", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
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
	static const char *const ops[] = { "cancel", "hold", "release", "requeue", "update", "captured" };
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		refused(s, STRANGER, ops[i], "\"id\":\"1\"", ERR_DENIED, "belongs to");
		refused(s, getuid(), ops[i], "\"id\":\"9\"", ERR_NOT_FOUND, "9");
		refused(s, getuid(), ops[i], "\"id\":\"x\"", ERR_INVALID, "x");
		refused(s, getuid(), ops[i], "\"id\":1", ERR_INVALID, "as text");
	}
	refused(s, getuid(), "captured", "\"id\":\"1\",\"capture\":\"YQ==\"", ERR_CONFLICT, "task 1: waits for no capture");
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
	refused(s, STRANGER, "update", "\"id\":\"1\",\"time_limit_s\":\"x\"", ERR_INVALID, "time_limit_s");
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
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
	refused(s, getuid(), "list", "\"members\":\"id\"", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "list", "\"members\":[\"id\",1]", ERR_INVALID, "'members' must be a list");
	refused(s, getuid(), "show", "\"id\":\"5\"", ERR_NOT_FOUND, "5");
	refused(s, getuid(), "show", "", ERR_INVALID, "'id'");
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
		assert_int_equal(ask(s, getuid(), ops[i], "\"from_ms\":5,\"to_ms\":9,\"uid\":1,\"more\":\"x\"", &reply, &err), 0);
		assert_int_equal(reply.kind, REPLY_LOOKUP);
		scoped_json *o = json_loads(reply.lookup, 0, NULL);
		assert_string_equal(text_of(o, "op"), ops[i]);
		assert_string_equal(text_of(o, "state"), s->w.state_dir);
		assert_int_equal(number_of(o, "to_ms"), 9);
		assert_null(json_object_get(o, "more"));
		free(reply.lookup);
		refused(s, getuid(), ops[i], "\"from_ms\":\"yesterday\"", ERR_INVALID, "from_ms");
	}
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
	json_decref(good(s, getuid(), "undrain", "\"gpu\":\"GPU-1\""));
	assert_null(store_get_meta(s->w.store, "drained:GPU-1"));
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

/* Bounds --------------------------------------------------------------------------------------------------------------- */

/* Each change is an event that is kept for ever and read again. */
static void a_task_is_changed_so_often_and_not_more(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, STRANGER, "{\"hold\":true}"));
	for (int i = 0; i < 1000; i++) {
		scoped_free char *fields = alloc_printf("\"id\":\"1\",\"name\":\"name %d\"", i);
		json_decref(good(s, STRANGER, "update", fields));
	}
	refused(s, STRANGER, "update", "\"id\":\"1\",\"name\":\"x\"", ERR_UNAVAILABLE, "was changed 1000 times");
	json_decref(good(s, STRANGER, "release", "\"id\":\"1\""));
	refused(s, STRANGER, "hold", "\"id\":\"1\"", ERR_UNAVAILABLE, "was changed 1001 times");
	struct reply reply;
	struct error err;
	assert_int_equal(ask(s, STRANGER, "events", "\"id\":\"1\"", &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_LOOKUP);	/* too long for the loop */
	free(reply.lookup);
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
}

static void a_change_that_changes_nothing_is_no_event(void **state)
{
	struct asking *s = *state;
	json_decref(submit(s, STRANGER, "{\"hold\":true,\"priority\":-3}"));
	size_t before = s->w.n_events;
	for (int i = 0; i < 10; i++)
		json_decref(good(s, STRANGER, "update", "\"id\":\"1\",\"priority\":-3,\"name\":\"task\""));
	assert_int_equal(s->w.n_events, before);
}

static void the_size_of_what_is_unfinished_is_bounded(void **state)
{
	struct asking *s = *state;
	char script[400001];
	memset(script, '#', sizeof script - 1);
	script[sizeof script - 1] = 0;
	scoped_free char *large = alloc_printf("{\"hold\":true,\"script\":\"%s\"}", script);
	s->w.config.user_size_mib = 1;
	json_decref(submit(s, STRANGER, large));
	json_decref(submit(s, STRANGER, large));
	submit_refused(s, STRANGER, large, ERR_UNAVAILABLE, "user_size");
	json_decref(submit(s, getuid(), large));		/* not the administrator's */
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));
	json_decref(submit(s, STRANGER, large));
}

static void what_a_user_adds_to_the_store_in_a_day_is_bounded(void **state)
{
	struct asking *s = *state;
	int done = 0;
	struct reply reply;
	struct error err;
	s->w.config.user_store_mib = 1;
	s->w.config.user_tasks = 0;
	learn_name(s, STRANGER);
	scoped_free char *what = submission(s, "{\"hold\":true}");
	while (done < 1000 && !ask(s, STRANGER, "submit", what, &reply, &err)) {
		json_decref(reply.json);
		done++;
	}
	assert_in_range(done, 100, 500);
	assert_non_null(strstr(err.text, "user_store"));
	refused(s, STRANGER, "hold", "\"id\":\"1\"", ERR_UNAVAILABLE, "user_store");
	json_decref(good(s, STRANGER, "cancel", "\"id\":\"1\""));	/* frees something */
	json_decref(submit(s, getuid(), "{\"hold\":true}"));
}

/* The turn is lost then, and the daemon ends (doc/decisions/0003). */
static void a_store_that_fails_refuses(void **state)
{
	struct asking *s = *state;
	struct error err;
	struct reply reply;
	world_doom(&s->w);
	scoped_free char *what = submission(s, "{}");
	learn_name(s, getuid());
	assert_int_equal(ask(s, getuid(), "submit", what, &reply, &err), -1);
	assert_int_equal(ask(s, getuid(), "drain", "\"gpu\":\"0\"", &reply, &err), -1);
	assert_int_equal(s->w.n_events, 0);
	assert_int_equal(store_commit(s->w.store, &err), -1);
}

static void limits_are_said_and_kept_to(void **state)
{
	struct asking *s = *state;
	const uid_t odd = 70001, even = 70002;
	struct error err;
	struct reply reply;
	s->w.config.user_tasks = 0;
	if (geteuid() == odd || geteuid() == even)
		skip();
	const struct settings_source from = { 0 };
	assert_int_equal(settings_set_named(&s->w.config, "group:students", "max_queued=1 max_gpus=1", from, &err), 0);
	allowing_forget(s->allowing);
	/* Who he is, and in which groups, is asked first. */
	scoped_free char *one = submission(s, "{}"), *wide = submission(s, "{\"gpus\":2}");
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);
	while (!allowing_is_known(s->allowing, odd) || !allowing_is_known(s->allowing, even))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	assert_int_equal(ask(s, odd, "submit", wide, &reply, &err), -1);
	assert_non_null(strstr(err.text, "asks for 2 GPUs, and you may have 1 at a time (max_gpus: group:students"));
	json_decref(good(s, odd, "submit", one));
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), -1);
	assert_non_null(strstr(err.text, "1 more task: you have 1 unfinished ones, and may have 1 (max_queued: group:students"));
	/* It is no limit of others, and none of the administrator's. */
	json_decref(good(s, even, "submit", one));
	json_decref(good(s, even, "submit", one));
	/* His own word cannot raise it, the administrator's can. */
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=100\""));
	assert_int_equal(allowing_of(s->allowing, odd).most[ALLOWANCE_QUEUED], 1);
	scoped_free char *of_odd = alloc_printf("\"limits\":\"max_queued=3\",\"uid\":%u", (unsigned)odd);
	assert_int_equal(ask(s, even, "limit", of_odd, &reply, &err), -1);
	assert_non_null(strstr(err.text, "administrator"));
	json_decref(good(s, geteuid(), "limit", of_odd));
	json_decref(good(s, odd, "submit", one));
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=2\""));
	assert_int_equal(ask(s, odd, "submit", one, &reply, &err), -1);
	assert_non_null(strstr(err.text, "may have 2 (max_queued: the user's own, by rad limit)"));
	assert_int_equal(ask(s, odd, "limit", "\"limits\":\"max_quued=2\"", &reply, &err), -1);
	assert_int_equal(ask(s, odd, "limit", "\"limits\":7", &reply, &err), -1);
	/* A restart reads them again. */
	struct allowing *again = allowing_create(s->w.store, s->names, s->groups, &s->w.config);
	assert_int_equal(allowing_restore(again, &err), 0);
	assert_int_equal(allowing_of(again, odd).most[ALLOWANCE_QUEUED], 2);
	allowing_destroy(again);
	json_decref(good(s, odd, "limit", "\"limits\":\"max_queued=default\""));
	assert_int_equal(allowing_of(s->allowing, odd).most[ALLOWANCE_QUEUED], 3);
	json_t *users = good(s, odd, "users", "");
	scoped_free char *text = json_dumps(users, 0);
	json_decref(users);
	assert_non_null(strstr(text, "\"user\": \"user70001\""));
	assert_non_null(strstr(text, "\"max_queued\": 3"));
	assert_non_null(strstr(text, "an administrator's, by rad limit"));
}

/* The child stands for slurmstepd. */
static char *announcement(const struct asking *s, const char *job, uid_t uid, const char *spec, const char *more)
{
	uint64_t ticks = 0;
	proc_stat(s->child, &ticks, NULL);
	return alloc_printf("\"job\":\"%s\",\"uid\":%u,\"gid\":%u,\"spec\":{\"name\":\"train\","
			    "\"argv\":[\"slurm job 7\"],\"cwd\":\"/\",\"output\":\"/dev/null\",\"process_pid\":%d,"
			    "\"process_ticks\":%llu%s}%s", job, (unsigned)uid, (unsigned)uid, (int)s->child,
			    (unsigned long long)ticks, spec, more);
}

static void jobs_of_others_are_announced_by_the_administrator(void **state)
{
	struct asking *s = *state;
	const uid_t user = geteuid() == 70001 ? 70003 : 70001;
	struct reply reply;
	struct error err;
	scoped_free char *at = announcement(s, "slurm:7", user, ",\"gpu_mem_mib\":2000", ",\"at\":[\"1\"]");
	scoped_free char *twice = announcement(s, "slurm:8", user, "", ",\"at\":[\"1\",\"GPU-1\"]");
	scoped_free char *nowhere = announcement(s, "slurm:8", user, "", ",\"at\":[\"7\"]");
	scoped_free char *empty = announcement(s, "slurm:8", user, "", ",\"at\":[]");
	scoped_free char *nobody = announcement(s, "slurm:8", NOBODY, "", ",\"at\":[\"1\"]");
	scoped_free char *nameless = announcement(s, "", user, "", ",\"at\":[\"1\"]");
	if (geteuid() == STRANGER)
		skip();
	refused(s, STRANGER, "announce", at, ERR_DENIED, "announcing jobs is for the administrator");
	refused(s, geteuid(), "announce", nameless, ERR_INVALID, "'job' must be a text");
	refused(s, geteuid(), "announce", empty, ERR_INVALID, "'at' must be a list");
	assert_int_equal(ask(s, geteuid(), "announce", at, &reply, &err), 0);
	assert_int_equal(reply.kind, REPLY_AGAIN);	/* who that is */
	assert_int_equal(ask(s, geteuid(), "announce", nobody, &reply, &err), 0);
	while (!allowing_is_known(s->allowing, user) || !allowing_is_known(s->allowing, NOBODY))
		uv_run(&s->w.loop, UV_RUN_ONCE);
	refused(s, geteuid(), "announce", nobody, ERR_DENIED, "has no account");
	refused(s, geteuid(), "announce", twice, ERR_INVALID, "twice");
	refused(s, geteuid(), "announce", nowhere, ERR_NOT_FOUND, "7");
	scoped_json *accepted = good(s, geteuid(), "announce", at);
	const struct task *t = core_task(s->w.core, TASK_ID(number_of(accepted, "tasks") ? 1 : 0, -1));
	assert_non_null(t);
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(t->spec->uid, user);
	assert_string_equal(t->spec->user, "user70001");
	assert_string_equal(t->spec->announced, "slurm:7");
	assert_string_equal(task_attempt(t)->gpus[0], "GPU-1");
	assert_int_equal(task_attempt(t)->claim_mib, 2000);
	/* A second step of the job, and an answer that was lost. */
	scoped_json *again = good(s, geteuid(), "announce", at);
	assert_string_equal(text_of(again, "id"), text_of(accepted, "id"));
	assert_true(json_is_true(json_object_get(again, "joined")));
	/* Another user's of that name is another; but its process is taken. */
	scoped_free char *other = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"1\"]");
	learn_name(s, geteuid());
	refused(s, geteuid(), "announce", other, ERR_CONFLICT, "belongs to task 1");
	core_check(s->w.core, &err);
}

static void an_announced_job_without_gpus_waits_for_a_place(void **state)
{
	struct asking *s = *state;
	scoped_free char *small = announcement(s, "slurm:9", geteuid(), ",\"gpu_mem_mib\":2000", "");
	scoped_free char *huge = announcement(s, "slurm:10", geteuid(), ",\"gpu_mem_mib\":200000", "");
	learn_name(s, geteuid());
	refused(s, geteuid(), "announce", huge, ERR_INVALID, "");
	json_decref(good(s, geteuid(), "announce", small));
	const struct task *t = core_task(s->w.core, TASK_ID(1, -1));
	assert_true(t->spec->lease);
	assert_int_equal(t->state, TASK_PENDING);
	core_turn(s->w.core, now_read());
	assert_int_equal(t->state, TASK_RUNNING);
	assert_int_equal(task_attempt(t)->n_gpus, 1);
}

/* Nobody makes radd believe that of himself. */
static void a_submission_announces_nothing(void **state)
{
	struct asking *s = *state;
	scoped_free char *text = submission(s, "{\"announced\":\"slurm:1\"}");
	learn_name(s, geteuid());
	json_decref(good(s, geteuid(), "submit", text));
	assert_null(core_task(s->w.core, TASK_ID(1, -1))->spec->announced);
}

static void an_announced_job_ends_as_it_is_told(void **state)
{
	struct asking *s = *state;
	const char *told = "\"id\":\"1\",\"record\":{\"v\":1,\"began\":true,\"exit_code\":3,"
			   "\"signal\":0,\"kind\":1,\"line\":\"out of memory\"}";
	scoped_free char *at = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"0\"]");
	if (geteuid() == STRANGER)
		skip();
	learn_name(s, geteuid());
	refused(s, geteuid(), "depart", told, ERR_CONFLICT, "no announced job");
	json_decref(good(s, geteuid(), "announce", at));
	refused(s, STRANGER, "depart", told, ERR_DENIED, "administrator");
	refused(s, geteuid(), "depart", "\"id\":\"1\"", ERR_INVALID, "exit record");
	refused(s, geteuid(), "depart", "\"id\":\"1\",\"record\":{\"exit_code\":700}", ERR_INVALID, "exit record");
	json_decref(good(s, geteuid(), "depart", told));
	assert_int_equal(s->departed, TASK_ID(1, -1));
	assert_true(s->report.have_record && !s->report.never_began);
	assert_int_equal(s->report.exit_code, 3);
	assert_int_equal(s->report.output.kind, SCAN_GPU_OOM);
	assert_string_equal(s->report.output.line, "out of memory");
	refused(s, geteuid(), "depart", told, ERR_CONFLICT, "known already");
	assert_int_equal(core_task(s->w.core, TASK_ID(1, -1))->stopping, STOP_NONE);
}

static void an_announced_job_that_was_ended_is_cancelled(void **state)
{
	struct asking *s = *state;
	scoped_free char *at = announcement(s, "slurm:7", geteuid(), "", ",\"at\":[\"0\"]");
	learn_name(s, geteuid());
	json_decref(good(s, geteuid(), "announce", at));
	json_decref(good(s, geteuid(), "depart", "\"id\":\"1\",\"record\":{\"v\":1,\"began\":true,\"signal\":15}"));
	assert_int_equal(core_task(s->w.core, TASK_ID(1, -1))->stopping, STOP_CANCEL);
	assert_int_equal(s->report.signal, SIGTERM);
}

static double used_of(struct core *c, uid_t uid)
{
	struct core_user *users;
	size_t n = core_users(c, &users);
	double used_s = -1;
	for (size_t i = 0; i < n; i++)
		if (users[i].standing.uid == uid)
			used_s = users[i].standing.used_s;
	free(users);
	return used_s;
}

static void gpu_time_is_remembered(void **state)
{
	struct asking *s = *state;
	struct error err;
	struct now now = now_read();
	core_remember_used(s->w.core, 70001, 5000, now.wall_ms, now);
	struct remembering *r = remembering_create(s->w.store, s->w.core);
	remembering_note(r, now, true);
	remembering_destroy(r);
	remembering_destroy(NULL);
	core_remember_used(s->w.core, 70001, 0, now.wall_ms, now);
	store_set_meta(s->w.store, "used:70003", "nonsense", NULL);
	r = remembering_create(s->w.store, s->w.core);
	assert_int_equal(remembering_restore(r, now, &err), 0);
	assert_true(used_of(s->w.core, 70001) > 4999 && used_of(s->w.core, 70001) <= 5000);
	assert_true(used_of(s->w.core, 70003) < 0);
	remembering_note(r, now, false);	/* not a minute yet */
	now.wall_ms += 7 * INT64_C(86400000);	/* radd was away for a week */
	assert_int_equal(remembering_restore(r, now, &err), 0);
	core_turn(s->w.core, now);
	assert_true(used_of(s->w.core, 70001) > 2499 && used_of(s->w.core, 70001) <= 2501);
	remembering_destroy(r);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--name"))
		return name();
	if (argc == 2 && !strcmp(argv[1], "--groups"))
		return groups();
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_submission_is_kept_and_told), T(who_submits_is_asked_of_the_database), T(submissions_that_cannot_be),
		T(what_is_waited_for_is_not_read),
		T(a_dry_run_changes_nothing), T(changes_are_for_the_owner_and_the_administrator), T(hold_release_update_cancel_requeue),
		T(a_requeue_is_bounded), T(a_requeue_of_many_jobs_looks_at_each_once),
		T(an_array_is_changed_where_it_can_be), T(an_element_that_does_not_live_is_not_changed),
		T(ended_tasks_are_removed_by_their_owner),
		T(lists_have_the_living_and_shows_the_ended_too),
		T(a_task_that_cannot_be_read_is_no_gap_in_a_list), T(events_and_why), T(a_wait_is_over_when_the_last_one_is),
		T(the_history_is_looked_up_elsewhere), T(gpus_are_drained_by_the_administrator), T(gpus_are_reserved_by_the_administrator),
		T(status_says_what_radd_is),
		T(what_is_no_operation), T(a_task_is_changed_so_often_and_not_more),
		T(a_change_that_changes_nothing_is_no_event),
		T(the_size_of_what_is_unfinished_is_bounded),
		T(what_a_user_adds_to_the_store_in_a_day_is_bounded), T(a_store_that_fails_refuses),
		T(jobs_of_others_are_announced_by_the_administrator), T(an_announced_job_without_gpus_waits_for_a_place),
		T(a_submission_announces_nothing), T(an_announced_job_ends_as_it_is_told),
		T(an_announced_job_that_was_ended_is_cancelled),
		T(limits_are_said_and_kept_to), T(gpu_time_is_remembered),
#undef T
	};
	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
