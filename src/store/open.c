/* SPDX-License-Identifier: MIT
 * Opening rad.db. Everything that could be wrong with the file is found before anything is written to it: a file that is
 * refused is left, bytes and WAL, as it was.
 *
 * The order matters, and each step says why it stands where it does: our own look at the bytes comes before SQLite's connection
 * (locks), the connection does not write the WAL back until the file is accepted (NO_CKPT_ON_CLOSE), whose file it is comes
 * before whether it is whole, and only then is anything migrated, after a copy. What is checked of a large file, and what not,
 * is doc/decisions/0020.
 */
#include "store/store_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static const char sqlite_magic[16] = "SQLite format 3";

/* An empty or missing file beside a full WAL: SQLite would take it for new and throw the WAL away. */
static int check_orphan_wal(const char *path, struct error *err)
{
	scoped_free char *wal = alloc_printf("%s-wal", path);
	struct stat st;
	if (stat(wal, &st) || !st.st_size)
		return 0;
	return error_set(err, ERR_CORRUPT, "%s: is missing or empty, but %s holds data that belongs to it: put the file back, "
			 "or move both away to begin anew; nothing was changed", path, wal);
}

/* Who owns it may read environments there, and write who runs what as whom. */
static int check_owner(const char *path, const struct stat *st, struct error *err)
{
	if (st->st_uid == geteuid())
		return 0;
	return error_set(err, ERR_DENIED, "%s: belongs to uid %u, as after it was put back from a copy: chown %u %s", path,
			 (unsigned)st->st_uid, (unsigned)geteuid(), path);
}

/* It holds environments. */
static int hide(const char *path, int fd, const struct stat *st, struct error *err)
{
	return (st->st_mode & 077) && fchmod(fd, 0600) ? error_errno(err, "%s: mode 0600", path) : 0;
}

/* Looks at the bytes before SQLite does. Must come before the connection: closing a second descriptor of the file would
 * drop SQLite's POSIX locks. */
static int check_bytes(const char *path, struct error *err)
{
	scoped_fd int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return check_orphan_wal(path, err);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "%s: cannot be opened", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "%s: is not a regular file: move it away, or choose another folder with "
				 "--state", path);
	if (check_owner(path, &st, err))
		return -1;
	char head[sizeof sqlite_magic];
	ssize_t got = io_read_full(fd, head, sizeof head);
	if (got < 0)
		return error_errno(err, "%s: cannot be read", path);
	if (!got)
		return check_orphan_wal(path, err);
	if (got < (ssize_t)sizeof head || memcmp(head, sqlite_magic, sizeof head))
		return error_set(err, ERR_CORRUPT, "%s: is not a database, or its beginning is damaged: restore it from a "
				 "copy, or move it away to begin anew; nothing was changed", path);
	return hide(path, fd, &st, err);
}

/* The WAL, or its index: what is in them counts as if it were in the file, and SQLite takes them as they are. */
static int check_beside(const char *path, const char *end, struct error *err)
{
	scoped_free char *beside = alloc_printf("%s%s", path, end);
	scoped_fd int fd = open(beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st))
		return error_errno(err, "%s: cannot be opened", beside);
	return check_owner(beside, &st, err) ? -1 : hide(beside, fd, &st, err);
}

/* SQLite would create the file readable by others; it gives its WAL the mode of the file. */
static int make_file(const char *dir, const char *path, struct error *err)
{
	scoped_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	scoped_fd int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || folder < 0 || fsync(folder))
		return error_errno(err, "%s", path);
	return 0;
}

static int connect_file(struct store *s, struct error *err)
{
	int rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
	if (rc)
		return store_fail(s, rc, err);
	/* Until the file is accepted, closing must not write the WAL back into it. */
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_busy_timeout(s->db, 2000);
	return 0;
}

static int refuse_newer(struct store *s, int64_t version, int known, struct error *err)
{
	const char *who = NULL;
	scoped_statement *st = NULL;
	if (!sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key = 'written_by'", -1, &st, NULL) &&
	    sqlite3_step(st) == SQLITE_ROW)
		who = (const char *)sqlite3_column_text(st, 0);
	return error_set(err, ERR_CONFLICT, "%s: was written by RAD-RM %s (schema %lld), newer than this one, %s (schema %d): "
			 "install that version again, or choose another folder with --state; nothing was changed", s->path,
			 who ? who : "of a later version", (long long)version, RAD_VERSION, known);
}

static int refuse_damaged(struct store *s, const char *how, struct error *err)
{
	return error_set(err, ERR_CORRUPT, "%s: is damaged (%.200s): keep a copy of the folder, then restore rad.db from a "
			 "backup, or move rad.db and rad.db-wal away to begin anew; nothing was changed", s->path, how);
}

/* Whose file it is and how old. A new, empty one is version 0. */
static int open_identify(struct store *s, int known, int *version, struct error *err)
{
	int64_t application, user_version, objects;
	if (store_query_int(s, "PRAGMA application_id", &application, err) ||
	    store_query_int(s, "PRAGMA user_version", &user_version, err) ||
	    store_query_int(s, "SELECT count(*) FROM sqlite_schema", &objects, err))
		return -1;
	bool empty = !application && !user_version && !objects;
	if (!empty && application != STORE_APPLICATION_ID)
		return error_set(err, ERR_INVALID, "%s: is the database of another program: choose another folder with "
				 "--state; nothing was changed", s->path);
	if (user_version > known)
		return refuse_newer(s, user_version, known, err);
	if (!empty && user_version < 1)
		return refuse_damaged(s, "its schema has no number", err);
	*version = (int)user_version;
	return 0;
}

/* SQLite's check calls a page damaged that the disk did not give. So before a file is, it is read once more, as it is. */
static int check_disk(struct store *s, int which, struct error *err)
{
	static char bytes[65536];
	sqlite3_file *f = NULL;
	sqlite3_int64 size = 0;
	if (sqlite3_file_control(s->db, "main", which, &f) || !f || !f->pMethods || f->pMethods->xFileSize(f, &size))
		return 0;
	for (sqlite3_int64 at = 0; at < size; at += sizeof bytes) {
		int rc = f->pMethods->xRead(f, bytes, (int)(size - at < (int)sizeof bytes ? size - at : (int)sizeof bytes), at);
		if (rc && rc != SQLITE_IOERR_SHORT_READ)
			return store_fail_disk(s, errno, err);
	}
	return 0;
}

static int run_check(struct store *s, const char *sql, struct error *err)
{
	scoped_statement *st = NULL;
	if (store_first_row(s, sql, &st, err))
		return -1;
	const char *said = (const char *)sqlite3_column_text(st, 0);
	if (said && !strcmp(said, "ok"))
		return 0;
	if (check_disk(s, SQLITE_FCNTL_FILE_POINTER, err) || check_disk(s, SQLITE_FCNTL_JOURNAL_POINTER, err))
		return -1;
	return refuse_damaged(s, said ? said : "no answer", err);
}

static int check_whole(struct store *s, struct error *err)
{
	int64_t bytes;
	if (store_query_int(s, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", &bytes, err))
		return -1;
	if (bytes <= STORE_FULL_CHECK_BYTES)
		return run_check(s, "PRAGMA quick_check(1)", err);
	if (run_check(s, "PRAGMA quick_check(tasks)", err))
		return -1;
	return run_check(s, "PRAGMA quick_check(meta)", err);
}

/* cache_size in KiB; a WAL that has grown beyond 16 MiB is cut when it is next reset, so that one large turn does not stay
 * on disk. */
static int set_up(struct store *s, struct error *err)
{
	scoped_statement *st = NULL;
	/* Of a file without tables; a later one stays as it was made. */
	if (store_exec(s, "PRAGMA auto_vacuum = INCREMENTAL", err) ||
	    store_first_row(s, "PRAGMA journal_mode = WAL", &st, err))
		return -1;
	if (strcmp((const char *)sqlite3_column_text(st, 0), "wal"))
		return error_set(err, ERR_UNAVAILABLE, "%s: this file system cannot hold a write-ahead log (no shared "
				 "memory): choose another folder with --state", s->path);
	sqlite3_reset(st);
	return store_exec(s, "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 16777216; PRAGMA temp_store = MEMORY;"
			  "PRAGMA cache_size = -4096", err);
}

static int open_prepare(struct store *s, struct error *err)
{
	static const char *const sql[] = {
#define X(name, text) [name] = text,
		STORE_STATEMENTS(X)
#undef X
	};
	for (size_t i = 0; i < COUNT_OF(sql); i++) {
		int rc = sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL);
		if (rc)
			return store_fail(s, rc, err);
	}
	return 0;
}

/* What a newer schema's refusal names. */
static int open_sign(struct store *s, struct error *err)
{
	scoped_free char *was = store_get_meta(s, "written_by");
	if (was && !strcmp(was, RAD_VERSION))
		return 0;
	return store_set_meta(s, "written_by", RAD_VERSION, err);
}

/* The attempts in the state folder belong to the store that placed them, not to one that is begun anew beside them and gives
 * out the same ids. One that an earlier release made has had a mark since now. */
static int open_mark(struct store *s, struct error *err)
{
	scoped_free char *was = store_get_meta(s, "store");
	long long since = 0;
	int64_t used;
	uint64_t mark;
	if (was && sscanf(was, "%16[0-9a-f] %lld", s->mark, &since) == 2 && strlen(s->mark) == STORE_MARK_LEN - 1) {
		s->marked_ms = since;
		return 0;
	}
	if (store_query_int(s, "SELECT EXISTS(SELECT 1 FROM jobs)", &used, err))
		return -1;
	if (getrandom(&mark, sizeof mark, 0) != sizeof mark)
		return error_errno(err, "%s: getrandom", s->path);
	snprintf(s->mark, sizeof s->mark, "%016llx", (unsigned long long)mark);
	s->marked_ms = used ? clock_wall_ms() : 0;
	scoped_free char *text = alloc_printf("%s %lld", s->mark, (long long)s->marked_ms);
	return store_set_meta(s, "store", text, err);
}

/* A step of the schema may drop `tasks`: the log has everything. */
static int rebuild_if_missing(struct store *s, struct error *err)
{
	int64_t missing;
	if (store_query_int(s, "SELECT EXISTS(SELECT 1 FROM events) AND NOT EXISTS(SELECT 1 FROM tasks)", &missing, err))
		return -1;
	return missing ? store_rebuild_index(s, err) : 0;
}

static int open_start(struct store *s, struct error *err)
{
	if (open_prepare(s, err) || rebuild_if_missing(s, err) || open_sign(s, err) || open_mark(s, err) || store_commit(s, err) ||
	    numbers_open(s, err))
		return -1;
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	return 0;
}

struct store *store_open_schema(const char *dir, const char *const *steps, int n_steps, struct error *err)
{
	if (store_place(dir, err))
		return NULL;
	struct store *s = alloc_zero(sizeof *s);
	s->path = alloc_printf("%s/rad.db", dir);
	int version = 0;
	if (check_bytes(s->path, err) || check_beside(s->path, "-wal", err) || check_beside(s->path, "-shm", err) ||
	    make_file(dir, s->path, err) || connect_file(s, err) ||
	    open_identify(s, n_steps, &version, err) || check_whole(s, err) || set_up(s, err) ||
	    store_migrate(s, version, steps, n_steps, err) || open_start(s, err)) {
		store_close(s);
		return NULL;
	}
	return s;
}

/* Between the installation of a newer release and the daemon's next start, that reads what the older one wrote. */
static int check_schema(struct store *s, struct error *err)
{
	int64_t version = 0;
	if (store_query_int(s, "PRAGMA user_version", &version, err))
		return -1;
	if (version == STORE_SCHEMA)
		return 0;
	return error_set(err, ERR_CONFLICT, "%s: is of schema %lld, and the release that is installed reads %d: restart radd, which "
			 "is of another (tasks go on)", s->path, (long long)version, STORE_SCHEMA);
}

/* For a process beside the daemon. It sees only what is committed, and cannot write, whatever it is made to do. */
struct store *store_open_reader(const char *dir, struct error *err)
{
	struct store *s = alloc_zero(sizeof *s);
	s->path = alloc_printf("%s/rad.db", dir);
	int rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
	if (rc)
		store_fail(s, rc, err);
	else
		sqlite3_busy_timeout(s->db, 2000);
	if (!rc && !check_schema(s, err) && !open_prepare(s, err))
		return s;
	store_close(s);
	return NULL;
}

struct store *store_open(const char *dir, struct error *err)
{
	return store_open_schema(dir, store_schema_steps, STORE_SCHEMA, err);
}
