/* SPDX-License-Identifier: MIT
 * The toolbox: what people type (sizes, durations, numbers, times), growing bytes, the id map, files, processes.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/proc.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <unistd.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

static void sizes(void **state)
{
	(void)state;
	static const struct { const char *text; uint64_t mib; } good[] = {
		{ "40960", 40960 }, { "20G", 20480 }, { "20g", 20480 }, { "20GB", 20480 }, { "20GiB", 20480 },
		{ "20Gi", 20480 }, { "1.5G", 1536 },
		{ "512M", 512 }, { "1T", 1 << 20 }, { "1K", 1 }, { "2048K", 2 }, { "0", 0 }, { "20 G", 20480 }, { ".5G", 512 },
	};
	static const char *const bad[] = { "", "G", "-1", "1X", "1GG", "nan", "inf", "0x10", "20G extra", NULL };
	static const char *const large[] = { "1025T", "1073741825", "2000000T", "1e999", NULL };
	uint64_t mib;
	struct error err;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		assert_int_equal(units_parse_mib(good[i].text, &mib, NULL), 0);
		assert_int_equal(mib, good[i].mib);
	}
	for (size_t i = 0; bad[i]; i++) {
		if (!units_parse_mib(bad[i], &mib, &err))
			fail_msg("'%s' was taken for %llu MiB", bad[i], (unsigned long long)mib);
		assert_non_null(strstr(err.text, "is not a size"));
	}
	for (size_t i = 0; large[i]; i++) {
		assert_int_equal(units_parse_mib(large[i], &mib, &err), -1);
		assert_non_null(strstr(err.text, "is out of range: sizes go up to 1024T"));
	}
	assert_int_equal(units_parse_mib("1024T", &mib, NULL), 0);
	assert_int_equal(units_parse_mib(NULL, &mib, NULL), -1);
}

static void durations(void **state)
{
	(void)state;
	static const struct { const char *text; int64_t s; } good[] = {
		{ "10", 600 }, { "10:30", 630 }, { "1:00:00", 3600 }, { "1-0", 86400 }, { "1-12", 129600 }, { "1-12:30", 131400 },
		{ "2-01:02:03", 176523 }, { "90s", 90 }, { "15m", 900 }, { "2h", 7200 }, { "1d", 86400 }, { "0", 0 },
		{ "1h30m", 5400 }, { "1d2h3m4s", 93784 }, { "90:59", 5459 }, { "99:00:00", 356400 }, { "0-48:59:59", 176399 },
	};
	static const char *const bad[] = { "", "x", "1:", ":1", "1:2:3:4", "1-", "-1", "1-2-3", "1hh", "1 h",
		"1.5h", "1h30", "1m1h", "1h1h", "1h:30", "1-2h", "99:99", "0:60", "1:60:00", "1:00:60", "1-0:60", NULL };
	static const char *const outside[] = { "29s", "0", "3660d1s", "99999999999", "99999999999d", "99999999999999999999s",
		"99999999999999999999-0", "99999999999999999999:00", NULL };
	int64_t s;
	struct error err;
	for (size_t i = 0; i < COUNT_OF(good); i++) {
		assert_int_equal(units_parse_duration(good[i].text, 0, INT64_MAX, &s, NULL), 0);
		assert_int_equal(s, good[i].s);
	}
	for (size_t i = 0; bad[i]; i++)
		if (!units_parse_duration(bad[i], 0, INT64_MAX, &s, &err))
			fail_msg("'%s' was taken for %lld s", bad[i], (long long)s);
		else
			assert_non_null(strstr(err.text, "is not a duration"));
	for (size_t i = 0; outside[i]; i++) {
		assert_int_equal(units_parse_duration(outside[i], 30, UNITS_TEN_YEARS_S, &s, &err), -1);
		assert_non_null(strstr(err.text, "is out of range: write 30s to 3660d"));
	}
	assert_int_equal(units_parse_duration("3660d", 30, UNITS_TEN_YEARS_S, &s, NULL), 0);
	assert_int_equal(units_parse_duration("1m", 0, 59, &s, &err), -1);
	assert_non_null(strstr(err.text, "write 0s to 59s"));
}

static void numbers(void **state)
{
	(void)state;
	int64_t i;
	double d;
	assert_int_equal(units_parse_int("-5", -10, 10, &i, NULL), 0);
	assert_int_equal(i, -5);
	static const char *const bad_int[] = { "", " 1", "1 ", "11", "-11", "1.0", "x", "+1", "99999999999999999999", NULL };
	for (size_t k = 0; bad_int[k]; k++)
		assert_int_equal(units_parse_int(bad_int[k], -10, 10, &i, NULL), -1);
	assert_int_equal(units_parse_double("0.8", 0, 1, &d, NULL), 0);
	assert_true(d == 0.8);
	static const char *const bad_double[] = { "", "nan", "1.1", "-0.1", "0.5x", " 0.5", NULL };
	for (size_t k = 0; bad_double[k]; k++)
		assert_int_equal(units_parse_double(bad_double[k], 0, 1, &d, NULL), -1);
}

static void printed_forms(void **state)
{
	(void)state;
	char buf[32];
	assert_string_equal(units_format_mib(512, buf, sizeof buf), "512M");
	assert_string_equal(units_format_mib(20480, buf, sizeof buf), "20.0G");
	assert_string_equal(units_format_duration(63, buf, sizeof buf), "01:03");
	assert_string_equal(units_format_duration(3661, buf, sizeof buf), "01:01:01");
	assert_string_equal(units_format_duration(90061, buf, sizeof buf), "1-01:01:01");
}

static void times(void **state)
{
	(void)state;
	char buf[CLOCK_ISO_LEN];
	int64_t ms;
	assert_string_equal(clock_iso(1700000000123, buf), "2023-11-14T22:13:20.123Z");
	assert_string_equal(clock_iso(0, buf), "");
	assert_int_equal(clock_parse_iso("2023-11-14T22:13:20.123Z", &ms), 0);
	assert_true(ms == 1700000000123);
	assert_int_equal(clock_parse_iso("2023-11-14", &ms), 0);
	assert_true(ms == 1699920000000);
	assert_int_equal(clock_parse_iso("2023-11-14T22:13:20.5Z", &ms), 0);
	assert_true(ms == 1700000000500);
	assert_int_equal(clock_parse_iso("2023-11-14T22:13:20.+5Z", &ms), -1);
	assert_int_equal(clock_parse_iso("2023-11-14T22:13:20.Z", &ms), -1);
	assert_int_equal(clock_parse_iso("2023-02-30T00:00:00Z", &ms), -1);
	assert_int_equal(clock_parse_iso("2023-02-29", &ms), -1);
	assert_int_equal(clock_parse_iso("2024-02-29T23:59:59.999Z", &ms), 0);
	assert_true(ms == 1709251199999);
	assert_int_equal(clock_parse_iso("2016-12-31T23:59:60Z", &ms), 0);	/* a second more, as there was */
	assert_true(ms == 1483228800000);
	assert_string_equal(clock_iso(-1, buf), "");
	assert_int_equal(clock_parse_iso("yesterday", &ms), -1);
	assert_int_equal(clock_parse_iso("2023-11-14T22:13:20+01:00", &ms), -1);
}

static void json_reads_check_types_and_ranges(void **state)
{
	(void)state;
	scoped_json *o = json_pack("{si, ss, sn, sf}", "n", 5, "text", "abc", "nothing", "f", 0.1);
	int64_t i = 1;
	char *text = NULL;
	bool flag = true;
	struct error err;
	assert_int_equal(json_read_int(o, "n", 0, 4, &i, &err), -1);
	assert_non_null(strstr(err.text, "'n' is 5"));
	assert_int_equal(json_read_int(o, "text", 0, 4, &i, NULL), -1);
	assert_int_equal(json_read_int(o, "nothing", 0, 4, &i, NULL), 0);
	assert_int_equal(i, 1);
	assert_int_equal(json_read_text(o, "text", 2, &text, NULL), -1);
	assert_int_equal(json_read_text(o, "text", 3, &text, NULL), 0);
	assert_string_equal(text, "abc");
	assert_int_equal(json_read_bool(o, "n", &flag, NULL), -1);
	free(text);
	text = json_to_text(o);
	assert_string_equal(text, "{\"n\":5,\"text\":\"abc\",\"nothing\":null,\"f\":0.1}");
	free(text);
	scoped_json *unknown = json_round3(NAN), *third = json_round3(1.0 / 3);
	assert_true(json_is_null(unknown));
	assert_true(json_real_value(third) == 0.333);
}

static void text_that_is_no_utf8_has_a_json_form(void **state)
{
	(void)state;
	scoped_json *latin = json_text("caf\xe9"), *cut = json_text_or_null("caf\xc3"), *whole = json_text("caf\xc3\xa9");
	assert_string_equal(json_string_value(latin), "caf?");
	assert_string_equal(json_string_value(cut), "caf?");
	assert_string_equal(json_string_value(whole), "caf\xc3\xa9");
	scoped_json *part = json_text_n("\xc3\xa9\xc3\xa9", 3), *said = json_printf("%s of %d\xff", "\xc3\xa9", 5);
	assert_string_equal(json_string_value(part), "\xc3\xa9?");
	assert_string_equal(json_string_value(said), "\xc3\xa9 of 5?");
	assert_null(json_exact("caf\xe9"));
	assert_null(json_text(NULL));
}

static void nothing_in_json_gives_a_terminal_orders(void **state)
{
	static const struct { const char *text, *json; } rows[] = {
		{ "caf\u00e9 \u20ac \xc3\x9b", "\"caf\u00e9 \u20ac \xc3\x9b\"" }, { "\u00e9\xc2\x9b" "31m", "\"\\u00E9\\u009B31m\"" },
		{ "\u202e.exe", "\"\\u202E.exe\"" }, { "\U000e0041", "\"\\uDB40\\uDC41\"" }, { "\x1b[2J", "\"\\u001B[2J\"" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		scoped_json *v = json_text(rows[i].text);
		scoped_free char *text = json_to_terminal(v);
		assert_string_equal(text, rows[i].json);
	}
}

static void values_by_a_format(void **state)
{
	(void)state;
	scoped_json *kept = json_integer(7);
	scoped_json *all = json_pack("{s:s, s[i, I, b, f, n, {}], sO, so?, ss?, ss*, sO*}", "text", "\xe9 \xc3\xa9", "list", -1,
		(json_int_t)1 << 40, 1, 0.5, "kept", kept, "none", NULL, "no_text", NULL, "out", NULL, "out_too", NULL);
	scoped_free char *text = json_to_text(all);
	assert_string_equal(text, "{\"text\":\"? \xc3\xa9\",\"list\":[-1,1099511627776,true,0.5,null,{}],\"kept\":7,\"none\":null,"
				  "\"no_text\":null}");
	assert_null(json_pack("{ss, so}", "a", NULL, "b", json_integer(1)));	/* which is freed: a sanitizer says so */
	assert_null(json_pack("[so]", "a", NULL));
	assert_null(json_pack("f", NAN));
}

static void growing_bytes(void **state)
{
	(void)state;
	scoped_buf b = { 0 };
	assert_string_equal(buf_text(&b), "");
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d,", i);
	assert_int_equal(b.len, 3890);
	buf_drop(&b, 3886);
	assert_string_equal(buf_text(&b), "999,");
	buf_drop(&b, 100);
	assert_int_equal(b.len, 0);
	char *empty = buf_steal(&b);
	assert_string_equal(empty, "");
	free(empty);
}

static void programs_are_beside_this_one_or_in_path(void **state)
{
	(void)state;
	char self[4096] = "", dir[] = "/tmp/rad-test-XXXXXX";
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	assert_non_null(mkdtemp(dir));
	scoped_free char *own = paths_beside(words_base(self)), *program = alloc_printf("%s/tool", dir);
	scoped_free char *path = alloc_printf("/nothing-here::%s:/usr/bin", dir);
	assert_string_equal(own, self);
	assert_null(paths_find("tool", path));
	int fd = open(program, O_WRONLY | O_CREAT, 0600);
	assert_null(paths_find("tool", path));	/* it cannot be run */
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	scoped_free char *found = paths_find("tool", path);
	assert_string_equal(found, program);
	assert_int_equal(chdir(dir), 0);
	assert_null(paths_find("tool", "::/usr/bin"));
	assert_int_equal(chdir("/"), 0);
	assert_null(paths_find("tool", ""));
	assert_null(paths_find("tool", NULL));
	unlink(program);
	rmdir(dir);
}

static void own_files_are_where_xdg_has_them(void **state)
{
	(void)state;
	static const struct { const char *said, *home, *folder; } rows[] = {
		{ "/said", "/home/ada", "/said" }, { NULL, "/home/ada", "/home/ada/.config" }, { "", "/home/ada", "/home/ada/.config" },
		{ "here", "/home/ada", "/home/ada/.config" }, { "/said", NULL, "/said" }, { NULL, NULL, NULL }, { "here", "there", NULL },
	};
	scoped_free char *home = alloc_string_or_null(getenv("HOME"));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		unsetenv("RAD_TEST_HOME");
		unsetenv("HOME");
		if (rows[i].said)
			setenv("RAD_TEST_HOME", rows[i].said, 1);
		if (rows[i].home)
			setenv("HOME", rows[i].home, 1);
		scoped_free char *folder = paths_own("RAD_TEST_HOME", ".config");
		assert_int_equal(!folder, !rows[i].folder);
		if (folder)
			assert_string_equal(folder, rows[i].folder);
	}
	if (home)
		setenv("HOME", home, 1);
}

static void lists_of_words_are_one_piece(void **state)
{
	(void)state;
	char last[] = "last";
	char *words[] = { (char *)"first", (char *)"", last, NULL };
	char **copy = alloc_words(words), **none = alloc_words(&words[3]);
	memset(last, 'x', 4);
	assert_string_equal(copy[0], "first");
	assert_string_equal(copy[1], "");
	assert_string_equal(copy[2], "last");
	assert_null(copy[3]);
	assert_null(none[0]);
	free(copy);
	free(none);
}

static void the_id_map_finds_what_was_put(void **state)
{
	(void)state;
	struct idmap m = { 0 };
	static char values[5000];
	/* Keys that collide in their low bits, half of them removed again, in another order. */
	for (int64_t k = 1; k <= 5000; k++)
		idmap_put(&m, k << 20, &values[k - 1]);
	for (int64_t k = 4999; k > 0; k -= 2)
		assert_ptr_equal(idmap_remove(&m, k << 20), &values[k - 1]);
	assert_int_equal(m.n, 2500);
	for (int64_t k = 1; k <= 5000; k++)
		assert_ptr_equal(idmap_get(&m, k << 20), k % 2 ? NULL : &values[k - 1]);
	size_t at = 0, n = 0;
	while (idmap_next(&m, &at))
		n++;
	assert_int_equal(n, 2500);
	assert_null(idmap_remove(&m, 7));
	idmap_free(&m);
	assert_null(idmap_get(&m, 1));
}

static void files(void **state)
{
	(void)state;
	char dir[] = "/tmp/rad-base-XXXXXX";
	struct error err = ERROR_INIT;
	assert_non_null(mkdtemp(dir));
	scoped_free char *deep = alloc_printf("%s/a/b", dir), *file = alloc_printf("%s/a/b/f", dir);
	assert_int_equal(io_make_dirs(deep, 0700, &err), 0);
	assert_int_equal(io_make_dirs(deep, 0700, &err), 0);
	assert_int_equal(io_replace_file(file, "one", 3, 0600, &err), 0);
	assert_int_equal(io_replace_file(file, "second", 6, 0600, &err), 0);
	scoped_buf b = { 0 };
	assert_int_equal(io_read_file(file, 5, &b, &err), -1);
	assert_non_null(strstr(err.text, "larger than 5 bytes"));
	buf_drop(&b, b.len);
	assert_int_equal(io_read_file(file, 6, &b, &err), 0);
	assert_string_equal(buf_text(&b), "second");
	assert_int_equal(io_read_file(deep, 6, &b, &err), -1);
	assert_non_null(strstr(err.text, "is a folder"));
	scoped_free char *pipe = alloc_printf("%s/p", deep);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(io_read_file(pipe, 6, &b, &err), -1);	/* neither waited for nor taken for an empty file */
	assert_non_null(strstr(err.text, "/p: is a pipe, not a file"));
	unlink(pipe);
	assert_int_equal(io_read_file("/dev/zero", 6, &b, &err), -1);
	assert_non_null(strstr(err.text, "is a device"));
	buf_drop(&b, b.len);
	assert_int_equal(io_read_file("/dev/null", 6, &b, &err), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(io_make_dirs(file, 0700, &err), -1);
	assert_int_equal(io_make_dirs("", 0700, &err), -1);	/* nothing is read behind its end */
	assert_int_equal(io_read_file("/no/such/file", 6, &b, &err), -1);
	unlink(file);
	rmdir(deep);
	scoped_free char *a = alloc_printf("%s/a", dir);
	rmdir(a);
	assert_int_equal(rmdir(dir), 0);
}

/* Root's `-o /dev/null` would leave a file in its place. */
static void what_is_no_file_is_written_into_and_stays(void **state)
{
	(void)state;
	char dir[] = "/tmp/rad-base-XXXXXX", got[8] = "";
	struct stat st;
	struct error err = ERROR_INIT;
	assert_non_null(mkdtemp(dir));
	scoped_free char *pipe = alloc_printf("%s/pipe", dir), *link = alloc_printf("%s/link", dir);
	scoped_free char *file = alloc_printf("%s/file", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	scoped_fd int reader = open(pipe, O_RDONLY | O_NONBLOCK);
	assert_int_equal(io_save_file(pipe, "one", 3, &err), 0);
	assert_int_equal(read(reader, got, sizeof got), 3);
	assert_string_equal(got, "one");
	assert_int_equal(lstat(pipe, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	/* one's own link is followed, another's is replaced */
	scoped_buf text = { 0 };
	assert_int_equal(io_save_file(file, "longer", 6, &err), 0);
	assert_int_equal(symlink(file, link), 0);
	assert_int_equal(io_save_file(link, "two", 3, &err), 0);
	assert_int_equal(io_read_file(file, 100, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "two");
	/* what its owner hid from others stays hidden */
	assert_int_equal(chmod(file, 0600), 0);
	assert_int_equal(io_save_file(file, "two", 3, &err), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(io_save_file(dir, "x", 1, &err), -1);
	assert_non_null(strstr(err.text, "Is a directory"));
	if (!geteuid()) {
		assert_int_equal(lchown(link, 12345, 12345), 0);
		assert_int_equal(io_save_file(link, "three", 5, &err), 0);
		assert_int_equal(lstat(link, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		buf_drop(&text, text.len);
		assert_int_equal(io_read_file(file, 100, &text, NULL), 0);
		assert_string_equal(buf_text(&text), "two");
	}
	unlink(pipe);
	unlink(link);
	unlink(file);
	assert_int_equal(rmdir(dir), 0);
}

/* Where others may write, one who knows our pid lays a link. */
static void a_file_is_replaced_through_nobodys_link(void **state)
{
	(void)state;
	char dir[] = "/tmp/rad-base-XXXXXX";
	scoped_buf text = { 0 };
	assert_non_null(mkdtemp(dir));
	scoped_free char *file = alloc_printf("%s/file", dir), *other = alloc_printf("%s/other", dir);
	scoped_free char *link = alloc_printf("%s.tmp-%d", file, (int)getpid());
	assert_int_equal(io_replace_file(other, "theirs", 6, 0600, NULL), 0);
	assert_int_equal(symlink(other, link), 0);
	assert_int_equal(io_replace_file(file, "ours", 4, 0600, NULL), 0);
	assert_int_equal(io_read_file(other, 100, &text, NULL), 0);
	assert_string_equal(buf_text(&text), "theirs");
	unlink(file);
	unlink(link);
	unlink(other);
	assert_int_equal(rmdir(dir), 0);
}

static void the_end_of_a_text(void **state)
{
	(void)state;
	assert_true(words_end_in("train.py", ".py"));
	assert_true(words_end_in(".py", ".py"));
	assert_false(words_end_in("y", ".py"));
	assert_false(words_end_in("train.pyc", ".py"));
}

static void a_file_of_a_process_is_read(void **state)
{
	(void)state;
	char text[4];
	assert_int_equal(proc_read(getpid(), "stat", text, sizeof text), 3);
	assert_int_equal(text[3], 0);
	assert_int_equal(proc_read(INT32_MAX, "stat", text, sizeof text), -1);
	assert_string_equal(text, "");
	assert_true(proc_owned(getpid(), getuid()));
	assert_false(proc_owned(getpid(), getuid() + 1));
	assert_false(proc_owned(INT32_MAX, getuid()));
}

/* Where one may write and not read, as in a box for letters. Root may do both: it becomes somebody else. */
static void a_file_is_replaced_in_a_folder_that_cannot_be_read(void **state)
{
	(void)state;
	char dir[] = "/tmp/rad-base-XXXXXX";
	int status;
	assert_non_null(mkdtemp(dir));
	scoped_free char *file = alloc_printf("%s/file", dir);
	if (!geteuid())
		assert_int_equal(chown(dir, 12345, 12345), 0);
	assert_int_equal(chmod(dir, 0300), 0);
	pid_t pid = fork();
	if (!pid) {
		bool ready = geteuid() || (!setgid(12345) && !setuid(12345));
		_exit(!ready || io_replace_file(file, "new", 3, 0600, NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	unlink(file);
	assert_int_equal(rmdir(dir), 0);
}

static void processes_are_known_by_pid_and_start(void **state)
{
	(void)state;
	struct proc_id self = { .pid = getpid() };
	pid_t parent;
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, &parent), 0);
	assert_int_equal(parent, getppid());
	assert_true(proc_alive(self));
	self.start_ticks++;
	assert_false(proc_alive(self));
	assert_int_equal(proc_uid(getpid()), geteuid());

	int gate[2];
	assert_int_equal(pipe(gate), 0);
	pid_t child = fork();
	if (!child) {
		char byte;
		close(gate[1]);
		_exit((int)read(gate[0], &byte, 1));
	}
	struct proc_id id = { .pid = child };
	pid_t *pids;
	assert_int_equal(proc_stat(child, &id.start_ticks, NULL), 0);
	assert_true(proc_descends(child, getpid()));
	assert_false(proc_descends(getpid(), child));
	assert_true(proc_descendants(getpid(), &pids) >= 1);
	free(pids);
	kill(child, SIGKILL);
	siginfo_t info;
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	assert_false(proc_alive(id));	/* a zombie is gone */
	assert_true(proc_gone(id));
	waitpid(child, NULL, 0);
	close(gate[0]);
	close(gate[1]);
}

/* Without a descriptor for a look nobody is alive, and nobody gone. */
static void one_that_cannot_be_looked_at_is_not_gone(void **state)
{
	(void)state;
	struct proc_id self = { .pid = getpid() };
	struct rlimit before, none;
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	bool alive = proc_alive(self), gone = proc_gone(self);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_false(alive);
	assert_false(gone);
	assert_false(proc_gone(self));
	self.start_ticks++;
	assert_true(proc_gone(self));
	assert_true(proc_gone((struct proc_id){ 0 }));
}

static void *outlive(void *gate)
{
	char byte;
	_exit((int)read(*(int *)gate, &byte, 1));
}

/* What ends is the process, not its first thread. */
static void a_process_outlives_its_main_thread(void **state)
{
	(void)state;
	int gate[2];
	assert_int_equal(pipe(gate), 0);
	pid_t child = fork();
	if (!child) {
		pthread_t other;
		close(gate[1]);
		pthread_create(&other, NULL, outlive, &gate[0]);
		pthread_exit(NULL);
	}
	siginfo_t info;
	char path[40], state_letter = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
	while (state_letter != 'Z') {
		scoped_file FILE *f = fopen(path, "re");
		assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state_letter), 1);
	}
	struct proc_id id = { .pid = child };
	assert_int_equal(proc_stat(child, &id.start_ticks, NULL), 0);
	assert_int_equal(proc_signal(id, SIGKILL), 0);
	waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
	assert_false(proc_alive(id));
	assert_int_equal(proc_signal(id, SIGKILL), -1);
	waitpid(child, NULL, 0);
	close(gate[0]);
	close(gate[1]);
}

static pid_t fork_waiting(int gate_fd)
{
	char byte;
	pid_t pid = fork();
	if (!pid)
		_exit((int)read(gate_fd, &byte, 1));
	return pid;
}

/* Only of whom was seen and is the same; and of a parent that is. */
static void descent_is_confirmed(void **state)
{
	(void)state;
	int gate[2];
	scoped_proc_tree struct proc_tree t;
	scoped_free struct proc_node **list = NULL;
	struct proc_id self = { .pid = getpid() };
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	pid_t kept = fork_waiting(gate[0]), gone = fork_waiting(gate[0]);
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	proc_tree_read(&t);
	assert_true(proc_tree_below(&t, getpid(), &list) >= 2);
	struct proc_node *a = proc_tree_find(&t, kept), *b = proc_tree_find(&t, gone), *us = proc_tree_find(&t, getpid());
	assert_true(proc_tree_confirm(&t, a, self));
	assert_false(proc_tree_confirm(&t, us, a->seen.id));
	kill(gone, SIGKILL);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	assert_false(proc_tree_confirm(&t, b, self));
	/* One that has another's number by now: it began later, or what is said to be its child began before it. */
	a->seen.id.start_ticks--;
	assert_false(proc_tree_confirm(&t, a, self));
	a->seen.id.start_ticks++;
	self.start_ticks = a->seen.id.start_ticks + 1;
	assert_false(proc_tree_confirm(&t, a, self));
	kill(kept, SIGKILL);
	waitpid(kept, NULL, 0);
	close(gate[0]);
	close(gate[1]);
}

static void *fork_and_stay(void *gates)
{
	const int *gate = gates;
	char byte;
	fork_waiting(gate[0]);
	(void)!write(gate[1], "", 1);
	return (void *)(intptr_t)read(gate[0], &byte, 1);
}

/* Whoever made it, and nobody else's. */
static void a_family_is_read_by_itself(void **state)
{
	(void)state;
	int gate[2], there[2];
	char byte;
	pthread_t other;
	scoped_proc_tree struct proc_tree t;
	scoped_free struct proc_node **list = NULL;
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	assert_int_equal(pipe2(there, O_CLOEXEC), 0);
	pid_t child = fork();
	if (!child) {
		int gates[] = { gate[0], there[1] };
		close(gate[1]);
		pthread_create(&other, NULL, fork_and_stay, gates);
		pthread_join(other, NULL);
		_exit(0);
	}
	assert_int_equal(read(there[0], &byte, 1), 1);
	proc_tree_read_below(&t, getpid());
	assert_int_equal(proc_tree_below(&t, child, &list), 1);
	assert_int_equal(list[0]->seen.parent, child);
	assert_non_null(proc_tree_find(&t, getpid()));
	if (!access("/proc/thread-self/children", R_OK))
		assert_null(proc_tree_find(&t, getppid()));
	proc_signal(list[0]->seen.id, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(gate[i]);
		close(there[i]);
	}
}

static void hashes(void **state)
{
	(void)state;
	/* The published test vectors of FNV-1a. */
	assert_true(hash_bytes(HASH_SEED, "", 0) == UINT64_C(0xcbf29ce484222325));
	assert_true(hash_bytes(HASH_SEED, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(hash_bytes(HASH_SEED, "foobar", 6) == UINT64_C(0x85944171f73967e8));
	assert_true(hash_bytes(hash_bytes(HASH_SEED, "foo", 3), "bar", 3) == hash_bytes(HASH_SEED, "foobar", 6));
	assert_true(hash_bytes(HASH_SEED, "a\0b", 3) != hash_bytes(HASH_SEED, "a", 1));
	assert_true(hash_key("foobar") == (int64_t)UINT64_C(0x85944171f73967e8));
	assert_true(hash_key("") != 0);
}

/* More lines than a pipe holds, and nobody reads: they are lost, which is told later, and nothing waits. */
static void a_log_waits_for_nobody(void **state)
{
	int ends[2], status;
	char text[4096], all[1 << 17];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (!pid) {
		alarm(100);
		dup2(ends[1], STDERR_FILENO);
		log_never_wait();
		for (int i = 0; i < 5000; i++)
			log_info("line %d: what a log says, at the length of a line", i);
		while (read(ends[0], text, sizeof text) == sizeof text)
			;
		log_info("the last one");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ends[1]);
	ssize_t n = io_read_full(ends[0], all, sizeof all - 1);
	all[n > 0 ? n : 0] = 0;
	close(ends[0]);
	assert_non_null(strstr(all, "lines before this were lost"));
	assert_non_null(strstr(all, "the last one"));
}

/* The line that a process with that JOURNAL_STREAM logs into a socket; "%": the socket's own. */
static void log_into_socket(const char *stream, const char *said, char *line, size_t size)
{
	int ends[2], status;
	struct stat st;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(fstat(ends[1], &st), 0);
	pid_t pid = fork();
	if (!pid) {
		char own[64];
		snprintf(own, sizeof own, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
		setenv("JOURNAL_STREAM", *stream == '%' ? own : stream, 1);
		dup2(ends[1], STDERR_FILENO);
		log_never_wait();
		log_warn("%s", said);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(ends[1]);
	ssize_t n = io_read_full(ends[0], line, size - 1);
	line[n > 0 ? n : 0] = 0;
	close(ends[0]);
}

/* Which notes the time itself. A stream that is not ours, as after `radd 2>file` under a unit, is none. */
static void the_journal_is_told_levels_and_no_times(void **state)
{
	char line[200];
	(void)state;
	log_into_socket("%", "said", line, sizeof line);
	assert_string_equal(line, "<4>warn  said\n");
	static const char *const others[] = { "1:2", "", "journal", ":" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		log_into_socket(others[i], "said", line, sizeof line);
		assert_true(line[0] == '2' && strstr(line, "Z warn  said\n"));
	}
}

/* Paths and names come from users: none of them ends a line, goes back in it, or talks to the terminal that shows it. */
static void a_log_line_is_one_line(void **state)
{
	char line[200];
	(void)state;
	log_into_socket("%", "a\nb\rc\x1b[2Jd\te\x7f\xc3\xa9", line, sizeof line);
	assert_string_equal(line, "<4>warn  a b c [2Jd e \xc3\xa9\n");
}

static void on_usr2(int signal) { (void)signal; }

static void a_handler_is_seen(void **state)
{
	(void)state;
	assert_false(proc_catches(getpid(), SIGUSR2));
	signal(SIGUSR2, on_usr2);
	assert_true(proc_catches(getpid(), SIGUSR2));
	signal(SIGUSR2, SIG_IGN);
	assert_false(proc_catches(getpid(), SIGUSR2));
	signal(SIGUSR2, SIG_DFL);
	assert_false(proc_catches(getpid(), 0));
	assert_false(proc_catches(getpid(), 65));
	assert_false(proc_catches(1 << 30, SIGTERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes), cmocka_unit_test(durations), cmocka_unit_test(numbers), cmocka_unit_test(printed_forms),
		cmocka_unit_test(times), cmocka_unit_test(json_reads_check_types_and_ranges),
		cmocka_unit_test(text_that_is_no_utf8_has_a_json_form), cmocka_unit_test(nothing_in_json_gives_a_terminal_orders),
		cmocka_unit_test(values_by_a_format), cmocka_unit_test(growing_bytes),
		cmocka_unit_test(programs_are_beside_this_one_or_in_path),
		cmocka_unit_test(own_files_are_where_xdg_has_them),
		cmocka_unit_test(lists_of_words_are_one_piece),
		cmocka_unit_test(the_id_map_finds_what_was_put), cmocka_unit_test(files),
		cmocka_unit_test(a_file_is_replaced_through_nobodys_link),
		cmocka_unit_test(the_end_of_a_text),
		cmocka_unit_test(a_file_of_a_process_is_read),
		cmocka_unit_test(a_file_is_replaced_in_a_folder_that_cannot_be_read),
		cmocka_unit_test(what_is_no_file_is_written_into_and_stays),
		cmocka_unit_test(processes_are_known_by_pid_and_start),
		cmocka_unit_test(one_that_cannot_be_looked_at_is_not_gone),
		cmocka_unit_test(a_process_outlives_its_main_thread),
		cmocka_unit_test(descent_is_confirmed), cmocka_unit_test(a_family_is_read_by_itself),
		cmocka_unit_test(hashes), cmocka_unit_test(a_log_waits_for_nobody), cmocka_unit_test(a_log_line_is_one_line),
		cmocka_unit_test(the_journal_is_told_levels_and_no_times),
		cmocka_unit_test(a_handler_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
