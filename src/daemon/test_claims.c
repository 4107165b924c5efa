/* SPDX-License-Identifier: MIT
 * Claims of several daemons: the page, the folder against everything that may lie in it, and the protocol between processes
 * that all want one GPU at the same moment.
 */
#include "daemon/claims.h"
#include "daemon/claims_folder.h"
#include "daemon/now.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GPU "GPU-00000000-0000-4000-8000-000000000001"

static char folder[] = "/tmp/rad-claims-test-XXXXXX";

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/rad-claims-test-XXXXXX");
	return !mkdtemp(folder) || chmod(folder, 01777);
}

static int teardown(void **state)
{
	(void)state;
	scoped_free char *command = alloc_printf("rm -rf %s", folder);
	return system(command);
}

static struct core_claim claim(const char *uuid, uint64_t held)
{
	struct core_claim c = { .uid = geteuid(), .held_mib = held, .observed_mib = held / 2, .n_tasks = 1 };
	snprintf(c.uuid, sizeof c.uuid, "%s", uuid);
	return c;
}

static void test_page(void **state)
{
	(void)state;
	scoped_buf text = { 0 };
	struct claims_page page = { .owner = { 77, 123456789 }, .space = 4026531836, .n = 2 }, back;
	page.rows[0] = claim(GPU, 4000);
	page.rows[1] = claim("MIG-1", 1);
	page.runs[1] = (struct claims_runs){ 2, { { 78, 5 }, { 79, UINT64_MAX } } };
	claims_page_write(&page, &text);
	assert_int_equal(claims_page_read(text.data, text.len, &back), 0);
	assert_int_equal(back.owner.pid, 77);
	assert_int_equal(back.space, page.space);
	assert_int_equal(back.n, 2);
	assert_string_equal(back.rows[0].uuid, GPU);
	assert_int_equal(back.rows[0].observed_mib, 2000);
	assert_int_equal(back.runs[0].n, 0);
	assert_int_equal(back.runs[1].n, 2);
	assert_int_equal(back.runs[1].id[0].pid, 78);
	assert_true(back.runs[1].id[1].start_ticks == UINT64_MAX);
	/* Cut anywhere, or with one byte another, it is none; what follows the end does not matter. */
	for (size_t i = 0; i < text.len - 1; i++)
		assert_int_equal(claims_page_read(text.data, i, &back), -1);
	for (size_t i = 0; i + 10 < text.len; i++) {
		text.data[i] ^= 1;
		assert_int_equal(claims_page_read(text.data, text.len, &back), -1);
		text.data[i] ^= 1;
	}
	buf_add_text(&text, "left over\nend 00000000\n");
	assert_int_equal(claims_page_read(text.data, text.len, &back), 0);
}

/* GPU a: a row of user 1, and a last one that other users share; GPU b: one of user 1. */
static void test_rows_name_shims(void **state)
{
	(void)state;
	struct core_claim rows[3] = { claim("a", 1), claim("a", 1), claim("b", 1) };
	struct claims_runs out[3] = { 0 };
	struct claims_run runs[3 + CLAIMS_RUNS + 2] = { { "a", 1, { 10, 0 } }, { "a", 2, { 20, 0 } }, { "c", 1, { 30, 0 } } };
	rows[0].uid = rows[2].uid = 1;
	rows[1].uid = 9;
	for (int i = 0; i < CLAIMS_RUNS + 2; i++)
		runs[3 + i] = (struct claims_run){ "a", 3, { 100 + i, 0 } };
	claims_page_name_runs(rows, 3, runs, 3, out);
	assert_int_equal(out[0].n, 1);
	assert_int_equal(out[0].id[0].pid, 10);
	assert_int_equal(out[1].n, 1);		/* of user 2, whose tasks hold what that row says */
	assert_int_equal(out[1].id[0].pid, 20);
	assert_int_equal(out[2].n, 0);
	memset(out, 0, sizeof out);
	claims_page_name_runs(rows, 3, runs, COUNT_OF(runs), out);
	assert_int_equal(out[1].n, CLAIMS_RUNS);
	assert_int_equal(out[1].id[0].pid, 100 + CLAIMS_RUNS + 1);
	assert_int_equal(out[1].id[CLAIMS_RUNS - 1].pid, 102);
	assert_int_equal(out[0].n, 1);
}

/* The largest page that can be has its place in the file. */
static void test_largest(void **state)
{
	(void)state;
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL), *other = claims_folder_open(folder, NULL, NULL);
	struct core_claim rows[CLAIMS_ROWS];
	struct claims_seen seen = { 0 };
	for (size_t i = 0; i < CLAIMS_ROWS; i++) {
		rows[i] = claim("", UINT64_MAX);
		snprintf(rows[i].uuid, sizeof rows[i].uuid, "MIG-%056zu", i);
		rows[i].n_tasks = UINT32_MAX;
	}
	assert_int_equal(claims_folder_publish(f, rows, NULL, CLAIMS_ROWS, NULL), 0);
	claims_folder_look(other, &seen);
	assert_int_equal(seen.n, CLAIMS_ROWS);
	assert_int_equal(seen.rows[0].held_mib, CLAIMS_MIB);
	claims_seen_clear(&seen);
	claims_folder_close(f);
	claims_folder_close(other);
}

static size_t rows_seen(struct claims_folder *f)
{
	struct claims_seen seen = { 0 };
	claims_folder_look(f, &seen);
	size_t n = seen.n;
	claims_seen_clear(&seen);
	return n;
}

static void test_comes_and_goes(void **state)
{
	(void)state;
	struct core_claim row = claim(GPU, 1000);
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL), *other = claims_folder_open(folder, NULL, NULL);
	assert_int_equal(rows_seen(other), 0);
	assert_int_equal(claims_folder_publish(f, &row, NULL, 1, NULL), 0);
	assert_int_equal(rows_seen(other), 1);
	assert_int_equal(rows_seen(f), 0);	/* its own are no others' */
	assert_int_equal(claims_folder_publish(f, &row, NULL, 0, NULL), 0);
	assert_int_equal(rows_seen(other), 0);
	/* Whoever cleans up may take it: the next publishing makes it anew. */
	scoped_free char *clean = alloc_printf("rm %s/rad-claims-*", folder);
	assert_int_equal(system(clean), 0);
	assert_int_equal(claims_folder_publish(f, &row, NULL, 1, NULL), 0);
	assert_int_equal(rows_seen(other), 1);
	claims_folder_close(f);
	assert_int_equal(rows_seen(other), 0);
	claims_folder_close(other);
	/* A folder in which others could take our file away is none. */
	struct error err = ERROR_INIT;
	chmod(folder, 0777);
	assert_null(claims_folder_open(folder, NULL, &err));
	assert_int_equal(err.code, ERR_DENIED);
}

/* A process of the test's own, which ends with it and does not keep its output open: a test that fails half way would else
 * leave a reader waiting until the time is over. */
static pid_t fork_child(void)
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
	}
	return pid;
}

/* A daemon in a process of its own, killed: what it left is nobody's. */
static void test_killed(void **state)
{
	(void)state;
	struct core_claim row = claim(GPU, 1000);
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork_child();
	if (!pid) {
		struct claims_folder *f = claims_folder_open(folder, NULL, NULL);
		if (!claims_folder_publish(f, &row, NULL, 1, NULL) && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	char c;
	assert_int_equal(read(ready[0], &c, 1), 1);
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL);
	assert_int_equal(rows_seen(f), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(rows_seen(f), 0);
	claims_folder_close(f);
	close(ready[0]);
	close(ready[1]);
}

/* Two daemons of one store, one after the other, and a task that runs all the while, or ends in between. */
static void restart_over(bool killed, bool task_ends)
{
	struct core_claim rows[] = { claim(GPU, 1000), claim("GPU-2", 2000) };
	struct claims_runs runs[2] = { { .n = 2 }, { .n = 0 } };
	struct claims_folder *other = claims_folder_open(folder, NULL, NULL);
	pid_t task = fork_child();
	if (!task)
		for (;;)
			pause();
	runs[0].id[0] = (struct proc_id){ task, 1 };	/* another process that had that pid */
	runs[0].id[1].pid = task;
	assert_int_equal(proc_stat(task, &runs[0].id[1].start_ticks, NULL), 0);
	pid_t radd = fork_child();
	if (!radd) {
		struct claims_folder *f = claims_folder_open(folder, "mark", NULL);
		int failed = claims_folder_publish(f, rows, runs, 2, NULL);
		if (!failed && killed)
			kill(getpid(), SIGKILL);
		claims_folder_close(f);
		_exit(failed != 0);
	}
	waitpid(radd, NULL, 0);
	assert_int_equal(rows_seen(other), 1);		/* what no task of it runs on is gone */
	if (task_ends) {
		kill(task, SIGKILL);
		waitpid(task, NULL, 0);
		assert_int_equal(rows_seen(other), 0);
	}
	/* Anybody who may read it can lock it, and keep the lock: it tells of no daemon. */
	scoped_free char *path = alloc_printf("%s/rad-claims-%u-mark", folder, (unsigned)geteuid());
	int taken = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(taken, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(rows_seen(other), task_ends ? 0 : 1);
	struct claims_folder *next = claims_folder_open(folder, "mark", NULL);
	assert_int_equal(claims_folder_publish(next, rows, runs, 1, NULL), 0);
	assert_int_equal(rows_seen(other), 1);		/* and not twice */
	assert_int_equal(rows_seen(next), 0);		/* nor as another's */
	close(taken);
	claims_folder_publish(next, rows, NULL, 1, NULL);
	claims_folder_close(next);
	assert_int_equal(rows_seen(other), 0);
	claims_folder_close(other);
	kill(task, SIGKILL);
	waitpid(task, NULL, 0);
}

static void test_restarted(void **state)
{
	(void)state;
	restart_over(true, false);
	restart_over(false, false);
	restart_over(true, true);
}

/* Where somebody put a file, a folder or a link in the place of ours, we have another; and of two of one mark each has one. */
static void test_place_taken(void **state)
{
	(void)state;
	struct core_claim row = claim(GPU, 1000);
	scoped_free char *path = alloc_printf("%s/rad-claims-%u-mark", folder, (unsigned)geteuid());
	struct claims_folder *first = claims_folder_open(folder, "mark", NULL);
	struct claims_folder *second = claims_folder_open(folder, "mark", NULL);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(claims_folder_publish(first, &row, NULL, 1, NULL), 0);
	assert_int_equal(claims_folder_publish(second, &row, NULL, 1, NULL), 0);
	assert_int_equal(rows_seen(first), 1);
	assert_int_equal(rows_seen(second), 1);
	claims_folder_close(first);
	claims_folder_close(second);
	assert_int_equal(unlink(path), 0);
}

/* A file as somebody may have left or forged it; locked, as if it were alive. Returns its descriptor. */
static int put(const char *name, const void *bytes, size_t n, mode_t mode)
{
	scoped_free char *path = alloc_printf("%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !flock(fd, LOCK_EX));
	return fd;
}

static void test_hostile(void **state)
{
	(void)state;
	scoped_buf text = { 0 };
	struct claims_page page = { .owner = { getpid(), 1 }, .n = 1 };
	struct stat space;
	stat("/proc/self/ns/pid", &space);
	page.space = space.st_ino;
	page.rows[0] = claim(GPU, 1000);
	claims_page_write(&page, &text);
	scoped_free char *uid = alloc_printf("rad-claims-%u-", (unsigned)geteuid()), *big = alloc_zero(CLAIMS_BYTES + 1);
	scoped_free char *a = alloc_printf("%sa", uid), *b = alloc_printf("%sb", uid), *c = alloc_printf("%s/%sc", folder, uid);
	scoped_free char *d = alloc_printf("%s/%sd", folder, uid), *e = alloc_printf("%s/%se", folder, uid);
	scoped_free char *g = alloc_printf("%s/rad-claims-4242-a", folder), *in = alloc_printf("%s/%sa", folder, uid);
	/* Locked and alive, but of another start; too large; a link; a pipe; a folder; a second name; another's name. */
	scoped_fd int fd = put(a, text.data, text.len, 0644), large = put(b, big, CLAIMS_BYTES + 1, 0644);
	assert_int_equal(symlink("/etc/passwd", c), 0);
	assert_int_equal(mkfifo(d, 0644), 0);
	assert_int_equal(mkdir(e, 0755), 0);
	assert_int_equal(link(in, g), 0);
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL);
	assert_int_equal(rows_seen(f), 0);
	unlink(g);
	assert_int_equal(rows_seen(f), 0);
	/* The same of this very process counts, and of one that is gone not, whoever holds the lock. */
	buf_drop(&text, text.len);
	proc_stat(getpid(), &page.owner.start_ticks, NULL);
	claims_page_write(&page, &text);
	assert_int_equal(pwrite(fd, text.data, text.len, 0), text.len);
	assert_int_equal(rows_seen(f), 1);
	pid_t gone = fork_child();
	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	page.owner.pid = gone;
	buf_drop(&text, text.len);
	claims_page_write(&page, &text);
	assert_int_equal(pwrite(fd, text.data, text.len, 0), text.len);
	assert_int_equal(rows_seen(f), 0);
	claims_folder_close(f);
}

/* One that is torn for good is waited for a second, and says nothing then; many of one user are some of one user. */
static void test_torn_and_many(void **state)
{
	(void)state;
	struct claims_seen seen = { 0 };
	scoped_free char *torn = alloc_printf("rad-claims-%u-torn", (unsigned)geteuid());
	scoped_fd int fd = put(torn, "rad-claims 1 1 1 1\n", 19, 0644);
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL), *many[20];
	struct core_claim row = claim(GPU, 1000);
	claims_folder_look(f, &seen);
	assert_true(seen.unsure);
	for (int64_t until = clock_mono_ms() + 60000; seen.unsure && clock_mono_ms() < until; usleep(20000))
		claims_folder_look(f, &seen);
	assert_false(seen.unsure);
	for (size_t i = 0; i < COUNT_OF(many); i++) {
		many[i] = claims_folder_open(folder, NULL, NULL);
		assert_int_equal(claims_folder_publish(many[i], &row, NULL, 1, NULL), 0);
	}
	claims_folder_look(f, &seen);
	assert_int_equal(seen.n, CLAIMS_FILES_USER - 1);	/* the torn one is one of them */
	for (size_t i = 0; i < COUNT_OF(many); i++)
		claims_folder_close(many[i]);
	claims_folder_close(f);
	claims_seen_clear(&seen);
}

/* What a daemon leaves that is killed before its file has its name goes with a look, but not what may be in the making. */
static void test_unmade(void **state)
{
	(void)state;
	const struct timespec past = { .tv_sec = clock_wall_ms() / 1000 - 60 }, old[2] = { past, past };
	const char *const names[] = { ".rad-claims-0-left", ".rad-claims-0-locked", ".rad-claims-0-young" };
	int fds[COUNT_OF(names)];
	for (size_t i = 0; i < COUNT_OF(names); i++)
		fds[i] = put(names[i], "", 0, 0600);
	assert_int_equal(futimens(fds[0], old) | futimens(fds[1], old), 0);
	close(fds[0]);
	close(fds[2]);
	struct claims_folder *f = claims_folder_open(folder, NULL, NULL);
	assert_int_equal(rows_seen(f), 0);
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		scoped_free char *path = alloc_printf("%s/%s", folder, names[i]);
		assert_int_equal(access(path, F_OK), i ? 0 : -1);
	}
	close(fds[1]);
	claims_folder_close(f);
}

/* Several at once ------------------------------------------------------------------------------------------------------- */

#define DAEMONS 4
#define ROUNDS 60

struct arena { volatile int here, most, taken, go; };

static task_id no_owner(void *ctx, const struct proc_reading *p) { (void)ctx; (void)p; return 0; }
static void no_event(void *ctx, const struct event *ev, const struct task *t) { (void)ctx; (void)ev; (void)t; }
static void no_trouble(void *ctx, const char *text) { (void)ctx; (void)text; }
static bool no_state(task_id id, enum task_state *state, void *ctx) { (void)id; (void)state; (void)ctx; return false; }

/* Whether the core counts anybody on the GPU: then the ledger would not place there. */
static bool counts_others(struct core *core)
{
	scoped_json *all = core_gpus_json(core, now_read());
	const json_t *gpu = json_array_get(json_object_get(all, "gpus"), 0);
	assert_non_null(gpu);
	return json_array_size(json_object_get(gpu, "claims"));
}

static void read_gpu(struct core *core)
{
	struct now now = now_read();
	struct snapshot s = { .mono_ms = now.mono_ms, .wall_ms = now.wall_ms };
	struct gpu_reading *g = snapshot_add_gpu(&s);
	snprintf(g->uuid, sizeof g->uuid, "%s", GPU);
	g->valid = GPU_MEM_TOTAL | GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM;
	g->mem_total_mib = 40000;
	core_snapshot(core, &s, false, now);
	snapshot_clear(&s);
}

/* Wants the GPU for itself, over and over; whoever has it says so where all see it, and holds it for a while. */
static void contend(struct arena *a)
{
	uv_loop_t loop;
	const struct core_ops ops = { .event = no_event, .trouble = no_trouble, .state_of = no_state,
				      .owner = no_owner };
	struct core_config config = core_config_default();
	struct core_claim wish = claim(GPU, 1000);
	uv_loop_init(&loop);
	struct core *core = core_create(&config, &ops);
	struct claims *c = claims_create(&loop, folder, NULL);
	read_gpu(core);
	while (!a->go)
		usleep(100);
	claims_refresh(c, core);
	for (int got = 0; got < ROUNDS;) {
		if (counts_others(core)) {
			usleep(300);
			claims_refresh(c, core);
		} else if (!claims_settle(c, core, &wish, 1)) {
			uv_run(&loop, UV_RUN_DEFAULT);	/* until it has looked again */
		} else {
			int now = __sync_add_and_fetch(&a->here, 1);
			a->most = now > a->most ? now : a->most;
			usleep(200);
			__sync_sub_and_fetch(&a->here, 1);
			claims_refresh(c, core);	/* the claim goes: the core holds nothing */
			__sync_add_and_fetch(&a->taken, 1);
			got++;
		}
	}
	claims_destroy(c);
	core_destroy(core);
	_exit(0);
}

static void test_contention(void **state)
{
	(void)state;
	struct arena *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[DAEMONS];
	for (int i = 0; i < DAEMONS; i++)
		if ((pids[i] = fork_child()) == 0)
			contend(a);
	a->go = 1;
	for (int i = 0; i < DAEMONS; i++) {
		int status;
		waitpid(pids[i], &status, 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(a->most, 1);
	assert_int_equal(a->taken, DAEMONS * ROUNDS);
	munmap(a, sizeof *a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page), cmocka_unit_test(test_rows_name_shims),
		cmocka_unit_test_setup_teardown(test_largest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_comes_and_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restarted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_place_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torn_and_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmade, setup, teardown),
		cmocka_unit_test_setup_teardown(test_contention, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
