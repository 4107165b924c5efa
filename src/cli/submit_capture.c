/* SPDX-License-Identifier: MIT
 * See submit_capture.h. Two processes: submit_capture_start leaves one behind that is detached from the terminal, nice, and in
 * the task's folder, and becomes `rad capture --for ID`; that waits its turn (capture_turn.h), runs the capture proper, and
 * tells radd of each. Whatever happens to them, the task waits no longer than radd lets it.
 */
#include "cli/submit_capture.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/capture_turn.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/submit_files.h"
#include "estimate/capture_limits.h"
#include "submit/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_MIB "16384"
#define POLL_MS 100
#define TELLS 4			/* so often in the time after which radd gives it up */
#define ENDING_MS 2000
#define MAX_SAID (64 << 10)
#define MAX_WHY 900
#define IOPRIO_IDLE (3 << 13)	/* of ioprio_set(2); no header has it */

/* ---- whether ---- */

bool submit_capture_is_interpreter(const char *word)
{
	const char *name = words_base(word);
	return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.")];
}

static bool is_python(const char *word)
{
	const char *name = words_base(word);
	return submit_capture_is_interpreter(word) || !strcmp(name, "torchrun") || !strcmp(name, "accelerate") ||
	       words_end_in(name, ".py");
}

/* "python train.py", and behind what enters an environment: "uv run train.py", "env X=1 python train.py". */
static bool runs_python(const struct spec *s)
{
	static const char *const entering[] = { "env", "uv", "conda", "mamba", "poetry", "pdm", "nice", "time" };
	if (s->script)
		return strstr(s->script, "python") || strstr(s->script, "torchrun") || strstr(s->script, "accelerate launch");
	if (is_python(s->argv[0]))
		return true;
	for (size_t i = 0; i < COUNT_OF(entering); i++)
		for (char *const *w = s->argv + 1; !strcmp(words_base(s->argv[0]), entering[i]) && *w; w++)
			if (is_python(*w))
				return true;
	return false;
}

const char *submit_capture_wish(const struct spec *s, enum submit_capture how)
{
	if (how == CAPTURE_AUTO)
		return "auto";
	bool silent = how == CAPTURE_UNSAID && !s->gpu_mem_mib && !s->model && !s->exclusive;
	return silent && runs_python(s) ? "may" : NULL;
}

/* ---- its command ---- */

static size_t add_words(const char **argv, size_t n, char *const *words)
{
	for (; *words; words++)
		argv[n++] = *words;
	return n;
}

const char **submit_capture_words(const struct spec *s, char path[32])
{
	static const char *const conda[] = { "conda", "run", "--no-capture-output", "-n" };
	size_t n = 0;
	const char **argv = alloc_zero((alloc_count(s->argv) + 10) * sizeof *argv);
	for (size_t i = 0; s->conda_env && i < COUNT_OF(conda); i++)
		argv[n++] = conda[i];
	if (s->conda_env)
		argv[n++] = s->conda_env;
	if (s->script) {
		int fd = memfd_create("rad-script", 0);
		if (fd < 0 || io_write_full(fd, s->script, strlen(s->script)))
			_exit(1);
		snprintf(path, 32, "/dev/fd/%d", fd);
		argv[n++] = "bash";
		argv[n++] = "-e";
		argv[n++] = path;
	}
	add_words(argv, n, s->argv);
	return argv;
}

/* ---- telling radd ---- */

static bool is_refused(const struct error *err)
{
	return err->code == ERR_CONFLICT || err->code == ERR_NOT_FOUND || err->code == ERR_DENIED;
}

/* A radd that is being started anew is waited for. */
static int tell(const char *id, const struct spec *captured, const char *why, int64_t until_ms)
{
	struct error err = ERROR_INIT;
	for (;;) {
		json_t *request = wire_request("captured");
		json_object_set_new(request, "id", json_text(id));
		if (captured) {
			json_object_set_new(request, "capture", json_text(captured->capture));
			json_object_set_new(request, "notes", json_text_or_null(captured->capture_notes));
		}
		scoped_free char *short_why = alloc_printf("%.*s", (int)words_cut(why, MAX_WHY), why);
		json_object_set_new(request, "why", json_text(short_why));
		scoped_json *reply = client_call(request, &err);
		if (reply)
			return CLI_DONE;
		if (is_refused(&err) || clock_mono_ms() >= until_ms)
			return CLI_FAILED;
		poll(NULL, 0, 5 * POLL_MS);
	}
}

/* ---- leaving a process behind ---- */

/* Where the task finds its programs and modules: of a copy of its code (snapshot.h) not where the caller does. */
static void set_paths(const struct spec *s)
{
	static const char *const names[] = { "PATH", "PYTHONPATH" };
	for (size_t i = 0; i < COUNT_OF(names); i++)
		for (char *const *item = s->environ; item && *item; item++) {
			size_t n = strlen(names[i]);
			if (!strncmp(*item, names[i], n) && (*item)[n] == '=')
				setenv(names[i], *item + n + 1, 1);
		}
}

static void set_variables(const struct spec *s, const char *id)
{
	char index[16];
	set_paths(s);
	setenv("RAD_TASK_ID", id, 1);
	setenv("RAD_ATTEMPT", "1", 1);
	setenv("PWD", s->cwd, 1);
	if (!s->n_array)
		return;
	snprintf(index, sizeof index, "%u", s->array[0]);
	setenv("RAD_ARRAY_TASK_ID", index, 1);
	setenv("RAD_ARRAY_JOB_ID", id, 1);
}

/* The capture cannot begin: radd is told why, once, so that the task does not wait for it. */
static void give_up(const char *id, const char *what)
{
	scoped_free char *why = alloc_printf("%s: %s", what, strerror(errno));
	tell(id, NULL, why, 0);
}

/* Returns only if it cannot. The task waits: its capture must not take the time of those that run. */
static void become_capture(const struct spec *s, const char *id, int64_t wait_s)
{
	char wait[24], gpus[16], path[32];
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	syscall(SYS_close_range, 3, ~0u, 0);
	if (chdir(s->cwd))
		return give_up(id, s->cwd);
	setpriority(PRIO_PROCESS, 0, 19);
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_IDLE);
	set_variables(s, id);
	snprintf(wait, sizeof wait, "%lld", (long long)wait_s);
	snprintf(gpus, sizeof gpus, "%u", s->gpus);
	const char *front[] = { "rad", "capture", "--for", id, "--timeout", wait, "--memory", MEMORY_MIB, "--gpus", gpus, "--", NULL };
	const char **words = submit_capture_words(s, path);
	const char **argv = alloc_zero((alloc_count((char *const *)words) + COUNT_OF(front)) * sizeof *argv);
	size_t at = add_words(argv, 0, (char *const *)front);
	add_words(argv, at, (char *const *)words);
	execv("/proc/self/exe", (char *const *)argv);
	give_up(id, "/proc/self/exe");
}

/* Tells it, too. Returns errno. */
static int no_process(const char *id)
{
	int why = errno;
	give_up(id, "fork");
	return why;
}

int submit_capture_start(const struct spec *s, const char *id, int64_t wait_s)
{
	int status = 0;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		setsid();
		if (!(pid = fork()))
			become_capture(s, id, wait_s);
		_exit(pid < 0 ? no_process(id) : 0);
	}
	if (pid < 0)
		return no_process(id);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* ---- what is left behind ---- */

/* The lines that speak for the capture, without their "rad: capture: ", as many as a spec has room for; *last: the last of them
 * or, where none does, of all. Free both. */
static char *spoken(int fd, char **last)
{
	static const char mark[] = "rad: capture: ";
	scoped_free char *text = alloc_zero(MAX_SAID + 1);
	scoped_buf notes = { 0 };
	off_t size = lseek(fd, 0, SEEK_END), from = size > MAX_SAID ? size - MAX_SAID : 0;
	if (size > 0 && pread(fd, text, MAX_SAID, from) < 0)
		*text = 0;
	char *of_it = NULL, *any = text;
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (*line)
			any = line;
		if (strncmp(line, mark, sizeof mark - 1))
			continue;
		of_it = line + sizeof mark - 1;
		if (notes.len + strlen(of_it) < SPEC_MAX_NOTES)
			buf_printf(&notes, "%s%s", notes.len ? "\n" : "", of_it);
	}
	*last = alloc_string(of_it ? of_it : any);
	return buf_steal(&notes);
}

/* Runs it until it ends, the time is over, or nobody wants it any more. Returns its exit code; -1: it was ended. */
static int run_until(char **argv, int said, int64_t until_ms, capture_turn_wanted wanted, void *ctx)
{
	int status;
	pid_t pid = fork();
	if (pid < 0) {
		dprintf(said, "rad: capture: fork: %s\n", strerror(errno));
		return 127;
	}
	if (!pid) {
		dup2(said, 1);
		dup2(said, 2);
		execvp(argv[0], argv);
		dprintf(2, "rad: capture: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	for (bool late = false; !waitpid(pid, &status, WNOHANG); poll(NULL, 0, POLL_MS)) {
		if (!late && wanted && !wanted(ctx))
			until_ms = clock_mono_ms();
		int64_t over_ms = clock_mono_ms() - until_ms;
		if (over_ms >= 0 && !late)
			kill(pid, SIGTERM);	/* what it has started is tied to it */
		late = over_ms >= 0;
		if (over_ms >= ENDING_MS)
			kill(pid, SIGKILL);
	}
	if (clock_mono_ms() >= until_ms)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Whether a capture that ended so has made a file: where the script ended in an error of its own, of what it did before. */
static bool has_made(int code)
{
	return code == 0 || code == 3;	/* FAILED (radrm/capture/__main__.py) */
}

/* One that waits for its turn, or has it. */
struct in_queue {
	const char *id;
	bool begun, aside;
	int64_t every_ms, next_ms;	/* how often radd is told that it is still there; mono */
};

/* Tells radd that the capture waits for its turn or, begun, that it is being made, and whether its task may run meanwhile.
 * False: its task waits for it no more. A radd that cannot be reached, or is of an older release, changes nothing. */
static bool tell_turn(const struct in_queue *w)
{
	struct error err = ERROR_INIT;
	json_t *request = wire_request("capturing");
	json_object_set_new(request, "id", json_text(w->id));
	json_object_set_new(request, "begun", json_boolean(w->begun));
	json_object_set_new(request, "aside", json_boolean(w->aside));
	scoped_json *reply = client_call(request, &err);
	return reply || !is_refused(&err);
}

static bool still_wanted(void *ctx)
{
	struct in_queue *w = ctx;
	if (clock_mono_ms() < w->next_ms)
		return true;
	w->next_ms = clock_mono_ms() + w->every_ms;
	return tell_turn(w);
}

int submit_capture_deliver(char **argv, size_t output, const char *id, bool aside, int64_t wait_s)
{
	char path[] = "/tmp/rad-capture-XXXXXX";
	struct in_queue queued = { .id = id, .aside = aside, .every_ms = wait_s * 1000 / TELLS, .next_ms = clock_mono_ms() };
	setenv("RAD_NO_START", "1", 1);
	if (!capture_turn_wait(id, still_wanted, &queued))
		return CLI_FAILED;
	queued.begun = true;
	if (!tell_turn(&queued))
		return CLI_FAILED;
	int64_t until_ms = clock_mono_ms() + wait_s * CAPTURE_CLOCK * 1000;
	scoped_fd int file = mkostemp(path, O_CLOEXEC), said = memfd_create("rad-said", MFD_CLOEXEC);
	if (file < 0 || said < 0)
		return tell(id, NULL, "there is no room for its file in /tmp", until_ms);
	argv[output] = path;
	int code = run_until(argv, said, until_ms, still_wanted, &queued);
	struct error err = ERROR_INIT;
	struct spec *s = spec_create();
	scoped_free char *why = NULL;
	s->capture_notes = spoken(said, &why);
	bool made = has_made(code), good = made && !submit_read_capture(s, path, &err);
	int rc = tell(id, good ? s : NULL, good ? "" : code < 0 ? "it took too long" : made ? err.text : why,
		      clock_mono_ms() + wait_s * 1000);
	unlink(path);
	spec_unref(s);
	return rc;
}

int submit_capture_now(struct spec *s, char *const *words, int64_t wait_s, struct error *err)
{
	char path[] = "/tmp/rad-capture-XXXXXX", wait[24];
	snprintf(wait, sizeof wait, "%lld", (long long)wait_s);
	const char *front[] = { "/proc/self/exe", "capture", "-o", path, "--timeout", wait, "--clock", wait, "--memory",
				MEMORY_MIB, "--", NULL };
	scoped_free const char **argv = alloc_zero((alloc_count(words) + COUNT_OF(front)) * sizeof *argv);
	add_words(argv, add_words(argv, 0, (char *const *)front), words);
	scoped_fd int said = memfd_create("rad-said", MFD_CLOEXEC), file = said < 0 ? -1 : mkostemp(path, O_CLOEXEC);
	if (file < 0)
		return error_errno(err, "its file in /tmp");
	fflush(NULL);
	int code = run_until((char **)argv, said, clock_mono_ms() + wait_s * 1000, NULL, NULL);
	scoped_free char *why = NULL, *notes = spoken(said, &why);
	int rc = code < 0 ? error_set(err, ERR_UNAVAILABLE, "it took longer than %lld s", (long long)wait_s) :
		 has_made(code) ? submit_read_capture(s, path, err) : error_set(err, ERR_INVALID, "%.900s", why);
	if (!rc)
		s->capture_notes = steal(notes);
	unlink(path);
	return rc;
}
