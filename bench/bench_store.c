/* SPDX-License-Identifier: MIT
 * How many submissions a second the store makes durable, against what one would write without it: a transaction a row. And how
 * long a start takes under a long history. Usage: bench-store [--short] [FOLDER], on the file system to be measured; prints
 * JSON.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "store/store.h"

#include <ftw.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>

#define TURN 256		/* submissions a commit: what one loop turn of a busy daemon accepts */
#define ENVIRON 40		/* variables of about 80 bytes: a login shell with conda */

static const struct amounts { int batched, separate, naive, history; } in_full = { 20000, 1000, 300, 100000 },
	in_short = { 2000, 20, 10, 1000 };

static void check(int rc, const struct error *err)
{
	if (!rc)
		return;
	fprintf(stderr, "bench-store: %s\n", err->text);
	exit(1);
}

static struct spec *make_spec(void)
{
	struct spec *s = spec_create();
	char *env[ENVIRON + 1] = { NULL };
	s->uid = 1000;
	s->user = alloc_string("ada");
	s->script = alloc_printf("#!/bin/bash\n%0512d\n", 0);
	for (int i = 0; i < ENVIRON; i++)
		env[i] = alloc_printf("VARIABLE_%02d=%064d", i, i);
	spec_set_environ(s, env);
	for (int i = 0; i < ENVIRON; i++)
		free(env[i]);
	return s;
}

static void add_event(struct store *s, struct task *t, struct event ev)
{
	struct error err = ERROR_INIT;
	ev.task = t->id;
	check(task_apply(t, &ev, &err), &err);
	check(store_append(s, &ev, t, &err), &err);
}

static struct task *submit(struct store *s, struct spec *spec)
{
	struct error err = ERROR_INIT;
	uint32_t job = store_next_job(s);
	check(store_add_job(s, job, spec, 1, &err), &err);
	struct task *t = task_create(TASK_ID(job, -1), spec_ref(spec));
	add_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = 1 });
	return t;
}

static void commit(struct store *s)
{
	struct error err = ERROR_INIT;
	check(store_commit(s, &err), &err);
}

static double per_second(int n, int64_t since_ms)
{
	int64_t took = clock_mono_ms() - since_ms;
	return took > 0 ? n * 1000.0 / (double)took : 0;
}

static double submissions(struct store *s, struct spec *spec, int n, int a_commit)
{
	int64_t since = clock_mono_ms();
	for (int i = 1; i <= n; i++) {
		task_destroy(submit(s, spec));
		if (i % a_commit == 0 || i == n)
			commit(s);
	}
	return per_second(n, since);
}

static void naive_row(sqlite3 *db, const char *table, int64_t id, const char *text)
{
	char *sql = sqlite3_mprintf("INSERT INTO %s VALUES (%lld, 1000, 1, %Q)", table, (long long)id, text);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		exit(1);
	sqlite3_free(sql);
}

/* The same rows, the same durability, SQLite's defaults: no transaction, no prepared statement, a rollback journal. */
static double naive(const char *dir, const struct spec *spec, int n)
{
	scoped_free char *path = alloc_printf("%s/naive.db", dir);
	scoped_json *request = spec_to_json(spec);
	json_object_set_new(request, "environ", spec_environ_to_json(spec));
	scoped_free char *text = json_to_text(request);
	sqlite3 *db;
	if (sqlite3_open(path, &db) || sqlite3_exec(db, "CREATE TABLE jobs(id INTEGER PRIMARY KEY, uid, t, spec);"
	    "CREATE TABLE events(id INTEGER PRIMARY KEY, uid, t, body); CREATE TABLE tasks(id INTEGER PRIMARY KEY, uid, t, state)",
	    NULL, NULL, NULL))
		exit(1);
	int64_t since = clock_mono_ms();
	for (int i = 1; i <= n; i++) {
		naive_row(db, "jobs", i, text);
		naive_row(db, "events", i, "{}");
		naive_row(db, "tasks", i, "PENDING");
	}
	double rate = per_second(n, since);
	sqlite3_close(db);
	return rate;
}

static void add_history(struct store *s, struct spec *spec, int n)
{
	static char gpu[1][GPU_UUID_LEN] = { "GPU-0" };
	for (int i = 0; i < n; i++) {
		struct task *t = submit(s, spec);
		add_event(s, t, (struct event){ .kind = EV_PLACED, .t_ms = 2, .u.placed = { .gpus = gpu, .n_gpus = 1,
			.mode = SHARE_MPS } });
		add_event(s, t, (struct event){ .kind = EV_ENDED, .t_ms = 3 + i, .u.ended = { .verdict = VERDICT_OK,
			.next = NEXT_DONE, .state = TASK_COMPLETED } });
		task_destroy(t);
		if (i % TURN == 0)
			commit(s);
	}
	commit(s);
}

static int drop(void *ctx, struct task *t, const char *broken)
{
	*(int *)ctx += !broken;
	task_destroy(t);
	return 0;
}

/* A start: opening, and replaying the live tasks. */
static double start_ms(const char *dir, int *live)
{
	struct error err = ERROR_INIT;
	int64_t since = clock_mono_ms();
	struct store *s = store_open(dir, &err);
	check(s ? 0 : -1, &err);
	check(store_load_live(s, drop, live, &err), &err);
	double took = (double)(clock_mono_ms() - since);
	store_close(s);
	return took;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	bool is_short = argc > 1 && !strcmp(argv[1], "--short");
	const struct amounts *n = is_short ? &in_short : &in_full;
	scoped_free char *dir = alloc_printf("%s/bench-store-XXXXXX", argc > 1 + is_short ? argv[1 + is_short] : ".");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	scoped_free char *history = alloc_printf("%s/history", dir);
	struct spec *spec = make_spec();
	scoped_json *out = json_object();
	json_object_set_new(out, "bench", json_string("store"));
	struct store *s = store_open(dir, &err);
	check(s ? 0 : -1, &err);
	json_object_set_new(out, "submissions_per_s_batched", json_round3(submissions(s, spec, n->batched, TURN)));
	json_object_set_new(out, "submissions_per_s_separate_commits", json_round3(submissions(s, spec, n->separate, 1)));
	store_close(s);
	json_object_set_new(out, "submissions_per_s_naive", json_round3(naive(dir, spec, n->naive)));

	s = store_open(history, &err);
	check(s ? 0 : -1, &err);
	add_history(s, spec, n->history);
	submissions(s, spec, 100, 100);
	store_close(s);
	int live = 0;
	json_object_set_new(out, "finished_tasks", json_integer(n->history));
	json_object_set_new(out, "start_ms", json_round3(start_ms(history, &live)));
	json_object_set_new(out, "live_tasks", json_integer(live));
	scoped_free char *text = json_to_text(out);
	puts(text);
	spec_unref(spec);
	nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
