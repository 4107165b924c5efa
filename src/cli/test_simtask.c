/* SPDX-License-Identifier: MIT
 * The simulated training program as real processes on simulated devices: speed, memory, and its ways to end.
 */
#include "cli/simtask.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/scope.h"
#include "device/simdev.h"
#include "recover/scan.h"
#include "share/share.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define DEADLINE_MS 60000

static char dir[32], path[64];
static struct simdev *devices;
static char uuid[2][GPU_UUID_LEN];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/rad-simtask-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/devices", dir);
	devices = simdev_open(path, "2xa100-40g", NULL);
	struct snapshot snap = { 0 };
	assert_int_equal(simdev_snapshot(devices, &snap, NULL), 0);
	for (int i = 0; i < 2; i++)
		memcpy(uuid[i], snap.gpus[i].uuid, GPU_UUID_LEN);
	snapshot_clear(&snap);
	setenv("RAD_SIM_DEVICES", path, 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	simdev_close(devices);
	unlink(path);
	return rmdir(dir);
}

struct proc { pid_t pid; int out; struct buf text; int64_t start_ms; };

/* Runs `rad simtask <words>` with both outputs into a pipe. */
static struct proc start(const char *words)
{
	char *argv[40] = { "simtask" }, copy[512];
	int argc = 1, pipes[2];
	snprintf(copy, sizeof copy, "%s", words);
	for (char *rest = copy, *word; (word = strsep(&rest, " ")) && argc < 39; )
		argv[argc++] = word;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	struct proc p = { .pid = fork(), .out = pipes[0], .start_ms = clock_mono_ms() };
	if (!p.pid) {
		alarm(DEADLINE_MS / 1000);
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		static const struct cli_verb verb = { .name = "simtask", .help = "a stand-in", .usage = "[options]" };
		exit(simtask_main(&(struct cli_call){ .verb = &verb, .argc = argc, .argv = argv }));
	}
	close(pipes[1]);
	return p;
}

/* Reads output until it has that text, or ends. */
static bool wait_text(struct proc *p, const char *text)
{
	int64_t end_ms = clock_mono_ms() + DEADLINE_MS;
	while (!text || !strstr(buf_text(&p->text), text)) {
		char bytes[4096];
		struct pollfd watch = { .fd = p->out, .events = POLLIN };
		if (poll(&watch, 1, (int)(end_ms - clock_mono_ms())) <= 0)
			fail_msg("no '%s' in time; there was: %s", text ? text : "end", buf_text(&p->text));
		ssize_t n = read(p->out, bytes, sizeof bytes);
		if (n <= 0)
			return false;
		buf_add(&p->text, bytes, (size_t)n);
	}
	return true;
}

/* The exit code, 128 + signal when killed. */
static int finish(struct proc *p)
{
	int status;
	wait_text(p, NULL);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	close(p->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void must_say(const struct proc *p, const char *text)
{
	if (!strstr(buf_text(&p->text), text))
		fail_msg("'%s' is not in: %s", text, buf_text(&p->text));
}

static enum scan_kind scanned(const struct proc *p)
{
	struct scan_result result;
	struct scan *s = scan_create();
	scan_feed(s, p->text.data, p->text.len);
	scan_finish(s, &result);
	scan_destroy(s);
	return result.kind;
}

/* Waits until device 0 shows that memory of that process. */
static void wait_memory(pid_t pid, uint64_t mib)
{
	int64_t end_ms = clock_mono_ms() + DEADLINE_MS;
	for (uint64_t seen = UINT64_MAX; seen != mib; ) {
		struct snapshot snap = { 0 };
		if (clock_mono_ms() > end_ms)
			fail_msg("%llu MiB, not %llu", (unsigned long long)seen, (unsigned long long)mib);
		assert_int_equal(simdev_snapshot(devices, &snap, NULL), 0);
		seen = 0;
		for (uint32_t i = 0; i < snap.n_procs; i++)
			if (snap.procs[i].id.pid == pid && !snap.procs[i].gpu)
				seen = snap.procs[i].mem_mib;
		snapshot_clear(&snap);
		poll(NULL, 0, 5);
	}
}

static void test_alone(void **state)
{
	(void)state;
	struct proc p = start("--mem 4000 --seconds 3 --ramp 0.3 --print-every 0.2");
	wait_memory(p.pid, 4000);
	int code = finish(&p);
	int64_t took_ms = clock_mono_ms() - p.start_ms;
	assert_int_equal(code, 0);
	must_say(&p, "GPU 0: NVIDIA A100-SXM4-40GB");
	must_say(&p, "4000 MiB");
	must_say(&p, "done: 30 steps");
	assert_true(took_ms >= 3000 && took_ms < 18000);
	wait_memory(p.pid, 0);
	buf_free(&p.text);
}

/* Two that keep the GPU busy: both take longer by what the model says, measured as work done, not by the clock alone. */
static void test_neighbours_slow_each_other(void **state)
{
	(void)state;
	const struct share_task both[] = { { .97, .75 }, { .97, .75 } };
	double speed[2];
	for (int mps = 0; mps < 2; mps++) {
		if (mps)
			setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
		share_speeds(both, 2, mps ? SHARE_MPS : SHARE_STREAMS, speed);
		struct proc longer = start("--mem 1000 --seconds 60 --print-every 0.05");
		assert_true(wait_text(&longer, "step"));
		struct proc p = start("--mem 1000 --seconds 0.6");
		assert_int_equal(finish(&p), 0);
		double took_s = (double)(clock_mono_ms() - p.start_ms) / 1000;
		if (took_s < 0.6 / speed[0] - 0.07 || took_s > 0.6 / speed[0] + 15)
			fail_msg("took %.2f s at speed %.3f", took_s, speed[0]);
		kill(longer.pid, SIGKILL);
		assert_int_equal(finish(&longer), 128 + SIGKILL);
		buf_free(&p.text);
		buf_free(&longer.text);
	}
}

static void test_killed_frees_its_memory(void **state)
{
	(void)state;
	struct proc p = start("--mem 30000 --seconds 60 --ramp 0");
	wait_memory(p.pid, 30000);
	struct proc q = start("--mem 20000 --seconds 0.1 --ramp 0");
	assert_int_equal(finish(&q), 1);
	kill(p.pid, SIGKILL);
	assert_int_equal(finish(&p), 128 + SIGKILL);
	struct proc again = start("--mem 20000 --seconds 0.1 --ramp 0");
	assert_int_equal(finish(&again), 0);
	buf_free(&p.text), buf_free(&q.text), buf_free(&again.text);
}

static void test_out_of_memory_is_its_own_affair(void **state)
{
	(void)state;
	struct proc neighbour = start("--mem 30000 --seconds 5 --ramp 0 --print-every 0.1");
	wait_memory(neighbour.pid, 30000);
	struct proc greedy = start("--mem 20000 --seconds 60 --ramp 0.2");
	assert_int_equal(finish(&greedy), 1);
	must_say(&greedy, "Traceback (most recent call last):");
	must_say(&greedy, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate ");
	must_say(&greedy, "GPU 0 has a total capacity of 39.41 GiB of which ");
	assert_int_equal(scanned(&greedy), SCAN_GPU_OOM);
	assert_int_equal(finish(&neighbour), 0);
	must_say(&neighbour, "done: 50 steps");
	buf_free(&greedy.text), buf_free(&neighbour.text);
}

static void test_fence_of_mps(void **state)
{
	(void)state;
	char by_uuid[128];
	snprintf(by_uuid, sizeof by_uuid, "%s=3G", uuid[1]);
	const char *const limits[] = { "0=3G", by_uuid };
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	for (size_t i = 0; i < 2; i++) {
		setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limits[i], 1);
		setenv("CUDA_MPS_PIPE_DIRECTORY", dir, 1);	/* as tasks without MPS have it: a folder without a server */
		struct proc free_one = start("--mem 4G --seconds 0.1 --ramp 0");
		assert_int_equal(finish(&free_one), 0);
		setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
		struct proc fits = start("--mem 3G --seconds 0.1 --ramp 0"), fenced = start("--mem 4G --seconds 9 --ramp 0");
		assert_int_equal(finish(&fits), 0);
		assert_int_equal(finish(&fenced), 1);
		must_say(&fenced, "GPU 0 has a total capacity of 39.41 GiB of which ");
		assert_int_equal(scanned(&fenced), SCAN_GPU_OOM);
		buf_free(&free_one.text), buf_free(&fits.text), buf_free(&fenced.text);
	}
	setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=20M", 1);
	struct proc tiny = start("--mem 4G --seconds 9 --ramp 1");
	assert_int_equal(finish(&tiny), 1);
	must_say(&tiny, "CUDA error: out of memory");
	assert_null(strstr(buf_text(&tiny.text), "Tried to allocate"));
	buf_free(&tiny.text);
}

static void test_grows_later(void **state)
{
	(void)state;
	struct proc p = start("--mem 2000 --ramp 0 --seconds 60 --grow-to 9000 --grow-at 3");
	wait_memory(p.pid, 2000);
	wait_memory(p.pid, 9000);
	kill(p.pid, SIGTERM);
	assert_int_equal(finish(&p), 143);
	must_say(&p, "SIGTERM: stopped at step ");
	must_say(&p, "no checkpoint was saved");
	wait_memory(p.pid, 0);
	buf_free(&p.text);
}

static void test_ordered_failures(void **state)
{
	(void)state;
	static const struct { const char *words; int code; enum scan_kind kind; } rows[] = {
		{ "--mem 1000 --seconds 9 --crash-at 0.1 --exit 7", 7, SCAN_OTHER_ERROR },
		{ "--mem 1000 --seconds 9 --host-oom-at 0.1", 1, SCAN_HOST_OOM },
		{ "--mem 1000 --seconds 9 --mps-fault-at 0.1", 1, SCAN_DEVICE_FAULT },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct proc p = start(rows[i].words);
		assert_int_equal(finish(&p), rows[i].code);
		if (scanned(&p) != rows[i].kind)
			fail_msg("%s: not that kind of error: %s", rows[i].words, buf_text(&p.text));
		buf_free(&p.text);
	}
}

static void test_mps_fault_takes_the_clients_along(void **state)
{
	(void)state;
	struct proc plain = start("--mem 1000 --seconds 1.5");
	setenv("CUDA_MPS_PIPE_DIRECTORY", path, 1);
	struct proc victim = start("--mem 1000 --seconds 60 --print-every 0.05");
	assert_true(wait_text(&victim, "step"));
	struct proc guilty = start("--mem 1000 --seconds 60 --mps-fault-at 0.05");
	assert_int_equal(finish(&guilty), 1);
	assert_int_equal(finish(&victim), 1);
	assert_int_equal(scanned(&victim), SCAN_MPS);
	assert_int_equal(finish(&plain), 0);
	buf_free(&plain.text), buf_free(&victim.text), buf_free(&guilty.text);
}

static void test_several_devices(void **state)
{
	(void)state;
	char both[160];
	snprintf(both, sizeof both, "1,%s", uuid[0]);
	setenv("CUDA_VISIBLE_DEVICES", both, 1);
	struct proc p = start("--mem 5000 --ramp 0 --seconds 60");
	wait_memory(p.pid, 5000);
	struct snapshot snap = { 0 };
	assert_int_equal(simdev_snapshot(devices, &snap, NULL), 0);
	assert_int_equal(snap.n_procs, 2);
	assert_true(snap.gpus[1].smact > .7);
	snapshot_clear(&snap);
	kill(p.pid, SIGTERM);
	assert_int_equal(finish(&p), 143);
	must_say(&p, "GPU 1: ");
	buf_free(&p.text);
}

static void test_what_it_cannot_run(void **state)
{
	(void)state;
	static const struct { const char *words, *visible, *text; int code; } rows[] = {
		{ "", "0", "--mem and --seconds are needed", 2 },
		{ "--mem 10 --seconds 1 --foo", "0", "'--foo'", 2 },
		{ "--mem", "0", "--mem needs a value: --mem=SIZE", 2 },
		{ "--mem ten --seconds 1", "0", "--mem: 'ten' is not a size", 2 },
		{ "--mem 10 --seconds 1 --smact 2", "0", "--smact: '2' is not a number from 0 to 1", 2 },
		{ "--mem 10 --seconds 1 --grow-to 20", "0", "--grow-to and --grow-at go together", 2 },
		{ "--mem 10 --seconds 1 more", "0", "'more'", 2 },
		{ "--help", "0", "Usage: rad simtask", 0 },
		{ "--mem 10 --seconds 1", "7", "CUDA_VISIBLE_DEVICES=7: there is no simulated device '7'", 1 },
		{ "--mem 10 --seconds 1", "0,0", "twice", 1 },
		{ "--mem 10 --seconds 1", "", "no GPUs are available", 1 },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		setenv("CUDA_VISIBLE_DEVICES", rows[i].visible, 1);
		struct proc p = start(*rows[i].words ? rows[i].words : "--exit 1");
		assert_int_equal(finish(&p), rows[i].code);
		must_say(&p, rows[i].text);
		buf_free(&p.text);
	}
	unsetenv("RAD_SIM_DEVICES");
	struct proc p = start("--mem 10 --seconds 1");
	assert_int_equal(finish(&p), 1);
	must_say(&p, "rad: simtask: RAD_SIM_DEVICES is not set");
	must_say(&p, "radd --devices sim:");
	buf_free(&p.text);
}

static double cpu_s(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

/* A dozen of them share two cores in a demonstration. */
static void test_costs_little(void **state)
{
	(void)state;
	struct rusage before, after;
	getrusage(RUSAGE_CHILDREN, &before);
	struct proc p = start("--mem 1000 --seconds 1");
	assert_int_equal(finish(&p), 0);
	getrusage(RUSAGE_CHILDREN, &after);
	double used_s = cpu_s(&after) - cpu_s(&before);
	if (used_s > 0.05)
		fail_msg("a second of it used %.1f ms of CPU", used_s * 1000);
	buf_free(&p.text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_alone), TEST(test_neighbours_slow_each_other), TEST(test_killed_frees_its_memory),
		TEST(test_out_of_memory_is_its_own_affair), TEST(test_fence_of_mps), TEST(test_grows_later),
		TEST(test_ordered_failures), TEST(test_mps_fault_takes_the_clients_along), TEST(test_several_devices),
		TEST(test_what_it_cannot_run), TEST(test_costs_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
