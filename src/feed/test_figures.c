/* SPDX-License-Identifier: MIT
 * What is seen of feeds from outside: who writes and reads, how far, who waits for whom; and that looking does nothing.
 */
#include "base/clock.h"
#include "feed/look.h"
#include "feed/place.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOTS = 4, WAIT_MS = 60000 };

static char dir[] = "/tmp/radfeed-look-XXXXXX";

static struct feed_look *look(const char *name)
{
	static struct feed_look seen;
	struct error err = ERROR_INIT;
	if (feed_look(name, &seen, &err))
		fail_msg("%s", err.text);
	return &seen;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* A process that writes batches of 100 bytes for ever. */
static pid_t begin_writer(const char *name)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	struct feed_writer *w = feed_writer_claim(name, "numbers", 7, NULL);
	void *data;
	alarm(2 * WAIT_MS / 1000);
	if (!w || feed_writer_open(w, SLOTS, 4096, 0, NULL))
		_exit(1);
	while (feed_writer_reserve(w, 100, &data, NULL) == 0)
		feed_writer_publish(w, FEED_BATCH, 100);
	_exit(0);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void take(struct feed_reader *r, struct feed_item *item)
{
	struct error err = ERROR_INIT;
	if (feed_reader_next(r, WAIT_MS, item, &err))
		fail_msg("%s", err.text);
}

static void a_feed_that_runs_is_seen(void **state)
{
	(void)state;
	struct feed_item item[SLOTS + 1];
	struct feed_reader *r = feed_reader_open("runs", "numbers", FEED_JOIN_NEXT, NULL);
	pid_t writer = begin_writer("runs");
	take(r, &item[0]);
	feed_reader_release(r, item[0].ring, item[0].slot);
	for (int i = 1; i <= SLOTS; i++)
		take(r, &item[i]);
	/* All slots are held: the writer waits, and for this process. */
	int64_t deadline = clock_mono_ms() + WAIT_MS;
	struct feed_look *seen = look("runs");
	while ((!seen->figures.sleeps_us || seen->figures.span.now.items <= SLOTS) && clock_mono_ms() < deadline) {
		pause_ms(5);
		seen = look("runs");
	}
	const struct feed_figures *f = &seen->figures;
	assert_int_equal(seen->state, FEED_LOOK_RUNS);
	assert_string_equal(seen->sign, "numbers");
	assert_int_equal(seen->writer, writer);
	assert_int_equal(seen->tasks, 1);
	assert_int_equal(f->pid, writer);
	assert_int_equal(f->pos, SLOTS + 1);
	assert_int_equal(f->slots, SLOTS);
	assert_int_equal(f->memory_bytes, SLOTS * 100);
	assert_int_equal(f->span.now.bytes, (SLOTS + 1) * 100);
	assert_int_equal(f->n_readers, 1);
	assert_int_equal(f->reader[0].pid, getpid());
	assert_int_equal(f->reader[0].behind, SLOTS);
	assert_int_equal(f->reader[0].span.now.bytes, 100 * f->reader[0].span.now.items);
	assert_in_range(f->reader[0].span.now.items, 1, SLOTS + 1);	/* as when the writer went to sleep */
	assert_true(f->sleeps_us && f->sleeps_us <= seen->now_us);
	assert_int_equal(f->slowest_pid, getpid());
	/* It is killed: the figures are gone with it, the feed is not. */
	end(writer);
	seen = look("runs");
	assert_int_equal(seen->state, FEED_LOOK_NOBODY);
	assert_int_equal(seen->tasks, 1);
	for (int i = 1; i <= SLOTS; i++)
		feed_reader_release(r, item[i].ring, item[i].slot);
	feed_reader_close(r);
}

struct late { struct feed_reader *reader; bool got; };

static void *comes_later(void *ctx)
{
	struct late *l = ctx;
	struct feed_item item;
	pause_ms(200);
	l->got = feed_reader_next(l->reader, WAIT_MS, &item, NULL) == 0 && item.epoch == 0 && item.index == 0;
	if (l->got)
		feed_reader_release(l->reader, item.ring, item.slot);
	return NULL;
}

/* Two are wanted: the first gets nothing before the second is there, and then both get all; it is not dropped meanwhile. */
static void the_first_epoch_waits_for_readers(void **state)
{
	(void)state;
	struct feed_item item;
	struct error err = ERROR_INIT;
	void *data;
	struct feed_reader *one = feed_reader_open("wants", "numbers", FEED_JOIN_NEXT, NULL);
	struct feed_reader *two = feed_reader_open("wants", "numbers", FEED_JOIN_NEXT, NULL);
	struct feed_writer *w = feed_writer_claim("wants", "numbers", 7, NULL);
	assert_int_equal(feed_writer_open(w, SLOTS, 4096, 1, NULL), 0);	/* a patience of 1 ms */
	feed_writer_wants(w, 2);
	assert_int_equal(feed_reader_next(one, 0, &item, &err), -1);
	pthread_t thread;
	struct late late = { two, false };
	assert_int_equal(pthread_create(&thread, NULL, comes_later, &late), 0);
	assert_int_equal(feed_writer_reserve(w, 4, &data, &err), 0);
	assert_int_equal(feed_writer_readers(w), 2);
	feed_writer_publish(w, FEED_BATCH, 4);
	pthread_join(thread, NULL);
	assert_true(late.got);
	take(one, &item);
	assert_true(item.epoch == 0 && item.index == 0);
	feed_reader_release(one, item.ring, item.slot);
	feed_reader_close(one);
	feed_reader_close(two);
	feed_writer_close(w);
}

static void one_that_has_made_nothing_yet_is_seen(void **state)
{
	(void)state;
	struct feed_writer *w = feed_writer_claim("begins", "numbers", 7, NULL);
	assert_int_equal(look("begins")->state, FEED_LOOK_BEGINS);
	assert_int_equal(look("begins")->writer, getpid());
	assert_int_equal(feed_writer_open(w, SLOTS, 4096, 0, NULL), 0);
	assert_int_equal(look("begins")->state, FEED_LOOK_RUNS);
	feed_writer_close(w);
	struct error err = ERROR_INIT;
	struct feed_look seen;
	assert_int_equal(feed_look("begins", &seen, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void names_are_those_of_the_folder(void **state)
{
	(void)state;
	struct feed_writer *b = feed_writer_claim("b.1", "b", 7, NULL), *a = feed_writer_claim("a", "a", 7, NULL);
	char **names = feed_look_names(NULL);
	assert_string_equal(names[0], "a");
	assert_string_equal(names[1], "b.1");
	assert_null(names[2]);
	free(names);
	feed_writer_close(a);
	feed_writer_close(b);
}

/* Beside one's own; figures of it as far as the kernel lets one see the writer's, who may be another user. */
static void those_of_a_group_are_seen(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_look seen;
	char theirs[64], name[32], other[32];
	snprintf(theirs, sizeof theirs, "%s/group", dir);
	snprintf(name, sizeof name, "%u:g", (unsigned)getegid());
	snprintf(other, sizeof other, "%u:none", (unsigned)getegid());
	assert_int_equal(mkdir(theirs, 0700) | chown(theirs, (uid_t)-1, getegid()) | chmod(theirs, 02770), 0);
	setenv("RADFEED_DIR", theirs, 1);
	struct feed_writer *w = feed_writer_claim(name, "g", 7, &err);
	assert_non_null(w);
	char **names = feed_look_names(&err);
	assert_non_null(names);
	assert_string_equal(names[0], name);
	assert_null(names[1]);
	free(names);
	assert_int_equal(feed_look(name, &seen, &err), 0);
	assert_true(seen.state == FEED_LOOK_BEGINS && seen.writer == getpid());
	assert_string_equal(seen.name, name);
	assert_int_equal(feed_look(other, &seen, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	feed_writer_close(w);
	assert_int_equal(rmdir(theirs), 0);
	setenv("RADFEED_DIR", dir, 1);
}

static void looking_makes_nothing(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_look seen;
	char none[64];
	snprintf(none, sizeof none, "%s/none", dir);
	setenv("RADFEED_DIR", none, 1);
	char **names = feed_look_names(&err);
	assert_non_null(names);
	assert_null(names[0]);
	free(names);
	assert_int_equal(feed_look("x", &seen, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(access(none, F_OK), -1);
	assert_int_equal(mkdir(none, 0755), 0);
	assert_null(feed_look_names(&err));
	assert_int_equal(err.code, ERR_DENIED);
	rmdir(none);
	setenv("RADFEED_DIR", dir, 1);
	assert_int_equal(feed_look("../x", &seen, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

/* What stands there names a descriptor that is another file, as after its pid came round again. */
static void what_is_no_ring_is_not_opened(void **state)
{
	(void)state;
	struct feed_place place;
	struct feed_writer *w = feed_writer_claim("liar", "numbers", 7, NULL);
	assert_int_equal(feed_place_find("liar", &place, NULL), 0);
	int pipes[2], fd = open(place.state, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pipe(pipes), 0);
	uint64_t shown = (uint64_t)getpid() << 32 | (uint32_t)(pipes[0] + 1);
	assert_int_equal(pwrite(fd, &shown, sizeof shown, offsetof(struct feed_state, shown)), sizeof shown);
	assert_int_equal(look("liar")->state, FEED_LOOK_HIDDEN);
	shown = UINT64_MAX;
	assert_int_equal(pwrite(fd, &shown, sizeof shown, offsetof(struct feed_state, shown)), sizeof shown);
	assert_int_equal(look("liar")->state, FEED_LOOK_HIDDEN);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_int_equal(look("liar")->state, FEED_LOOK_HIDDEN);
	assert_string_equal(look("liar")->sign, "");
	assert_int_equal(ftruncate(fd, sizeof(struct feed_state)), 0);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	feed_writer_close(w);
}

static void rates_are_of_the_last_spans(void **state)
{
	(void)state;
	struct feed_span s = { 0 };
	const uint64_t second = 1000000;
	/* Ten batches a second, of which half the time was waiting; then none. */
	for (uint64_t i = 0; i <= 600; i++)
		feed_span_count(&s, (struct feed_count){ second + i * second / 10, i, 1000 * i, i * second / 20 });
	uint64_t now = 61 * second;
	assert_in_range(s.from.at_us, now - 20 * second, now - 10 * second);
	struct feed_rate r = feed_span_rate(&s, now, 0);
	assert_true(fabs(r.batches_s - 10) <= 1e-6);
	assert_true(fabs(r.bytes_s - 10000) <= 1e-3);
	assert_true(fabs(r.wait_fraction - 0.5) <= 1e-6);
	/* Nothing was noted since, and it waits: the rate sinks, the waiting grows, to the whole of it at most. */
	r = feed_span_rate(&s, now + 1000 * second, now);
	assert_true(r.batches_s < 0.3 && r.wait_fraction > 0.98 && r.wait_fraction <= 1);
	/* Counts that went back, a clock that did: nothing is negative. */
	s.now = (struct feed_count){ 0 };
	r = feed_span_rate(&s, now, 0);
	assert_true(r.batches_s + r.bytes_s + r.wait_fraction <= 0);
	r = feed_span_rate(&s, 0, 0);
	assert_true(r.batches_s + r.bytes_s + r.wait_fraction <= 0);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(dir) ? setenv("RADFEED_DIR", dir, 1) : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_feed_that_runs_is_seen), cmocka_unit_test(the_first_epoch_waits_for_readers),
		cmocka_unit_test(one_that_has_made_nothing_yet_is_seen),
		cmocka_unit_test(names_are_those_of_the_folder), cmocka_unit_test(those_of_a_group_are_seen),
		cmocka_unit_test(looking_makes_nothing),
		cmocka_unit_test(what_is_no_ring_is_not_opened), cmocka_unit_test(rates_are_of_the_last_spans),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
