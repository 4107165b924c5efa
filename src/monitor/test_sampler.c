/* SPDX-License-Identifier: MIT
 * The sampler process: frames through the pipe, identities of processes, hanging, dying. This test is its own `radd`.
 */
#include "monitor/sampler.h"

#include "base/clock.h"
#include "device/device.h"
#include "monitor/monitor.h"
#include "monitor/procs.h"
#include "device/test_fake.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define DEADLINE_MS 60000

#define GPU "{\"uuid\": \"GPU-a\", \"name\": \"NVIDIA H200\", \"pci\": [0, 1, 0], \"total_mib\": 1000, " \
	    "\"gpm\": {\"2\": 50.0}, \"processes\": [%s]}"

static void script(const char *more, const char *processes)
{
	scoped_free char *gpu = alloc_printf(GPU, processes);
	scoped_free char *text = alloc_printf("{%s \"devices\": [%s]}", more, gpu);
	fake_script("nvml", text);
}

static struct sampler *sampler_of(const char *program, const char *setting)
{
	struct device *device = device_create(setting, NULL, NULL);
	struct sampler *s = sampler_create(program, device, 100);
	device_destroy(device);
	return s;
}

static int set_up(void **state)
{
	fake_use_nvml();
	unsetenv("CUDA_VISIBLE_DEVICES");
	*state = sampler_of("/proc/self/exe", "nvml");
	return 0;
}

static int tear_down(void **state)
{
	sampler_destroy(*state);
	return 0;
}

/* The next snapshot or the end, within the deadline; as sampler_read. */
static int next(struct sampler *s, struct snapshot *out, struct error *err, int64_t within_ms)
{
	int64_t until = clock_mono_ms() + within_ms;
	for (;;) {
		int rc = sampler_read(s, out, err);
		int64_t left = until - clock_mono_ms();
		if (rc || left <= 0)
			return rc;
		struct pollfd watch = { .fd = sampler_fd(s), .events = POLLIN };
		poll(&watch, 1, (int)left);
	}
}

/* Whether that process ends within the deadline. */
static bool ends(pid_t pid)
{
	scoped_fd int fd = proc_pidfd(pid);
	struct pollfd watch = { .fd = fd, .events = POLLIN };
	return fd < 0 || poll(&watch, 1, DEADLINE_MS) == 1;
}

static void test_samples(void **state)
{
	struct snapshot a, b;
	script("", "");
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &a, NULL, DEADLINE_MS), 1);
	assert_int_equal(next(*state, &b, NULL, DEADLINE_MS), 1);
	assert_string_equal(a.gpus[0].uuid, "GPU-a");
	assert_true(b.mono_ms > a.mono_ms);
	assert_false(a.gpus[0].valid & GPU_SMACT);
	/* Beats come in time even where a sample came late: the first pair may be closer than GPM allows. */
	while (!(b.gpus[0].valid & GPU_SMACT)) {
		snapshot_clear(&b);
		assert_int_equal(next(*state, &b, NULL, DEADLINE_MS), 1);
	}
	assert_true(b.gpus[0].smact == 0.5);
	snapshot_clear(&a);
	snapshot_clear(&b);
}

#define AT(uuid, pci) "{\"uuid\": \"" uuid "\", \"name\": \"NVIDIA H200\", \"pci\": [0, " pci ", 0], \"total_mib\": 1000}"

/* The number that was asked for is another GPU's when a second sampler starts: it goes on with those of the first. */
static void test_choice_outlives_a_sampler(void **state)
{
	struct snapshot s;
	sampler_destroy(*state);
	*state = sampler_of("/proc/self/exe", "nvml:1");
	fake_script("nvml", "{\"devices\": [" AT("GPU-a", "1") ", " AT("GPU-b", "2") ", " AT("GPU-c", "3") "]}");
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &s, NULL, DEADLINE_MS), 1);
	assert_string_equal(s.gpus[0].uuid, "GPU-b");
	assert_int_equal(s.n_others, 2);
	snapshot_clear(&s);
	fake_script("nvml", "{\"devices\": [" AT("GPU-b", "2") ", " AT("GPU-c", "3") "]}");
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &s, NULL, DEADLINE_MS), 1);
	assert_int_equal(s.n_gpus, 1);
	assert_string_equal(s.gpus[0].uuid, "GPU-b");
	assert_int_equal(s.gpus[0].index, 0);
	snapshot_clear(&s);
}

/* A child that was started with that RAD_TASK_ID; ends when *hold is closed. Returns when it has read and written: right after
 * its exec /proc does not show its environment yet. */
static pid_t start_task(const char *task, int *hold)
{
	int input[2], output[2];
	char byte = 'x';
	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		dup2(input[0], STDIN_FILENO);
		dup2(output[1], STDOUT_FILENO);
		setenv("RAD_TASK_ID", task, 1);
		execlp("cat", "cat", (char *)NULL);
		_exit(127);
	}
	close(input[0]);
	close(output[1]);
	*hold = input[1];
	assert_int_equal(write(*hold, &byte, 1), 1);
	assert_int_equal(read(output[0], &byte, 1), 1);
	close(output[0]);
	return pid;
}

/* Whether a process of that name is taken for an MPS server, where servers have this one. */
static bool is_server(const char *mps_process, const char *name)
{
	struct procs *p = procs_create(mps_process);
	struct snapshot s = { 0 };
	snapshot_add_gpu(&s);
	snapshot_add_proc(&s)->id.pid = getpid();
	prctl(PR_SET_NAME, name);
	procs_fill(p, &s);
	prctl(PR_SET_NAME, "test");
	bool server = s.procs[0].mps_server;
	snapshot_clear(&s);
	procs_destroy(p);
	return server;
}

static void test_identities(void **state)
{
	(void)state;
	int hold;
	pid_t task = start_task("12_3", &hold);
	struct procs *p = procs_create("nvidia-cuda-mps-server");
	struct snapshot s = { 0 };
	snapshot_add_gpu(&s);
	snapshot_add_proc(&s)->id.pid = task;
	snapshot_add_proc(&s)->id.pid = getpid();
	snapshot_add_proc(&s)->id.pid = 0x3ffffffe;	/* above any pid */
	snapshot_add_proc(&s)->id.pid = task;		/* on a second GPU */
	prctl(PR_SET_NAME, "nvidia-cuda-mps-server");
	procs_fill(p, &s);
	prctl(PR_SET_NAME, "test");
	assert_false(is_server("nvidia-cuda-mps-server", "python"));
	assert_false(is_server("nvidia-cuda-mps-server", "nvidia-cuda"));
	assert_false(is_server(NULL, "nvidia-cuda-mps-server"));
	assert_true(is_server("shared", "shared"));
	assert_false(is_server("shared", "shared-not"));
	uint64_t start;
	assert_int_equal(proc_stat(task, &start, NULL), 0);
	assert_true(s.procs[0].id.start_ticks == start);
	assert_int_equal(s.procs[0].uid, geteuid());
	assert_true(s.procs[0].claimed == TASK_ID(12, 3));
	assert_false(s.procs[0].mps_server);
	assert_string_equal(s.procs[0].program, "cat");
	assert_in_range(s.procs[0].started_ms, clock_wall_ms() - 60000, clock_wall_ms() + 1000);
	assert_true(s.procs[1].mps_server && !s.procs[1].claimed);
	assert_true(s.procs[2].id.start_ticks == 0 && s.procs[2].uid == (uid_t)-1 && !s.procs[2].claimed);
	assert_memory_equal(&s.procs[3].id, &s.procs[0].id, sizeof s.procs[0].id);

	/* It has ended, but the driver has not let go of its memory: still known as what it was. */
	close(hold);
	assert_true(ends(task));
	s.procs[0].id.start_ticks = 0;
	procs_fill(p, &s);
	assert_true(s.procs[0].id.start_ticks == start);
	assert_true(s.procs[0].claimed == TASK_ID(12, 3));
	waitpid(task, NULL, 0);

	/* No longer listed, it is forgotten. */
	uint32_t all = s.n_procs;
	s.n_procs = 0;
	procs_fill(p, &s);
	s.n_procs = all;
	procs_fill(p, &s);
	assert_true(s.procs[0].id.start_ticks == 0 && !s.procs[0].claimed);
	snapshot_clear(&s);
	procs_destroy(p);
}

/* A child with that very pid; -1 where one may not choose (not root). */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return child;
}

/* The driver lists the pid of a task that ended; when that pid comes round again, it is somebody else. */
static void test_pid_comes_round(void **state)
{
	(void)state;
	int hold;
	pid_t task = start_task("12_3", &hold);
	struct procs *p = procs_create("nvidia-cuda-mps-server");
	struct snapshot s = { 0 };
	snapshot_add_gpu(&s);
	snapshot_add_proc(&s)->id.pid = task;
	procs_fill(p, &s);
	assert_true(s.procs[0].claimed == TASK_ID(12, 3));
	close(hold);
	waitpid(task, NULL, 0);
	/* Start times count in hundredths of a second: until it is a later one, they are the same to everybody. */
	uint64_t first = s.procs[0].id.start_ticks, start = first;
	for (pid_t other; start == first && (other = fork_as(task)) == task;) {
		assert_int_equal(proc_stat(other, &start, NULL), 0);
		procs_fill(p, &s);
		assert_true(s.procs[0].id.start_ticks == start);
		assert_true(s.procs[0].claimed == (start == first ? TASK_ID(12, 3) : 0));
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	snapshot_clear(&s);
	procs_destroy(p);
	if (start == first)
		skip();
}

static void test_identities_travel(void **state)
{
	int hold;
	pid_t task = start_task("7", &hold);
	scoped_free char *list = alloc_printf("[%d, 740]", (int)task);
	struct snapshot s;
	script("", list);
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &s, NULL, DEADLINE_MS), 1);
	assert_int_equal(s.n_procs, 1);
	assert_int_equal(s.procs[0].mem_mib, 740);
	assert_true(s.procs[0].claimed == TASK_ID(7, -1));
	assert_int_equal(s.procs[0].uid, geteuid());
	snapshot_clear(&s);
	close(hold);
	waitpid(task, NULL, 0);
}

static void test_hang_and_replacement(void **state)
{
	struct snapshot s;
	script("\"hang\": [\"nvmlDeviceGetMemoryInfo_v2\"],", "");
	assert_int_equal(sampler_start(*state, NULL), 0);
	pid_t hung = sampler_pid(*state);
	/* Nothing comes; and stopping does not wait for it. */
	assert_int_equal(next(*state, &s, NULL, 300), 0);
	script("", "");
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_not_equal(sampler_pid(*state), hung);
	assert_int_equal(next(*state, &s, NULL, DEADLINE_MS), 1);
	snapshot_clear(&s);
	assert_true(ends(hung));
	assert_int_equal(sampler_stuck(*state), 0);
	assert_int_equal(kill(hung, 0), -1);	/* collected, no zombie */
	sampler_stop(*state);
	assert_int_equal(sampler_fd(*state), -1);
	assert_int_equal(sampler_read(*state, &s, NULL), -1);
}

static void test_says_why_it_cannot(void **state)
{
	struct snapshot s;
	struct error err = ERROR_INIT;
	setenv("RAD_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &s, &err, DEADLINE_MS), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "/nonexistent/libnvidia-ml.so.1 was not found"));
	assert_int_equal(next(*state, &s, &err, DEADLINE_MS), -1);
	assert_non_null(strstr(err.text, "ended"));
}

static void test_whole_failure_ends_it(void **state)
{
	struct snapshot s;
	struct error err = ERROR_INIT;
	script("", "");
	assert_int_equal(sampler_start(*state, NULL), 0);
	assert_int_equal(next(*state, &s, NULL, DEADLINE_MS), 1);
	snapshot_clear(&s);
	script("\"fail\": {\"nvmlDeviceGetCount_v2\": 999},", "");
	int rc;
	while ((rc = next(*state, &s, &err, DEADLINE_MS)) == 1)
		snapshot_clear(&s);
	assert_int_equal(rc, -1);
	assert_non_null(strstr(err.text, "fake error 999"));
	assert_true(ends(sampler_pid(*state)));
}

static void test_program_missing(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct sampler *s = sampler_of("/nonexistent/radd", "nvml");
	assert_int_equal(sampler_start(s, &err), -1);
	assert_non_null(strstr(err.text, "/nonexistent/radd: No such file"));
	assert_int_equal(sampler_pid(s), -1);
	sampler_destroy(s);
}

/* Runs the body of the sampler in a child of ours, without exec; its pipe is `fd`. */
static pid_t fork_body(int fd, int other_end)
{
	pid_t pid = fork();
	if (!pid) {
		close(other_end);
		_exit(monitor_sampler_main(&(struct monitor_order){ .devices = "nvml", .interval_ms = 60000, .fd = fd }));
	}
	return pid;
}

static void test_ends_without_reader(void **state)
{
	(void)state;
	int fds[2], status = -1;
	char byte;
	script("", "");
	assert_int_equal(pipe(fds), 0);
	pid_t body = fork_body(fds[1], fds[0]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	/* It waits for a beat a minute away, and still ends at once. */
	close(fds[0]);
	assert_true(ends(body));
	assert_int_equal(waitpid(body, &status, 0), body);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_dies_with_its_parent(void **state)
{
	(void)state;
	int fds[2], ids[2];
	pid_t body;
	char byte;
	script("", "");
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(ids), 0);
	pid_t parent = fork();
	if (!parent) {
		body = fork_body(fds[1], fds[0]);
		if (write(ids[1], &body, sizeof body) == (ssize_t)sizeof body)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ids[0], &body, sizeof body), sizeof body);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	/* The reader, this process, is still there. */
	assert_true(ends(body));
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(ids[i]);
	}
}

int main(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "--sampler"))
		return sampler_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_samples, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_choice_outlives_a_sampler, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_identities, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pid_comes_round, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_identities_travel, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hang_and_replacement, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_says_why_it_cannot, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_whole_failure_ends_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_program_missing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ends_without_reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_dies_with_its_parent, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, fake_group_set_up, fake_group_tear_down);
}
