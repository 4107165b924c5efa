/* SPDX-License-Identifier: MIT
 * What is asked of processes beside the loop, names of users and the history: who waits for whom, and what happens when one of
 * them hangs. The test is its own worker.
 */
#include "daemon/names.h"
#include "daemon/lookup.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 60000
#define LONG_MS 30000
#define SHORT_MS 300

/* The workers ---------------------------------------------------------------------------------------------------------- */

/* Even uids have a name (that of 14 is Latin-1), odd ones none; from 1000 on the database hangs, from 2000 on it fails. */
static int name(void)
{
	unsigned uid;
	if (scanf("%u", &uid) != 1)
		return 2;
	if (uid >= 2000)
		return 1;
	while (uid >= 1000)
		pause();
	if (uid % 2 == 0)
		printf(uid == 14 ? "us\xe9r%u\n" : "user%u\n", uid);
	return 0;
}

/* Says back what it was asked, but for "stuck", which does not answer. */
static int reader(void)
{
	char text[100] = "";
	size_t n = fread(text, 1, sizeof text - 1, stdin);
	while (!strncmp(text, "stuck", 5))
		pause();
	fwrite(text, 1, n, stdout);
	return 0;
}

/* The world ------------------------------------------------------------------------------------------------------------ */

struct world {
	uv_loop_t *loop;
	uv_timer_t patience;
	uv_check_t turns;
	struct names *names;
	struct lookups *lookups;
	unsigned changes, news, answers;
	char said[10][40], why[80];
};

static void close_any(uv_handle_t *h, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void out_of_patience(uv_timer_t *t)
{
	(void)t;
	fail_msg("nothing came in a minute");
}

static void on_told(void *ctx, bool anew)
{
	struct world *w = ctx;
	w->changes++;
	w->news += anew;
}

static void on_answer(void *ctx, const struct buf *reply, const char *why)
{
	struct world *w = ctx;
	snprintf(w->said[w->answers++], sizeof w->said[0], "%s", why ? "" : buf_text(reply));
	snprintf(w->why, sizeof w->why, "%s", why ? why : "");
}

static void set_up(struct world *w, const char *program, int64_t deadline_ms)
{
	signal(SIGPIPE, SIG_IGN);
	*w = (struct world){ .loop = alloc_zero(sizeof *w->loop) };
	uv_loop_init(w->loop);
	uv_timer_init(w->loop, &w->patience);
	uv_timer_start(&w->patience, out_of_patience, PATIENCE_MS, 0);
	w->names = names_create(w->loop, program, "--name", deadline_ms, on_told, w);
	w->lookups = lookups_create(w->loop, program, "/");
}

/* As radd ends: whatever runs is killed, and nothing is left. */
static void tear_down(struct world *w)
{
	if (w->turns.data)
		uv_check_stop(&w->turns);
	names_destroy(w->names);
	lookups_destroy(w->lookups);
	uv_run(w->loop, UV_RUN_NOWAIT);
	uv_walk(w->loop, close_any, NULL);
	while (uv_run(w->loop, UV_RUN_NOWAIT))
		;
	assert_int_equal(uv_loop_close(w->loop), 0);
	free(w->loop);
}

static void wait_until(struct world *w, const unsigned *count, unsigned n)
{
	while (*count < n)
		uv_run(w->loop, UV_RUN_ONCE);
	assert_int_equal(*count, n);
}

/* Names ---------------------------------------------------------------------------------------------------------------- */

static void check_name(struct world *w, uid_t uid, enum name_state state, const char *expected)
{
	const char *name_now;
	assert_int_equal(names_of(w->names, uid, &name_now), state);
	assert_string_equal(name_now, expected);
}

static void the_number_until_the_name_is_known(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", LONG_MS);
	check_name(&w, 12, NAME_ASKED, "12");
	check_name(&w, 13, NAME_ASKED, "13");
	check_name(&w, 12, NAME_ASKED, "12");
	check_name(&w, 14, NAME_ASKED, "14");
	check_name(&w, 2001, NAME_ASKED, "2001");
	wait_until(&w, &w.changes, 4);		/* each was asked once */
	check_name(&w, 12, NAME_KNOWN, "user12");
	check_name(&w, 13, NAME_NO_ACCOUNT, "13");
	check_name(&w, 14, NAME_KNOWN, "us?r14");	/* a name that JSON cannot hold would lose each answer it is in */
	check_name(&w, 2001, NAME_NO_ANSWER, "2001");
	assert_int_equal(w.news, 2);		/* the others are called by their numbers still */
	tear_down(&w);
}

static void what_is_said_again_is_no_news(void **state)
{
	struct world w;
	(void)state;
	setenv("RAD_NAMES_FRESH_MS", "0", 1);
	set_up(&w, "/proc/self/exe", LONG_MS);
	unsetenv("RAD_NAMES_FRESH_MS");
	for (unsigned times = 1; times <= 3; times++) {
		check_name(&w, 12, times == 1 ? NAME_ASKED : NAME_KNOWN, times == 1 ? "12" : "user12");
		check_name(&w, 13, NAME_ASKED, "13");
		wait_until(&w, &w.changes, 2 * times);
		assert_int_equal(w.news, 1);
	}
	tear_down(&w);
}

static void a_database_that_hangs(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", SHORT_MS);
	check_name(&w, 1000, NAME_ASKED, "1000");
	wait_until(&w, &w.changes, 1);
	check_name(&w, 1000, NAME_NO_ANSWER, "1000");
	tear_down(&w);
}

static void a_name_that_hangs_does_not_hold_up_others(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", LONG_MS);
	for (uid_t uid = 1000; uid < 1000 + NAMES_AT_ONCE - 1; uid++)
		names_of(w.names, uid, &(const char *){ NULL });
	for (uid_t uid = 0; uid < 20; uid += 2)
		names_of(w.names, uid, &(const char *){ NULL });
	wait_until(&w, &w.changes, 10);
	check_name(&w, 18, NAME_KNOWN, "user18");
	tear_down(&w);
}

static void wait_for_name(struct world *w, uid_t uid)
{
	while (names_of(w->names, uid, &(const char *){ NULL }) == NAME_ASKED)
		uv_run(w->loop, UV_RUN_ONCE);
}

static void who_waits_for_a_name_goes_before_who_only_came_by(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", LONG_MS);
	for (uid_t uid = 400; uid < 800; uid += 2)
		names_payer(w.names, uid, true);
	names_hurry(w.names, 600);
	names_hurry(w.names, 798);
	names_hurry(w.names, 798);
	wait_for_name(&w, 600);
	wait_for_name(&w, 798);
	assert_in_range(w.changes, 2, 50);
	names_payer(w.names, 802, true);	/* behind the last, which is another one now */
	wait_for_name(&w, 802);
	assert_in_range(w.changes, 201 - NAMES_AT_ONCE, 201);
	tear_down(&w);
}

/* As many as are kept came by, of whom nobody has an account: whoever has one is known nevertheless. */
static void uids_that_nobody_has_make_place(void **state)
{
	struct world w;
	(void)state;
	setenv("RAD_NAMES_MOST", "20", 1);
	set_up(&w, "/proc/self/exe", LONG_MS);
	unsetenv("RAD_NAMES_MOST");
	wait_for_name(&w, 400);
	for (uid_t uid = 401; uid < 439; uid += 2)
		wait_for_name(&w, uid);
	check_name(&w, 441, NAME_ASKED, "441");	/* there is room again, */
	check_name(&w, 400, NAME_KNOWN, "user400");	/* who is known stays so, */
	check_name(&w, 401, NAME_ASKED, "401");	/* and who is not is asked for again */
	tear_down(&w);
}

static void no_program_to_ask(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/nonexistent/radd", LONG_MS);
	check_name(&w, 12, NAME_ASKED, "12");
	lookups_ask(w.lookups, 1, alloc_string("a"), on_answer, &w);
	lookups_start(w.lookups);
	wait_until(&w, &w.changes, 1);
	check_name(&w, 12, NAME_NO_ANSWER, "12");
	assert_int_equal(w.answers, 1);
	assert_non_null(strstr(w.why, "could not be started"));
	tear_down(&w);
}

/* The history ---------------------------------------------------------------------------------------------------------- */

static void nothing_is_read_before_it_is_started(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", LONG_MS);
	lookups_ask(w.lookups, 1, alloc_string("a"), on_answer, &w);
	uv_run(w.loop, UV_RUN_NOWAIT);
	assert_int_equal(w.answers, 0);
	lookups_start(w.lookups);
	wait_until(&w, &w.answers, 1);
	assert_string_equal(w.said[0], "a");
	tear_down(&w);
}

static void ask(struct world *w, uid_t uid, const char *text)
{
	lookups_ask(w->lookups, uid, alloc_string(text), on_answer, w);
}

static void pump(uv_check_t *h)
{
	lookups_start(((struct world *)h->data)->lookups);
}

/* Whoever is answered makes place for the next, as in radd's turns; one of the two places is taken for good. */
static void set_up_turns(struct world *w)
{
	set_up(w, "/proc/self/exe", LONG_MS);
	uv_check_init(w->loop, &w->turns);
	w->turns.data = w;
	uv_check_start(&w->turns, pump);
	ask(w, 1, "stuck");
}

/* Those that were answered so far. */
static void assert_order(const struct world *w, const char *order)
{
	scoped_buf said = { 0 };
	for (unsigned i = 0; i < w->answers; i++)
		buf_printf(&said, "%s%s", i ? " " : "", w->said[i]);
	assert_string_equal(buf_text(&said), order);
}

static void users_take_turns(void **state)
{
	struct world w;
	(void)state;
	set_up_turns(&w);
	struct lookup *behind = lookups_ask(w.lookups, 1, alloc_string("behind"), on_answer, &w);
	ask(&w, 2, "x");
	ask(&w, 3, "y");
	lookups_start(w.lookups);
	wait_until(&w, &w.answers, 2);
	assert_order(&w, "x y");
	lookup_cancel(behind);
	ask(&w, 2, "z");
	lookups_start(w.lookups);
	wait_until(&w, &w.answers, 3);
	assert_order(&w, "x y z");
	tear_down(&w);
}

/* Whose one comes behind many of another waits for one of them, not for all; and who asks again is behind who waits. */
static void neither_many_nor_the_next_of_one_user_go_before_others(void **state)
{
	struct world w;
	(void)state;
	set_up_turns(&w);
	for (int i = 1; i <= 3; i++)
		ask(&w, 2, (char[]){ 'a', (char)('0' + i), 0 });
	ask(&w, 3, "b1");
	ask(&w, 3, "b2");
	lookups_start(w.lookups);
	ask(&w, 4, "c1");
	wait_until(&w, &w.answers, 3);
	ask(&w, 4, "c2");	/* there is always one more of his */
	wait_until(&w, &w.answers, 7);
	assert_order(&w, "a1 b1 c1 a2 b2 c2 a3");
	tear_down(&w);
}

static void who_went_away_gives_his_place_back(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, "/proc/self/exe", LONG_MS);
	struct lookup *stuck[LOOKUP_AT_ONCE];
	for (unsigned i = 0; i < LOOKUP_AT_ONCE; i++)
		stuck[i] = lookups_ask(w.lookups, i, alloc_string("stuck"), on_answer, &w);
	lookups_ask(w.lookups, 77, alloc_string("next"), on_answer, &w);
	lookups_start(w.lookups);
	lookup_cancel(stuck[0]);
	lookups_start(w.lookups);
	wait_until(&w, &w.answers, 1);
	assert_string_equal(w.said[0], "next");
	tear_down(&w);
}

/* Clients may come, ask and go away all day. */
static void who_went_away_leaves_no_process(void **state)
{
	struct world w;
	siginfo_t left;
	(void)state;
	while (wait(NULL) > 0)	/* what radds that ended have left */
		;
	set_up(&w, "/proc/self/exe", LONG_MS);
	struct lookup *stuck = lookups_ask(w.lookups, 1, alloc_string("stuck"), on_answer, &w);
	lookups_start(w.lookups);
	lookup_cancel(stuck);
	while (!waitid(P_ALL, 0, &left, WEXITED | WNOWAIT | WNOHANG))	/* until there is no child any more */
		uv_run(w.loop, UV_RUN_ONCE);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(w.answers, 0);
	tear_down(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_number_until_the_name_is_known),
		cmocka_unit_test(what_is_said_again_is_no_news),
		cmocka_unit_test(a_database_that_hangs),
		cmocka_unit_test(a_name_that_hangs_does_not_hold_up_others),
		cmocka_unit_test(who_waits_for_a_name_goes_before_who_only_came_by),
		cmocka_unit_test(uids_that_nobody_has_make_place),
		cmocka_unit_test(no_program_to_ask),
		cmocka_unit_test(nothing_is_read_before_it_is_started),
		cmocka_unit_test(users_take_turns),
		cmocka_unit_test(neither_many_nor_the_next_of_one_user_go_before_others),
		cmocka_unit_test(who_went_away_gives_his_place_back),
		cmocka_unit_test(who_went_away_leaves_no_process),
	};
	if (argc == 2 && !strcmp(argv[1], "--name"))
		return name();
	if (argc == 2 && !strcmp(argv[1], "--read"))
		return reader();
	return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
