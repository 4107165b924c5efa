/* SPDX-License-Identifier: MIT
 * The tables, as the ordered steps that lead to them. A step that was released is never edited: add one below it and
 * raise STORE_SCHEMA. A step that changes `tasks` may simply drop and create it: it is filled again from the log.
 *
 * All steps run in one transaction with the new version number, so a crash leaves the old schema or the new one. Before that
 * the old file is copied: who must go back to an older release has one that it reads, though without what was stored since.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/scope.h"

#include <fcntl.h>
#include <string.h>

/* For steps that read the log: a member of a JSON column, NULL where the text is damaged; that of the last event of a kind
 * before event `e`; and what is written for NULL. */
#define MEMBER(column, name) "CASE WHEN json_valid(" column ") THEN json_extract(" column ", '$." name "') END"
#define BEFORE(kind, name) \
	"(SELECT " MEMBER("b.body", name) " FROM events b WHERE b.task = e.task AND b.seq < e.seq AND b.kind = '" kind "'" \
	" ORDER BY b.seq DESC LIMIT 1)"
#define TEXT(value, none) "CAST(coalesce(" value ", " none ") AS TEXT)"
#define NUMBER(value) "CAST(coalesce(" value ", 0) AS INTEGER)"

/* Large columns come last: reading what stands before them then touches no overflow page. The partial indexes hold a start
 * to the live tasks and a report to its span, however long the history is. */
const char *const store_schema_steps[STORE_SCHEMA] = {
	"CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE jobs(job INTEGER PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT,"
	" submit_ms INTEGER NOT NULL, spec TEXT NOT NULL, environ TEXT NOT NULL) STRICT;"
	"CREATE TABLE events(seq INTEGER PRIMARY KEY, task INTEGER NOT NULL, t_ms INTEGER NOT NULL, kind TEXT NOT NULL,"
	" body TEXT NOT NULL) STRICT;"
	"CREATE INDEX events_task ON events(task);"
	"CREATE TABLE tasks(task INTEGER PRIMARY KEY, uid INTEGER NOT NULL, live INTEGER NOT NULL, state TEXT NOT NULL,"
	" submit_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL) STRICT;"
	"CREATE INDEX tasks_live ON tasks(task) WHERE live = 1;"
	"CREATE INDEX tasks_ended ON tasks(end_ms) WHERE live = 0;",
	/* Whole numbers of a few bytes, since these are the most rows: smact and gract in thousandths, power in tenths of a watt. */
	"CREATE TABLE gpus(gpu INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, place INTEGER NOT NULL, name TEXT NOT NULL,"
	" mem_total_mib INTEGER NOT NULL) STRICT;"
	"CREATE TABLE series(t_s INTEGER NOT NULL, gpu INTEGER NOT NULL, step_s INTEGER NOT NULL, mem_mib INTEGER, smact INTEGER,"
	" gract INTEGER, power INTEGER, PRIMARY KEY(t_s, gpu)) STRICT, WITHOUT ROWID;",

	/* Filled from the log, which did not say which GPU it was and what the task did alone there. */
	"CREATE TABLE outcomes(seq INTEGER PRIMARY KEY, told_ms INTEGER NOT NULL, signature TEXT NOT NULL, gpu TEXT NOT NULL,"
	" estimator TEXT NOT NULL, verdict TEXT NOT NULL, comfort_mib INTEGER NOT NULL, claim_mib INTEGER NOT NULL,"
	" peak_mib INTEGER NOT NULL, retry_mib INTEGER NOT NULL, fenced INTEGER NOT NULL, warm INTEGER NOT NULL,"
	" alone_s REAL, alone_gract REAL, alone_smact REAL) STRICT;"
	"INSERT INTO outcomes(told_ms, signature, gpu, estimator, verdict, comfort_mib, claim_mib, peak_mib, retry_mib, fenced, warm)"
	" SELECT e.t_ms, " TEXT(MEMBER("j.spec", "signature"), "''") ", '',"
	" " TEXT(BEFORE("estimated", "estimator"), "'none'") ", " TEXT(MEMBER("e.body", "verdict"), "'none'") ","
	" " NUMBER(BEFORE("estimated", "comfort_mib")) ", " NUMBER(BEFORE("placed", "claim_mib")) ","
	" " NUMBER(MEMBER("e.body", "peak_mib")) ","
	" iif(" MEMBER("e.body", "verdict") " = 'oom', " NUMBER(MEMBER("e.body", "next_claim_mib")) ", 0),"
	" " NUMBER(BEFORE("placed", "fenced")) ", " NUMBER(MEMBER("e.body", "warm"))
	" FROM events e JOIN jobs j ON j.job = e.task >> 20"
	" WHERE e.kind = 'ended' AND (" MEMBER("e.body", "peak_mib") " OR " MEMBER("e.body", "verdict") " = 'oom') ORDER BY e.seq;",

	"ALTER TABLE outcomes ADD COLUMN work_s REAL;",

	"ALTER TABLE outcomes ADD COLUMN alone_dram REAL;"
	"ALTER TABLE outcomes ADD COLUMN alone_watts REAL;"
	"ALTER TABLE outcomes ADD COLUMN inferred TEXT;",	/* as in events; NULL: nothing was */

	"ALTER TABLE outcomes ADD COLUMN pace TEXT;",	/* as in events; NULL: nothing is known */

	"ALTER TABLE jobs ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;",

	/* What one user has is found among what all had. */
	"CREATE INDEX tasks_ended_of ON tasks(uid, end_ms) WHERE live = 0;",
	/* NULL in the rows that are there: it was not kept then. Thousandths; MiB a second. */
	"ALTER TABLE series ADD COLUMN smocc INTEGER;"
	"ALTER TABLE series ADD COLUMN dram INTEGER;"
	"ALTER TABLE series ADD COLUMN pcie_rx INTEGER;"
	"ALTER TABLE series ADD COLUMN pcie_tx INTEGER;",

	"ALTER TABLE outcomes ADD COLUMN host_pace REAL;",	/* NULL, or not above 0: it told none */

	"ALTER TABLE outcomes ADD COLUMN cores REAL;",	/* NULL, or not above 0: not known */

	/* Of each task that has ended, what accounts tell of it: account.c. Filled again from the log, as `tasks` is. */
	"CREATE TABLE accounts(task INTEGER PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT, name TEXT NOT NULL,"
	" feed TEXT, state TEXT NOT NULL, submit_ms INTEGER NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL,"
	" wait_ms INTEGER NOT NULL, held_ms INTEGER NOT NULL, run_ms INTEGER NOT NULL, suspended_ms INTEGER NOT NULL,"
	" lost_ms INTEGER NOT NULL, gpus INTEGER NOT NULL, priority INTEGER NOT NULL, time_limit_s INTEGER NOT NULL,"
	" attempts INTEGER NOT NULL, estimator TEXT, need_mib INTEGER NOT NULL, comfort_mib INTEGER NOT NULL,"
	" claim_mib INTEGER NOT NULL, note TEXT) STRICT;"
	"CREATE TABLE account_attempts(task INTEGER NOT NULL, n INTEGER NOT NULL, placed_ms INTEGER NOT NULL,"
	" start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, gpus TEXT NOT NULL, mode TEXT NOT NULL, claim_mib INTEGER NOT NULL,"
	" exit_code INTEGER NOT NULL, signal INTEGER NOT NULL, verdict TEXT NOT NULL, evidence TEXT, peak_mib INTEGER NOT NULL,"
	" smact REAL, energy_j REAL, host_peak_mib INTEGER NOT NULL, ran_ms INTEGER NOT NULL, cpu_ms INTEGER NOT NULL,"
	" cpu_wait_ms INTEGER NOT NULL, PRIMARY KEY(task, n)) STRICT, WITHOUT ROWID;"
	"DELETE FROM tasks;",
};

static int sync_path(const char *path, int flags, struct error *err)
{
	scoped_fd int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		return error_errno(err, "%s", path);
	return 0;
}

/* SQLite's own copy: whole, also of what is in the WAL only, which a copy of the file would lack. */
static int vacuum_into(struct store *s, const char *copy, struct error *err)
{
	char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
	int rc = store_exec(s, sql, err);
	sqlite3_free(sql);
	return rc;
}

/* rad.db.v1 beside rad.db: the state just before the migration, what is still in the WAL included. */
static int keep_copy(struct store *s, int version, struct error *err)
{
	scoped_free char *copy = alloc_printf("%s.v%d", s->path, version);
	scoped_free char *temporary = alloc_printf("%s.tmp", copy);
	unlink(temporary);
	/* SQLite would make it readable by all; it fills an empty file as well. */
	scoped_fd int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(err, "%s", temporary);
	scoped_free char *dir = alloc_string(s->path);
	*strrchr(dir, '/') = 0;
	if (vacuum_into(s, temporary, err) || sync_path(temporary, O_RDONLY, err)) {
		unlink(temporary);
		return error_wrap(err, "keeping a copy before the migration");
	}
	if (rename(temporary, copy))
		return error_errno(err, "%s", copy);
	log_info("store: the file of schema %d is kept as %s", version, copy);
	return sync_path(dir, O_RDONLY | O_DIRECTORY, err);
}

int store_migrate(struct store *s, int version, const char *const *steps, int n_steps, struct error *err)
{
	if (version == n_steps)
		return 0;
	if (version > 0 && keep_copy(s, version, err))
		return -1;
	if (store_exec(s, "BEGIN IMMEDIATE", err))
		return -1;
	char mark[96];
	snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT",
		 STORE_APPLICATION_ID, n_steps);
	int rc = 0;
	for (int i = version; i < n_steps && !rc; i++)
		rc = store_exec(s, steps[i], err);
	if (!rc)
		rc = store_exec(s, mark, err);
	if (rc) {
		if (!sqlite3_get_autocommit(s->db))
			sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
		return error_wrap(err, "migrating from schema %d to %d", version, n_steps);
	}
	return 0;
}
