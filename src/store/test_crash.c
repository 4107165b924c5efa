/* SPDX-License-Identifier: MIT
 * What a dying process and a real full disk leave: everything that was committed and nothing that was not.
 */
#include "store/test_fixture.h"

#include <signal.h>
#include <sys/resource.h>

/* Commits tasks, then dies by SIGKILL with `open_turn` more in an open transaction. */
static void write_and_die(const char *dir, int committed, int open_turn)
{
	pid_t pid = fork();
	if (!pid) {
		struct store *s = store_open(dir, NULL);
		for (int i = 0; s && i < committed; i++) {
			task_destroy(fixture_submit(s, 1000, 1));
			store_commit(s, NULL);
		}
		for (int i = 0; s && i < open_turn; i++)
			task_destroy(fixture_submit(s, 1000, 2));
		raise(SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_9_loses_only_the_open_turn(void **state)
{
	write_and_die(*state, 4, 3);
	struct store *s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 4);
	assert_int_equal(store_next_job(s), 5);
	store_close(s);
	write_and_die(*state, 1, 2000);	/* more than the page cache holds: part of the open turn is in the WAL already */
	s = fixture_open(*state);
	assert_int_equal(fixture_live(s).n, 5);
	store_close(s);
}

/* A WAL that ends in the middle, or whose end is garbage, as after a power loss. */
static void a_torn_wal_is_cut_after_its_last_whole_commit(void **state)
{
	write_and_die(*state, 6, 0);
	scoped_buf db = { 0 }, wal = { 0 };
	fixture_read(*state, "rad.db", &db);
	fixture_read(*state, "rad.db-wal", &wal);
	size_t before = 6;
	for (size_t cut = 0; cut < wal.len; cut += wal.len / 9 + 1) {
		scoped_buf torn = { 0 };
		buf_add(&torn, wal.data, wal.len - cut);
		for (size_t i = 0; i < 700 && i < torn.len && cut; i++)
			torn.data[torn.len - 1 - i] ^= 0x41;
		fixture_write(*state, "rad.db", db.data, db.len);
		fixture_write(*state, "rad.db-wal", buf_text(&torn), torn.len);
		scoped_free char *shm = fixture_path(*state, "rad.db-shm");
		unlink(shm);
		struct store *s = fixture_open(*state);
		struct fixture_list l = fixture_live(s);
		assert_true(l.n <= before);
		for (size_t i = 0; i < l.n; i++) {	/* whole turns, from the first on, without a gap */
			assert_int_equal(l.ids[i], TASK_ID(i + 1, -1));
			assert_string_equal(l.broken[i], "");
		}
		before = l.n;
		store_close(s);
	}
	assert_true(before < 6);
}

/* The kernel refuses to let any file grow: what a full disk does, without needing one. */
static void a_disk_that_is_really_full(void **state)
{
	struct store *s = fixture_open(*state);
	struct task *t = fixture_submit(s, 1000, 1);
	fixture_commit(s);
	struct rlimit was, full = { .rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY };
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	full.rlim_max = was.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	struct error err = ERROR_INIT;
	int stored = 0, rc = 0;
	for (; !rc && stored < 1000; stored += !rc) {
		task_destroy(fixture_submit(s, 1000, 2));
		rc = store_commit(s, &err);
	}
	assert_int_equal(rc, -1);
	if (err.code != ERR_UNAVAILABLE || !strstr(err.text, "no room on the disk"))
		fail_msg("%s", err.text);
	int64_t live = 0;
	assert_int_equal(store_query_int(s, "SELECT count(*) FROM tasks", &live, &err), 0);
	assert_int_equal(live, stored + 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	fixture_event(s, t, fixture_placed(10));
	fixture_commit(s);
	store_close(s);
	s = fixture_open(*state);
	fixture_same_as_stored(s, t);
	assert_int_equal(store_query_int(s, "SELECT count(*) FROM tasks", &live, &err), 0);
	assert_int_equal(live, stored + 1);
	store_close(s);
	task_destroy(t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(kill_9_loses_only_the_open_turn),
		T(a_torn_wal_is_cut_after_its_last_whole_commit),
		T(a_disk_that_is_really_full),
	};
	return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
