/* SPDX-License-Identifier: MIT
 * See watched.h. Interrupts of the terminal reach the command by themselves, since it is of the same group; only those that
 * somebody sent to the watcher alone are passed on.
 */
#include "cli/watched.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "monitor/procs.h"
#include "monitor/program.h"
#include "submit/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define LOOK_MS 200	/* how often it is seen whether other processes than a child have ended */
#define HANG_S 5	/* how long a command that has ended waits for a driver to answer its watcher */

static volatile sig_atomic_t asked;	/* to end, so many times */
static volatile sig_atomic_t reading;	/* the driver is being asked */
static volatile sig_atomic_t child;	/* pid of the command while it runs, 0 */
static sigset_t before;

/* A driver that hangs must not keep a command's end from whoever waits for it. */
static void on_hang(int signum)
{
	static const char words[] = "rad: monitor: the driver does not answer: nothing more is read\n";
	siginfo_t end = { 0 };
	(void)signum;
	if (!reading || waitid(P_PID, (id_t)child, &end, WEXITED | WNOHANG) || !end.si_pid)
		return;
	if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
		_exit(125);
	_exit(end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status);
}

static void on_signal(int signum, siginfo_t *info, void *context)
{
	int saved = errno;
	(void)context;
	if (signum == SIGCHLD) {
		if (reading)
			alarm(HANG_S);
		return;
	}
	if (++asked > 1 && reading && !child)
		_exit(128 + signum);
	if (child && info->si_code != SI_KERNEL)
		kill((pid_t)child, signum);
	errno = saved;
}

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };

static void block(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < COUNT_OF(caught); i++)
		sigaddset(set, caught[i]);
}

void watched_signals(void)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigset_t set;
	block(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	for (size_t i = 0; i < COUNT_OF(caught); i++)
		sigaction(caught[i], &action, NULL);
	signal(SIGALRM, on_hang);
}

void watched_let_signals(bool in)
{
	sigset_t set;
	block(&set);
	reading = in;
	sigprocmask(in ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
	if (!in)
		alarm(0);
}

void watched_clear(struct watched *w)
{
	free(w->roots);
	free(w->programs);
	*w = (struct watched){ .code = -1 };
}

/* Their programs, and when they began. */
static void watched_identify(struct watched *w)
{
	struct snapshot s = { 0 };
	struct procs *procs = procs_create(NULL);
	for (size_t i = 0; i < w->n; i++)
		snapshot_add_proc(&s)->id.pid = w->roots[i].pid;
	procs_fill(procs, &s);
	w->programs = alloc_zero((w->n + 1) * sizeof *w->programs);
	for (size_t i = 0; i < w->n; i++) {
		w->roots[i] = s.procs[i].id;
		memcpy(w->programs[i], s.procs[i].program, sizeof *w->programs);
	}
	procs_destroy(procs);
	snapshot_clear(&s);
}

static void watched_add(struct watched *w, pid_t pid)
{
	w->roots = alloc_resize(w->roots, w->n + 1, sizeof *w->roots);
	w->roots[w->n++] = (struct proc_id){ .pid = pid };
}

int watched_pid(struct watched *w, pid_t pid, struct error *err)
{
	struct proc_id id = { .pid = pid };
	if (proc_stat(pid, &id.start_ticks, NULL))
		return error_set(err, ERR_NOT_FOUND, "no process %d", (int)pid);
	watched_add(w, pid);
	watched_identify(w);
	return 0;
}

/* Several radds count from 1 each: the task's own environment tells which one started it. */
static bool is_of_task(pid_t pid, task_id task, const char *socket_path)
{
	char text[TASK_ID_TEXT], radd[256];
	task_id id;
	return !proc_environ(pid, "RAD_TASK_ID", text, sizeof text) && !task_id_parse(text, &id, NULL) && id == task &&
	       (proc_environ(pid, "RAD_SOCKET", radd, sizeof radd) || !strcmp(radd, socket_path));
}

int watched_task(struct watched *w, task_id task, struct error *err)
{
	char text[TASK_ID_TEXT];
	scoped_free char *radd = wire_socket_path();
	scoped_proc_tree struct proc_tree tree;
	proc_tree_read(&tree);
	w->task = task;
	for (size_t i = 0; i < tree.n; i++) {
		const struct proc_seen *p = &tree.all[i].seen;
		if (is_of_task(p->id.pid, task, radd) && !is_of_task(p->parent, task, radd))	/* the others descend from these */
			watched_add(w, p->id.pid);
	}
	watched_identify(w);
	return w->n ? 0 : error_set(err, ERR_NOT_FOUND, "no process of task %s is to be seen: it does not run, or is another user's "
				    "(rad show %s)", task_id_text(task, text), text);
}

/* From its words: a process that has just been started shows none yet. */
static void name_command(char *const *argv, char program[PROC_PROGRAM_LEN])
{
	char command[PROC_COMMAND_LEN];
	scoped_buf words = { 0 };
	for (; *argv; argv++)
		buf_add(&words, *argv, strlen(*argv) + 1);
	program_describe(words.data, words.len, "", program, command);
}

/* Whether the command is a file. Where it is not, exec may still say that it was not permitted: of a folder in PATH into which
 * the caller may not look. */
static bool is_there(const char *name)
{
	const char *path = strchr(name, '/') ? NULL : getenv("PATH");
	if (!path)
		return !access(name, F_OK);
	for (;; path++) {
		size_t len = strcspn(path, ":");
		scoped_free char *file = alloc_printf("%.*s/%s", len ? (int)len : 1, len ? path : ".", name);
		if (!access(file, F_OK))
			return true;
		path += len;
		if (!*path)
			return false;
	}
}

int watched_command(struct watched *w, char *const *argv, struct error *err)
{
	posix_spawnattr_t attributes;
	sigset_t defaults;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &before);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int rc = posix_spawnp(&w->child, argv[0], NULL, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	if (rc) {
		w->child = 0;
		errno = rc == EACCES && !is_there(argv[0]) ? ENOENT : rc;
		w->code = errno == ENOENT ? CLI_NO_PROGRAM : CLI_NOT_RUNNABLE;
		return error_errno(err, "%s", argv[0]);
	}
	child = w->child;
	watched_add(w, w->child);
	watched_identify(w);
	name_command(argv, w->programs[0]);
	return 0;
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void collect_child(struct watched *w)
{
	int status;
	struct rusage used;
	if (!w->child || wait4(w->child, &status, WNOHANG, &used) != w->child)
		return;
	child = w->child = 0;
	w->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	w->cpu_s = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
	w->peak_rss_mib = (double)used.ru_maxrss / 1024;
}

static bool all_ended(const struct watched *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (proc_alive(w->roots[i]))
			return false;
	return w->n > 0;
}

bool watched_over(struct watched *w)
{
	collect_child(w);
	if (w->child)
		return false;
	return w->code >= 0 || asked || all_ended(w);
}

void watched_wait(struct watched *w, int64_t until_ms)
{
	for (int64_t left; (left = until_ms - clock_mono_ms()) > 0;) {
		bool others = w->n && !w->child;
		int64_t ms = others && left > LOOK_MS ? LOOK_MS : left;
		struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
		ppoll(NULL, 0, &t, &before);
		if (watched_over(w))
			return;
	}
}
