/* SPDX-License-Identifier: MIT
 *
 * What the tests of requests share: all that an operation sees, beside two made-up GPUs; nothing is sent and nothing runs. The
 * test is its own user database: its main begins with ASKING_MAIN.
 */
#ifndef RAD_DAEMON_TEST_ASKING_H
#define RAD_DAEMON_TEST_ASKING_H

#include "base/clock.h"
#include "daemon/now.h"
#include "daemon/requests.h"
#include "daemon/test_world.h"
#include "submit/wire.h"

#include <sys/wait.h>

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
	unsigned captures, captures_declined;	/* that came; that did not, and why the last one */
	char declined[sizeof ((struct estimate_result *)0)->note];
};

/* The test is its own user database. */
static inline int name(void)
{
	unsigned uid;
	if (scanf("%u", &uid) != 1)
		return 2;
	if (uid != NOBODY)
		printf("user%u\n", uid);
	return 0;
}

/* Odd ones are students. */
static inline int groups(void)
{
	unsigned uid;
	if (scanf("%u", &uid) != 1)
		return 2;
	puts(uid % 2 ? "students:all:" : "all:");
	return 0;
}

static inline enum core_mps has_mps(void *ctx, const char **why)
{
	*why = "its control daemon knows it";
	return ((struct asking *)ctx)->mps ? CORE_MPS_TOGETHER : CORE_MPS_NONE;
}

static inline void no_troubles(void *ctx, json_t *list)
{
	(void)ctx, (void)list;
}

static inline bool departed(void *ctx, task_id id, const struct exit_report *report)
{
	struct asking *s = ctx;
	bool again = s->departed == id;
	s->departed = id;
	s->report = *report;
	return !again;
}

static inline void on_named(void *ctx, bool anew)
{
	(void)anew;
	((struct asking *)ctx)->named++;
}

/* Of those who were made to wait in `capturing`. */
static inline void capture_asked(void *ctx, int64_t question, const struct estimator *row, struct spec *spec,
				 uint64_t declared_mib, const struct estimate_context *c)
{
	struct asking *s = ctx;
	(void)question, (void)row, (void)spec, (void)declared_mib, (void)c;
	s->captures++;
}

static inline void capture_declined(void *ctx, int64_t question, bool spoke, const struct estimate_result *said)
{
	struct asking *s = ctx;
	(void)question, (void)spoke;
	s->captures_declined++;
	snprintf(s->declined, sizeof s->declined, "%s", said->note);
}

/* All that requests need, in s->w, with s->names and s->groups. */
static inline void asking_open(struct asking *s)
{
	s->allowing = allowing_create(s->w.store, s->names, s->groups, &s->w.config);
	s->drains = drains_create(&s->w.loop, s->w.core, s->w.store);
	s->reserving = reserving_create(&s->w.loop, s->w.core, s->w.store);
	s->stored = usages_create_even(STORED_BURST_US);
	s->recording = recording_create(s->w.store, &s->w.config);
	s->capturing = capturing_create(&s->w.loop, capture_asked, capture_declined, s);
	s->q = (struct requests){ .core = s->w.core, .store = s->w.store, .names = s->names, .allowing = s->allowing,
				  .drains = s->drains, .reserving = s->reserving,
				  .stored = s->stored, .counting = &s->counting, .recording = s->recording,
				  .capturing = s->capturing,
				  .config = &s->w.config, .state_dir = s->w.state_dir, .socket_path = "/run/sock",
				  .started_ms = 1000, .has_mps = has_mps, .troubles = no_troubles,
				  .departed = departed, .ctx = s };
	world_snapshot(&s->w);
}

/* But for names and groups. */
static inline void asking_close(struct asking *s)
{
	allowing_destroy(s->allowing);
	drains_destroy(s->drains);
	reserving_destroy(s->reserving);
	usages_destroy(s->stored);
	capturing_destroy(s->capturing);
	recording_destroy(s->recording);
	world_close(&s->w);
}

static inline int setup(void **state)
{
	struct asking *s = alloc_zero(sizeof *s);
	world_open(&s->w);
	if (!(s->child = fork()))
		for (;;)
			pause();
	s->w.config.user_tasks = 3;
	s->names = names_create(&s->w.loop, "/proc/self/exe", "--name", WORLD_PATIENCE_MS, on_named, s);
	s->groups = names_create(&s->w.loop, "/proc/self/exe", "--groups", WORLD_PATIENCE_MS, on_named, s);
	asking_open(s);
	*state = s;
	return 0;
}

static inline int teardown(void **state)
{
	struct asking *s = *state;
	kill(s->child, SIGKILL);
	waitpid(s->child, NULL, 0);
	names_destroy(s->names);
	names_destroy(s->groups);
	asking_close(s);
	free(s);
	return 0;
}

/* Asking --------------------------------------------------------------------------------------------------------------- */

/* Long changes are asked for again until they are done, as the server does. */
static inline int ask(struct asking *s, uid_t uid, const char *op, const char *fields, struct reply *reply, struct error *err)
{
	scoped_free char *text = alloc_printf("{\"v\":%d,\"op\":\"%s\"%s%s}", WIRE_VERSION, op, *fields ? "," : "", fields);
	scoped_json *json = json_loads(text, 0, NULL);
	if (!json)
		fail_msg("the test's own request is not JSON: %s", text);
	struct message m = { .json = json, .bytes = strlen(text), .uid = uid, .gid = uid };
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
static inline json_t *good(struct asking *s, uid_t uid, const char *op, const char *fields)
{
	struct reply reply;
	struct error err;
	if (ask(s, uid, op, fields, &reply, &err))
		fail_msg("%s %s: %s", op, fields, err.text);
	assert_int_equal(reply.kind, REPLY_NOW);
	world_commit(&s->w);
	return reply.json;
}

static inline void refused(struct asking *s, uid_t uid, const char *op, const char *fields, enum error_code code,
			   const char *words)
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
static inline json_t *walked(struct reply *reply)
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

static inline json_t *listed(struct asking *s, const char *op, const char *fields)
{
	struct reply reply;
	struct error err;
	if (ask(s, getuid(), op, fields, &reply, &err))
		fail_msg("%s %s: %s", op, fields, err.text);
	assert_int_equal(reply.kind, REPLY_WALK);
	return walked(&reply);
}

static inline const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static inline json_int_t number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* A submission of `true` with those more fields of the spec, as rad sends it. */
static inline char *submission(struct asking *s, const char *fields)
{
	struct spec *spec = world_spec(&s->w, NULL);
	scoped_json *whole = spec_to_json(spec), *more = json_loads(fields, 0, NULL);
	spec_unref(spec);
	assert_non_null(more);
	json_object_update(whole, more);
	scoped_free char *text = json_dumps(whole, JSON_COMPACT);
	return alloc_printf("\"spec\":%s,\"environ\":[\"PATH=/bin\"]", text);
}

static inline void learn_name(struct asking *s, uid_t uid)
{
	const char *said;
	while (names_of(s->names, uid, &said) == NAME_ASKED)
		uv_run(&s->w.loop, UV_RUN_ONCE);
}

static inline json_t *submit(struct asking *s, uid_t uid, const char *fields)
{
	scoped_free char *what = submission(s, fields);
	learn_name(s, uid);
	return good(s, uid, "submit", what);
}

static inline void submit_refused(struct asking *s, uid_t uid, const char *fields, enum error_code code, const char *words)
{
	scoped_free char *what = submission(s, fields);
	learn_name(s, uid);
	refused(s, uid, "submit", what, code, words);
}

#define ASKING_MAIN(argc, argv) \
	do { \
		if ((argc) == 2 && !strcmp((argv)[1], "--name")) \
			return name(); \
		if ((argc) == 2 && !strcmp((argv)[1], "--groups")) \
			return groups(); \
	} while (0)

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
