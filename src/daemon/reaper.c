/* SPDX-License-Identifier: MIT
 * Process 1: see reaper.h. radd itself becomes its child, since a loop that collected whatever ends would take the ends of its
 * own workers away from those who wait for them.
 */
#include "daemon/reaper.h"

#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Collects everything that has ended; ends with the daemon. */
static void collect(pid_t daemon)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == daemon)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

__attribute__((noreturn)) static void reap(pid_t daemon, const sigset_t *all)
{
	for (;;) {
		siginfo_t info;
		int sig = sigwaitinfo(all, &info);
		if (sig == SIGCHLD)
			collect(daemon);
		else if (sig > 0)
			kill(daemon, sig);
	}
}

/* All signals are blocked before the fork, so that none that comes in between is lost: the parent passes on whatever it
 * gets, and only the child has a daemon's handlers. Where there is no second process to be had radd goes on as process 1,
 * and only what others leave behind stays. */
void reaper_start(void)
{
	sigset_t all, before;
	if (getpid() != 1)
		return;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t daemon = fork();
	if (daemon > 0)
		reap(daemon, &all);
	if (daemon < 0)
		log_warn("fork: %s: ended processes will not be collected", strerror(errno));
	sigprocmask(SIG_SETMASK, &before, NULL);
}
