/* SPDX-License-Identifier: MIT
 * Writing: one transaction a loop turn. The first write begins it, store_commit ends it. A write that failed dooms it: part
 * of a turn is never committed, and whoever forgets to look at one error gets it again from store_commit.
 *
 * One commit a turn, because a commit costs a sync of the disk (milliseconds) and an event costs microseconds: all that
 * arrived together shares it. synchronous=FULL and WAL: a commit that returned survives a power loss, as far as the disk
 * tells the truth.
 *
 * The statements of every turn are prepared once (store_internal.h has them in one table), all values are bound, and no text
 * of a user is ever part of SQL. Every failure of SQLite becomes one line that says what a person can do: full, damaged,
 * locked, or broken disk are different things to do.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* errno of the system call behind an I/O error. SQLite does not hand over all of them; the call was the last one made. */
static int system_errno(sqlite3 *db, int rc)
{
	int last = errno;
	if ((rc & 0xff) != SQLITE_IOERR && (rc & 0xff) != SQLITE_CANTOPEN)
		return 0;
	int no = sqlite3_system_errno(db);
	return no ? no : last;
}

/* Not damage, and nothing to be moved away: what reached the disk is whole, and the file is read again when the disk is back.
 * Whether a commit that failed reached it, only that tells. */
int store_fail_disk(struct store *s, int no, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "%s: disk error (%s): check the disk (dmesg), then start radd again: what was stored "
			 "before is safe", s->path, no ? strerror(no) : "no reason given");
}

int store_fail(struct store *s, int rc, struct error *err)
{
	int no = system_errno(s->db, rc);
	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return error_set(err, ERR_CORRUPT, "%s: is damaged (%s): keep a copy of the folder, then restore rad.db from "
				 "a backup, or move rad.db and rad.db-wal away to begin anew", s->path, sqlite3_errmsg(s->db));
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(err, ERR_UNAVAILABLE, "%s: another program holds a lock on it: close that program and try "
				 "again", s->path);
	}
	if ((rc & 0xff) == SQLITE_FULL || no == ENOSPC || no == EDQUOT || no == EFBIG)
		return error_set(err, ERR_UNAVAILABLE, "%s: no room on the disk (or quota): what was stored before is safe, "
				 "this was not kept: make room and try again", s->path);
	if (rc == SQLITE_IOERR_FSYNC)	/* all of it was written: whether it lasts, nobody can say */
		return error_set(err, ERR_UNAVAILABLE, "%s: disk error (%s): check the disk (dmesg), then start radd again: what was "
				 "stored before is safe; whether this was kept, 'rad queue' tells then", s->path,
				 no ? strerror(no) : "no reason given");
	if ((rc & 0xff) == SQLITE_IOERR)
		return store_fail_disk(s, no, err);
	if (no)
		return error_set(err, ERR_SYSTEM, "%s: %s: %s", s->path, sqlite3_errstr(rc), strerror(no));
	return error_set(err, ERR_SYSTEM, "%s: %s", s->path, sqlite3_errmsg(s->db));
}

/* For the few statements without values: PRAGMAs and the steps of the schema. */
int store_exec(struct store *s, const char *sql, struct error *err)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	return rc ? store_fail(s, rc, err) : 0;
}

int store_first_row(struct store *s, const char *sql, sqlite3_stmt **st, struct error *err)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, st, NULL);
	if (!rc)
		rc = sqlite3_step(*st);
	return rc == SQLITE_ROW ? 0 : store_fail(s, rc, err);
}

int store_query_int(struct store *s, const char *sql, int64_t *value, struct error *err)
{
	scoped_statement *st = NULL;
	if (store_first_row(s, sql, &st, err))
		return -1;
	*value = sqlite3_column_int64(st, 0);
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < STORE_STATEMENT_COUNT; i++)
		sqlite3_finalize(s->statements[i]);
	sqlite3_close(s->db);
	spec_unref(s->last.spec);
	for (size_t i = 0; i < EVENT_KIND_COUNT; i++) {
		free(s->bodies[i].text);
		json_decref(s->bodies[i].value);
	}
	free(s->path);
	free(s);
}

/* Binds one value a letter and runs the statement. Returns SQLite's code. SQLITE_STATIC is right for texts: the statement is
 * reset before this returns, so no pointer outlives its owner. */
static int run_v(struct store *s, enum store_statement which, const char *types, va_list ap)
{
	sqlite3_stmt *st = s->statements[which];
	int rc = SQLITE_OK;
	for (int i = 1; *types && !rc; i++, types++)
		rc = *types == 'i' ? sqlite3_bind_int64(st, i, va_arg(ap, int64_t))
		   : *types == 'd' ? sqlite3_bind_double(st, i, va_arg(ap, double))
				   : sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
	if (!rc)
		rc = sqlite3_step(st);
	int reset = sqlite3_reset(st);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : reset ? reset : rc;
}

/* Runs a statement without values. Returns SQLite's code. */
static int store_run(struct store *s, enum store_statement which)
{
	sqlite3_step(s->statements[which]);
	return sqlite3_reset(s->statements[which]);	/* the code of the step, if it failed */
}

/* `dirty` is set also when BEGIN failed: then store_commit tells. */
static int store_doom_by(struct store *s, int rc, struct error *err)
{
	s->dirty = true;
	store_fail(s, rc, &s->doomed);
	return error_pass(err, &s->doomed);
}

/* A statement that the disk failed, be it one that only read, may have ended the transaction: SQLite rolls it back by itself.
 * What is written after that would be on disk at once, and alone. */
static void doom_if_rolled_back(struct store *s)
{
	if (s->dirty && !s->doomed.code && sqlite3_get_autocommit(s->db))
		store_fail_disk(s, 0, &s->doomed);
}

/* The first change of a turn begins the transaction. */
int store_begin(struct store *s, struct error *err)
{
	doom_if_rolled_back(s);
	if (s->doomed.code)
		return error_pass(err, &s->doomed);
	int rc = s->dirty ? SQLITE_OK : store_run(s, STORE_BEGIN);
	s->dirty = true;
	return rc ? store_doom_by(s, rc, err) : 0;
}

int store_change(struct store *s, struct error *err, enum store_statement which, const char *types, ...)
{
	va_list ap;
	if (store_begin(s, err))
		return -1;
	va_start(ap, types);
	int rc = run_v(s, which, types, ap);
	va_end(ap);
	return rc ? store_doom_by(s, rc, err) : 0;
}

/* Only where we broke our own rules (a number that is not finite). Losing the event would be worse than the turn. */
int store_doom(struct store *s, struct error *err, const char *what)
{
	s->dirty = true;
	error_set(&s->doomed, ERR_INTERNAL, "%s: %s has no JSON form", s->path, what);
	return error_pass(err, &s->doomed);
}

const char *store_mark(const struct store *s)
{
	return s->mark;
}

int64_t store_marked_ms(const struct store *s)
{
	return s->marked_ms;
}

static char *text_of(json_t *value)
{
	scoped_json *v = value;
	return v ? json_dumps(v, JSON_COMPACT) : NULL;
}

char *store_object_text(json_t *value)
{
	if (json_is_object(value))
		return text_of(value);
	json_decref(value);
	return NULL;
}

int store_add_job(struct store *s, uint32_t job, const struct spec *spec, int64_t submit_ms, struct error *err)
{
	scoped_free char *text = store_object_text(spec_to_json(spec));
	scoped_free char *environ_text = text_of(spec_environ_to_json(spec));
	if (!text || !environ_text)
		return store_doom(s, err, "the job");
	return store_change(s, err, STORE_ADD_JOB, "iiititt", (int64_t)job, (int64_t)spec->uid, (int64_t)spec->gid, spec->user,
		      submit_ms, text, environ_text);
}

void store_forget_request(struct store *s, uint32_t job)
{
	if (s->last.job != job)
		return;
	spec_unref(s->last.spec);
	s->last.spec = NULL;
}

int store_set_spec(struct store *s, uint32_t job, const struct spec *spec, struct error *err)
{
	scoped_free char *text = store_object_text(spec_to_json(spec));
	if (!text)
		return store_doom(s, err, "the job");
	store_forget_request(s, job);
	return store_change(s, err, STORE_SET_SPEC, "it", (int64_t)job, text);
}

int store_add_outcome(struct store *s, const struct outcome *o, struct error *err)
{
	scoped_json *load = load_to_json(&o->seen.inferred);
	scoped_free char *inferred = json_is_object(load) ? json_to_text(load) : NULL;
	scoped_json *rates = pace_to_json(&o->seen.pace);
	scoped_free char *pace = json_is_object(rates) ? json_to_text(rates) : NULL;
	return store_change(s, err, STORE_ADD_OUTCOME, "ittttiiiiiiddddddttdd", o->told_ms, o->signature, o->gpu_name, o->estimator,
		      verdict_name(o->verdict), (int64_t)o->comfort_mib, (int64_t)o->claim_mib, (int64_t)o->seen.peak_mib,
		      (int64_t)o->retry_mib, (int64_t)o->fenced, (int64_t)o->seen.warm, o->seen.alone_s, o->seen.alone_gract,
		      o->seen.alone_smact, o->seen.work_s, o->seen.alone_dram, o->seen.alone_watts, inferred, pace,
		      o->host_pace, o->cores);
}

/* After some failures (a full disk, an I/O error) SQLite has rolled back by itself. */
static void roll_back(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		store_run(s, STORE_ROLLBACK);
	s->dirty = false;
	s->doomed = ERROR_INIT;
}

/* After a failure nothing of the turn is on disk, and memory is ahead of it: the daemon ends itself (doc/decisions/0003). */
int store_commit(struct store *s, struct error *err)
{
	if (!s->dirty)
		return 0;
	doom_if_rolled_back(s);
	if (!s->doomed.code) {
		int rc = store_run(s, STORE_COMMIT);
		if (!rc) {
			s->dirty = false;
			return 0;
		}
		store_fail(s, rc, &s->doomed);
	}
	if (err)
		*err = s->doomed;
	roll_back(s);
	return -1;
}

bool store_dirty(const struct store *s)
{
	return s->dirty;
}

int store_set_meta(struct store *s, const char *key, const char *value, struct error *err)
{
	return value ? store_change(s, err, STORE_SET_META, "tt", key, value) : store_change(s, err, STORE_DEL_META, "t", key);
}

char *store_get_meta(struct store *s, const char *key)
{
	sqlite3_stmt *st = s->statements[STORE_GET_META];
	sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
	char *value = sqlite3_step(st) == SQLITE_ROW ? alloc_string_or_null((const char *)sqlite3_column_text(st, 0)) : NULL;
	sqlite3_reset(st);
	return value;
}

int store_each_meta(struct store *s, const char *prefix, int (*each)(void *ctx, const char *key, const char *value), void *ctx,
		    struct error *err)
{
	scoped_statement *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT key, value FROM meta WHERE substr(key, 1, length(?1)) = ?1"
				    " ORDER BY length(key), key", -1, &st, NULL);
	if (rc)
		return store_fail(s, rc, err);
	sqlite3_bind_text(st, 1, prefix, -1, SQLITE_STATIC);
	while ((rc = sqlite3_step(st)) == SQLITE_ROW)
		if (each(ctx, (const char *)sqlite3_column_text(st, 0), (const char *)sqlite3_column_text(st, 1)))
			return 0;
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, err);
}
