/* SPDX-License-Identifier: MIT
 * A writer and readers that are threads of one process, for ThreadSanitizer. It knows memory by its address, and each of them
 * maps the ring for itself; so mmap is replaced here (the linker's --wrap): the same memfd is always at the same address, and
 * what one stores another loads there.
 */
#include "base/clock.h"
#include "feed/feed.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { READERS = 3, WRITERS = 4, ITEMS = 400, EPOCH = 37, SLOTS = 3, WORDS = 64, KNOWN_MAX = 64 };
enum { WAIT_MS = 100, DEADLINE_MS = 110000 };

struct known {		/* a memfd, mapped once */
	ino_t inode;
	unsigned char *map;
	size_t bytes;
	int users;
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known known[KNOWN_MAX];

void *__real_mmap64(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	struct stat st;
	if (fd < 0 || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st))
		return __real_mmap64(at, bytes, prot, flags, fd, offset);
	pthread_mutex_lock(&known_lock);
	struct known *k = NULL, *room = NULL;
	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (known[i].users && known[i].inode == st.st_ino)
			k = &known[i];
		if (!known[i].users && !room)
			room = &known[i];
	}
	if (!k) {
		k = room;
		*k = (struct known){ .inode = st.st_ino, .bytes = (size_t)st.st_size };
		k->map = __real_mmap64(NULL, k->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	k->users++;
	void *map = k->map == MAP_FAILED ? MAP_FAILED : k->map + offset;
	pthread_mutex_unlock(&known_lock);
	return map;
}

int __wrap_munmap(void *at, size_t bytes)
{
	int rc = 0;
	bool ours = false;
	pthread_mutex_lock(&known_lock);
	for (size_t i = 0; i < KNOWN_MAX && !ours; i++) {
		struct known *k = &known[i];
		ours = k->users && (unsigned char *)at >= k->map && (unsigned char *)at < k->map + k->bytes;
		if (ours && --k->users == 0)
			rc = __real_munmap(k->map, k->bytes);
	}
	pthread_mutex_unlock(&known_lock);
	return ours ? rc : __real_munmap(at, bytes);
}

static char dir[] = "/tmp/radfeed-test-XXXXXX";

/* cmocka's assertions are for the thread that runs the test. */
#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static uint64_t word_of(const uint64_t position, uint64_t i)
{
	return (position << 20 | i) * 0x9e3779b97f4a7c15ull;
}

/* Of its turn: a few items, then another thread's turn comes, as after the death of this one. */
static void write_turn(struct feed_writer *w, uint64_t count)
{
	struct error err = ERROR_INIT;
	uint64_t epoch, index, seed;
	feed_writer_position(w, &epoch, &index, &seed);
	MUST(feed_writer_open(w, SLOTS, WORDS * 8, 0, &err) == 0);
	for (uint64_t n = 0; n < count; n++) {
		void *data;
		bool end = index == EPOCH;
		if (feed_writer_reserve(w, end ? 0 : WORDS * 8, &data, &err)) {
			MUST(err.code == ERR_NOT_FOUND);
			return;
		}
		for (uint64_t i = 0; i < WORDS && !end; i++)
			((uint64_t *)data)[i] = word_of(epoch << 16 | index, i);
		feed_writer_publish(w, end ? FEED_END : FEED_BATCH, end ? 0 : WORDS * 8);
		epoch += end;
		index = end ? 0 : index + 1;
	}
}

static int until[2];

static void *writes(void *arg)
{
	(void)arg;
	struct error err = ERROR_INIT;
	for (int turn = 0; turn < WRITERS; turn++) {
		struct feed_writer *w = feed_writer_claim("threads", "data", 7, &err);
		MUST(w);
		feed_writer_until(w, until[0]);
		write_turn(w, turn + 1 < WRITERS ? ITEMS / 2 : UINT64_MAX);
		feed_writer_close(w);
	}
	return NULL;
}

struct reads {
	unsigned seed;
	uint64_t taken;
};

static void check_item(const struct feed_item *item)
{
	for (uint64_t i = 0; i < WORDS && item->kind == FEED_BATCH; i++)
		MUST(((uint64_t *)item->data)[i] == word_of(item->epoch << 16 | item->index, i));
}

/* Each has a thread that gives back what it took, as Python's collector may. */
struct giving {
	struct feed_reader *reader;
	struct feed_item item;
};

static void *gives_back(void *arg)
{
	struct giving *g = arg;
	feed_reader_release(g->reader, g->item.ring, g->item.slot);
	return NULL;
}

static void *reads(void *arg)
{
	struct reads *own = arg;
	struct error err = ERROR_INIT;
	struct giving g = { .reader = feed_reader_open("threads", "data", FEED_JOIN_NEXT, &err) };
	int64_t deadline = clock_mono_ms() + DEADLINE_MS;
	uint64_t pos = 0;
	MUST(g.reader);
	while (own->taken < ITEMS) {
		if (feed_reader_next(g.reader, WAIT_MS, &g.item, &err)) {
			MUST(err.code == ERR_UNAVAILABLE);
			MUST(clock_mono_ms() < deadline);
			continue;
		}
		uint64_t at = g.item.epoch * (EPOCH + 1) + g.item.index;
		MUST(own->taken == 0 ? g.item.index == 0 : at == pos + 1);
		pos = at;
		check_item(&g.item);
		own->taken++;
		if (rand_r(&own->seed) % 8) {
			feed_reader_release(g.reader, g.item.ring, g.item.slot);
			continue;
		}
		pthread_t thread;
		MUST(pthread_create(&thread, NULL, gives_back, &g) == 0);
		pthread_join(thread, NULL);
	}
	feed_reader_close(g.reader);
	return NULL;
}

static void threads_read_what_a_thread_writes(void **state)
{
	(void)state;
	pthread_t writer, reader[READERS];
	struct reads own[READERS];
	assert_int_equal(pipe(until), 0);
	assert_int_equal(pthread_create(&writer, NULL, writes, NULL), 0);
	for (unsigned i = 0; i < READERS; i++) {
		own[i] = (struct reads){ .seed = i + 1 };
		assert_int_equal(pthread_create(&reader[i], NULL, reads, &own[i]), 0);
	}
	for (int i = 0; i < READERS; i++) {
		pthread_join(reader[i], NULL);
		assert_int_equal(own[i].taken, ITEMS);
	}
	assert_int_equal(write(until[1], "x", 1), 1);
	pthread_join(writer, NULL);
	close(until[0]);
	close(until[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(threads_read_what_a_thread_writes) };
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!failed && rmdir(dir)) {
		printf("something is left in %s\n", dir);
		return 1;
	}
	return failed;
}
