/* SPDX-License-Identifier: MIT
 *
 * What the tests of this folder share: a state folder of their own, and tasks whose every event goes into the store.
 */
#ifndef RAD_STORE_TEST_FIXTURE_H
#define RAD_STORE_TEST_FIXTURE_H

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

/* The value of SECRET in every job's environment. */
#define FIXTURE_SECRET "xyzzy-hunter2"

static char fixture_gpus[2][GPU_UUID_LEN] = { "GPU-aaaa", "GPU-bbbb" };

static inline int fixture_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

/* *state is the path of a new folder. */
static inline int fixture_setup(void **state)
{
	*state = alloc_string("/tmp/rad-test-store-XXXXXX");
	return mkdtemp(*state) ? 0 : -1;
}

static inline int fixture_teardown(void **state)
{
	nftw(*state, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
	free(*state);
	return 0;
}

static inline char *fixture_path(const char *dir, const char *name)
{
	return alloc_printf("%s/%s", dir, name);
}

static inline struct store *fixture_open(const char *dir)
{
	struct error err = ERROR_INIT;
	struct store *s = store_open(dir, &err);
	if (!s)
		fail_msg("%s", err.text);
	return s;
}

/* store_open must refuse with that code and all of these words. */
static inline void fixture_refused(const char *dir, enum error_code code, const char *words)
{
	struct error err = ERROR_INIT;
	struct store *s = store_open(dir, &err);
	if (s) {
		store_close(s);
		fail_msg("the store was opened; expected: %s", words);
	}
	if (err.code != code || !strstr(err.text, words))
		fail_msg("%s: %s; expected %s: ...%s...", error_code_name(err.code), err.text, error_code_name(code), words);
}

static inline void fixture_commit(struct store *s)
{
	struct error err = ERROR_INIT;
	if (store_commit(s, &err))
		fail_msg("%s", err.text);
}

static inline struct spec *fixture_spec(uid_t uid)
{
	struct spec *s = spec_create();
	s->uid = uid;
	s->gid = 100;
	s->user = alloc_string("ada");
	free(s->name);
	s->name = alloc_string("train \xc3\xa9");
	spec_set_environ(s, (char *[]){ (char *)"HOME=/home/ada", (char *)"SECRET=" FIXTURE_SECRET, NULL });
	return s;
}

/* Applies one event and stores it. */
static inline void fixture_event(struct store *s, struct task *t, struct event ev)
{
	struct error err = ERROR_INIT;
	ev.task = t->id;
	if (task_apply(t, &ev, &err) || store_append(s, &ev, t, &err))
		fail_msg("%s", err.text);
}

/* A job of one task, submitted, not committed. */
static inline struct task *fixture_submit(struct store *s, uid_t uid, int64_t t_ms)
{
	struct error err = ERROR_INIT;
	struct spec *spec = fixture_spec(uid);
	uint32_t job = store_next_job(s);
	if (store_add_job(s, job, spec, t_ms, &err))
		fail_msg("%s", err.text);
	struct task *t = task_create(TASK_ID(job, -1), spec);
	fixture_event(s, t, (struct event){ .kind = EV_SUBMITTED, .t_ms = t_ms });
	return t;
}

static inline struct event fixture_placed(int64_t t_ms)
{
	return (struct event){ .kind = EV_PLACED, .t_ms = t_ms, .u.placed = { .gpus = fixture_gpus, .n_gpus = 2,
		.mode = SHARE_MPS, .claim_mib = 9000, .fence_mib = 9000 } };
}

static inline struct event fixture_ended(int64_t t_ms, enum verdict v, enum task_next next, enum task_state state)
{
	return (struct event){ .kind = EV_ENDED, .t_ms = t_ms, .u.ended = { .verdict = v, .exit_code = v == VERDICT_OK ? 0 : 1,
		.next = next, .state = state, .evidence = (char *)"said: \"out of memory\"\n",
		.seen = { .peak_mib = 8000, .mean_smact = 0.625, .alone_s = 1.5, .energy_j = NAN, .warm = true } } };
}

/* Submitted at t_ms, runs, completes at t_ms + 100. Frees it. */
static inline task_id fixture_finished(struct store *s, uid_t uid, int64_t t_ms)
{
	struct task *t = fixture_submit(s, uid, t_ms);
	task_id id = t->id;
	fixture_event(s, t, fixture_placed(t_ms + 10));
	fixture_event(s, t, fixture_ended(t_ms + 100, VERDICT_OK, NEXT_DONE, TASK_COMPLETED));
	task_destroy(t);
	return id;
}

static inline char *fixture_task_text(const struct task *t)
{
	scoped_json *j = task_to_json(t, 1000000);
	return json_to_text(j);
}

static inline void fixture_same_task(const struct task *a, const struct task *b)
{
	scoped_free char *x = fixture_task_text(a);
	scoped_free char *y = fixture_task_text(b);
	assert_string_equal(x, y);
	assert_int_equal(a->n_events, b->n_events);
}

static inline void fixture_same_as_stored(struct store *s, const struct task *t)
{
	struct error err = ERROR_INIT;
	struct task *again = store_load_task(s, t->id, &err);
	if (!again)
		fail_msg("%s", err.text);
	fixture_same_task(t, again);
	task_destroy(again);
}

/* What store_load_live and store_load_finished handed over. */
struct fixture_list {
	task_id ids[64];
	char broken[64][200];	/* "" for a sound one */
	size_t n, stop_at;	/* stop_at 0: never */
};

static inline int fixture_collect(void *ctx, struct task *t, const char *broken)
{
	struct fixture_list *l = ctx;
	assert_true(l->n < COUNT_OF(l->ids));
	l->ids[l->n] = t->id;
	snprintf(l->broken[l->n], sizeof l->broken[l->n], "%s", broken ? broken : "");
	task_destroy(t);
	return ++l->n == l->stop_at;
}

static inline struct fixture_list fixture_live(struct store *s)
{
	struct fixture_list l = { .n = 0 };
	struct error err = ERROR_INIT;
	if (store_load_live(s, fixture_collect, &l, &err))
		fail_msg("%s", err.text);
	return l;
}

/* What a store of schema 11 or before lacked, and 8 or before. */
#define FIXTURE_BEFORE_12 "DROP TABLE accounts; DROP TABLE account_attempts;"
#define FIXTURE_BEFORE_9 FIXTURE_BEFORE_12 "ALTER TABLE series DROP COLUMN smocc; ALTER TABLE series DROP COLUMN dram;" \
	"ALTER TABLE series DROP COLUMN pcie_rx; ALTER TABLE series DROP COLUMN pcie_tx;" \
	"ALTER TABLE outcomes DROP COLUMN host_pace; ALTER TABLE outcomes DROP COLUMN cores;"

static inline void fixture_sql(const char *dir, const char *sql)
{
	scoped_free char *path = fixture_path(dir, "rad.db");
	sqlite3 *db;
	char *why = NULL;
	if (sqlite3_open(path, &db) || sqlite3_exec(db, sql, NULL, NULL, &why))
		fail_msg("%s: %s", sql, why);
	sqlite3_close(db);
}

static inline void fixture_read(const char *dir, const char *name, struct buf *out)
{
	scoped_free char *path = fixture_path(dir, name);
	struct error err = ERROR_INIT;
	if (io_read_file(path, 64 << 20, out, &err))
		fail_msg("%s", err.text);
}

static inline void fixture_write(const char *dir, const char *name, const void *bytes, size_t n)
{
	scoped_free char *path = fixture_path(dir, name);
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, bytes, n), 0);
}

static inline bool fixture_exists(const char *dir, const char *name)
{
	scoped_free char *path = fixture_path(dir, name);
	return !access(path, F_OK);
}

#endif
