/* SPDX-License-Identifier: MIT
 * A feed of a group, between processes of several users: who is let in, what each may touch, and who goes on. Needs root, for
 * it becomes others; else it only looks at what is refused.
 */
#include "feed/feed.h"
#include "feed/place.h"
#include "feed/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLOTS = 4, SLOT_BYTES = 4096, WAIT_MS = 60000, FIRST_USER = 64101, OTHER_USER = 64102, STRANGER = 64103, GROUP = 64200 };

static char dir[64];

/* What a child says of itself: 0, or the line of what was not so. */
#define MUST(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
			_exit(1); \
		} \
	} while (0)

static void become(uid_t uid, gid_t gid)
{
	gid_t groups[] = { uid, gid };
	MUST(setgroups(2, groups) == 0 && setgid(uid) == 0 && setuid(uid) == 0);
}

static int code_of(pid_t pid)
{
	int status = -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void tell(int fd)
{
	MUST(write(fd, "x", 1) == 1);
}

static void hear(int fd)
{
	char c;
	MUST(read(fd, &c, 1) == 1);
}

static struct feed_writer *writer(void)
{
	struct error err = ERROR_INIT;
	struct feed_writer *w = feed_writer_claim("64200:x", "data", 7, &err);
	MUST(w);
	feed_writer_pinnable(w);	/* asked for, and not given */
	MUST(feed_writer_open(w, SLOTS, SLOT_BYTES, 0, &err) == 0);
	return w;
}

static void write_items(struct feed_writer *w, uint64_t from, uint64_t count)
{
	struct error err = ERROR_INIT;
	for (uint64_t i = from; i < from + count; i++) {
		void *data;
		MUST(feed_writer_reserve(w, sizeof i, &data, &err) == 0);
		memcpy(data, &i, sizeof i);
		feed_writer_publish(w, FEED_BATCH, sizeof i);
	}
}

/* The first user writes until nobody reads; says when it begins. */
static pid_t first_writes(int said, int end)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	become(FIRST_USER, GROUP);
	struct error err = ERROR_INIT;
	struct feed_writer *w = writer();
	feed_writer_until(w, end);
	write_items(w, 0, 2);
	tell(said);
	void *data;
	for (uint64_t i = 2; feed_writer_reserve(w, sizeof i, &data, &err) == 0; i++) {
		memcpy(data, &i, sizeof i);
		feed_writer_publish(w, FEED_BATCH, sizeof i);
	}
	MUST(err.code == ERR_NOT_FOUND);
	feed_writer_close(w);
	_exit(0);
}

static void read_item(struct feed_reader *r, uint64_t value)
{
	struct error err = ERROR_INIT;
	struct feed_item item;
	MUST(feed_reader_next(r, WAIT_MS, &item, &err) == 0);
	MUST(item.index == value && !memcmp(item.data, &value, sizeof value));
	memset(item.data, 0x55, SLOT_BYTES);	/* its own copy */
	feed_reader_release(r, item.ring, item.slot);
}

/* The other user reads, then goes on with the writing when the first one was killed. */
static pid_t other_reads_and_goes_on(int said, int killed)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	become(OTHER_USER, GROUP);
	struct error err = ERROR_INIT;
	struct feed_item item;
	struct feed_reader *r = feed_reader_open("64200:x", "data", FEED_JOIN_NEXT, &err);
	MUST(r);
	uint64_t next = 0, epoch, index, seed;
	while (next < 2 * SLOTS)
		read_item(r, next++);
	tell(said);
	hear(killed);
	for (; feed_reader_next(r, 0, &item, &err) == 0; next++) {	/* what was still in the ring of the one that is gone */
		MUST(item.index == next);
		feed_reader_release(r, item.ring, item.slot);
	}
	struct feed_writer *w = writer();
	feed_writer_position(w, &epoch, &index, &seed);
	MUST(epoch == 0 && index + 1 >= next && index <= next && seed == 7);
	MUST(feed_reader_next(r, 0, &item, &err) && err.code == ERR_UNAVAILABLE);	/* says hello to the new one */
	write_items(w, index, 2);
	read_item(r, next);
	feed_reader_close(r);
	feed_writer_close(w);
	_exit(0);
}

/* A member that does what no reader of ours does: what it is given can be read, and in no way be written. */
static pid_t member_attacks(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	become(OTHER_USER, GROUP);
	struct feed_place place;
	struct feed_hello hello = { .want = FEED_NEVER, .sign = "data" };
	unsigned char bytes[FEED_WIRE_MAX];
	int lock, fds[2];
	MUST(feed_place_find("64200:x", &place, NULL) == 0 && feed_place_join(&place, &lock, &hello.token, NULL) == 0);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	MUST(connect(sock, (struct sockaddr *)&place.sock, sizeof place.sock) == 0);
	MUST(feed_wire_send(sock, bytes, feed_wire_put_hello(&hello, bytes), NULL, 0) == 0);
	struct pollfd p = { .fd = sock, .events = POLLIN };
	MUST(poll(&p, 1, WAIT_MS) == 1 && feed_wire_receive(sock, bytes, sizeof bytes, fds) > 0 && fds[0] >= 0);
	MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0) == MAP_FAILED);
	void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fds[0], 0);
	MUST(map != MAP_FAILED && mprotect(map, 4096, PROT_READ | PROT_WRITE) < 0);
	MUST(pwrite(fds[0], "x", 1, 4096) < 0 && ftruncate(fds[0], 0) < 0);
	MUST(fallocate(fds[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
	MUST(open(path, O_RDWR) < 0);
	_exit(0);
}

static pid_t stranger_asks(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	become(STRANGER, STRANGER);
	struct error err = ERROR_INIT;
	char path[128];
	MUST(!feed_reader_open("64200:x", "data", FEED_JOIN_NEXT, &err) && err.code == ERR_DENIED);
	MUST(!feed_writer_claim("64200:x", "data", 7, &err) && err.code == ERR_DENIED);
	snprintf(path, sizeof path, "%s/x.feed", dir);
	MUST(open(path, O_RDONLY) < 0 && open(dir, O_RDONLY) < 0);
	_exit(0);
}

static void members_share_and_go_on_and_others_are_kept_out(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	int wrote[2], read_all[2], killed[2], end[2];
	assert_true(!pipe(wrote) && !pipe(read_all) && !pipe(killed) && !pipe(end));
	umask(077);	/* the files are the group's all the same */
	pid_t first = first_writes(wrote[1], end[0]);
	hear(wrote[0]);
	pid_t other = other_reads_and_goes_on(read_all[1], killed[0]);
	hear(read_all[0]);
	assert_int_equal(code_of(stranger_asks()), 0);
	assert_int_equal(code_of(member_attacks()), 0);
	kill(first, SIGKILL);
	code_of(first);
	tell(killed[1]);
	assert_int_equal(code_of(other), 0);
	umask(022);
}

/* One who runs where he may not be found by name, but reached by an address that somebody handed him. */
static void who_asks_is_looked_at(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	int pair[2];
	pid_t asks;
	struct feed_party group = { .of_group = true, .gid = GROUP }, own = { .of_group = false };
	char path[] = "/tmp/radfeed-ask-XXXXXX";
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	assert_non_null(mkdtemp(path));
	assert_int_equal(chmod(path, 0777), 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/s", path);
	int listens = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(!bind(listens, (struct sockaddr *)&at, sizeof at) && !chmod(at.sun_path, 0777) && !listen(listens, 4));
	const struct { uid_t uid; gid_t gid; bool member; } who[] = { { FIRST_USER, GROUP, true }, { STRANGER, STRANGER, false } };
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			become(who[i].uid, who[i].gid);
			int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
			_exit(connect(sock, (struct sockaddr *)&at, sizeof at) != 0);
		}
		pair[i] = accept(listens, NULL, NULL);
		assert_int_equal(code_of(pid), 0);
		assert_int_equal(feed_folder_trusts(&group, pair[i], &asks), who[i].member);
		assert_false(feed_folder_trusts(&own, pair[i], &asks));
		close(pair[i]);
	}
	close(listens);
	unlink(at.sun_path);
	rmdir(path);
}

static void what_is_unsafe_is_refused(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	char name[64];
	assert_null(feed_reader_open("nobody-has-this-group:x", "data", FEED_JOIN_NEXT, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(feed_reader_open("64299:x", "data", FEED_JOIN_NEXT, &err));
	assert_int_equal(err.code, ERR_DENIED);
	snprintf(name, sizeof name, "%u:../x", (unsigned)getegid());
	assert_null(feed_reader_open(name, "data", FEED_JOIN_NEXT, &err));
	assert_int_equal(err.code, ERR_INVALID);
	const mode_t wrong[] = { 02777, 02775, 0770, 0700, 03777 };
	snprintf(name, sizeof name, "%u:x", (unsigned)getegid());
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_int_equal(chmod(dir, wrong[i]), 0);
		assert_null(feed_reader_open(name, "data", FEED_JOIN_NEXT, &err));
		assert_int_equal(err.code, ERR_DENIED);
	}
	assert_int_equal(rmdir(dir), 0);
	struct feed_reader *r = feed_reader_open(name, "data", FEED_JOIN_NEXT, &err);	/* makes it */
	struct stat st;
	assert_non_null(r);
	assert_true(stat(dir, &st) == 0 && (st.st_mode & 07777) == 02770 && st.st_gid == getegid());
	feed_reader_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_share_and_go_on_and_others_are_kept_out),
		cmocka_unit_test(who_asks_is_looked_at),
		cmocka_unit_test(what_is_unsafe_is_refused),
	};
	snprintf(dir, sizeof dir, "/tmp/radfeed-group-test-XXXXXX");
	if (!mkdtemp(dir) || setenv("RADFEED_DIR", dir, 1))
		return 1;
	if (geteuid() == 0 && (chown(dir, (uid_t)-1, GROUP) || chmod(dir, 02770)))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!failed && rmdir(dir)) {
		printf("something is left in %s\n", dir);
		return 1;
	}
	return failed;
}
