/* SPDX-License-Identifier: MIT
 * Processes whose memory hangs. Here one does by a file system that does not answer, a thread that reads a page of it by way of
 * /proc/self/mem, and another that waits for what that one holds; any user can have that where he can mount one.
 */
#include "monitor/peek.h"

#include "base/clock.h"
#include "base/scope.h"
#include "monitor/procs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cmocka.h>

#define DEADLINE_MS 60000
#define FILE_BYTES 4096

static void reply(int fuse, uint64_t unique, int error, const void *data, size_t n)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof h + n), .error = error, .unique = unique };
	struct iovec parts[] = { { &h, sizeof h }, { (void *)data, n } };
	if (writev(fuse, parts, n ? 2 : 1) < 0)
		_exit(1);
}

/* One file, whatever its name; 'H' is told when somebody reads it, and nothing is answered. */
static void serve(int fuse, int tell)
{
	static char in[1 << 18];
	const struct fuse_attr file = { .ino = 2, .size = FILE_BYTES, .mode = S_IFREG | 0444, .nlink = 1 };
	const struct fuse_attr folder = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 1 };
	const struct fuse_init_out init = { .major = 7, .minor = 22, .max_write = 4096 };
	const struct fuse_entry_out entry = { .nodeid = 2, .entry_valid = 1000, .attr_valid = 1000, .attr = file };
	const struct fuse_open_out opened = { .fh = 1 };
	while (read(fuse, in, sizeof in) > 0) {
		const struct fuse_in_header *h = (const void *)in;
		const struct fuse_attr_out attr = { .attr_valid = 1000, .attr = h->nodeid == 1 ? folder : file };
		switch (h->opcode) {
		case FUSE_INIT: reply(fuse, h->unique, 0, &init, FUSE_COMPAT_22_INIT_OUT_SIZE); break;
		case FUSE_LOOKUP: reply(fuse, h->unique, 0, &entry, sizeof entry); break;
		case FUSE_GETATTR: reply(fuse, h->unique, 0, &attr, sizeof attr); break;
		case FUSE_OPEN: reply(fuse, h->unique, 0, &opened, sizeof opened); break;
		case FUSE_READ:
			if (write(tell, "H", 1) != 1)
				_exit(1);
			break;
		case FUSE_FORGET: break;
		default: reply(fuse, h->unique, -ENOSYS, NULL, 0); break;
		}
	}
}

static void *read_page(void *page)
{
	char byte;
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	if (pread(fd, &byte, 1, (off_t)(uintptr_t)page) < 0)	/* when the file system is gone */
		close(fd);
	return NULL;
}

/* Its own mount, which goes with it. */
static int mount_there(const char *folder)
{
	char options[100];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	bool done = fuse >= 0 && !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		    !mount("hang", folder, "fuse", MS_NOSUID | MS_NODEV, options);
	return done ? fuse : -1;
}

/* Never returns. Tells the server's pid, or 0 where there can be none; then the server tells. */
static void hang(const char *folder, int tell)
{
	char path[64];
	pthread_t one;
	int fuse = mount_there(folder);
	pid_t server = fuse < 0 ? 0 : fork();
	if (fuse >= 0 && !server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(fuse, tell);
		_exit(0);
	}
	close(fuse);
	if (write(tell, &server, sizeof server) != sizeof server || !server)
		_exit(0);
	snprintf(path, sizeof path, "%s/file", folder);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	pthread_create(&one, NULL, read_page, page);
	for (;;) {	/* until it waits for the other */
		void *more = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(more, 4096);
		poll(NULL, 0, 1);
	}
}

static size_t peek_len(struct peek *p, pid_t pid, uid_t uid)
{
	struct peek_found f;
	peek_at(p, pid, uid, &f);
	return f.n;
}

static bool becomes(struct peek *p, pid_t pid, uid_t uid, bool readable)
{
	int64_t until = clock_mono_ms() + DEADLINE_MS;
	while (!peek_len(p, pid, uid) == readable && clock_mono_ms() < until)
		poll(NULL, 0, 5);
	return clock_mono_ms() < until;
}

/* What `procs` tells of us at that time, beside that process. */
static struct proc_reading told_of_us(struct procs *procs, pid_t pid, int64_t mono_ms)
{
	struct snapshot s = { .mono_ms = mono_ms };
	snapshot_add_gpu(&s);
	snapshot_add_proc(&s)->id.pid = pid;
	snapshot_add_proc(&s)->id.pid = getpid();
	procs_fill(procs, &s);
	struct proc_reading us = s.procs[1];
	snapshot_clear(&s);
	return us;
}

static void test_hides_itself_alone(void **state)
{
	(void)state;
	char folder[] = "/tmp/rad-peek-XXXXXX", byte;
	int tell[2];
	pid_t server = 0;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid)
		hang(folder, tell[1]);
	close(tell[1]);
	assert_int_equal(read(tell[0], &server, sizeof server), sizeof server);
	if (!server) {
		waitpid(pid, NULL, 0);
		rmdir(folder);
		skip();
	}
	assert_int_equal(read(tell[0], &byte, 1), 1);
	struct peek *p = peek_create();
	assert_true(becomes(p, pid, 1, false));
	assert_int_equal(peek_len(p, getpid(), 1), 0);
	assert_true(peek_len(p, getpid(), 2) > 0);
	struct procs *procs = procs_create(NULL);
	assert_null(strchr(told_of_us(procs, pid, 1000).command, '/'));		/* of one user: hidden too */
	kill(server, SIGKILL);
	assert_true(becomes(p, getpid(), 1, true));
	assert_null(strchr(told_of_us(procs, pid, 2000).command, '/'));
	/* And not for ever. */
	unsigned tries = 0;
	for (; tries < 30 && !strchr(told_of_us(procs, pid, INT64_C(20000) << tries).command, '/'); tries++)
		poll(NULL, 0, 5);
	assert_true(tries < 30);
	procs_destroy(procs);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(tell[0]);
	peek_destroy(p);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hides_itself_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
