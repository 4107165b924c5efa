/* SPDX-License-Identifier: MIT
 * One feed in one process: who may join and where, what each is refused, and that a reader cannot write into what others read.
 */
#include "base/clock.h"
#include "feed/feed.h"
#include "feed/place.h"
#include "feed/test_one.h"
#include "feed/wire.h"
#include "feed/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/radfeed-test-XXXXXX";

/* A file system without locks, as some of a network are: with that errno (the linker's --wrap); 0: locks are there. */
static int lock_errno;
int __real_fcntl64(int fd, int what, void *arg);
int __wrap_fcntl64(int fd, int what, void *arg);

int __wrap_fcntl64(int fd, int what, void *arg)
{
	if (!lock_errno || (what != F_OFD_SETLK && what != F_OFD_SETLKW))
		return __real_fcntl64(fd, what, arg);
	errno = lock_errno;
	return -1;
}

/* The reader asks, and the writer looks, which it does as it makes room. */
static void join(struct feed_writer *w, struct feed_reader *r)
{
	struct error err = ERROR_INIT;
	struct feed_item item;
	void *data;
	assert_int_equal(next(r, &item, &err), ERR_UNAVAILABLE);
	feed_writer_reserve(w, 0, &data, &err);
}

static void readers_join_where_they_may(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_writer *w = writer_of("join");
	write_item(w, FEED_BATCH, 10);
	write_item(w, FEED_BATCH, 11);
	struct feed_reader *whole = reader_of("join", FEED_JOIN_NEXT), *now = reader_of("join", FEED_JOIN_NOW);
	join(w, whole);
	join(w, now);
	expect_item(whole, 0, 0, 10);	/* the epoch has begun, and its first batch is still there */
	expect_item(whole, 0, 1, 11);
	assert_int_equal(next(now, &item, &err), ERR_UNAVAILABLE);
	for (int i = 2; i < 6; i++) {
		write_item(w, FEED_BATCH, 10 + i);
		expect_item(whole, 0, (uint64_t)i, 10 + i);
		expect_item(now, 0, (uint64_t)i, 10 + i);
	}
	struct feed_reader *later = reader_of("join", FEED_JOIN_NEXT);
	join(w, later);
	write_item(w, FEED_END, 0);
	assert_int_equal(next(later, &item, &err), ERR_UNAVAILABLE);
	write_item(w, FEED_BATCH, 20);
	expect_item(later, 1, 0, 20);
	assert_int_equal(feed_writer_readers(w), 3);
	feed_reader_close(whole);
	feed_reader_close(now);
	feed_reader_close(later);
	feed_writer_close(w);
}

static void the_slowest_holds_back_and_is_told_of_its_hoard(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item, held[SLOTS];
	struct feed_writer *w = writer_of("slow");
	struct feed_reader *r = reader_of("slow", FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 0);
	join(w, r);
	for (int i = 1; i < SLOTS; i++)
		write_item(w, FEED_BATCH, i);
	for (int i = 0; i < SLOTS; i++)
		assert_int_equal(next(r, &held[i], &err), ERR_NONE);
	assert_int_equal(next(r, &item, &err), ERR_CONFLICT);
	for (int i = SLOTS - 1; i >= 0; i--)
		feed_reader_release(r, held[i].ring, held[i].slot);
	write_item(w, FEED_BATCH, SLOTS);
	expect_item(r, 0, SLOTS, SLOTS);
	feed_reader_close(r);
	feed_writer_close(w);
}

static void one_that_holds_back_for_too_long_is_dropped(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_writer *w = feed_writer_claim("patience", "data", 7, NULL);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 30, &err), 0);
	struct feed_reader *r = reader_of("patience", FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 0);
	join(w, r);
	assert_int_equal(next(r, &item, &err), ERR_NONE);
	for (int i = 1; i < SLOTS; i++)
		write_item(w, FEED_BATCH, i);
	void *data;
	int64_t from = clock_mono_ms();
	assert_int_equal(feed_writer_readers(w), 1);
	struct feed_reader *other = reader_of("patience", FEED_JOIN_NOW);
	assert_int_equal(next(other, &item, &err), ERR_UNAVAILABLE);
	assert_int_equal(feed_writer_reserve(w, 0, &data, &err), 0);
	assert_true(clock_mono_ms() - from >= 30);
	assert_int_equal(next(r, &item, &err), ERR_DENIED);
	assert_int_equal(feed_writer_readers(w), 1);
	feed_reader_release(r, item.ring, item.slot);
	feed_reader_close(r);
	feed_reader_close(other);
	feed_writer_close(w);
}

static void a_writer_without_descriptors_sleeps_all_the_same(void **state)
{
	(void)state;
	enum { SLEEP_MS = 50 };
	struct feed_item item;
	struct error err = ERROR_INIT;
	struct rlimit limit, none;
	struct feed_writer *w = writer_of("crowded");
	struct feed_reader *r = reader_of("crowded", FEED_JOIN_NEXT);
	assert_int_equal(next(r, &item, &err), ERR_UNAVAILABLE);
	int first = dup(0);	/* that is free */
	close(first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ (rlim_t)first, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	feed_peers_serve(w, 0);
	int64_t from = clock_mono_ms();
	feed_peers_serve(w, SLEEP_MS);
	assert_true(clock_mono_ms() - from >= SLEEP_MS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	feed_peers_serve(w, 0);
	assert_int_equal(feed_writer_readers(w), 1);
	feed_reader_close(r);
	feed_writer_close(w);
}

static void *reserves(void *arg)
{
	void *data;
	return feed_writer_reserve(arg, 0, &data, NULL) ? NULL : arg;
}

/* While the ring is full and nobody reads, nobody holds anybody up: who comes then has its time from there on. */
static void who_joins_a_writer_that_has_waited_is_given_time(void **state)
{
	(void)state;
	enum { PATIENCE_MS = 1500 };
	struct error err = ERROR_INIT;
	struct feed_item item;
	pthread_t thread;
	void *reserved;
	struct feed_writer *w = feed_writer_claim("late", "data", 7, NULL);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, PATIENCE_MS, &err), 0);
	for (int i = 0; i < SLOTS; i++)
		write_item(w, FEED_BATCH, i);
	assert_int_equal(pthread_create(&thread, NULL, reserves, w), 0);
	poll(NULL, 0, PATIENCE_MS + 50);
	struct feed_reader *r = reader_of("late", FEED_JOIN_NEXT);
	for (int i = 0; i < SLOTS; i++) {
		if (feed_reader_next(r, 10000, &item, &err))
			fail_msg("item %d: %s", i, err.text);
		assert_int_equal(item.index, i);
		feed_reader_release(r, item.ring, item.slot);
	}
	assert_int_equal(pthread_join(thread, &reserved), 0);
	assert_ptr_equal(reserved, w);
	feed_reader_close(r);
	feed_writer_close(w);
}

/* It begins where the one stands that has held the writer up for half as long as it may. */
static void who_joins_beside_one_that_is_dropped_stays(void **state)
{
	(void)state;
	enum { PATIENCE_MS = 3000 };	/* a machine that is busy otherwise may lose half of it at each step */
	struct error err = ERROR_INIT;
	struct feed_item first, item, held;
	pthread_t thread;
	struct feed_writer *w = feed_writer_claim("beside", "data", 7, NULL);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, PATIENCE_MS, &err), 0);
	struct feed_reader *slow = reader_of("beside", FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 0);
	join(w, slow);
	assert_int_equal(next(slow, &first, &err), ERR_NONE);
	for (int i = 1; i < SLOTS; i++)
		write_item(w, FEED_BATCH, i);
	assert_int_equal(pthread_create(&thread, NULL, reserves, w), 0);
	poll(NULL, 0, PATIENCE_MS / 2);
	struct feed_reader *other = reader_of("beside", FEED_JOIN_NEXT);
	if (feed_reader_next(other, 10000, &held, &err))
		fail_msg("%s", err.text);
	assert_int_equal(held.index, 0);
	for (enum error_code code; (code = next(slow, &item, &err)) != ERR_DENIED; sched_yield())
		if (code == ERR_NONE)
			feed_reader_release(slow, item.ring, item.slot);
	expect_item(other, 0, 1, 1);
	feed_reader_release(other, held.ring, held.slot);
	/* there is room now, if this one was not dropped as well */
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &(struct timespec){ .tv_sec = time(NULL) + 10 }), 0);
	feed_reader_release(slow, first.ring, first.slot);
	feed_reader_close(slow);
	feed_reader_close(other);
	feed_writer_close(w);
}

static void other_data_of_that_name_are_refused(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_writer *w = writer_of("sign");
	struct feed_reader *r = feed_reader_open("sign", "other", FEED_JOIN_NEXT, NULL);
	join(w, r);
	assert_int_equal(next(r, &item, &err), ERR_INVALID);
	assert_non_null(strstr(err.text, "\"data\""));
	feed_reader_close(r);
	feed_writer_close(w);
}

static void names_and_folders_are_looked_at(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	const char *wrong[] = { "", ".x", "a/b", "..", "a b",
				"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_null(feed_reader_open(wrong[i], "data", FEED_JOIN_NEXT, &err));
		assert_int_equal(err.code, ERR_INVALID);
	}
	chmod(dir, 0755);
	assert_null(feed_reader_open("x", "data", FEED_JOIN_NEXT, &err));
	assert_int_equal(err.code, ERR_DENIED);
	chmod(dir, 0700);
}

static void a_folder_that_has_no_locks_is_told_of(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_reader *r = feed_reader_open("unlocked", "data", FEED_JOIN_NEXT, &err);
	lock_errno = ENOLCK;
	assert_int_equal(next(r, &item, &err), ERR_SYSTEM);
	assert_non_null(strstr(err.text, "lock of "));
	assert_null(feed_writer_claim("unlocked", "data", 7, &err));
	lock_errno = 0;
	feed_reader_close(r);
	feed_writer_resign("unlocked");
}

static void a_batch_that_is_too_large_is_refused(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	void *data;
	struct feed_writer *w = writer_of("large");
	assert_int_equal(feed_writer_reserve(w, SLOT_BYTES + 1, &data, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	feed_writer_close(w);
}

static void on_alarm(int number)
{
	(void)number;
}

/* The kernel may end the taking of memory with EINTR; that is no want of memory. */
static void a_signal_while_memory_is_taken_does_no_harm(void **state)
{
	(void)state;
	enum { LARGE = 64 << 20 };
	struct error err = ERROR_INIT;
	struct sigaction act = { .sa_handler = on_alarm };
	struct itimerval once = { .it_value.tv_usec = 2000 };
	void *data;
	struct feed_writer *w = feed_writer_claim("signal", "data", 7, NULL);
	assert_int_equal(feed_writer_open(w, 2, LARGE, 0, &err), 0);
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &once, NULL);
	while (feed_writer_reserve(w, LARGE, &data, &err))
		assert_true(err.code == ERR_UNAVAILABLE && err.no == 0);	/* a signal came as it looked for readers */
	memset(data, 1, LARGE);
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	feed_writer_close(w);
}

static void a_fork_has_no_part_in_it(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_writer *w = writer_of("fork");
	struct feed_reader *r = reader_of("fork", FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 1);
	join(w, r);
	assert_int_equal(next(r, &item, &err), ERR_NONE);
	pid_t pid = fork();
	if (pid == 0) {
		feed_reader_release(r, item.ring, item.slot);
		_exit(next(r, &item, &err) == ERR_CONFLICT ? 0 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	write_item(w, FEED_BATCH, 2);
	feed_reader_release(r, item.ring, item.slot);
	expect_item(r, 0, 1, 2);
	feed_reader_close(r);
	feed_writer_close(w);
}

/* A reader of its own kind: what it gets can be mapped for reading, and in no way for writing. */
static void a_hostile_reader_cannot_write_into_the_ring(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_place place;
	struct feed_hello hello = { .want = FEED_NEVER, .sign = "data" };
	unsigned char bytes[FEED_WIRE_MAX];
	struct feed_writer *w = writer_of("hostile");
	int lock, fds[2];
	void *data;
	assert_int_equal(feed_place_find("hostile", &place, &err), 0);
	assert_int_equal(feed_place_join(&place, &lock, &hello.token, &err), 0);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&place.sock, sizeof place.sock), 0);
	feed_wire_send(sock, bytes, feed_wire_put_hello(&hello, bytes), NULL, 0);
	assert_int_equal(feed_writer_reserve(w, 0, &data, &err), 0);
	assert_true(feed_wire_receive(sock, bytes, sizeof bytes, fds) > 0);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
	int again = open(path, O_RDWR);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
	assert_true(write(fds[0], "x", 1) < 0 && (again < 0 || write(again, "x", 1) < 0));
	assert_true(ftruncate(fds[0], 0) < 0 && fcntl(fds[0], F_ADD_SEALS, F_SEAL_WRITE) < 0);
	/* It says that it is done with what was never there: nobody waits for it any more, nor trusts it. */
	struct feed_control *control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	atomic_store(&control->done, 1000);
	write_item(w, FEED_BATCH, 1);
	assert_int_equal(feed_writer_readers(w), 0);
	close(again);
	close(sock);
	close(lock);
	feed_writer_close(w);
}

static void what_is_no_hello_ends_the_connection(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_place place;
	struct feed_hello hello = { .token = 1ull << 33, .want = FEED_NEVER, .sign = "data" };
	unsigned char bytes[FEED_WIRE_MAX];
	struct feed_writer *w = writer_of("noise");
	int fds[2];
	void *data;
	assert_int_equal(feed_place_find("noise", &place, &err), 0);
	for (int i = 0; i < 2; i++) {
		int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(sock, (struct sockaddr *)&place.sock, sizeof place.sock), 0);
		if (i == 0)
			feed_wire_send(sock, "noise", 5, NULL, 0);
		else	/* a token that nobody holds */
			feed_wire_send(sock, bytes, feed_wire_put_hello(&hello, bytes), NULL, 0);
		assert_int_equal(feed_writer_reserve(w, 0, &data, &err), 0);
		assert_true(feed_wire_receive(sock, bytes, sizeof bytes, fds) <= 0);
		close(sock);
	}
	feed_writer_close(w);
}

static int lowest_free(void)
{
	int fd = dup(STDIN_FILENO);
	close(fd);
	return fd;
}

/* As a hostile member of a group may send with each message. */
static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
	(void)state;
	char bytes[FEED_WIRE_MAX];
	int pair[2], more[2], fds[2], free_before;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	free_before = lowest_free();
	assert_int_equal(pipe(more), 0);
	assert_int_equal(feed_wire_send(pair[0], "x", 1, more, 2), 0);	/* two, where none is wanted */
	assert_int_equal(feed_wire_send(pair[0], "x", 1, more, 1), 0);	/* one, where two are */
	close(more[0]);
	close(more[1]);
	assert_int_equal(feed_wire_receive(pair[1], bytes, sizeof bytes, NULL), 1);
	assert_int_equal(feed_wire_receive(pair[1], bytes, sizeof bytes, fds), 1);
	assert_true(fds[0] < 0 && fds[1] < 0);
	assert_int_equal(lowest_free(), free_before);
	close(pair[0]);
	close(pair[1]);
}

/* Sealed as a ring is, and of pages that there may be none of when they are first read. */
static void memory_of_huge_pages_is_no_ring(void **state)
{
	(void)state;
	uint64_t bytes;
	int small = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING), huge;
	assert_int_equal(ftruncate(small, 4096), 0);
	assert_int_equal(feed_ring_check(small, &bytes, NULL), -1);	/* it may shrink */
	assert_int_equal(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(feed_ring_check(small, &bytes, NULL), 0);
	assert_int_equal(bytes, 4096);
	close(small);
	huge = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (huge < 0 || ftruncate(huge, 1 << 30) || fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK)) {
		close(huge);
		skip();
	}
	assert_int_equal(feed_ring_check(huge, &bytes, NULL), -1);
	close(huge);
}

/* As any member of a group could. */
static void cut_short(const char *name)
{
	struct feed_place place;
	assert_int_equal(feed_place_find(name, &place, NULL), 0);
	assert_int_equal(truncate(place.state, 0), 0);
}

/* Whatever was done to its file meanwhile: that ends nobody, and what is written next has all of it. */
static void another_writer_goes_on_where_the_first_was(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item held;
	uint64_t epoch, index, seed;
	struct feed_writer *w = writer_of("on");
	struct feed_reader *r = reader_of("on", FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 0);
	cut_short("on");
	write_item(w, FEED_BATCH, 1);
	cut_short("on");
	join(w, r);
	assert_int_equal(next(r, &held, &err), ERR_NONE);
	feed_writer_close(w);
	w = feed_writer_claim("on", "data", 8, &err);
	feed_writer_position(w, &epoch, &index, &seed);
	assert_true(epoch == 0 && index <= 2 && seed == 7);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err), 0);
	expect_item(r, 0, 1, 1);	/* of the first writer, which is no more */
	join(w, r);
	for (int i = (int)index; i < 3; i++)
		write_item(w, FEED_BATCH, i);
	expect_item(r, 0, 2, 2);
	assert_int_equal(*(int *)held.data, 0);
	feed_reader_release(r, held.ring, held.slot);
	feed_reader_close(r);
	feed_writer_close(w);
	w = writer_of("on");	/* nobody is left to go on for */
	feed_writer_position(w, &epoch, &index, &seed);
	assert_true(epoch == 0 && index == 0);
	feed_writer_close(w);
}

/* Whether the next writer says another value for the last item than the reader had got from the one before. */
static bool told_of(const char *name, int again)
{
	struct error err = ERROR_INIT;
	uint64_t epoch, index, seed;
	struct feed_writer *w = writer_of(name);
	struct feed_reader *r = reader_of(name, FEED_JOIN_NEXT);
	write_item(w, FEED_BATCH, 0);
	write_item(w, FEED_BATCH, 1);
	join(w, r);
	expect_item(r, 0, 0, 0);
	expect_item(r, 0, 1, 1);
	feed_writer_close(w);
	w = feed_writer_claim(name, "data", 8, &err);
	feed_writer_position(w, &epoch, &index, &seed);
	assert_true(index == 2);
	assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err), 0);
	feed_writer_again(w, &again, sizeof again);
	join(w, r);
	write_item(w, FEED_BATCH, 2);
	expect_item(r, 0, 2, 2);
	bool differs = feed_reader_differs(r);
	assert_false(feed_reader_differs(r));	/* once */
	feed_reader_close(r);
	feed_writer_close(w);
	return differs;
}

static void another_writer_that_makes_other_items_is_told_of(void **state)
{
	(void)state;
	assert_false(told_of("again", 1));
	assert_true(told_of("again", 5));
}

static void a_ring_is_written_by_readers_only_where_it_was_asked_for(void **state)
{
	(void)state;
	for (int pinnable = 0; pinnable < 2; pinnable++) {
		struct error err = ERROR_INIT;
		struct feed_item item;
		uint64_t bytes;
		struct feed_writer *w = feed_writer_claim("pin", "data", 7, &err);
		if (pinnable)
			feed_writer_pinnable(w);
		assert_int_equal(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err), 0);
		struct feed_reader *r = reader_of("pin", FEED_JOIN_NEXT);
		write_item(w, FEED_BATCH, 41);
		write_item(w, FEED_BATCH, 42);
		join(w, r);
		expect_item(r, 0, 0, 41);
		assert_int_equal(next(r, &item, &err), ERR_NONE);
		void *slots;
		const int *value = feed_item_shared(&item, &slots, &bytes);
		assert_int_equal(bytes, SLOTS * SLOT_BYTES);
		assert_ptr_equal(value, (char *)slots + item.slot * SLOT_BYTES);
		assert_int_equal(*value, 42);
		assert_int_equal(mprotect(slots, bytes, PROT_READ | PROT_WRITE), pinnable ? 0 : -1);
		feed_reader_release(r, item.ring, item.slot);
		feed_reader_close(r);
		feed_writer_close(w);
	}
}

static bool has_files(const char *name)
{
	char path[sizeof dir + 32];
	snprintf(path, sizeof path, "%s/%s.feed", dir, name);
	return access(path, F_OK) == 0;
}

/* A writer that takes no files away, as one that is killed. */
static struct feed_reader *reader_of_a_dead_writer(const char *name)
{
	int ready[2];
	char one;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct error err = ERROR_INIT;
		void *data;
		struct feed_writer *w = feed_writer_claim(name, "data", 7, &err);
		feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err);
		for (bool told = false; ; told = told || write(ready[1], "x", 1) == 1)
			if (feed_writer_reserve(w, 0, &data, &err) == 0)
				feed_writer_publish(w, FEED_BATCH, 0);
	}
	assert_int_equal(read(ready[0], &one, 1), 1);
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_reader *r = reader_of(name, FEED_JOIN_NEXT);
	assert_int_equal(feed_reader_next(r, 60000, &item, &err), 0);
	feed_reader_release(r, item.ring, item.slot);
	feed_writer_resign(name);	/* one writes, and one reads */
	assert_true(has_files(name));
	assert_int_equal(kill(pid, SIGKILL) | (waitpid(pid, NULL, 0) != pid), 0);
	close(ready[0]);
	close(ready[1]);
	return r;
}

/* Who leaves while the lock is taken cannot look after the files, and who had the lock has looked before: so whoever waited for
 * it looks once more. */
static void who_waited_for_its_turn_and_leaves_takes_what_nobody_needs(void **state)
{
	(void)state;
	struct feed_reader *r = reader_of_a_dead_writer("resign");
	feed_writer_resign("resign");	/* that reader lives */
	assert_true(has_files("resign"));
	char path[sizeof dir + 32];
	snprintf(path, sizeof path, "%s/resign.feed", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);	/* another that is about to end */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	feed_reader_close(r);
	assert_true(has_files("resign"));
	close(fd);
	feed_writer_resign("resign");
	assert_false(has_files("resign"));
	feed_writer_resign("resign");	/* and makes none */
	assert_false(has_files("resign"));
}

/* As a worker of a loader does for some seconds. */
static void a_fork_of_a_writer_that_outlives_it_holds_nobody_up(void **state)
{
	(void)state;
	int said[2];
	pid_t child;
	assert_int_equal(pipe(said), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct error err = ERROR_INIT;
		feed_writer_claim("outlived", "data", 7, &err);
		child = fork();
		if (child && write(said[1], &child, sizeof child) == sizeof child)
			_exit(0);
		for (;;)
			pause();
	}
	assert_int_equal(read(said[0], &child, sizeof child), sizeof child);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
	alarm(20);
	struct error err = ERROR_INIT;
	struct feed_writer *w = feed_writer_claim("outlived", "data", 7, &err);
	alarm(0);
	kill(child, SIGKILL);
	assert_non_null(w);
	feed_writer_close(w);
	close(said[0]);
	close(said[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_join_where_they_may),
		cmocka_unit_test(the_slowest_holds_back_and_is_told_of_its_hoard),
		cmocka_unit_test(one_that_holds_back_for_too_long_is_dropped),
		cmocka_unit_test(who_joins_a_writer_that_has_waited_is_given_time),
		cmocka_unit_test(who_joins_beside_one_that_is_dropped_stays),
		cmocka_unit_test(a_writer_without_descriptors_sleeps_all_the_same),
		cmocka_unit_test(other_data_of_that_name_are_refused),
		cmocka_unit_test(names_and_folders_are_looked_at),
		cmocka_unit_test(a_folder_that_has_no_locks_is_told_of),
		cmocka_unit_test(a_batch_that_is_too_large_is_refused),
		cmocka_unit_test(a_signal_while_memory_is_taken_does_no_harm),
		cmocka_unit_test(a_fork_has_no_part_in_it),
		cmocka_unit_test(a_hostile_reader_cannot_write_into_the_ring),
		cmocka_unit_test(what_is_no_hello_ends_the_connection),
		cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
		cmocka_unit_test(memory_of_huge_pages_is_no_ring),
		cmocka_unit_test(another_writer_goes_on_where_the_first_was),
		cmocka_unit_test(another_writer_that_makes_other_items_is_told_of),
		cmocka_unit_test(a_ring_is_written_by_readers_only_where_it_was_asked_for),
		cmocka_unit_test(a_fork_of_a_writer_that_outlives_it_holds_nobody_up),
		cmocka_unit_test(who_waited_for_its_turn_and_leaves_takes_what_nobody_needs),
	};
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!failed && rmdir(dir)) {
		printf("something is left in %s\n", dir);
		return 1;
	}
	return failed;
}
