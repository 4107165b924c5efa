/* SPDX-License-Identifier: MIT
 *
 * What the files of this folder share. Nobody else includes it, tests of this folder apart.
 */
#ifndef RAD_STORE_STORE_INTERNAL_H
#define RAD_STORE_STORE_INTERNAL_H

#include "store/store.h"

#include <jansson.h>
#include <sqlite3.h>

#define STORE_INCREMENTAL 2	/* PRAGMA auto_vacuum: unused pages can be given back by pieces */

/* "RADS" in ASCII, at offset 68 of the file: file(1) and we know whose database it is. */
#define STORE_APPLICATION_ID 0x52414453

/* Up to this size the whole file is checked at every start (well under a second); above it only the tables that a start
 * depends on. Damage in old history then shows when that history is read, and costs that history alone. */
#define STORE_FULL_CHECK_BYTES ((int64_t)64 << 20)

/* Events on end that the clock was set, of one task; those after them are added to the last. */
#define STORE_CLOCKS_KEPT 16

/* In the order of enum series_value. */
#define SERIES_COLUMNS "mem_mib, smact, gract, power, smocc, dram, pcie_rx, pcie_tx"

/* Nothing of that job is left in `tasks`. */
#define STORE_NO_TASK_OF_JOB "NOT EXISTS(SELECT 1 FROM tasks WHERE task >= ?2 AND task < ?3)"

/* In the order in which account.c writes and reads them. */
#define STORE_ACCOUNT_COLUMNS "uid, gid, user, name, feed, state, submit_ms, start_ms, end_ms, wait_ms, held_ms, run_ms," \
	" suspended_ms, lost_ms, gpus, priority, time_limit_s, attempts, estimator, need_mib, comfort_mib, claim_mib, note"
#define STORE_ATTEMPT_COLUMNS "placed_ms, start_ms, end_ms, gpus, mode, claim_mib, exit_code, signal, verdict, evidence," \
	" peak_mib, smact, energy_j, host_peak_mib, ran_ms, cpu_ms, cpu_wait_ms"

/* The statements of the hot path, prepared once. */
#define STORE_STATEMENTS(X) \
	X(STORE_BEGIN, "BEGIN IMMEDIATE") \
	X(STORE_COMMIT, "COMMIT") \
	X(STORE_ROLLBACK, "ROLLBACK") \
	X(STORE_ADD_JOB, "INSERT INTO jobs(job, uid, gid, user, submit_ms, spec, environ)" \
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)") \
	X(STORE_SET_SPEC, "UPDATE jobs SET spec = ?2 WHERE job = ?1") \
	X(STORE_ADD_EVENT, "INSERT INTO events(task, t_ms, kind, body) VALUES (?1, ?2, ?3, ?4)") \
	X(STORE_JOIN_CLOCK_SET, "UPDATE events SET t_ms = ?2, body = json_set(body, '$.by_ms', json_extract(body, '$.by_ms') + ?3)" \
		" WHERE seq = (SELECT max(seq) FROM events WHERE task = ?1) AND json_valid(body) AND ?4 =" \
		" (SELECT sum(kind = 'clock_set') FROM (SELECT kind FROM events WHERE task = ?1 ORDER BY seq DESC LIMIT ?4))") \
	X(STORE_PUT_TASK, "INSERT INTO tasks(task, uid, live, state, submit_ms, end_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)" \
		" ON CONFLICT(task) DO UPDATE SET live = excluded.live, state = excluded.state, submit_ms = excluded.submit_ms," \
		" end_ms = excluded.end_ms WHERE live <> excluded.live OR state <> excluded.state OR" \
		" submit_ms <> excluded.submit_ms OR end_ms <> excluded.end_ms") \
	X(STORE_PUT_ACCOUNT, "INSERT OR REPLACE INTO accounts(task, " STORE_ACCOUNT_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6," \
		" ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)") \
	X(STORE_PUT_ATTEMPT, "INSERT OR REPLACE INTO account_attempts(task, n, " STORE_ATTEMPT_COLUMNS ") VALUES (?1, ?2, ?3," \
		" ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)") \
	X(STORE_GET_ACCOUNT, "SELECT " STORE_ACCOUNT_COLUMNS " FROM accounts WHERE task = ?1") \
	X(STORE_GET_ATTEMPTS, "SELECT " STORE_ATTEMPT_COLUMNS " FROM account_attempts WHERE task = ?1 ORDER BY n") \
	X(STORE_DROP_ACCOUNT, "DELETE FROM accounts WHERE task = ?1") \
	X(STORE_DROP_ATTEMPTS, "DELETE FROM account_attempts WHERE task = ?1") \
	X(STORE_ADD_OUTCOME, "INSERT INTO outcomes(told_ms, signature, gpu, estimator, verdict, comfort_mib, claim_mib, peak_mib," \
		" retry_mib, fenced, warm, alone_s, alone_gract, alone_smact, work_s, alone_dram, alone_watts, inferred, pace," \
		" host_pace, cores)" \
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)") \
	X(STORE_DROP_OUTCOME, "DELETE FROM outcomes WHERE seq = ?1") \
	X(STORE_GET_JOB, "SELECT uid, gid, user, spec, environ FROM jobs WHERE job = ?1") \
	X(STORE_GET_SPEC, "SELECT uid, gid, user, spec FROM jobs WHERE job = ?1") \
	X(STORE_GET_OWNER, "SELECT uid, gid, user FROM jobs WHERE job = ?1") \
	X(STORE_GET_EVENTS, "SELECT t_ms, kind, body FROM events WHERE task = ?1 ORDER BY seq") \
	X(STORE_GET_ENDED, "SELECT t_ms, kind, body FROM events WHERE task = ?1 AND kind <> 'measured' ORDER BY seq") \
	X(STORE_GET_SUMS, "SELECT t_ms, kind, body FROM events WHERE task = ?1 AND kind NOT IN ('measured', 'estimated')" \
		" ORDER BY seq") \
	X(STORE_IS_FOLDED, "SELECT folded FROM jobs WHERE job = ?1") \
	X(STORE_FOLD_EVENTS, "DELETE FROM events WHERE task >= ?1 AND task < ?2 AND kind = 'measured'") \
	X(STORE_FOLD_JOB, "UPDATE jobs SET folded = 1, environ = '[]', spec = CASE WHEN json_valid(spec) THEN" \
		" json_remove(json_replace(spec, '$.script', ''), '$.capture', '$.model') ELSE spec END WHERE job = ?1") \
	X(STORE_FORGET_EVENTS, "DELETE FROM events WHERE task = ?1") \
	X(STORE_FORGET_TASK, "DELETE FROM tasks WHERE task = ?1") \
	X(STORE_FORGET_JOB, "DELETE FROM jobs WHERE job = ?1 AND job < (SELECT max(job) FROM jobs) AND " STORE_NO_TASK_OF_JOB) \
	X(STORE_FORGET_LAST_JOB, "UPDATE jobs SET user = '', spec = '{}', environ = '[]' WHERE job = ?1 AND " STORE_NO_TASK_OF_JOB) \
	X(STORE_GET_KNOWN, "SELECT 1 FROM tasks WHERE task = ?1") \
	X(STORE_GET_STATES, "SELECT task, state FROM tasks WHERE task >= ?1 AND task < ?2 ORDER BY task") \
	X(STORE_GET_META, "SELECT value FROM meta WHERE key = ?1") \
	X(STORE_SET_META, "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)") \
	X(STORE_DEL_META, "DELETE FROM meta WHERE key = ?1") \
	X(STORE_PUT_GPU, "INSERT INTO gpus(uuid, place, name, mem_total_mib) VALUES (?1, ?2, ?3, ?4) ON CONFLICT(uuid) DO UPDATE" \
		" SET place = excluded.place, name = excluded.name, mem_total_mib = excluded.mem_total_mib" \
		" WHERE place <> excluded.place OR name <> excluded.name OR mem_total_mib <> excluded.mem_total_mib") \
	X(STORE_PUT_MEANS, "INSERT OR REPLACE INTO series(t_s, gpu, step_s, " SERIES_COLUMNS ")" \
		" SELECT ?2, gpu, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM gpus WHERE uuid = ?1") \
	X(STORE_JOIN_MEANS, "INSERT OR REPLACE INTO series(t_s, gpu, step_s, " SERIES_COLUMNS ")" \
		" SELECT t_s / ?3 * ?3, gpu, ?3, round(avg(mem_mib)), round(avg(smact)), round(avg(gract)), round(avg(power))," \
		" round(avg(smocc)), round(avg(dram)), round(avg(pcie_rx)), round(avg(pcie_tx))" \
		" FROM series WHERE t_s >= ?1 AND t_s < ?2 AND step_s < ?3 GROUP BY t_s / ?3, gpu") \
	X(STORE_DROP_JOINED, "DELETE FROM series WHERE t_s >= ?1 AND t_s < ?2 AND step_s < ?3") \
	X(STORE_DROP_OLD_MEANS, "DELETE FROM series WHERE t_s < ?1")

enum store_statement {
#define X(name, sql) name,
	STORE_STATEMENTS(X)
#undef X
	STORE_STATEMENT_COUNT
};

/* Ended tasks, in the order of their ends, those of one user (?1) or of all (?1 is -1), each by an index of its own: with "or"
 * in one statement there would be none for a user. */
#define STORE_ENDED_OF(uid, rest) \
	((uid) == -1 ? "SELECT task, end_ms FROM tasks WHERE live = 0 AND ?1 = -1 AND " rest " ORDER BY end_ms, task LIMIT ?2" \
		     : "SELECT task, end_ms FROM tasks WHERE live = 0 AND uid = ?1 AND " rest " ORDER BY end_ms, task LIMIT ?2")

/* Of struct store_span: from_ms, from, to_ms and to, as places of the statement. */
#define STORE_IN_SPAN(from_ms, from, to_ms, to) \
	"(end_ms, task) >= (" from_ms ", " from ") AND (end_ms, task) < (" to_ms ", " to ")"

/* Of a row of `tasks`; it may be so where the clock was set, since an event has the time that it had then. */
#define STORE_PLACED_BEFORE(ms) \
	"EXISTS (SELECT 1 FROM events WHERE events.task = tasks.task AND (kind = 'placed' AND t_ms < " ms " OR kind = 'clock_set'))"

/* What is wanted of a task, each more than the one before: load.c says how it is read. History does not need environments,
 * which are most of the bytes. */
enum store_depth { STORE_SUMS, STORE_ENDED, STORE_ALL };

struct store {
	sqlite3 *db;
	char *path;		/* DIR/rad.db */
	sqlite3_stmt *statements[STORE_STATEMENT_COUNT];
	bool dirty;		/* a transaction is open */
	struct error doomed;	/* why that transaction can no longer be committed; ERR_NONE: it can */
	uint32_t next_job;
	uint32_t reserved_job;	/* numbers below it may be given out: numbers.c */
	char mark[STORE_MARK_LEN];
	int64_t marked_ms;
	struct store_request {	/* of the job that was read last: elements of an array come one after another, and share it */
		uint32_t job;
		enum store_depth depth;	/* of `spec` */
		struct spec *spec;	/* one reference; NULL: none */
		struct error broken;	/* why `spec` is not what was submitted; ERR_NONE: it is */
	} last;
	struct store_body { char *text; json_t *value; } bodies[EVENT_KIND_COUNT];	/* that were read last, of each kind */
};

#define scoped_statement __attribute__((cleanup(store_scope_finalize))) sqlite3_stmt
static inline void store_scope_finalize(sqlite3_stmt **st) { sqlite3_finalize(*st); }

/* place.c: the folder: made with mode 0700, ours, and on a file system where locks and fsync mean something. */
int store_place(const char *dir, struct error *err);
/* The name of the network file system behind a statfs(2) magic number and a mountinfo(5) type; NULL if it is local. */
const char *store_network_fs(unsigned long magic, const char *mount_type);
/* What a line of mountinfo(5) says of a mount; false: it is of another device, and *m is not told. */
struct store_mount { char type[64]; bool halted; };
bool store_mount_line(const char *line, dev_t dev, struct store_mount *m);

/* numbers.c: the number of the next job, from what is stored and what was given out before. */
int numbers_open(struct store *s, struct error *err);

/* open.c */
struct store *store_open_schema(const char *dir, const char *const *steps, int n_steps, struct error *err);

/* schema.c: step i leads from version i to i+1. */
extern const char *const store_schema_steps[STORE_SCHEMA];
/* Brings the file from `version` to `n_steps`, all or nothing; a copy of a file that holds something is made first. */
int store_migrate(struct store *s, int version, const char *const *steps, int n_steps, struct error *err);

/* store.c: sets *err from SQLite's last failure on this connection. Returns -1. */
int store_fail(struct store *s, int rc, struct error *err);
/* The same for a disk that does not read or write; `no`: errno, 0 when it is not known. */
int store_fail_disk(struct store *s, int no, struct error *err);
int store_exec(struct store *s, const char *sql, struct error *err);
/* Steps to the first row; none is an error. Finalize *st. */
int store_first_row(struct store *s, const char *sql, sqlite3_stmt **st, struct error *err);
/* The first column of the first row as a number. */
int store_query_int(struct store *s, const char *sql, int64_t *value, struct error *err);
/* Runs a change inside the transaction, which it begins if need be. One value a letter: 'i' int64_t, 'd' double (NaN is NULL),
 * 't' const char * (NULL allowed). */
int store_change(struct store *s, struct error *err, enum store_statement which, const char *types, ...);
/* Dooms the transaction: `what` has no JSON form. Returns -1. */
int store_doom(struct store *s, struct error *err, const char *what);
/* Takes over `value`. Its text, to be freed; NULL where it is no object, or memory is short. */
char *store_object_text(json_t *value);
/* Before the request of that job becomes another one: `last` is not to be it. */
void store_forget_request(struct store *s, uint32_t job);
/* Begins the transaction if need be. */
int store_begin(struct store *s, struct error *err);
/* append.c: writes the index row of a task inside the open transaction, and its account if it has ended. */
int store_put_task(struct store *s, const struct task *t, bool live, struct error *err);

/* account.c: the rows of a task that has ended, written inside the open transaction with its row of `tasks`. */
int store_put_account(struct store *s, const struct task *t, struct error *err);
int store_drop_account(struct store *s, task_id id, struct error *err);
/* The task as accounts have it; NULL: there are no rows of it, or they cannot be read, and its log is to be. `*owner`: a spec
 * of the one before, whose reference is the caller's; replaced where it is another's. */
struct task *store_load_account(struct store *s, task_id id, struct spec **owner);

/* load.c: fills an empty `tasks` table, and the accounts, from the event log. */
int store_rebuild_index(struct store *s, struct error *err);

#endif
