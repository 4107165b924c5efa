/* SPDX-License-Identifier: MIT
 * Copies of a ring's items elsewhere: who makes which, that what a dead one began is never read, and that they are of one ring
 * alone. The writer is a process of its own; readers are in this one, and where they must, in others.
 */
#include "feed/copies.h"
#include "feed/ring.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOTS = 4, WAIT_MS = 60000, STRIDE = 512, BYTES = SLOTS * STRIDE };

static pid_t start_writer(const char *name)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct error err = ERROR_INIT;
	struct feed_writer *w = feed_writer_claim(name, "data", 1, &err);
	void *data;
	if (!w || feed_writer_open(w, SLOTS, 4096, 0, &err))
		_exit(1);
	while (feed_writer_reserve(w, 100, &data, &err) == 0) {
		memset(data, 7, 100);
		feed_writer_publish(w, FEED_BATCH, 100);
	}
	_exit(0);
}

static void stop_writer(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct feed_reader *reader(const char *name, struct feed_item *item)
{
	struct error err = ERROR_INIT;
	struct feed_reader *r = feed_reader_open(name, "data", FEED_JOIN_NEXT, &err);
	assert_non_null(r);
	assert_int_equal(feed_reader_next(r, WAIT_MS, item, &err), 0);
	return r;
}

static void one_offers_and_the_others_find_it(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item a, b;
	struct feed_copies *mine, *theirs, *more;
	struct stat one, two;
	uint64_t stride, bytes;
	pid_t writer = start_writer("copies");
	struct feed_reader *r = reader("copies", &a), *s = reader("copies", &b);
	int memory = memfd_create("gpu", MFD_CLOEXEC), got = -1, none = -1;
	const struct feed_memory offer = { memory, STRIDE, BYTES }, larger = { memory, STRIDE, 2 * BYTES };
	assert_int_equal(feed_item_slots(&a), SLOTS);
	assert_int_equal(feed_reader_copies(r, &a, "gpu-0", WAIT_MS, NULL, &mine, &none, &err), 0);
	assert_null(mine);
	assert_int_equal(feed_reader_copies(r, &a, "gpu-0", WAIT_MS, &offer, &mine, &none, &err), 0);
	assert_non_null(mine);
	assert_int_equal(feed_reader_copies(s, &b, "gpu-1", WAIT_MS, NULL, &more, &none, &err), 0);
	/* A later offer gets what is there. */
	assert_int_equal(feed_reader_copies(s, &b, "gpu-0", WAIT_MS, &larger, &theirs, &got, &err), 1);
	assert_int_equal(fstat(memory, &one) | fstat(got, &two), 0);
	assert_true(one.st_ino == two.st_ino);
	feed_copies_size(theirs, &stride, &bytes);
	assert_true(stride == STRIDE && bytes == BYTES);
	assert_int_equal(feed_copies_ask(mine, &a), FEED_COPY_MAKE);
	assert_int_equal(feed_copies_ask(theirs, &b), FEED_COPY_SOON);
	feed_copies_made(mine, &a, true);
	assert_int_equal(feed_copies_ask(theirs, &b), FEED_COPY_THERE);
	feed_reader_release(r, a.ring, a.slot);
	feed_reader_release(s, b.ring, b.slot);
	assert_int_equal(feed_reader_next(r, WAIT_MS, &a, &err) | feed_reader_next(s, WAIT_MS, &b, &err), 0);
	assert_int_equal(feed_copies_ask(theirs, &b), FEED_COPY_MAKE);
	feed_copies_made(theirs, &b, false);
	assert_int_equal(feed_copies_ask(mine, &a), FEED_COPY_NEVER);
	/* Of another writer's ring it is nothing. */
	stop_writer(writer);
	writer = start_writer("copies");
	int rc;
	while ((rc = feed_reader_copies(r, &a, "gpu-0", WAIT_MS, NULL, &more, &none, &err)) < 0 && strstr(err.text, "is gone"))
		;	/* until the next one listens */
	assert_true(rc < 0 && err.code == ERR_NOT_FOUND && strstr(err.text, "another writer's"));
	feed_copies_close(mine);
	feed_copies_close(theirs);
	feed_reader_release(r, a.ring, a.slot);
	feed_reader_release(s, b.ring, b.slot);
	feed_reader_close(r);
	feed_reader_close(s);
	stop_writer(writer);
	close(memory);
	close(got);
}

/* A process that begins a copy and dies; each slot is its own. */
static void what_the_dead_began_is_left_alone(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item = { .slot = 1, .index = 5, .bytes = 100 }, other = { .slot = 2, .index = 6, .bytes = 100 };
	int fd;
	struct feed_copies *c = feed_copies_make(SLOTS, STRIDE, BYTES, &fd, &err);
	assert_non_null(c);
	int lives[2];
	assert_int_equal(pipe(lives), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct feed_copies *own = feed_copies_open(fd, SLOTS, &err);
		if (!own || feed_copies_ask(own, &item) != FEED_COPY_MAKE)
			_exit(1);
		if (write(lives[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	char byte;
	assert_int_equal(read(lives[0], &byte, 1), 1);
	assert_int_equal(feed_copies_ask(c, &item), FEED_COPY_SOON);
	stop_writer(pid);
	assert_int_equal(feed_copies_ask(c, &item), FEED_COPY_NEVER);
	item.index += SLOTS;
	assert_int_equal(feed_copies_ask(c, &item), FEED_COPY_NEVER);
	assert_int_equal(feed_copies_ask(c, &other), FEED_COPY_MAKE);
	feed_copies_made(c, &other, true);
	other.index += SLOTS;
	assert_int_equal(feed_copies_ask(c, &other), FEED_COPY_MAKE);	/* the ring gave the slot to another item */
	feed_copies_made(c, &other, true);
	feed_copies_close(c);
	close(lives[0]);
	close(lives[1]);
	close(fd);
}

static void what_is_no_table_is_refused(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct feed_item item = { .slot = SLOTS, .bytes = 100 };
	int fd, bare = memfd_create("bare", MFD_CLOEXEC);
	void *map;
	assert_null(feed_copies_make(SLOTS, BYTES, BYTES, &fd, &err));
	assert_null(feed_copies_make(SLOTS, 0, BYTES, &fd, &err));
	assert_null(feed_copies_open(bare, SLOTS, &err));
	int zeros = feed_ring_memory("zeros", 4096, false, &map, &err);
	assert_null(feed_copies_open(zeros, SLOTS, &err));
	munmap(map, 4096);
	struct feed_copies *c = feed_copies_make(SLOTS, STRIDE, BYTES, &fd, &err);
	assert_non_null(c);
	assert_null(feed_copies_open(fd, SLOTS + 1, &err));
	assert_int_equal(feed_copies_ask(c, &item), FEED_COPY_NEVER);	/* a slot that is none, and an item that has no room */
	item = (struct feed_item){ .slot = 0, .bytes = STRIDE + 1 };
	assert_int_equal(feed_copies_ask(c, &item), FEED_COPY_NEVER);
	feed_copies_close(c);
	close(fd);
	close(bare);
	close(zeros);
}

int main(void)
{
	char dir[] = "/tmp/radfeed-test-XXXXXX";
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_offers_and_the_others_find_it),
		cmocka_unit_test(what_the_dead_began_is_left_alone),
		cmocka_unit_test(what_is_no_table_is_refused),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	char path[64];
	for (const char *name = "copies.feed\0copies.sock\0"; *name; name += strlen(name) + 1) {
		snprintf(path, sizeof path, "%s/%s", dir, name);
		unlink(path);
	}
	rmdir(dir);
	return rc;
}
