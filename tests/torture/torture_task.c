/* SPDX-License-Identifier: MIT
 * A task of the torture: writes into a ledger that it ran, waits, writes that it ended. Each word is one write(2) to a file
 * opened for appending, so nothing is lost or mixed when it is killed; only what it wrote counts as evidence, whatever the
 * daemon says.
 *
 *	torture-task LEDGER MS CODE [stubborn]
 *	S TASK ATTEMPT PID MONO_MS		began
 *	E TASK ATTEMPT CODE MONO_MS		ends with that code (143: was asked to)
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int ledger;

static long long mono_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void note(char what, long long number)
{
	const char *task = getenv("RAD_TASK_ID"), *attempt = getenv("RAD_ATTEMPT");
	char line[160];
	int n = snprintf(line, sizeof line, "%c %s %s %lld %lld\n", what, task ? task : "?", attempt ? attempt : "?", number,
			 mono_ms());
	if (write(ledger, line, (size_t)n) != n)
		_exit(90);
}

int main(int argc, char **argv)
{
	sigset_t term;
	if (argc < 4 || (ledger = open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
		return 91;
	int code = atoi(argv[3]);
	long ms = atol(argv[2]);
	struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	note('S', getpid());
	if (argc > 4 && !strcmp(argv[4], "stubborn"))
		while (nanosleep(&wait, &wait) && errno == EINTR)
			;
	else if (sigtimedwait(&term, NULL, &wait) == SIGTERM)
		code = 143;
	note('E', code);
	return code;
}
