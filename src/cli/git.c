/* SPDX-License-Identifier: MIT
 * See git.h.
 */
#include "cli/git.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_ARGS 12
#define REFUSAL_MAX 16384
#define NAME_MAX_LEN 64		/* of a commit: SHA-256 */

extern char **environ;

/* What it prints on `shown`, one of the two, goes to `out`. */
static pid_t start_git(const char *folder, const char *const *args, int shown, int out)
{
	const char *argv[MOST_ARGS + 4] = { "git", "-C", folder };
	posix_spawn_file_actions_t io;
	pid_t pid;
	for (size_t i = 0; args[i] && i < MOST_ARGS; i++)
		argv[i + 3] = args[i];
	posix_spawn_file_actions_init(&io);
	posix_spawn_file_actions_addopen(&io, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&io, out, shown);
	posix_spawn_file_actions_addopen(&io, shown == STDOUT_FILENO ? STDERR_FILENO : STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	int failed = posix_spawnp(&pid, "git", &io, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&io);
	return failed ? -1 : pid;
}

/* Returns its status; -1: it could not be asked. */
static int ask(const char *folder, const char *const *args, int shown, size_t max, struct buf *out)
{
	struct error ignored = ERROR_INIT;
	int ends[2], status = -1;
	if (*folder != '/' || pipe2(ends, O_CLOEXEC))
		return -1;
	pid_t pid = start_git(folder, args, shown, ends[1]);
	close(ends[1]);
	int failed = pid < 0 ? -1 : io_read_fd(ends[0], "git", max, out, &ignored);
	close(ends[0]);		/* one that has more to say ends now */
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return failed ? -1 : status;
}

int git_ask(const char *folder, const char *const *args, size_t max, struct buf *out)
{
	return ask(folder, args, STDOUT_FILENO, max, out) ? -1 : 0;
}

char *git_refusal(const char *folder)
{
	static const char *const args[] = { "rev-parse", "--show-toplevel", NULL };
	static const char fatal[] = "fatal: ";
	scoped_buf said = { 0 };
	if (!ask(folder, args, STDERR_FILENO, REFUSAL_MAX, &said) || !said.len)
		return NULL;
	said.data[strcspn(buf_text(&said), "\n")] = 0;
	return alloc_string(said.data + (strncmp(said.data, fatal, strlen(fatal)) ? 0 : strlen(fatal)));
}

char *git_commit(const char *folder)
{
	static const char *const args[] = { "rev-parse", "--verify", "--quiet", "HEAD", NULL };
	scoped_buf name = { 0 };
	if (git_ask(folder, args, NAME_MAX_LEN + 1, &name))
		return NULL;
	size_t len = strspn(buf_text(&name), "0123456789abcdef");
	return len >= 40 && name.data[len] == '\n' ? (name.data[len] = 0, buf_steal(&name)) : NULL;
}
