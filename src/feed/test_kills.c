/* SPDX-License-Identifier: MIT
 * A feed of real processes that are killed at random moments, writers and readers. Every reader that lives sees each item
 * exactly once and in order, with the bytes that belong to its position; and at the end nothing is left over.
 *	test-feed-kills [KILLS [SEED]]
 */
#include "base/clock.h"
#include "feed/feed.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TASKS = 5, SLOTS = 4, SLOT_BYTES = 8192, ROUND_S = 60 };

struct board {		/* what tasks tell the test, in shared memory */
	_Atomic bool stop;
	_Atomic uint64_t taken, writers;
	_Atomic int bad;
	char text[400];
};

static struct board *board;

static void bad(const char *fmt, ...)
{
	va_list args;
	if (atomic_fetch_add(&board->bad, 1) == 0) {
		va_start(args, fmt);
		vsnprintf(board->text, sizeof board->text, fmt, args);
		va_end(args);
	}
	_exit(1);
}

/* What is in each batch follows from its position, so every writer makes the same. */
static uint64_t epoch_length(uint64_t epoch)
{
	return 3 + epoch % 5;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
}

static uint64_t words_of(uint64_t epoch, uint64_t index)
{
	return 1 + mix(epoch * 1000 + index) % (SLOT_BYTES / 8);
}

static void fill(uint64_t *words, uint64_t epoch, uint64_t index)
{
	for (uint64_t i = 0; i < words_of(epoch, index); i++)
		words[i] = mix(epoch << 40 | index << 20 | i);
}

static volatile sig_atomic_t told_to_end;

static void on_term(int sig)
{
	(void)sig;
	told_to_end = 1;
}

/* The process beside a task that waits for the writing and does it. */
static void write_items(int until)
{
	struct error err = ERROR_INIT;
	struct feed_writer *w = NULL;
	while (!w) {
		w = feed_writer_claim("kills", "test", 7, &err);
		if (!w && (err.code != ERR_UNAVAILABLE || told_to_end))
			_exit(told_to_end ? 0 : 3);
	}
	atomic_fetch_add(&board->writers, 1);
	uint64_t epoch, index, seed;
	feed_writer_position(w, &epoch, &index, &seed);
	feed_writer_until(w, until);
	if (feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err))
		bad("open: %s", err.text);
	for (;;) {
		void *data;
		bool end = index == epoch_length(epoch);
		uint64_t bytes = end ? 0 : 8 * words_of(epoch, index);
		if (feed_writer_reserve(w, bytes, &data, &err)) {
			if (err.code == ERR_UNAVAILABLE)
				continue;
			if (err.code != ERR_NOT_FOUND)
				bad("reserve: %s", err.text);
			break;
		}
		if (!end)
			fill(data, epoch, index);
		feed_writer_publish(w, end ? FEED_END : FEED_BATCH, bytes);
		epoch += end;
		index = end ? 0 : index + 1;
	}
	feed_writer_close(w);
	_exit(0);
}

static pid_t fork_with_parent(void)
{
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
	}
	return pid;
}

static pid_t start_writer(int until)
{
	pid_t pid = fork_with_parent();
	if (pid == 0) {
		struct sigaction term = { .sa_handler = on_term };
		sigaction(SIGTERM, &term, NULL);
		write_items(until);
	}
	return pid;
}

static void check_item(const struct feed_item *item)
{
	if ((item->kind == FEED_END) != (item->index == epoch_length(item->epoch)))
		bad("(%lu,%lu) is of kind %u", item->epoch, item->index, item->kind);
	if (item->kind == FEED_END)
		return;
	if (item->bytes != 8 * words_of(item->epoch, item->index))
		bad("(%lu,%lu) has %lu bytes", item->epoch, item->index, item->bytes);
	uint64_t *words = item->data;
	for (uint64_t i = 0; i < item->bytes / 8; i++)
		if (words[i] != mix(item->epoch << 40 | item->index << 20 | i))
			bad("(%lu,%lu) has other bytes at word %lu", item->epoch, item->index, i);
	/* Its own copy: nobody else may see this, nor this reader when the slot comes round. */
	if (item->index % 3 == 0)
		memset(item->data, 0x55, item->bytes);
}

static void check_order(const struct feed_item *item, uint64_t *epoch, uint64_t *index, bool first, enum feed_join join)
{
	if (first ? join == FEED_JOIN_NEXT && item->index != 0 : item->epoch != *epoch || item->index != *index)
		bad("(%lu,%lu) came, not (%lu,%lu)%s", item->epoch, item->index, *epoch, *index, first ? ", first" : "");
	*epoch = item->epoch + (item->kind == FEED_END);
	*index = item->kind == FEED_END ? 0 : item->index + 1;
}

static int until[2];

/* The writer's process is told that its task needs it no more. */
static void end_writer(pid_t writer)
{
	if (write(until[1], "", 1) != 1)
		bad("until");
	while (waitpid(writer, NULL, WNOHANG) == 0) {
		kill(writer, SIGTERM);
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
}

static void read_items(unsigned seed)
{
	enum feed_join join = seed % 2 ? FEED_JOIN_NOW : FEED_JOIN_NEXT;
	struct error err = ERROR_INIT;
	if (pipe2(until, O_CLOEXEC))
		bad("pipe");
	pid_t writer = start_writer(until[0]);
	struct feed_reader *r = feed_reader_open("kills", "test", join, &err);
	uint64_t epoch = 0, index = 0;
	bool first = true;
	struct feed_item item, before = { 0 };
	while (!atomic_load(&board->stop)) {
		if (waitpid(writer, NULL, WNOHANG) == writer)
			writer = start_writer(until[0]);
		if (feed_reader_next(r, 20, &item, &err)) {
			if (err.code != ERR_UNAVAILABLE)
				bad("next: %s", err.text);
			continue;
		}
		check_order(&item, &epoch, &index, first, join);
		check_item(&item);
		first = false;
		if (before.ring)	/* held for one more, as a loop in Python does */
			feed_reader_release(r, before.ring, before.slot);
		before = item;
		atomic_fetch_add(&board->taken, 1);
		if (rand_r(&seed) % 50 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = rand_r(&seed) % 2000000 }, NULL);
	}
	if (before.ring)
		feed_reader_release(r, before.ring, before.slot);
	feed_reader_close(r);
	end_writer(writer);
	_exit(0);
}

/* A process that is a writer's of some task: a child of a task. Its pid is in /proc. */
static pid_t child_of(pid_t task)
{
	char path[64], text[64] = "";
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", task, task);
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof text - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	return atoi(text);
}

static pid_t start_task(unsigned seed)
{
	pid_t pid = fork_with_parent();
	if (pid == 0)
		read_items(seed);
	return pid;
}

static void kill_one(pid_t task[TASKS], unsigned *seed)
{
	int i = rand_r(seed) % TASKS;
	if (rand_r(seed) % 3) {
		pid_t writer = child_of(task[i]);
		if (writer > 0)
			kill(writer, SIGKILL);
		return;
	}
	kill(task[i], SIGKILL);
	int status;
	waitpid(task[i], &status, 0);
	task[i] = start_task((unsigned)rand_r(seed));
}

/* All that live have gone on since. */
static void wait_for_progress(uint64_t items)
{
	uint64_t from = atomic_load(&board->taken);
	int64_t deadline = clock_mono_ms() + ROUND_S * 1000;
	while (atomic_load(&board->taken) < from + items && !atomic_load(&board->bad)) {
		if (clock_mono_ms() > deadline) {
			snprintf(board->text, sizeof board->text, "nothing went on for %d s", ROUND_S);
			atomic_store(&board->bad, 1);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
}

static int files_in(const char *dir)
{
	int n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static int stop_all(pid_t task[TASKS])
{
	int failed = 0;
	atomic_store(&board->stop, true);
	for (int i = 0; i < TASKS; i++) {
		int status = 0;
		waitpid(task[i], &status, 0);
		failed += status != 0;
	}
	return failed;
}

int main(int argc, char **argv)
{
	int kills = argc > 1 ? atoi(argv[1]) : 1000;
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)clock_wall_ms();
	printf("%d kills, seed %u\n", kills, seed);
	char dir[] = "/tmp/radfeed-test-XXXXXX";
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t task[TASKS];
	for (int i = 0; i < TASKS; i++)
		task[i] = start_task((unsigned)rand_r(&seed));
	for (int i = 0; i < kills && !atomic_load(&board->bad); i++) {
		wait_for_progress((unsigned)rand_r(&seed) % 40);
		kill_one(task, &seed);
	}
	wait_for_progress(200);
	int failed = stop_all(task), left = files_in(dir);
	printf("%lu items taken, %lu writers\n", atomic_load(&board->taken), atomic_load(&board->writers));
	if (atomic_load(&board->bad) || failed || left)
		printf("WRONG: %s; %d tasks failed, %d files left in %s\n", board->text, failed, left, dir);
	else
		rmdir(dir);
	return atomic_load(&board->bad) || failed || left;
}
