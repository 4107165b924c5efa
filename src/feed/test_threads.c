/* SPDX-License-Identifier: MIT
 * A writer and readers that are threads of one process, for ThreadSanitizer. It knows memory by its address, and each of them
 * maps the ring for itself; so mmap is replaced here (the linker's --wrap): the same memfd is always at the same address, and
 * what one stores another loads there.
 *
 * Beside reading in place there is copying to a GPU, as device= and on_device= do it: a reader's stream is a thread that copies
 * when it likes, in order, and the GPU's memory is a memfd. So what has to be waited for is what ThreadSanitizer would miss.
 */
#include "base/clock.h"
#include "feed/feed.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
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
enum { WAIT_MS = 100, DEADLINE_MS = 110000, ASK_MS = 5000, SOON_MS = 2000 };

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
	const char *name = arg;
	struct error err = ERROR_INIT;
	for (int turn = 0; turn < WRITERS; turn++) {
		struct feed_writer *w = feed_writer_claim(name, "data", 7, &err);
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

static void check_words(const struct feed_item *item, const uint64_t *words)
{
	for (uint64_t i = 0; i < WORDS && item->kind == FEED_BATCH; i++)
		MUST(words[i] == word_of(item->epoch << 16 | item->index, i));
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

/* The next item, which is the one after `pos`. */
static void next_item(struct feed_reader *r, struct reads *own, uint64_t *pos, struct feed_item *item)
{
	struct error err = ERROR_INIT;
	int64_t deadline = clock_mono_ms() + DEADLINE_MS;
	while (feed_reader_next(r, WAIT_MS, item, &err)) {
		MUST(err.code == ERR_UNAVAILABLE);
		MUST(clock_mono_ms() < deadline);
	}
	uint64_t at = item->epoch * (EPOCH + 1) + item->index;
	MUST(own->taken == 0 ? item->index == 0 : at == *pos + 1);
	*pos = at;
	own->taken++;
}

static void *reads(void *arg)
{
	struct reads *own = arg;
	struct error err = ERROR_INIT;
	struct giving g = { .reader = feed_reader_open("threads", "data", FEED_JOIN_NEXT, &err) };
	uint64_t pos = 0;
	MUST(g.reader);
	while (own->taken < ITEMS) {
		next_item(g.reader, own, &pos, &g.item);
		check_words(&g.item, g.item.data);
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

/* Of a GPU: copies in the order they were asked for, some later than others. `asked` and `done` count them. */
struct stream {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct { uint64_t *to; const uint64_t *from; } copy[SLOTS];
	uint64_t asked, done;
	bool ends;
	unsigned seed;
};

static void *streams(void *arg)
{
	struct stream *s = arg;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (s->asked == s->done && !s->ends)
			pthread_cond_wait(&s->changed, &s->lock);
		if (s->asked == s->done)
			break;
		uint64_t *to = s->copy[s->done % SLOTS].to;
		const uint64_t *from = s->copy[s->done % SLOTS].from;
		pthread_mutex_unlock(&s->lock);
		for (unsigned i = rand_r(&s->seed) % 4; i; i--)
			sched_yield();
		for (int i = 0; i < WORDS; i++)
			to[i] = from[i];
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* Returns the event to wait for. */
static uint64_t stream_copy(struct stream *s, uint64_t *to, const uint64_t *from)
{
	pthread_mutex_lock(&s->lock);
	MUST(s->asked - s->done < SLOTS);
	s->copy[s->asked % SLOTS].to = to;
	s->copy[s->asked % SLOTS].from = from;
	uint64_t event = ++s->asked;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return event;
}

static void stream_wait(struct stream *s, uint64_t event)
{
	pthread_mutex_lock(&s->lock);
	while (s->done < event)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* A task with on_device="shared": what it has of the ring that it reads, and the item whose copy may still be under way. */
struct copier {
	struct feed_reader *reader;
	struct reads *own;
	struct stream stream;
	void *ring;
	struct feed_copies *copies;
	uint64_t *gpu, gpu_bytes;	/* one place for each slot; NULL: not shared */
	struct feed_item held;
	uint64_t event, words[2][WORDS];	/* of the held one, and what copies become, by turns */
	int turn;			/* the held one's */
	uint64_t made, found, alone;
};

static void share(struct copier *c, const struct feed_item *item)
{
	struct error err = ERROR_INIT;
	int memory = -1;
	uint64_t stride, slots = feed_item_slots(item);
	int rc = feed_reader_copies(c->reader, item, "gpu", ASK_MS, NULL, &c->copies, &memory, &err);
	if (rc == 0) {
		struct feed_memory offer = { memfd_create("gpu", MFD_CLOEXEC), WORDS * 8, slots * WORDS * 8 };
		MUST(ftruncate(offer.fd, (off_t)offer.bytes) == 0);
		rc = feed_reader_copies(c->reader, item, "gpu", ASK_MS, &offer, &c->copies, &memory, &err);
		if (rc == 0)
			memory = offer.fd;
		else
			close(offer.fd);
	}
	if (rc < 0) {
		MUST(err.code == ERR_NOT_FOUND || err.code == ERR_UNAVAILABLE);	/* that writer's turn is over */
		return;
	}
	feed_copies_size(c->copies, &stride, &c->gpu_bytes);
	MUST(stride == WORDS * 8 && c->gpu_bytes == slots * stride);
	c->gpu = mmap(NULL, c->gpu_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	MUST(c->gpu != MAP_FAILED);
	close(memory);
}

/* Gives back the item from which a copy may have been under way until here. */
static void let_go(struct copier *c)
{
	if (!c->held.ring)
		return;
	stream_wait(&c->stream, c->event);
	check_words(&c->held, c->words[c->turn]);
	feed_reader_release(c->reader, c->held.ring, c->held.slot);
	c->held.ring = NULL;
}

static void leave_ring(struct copier *c)
{
	let_go(c);
	if (c->gpu) {
		feed_copies_close(c->copies);
		munmap(c->gpu, c->gpu_bytes);
	}
	c->gpu = NULL;
	c->ring = NULL;
}

/* Where the item is on the GPU, made or found; NULL: it is not there. */
static const uint64_t *on_gpu(struct copier *c, const struct feed_item *item, const uint64_t *host)
{
	uint64_t *place = c->gpu + (uint64_t)item->slot * WORDS;
	int64_t deadline = clock_mono_ms() + SOON_MS;
	int answer;
	while ((answer = feed_copies_ask(c->copies, item)) == FEED_COPY_SOON && clock_mono_ms() < deadline)
		sched_yield();
	if (answer == FEED_COPY_MAKE) {
		bool whole = rand_r(&c->own->seed) % 64 != 0;	/* a copy that failed is nobody's */
		stream_wait(&c->stream, stream_copy(&c->stream, place, host));
		feed_copies_made(c->copies, item, whole);
		c->made += whole;
		return whole ? place : NULL;
	}
	c->found += answer == FEED_COPY_THERE;
	return answer == FEED_COPY_THERE ? place : NULL;
}

static void *copies(void *arg)
{
	struct copier *c = arg;
	struct error err = ERROR_INIT;
	pthread_t stream;
	uint64_t pos = 0, size;
	void *slots;
	c->reader = feed_reader_open("copies", "data", FEED_JOIN_NEXT, &err);
	MUST(c->reader && pthread_create(&stream, NULL, streams, &c->stream) == 0);
	while (c->own->taken < ITEMS) {
		struct feed_item item;
		next_item(c->reader, c->own, &pos, &item);
		if (item.ring != c->ring) {
			leave_ring(c);
			c->ring = item.ring;
			share(c, &item);
		}
		if (item.kind == FEED_END) {
			feed_reader_release(c->reader, item.ring, item.slot);
			continue;
		}
		const uint64_t *host = feed_item_shared(&item, &slots, &size), *place = c->gpu ? on_gpu(c, &item, host) : NULL;
		c->alone += !place;
		/* What the task takes for itself comes while it works on the one before. */
		uint64_t event = stream_copy(&c->stream, c->words[!c->turn], place ? place : host);
		let_go(c);
		c->held = item;
		c->event = event;
		c->turn = !c->turn;
	}
	leave_ring(c);
	feed_reader_close(c->reader);
	pthread_mutex_lock(&c->stream.lock);
	c->stream.ends = true;
	pthread_cond_broadcast(&c->stream.changed);
	pthread_mutex_unlock(&c->stream.lock);
	pthread_join(stream, NULL);
	return NULL;
}

/* Of READERS threads, which end when they have ITEMS. */
static void beside_a_writer(const char *name, void *(*run)(void *), void *const arg[READERS])
{
	pthread_t writer, reader[READERS];
	assert_int_equal(pipe(until), 0);
	assert_int_equal(pthread_create(&writer, NULL, writes, (void *)name), 0);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, run, arg[i]), 0);
	for (int i = 0; i < READERS; i++)
		pthread_join(reader[i], NULL);
	assert_int_equal(write(until[1], "x", 1), 1);
	pthread_join(writer, NULL);
	close(until[0]);
	close(until[1]);
}

static void threads_read_what_a_thread_writes(void **state)
{
	(void)state;
	struct reads own[READERS] = { { .seed = 1 }, { .seed = 2 }, { .seed = 3 } };
	beside_a_writer("threads", reads, (void *[]){ &own[0], &own[1], &own[2] });
	for (int i = 0; i < READERS; i++)
		assert_int_equal(own[i].taken, ITEMS);
}

static void threads_copy_to_a_gpu_what_one_of_them_or_each_copies(void **state)
{
	(void)state;
	struct reads own[READERS] = { { .seed = 1 }, { .seed = 2 }, { .seed = 3 } };
	static struct copier c[READERS];
	uint64_t made = 0, found = 0;
	for (unsigned i = 0; i < READERS; i++)
		c[i] = (struct copier){ .own = &own[i], .stream = { .lock = PTHREAD_MUTEX_INITIALIZER, .seed = i,
								    .changed = PTHREAD_COND_INITIALIZER } };
	beside_a_writer("copies", copies, (void *[]){ &c[0], &c[1], &c[2] });
	for (int i = 0; i < READERS; i++) {
		assert_int_equal(own[i].taken, ITEMS);
		made += c[i].made;
		found += c[i].found;
	}
	assert_true(made > 0 && found > 0);
}

/* A thread that stands still where it has let go of a lock. */
static struct { sem_t at, on; int unlocks; } still;
static _Thread_local bool stands_still;

int __real_pthread_mutex_unlock(pthread_mutex_t *);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_unlock(mutex);
	if (stands_still && still.unlocks++ == 0) {
		sem_post(&still.at);
		sem_wait(&still.on);
	}
	return rc;
}

struct given_back {
	struct feed_reader *r;
	struct feed_item item;
};

static void *gives_one_back(void *arg)
{
	struct given_back *g = arg;
	stands_still = true;
	feed_reader_release(g->r, g->item.ring, g->item.slot);
	stands_still = false;
	return NULL;
}

/* The last one frees the reader, also while another thread is not yet back from the one before. */
static void two_threads_give_back_what_a_closed_reader_held(void **state)
{
	(void)state;
	struct feed_writer *w = feed_writer_claim("closed", "data", 7, NULL);
	struct given_back g[2] = { { .r = feed_reader_open("closed", "data", FEED_JOIN_NEXT, NULL) } };
	void *data;
	pthread_t thread;
	MUST(w && g[0].r && feed_writer_open(w, SLOTS, 4096, 0, NULL) == 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(feed_writer_reserve(w, 0, &data, NULL), 0);
		feed_writer_publish(w, FEED_BATCH, 0);
	}
	assert_int_equal(feed_reader_next(g[0].r, 0, &g[0].item, NULL), -1);	/* it asks, and the writer looks */
	assert_int_equal(feed_writer_reserve(w, 0, &data, NULL), 0);
	g[1].r = g[0].r;
	for (int i = 0; i < 2; i++)
		assert_int_equal(feed_reader_next(g[i].r, WAIT_MS, &g[i].item, NULL), 0);
	feed_reader_close(g[0].r);
	sem_init(&still.at, 0, 0);
	sem_init(&still.on, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, gives_one_back, &g[0]), 0);
	sem_wait(&still.at);
	feed_reader_release(g[1].r, g[1].item.ring, g[1].item.slot);
	sem_post(&still.on);
	pthread_join(thread, NULL);
	assert_int_equal(still.unlocks, 1);	/* that reader is no more */
	feed_writer_close(w);
}

static unsigned descriptors(void)
{
	unsigned n = 0;
	DIR *folder = opendir("/proc/self/fd");
	MUST(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

static void *is_told_that_it_was_dropped(void *arg)
{
	struct given_back *g = arg;
	struct error err = ERROR_INIT;
	stands_still = true;
	MUST(feed_reader_next(g->r, 0, &g->item, &err) && err.code == ERR_DENIED);
	stands_still = false;
	return NULL;
}

/* Who gives back meanwhile wakes the writer by the reader's socket: it is closed before another thread may look at it. */
static void a_dropped_reader_hangs_up_at_once(void **state)
{
	(void)state;
	struct feed_writer *w = feed_writer_claim("dropped", "data", 7, NULL);
	struct given_back slow = { .r = feed_reader_open("dropped", "data", FEED_JOIN_NEXT, NULL) };
	struct feed_reader *quick = feed_reader_open("dropped", "data", FEED_JOIN_NEXT, NULL);
	struct feed_item item;
	void *data;
	pthread_t thread;
	MUST(w && slow.r && quick && feed_writer_open(w, SLOTS, 4096, 1, NULL) == 0);
	assert_int_equal(feed_reader_next(slow.r, 0, &slow.item, NULL), -1);	/* both ask, and the writer looks */
	assert_int_equal(feed_reader_next(quick, 0, &item, NULL), -1);
	for (int i = 0; i < SLOTS; i++) {
		assert_int_equal(feed_writer_reserve(w, 0, &data, NULL), 0);
		feed_writer_publish(w, FEED_BATCH, 0);
		assert_int_equal(feed_reader_next(quick, WAIT_MS, &item, NULL), 0);
		feed_reader_release(quick, item.ring, item.slot);
	}
	assert_int_equal(feed_reader_next(slow.r, WAIT_MS, &slow.item, NULL), 0);
	assert_int_equal(feed_writer_reserve(w, 0, &data, NULL), 0);
	unsigned before = descriptors();
	still.unlocks = 0;
	sem_init(&still.at, 0, 0);
	sem_init(&still.on, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, is_told_that_it_was_dropped, &slow), 0);
	sem_wait(&still.at);
	assert_int_equal(descriptors(), before - 1);
	sem_post(&still.on);
	pthread_join(thread, NULL);
	feed_reader_release(slow.r, slow.item.ring, slow.item.slot);
	feed_reader_close(slow.r);
	feed_reader_close(quick);
	feed_writer_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_read_what_a_thread_writes),
		cmocka_unit_test(two_threads_give_back_what_a_closed_reader_held),
		cmocka_unit_test(a_dropped_reader_hangs_up_at_once),
		cmocka_unit_test(threads_copy_to_a_gpu_what_one_of_them_or_each_copies),
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
