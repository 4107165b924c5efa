/* SPDX-License-Identifier: MIT
 * Launching for real: shims, programs, users, ends. Everything is waited for by pidfd with a deadline.
 */
#include "launch/launch.h"
#include "launch/adopted.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"
#include "device/device.h"
#include "launch/attempt.h"
#include "launch/cgroup.h"
#include "launch/processes.h"
#include "launch/record.h"
#include "launch/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#define NOBODY 65534
#define DEADLINE_MS 20000

/* One task in a folder of its own. */
struct bench {
	char dir[64];
	struct task *task;
	struct launch_gpu gpu;
	struct device *device;
	struct launch_request request;
	struct proc_id shim;
};

static char **words(const char *first, ...)
{
	char **list = alloc_zero(16 * sizeof *list);
	va_list ap;
	va_start(ap, first);
	size_t n = 0;
	for (const char *word = first; word; word = va_arg(ap, const char *))
		list[n++] = alloc_string(word);
	va_end(ap);
	return list;
}

static void set_words(char ***member, char **list)
{
	for (char **p = *member; p && *p; p++)
		free(*p);
	free(*member);
	*member = list;
}

static void set_text(char **member, const char *text)
{
	free(*member);
	*member = alloc_string_or_null(text);
}

static int setup(void **state)
{
	struct bench *b = alloc_zero(sizeof *b);
	strcpy(b->dir, "/tmp/rad-launch-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	chmod(b->dir, 0755);
	struct spec *s = spec_create();
	s->uid = getuid();
	s->gid = getgid();
	s->umask = 022;
	set_text(&s->cwd, b->dir);
	set_text(&s->output, "log");
	set_text(&s->user, "tester");
	set_words(&s->environ, words("PATH=/usr/bin:/bin", "HOME=/nonexistent", NULL));
	b->task = task_create(TASK_ID(12, -1), s);
	b->task->attempts = alloc_zero(sizeof *b->task->attempts);
	b->task->n_attempts = 1;
	b->task->attempts[0].mode = SHARE_STREAMS;
	b->gpu = (struct launch_gpu){ .uuid = "GPU-11111111-2222", .index = 3 };
	b->device = device_create("nvml", b->dir, NULL);
	b->request = (struct launch_request){ .home.state_dir = b->dir, .task = b->task, .gpus = &b->gpu, .n_gpus = 1,
					      .device = b->device };
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;
	launch_signal(&b->request.home, b->task, SIGKILL);
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	launch_forget(folder);
	char *command = alloc_printf("rm -rf '%s'", b->dir);
	assert_int_equal(system(command), 0);
	free(command);
	task_destroy(b->task);
	device_destroy(b->device);
	free(b);
	return 0;
}

static void set_script(struct bench *b, const char *script)
{
	set_text(&b->task->spec->script, script);
	set_words(&b->task->spec->argv, words(NULL));
}

static int launch_start(const struct launch_request *r, struct proc_id *shim, struct error *err)
{
	struct launch *l = launch_prepare(r);
	int rc = launch_run(l, shim, err);
	launch_destroy(l);
	return rc;
}

static void start(struct bench *b)
{
	struct error err = ERROR_INIT;
	if (launch_start(&b->request, &b->shim, &err))
		fail_msg("%s", err.text);
	assert_true(b->shim.pid > 1);
	b->task->attempts[0].shim = b->shim;
}

static void wait_gone(struct proc_id id)
{
	scoped_fd int fd = proc_pidfd(id.pid);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (fd < 0 || !proc_alive(id))
		return;
	assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
}

static struct exit_report result(struct bench *b)
{
	struct error err = ERROR_INIT;
	struct exit_report r;
	bool claimed;
	memset(&r, 0, sizeof r);
	wait_gone(b->shim);
	if (launch_result(&b->request.home, b->task, &claimed, &r, &err))
		fail_msg("%s", err.text);
	assert_true(claimed);
	return r;
}

static struct exit_report run(struct bench *b)
{
	start(b);
	return result(b);
}

static char *content(struct bench *b, const char *name)
{
	scoped_free char *path = alloc_printf("%s/%s", b->dir, name);
	scoped_buf text = { 0 };
	io_read_file(path, 1 << 20, &text, NULL);
	return buf_steal(&text);
}

static void assert_log(struct bench *b, const char *expected)
{
	scoped_free char *text = content(b, "log");
	assert_string_equal(text, expected);
}

static void assert_log_has(struct bench *b, const char *part)
{
	scoped_free char *text = content(b, "log");
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

/* Until the program has written a line into a file of its folder. */
static void wait_line(struct bench *b, const char *name)
{
	for (int64_t end = clock_mono_ms() + DEADLINE_MS; clock_mono_ms() < end; poll(NULL, 0, 5)) {
		scoped_free char *text = content(b, name);
		if (strchr(text, '\n'))
			return;
	}
	fail_msg("no line in %s", name);
}

static struct proc_id identity(pid_t pid)
{
	struct proc_id id = { .pid = pid };
	assert_int_equal(proc_stat(pid, &id.start_ticks, NULL), 0);
	return id;
}

static void test_exit_code(void **state)
{
	struct bench *b = *state;
	set_words(&b->task->spec->argv, words("sh", "-c", "echo out; echo err >&2; exit 7", NULL));
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_false(r.never_began);
	assert_int_equal(r.exit_code, 7);
	assert_int_equal(r.signal, 0);
	assert_log(b, "out\nerr\n");
}

static void test_signal(void **state)
{
	struct bench *b = *state;
	set_words(&b->task->spec->argv, words("sh", "-c", "kill -SEGV $$", NULL));
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_int_equal(r.signal, SIGSEGV);
	assert_int_equal(r.exit_code, 0);
}

static void test_script_stops_at_first_failure(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo one $1\n\nno-such-program\necho two\n");
	set_words(&b->task->spec->argv, words("a b", NULL));
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 127);
	assert_log_has(b, "one a b\n");
	assert_log_has(b, "line 3: no-such-program");
	scoped_free char *text = content(b, "log");
	assert_null(strstr(text, "two"));
}

static void test_error_file(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo out\necho 'RuntimeError: CUDA error: out of memory' >&2\nexit 1\n");
	set_text(&b->task->spec->error, "err.%j");
	struct exit_report r = run(b);
	assert_log(b, "out\n");
	scoped_free char *text = content(b, "err.12");
	assert_non_null(strstr(text, "out of memory"));
	assert_int_equal(r.output.kind, SCAN_GPU_OOM);
}

/* What the output files held before is not this attempt's. */
static void test_appends_and_ignores_old_output(void **state)
{
	struct bench *b = *state;
	scoped_free char *log = alloc_printf("%s/log", b->dir);
	static const char old[] = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
	assert_int_equal(io_replace_file(log, old, sizeof old - 1, 0644, NULL), 0);
	set_script(b, "echo fine\n");
	struct exit_report r = run(b);
	assert_int_equal(r.output.kind, SCAN_NOTHING);
	assert_log_has(b, "2.00 GiB\nfine\n");
}

static void assert_never_began(struct bench *b, const char *text)
{
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_true(r.never_began);
	if (!strstr(r.output.line, text))
		fail_msg("'%s' is not in: %s", text, r.output.line);
}

static void test_program_not_found(void **state)
{
	struct bench *b = *state;
	set_words(&b->task->spec->argv, words("python3x", "train.py", NULL));
	assert_never_began(b, "exec python3x: not found in PATH");
}

static void test_folder_missing(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	set_text(&b->task->spec->cwd, "/no/such/folder");
	assert_never_began(b, "working directory /no/such/folder: No such file or directory");
}

static void test_output_folder_missing(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	set_text(&b->task->spec->output, "logs/%j.out");
	assert_never_began(b, "output logs/12.out: the folder logs does not exist");
}

static void test_output_is_a_pipe_without_reader(void **state)
{
	struct bench *b = *state;
	scoped_free char *path = alloc_printf("%s/pipe", b->dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	set_script(b, "true\n");
	set_text(&b->task->spec->output, "pipe");
	assert_never_began(b, "a pipe that nobody reads");
}

/* No descriptors, no signals ignored or blocked, the user's umask, nothing to read, its own process group. */
static void test_clean_start(void **state)
{
	struct bench *b = *state;
	b->task->spec->umask = 027;
	set_words(&b->task->spec->argv,
		  words("bash", "-c",
			"umask; cat; ls /proc/$$/fd > fds; tr '\\n' ' ' < fds; grep SigBlk /proc/self/status;"
			/* 32 and 33 are the C library's own: posix_spawn ignores them in its child, and signal() cannot undo it. */
			"i=$(sed -n 's/^SigIgn:.//p' /proc/self/status); echo $((0x$i & ~0x180000000))", NULL));
	int held = open("/dev/null", O_RDONLY);	/* without O_CLOEXEC */
	signal(SIGHUP, SIG_IGN);
	run(b);
	signal(SIGHUP, SIG_DFL);
	close(held);
	assert_log(b, "0027\n0 1 2 SigBlk:\t0000000000000000\n0\n");
}

static void test_limits(void **state)
{
	struct bench *b = *state;
	struct rlimit now;
	getrlimit(RLIMIT_NOFILE, &now);
	struct spec *s = b->task->spec;
	s->n_rlimits = 2;
	s->rlimits = alloc_zero(2 * sizeof *s->rlimits);
	s->rlimits[0] = (struct spec_rlimit){ .resource = RLIMIT_NOFILE, .soft = 77, .hard = -1 };
	s->rlimits[1] = (struct spec_rlimit){ .resource = RLIMIT_CORE, .soft = 0, .hard = 0 };
	set_script(b, "ulimit -Sn\nulimit -Hn\nulimit -Hc\n");
	run(b);
	scoped_free char *expected = alloc_printf("77\n%llu\n0\n", (unsigned long long)now.rlim_max);
	assert_log(b, expected);
}

static void test_much_output(void **state)
{
	struct bench *b = *state;
	int64_t began = clock_mono_ms();
	set_script(b, "head -c 50000000 /dev/zero | tr '\\0' 'x' | fold -w 100\necho\n"
		      "echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'\nexit 1\n");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 1);
	assert_int_equal(r.output.kind, SCAN_GPU_OOM);
	assert_int_equal(r.output.offset, 50000000 + 500000);	/* a newline after every 100 */
	assert_true(clock_mono_ms() - began < 15000);
}

static void test_output_that_is_no_file(void **state)
{
	struct bench *b = *state;
	set_script(b, "head -c 200000000 /dev/zero\necho 'CUDA out of memory'\nexit 3\n");
	set_text(&b->task->spec->output, "/dev/null");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 3);
	assert_int_equal(r.output.kind, SCAN_NOTHING);
}

/* A file of ten terabytes, all hole, then an error: it must not be read from the start. */
static void test_huge_sparse_output(void **state)
{
	struct bench *b = *state;
	set_script(b, "truncate -s 10T log || truncate -s 10G log\necho\necho 'RuntimeError: CUDA error: out of memory'\n"
		      "exit 1\n");
	struct exit_report r = run(b);
	assert_int_equal(r.output.kind, SCAN_GPU_OOM);
	assert_true(r.output.offset >= (uint64_t)10 << 30);
}

static void test_background_processes_end(void **state)
{
	struct bench *b = *state;
	set_script(b, "sleep 1000 &\necho $! > child\nsetsid sleep 1000 &\nexit 4\n");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 4);
	scoped_free char *pid = content(b, "child");
	uint64_t start_ticks;
	assert_int_equal(proc_stat(atoi(pid), &start_ticks, NULL), -1);
	scoped_free pid_t *pids = NULL;
	assert_int_equal(launch_processes(&b->request.home, b->task, &pids), 0);
}

static void test_starts_once(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo began >> count\n");
	start(b);
	struct proc_id second;
	struct error err = ERROR_INIT;
	wait_gone(b->shim);
	assert_int_equal(launch_start(&b->request, &second, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	/* A shim of another daemon that did not see the claim. */
	scoped_free char *command = alloc_printf("'%s' task %s/attempts/12.1", getenv("RAD_SHIM"), b->dir);
	int status = system(command);
	assert_int_equal(WEXITSTATUS(status), SHIM_SECOND);
	assert_true(result(b).have_record);
	scoped_free char *count = content(b, "count");
	assert_string_equal(count, "began\n");
}

static void test_race_for_the_claim(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo began >> count\nread line < gate\n");
	scoped_free char *gate = alloc_printf("%s/gate", b->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	start(b);
	wait_line(b, "count");
	/* Ours lost: it ends, but the one that won still runs. */
	struct exit_report r;
	bool claimed;
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 1);
	assert_true(claimed);
	struct proc_id found;
	assert_int_equal(launch_adopt(&b->request.home, b->task, &found, NULL), 1);
	assert_int_equal(found.pid, b->shim.pid);
	assert_int_equal(found.start_ticks, b->shim.start_ticks);
	scoped_fd int fd = open(gate, O_WRONLY);
	assert_int_equal(write(fd, "go\n", 3), 3);
	assert_true(result(b).have_record);
}

/* The daemon dies at once after the start; another finds the shim, and reads the end that nobody watched. */
static void test_adopted_after_kill(void **state)
{
	struct bench *b = *state;
	scoped_free char *gate = alloc_printf("%s/gate", b->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	set_script(b, "echo began > count\nread line < gate\nexit 9\n");
	pid_t daemon = fork();
	if (!daemon) {
		start(b);
		kill(getpid(), SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(daemon, &status, 0), daemon);
	wait_line(b, "count");
	assert_int_equal(launch_adopt(&b->request.home, b->task, &b->shim, NULL), 1);
	scoped_fd int fd = open(gate, O_WRONLY);
	assert_int_equal(write(fd, "go\n", 3), 3);
	struct exit_report r = result(b);
	assert_true(r.have_record);
	assert_int_equal(r.exit_code, 9);
	assert_int_equal(launch_adopt(&b->request.home, b->task, &b->shim, NULL), 0);
}

static void test_never_started(void **state)
{
	struct bench *b = *state;
	struct exit_report r;
	bool claimed = true;
	memset(&r, 0, sizeof r);
	assert_int_equal(launch_adopt(&b->request.home, b->task, &b->shim, NULL), 0);
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_false(claimed);
	assert_false(r.have_record);
	/* A folder that a daemon made before it was killed is used again. */
	scoped_free char *path = alloc_printf("%s/attempts/12.1", b->dir);
	assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_false(claimed);
	set_script(b, "exit 5\n");
	assert_int_equal(run(b).exit_code, 5);
}

static void test_shim_killed(void **state)
{
	struct bench *b = *state;
	set_script(b, "sleep 1000 &\necho $! > child\nwait\n");
	start(b);
	wait_line(b, "child");
	scoped_free char *text = content(b, "child");
	struct proc_id child = identity(atoi(text));
	assert_int_equal(kill(b->shim.pid, SIGKILL), 0);
	struct exit_report r = result(b);
	assert_false(r.have_record);
	/* What it left is still found, by its session alone too. */
	struct family f = { .shim = b->shim };
	scoped_free pid_t *pids = NULL;
	assert_true(family_list(&f, &pids) >= 2);
	assert_true(launch_signal(&b->request.home, b->task, SIGKILL) >= 2);
	wait_gone(child);
}

static void test_signals_reach_everybody(void **state)
{
	struct bench *b = *state;
	set_script(b, "trap 'echo bash; wait; exit 6' TERM\n"
		      "setsid bash -c 'trap \"echo child; exit\" TERM; echo > ready; while :; do sleep 0.05; done' &\nwait\n");
	start(b);
	wait_line(b, "ready");
	assert_true(launch_signal(&b->request.home, b->task, SIGTERM) >= 2);
	struct exit_report r = result(b);
	assert_int_equal(r.exit_code, 6);
	assert_log_has(b, "bash\n");
	assert_log_has(b, "child\n");
}

/* The program cannot end its shim by what people do in scripts. */
static void test_kill_0_spares_the_shim(void **state)
{
	struct bench *b = *state;
	set_script(b, "sleep 1000 &\nkill -9 0\n");
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_int_equal(r.signal, SIGKILL);
}

static void test_torn_record(void **state)
{
	struct bench *b = *state;
	set_script(b, "exit 5\n");
	start(b);
	wait_gone(b->shim);
	scoped_free char *path = alloc_printf("%s/attempts/12.1/exit", b->dir);
	scoped_buf whole = { 0 };
	assert_int_equal(io_read_file(path, 8192, &whole, NULL), 0);
	assert_int_equal(whole.len, RECORD_BYTES);
	const char *newline = memchr(whole.data, '\n', whole.len);
	assert_non_null(newline);
	for (size_t cut = 0; cut <= (size_t)(newline - whole.data); cut += 7) {
		char bytes[RECORD_BYTES] = { 0 };
		memcpy(bytes, whole.data, cut);
		assert_int_equal(io_replace_file(path, bytes, sizeof bytes, 0600, NULL), 0);
		struct exit_report r;
		bool claimed;
		memset(&r, 0, sizeof r);
		assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
		assert_true(claimed);
		assert_false(r.have_record);
	}
}

static void test_record_of_a_liar(void **state)
{
	struct bench *b = *state;
	scoped_free char *path = alloc_printf("%s/exit", b->dir);
	static const char *const lines[] = {
		"{\"v\":1,\"began\":true,\"exit_code\":-4}\n", "{\"v\":1,\"kind\":99}\n", "{\"v\":2,\"began\":true}\n", "[]\n", "\n",
		"{\"v\":1,\"source\":\"longer than any name that we know\"}\n",
	};
	scoped_fd int folder = open(b->dir, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < COUNT_OF(lines); i++) {
		struct exit_record r;
		assert_int_equal(io_replace_file(path, lines[i], strlen(lines[i]), 0600, NULL), 0);
		assert_int_equal(record_read(folder, "exit", &r, NULL), 0);
	}
}

static bool progress_of(const struct bench *b, struct progress_report *out)
{
	uint64_t file;
	return launch_progress(&b->request.home, b->task, out, &file);
}

/* Told while it runs, and once more at its end. */
static void test_progress(void **state)
{
	struct bench *b = *state;
	struct progress_report r = { 0 };
	scoped_free char *gate = alloc_printf("%s/gate", b->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	set_script(b, "echo 'step 100/1000'\nread line < gate\nprintf 'step 300/1000 '\nexit 3\n");
	assert_false(progress_of(b, &r));
	start(b);
	for (int64_t until = clock_mono_ms() + DEADLINE_MS; !progress_of(b, &r) || r.source == PROGRESS_NONE; usleep(20000))
		assert_true(clock_mono_ms() < until);
	assert_true(r.fraction == 0.1 && r.done == 100 && r.total == 1000 && r.source == PROGRESS_LINES);
	assert_true(r.t_ms <= clock_mono_ms() && r.left_s == -1);
	scoped_fd int fd = open(gate, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, "go\n", 3), 3);
	assert_int_equal(result(b).exit_code, 3);
	assert_true(progress_of(b, &r));
	assert_int_equal(r.done, 300);
	assert_string_equal(r.unit, "step");
	assert_true(r.fraction == 0.3);
}

static void test_no_progress_of_what_is_no_file(void **state)
{
	struct bench *b = *state;
	struct progress_report r;
	set_text(&b->task->spec->output, "/dev/null");
	set_script(b, "echo 'step 100/1000'\n");
	assert_int_equal(run(b).exit_code, 0);
	assert_false(progress_of(b, &r) && r.source != PROGRESS_NONE);
}

#define LIE_HEAD "{\"v\":1,\"n\":7,\"t_ms\":5,\"done\":1,\"total\":2,\"source\":\"tqdm\",\"unit\":\"it\"" \
	",\"per_s\":1,\"whole\":2,\"advanced\":1"
#define LIE_REST ",\"left_s\":3,\"spread_s\":1,\"dev\":1,\"ino\":2,\"end\":7}\n"

static void test_progress_of_a_liar(void **state)
{
	struct bench *b = *state;
	scoped_free char *path = alloc_printf("%s/exit", b->dir);
	static const struct { const char *line; bool believed; } cases[] = {
		{ LIE_HEAD ",\"fraction\":0.5" LIE_REST, true }, { LIE_HEAD ",\"fraction\":-1" LIE_REST, true },
		{ LIE_HEAD ",\"fraction\":1.5" LIE_REST, false }, { LIE_HEAD ",\"fraction\":-0.5" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"done\":3" LIE_REST, false }, { LIE_HEAD ",\"fraction\":\"half\"" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"epoch\":4,\"epochs\":3" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"total\":2000000000000" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"unit\":\"\\u001b[2J\"" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"source\":\"nobody\"" LIE_REST, false },
		{ LIE_HEAD ",\"fraction\":0.5,\"left_s\":1e300,\"end\":7}\n", false },
		{ LIE_HEAD ",\"fraction\":0.5,\"end\":6}\n", false },	/* torn */
		{ LIE_HEAD ",\"fraction\":0.5,\"end\":7}", false }, { "[]\n", false }, { "\n", false }, { "{\"v\":2}\n", false },
	};
	scoped_fd int folder = open(b->dir, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct progress_record r;
		char bytes[RECORD_BYTES] = "";
		memcpy(bytes + RECORD_PROGRESS, cases[i].line, strlen(cases[i].line));
		assert_int_equal(io_replace_file(path, bytes, sizeof bytes, 0600, NULL), 0);
		if (record_read_progress(folder, "exit", &r, NULL) != cases[i].believed)
			fail_msg("%s: %s", cases[i].line, cases[i].believed ? "is not believed" : "is believed");
		struct exit_record e;
		assert_int_equal(record_read(folder, "exit", &e, NULL), 0);
	}
}

static void test_full_disk(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	pid_t daemon = fork();
	if (!daemon) {
		struct error err = ERROR_INIT;
		struct rlimit small = { 100, 100 };
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &small);
		_exit(launch_start(&b->request, &b->shim, &err) == -1 && !b->shim.pid ? 42 : 1);
	}
	int status;
	assert_int_equal(waitpid(daemon, &status, 0), daemon);
	assert_int_equal(WEXITSTATUS(status), 42);
	scoped_free char *path = alloc_printf("%s/attempts/12.1", b->dir);
	assert_int_equal(access(path, F_OK), -1);
}

static void test_folder_of_others_is_refused(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	scoped_free char *path = alloc_printf("%s/attempts/12.1", b->dir);
	assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
	assert_int_equal(chmod(path, 0770), 0);
	struct error err = ERROR_INIT;
	assert_int_equal(launch_start(&b->request, &b->shim, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
}

static void test_no_shim(void **state)
{
	struct bench *b = *state;
	scoped_free char *before = alloc_string(getenv("RAD_SHIM"));
	set_script(b, "true\n");
	struct error err = ERROR_INIT;
	setenv("RAD_SHIM", "/no/such/shim", 1);
	assert_int_equal(launch_start(&b->request, &b->shim, &err), -1);
	assert_non_null(strstr(err.text, "/no/such/shim"));
	/* It is there but is no program: exec fails, and that is told. */
	scoped_free char *text = alloc_printf("%s/shim", b->dir);
	assert_int_equal(io_replace_file(text, "x", 1, 0755, NULL), 0);
	setenv("RAD_SHIM", text, 1);
	assert_int_equal(launch_start(&b->request, &b->shim, &err), -1);
	assert_non_null(strstr(err.text, "Exec format error"));
	setenv("RAD_SHIM", before, 1);
	scoped_free char *path = alloc_printf("%s/attempts/12.1", b->dir);
	assert_int_equal(access(path, F_OK), -1);
}

static const char fake_conda[] =
	"#!/bin/sh\n"
	"[ \"$1\" = shell.bash ] || exit 1\n"
	"echo 'conda() { export ACTIVE=\"$1 $2\"; [ \"$2\" != missing ]; }'\n";

static void add_conda(struct bench *b)
{
	scoped_free char *folder = alloc_printf("%s/miniconda3/bin", b->dir);
	scoped_free char *path = alloc_printf("%s/conda", folder);
	assert_int_equal(io_make_dirs(folder, 0755, NULL), 0);
	assert_int_equal(io_replace_file(path, fake_conda, sizeof fake_conda - 1, 0755, NULL), 0);
	scoped_free char *home = alloc_printf("HOME=%s", b->dir);
	set_words(&b->task->spec->environ, words("PATH=/usr/bin:/bin", home, NULL));
}

static void test_conda_in_script(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_script(b, "conda activate vision\necho \"$ACTIVE ${BASH_ENV-unset}\"\nno-such-program\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log_has(b, "activate vision unset\n");
	assert_log_has(b, "line 3: no-such-program");
}

static void test_conda_env_for_command(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_text(&b->task->spec->conda_env, "it's");
	set_words(&b->task->spec->argv, words("bash", "-c", "echo \"$ACTIVE:$0\"; exit 3", "a  b", NULL));
	assert_int_equal(run(b).exit_code, 3);
	assert_log(b, "activate it's:a  b\n");
}

static void test_conda_env_missing(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	set_text(&b->task->spec->conda_env, "missing");
	set_script(b, "echo ran\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log(b, "rad: env: 'conda activate' failed\n");
}

static void test_conda_not_found(void **state)
{
	struct bench *b = *state;
	if (!access("/opt/conda/bin/conda", X_OK) || !access("/opt/miniconda3/bin/conda", X_OK) ||
	    !access("/usr/bin/conda", X_OK))
		skip();
	set_script(b, "conda activate vision\necho ran\n");
	assert_int_equal(run(b).exit_code, 127);
	assert_log(b, "rad: conda: not found in CONDA_EXE, PATH, the home folder or /opt: set CONDA_EXE\n");
}

static void test_users_bash_env(void **state)
{
	struct bench *b = *state;
	add_conda(b);
	scoped_free char *rc = alloc_printf("%s/rc", b->dir);
	scoped_free char *var = alloc_printf("BASH_ENV=%s", rc);
	scoped_free char *home = alloc_printf("HOME=%s", b->dir);
	assert_int_equal(io_replace_file(rc, "from_rc=1\n", 10, 0644, NULL), 0);
	set_words(&b->task->spec->environ, words("PATH=/usr/bin:/bin", home, var, NULL));
	set_script(b, "conda activate x\necho \"$from_rc\"\nbash -c 'echo $from_rc'\n");
	assert_int_equal(run(b).exit_code, 0);
	assert_log(b, "1\n1\n");
}

/* As root: the task is the user, wholly and for good. */
static pid_t start_sleep(void)
{
	pid_t pid = fork();
	if (!pid) {
		execlp("sleep", "sleep", "100", NULL);
		_exit(1);
	}
	assert_true(pid > 1);
	return pid;
}

/* A process that was there: found by pid and start time alone, signalled, and its end known without a word of how. */
static void test_adopted(void **state)
{
	struct bench *b = *state;
	struct exit_report r = { 0 };
	struct proc_id process = { .pid = start_sleep() }, found;
	bool claimed;
	assert_int_equal(proc_stat(process.pid, &process.start_ticks, NULL), 0);
	assert_int_equal(adopted_check(process, getuid(), NULL), 0);
	b->task->spec->process_pid = process.pid;
	b->task->spec->process_ticks = process.start_ticks;
	/* It has not been told that it has its place: to be begun again. */
	assert_int_equal(launch_adopt(&b->request.home, b->task, &found, NULL), 0);
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_false(claimed || r.have_record);
	b->task->attempts[0].shim = process;
	assert_int_equal(launch_adopt(&b->request.home, b->task, &found, NULL), 1);
	assert_int_equal(found.pid, process.pid);
	/* Only who is its user's alone, and was there then. */
	b->task->spec->uid = getuid() + 1;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
	b->task->spec->uid = getuid();
	b->task->spec->process_ticks++;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
	b->task->spec->process_ticks--;
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 1);
	assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
	assert_int_equal(launch_adopt(&b->request.home, b->task, &found, NULL), 0);
	assert_int_equal(launch_result(&b->request.home, b->task, &claimed, &r, NULL), 0);
	assert_true(claimed && r.have_record && r.unseen);
	assert_int_equal(launch_signal(&b->request.home, b->task, SIGKILL), 0);
}

static void on_usr1(int signal)
{
	(void)signal;
}

/* A child that handles SIGUSR1, below a process that does not; 0 is written when it does. */
static pid_t start_listener(int ready_fd)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, on_usr1);
		if (write(ready_fd, "", 1) == 1)
			for (;;)
				pause();
	}
	for (;;)
		pause();
}

/* Asked to make place is only who is its user's alone, as with any other signal. */
static void test_adopted_asked(void **state)
{
	struct bench *b = *state;
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	struct proc_id process = { .pid = start_listener(ready[1]) };
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(proc_stat(process.pid, &process.start_ticks, NULL), 0);
	b->task->spec->process_pid = process.pid;
	b->task->spec->process_ticks = process.start_ticks;
	b->task->attempts[0].shim = process;
	b->task->spec->uid = getuid() + 1;
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR1), 0);
	b->task->spec->uid = getuid();
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR1), 1);
	assert_int_equal(launch_ask(&b->request.home, b->task, SIGUSR2), 0);
	kill(process.pid, SIGKILL);
	assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
}

static void test_adopted_by_others(void **state)
{
	(void)state;
	struct error err = ERROR_INIT;
	struct proc_id self = { .pid = getpid() }, child = { .pid = start_sleep() };
	assert_int_equal(proc_stat(self.pid, &self.start_ticks, NULL), 0);
	assert_int_equal(proc_stat(child.pid, &child.start_ticks, NULL), 0);
	assert_int_equal(adopted_check(child, getuid() + 1, &err), -1);
	assert_int_equal(err.code, ERR_DENIED);
	assert_int_equal(adopted_check(self, getuid(), &err), -1);	/* "radd" itself */
	assert_int_equal(err.code, ERR_INVALID);
	child.start_ticks++;
	assert_int_equal(adopted_check(child, getuid(), &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(adopted_check((struct proc_id){ INT32_MAX, 1 }, getuid(), &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

static void test_drops_root(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
	b->task->spec->uid = b->task->spec->gid = NOBODY;
	set_script(b, "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapAmb)' /proc/self/status\n"
		      "if cat attempts/12.1/request; then echo leaked; fi 2>/dev/null\n"
		      "if ls /proc/$PPID/fd; then echo leaked; fi 2>/dev/null\n");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 0);
	assert_log(b, "Uid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\nGroups:\t65534 \n"
		      "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n");
	scoped_free char *log = alloc_printf("%s/log", b->dir);
	struct stat st;
	assert_int_equal(stat(log, &st), 0);
	assert_int_equal(st.st_uid, NOBODY);
	assert_int_equal(st.st_gid, NOBODY);
}

static void test_output_needs_the_users_rights(void **state)
{
	struct bench *b = *state;
	if (geteuid())
		skip();
	b->task->spec->uid = b->task->spec->gid = NOBODY;	/* b->dir belongs to root */
	set_script(b, "true\n");
	assert_never_began(b, "output log: Permission denied");
}

static void test_other_users_need_root(void **state)
{
	struct bench *b = *state;
	if (!geteuid())
		assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
	set_script(b, "true\n");
	pid_t daemon = fork();
	if (!daemon) {
		if (!geteuid() && (setgid(NOBODY) || setuid(NOBODY)))
			_exit(1);
		b->task->spec->uid = getuid() - 1;
		assert_never_began(b, "cannot start tasks of uid");
		_exit(42);
	}
	int status;
	assert_int_equal(waitpid(daemon, &status, 0), daemon);
	assert_int_equal(WEXITSTATUS(status), 42);
}

/* Where cgroups may be made, the task is in its own; the shim is not, and it is removed in the end. */
static void test_cgroup(void **state)
{
	struct bench *b = *state;
	struct cgroup probe;
	cgroup_create(&probe, "rad-probe");
	if (!probe.path[0])
		skip();
	rmdir(probe.path);
	if (!geteuid()) {
		assert_int_equal(chown(b->dir, NOBODY, NOBODY), 0);
		b->task->spec->uid = b->task->spec->gid = NOBODY;
	}
	set_script(b, "grep -q '/rad-12.1-' /proc/self/cgroup\n! grep -q '/rad-12.1-' /proc/$PPID/cgroup\n"
		      "echo > ready\nsleep 1000\n");
	start(b);
	wait_line(b, "ready");
	struct family f;
	family_of(b->shim, "12.1", &f);
	assert_string_not_equal(f.cgroup, "");
	scoped_free pid_t *pids = NULL;
	assert_true(cgroup_members(f.cgroup, &pids) >= 1);
	assert_true(cgroup_holds(f.cgroup, pids[0]));
	assert_false(cgroup_holds(f.cgroup, getpid()));
	launch_signal(&b->request.home, b->task, SIGKILL);
	assert_int_equal(result(b).signal, SIGKILL);
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	launch_forget(folder);
	assert_int_equal(access(f.cgroup, F_OK), -1);
}

static void write_empty(const char *folder, const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

/* A shim that is killed while it claims the attempt leaves what it was writing. */
static void test_drafts_are_forgotten(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	run(b);
	scoped_free char *folder = launch_folder(&b->request.home, b->task);
	write_empty(folder, "claim.4711");
	write_empty(folder, "request.new");
	launch_forget(folder);
	assert_int_equal(access(folder, F_OK), -1);
}

static void test_no_mps_by_accident(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo $CUDA_VISIBLE_DEVICES\nls -A \"$CUDA_MPS_PIPE_DIRECTORY\" | wc -l\n[ ! -w \"$CUDA_MPS_PIPE_DIRECTORY\" ]"
		      " || [ $(id -u) = 0 ]\n");
	run(b);
	assert_log(b, "3\n0\n");
}

/* The shim stays beside every task for as long as it runs. */
static void test_shim_links_the_c_library_only(void **state)
{
	(void)state;
	scoped_free char *command = alloc_printf("ldd '%s' | grep -E 'uv|sqlite|jansson|yaml'", getenv("RAD_SHIM"));
	assert_int_not_equal(system(command), 0);
}

int main(void)
{
	const char *root = getenv("RAD_BUILD_ROOT");
	scoped_free char *shim = alloc_printf("%s/rad-shim", root ? root : ".");
	setenv("RAD_SHIM", shim, 0);
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_exit_code), T(test_signal), T(test_script_stops_at_first_failure), T(test_error_file),
		T(test_appends_and_ignores_old_output), T(test_program_not_found), T(test_folder_missing),
		T(test_output_folder_missing), T(test_output_is_a_pipe_without_reader), T(test_clean_start), T(test_limits),
		T(test_much_output), T(test_output_that_is_no_file), T(test_huge_sparse_output),
		T(test_background_processes_end), T(test_starts_once), T(test_race_for_the_claim),
		T(test_adopted_after_kill), T(test_never_started), T(test_shim_killed), T(test_signals_reach_everybody),
		T(test_kill_0_spares_the_shim), T(test_torn_record), T(test_record_of_a_liar), T(test_full_disk),
		T(test_progress), T(test_no_progress_of_what_is_no_file), T(test_progress_of_a_liar),
		T(test_folder_of_others_is_refused), T(test_no_shim), T(test_conda_in_script), T(test_conda_env_for_command),
		T(test_conda_env_missing), T(test_conda_not_found), T(test_users_bash_env), T(test_adopted),
		T(test_adopted_asked), T(test_adopted_by_others),
		T(test_conda_env_missing), T(test_conda_not_found), T(test_users_bash_env), T(test_drops_root),
		T(test_output_needs_the_users_rights), T(test_other_users_need_root), T(test_cgroup), T(test_no_mps_by_accident),
		T(test_drafts_are_forgotten),
		cmocka_unit_test(test_shim_links_the_c_library_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
