/* SPDX-License-Identifier: MIT
 * Opening: what is refused stays byte for byte as it was; what is older is migrated, with a copy kept.
 */
#include "store/test_fixture.h"

#include <errno.h>

static void a_new_store_is_private(void **state)
{
	scoped_free char *dir = fixture_path(*state, "a/b");
	scoped_free char *db = fixture_path(dir, "rad.db");
	scoped_free char *wal = fixture_path(dir, "rad.db-wal");
	mode_t mask = umask(0);
	struct store *s = fixture_open(dir);
	task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	struct stat st;
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(stat(db, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(wal, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	store_close(s);
	assert_int_equal(chmod(db, 0644), 0);
	store_close(fixture_open(dir));
	assert_int_equal(stat(db, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	umask(mask);
}

/* A store with three tasks, closed. */
static void make_store(const char *dir)
{
	struct store *s = fixture_open(dir);
	for (int i = 0; i < 3; i++)
		task_destroy(fixture_submit(s, 1000, 1));
	fixture_commit(s);
	store_close(s);
}

static void same_bytes(const char *dir, const char *name, const struct buf *before)
{
	scoped_buf after = { 0 };
	fixture_read(dir, name, &after);
	assert_int_equal(before->len, after.len);
	assert_memory_equal(before->data, after.data, after.len);
}

/* Writes rad.db anew, sees it refused, and that not a byte of it changed. */
static void refused_untouched(const char *dir, const struct buf *bytes, enum error_code code, const char *words)
{
	fixture_write(dir, "rad.db", bytes->data, bytes->len);
	fixture_refused(dir, code, words);
	same_bytes(dir, "rad.db", bytes);
}

static void damaged_files_are_refused(void **state)
{
	scoped_buf good = { 0 };
	make_store(*state);
	fixture_read(*state, "rad.db", &good);
	size_t page = 4096;
	assert_true(good.len >= 4 * page);

	scoped_buf bad = { 0 };
	buf_add(&bad, good.data, good.len);
	memset(bad.data, 0x5a, 64);
	refused_untouched(*state, &bad, ERR_CORRUPT, "not a database");

	buf_drop(&bad, bad.len);
	buf_add_text(&bad, "hello");
	refused_untouched(*state, &bad, ERR_CORRUPT, "not a database");

	buf_drop(&bad, bad.len);
	buf_add(&bad, good.data, good.len - page);	/* cut */
	refused_untouched(*state, &bad, ERR_CORRUPT, "is damaged");

	for (size_t at = 100; at < good.len; at += page) {	/* the head of every page's tree node */
		size_t node = at == 100 ? 100 : at - 100;
		buf_drop(&bad, bad.len);
		buf_add(&bad, good.data, good.len);
		memset(bad.data + node, 0xff, 12);
		refused_untouched(*state, &bad, ERR_CORRUPT, "is damaged");
	}
	fixture_write(*state, "rad.db", good.data, good.len);
	struct store *s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 3);
	store_close(s);
}

/* Damage in the header that SQLite does not look at: from a number below 0 no step leads on. */
static void a_file_of_no_schema_is_refused(void **state)
{
	static const char *const sql[] = { "PRAGMA user_version = 0", "PRAGMA user_version = -1000000" };
	make_store(*state);
	for (size_t i = 0; i < COUNT_OF(sql); i++) {
		scoped_buf before = { 0 };
		fixture_sql(*state, sql[i]);
		fixture_read(*state, "rad.db", &before);
		fixture_refused(*state, ERR_CORRUPT, "is damaged (its schema has no number)");
		same_bytes(*state, "rad.db", &before);
	}
}

/* SQLite's way to the disk, but for what lies behind the first page: while it fails, the disk does not give it. */
static struct {
	sqlite3_vfs vfs, *below;
	bool fails;
	sqlite3_io_methods methods;
	int (*read)(sqlite3_file *, void *, int, sqlite3_int64);
} bad_disk;

static int bad_read(sqlite3_file *f, void *bytes, int n, sqlite3_int64 at)
{
	if (at + n <= 4096 || !bad_disk.fails)
		return bad_disk.read(f, bytes, n, at);
	errno = EIO;
	return SQLITE_IOERR_READ;
}

static int bad_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	(void)vfs;
	int rc = bad_disk.below->xOpen(bad_disk.below, name, f, flags, out);
	if (rc || !(flags & SQLITE_OPEN_MAIN_DB))
		return rc;
	bad_disk.methods = *f->pMethods;
	bad_disk.read = f->pMethods->xRead;
	bad_disk.methods.xRead = bad_read;
	f->pMethods = &bad_disk.methods;
	return rc;
}

static void take_bad_disk(void)
{
	bad_disk.below = sqlite3_vfs_find(NULL);
	bad_disk.vfs = *bad_disk.below;
	bad_disk.vfs.zName = "bad disk";
	bad_disk.vfs.xOpen = bad_open;
	sqlite3_vfs_register(&bad_disk.vfs, 1);
}

static void a_disk_that_fails_is_not_a_damaged_file(void **state)
{
	make_store(*state);
	take_bad_disk();
	bad_disk.fails = true;
	fixture_refused(*state, ERR_UNAVAILABLE, "disk error (Input/output error): check the disk");
	sqlite3_vfs_unregister(&bad_disk.vfs);
	struct store *s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 3);
	store_close(s);
}

/* SQLite rolls a transaction back when the disk does not give what is read within it. */
static void a_read_that_fails_ends_the_turn_whole(void **state)
{
	struct error err = ERROR_INIT;
	make_store(*state);
	/* On pages of its own. */
	fixture_sql(*state, "UPDATE jobs SET environ = '[\"A=' || hex(zeroblob(50000)) || '\"]' WHERE job = 2");
	take_bad_disk();
	bad_disk.fails = false;
	struct store *s = fixture_open(*state);
	task_destroy(fixture_submit(s, 1000, 2));
	sqlite3_db_release_memory(s->db);
	bad_disk.fails = true;
	assert_null(store_load_task(s, TASK_ID(2, -1), &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	bad_disk.fails = false;
	assert_int_equal(store_set_meta(s, "of the same turn", "1", &err), -1);
	err = ERROR_INIT;
	assert_int_equal(store_commit(s, &err), -1);
	if (err.code != ERR_UNAVAILABLE || !strstr(err.text, "disk error"))
		fail_msg("%s", err.text);
	assert_null(store_get_meta(s, "of the same turn"));
	assert_int_equal(fixture_live(s).n, 3);
	task_destroy(fixture_submit(s, 1000, 3));
	fixture_commit(s);
	assert_int_equal(fixture_live(s).n, 4);
	store_close(s);
	sqlite3_vfs_unregister(&bad_disk.vfs);
}

/* Above STORE_FULL_CHECK_BYTES only the index is checked, but that still is. */
static void a_big_damaged_file_is_refused(void **state)
{
	make_store(*state);
	fixture_sql(*state, "PRAGMA writable_schema = on; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM "
			    "sqlite_schema WHERE name = 'jobs') WHERE name = 'tasks'");
	fixture_refused(*state, ERR_CORRUPT, "is damaged");
	scoped_free char *path = fixture_path(*state, "rad.db");
	fixture_sql(*state, "PRAGMA writable_schema = on; INSERT INTO meta VALUES ('pad', hex(zeroblob(40000000)))");
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > STORE_FULL_CHECK_BYTES);
	fixture_refused(*state, ERR_CORRUPT, "is damaged");
}

static void a_wal_without_its_file_is_not_thrown_away(void **state)
{
	make_store(*state);
	fixture_write(*state, "rad.db-wal", "0123456789", 10);
	fixture_write(*state, "rad.db", "", 0);
	fixture_refused(*state, ERR_CORRUPT, "rad.db-wal holds data that belongs to it");
	scoped_free char *path = fixture_path(*state, "rad.db");
	assert_int_equal(unlink(path), 0);
	fixture_refused(*state, ERR_CORRUPT, "is missing or empty");
	scoped_buf wal = { 0 };
	fixture_read(*state, "rad.db-wal", &wal);
	assert_int_equal(wal.len, 10);
	assert_false(fixture_exists(*state, "rad.db"));
}

static void other_files_are_refused(void **state)
{
	scoped_free char *path = fixture_path(*state, "rad.db");
	assert_int_equal(mkfifo(path, 0600), 0);	/* must not hang either */
	fixture_refused(*state, ERR_INVALID, "not a regular file");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	fixture_refused(*state, ERR_SYSTEM, "cannot be opened");
	rmdir(path);
	fixture_sql(*state, "CREATE TABLE bookmarks(url TEXT)");
	scoped_buf before = { 0 };
	fixture_read(*state, "rad.db", &before);
	fixture_refused(*state, ERR_INVALID, "database of another program");
	same_bytes(*state, "rad.db", &before);
}

static void a_file_we_may_not_read_is_refused(void **state)
{
	if (!geteuid())
		skip();	/* root reads everything */
	make_store(*state);
	scoped_free char *path = fixture_path(*state, "rad.db");
	assert_int_equal(chmod(path, 0), 0);
	fixture_refused(*state, ERR_SYSTEM, "cannot be opened");
}

static void a_file_of_another_user_is_refused(void **state)
{
	if (geteuid())
		skip();	/* only root can give a file away */
	make_store(*state);
	scoped_free char *path = fixture_path(*state, "rad.db");
	assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
	fixture_refused(*state, ERR_DENIED, "belongs to uid 12345");
	assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	store_close(fixture_open(*state));
}

/* Put back with their file by somebody who has it as his, or in a folder where all may read: SQLite leaves them so. */
static void what_stands_beside_the_file_is_ours_alone(void **state)
{
	static const char *const names[] = { "rad.db-wal", "rad.db-shm" };
	struct buf files[COUNT_OF(names)] = { { 0 } };
	make_store(*state);
	struct store *copied = fixture_open(*state);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		fixture_read(*state, names[i], &files[i]);
	store_close(copied);
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		scoped_free char *path = fixture_path(*state, names[i]), *said = alloc_printf("%s: belongs to uid 12345", names[i]);
		struct stat st;
		fixture_write(*state, names[i], files[i].data, files[i].len);
		assert_int_equal(chmod(path, 0644), 0);
		struct store *store = fixture_open(*state);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		store_close(store);
		if (geteuid())
			continue;	/* only root can give a file away */
		fixture_write(*state, names[i], files[i].data, files[i].len);
		assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
		fixture_refused(*state, ERR_DENIED, said);
		assert_int_equal(unlink(path), 0);
	}
	for (size_t i = 0; i < COUNT_OF(names); i++)
		buf_free(&files[i]);
}

static void a_newer_schema_is_refused(void **state)
{
	make_store(*state);
	/* Left in the WAL, as by a daemon that was killed: it must not even be written back. */
	scoped_free char *path = fixture_path(*state, "rad.db");
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), 0);
	sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	scoped_free char *sql = alloc_printf("PRAGMA user_version = %d; UPDATE meta SET value = '9.8.7' WHERE key = 'written_by'",
					     STORE_SCHEMA + 1);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), 0);
	sqlite3_close(db);
	scoped_buf file = { 0 }, wal = { 0 };
	fixture_read(*state, "rad.db", &file);
	fixture_read(*state, "rad.db-wal", &wal);
	assert_true(wal.len > 0);
	scoped_free char *newer = alloc_printf("was written by RAD-RM 9.8.7 (schema %d), newer than this one, " RAD_VERSION
					       " (schema %d)", STORE_SCHEMA + 1, STORE_SCHEMA);
	scoped_free char *nameless = alloc_printf("RAD-RM of a later version (schema %d)", STORE_SCHEMA + 1);
	fixture_refused(*state, ERR_CONFLICT, newer);
	same_bytes(*state, "rad.db", &file);
	same_bytes(*state, "rad.db-wal", &wal);
	fixture_sql(*state, "DROP TABLE meta");	/* which a later version may do */
	fixture_refused(*state, ERR_CONFLICT, nameless);
}

/* Two steps of versions to come. */
static const char *const later[] = {
	"ALTER TABLE tasks ADD COLUMN note TEXT; UPDATE tasks SET note = 'old'",
	"DROP TABLE tasks; CREATE TABLE tasks(task INTEGER PRIMARY KEY, uid INTEGER NOT NULL, live INTEGER NOT NULL,"
	" state TEXT NOT NULL, submit_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, extra TEXT) STRICT",
};

static void with_later(const char *steps[STORE_SCHEMA + 2], const char *first, const char *second)
{
	memcpy(steps, store_schema_steps, STORE_SCHEMA * sizeof *steps);
	steps[STORE_SCHEMA] = first;
	steps[STORE_SCHEMA + 1] = second;
}

static void an_older_file_is_migrated_and_kept(void **state)
{
	struct error err = ERROR_INIT;
	const char *steps[STORE_SCHEMA + 2];
	with_later(steps, later[0], later[1]);
	make_store(*state);
	struct store *s = store_open_schema(*state, steps, STORE_SCHEMA + 2, &err);
	if (!s)
		fail_msg("%s", err.text);
	int64_t version = 0;
	assert_int_equal(store_query_int(s, "PRAGMA user_version", &version, &err), 0);
	assert_int_equal(version, STORE_SCHEMA + 2);
	assert_int_equal(fixture_live(s).n, 3);	/* the new index was filled from the log */
	task_destroy(fixture_submit(s, 1000, 5));
	fixture_commit(s);
	store_close(s);

	scoped_free char *later_one = alloc_printf("(schema %d)", STORE_SCHEMA + 2);
	fixture_refused(*state, ERR_CONFLICT, later_one);
	scoped_free char *name = alloc_printf("rad.db.v%d", STORE_SCHEMA), *kept = fixture_path(*state, name);
	struct stat st;
	assert_int_equal(stat(kept, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	scoped_free char *db = fixture_path(*state, "rad.db");	/* going back is renaming the copy */
	assert_int_equal(rename(kept, db), 0);
	s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 3);
	store_close(s);
}

static void a_failed_migration_changes_nothing(void **state)
{
	struct error err = ERROR_INIT;
	const char *steps[STORE_SCHEMA + 2];
	with_later(steps, later[0], "CREATE TABLE broken(");
	make_store(*state);
	assert_null(store_open_schema(*state, steps, STORE_SCHEMA + 2, &err));
	scoped_free char *told = alloc_printf("migrating from schema %d to %d", STORE_SCHEMA, STORE_SCHEMA + 2);
	assert_non_null(strstr(err.text, told));
	struct store *s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 3);
	store_close(s);
}

static void an_empty_file_becomes_a_store(void **state)
{
	fixture_write(*state, "rad.db", "", 0);
	make_store(*state);
	fixture_sql(*state, "SELECT 1 FROM jobs, events, tasks, meta");
	assert_false(fixture_exists(*state, "rad.db.v0"));	/* there was nothing to keep */
	int64_t version = 0;
	struct store *s = fixture_open(*state);
	assert_int_equal(store_query_int(s, "PRAGMA user_version", &version, NULL), 0);
	assert_int_equal(version, STORE_SCHEMA);
	store_close(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(a_new_store_is_private),
		T(damaged_files_are_refused),
		T(a_file_of_no_schema_is_refused),
		T(a_disk_that_fails_is_not_a_damaged_file),
		T(a_read_that_fails_ends_the_turn_whole),
		T(a_big_damaged_file_is_refused),
		T(a_wal_without_its_file_is_not_thrown_away),
		T(other_files_are_refused),
		T(a_file_we_may_not_read_is_refused),
		T(a_file_of_another_user_is_refused),
		T(what_stands_beside_the_file_is_ours_alone),
		T(a_newer_schema_is_refused),
		T(an_older_file_is_migrated_and_kept),
		T(a_failed_migration_changes_nothing),
		T(an_empty_file_becomes_a_store),
	};
	return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
