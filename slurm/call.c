/* SPDX-License-Identifier: MIT
 * See call.h. The program is the head of a process group of its own, which is killed as a whole. It is waited for by its pid,
 * never by "any child": slurmstepd's other children are its tasks.
 */
#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLED_MS 1000	/* what hangs in the kernel outlives SIGKILL, and is init's in the end */

extern char **environ;

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* Signals are as a program expects them, whatever Slurm blocks or ignores; descriptors of Slurm's have O_CLOEXEC or not. */
static int start(char *const argv[], char *const env[], int to_stderr, int out, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	if (!to_stderr)
		posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addclosefrom_np(&files, 3);
	int rc = posix_spawnp(pid, argv[0], &files, &attributes, argv, env);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return rc;
}

/* Until its output ends, which is what it does last. Returns 0, or CALL_LATE. */
static int drain(int fd, int64_t until_ms, char *out, size_t size, size_t *n)
{
	char spare[4096];
	for (;;) {
		int64_t left = until_ms - now_ms();
		struct pollfd p = { fd, POLLIN, 0 };
		if (left <= 0)
			return CALL_LATE;
		if (poll(&p, 1, (int)left) <= 0)
			continue;	/* a signal, or late */
		char *to = *n + 1 < size ? out + *n : spare;
		ssize_t got = read(fd, to, to == spare ? sizeof spare : size - 1 - *n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		*n += to == spare ? 0 : (size_t)got;
	}
}

/* Its exit, which may come after the end of its output. */
static int finish(pid_t pid, int64_t until_ms)
{
	const struct timespec tick = { 0, 2000000 };
	int status;
	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);
		if (got == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : CALL_FAILED;
		if (got < 0 && errno != EINTR)
			return CALL_FAILED;
		if (now_ms() >= until_ms)
			return CALL_LATE;
		nanosleep(&tick, NULL);
	}
}

int call_run(char *const argv[], char *const env[], int64_t limit_ms, int to_stderr, char *out, size_t size, size_t *n)
{
	int64_t until_ms = now_ms() + limit_ms;
	int ends[2];
	pid_t pid;
	*n = 0;
	if (size)
		*out = 0;
	if (pipe2(ends, O_CLOEXEC))
		return CALL_FAILED;
	int rc = start(argv, env ? env : environ, to_stderr, ends[1], &pid);
	close(ends[1]);
	if (!rc) {
		rc = drain(ends[0], until_ms, out, size, n);
		if (!rc)
			rc = finish(pid, until_ms);
		if (rc == CALL_LATE) {
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			finish(pid, now_ms() + KILLED_MS);
		}
	} else {
		rc = CALL_FAILED;
	}
	if (size)
		out[*n] = 0;
	close(ends[0]);
	return rc;
}
