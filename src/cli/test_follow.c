/* SPDX-License-Identifier: MIT
 * A log that is followed: bars, pieces, and what becomes of the file meanwhile.
 */
#include "cli/follow.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A log in a folder of its own, who follows it, and what was shown. */
struct world { char folder[32], path[40], moved[40]; struct follow *log; char *text; size_t n; FILE *out; };

static int make_world(void **state)
{
	struct world *w = alloc_zero(sizeof *w);
	strcpy(w->folder, "/tmp/rad-follow-XXXXXX");
	assert_non_null(mkdtemp(w->folder));
	snprintf(w->path, sizeof w->path, "%s/log", w->folder);
	snprintf(w->moved, sizeof w->moved, "%s/log.1", w->folder);
	w->out = open_memstream(&w->text, &w->n);
	w->log = follow_create(w->path, NULL, false, w->out);
	*state = w;
	return 0;
}

static int end_world(void **state)
{
	struct world *w = *state;
	follow_destroy(w->log);
	fclose(w->out);
	unlink(w->path);
	unlink(w->moved);
	rmdir(w->folder);
	free(w->text);
	free(w);
	return 0;
}

static void add(const char *path, const char *bytes)
{
	FILE *f = fopen(path, "a");
	fputs(bytes, f);
	fclose(f);
}

/* What is shown from now on until there is no more. */
static void assert_shows(struct world *w, const char *text)
{
	struct error err = ERROR_INIT;
	size_t before = w->n;
	assert_int_equal(follow_read_all(w->log, &err), 0);
	assert_string_equal(w->text ? w->text + before : "", text);
}

static void bars_are_shown_as_they_last_stood(void **state)
{
	struct world *w = *state;
	assert_shows(w, "");		/* it is not there yet */
	add(w->path, "a\n10 %\r20 %\rdone\nwindows\r\n\n50 %\r");
	assert_shows(w, "a\ndone\nwindows\n\n");
	add(w->path, "60 %");
	assert_shows(w, "");
	add(w->path, "\r100 %\r");
	follow_read_all(w->log, NULL);
	add(w->path, "\nend");
	assert_shows(w, "100 %\n");
	follow_finish(w->log);
	assert_string_equal(w->text + w->n - 4, "end\n");
}

/* A task may print for as long as somebody reads: who waits for its end or for a Ctrl-C looks at them between. */
static void much_is_shown_in_pieces(void **state)
{
	struct world *w = *state;
	struct error err = ERROR_INIT;
	scoped_free char *line = alloc_zero(100001);
	memset(line, 'x', 100000);
	for (int i = 0; i < 40; i++)
		add(w->path, line);
	assert_int_equal(follow_read(w->log, &err), 1);
	int pieces = 1;
	for (; follow_read(w->log, &err) > 0; pieces++)
		assert_true(pieces < 1000);
	assert_true(pieces > 10);
	follow_finish(w->log);
	assert_int_equal(w->n, 40 * 100000 + 1);
}

static void a_log_that_was_cut_short_begins_again(void **state)
{
	struct world *w = *state;
	add(w->path, "one\ntwo\n");
	assert_shows(w, "one\ntwo\n");
	assert_int_equal(truncate(w->path, 0), 0);
	add(w->path, "three\n");
	assert_shows(w, "three\n");
}

static void the_next_attempt_writes_another_file_where_the_log_was_moved(void **state)
{
	struct world *w = *state;
	add(w->path, "one\n");
	assert_shows(w, "one\n");
	assert_int_equal(rename(w->path, w->moved), 0);
	add(w->moved, "two\n");
	assert_shows(w, "two\n");
	add(w->path, "");		/* as logrotate makes it: the task goes on in the old one */
	add(w->moved, "three\nhalf");
	assert_shows(w, "three\n");
	add(w->path, "four\n");
	assert_shows(w, "half\nfour\n");
	unlink(w->path);
	assert_shows(w, "");
	add(w->path, "five\n");
	assert_shows(w, "five\n");
}

/* A piece may end within a sequence, or a character. */
static void another_users_log_gives_a_terminal_no_orders(void **state)
{
	struct world *w = *state;
	follow_plain(w->log);
	add(w->path, "\x1b]0;title\x07one\x1b[31m red\x1b[0m\ttwo\x05\x0e\b \u00e9\xc2\xa0\n10 %\r20 %\n\x1b]52;c;x");
	assert_shows(w, "one red\ttwo\b \u00e9\xc2\xa0\n20 %\n");
	add(w->path, "y\nthree\xc2");
	assert_shows(w, "\n");
	add(w->path, "\x9b" "31m\x7f\n");
	assert_shows(w, "three\xc2" "31m\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bars_are_shown_as_they_last_stood, make_world, end_world),
		cmocka_unit_test_setup_teardown(much_is_shown_in_pieces, make_world, end_world),
		cmocka_unit_test_setup_teardown(a_log_that_was_cut_short_begins_again, make_world, end_world),
		cmocka_unit_test_setup_teardown(another_users_log_gives_a_terminal_no_orders, make_world, end_world),
		cmocka_unit_test_setup_teardown(the_next_attempt_writes_another_file_where_the_log_was_moved, make_world, end_world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
