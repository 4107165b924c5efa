/* SPDX-License-Identifier: MIT
 *
 * What users ask of radd, one after the other: a request a line, JSON, behind a letter for who sends it: `r` the administrator, `s` and `t` two users.
 * Whatever stands there, each is answered by JSON or refused with a reason; what is refused has changed nothing, and nobody but
 * the administrator has changed another's task.
 */
#include "fuzz.h"

#include "daemon/test_asking.h"

#include <pwd.h>

#define OTHER 4244	/* another user with an account */
#define MOST_LINES 24

/* The fuzzer is its own user database. */
__attribute__((constructor)) static void be_the_database(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--name"))
		exit(name());
	if (argc == 2 && !strcmp(argv[1], "--groups"))
		exit(groups());
}

static uid_t asks;		/* who sends the request that is run; of whose task an event may tell */
static bool any_task;

static void on_event(void *ctx, const struct event *ev, const struct task *t)
{
	struct world *w = ctx;
	FUZZ_HOLDS(any_task || request_is_admin(asks) || t->spec->uid == asks);
	store_append(w->store, ev, t, NULL);
	w->n_events++;
}

static int ask_signal(void *ctx, const struct task *t, int signal)
{
	(void)ctx, (void)signal;
	FUZZ_HOLDS(request_is_admin(asks) || t->spec->uid == asks);
	return 0;
}

static char **no_environment(void *ctx, const struct task *t)
{
	(void)ctx;
	FUZZ_HOLDS(request_is_admin(asks) || t->spec->uid == asks);
	return NULL;
}

static void learn(struct names *n, uv_loop_t *loop, uid_t uid)
{
	const char *said;
	while (names_of(n, uid, &said) == NAME_ASKED)
		uv_run(loop, UV_RUN_ONCE);
}

/* Once: each name costs a process. */
static void know_users(struct asking *s)
{
	static uv_loop_t loop;
	static struct asking told;
	static struct names *users, *their_groups;
	if (!users) {
		signal(SIGPIPE, SIG_IGN);
		uv_loop_init(&loop);
		users = names_create(&loop, "/proc/self/exe", "--name", WORLD_PATIENCE_MS, on_named, &told);
		their_groups = names_create(&loop, "/proc/self/exe", "--groups", WORLD_PATIENCE_MS, on_named, &told);
		const uid_t uids[] = { getuid(), STRANGER, OTHER, NOBODY };
		for (size_t i = 0; i < COUNT_OF(uids); i++) {
			learn(users, &loop, uids[i]);
			learn(their_groups, &loop, uids[i]);
		}
	}
	s->names = users;
	s->groups = their_groups;
}

static void open_asking(struct asking *s)
{
	world_open_with(&s->w, "/dev/shm/fuzz-rq.XXXXXX", (struct core_ops){ .event = on_event, .state_of = world_state_of,
									      .trouble = world_trouble });
	know_users(s);
	s->w.config.user_tasks = 100;
	asking_open(s);
	s->q.signal = ask_signal;
	s->q.environment = no_environment;
}

/* Answers are JSON, as whoever asked will read them. */
static void take(struct asking *s, struct reply *reply)
{
	struct error err = ERROR_INIT;
	struct buf text = { 0 };
	if (reply->kind == REPLY_WAIT) {
		struct walk *told = awaiting_is_over(reply->awaiting) ? awaiting_walk(reply->awaiting) : NULL;
		awaiting_destroy(reply->awaiting);
		if (!told)
			return;
		*reply = (struct reply){ .kind = REPLY_WALK, .walk = told };
	}
	if (reply->kind == REPLY_WALK) {
		int rc;
		while (!(rc = walk_step(reply->walk, INT64_MAX, &err)))
			;
		FUZZ_HOLDS(rc > 0 || *err.text);
		if (rc > 0)
			text = walk_finish(reply->walk);
		walk_destroy(reply->walk);
		json_t *read = rc > 0 ? json_loads(buf_text(&text), 0, NULL) : NULL;
		FUZZ_HOLDS(rc < 0 || read);
		json_decref(read);
		buf_free(&text);
	} else if (reply->kind == REPLY_LOOKUP) {
		json_t *read = json_loads(reply->lookup, 0, NULL);
		FUZZ_HOLDS(read);
		json_decref(read);
		free(reply->lookup);
	} else if (reply->kind == REPLY_NOW) {
		char *dumped = json_dumps(reply->json, JSON_COMPACT);
		FUZZ_HOLDS(dumped);
		free(dumped);
		json_decref(reply->json);
	}
	(void)s;
}

static void refused_well(const struct error *err)
{
	json_t *told = wire_error(err);
	char *dumped = json_dumps(told, JSON_COMPACT);
	FUZZ_HOLDS(*err->text && dumped);
	free(dumped);
	json_decref(told);
}

static void run_one(struct asking *s, struct message *m)
{
	struct reply reply = { .kind = REPLY_NOW };
	struct error err = ERROR_INIT;
	json_t *so_far = NULL;
	size_t before = s->w.n_events;
	int rc;
	while (!(rc = requests_run(&s->q, m, &reply, &err)) && reply.kind == REPLY_MORE) {
		json_decref(so_far);
		m->so_far = so_far = reply.json;
		before = s->w.n_events;
	}
	json_decref(so_far);
	FUZZ_HOLDS(!rc || s->w.n_events == before);
	if (rc)
		refused_well(&err);
	else
		take(s, &reply);
}

/* What an operation of no input (status) would need is not here. */
static void run_line(struct asking *s, const char *line, size_t len)
{
	const uid_t uids[] = { ['r'] = geteuid(), ['s'] = STRANGER, ['t'] = OTHER };
	json_t *json = len > 1 && strchr("rst", *line) ? json_loadb(line + 1, len - 1, 0, NULL) : NULL;
	const char *op = json_string_value(json_object_get(json, "op"));
	if (op && strcmp(op, "status")) {
		json_object_set_new(json, "v", json_integer(WIRE_VERSION));
		asks = uids[(unsigned char)*line];
		struct message m = { .json = json, .bytes = len, .uid = asks, .gid = asks };
		run_one(s, &m);
		any_task = true;
		core_turn(s->w.core, now_read());
		any_task = false;
	}
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct asking s = { .mps = true };
	const char *at = (const char *)data, *end = at + size;
	open_asking(&s);
	for (int n = 0; at < end && n < MOST_LINES; n++) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		line_end = line_end ? line_end : end;
		run_line(&s, at, (size_t)(line_end - at));
		at = line_end + 1;
	}
	store_commit(s.w.store, NULL);
	asking_close(&s);
	return 0;
}
