/* SPDX-License-Identifier: MIT
 * Launching for real: shims, programs, users, ends. Everything is waited for by pidfd with a deadline.
 */
#include "launch/test_launch.h"

static void test_exit_code(void **state)
{
	struct bench *b = *state;
	set_words(spec_set_argv, b->task->spec, "sh", "-c", "echo out; echo err >&2; exit 7", NULL);
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
	set_words(spec_set_argv, b->task->spec, "sh", "-c", "kill -SEGV $$", NULL);
	struct exit_report r = run(b);
	assert_true(r.have_record);
	assert_int_equal(r.signal, SIGSEGV);
	assert_int_equal(r.exit_code, 0);
}

static void test_script_stops_at_first_failure(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo one $1\n\nno-such-program\necho two\n");
	set_words(spec_set_argv, b->task->spec, "a b", NULL);
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 127);
	assert_log_has(b, "one a b\n");
	assert_log_has(b, "line 3: no-such-program");
	scoped_free char *text = content(b, "log");
	assert_null(strstr(text, "two"));
}

/* Its messages name the file that it was, and nothing of that is left when it has ended. */
static void test_script_has_its_name(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo \"$0\" >name\n[[ \"$0\" == \"${BASH_SOURCE[0]}\" && -r $0 ]]\n\nno-such-program\n");
	set_text(&b->task->spec->script_name, "train me.rad");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 127);
	assert_log_has(b, "/train me.rad: line 4: no-such-program");
	scoped_free char *name = content(b, "name");
	name[strcspn(name, "\n")] = 0;
	assert_int_equal(access(name, F_OK), -1);
	*strrchr(name, '/') = 0;
	assert_int_equal(access(name, F_OK), -1);
}

/* A name that is no file's name is no reason not to run. */
static void test_script_without_a_link(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo fine\nexit 4\n");
	set_text(&b->task->spec->script_name, "../x");
	assert_int_equal(run(b).exit_code, 4);
	assert_log(b, "fine\n");
}

static void test_error_file(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo out\necho 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 is large, "
		      "this process has 5.00 GiB memory in use' >&2\nexit 1\n");
	set_text(&b->task->spec->error, "err.%j");
	struct exit_report r = run(b);
	assert_log(b, "out\n");
	scoped_free char *text = content(b, "err.12");
	assert_non_null(strstr(text, "out of memory"));
	assert_int_equal(r.output.kind, SCAN_GPU_OOM);
	assert_int_equal(r.output.tried_mib, 2048);
	assert_int_equal(r.output.held_mib, 5120);
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

static void test_program_not_found(void **state)
{
	struct bench *b = *state;
	set_words(spec_set_argv, b->task->spec, "python3x", "train.py", NULL);
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
	set_words(spec_set_argv, b->task->spec, "bash", "-c",
		  "umask; cat; ls /proc/$$/fd > fds; tr '\\n' ' ' < fds; grep SigBlk /proc/self/status;"
		  /* 32 and 33 are the C library's own: posix_spawn ignores them in its child, and signal() cannot undo it. */
		  "i=$(sed -n 's/^SigIgn:.//p' /proc/self/status); echo $((0x$i & ~0x180000000))", NULL);
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

/* Read once, and not slower than it is written: there is a deadline for all of it. */
static void test_much_output(void **state)
{
	struct bench *b = *state;
	set_script(b, "head -c 50000000 /dev/zero | tr '\\0' 'x' | fold -w 100\necho\n"
		      "echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB'\nexit 1\n");
	struct exit_report r = run(b);
	assert_int_equal(r.exit_code, 1);
	assert_int_equal(r.output.kind, SCAN_GPU_OOM);
	assert_int_equal(r.output.offset, 50000000 + 500000);	/* a newline after every 100 */
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

/* Another's that writes into the same file goes on when the program has ended, faster than can be read. */
static void test_output_that_grows_for_ever(void **state)
{
	struct bench *b = *state;
	scoped_free char *path = alloc_printf("%s/log", b->dir);
	set_script(b, "echo RuntimeError: at last; exit 1\n");
	pid_t other = fork();
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (off_t size = 0; ; poll(NULL, 0, 1))
			if (truncate(path, size += 32 << 20))
				size = 0;
	}
	struct exit_report r = run(b);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	assert_int_equal(r.exit_code, 1);
}

/* What is printed faster than it can be read keeps nobody on his GPU: of the rest, the end alone is read. */
static void test_output_of_a_flood(void **state)
{
	struct bench *b = *state;
	set_script(b, "yes 'RuntimeError: CUDA error: out of memory' | head -c 60000000\necho ValueError: at last\nexit 1\n");
	struct exit_report r = run(b);
	assert_string_equal(r.output.line, "ValueError: at last");
	assert_true(r.output.oom_near);
	assert_in_range(r.output.oom_seen, (8 << 20) / 40 - 1, (30 << 20) / 40);
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
	assert_true(launch_adopt(&b->request.home, b->task, &found));
	assert_int_equal(found.pid, b->shim.pid);
	assert_int_equal(found.start_ticks, b->shim.start_ticks);
	scoped_fd int fd = open(gate, O_WRONLY);
	assert_int_equal(write(fd, "go\n", 3), 3);
	assert_true(result(b).have_record);
}

/* It stays as long as the task does, and there are as many as there are tasks. */
static void test_shim_keeps_no_script(void **state)
{
	struct bench *b = *state;
	scoped_free char *gate = alloc_printf("%s/gate", b->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	set_script(b, "echo began > count\nread line < gate\n");
	start(b);
	wait_line(b, "count");
	scoped_free char *command = alloc_printf("ls -l /proc/%d/fd | grep memfd", (int)b->shim.pid);
	assert_int_not_equal(system(command), 0);
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
	assert_true(launch_adopt(&b->request.home, b->task, &b->shim));
	scoped_fd int fd = open(gate, O_WRONLY);
	assert_int_equal(write(fd, "go\n", 3), 3);
	struct exit_report r = result(b);
	assert_true(r.have_record);
	assert_int_equal(r.exit_code, 9);
	assert_false(launch_adopt(&b->request.home, b->task, &b->shim));
}

static void test_never_started(void **state)
{
	struct bench *b = *state;
	struct exit_report r;
	bool claimed = true;
	memset(&r, 0, sizeof r);
	assert_false(launch_adopt(&b->request.home, b->task, &b->shim));
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

/* No inode, no room: the folder of an attempt whose first shim never claimed it says that nothing ran, and has to stay. */
static void test_failed_again(void **state)
{
	struct bench *b = *state;
	struct launch *l = launch_prepare(&b->request);
	struct rlimit before, none;
	scoped_free char *path = alloc_printf("%s/attempts/12.1", b->dir);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	b->task->attempts[0].shim = (struct proc_id){ .pid = 4711, .start_ticks = 1 };
	for (int there = 0; there < 2; there++) {
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
		assert_int_equal(launch_run(l, &b->shim, NULL), -1);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(access(path, F_OK), there ? 0 : -1);
		assert_int_equal(launch_may_begin_again(&b->request.home, b->task), there);
		assert_int_equal(io_make_dirs(path, 0700, NULL), 0);
	}
	signal(SIGXFSZ, SIG_DFL);
	launch_destroy(l);
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

/* Who lost his parent is the shim's, whatever session he began, and is found without a cgroup. */
static void test_signals_reach_orphans(void **state)
{
	struct bench *b = *state;
	set_script(b, "(setsid bash -c 'trap \"echo orphan; exit\" TERM; echo > ready; while :; do sleep 0.05; done' & )\n"
		      "while :; do sleep 0.05; done\n");
	start(b);
	wait_line(b, "ready");
	struct family f = { .shim = b->shim, .keeps = true };
	assert_true(family_signal(&f, SIGTERM, SIGTERM) >= 1);
	assert_true(launch_signal(&b->request.home, b->task, SIGTERM) >= 1);
	result(b);
	assert_log_has(b, "orphan\n");
}

/* Who was made while the others were looked for gets the signal too; but for the one or two that had just been forked, with the
 * shell's own handler still, which forgets it. */
static void test_signals_reach_who_is_made_meanwhile(void **state)
{
	struct bench *b = *state;
	scoped_free char *folder = launch_folder(&b->request.home, b->task), *file = alloc_printf("%s/" ATTEMPT_CGROUP, folder);
	set_script(b, "for ((i = 0; i < 3000; i++)); do sleep 1000 & [ $i != 50 ] || echo >ready; done\nwait\n");
	start(b);
	wait_line(b, "ready");
	assert_int_equal(kill(b->shim.pid, SIGKILL), 0);	/* it would signal them itself */
	wait_gone(b->shim);
	if (access(file, F_OK))
		skip();
	assert_true(launch_signal(&b->request.home, b->task, SIGTERM) >= 50);
	for (int64_t end = clock_mono_ms() + DEADLINE_MS;; poll(NULL, 0, 5)) {
		scoped_free pid_t *pids = NULL;
		size_t n = launch_processes(&b->request.home, b->task, &pids);
		if (n <= 3)
			break;
		if (clock_mono_ms() > end)
			fail_msg("%zu of them have not got it", n);
	}
	launch_signal(&b->request.home, b->task, SIGKILL);
}

/* Each makes the next one and ends, so that most looks miss it. */
static int go_on_as_others(void)
{
	int64_t end = clock_mono_ms() + DEADLINE_MS;
	signal(SIGTERM, SIG_IGN);
	while (clock_mono_ms() < end && fork() <= 0)
		;
	return 0;
}

static void test_who_is_never_seen_twice_is_ended_too(void **state)
{
	struct bench *b = *state;
	char self[PATH_MAX] = "";
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	scoped_free char *script = alloc_printf("'%s' --others\n", self);
	set_script(b, script);
	assert_true(run(b).have_record);
	struct family f = { .shim = b->shim };
	for (int i = 0; i < 20; i++) {
		scoped_free pid_t *pids = NULL;
		assert_int_equal(family_list(&f, &pids), 0);
		poll(NULL, 0, 5);
	}
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
		"{\"v\":1,\"tried_mib\":-1}\n", "{\"v\":1,\"held_mib\":9e99}\n",
		"{\"v\":1,\"source\":\"longer than any name that we know\"}\n",
	};
	scoped_fd int folder = open(b->dir, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < COUNT_OF(lines); i++) {
		struct exit_record r;
		assert_int_equal(io_replace_file(path, lines[i], strlen(lines[i]), 0600, NULL), 0);
		assert_int_equal(record_read(folder, &r, NULL), 0);
	}
}

static bool progress_of(const struct bench *b, struct progress_report *out)
{
	struct launch_told told = { 0 };
	bool knows = launch_progress(&b->request.home, b->task, &told);
	*out = told.progress;
	return knows;
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
		if (record_read_progress(folder, &r) != cases[i].believed)
			fail_msg("%s: %s", cases[i].line, cases[i].believed ? "is not believed" : "is believed");
		struct exit_record e;
		assert_int_equal(record_read(folder, &e, NULL), 0);
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
		bool refused = launch_start(&b->request, &b->shim, &err) == -1 && !b->shim.pid;
		_exit(refused && strstr(err.text, "File too large") ? 42 : 1);
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
	forget(folder);
	assert_int_equal(access(folder, F_OK), -1);
}

/* The folder names the cgroup: it stays for as long as that cannot go. */
static void test_cgroup_is_not_forgotten(void **state)
{
	struct bench *b = *state;
	set_script(b, "echo $$ >pid\nsleep 1000\n");
	start(b);
	wait_line(b, "pid");
	scoped_free char *text = content(b, "pid"), *folder = launch_folder(&b->request.home, b->task);
	scoped_free char *file = alloc_printf("%s/" ATTEMPT_CGROUP, folder);
	scoped_buf path = { 0 };
	struct proc_id program = identity(atoi(text));
	assert_int_equal(kill(b->shim.pid, SIGKILL), 0);
	wait_gone(b->shim);
	if (io_read_file(file, PATH_MAX, &path, NULL))
		skip();		/* nobody lets us make one */
	assert_false(launch_forget(folder));
	assert_int_equal(access(file, F_OK), 0);
	assert_true(launch_signal(&b->request.home, b->task, SIGKILL) >= 1);
	wait_gone(program);
	forget(folder);
	assert_int_equal(access(buf_text(&path), F_OK), -1);
	assert_int_equal(access(folder, F_OK), -1);
}

/* One more is given out, and no further. */
static struct rlimit leave_one_descriptor(void)
{
	struct rlimit before, few;
	int next = dup(0);
	assert_true(next >= 0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ .rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	return before;
}

/* Without the note of its cgroup the folder can be opened and the cgroup not be known: it would stay for good. */
static void test_nothing_is_forgotten_before_its_cgroup_is_known(void **state)
{
	struct bench *b = *state;
	char *cgroup;
	struct error err = ERROR_INIT;
	set_script(b, "true\n");
	run(b);
	scoped_free char *folder = launch_folder(&b->request.home, b->task), *claim = alloc_printf("%s/" ATTEMPT_CLAIM, folder);
	struct rlimit before = leave_one_descriptor();
	bool gone = launch_forget(folder);
	int taken = launch_unclaim(&b->request.home, b->task, &cgroup, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_false(gone);
	assert_int_equal(taken, -1);
	assert_null(cgroup);
	assert_int_equal(access(claim, F_OK), 0);
	forget(folder);
	assert_int_equal(access(folder, F_OK), -1);
}

/* A part of the path would be that of a cgroup with all that runs beside the task, and of theirs. */
static void test_half_a_note_of_a_cgroup(void **state)
{
	struct bench *b = *state;
	set_script(b, "true\n");
	run(b);
	scoped_free char *folder = launch_folder(&b->request.home, b->task), *other = alloc_printf("%s/other/below", b->dir);
	scoped_free char *note = alloc_printf("%s/other", b->dir), *procs = alloc_printf("%s/other/cgroup.procs", b->dir);
	scoped_free char *file = alloc_printf("%s/" ATTEMPT_CGROUP, folder);
	assert_int_equal(io_make_dirs(other, 0755, NULL), 0);
	assert_int_equal(io_replace_file(procs, "4711\n", 5, 0644, NULL), 0);
	assert_int_equal(io_replace_file(file, note, strlen(note), 0600, NULL), 0);
	scoped_free pid_t *pids = NULL;
	assert_int_equal(launch_processes(&b->request.home, b->task, &pids), 0);
	forget(folder);
	assert_int_equal(access(folder, F_OK), -1);
	assert_int_equal(access(other, F_OK), 0);
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

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--others"))
		return go_on_as_others();
	find_shim();
	const struct CMUnitTest tests[] = {
		T(test_exit_code), T(test_signal), T(test_script_stops_at_first_failure),
		T(test_script_has_its_name), T(test_script_without_a_link), T(test_error_file),
		T(test_appends_and_ignores_old_output), T(test_program_not_found), T(test_folder_missing),
		T(test_output_folder_missing), T(test_output_is_a_pipe_without_reader), T(test_clean_start),
		T(test_limits), T(test_much_output), T(test_output_that_is_no_file), T(test_huge_sparse_output),
		T(test_output_that_grows_for_ever), T(test_output_of_a_flood), T(test_background_processes_end), T(test_starts_once),
		T(test_race_for_the_claim),
		T(test_shim_keeps_no_script), T(test_adopted_after_kill), T(test_never_started), T(test_failed_again), T(test_shim_killed),
		T(test_signals_reach_everybody), T(test_signals_reach_orphans),
		T(test_signals_reach_who_is_made_meanwhile), T(test_who_is_never_seen_twice_is_ended_too),
		T(test_kill_0_spares_the_shim), T(test_torn_record),
		T(test_record_of_a_liar), T(test_progress), T(test_no_progress_of_what_is_no_file),
		T(test_progress_of_a_liar), T(test_full_disk), T(test_folder_of_others_is_refused), T(test_no_shim),
		T(test_drafts_are_forgotten), T(test_cgroup_is_not_forgotten), T(test_nothing_is_forgotten_before_its_cgroup_is_known),
		T(test_half_a_note_of_a_cgroup),
		T(test_no_mps_by_accident),
		cmocka_unit_test(test_shim_links_the_c_library_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
