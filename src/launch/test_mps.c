/* SPDX-License-Identifier: MIT
 * MPS control daemons, played by tests/fake-mps, with real processes.
 */
#include "launch/mps.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "device/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <cmocka.h>

#define GPUS "GPU-8f3a12bc-1234,GPU-00112233-5678"
#define NOBODY 65534
#define DEADLINE_MS 60000
#define AT_ONCE_MS 15000	/* not at once is for ever, or many times as long; a busy machine may take its time */
#define SHORT_MS 300		/* for what never comes */

struct bench { char dir[32]; struct mps_server *server; };

static int setup(void **state)
{
	const char *root = getenv("RAD_SOURCE_ROOT");
	struct bench *b = alloc_zero(sizeof *b);
	strcpy(b->dir, "/tmp/rad-mps-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	chmod(b->dir, 0755);
	/* A copy of the fake, with the file that says how it behaves beside it. */
	scoped_free char *command = alloc_printf("cp '%s/tests/fake-mps/nvidia-cuda-mps-control' %s/", root ? root : ".", b->dir);
	assert_int_equal(system(command), 0);
	scoped_free char *control = alloc_printf("%s/nvidia-cuda-mps-control", b->dir);
	setenv("RAD_MPS_CONTROL", control, 1);
	*state = b;
	return 0;
}

static void wait_gone(struct proc_id id)
{
	scoped_fd int fd = proc_pidfd(id.pid);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd >= 0 && proc_alive(id))
		assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
}

/* Of the control daemons and clients that were started here, and of what they started: their folders are in its environment. */
static bool is_ours(const struct bench *b, const char *pid)
{
	scoped_buf text = { 0 };
	scoped_free char *path = alloc_printf("/proc/%s/environ", pid);
	return !io_read_file(path, 1 << 20, &text, NULL) && text.data && memmem(text.data, text.len, b->dir, strlen(b->dir));
}

static size_t count_ours(const struct bench *b)
{
	scoped_dir DIR *proc = opendir("/proc");
	size_t n = 0;
	for (const struct dirent *e; proc && (e = readdir(proc));)
		n += *e->d_name >= '1' && *e->d_name <= '9' && atoi(e->d_name) != getpid() && is_ours(b, e->d_name);
	return n;
}

static void assert_nothing_left(const struct bench *b)
{
	size_t n;
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; (n = count_ours(b)) && clock_mono_ms() < end; poll(NULL, 0, 20))
		;
	if (n)
		fail_msg("%zu processes are left", n);
}

static int teardown(void **state)
{
	struct bench *b = *state;
	if (b->server && proc_alive(mps_control(b->server))) {
		struct proc_id id = mps_control(b->server);
		kill(-id.pid, SIGKILL);		/* it leads a session, with its server */
		wait_gone(id);
	}
	mps_release(b->server);
	assert_nothing_left(b);
	scoped_free char *command = alloc_printf("rm -rf %s", b->dir);
	assert_int_equal(system(command), 0);
	free(b);
	return 0;
}

static void set_mode(struct bench *b, const char *mode)
{
	scoped_free char *path = alloc_printf("%s/mode", b->dir);
	assert_int_equal(io_replace_file(path, mode, strlen(mode), 0644, NULL), 0);
}

static void start(struct bench *b, uid_t uid, gid_t gid)
{
	struct error err = ERROR_INIT;
	b->server = mps_start(b->dir, GPUS, uid, gid, NULL, &err);
	if (!b->server)
		fail_msg("%s", err.text);
}

static void poll_until(struct bench *b, enum mps_state wanted)
{
	enum mps_state state = mps_poll(b->server);
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; state != wanted && clock_mono_ms() < end; poll(NULL, 0, 5))
		state = mps_poll(b->server);
	assert_int_equal(state, wanted);
}

static void start_ready(struct bench *b)
{
	start(b, getuid(), getgid());
	poll_until(b, MPS_READY);
}

static bool file_has(struct bench *b, const char *name, const char *line)
{
	scoped_free char *path = alloc_printf("%s/mps/%u.0/%s", b->dir, (unsigned)mps_uid(b->server), name);
	scoped_buf text = { 0 };
	io_read_file(path, 1 << 20, &text, NULL);
	return strstr(buf_text(&text), line);
}

static void wait_line(struct bench *b, const char *name, const char *line)
{
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; clock_mono_ms() < end; poll(NULL, 0, 5))
		if (file_has(b, name, line))
			return;
	fail_msg("'%s' is not in %s", line, name);
}

static struct proc_id process_in(struct bench *b, const char *file)
{
	scoped_free char *path = alloc_printf("%s/%s", mps_pipe_dir(b->server), file);
	scoped_buf text = { 0 };
	assert_int_equal(io_read_file(path, 100, &text, NULL), 0);
	struct proc_id id = { .pid = atoi(buf_text(&text)) };
	assert_int_equal(proc_stat(id.pid, &id.start_ticks, NULL), 0);
	return id;
}

static struct proc_id server_process(struct bench *b)
{
	return process_in(b, "server");
}

/* The control daemon and its server are gone. */
static void wait_stopped(struct bench *b, struct proc_id server)
{
	wait_gone(mps_control(b->server));
	wait_gone(server);
}

static void test_becomes_ready(void **state)
{
	struct bench *b = *state;
	int64_t began = clock_mono_ms();
	start(b, getuid(), getgid());
	assert_true(clock_mono_ms() - began < AT_ONCE_MS);
	assert_int_equal(mps_poll(b->server), MPS_STARTING);
	poll_until(b, MPS_READY);
	assert_true(file_has(b, "pipe/environment", "CUDA_VISIBLE_DEVICES=" GPUS "\n"));
	struct stat st;
	assert_int_equal(stat(mps_pipe_dir(b->server), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(st.st_uid, getuid());
}

static void test_runs_as_the_user(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	start(b, NOBODY, NOBODY);
	poll_until(b, MPS_READY);
	assert_int_equal(proc_uid(mps_control(b->server).pid), NOBODY);
	struct stat st;
	assert_int_equal(stat(mps_pipe_dir(b->server), &st), 0);
	assert_int_equal(st.st_uid, NOBODY);
	scoped_free char *folder = alloc_printf("%s/mps/65534.0", b->dir);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_uid, 0);
	struct proc_id control = mps_control(b->server);
	mps_stop(b->server);
	wait_gone(control);
}

static void keep(void *ctx, struct mps_server *s)
{
	struct bench *b = ctx;
	assert_null(b->server);
	b->server = s;
}

/* As long as the pipe that it logs into is open to all, nobody gets there: who has opened it once keeps it. */
static void wait_log_pipe_behind_closed_folder(struct bench *b)
{
	scoped_free char *log = alloc_printf("%s/log", mps_pipe_dir(b->server));
	struct stat st;
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; stat(log, &st) || !(st.st_mode & 022); poll(NULL, 0, 5))
		assert_true(clock_mono_ms() < end);
	assert_int_equal(stat(mps_pipe_dir(b->server), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* Everybody may reach its sockets, nobody may put anything beside them, and its log is its own. */
static void test_serves_all_users(void **state)
{
	struct bench *b = *state;
	struct stat st;
	start(b, MPS_ALL_USERS, 0);
	wait_log_pipe_behind_closed_folder(b);
	poll_until(b, MPS_READY);
	assert_int_equal(mps_uid(b->server), MPS_ALL_USERS);
	assert_string_equal(mps_whose(b->server), "all users");
	assert_int_equal(proc_uid(mps_control(b->server).pid), geteuid());
	assert_int_equal(stat(mps_pipe_dir(b->server), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(st.st_uid, geteuid());
	scoped_free char *log = alloc_printf("%s/mps/all.0/log", b->dir);
	assert_int_equal(stat(log, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	/* A client of another user is served, which a server without the option does not. */
	const char *as_nobody = geteuid() ? "" : "setpriv --reuid 65534 --regid 65534 --clear-groups";
	scoped_free char *connect = alloc_printf("echo connect 1 | CUDA_MPS_PIPE_DIRECTORY=%s timeout 10 %s %s | "
						 "grep -qx 'served by uid %u'", mps_pipe_dir(b->server), as_nobody,
						 getenv("RAD_MPS_CONTROL"), (unsigned)geteuid());
	assert_int_equal(system(connect), 0);
	struct proc_id id = mps_control(b->server);
	mps_release(steal(b->server));
	mps_adopt(b->dir, keep, b);
	assert_non_null(b->server);
	assert_int_equal(mps_uid(b->server), MPS_ALL_USERS);
	assert_int_equal(mps_control(b->server).pid, id.pid);
	mps_stop(b->server);
	wait_gone(id);
}

static size_t count_in(struct bench *b, const char *folder)
{
	scoped_free char *path = alloc_printf("%s/%s", b->dir, folder);
	DIR *d = opendir(path);
	size_t n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += *e->d_name != '.';
	if (d)
		closedir(d);
	return n;
}

/* Tried out in a moment, whatever the control program does, and nothing is left of it. */
static void test_what_a_driver_can(void **state)
{
	static const struct { const char *mode, *why; bool serves; int within_ms; } cases[] = {
		{ "", "knows", true, MPS_TRIAL_MS }, { "old", "does not know", false, MPS_TRIAL_MS },
		{ "dies", "started with -multiuser-server, ended", false, MPS_TRIAL_MS },
		{ "talks", "ended: No GPU, no server", false, MPS_TRIAL_MS }, { "hangs", "does not answer", false, SHORT_MS },
	};
	struct bench *b = *state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		set_mode(b, cases[i].mode);
		scoped_free char *why = NULL;
		int64_t began = clock_mono_ms();
		assert_int_equal(mps_serves_all(b->dir, cases[i].within_ms, &why), cases[i].serves);
		assert_true(clock_mono_ms() - began < cases[i].within_ms + AT_ONCE_MS);
		if (!strstr(why, cases[i].why))
			fail_msg("%s: %s", cases[i].mode, why);
		for (int64_t end = clock_mono_ms() + DEADLINE_MS; count_in(b, "mps") && clock_mono_ms() < end; poll(NULL, 0, 5))
			;
		assert_int_equal(count_in(b, "mps"), 0);
		assert_nothing_left(b);
	}
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* A sampler that ends, or a SIGHUP, while radd waits for the trial. */
static void test_a_trial_goes_on_through_signals(void **state)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction counted = { .sa_handler = on_alarm };
	struct sigaction before;
	scoped_free char *why = NULL;
	struct bench *b = *state;
	set_mode(b, "");
	sigaction(SIGALRM, &counted, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	bool serves = mps_serves_all(b->dir, MPS_TRIAL_MS, &why);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	if (!serves)
		fail_msg("%s", why);
}

static void test_dies_at_start(void **state)
{
	struct bench *b = *state;
	set_mode(b, "dies");
	start(b, getuid(), getgid());
	poll_until(b, MPS_FAILED);
}

static void test_dies_later(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	assert_int_equal(kill(-mps_control(b->server).pid, SIGKILL), 0);
	wait_gone(mps_control(b->server));
	assert_int_equal(mps_poll(b->server), MPS_FAILED);
	/* What it left in its folders does not stop the next one, nor does a folder that was opened to others. */
	assert_int_equal(chmod(mps_pipe_dir(b->server), 0777), 0);
	mps_release(b->server);
	start_ready(b);
	struct stat st;
	assert_int_equal(stat(mps_pipe_dir(b->server), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* A control daemon that does not answer never blocks us. */
static void test_never_waits_for_it(void **state)
{
	struct bench *b = *state;
	static const char *const modes[] = { "hangs", "refuses" };
	for (size_t i = 0; i < COUNT_OF(modes); i++) {
		set_mode(b, modes[i]);
		start(b, getuid(), getgid());
		for (int64_t end = clock_mono_ms() + 2 * SHORT_MS; clock_mono_ms() < end; poll(NULL, 0, 20)) {
			int64_t began = clock_mono_ms();
			assert_int_equal(mps_poll(b->server), MPS_STARTING);
			assert_true(clock_mono_ms() - began < AT_ONCE_MS);
		}
		kill(-mps_control(b->server).pid, SIGKILL);
		wait_gone(mps_control(b->server));
		mps_release(steal(b->server));
	}
}

/* While one runs, or is still stopping, the next gets a folder of its own. */
static void test_two_at_once(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	struct mps_server *first = steal(b->server);
	b->server = mps_start(b->dir, GPUS, getuid(), getgid(), "ada", NULL);
	assert_string_equal(mps_whose(b->server), "user ada");
	assert_non_null(b->server);
	assert_string_not_equal(mps_pipe_dir(b->server), mps_pipe_dir(first));
	poll_until(b, MPS_READY);
	struct proc_id id = mps_control(first);
	assert_true(proc_alive(id));
	mps_stop(first);
	wait_gone(id);
	mps_release(first);
	assert_int_equal(mps_poll(b->server), MPS_READY);
}

/* radd is killed; the next one finds the control daemon it started. */
static void test_adopted(void **state)
{
	struct bench *b = *state;
	mps_adopt(b->dir, keep, b);
	assert_null(b->server);
	pid_t daemon = fork();
	if (!daemon) {
		start_ready(b);
		kill(getpid(), SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(daemon, &status, 0), daemon);
	scoped_free char *other = alloc_printf("mkdir %s/mps/notes %s/mps/7.0; touch %s/mps/7.1", b->dir, b->dir, b->dir);
	assert_int_equal(system(other), 0);
	mps_adopt(b->dir, keep, b);
	assert_non_null(b->server);
	assert_int_equal(mps_uid(b->server), getuid());
	assert_string_equal(mps_gpus(b->server), GPUS);
	poll_until(b, MPS_READY);
}

static void test_stop(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	struct proc_id server = server_process(b);
	mps_stop(b->server);
	wait_stopped(b, server);
	assert_true(file_has(b, "log/commands", "quit -t 5\n"));
	assert_int_equal(mps_poll(b->server), MPS_FAILED);
	mps_release(steal(b->server));
	mps_adopt(b->dir, keep, b);
	assert_null(b->server);
}

/* As a task has it. */
static struct proc_id start_client(struct bench *b)
{
	struct proc_id id = { .pid = fork() };
	if (!id.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setsid();
		setenv("CUDA_MPS_PIPE_DIRECTORY", mps_pipe_dir(b->server), 1);
		execlp("sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	assert_int_equal(proc_stat(id.pid, &id.start_ticks, NULL), 0);
	return id;
}

/* Killed alone: its server goes on, is nobody's in whose folder another may begin, is found by the next radd, and ends with it;
 * who is no server of it is spared. */
static void test_left_behind(void **state)
{
	struct bench *b = *state;
	set_mode(b, "company");
	start_ready(b);
	struct proc_id server = server_process(b), company = process_in(b, "company"), client = start_client(b);
	struct proc_id control = mps_control(b->server);
	assert_false(mps_is_left(b->server));
	assert_int_equal(kill(control.pid, SIGKILL), 0);
	wait_gone(control);
	assert_int_equal(mps_poll(b->server), MPS_FAILED);
	assert_true(mps_is_left(b->server));
	struct mps_server *next = mps_start(b->dir, GPUS, getuid(), getgid(), NULL, NULL);
	assert_string_not_equal(mps_pipe_dir(next), mps_pipe_dir(b->server));
	struct proc_id other = mps_control(next);
	assert_int_equal(kill(-other.pid, SIGKILL), 0);
	wait_gone(other);
	mps_release(next);
	mps_release(steal(b->server));
	mps_adopt(b->dir, keep, b);
	assert_int_equal(mps_control(b->server).pid, control.pid);
	assert_int_equal(mps_poll(b->server), MPS_FAILED);
	mps_stop(b->server);
	wait_gone(server);
	assert_true(proc_alive(client) && proc_alive(company));
	kill(client.pid, SIGKILL);
	assert_int_equal(waitpid(client.pid, NULL, 0), client.pid);
	kill(company.pid, SIGKILL);
	while (mps_is_left(b->server))
		poll(NULL, 0, 20);
}

/* One that is stopped when the next has begun in its folder takes nothing away from that one. */
static void test_late_stop(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	struct proc_id first = mps_control(b->server);
	scoped_free char *stop = alloc_printf("%s mps-stop %s/mps/%u.0 %u %u %s %d %llu", getenv("RAD_SHIM"), b->dir,
					      (unsigned)getuid(), (unsigned)getuid(), (unsigned)getgid(), getenv("RAD_MPS_CONTROL"),
					      (int)first.pid, (unsigned long long)first.start_ticks);
	assert_int_equal(kill(-first.pid, SIGKILL), 0);
	wait_gone(first);
	mps_release(b->server);
	start_ready(b);
	struct proc_id second = mps_control(b->server);
	assert_int_equal(system(stop), 0);
	mps_release(steal(b->server));
	mps_adopt(b->dir, keep, b);
	assert_non_null(b->server);
	assert_int_equal(mps_control(b->server).pid, second.pid);
}

/* Everybody may open the folder, and with that lock it for as long as he likes: nobody's server waits for him. */
static void test_locked_by_another(void **state)
{
	struct bench *b = *state;
	scoped_free char *path = alloc_printf("%s/mps/%u.0", b->dir, (unsigned)getuid());
	scoped_free char *lock = alloc_printf("%s/lock", path), *pid = alloc_printf("%s/pid", path);
	assert_int_equal(io_make_dirs(path, 0755, NULL), 0);
	scoped_fd int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(folder, LOCK_EX), 0);
	start_ready(b);
	struct proc_id server = server_process(b);
	struct stat st;
	assert_int_equal(stat(lock, &st), 0);
	assert_int_equal(st.st_mode & 077, 0);
	mps_stop(b->server);
	wait_stopped(b, server);
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; !access(pid, F_OK); poll(NULL, 0, 5))
		assert_true(clock_mono_ms() < end);
}

static char *log_of(struct bench *b, const char *name, off_t bytes)
{
	char *path = alloc_printf("%s/mps/%u.0/log/%s", b->dir, (unsigned)mps_uid(b->server), name);
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_int_equal(posix_fallocate(fd, 0, bytes), 0);
	return path;
}

static off_t bytes_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* Whoever put a link there is not to have root empty what it leads to. */
static void test_long_logs_are_emptied(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	scoped_free char *other = alloc_printf("%s/other", b->dir), *link = NULL;
	scoped_free char *small = log_of(b, "a.log", 1000), *large = log_of(b, "server.log", MPS_LOG_MOST + 4096);
	assert_int_equal(rename(large, other), 0);
	free(large);
	large = log_of(b, "server.log", MPS_LOG_MOST + 4096);
	link = alloc_printf("%s/mps/%u.0/log/b.log", b->dir, (unsigned)mps_uid(b->server));
	assert_int_equal(symlink(other, link), 0);
	mps_trim(b->server);
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; bytes_of(large) && clock_mono_ms() < end; poll(NULL, 0, 5))
		;
	assert_int_equal(bytes_of(large), 0);
	scoped_free char *again = alloc_printf("$RAD_SHIM mps-trim %s/mps/%u.0 %u %u /bin/true", b->dir, (unsigned)getuid(),
					       (unsigned)getuid(), (unsigned)getgid());
	assert_int_equal(system(again), 0);
	assert_int_equal(bytes_of(other), MPS_LOG_MOST + 4096);
	assert_int_equal(bytes_of(small), 1000);
}

static void test_stop_when_its_client_fails(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	struct proc_id server = server_process(b);
	set_mode(b, "refuses");
	mps_stop(b->server);
	wait_stopped(b, server);
}

static void test_stop_of_a_stubborn_one(void **state)
{
	struct bench *b = *state;
	set_mode(b, "stubborn");
	start_ready(b);
	struct proc_id server = server_process(b);
	/* quit is answered and ignored; then its client fails, so that TERM and KILL come without the long wait */
	set_mode(b, "refuses");
	mps_stop(b->server);
	wait_stopped(b, server);
}

/* In one go, however many processes its task has: who is no client is not asked for. */
static void test_terminate_clients(void **state)
{
	struct bench *b = *state;
	static pid_t pids[20000];
	for (size_t i = 0; i < COUNT_OF(pids); i++)
		pids[i] = (pid_t)(i ? 4000000 + i : 777);
	start_ready(b);
	int64_t began = clock_mono_ms();
	mps_terminate_clients(b->server, pids, COUNT_OF(pids));
	assert_true(clock_mono_ms() - began < AT_ONCE_MS);
	wait_line(b, "log/commands", "terminate_client 4242 777\n");
	assert_false(file_has(b, "log/commands", "terminate_client 4242 4"));
}

/* The helper, waited for; `more` follows the pids. */
static void terminate(struct bench *b, const char *pids, const char *more)
{
	scoped_free char *command = alloc_printf("%s mps-terminate %s/mps/%u.0 %u %u %s '%s' %s", getenv("RAD_SHIM"), b->dir,
						 (unsigned)getuid(), (unsigned)getuid(), (unsigned)getgid(),
						 getenv("RAD_MPS_CONTROL"), pids, more);
	assert_int_equal(system(command), 0);
}

static void test_terminate_a_stranger(void **state)
{
	struct bench *b = *state;
	start_ready(b);
	terminate(b, "77 7777 ", "");
	assert_true(file_has(b, "log/commands", "get_client_list 4242\n"));
	assert_false(file_has(b, "log/commands", "terminate_client"));
	terminate(b, "77 777 ", "");
	assert_true(file_has(b, "log/commands", "terminate_client 4242 777\n"));
}

/* Its control daemon is a user's program, the helper ours. */
static void test_terminate_comes_to_an_end(void **state)
{
	struct bench *b = *state;
	set_mode(b, "slow");
	start_ready(b);
	int64_t began = clock_mono_ms();
	scoped_free char *within = alloc_printf("%d", SHORT_MS);
	terminate(b, "701 702 703 704 705 706 707 708 709 710 711 712", within);
	assert_in_range(clock_mono_ms() - began, SHORT_MS, SHORT_MS + AT_ONCE_MS);
}

static void test_bad_places(void **state)
{
	struct bench *b = *state;
	struct error err = ERROR_INIT;
	scoped_free char *deep = alloc_printf("%s/%080d", b->dir, 0);
	assert_null(mps_start(deep, GPUS, getuid(), getgid(), NULL, &err));
	assert_non_null(strstr(err.text, "too long for the sockets"));
	scoped_free char *folder = alloc_printf("%s/mps/%u.0", b->dir, (unsigned)getuid());
	assert_int_equal(io_make_dirs(folder, 0755, NULL), 0);
	assert_int_equal(chmod(folder, 0777), 0);
	assert_null(mps_start(b->dir, GPUS, getuid(), getgid(), NULL, &err));
	assert_int_equal(err.code, ERR_DENIED);
}

static void test_not_installed(void **state)
{
	const struct device_kind served = { .mps = DEVICE_MPS_SERVER }, own = { .mps = DEVICE_MPS_FILE }, without = { 0 };
	struct bench *b = *state;
	struct error err = ERROR_INIT;
	setenv("RAD_MPS_CONTROL", "/no/such/control", 1);
	assert_false(mps_available(&served));
	assert_null(mps_start(b->dir, GPUS, getuid(), getgid(), NULL, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	/* By PATH, behind folders that do not have it. */
	scoped_free char *before = alloc_string(getenv("PATH"));
	scoped_free char *path = alloc_printf("/nonexistent::%s:/bin", b->dir);
	unsetenv("RAD_MPS_CONTROL");
	setenv("PATH", path, 1);
	assert_true(mps_available(&served));
	setenv("PATH", "/nonexistent", 1);
	assert_false(mps_available(&served));
	assert_true(mps_available(&own));
	assert_false(mps_available(&without));
	setenv("PATH", before, 1);
}

int main(void)
{
	const char *root = getenv("RAD_BUILD_ROOT");
	scoped_free char *shim = alloc_printf("%s/rad-shim", root ? root : ".");
	setenv("RAD_SHIM", shim, 0);
	log_set_level(LOG_ERROR);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_becomes_ready), T(test_runs_as_the_user), T(test_serves_all_users), T(test_what_a_driver_can),
		T(test_a_trial_goes_on_through_signals),
		T(test_dies_at_start), T(test_dies_later),
		T(test_never_waits_for_it), T(test_two_at_once), T(test_adopted), T(test_stop),
		T(test_left_behind), T(test_late_stop), T(test_locked_by_another),
		T(test_long_logs_are_emptied), T(test_stop_when_its_client_fails), T(test_stop_of_a_stubborn_one), T(test_terminate_clients),
		T(test_terminate_a_stranger), T(test_terminate_comes_to_an_end), T(test_bad_places),
		T(test_not_installed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
