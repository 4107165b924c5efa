/* SPDX-License-Identifier: MIT
 * See pilot_slurm.h. Everything here is asked for with a deadline: a controller that is down answers late or never, and then
 * nothing is known, which is never taken for an end.
 */
#include "cli/pilot_slurm.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_S 10		/* less than a pilot may be silent (client_queue.c): its heart stands meanwhile */
#define KILLED_MS 2000
#define MOST (1 << 20)

static void copy_variable(const char *name, char *to, size_t size)
{
	const char *value = getenv(name);
	snprintf(to, size, "%s", value ? value : "");
}

void pilot_slurm_who(struct pilot_who *who)
{
	int64_t restarts = 0;
	const char *said = getenv("SLURM_RESTART_COUNT"), *node = getenv("SLURMD_NODENAME");
	copy_variable("SLURM_JOB_ID", who->job, sizeof who->job);
	if (strspn(who->job, "0123456789") != strlen(who->job))
		*who->job = 0;
	copy_variable("SLURM_CLUSTER_NAME", who->cluster, sizeof who->cluster);
	if (said && !units_parse_int(said, 0, INT32_MAX, &restarts, NULL))
		who->restarts = restarts;
	if (*who->job && node && *node)
		snprintf(who->host, sizeof who->host, "%s", node);
}

/* ---- running a command ---- */

static void become_command(char *const argv[], int in, int out)
{
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	close_range(3, ~0u, 0);
	signal(SIGPIPE, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	_exit(127);
}

/* Until it closes its end, or the deadline, or a signal: who hears one has something else to do. False: not to its end. */
static bool read_output(int fd, int64_t until_ms, struct buf *out)
{
	char chunk[4096];
	for (;;) {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t left = until_ms - clock_mono_ms();
		if (left <= 0 || poll(&p, 1, (int)left) < 0)
			return false;
		if (!p.revents)
			continue;
		ssize_t got = read(fd, chunk, sizeof chunk);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return !got;
		if (out->len < MOST)
			buf_add(out, chunk, (size_t)got);
	}
}

static int end_of(pid_t child, int64_t until_ms)
{
	int status;
	pid_t got;
	while (!(got = waitpid(child, &status, WNOHANG)) || (got < 0 && errno == EINTR)) {
		if (clock_mono_ms() > until_ms)
			kill(child, SIGKILL);
		if (clock_mono_ms() > until_ms + KILLED_MS)
			return -1;	/* its program is on a file system that hangs */
		poll(NULL, 0, 5);
	}
	return got == child && WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

int pilot_slurm_run(char *const argv[], const char *input, int seconds, struct buf *out)
{
	int ends[2], in[2] = { -1, -1 };
	int64_t until = clock_mono_ms() + seconds * 1000LL;
	if (pipe2(ends, O_CLOEXEC))
		return -1;
	if (pipe2(in, O_CLOEXEC)) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	fflush(NULL);
	pid_t child = fork();
	if (!child)
		become_command(argv, in[0], ends[1]);
	close(ends[1]);
	close(in[0]);
	/* Scripts of a few lines: less than a pipe holds. Who refuses before it has read them says why. */
	bool fed = !input || write(in[1], input, strlen(input)) == (ssize_t)strlen(input);
	close(in[1]);
	if (child > 0 && !read_output(ends[0], until, out))
		until = clock_mono_ms();	/* it is ended */
	close(ends[0]);
	int code = child > 0 ? end_of(child, until) : -1;
	return fed || code > 0 ? code : -1;
}

/* ---- what is left ---- */

int64_t pilot_slurm_parse_left_ms(const char *text)
{
	int64_t seconds = 0;
	char word[32];
	size_t len = strcspn(text, " \t\r\n");
	if (!len || len >= sizeof word)
		return -1;
	memcpy(word, text, len);
	word[len] = 0;
	if (!strcasecmp(word, "UNLIMITED"))
		return INT64_MAX;
	if (!isdigit((unsigned char)*word) || units_parse_duration(word, 0, INT64_MAX, &seconds, NULL))
		return !strcmp(word, "0:00") ? 0 : -1;
	return seconds * 1000;
}

int64_t pilot_slurm_parse_left_of(const char *text, const char *job)
{
	size_t len = strlen(job);
	/* Of an array whose number is ours too, all elements are listed. */
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, job, len) && line[len] == ' ')
			return pilot_slurm_parse_left_ms(line + len + 1);
	return -1;
}

int64_t pilot_slurm_left_ms(const char *job)
{
	scoped_buf out = { 0 };
	char *argv[] = { "squeue", "-h", "-j", (char *)job, "-o", "%A %L", NULL };
	return pilot_slurm_run(argv, NULL, ASK_S, &out) ? -1 : pilot_slurm_parse_left_of(buf_text(&out), job);
}

void pilot_slurm_parse_jobs(const char *text, struct pilot_slurm_jobs *jobs)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		jobs->there++;
		bool waits = !strncmp(line, "PD", 2);
		jobs->waiting += waits || !strncmp(line, "CF", 2);
		size_t len = waits && line[2] == ' ' ? strspn(line + 3, "0123456789") : 0;
		if (len)
			json_array_append_new(jobs->which, json_text_n(line + 3, len));
	}
}

/* ---- its fate ---- */

/* The value of KEY=... in a line of scontrol's; "" if it is not there. */
static void value_of(const char *line, const char *key, char *value, size_t size)
{
	size_t len = strlen(key);
	*value = 0;
	for (const char *at = line, *end = line + strcspn(line, "\n"); (at = strstr(at, key)) && at < end; at += len)
		if ((at == line || isspace((unsigned char)at[-1])) && at[len] == '=') {
			snprintf(value, size, "%.*s", (int)strcspn(at + len + 1, " \t\n"), at + len + 1);
			return;
		}
}

/* These have no process left anywhere: Slurm says COMPLETING until all nodes have said so. */
static bool is_over(const char *state)
{
	static const char *const over[] = { "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
		"PREEMPTED", "TIMEOUT", "REVOKED", "SPECIAL_EXIT" };
	for (size_t i = 0; i < COUNT_OF(over); i++)
		if (!strcmp(state, over[i]))
			return true;
	return false;
}

enum pilot_slurm_fate pilot_slurm_fate_of(const char *text, bool succeeded, const struct pilot_who *who, char word[40])
{
	char id[32] = "", restarts[32];
	int64_t n = 0;
	snprintf(word, 40, "?");
	if (!succeeded && strstr(text, "Invalid job id")) {
		snprintf(word, 40, "forgotten");
		return PILOT_SLURM_GONE;
	}
	/* An array's number is that of one of its elements too, and names all of them. */
	const char *line = text;
	for (; succeeded && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		value_of(line, "JobId", id, sizeof id);
		if (!strcmp(id, who->job))
			break;
	}
	if (!succeeded || !*line)
		return PILOT_SLURM_UNKNOWN;
	text = line;
	value_of(text, "JobState", word, 40);
	value_of(text, "Restarts", restarts, sizeof restarts);
	if (is_over(word))
		return PILOT_SLURM_GONE;
	/* It was queued again: the allocation of that pilot was another. */
	bool again = !units_parse_int(restarts, 0, INT32_MAX, &n, NULL) && n > who->restarts;
	return again && strcmp(word, "COMPLETING") ? PILOT_SLURM_GONE : PILOT_SLURM_LIVES;
}

enum pilot_slurm_fate pilot_slurm_fate(const struct pilot_who *who, const char *cluster, char word[40])
{
	scoped_buf out = { 0 };
	char *argv[] = { "scontrol", "show", "job", "-o", (char *)who->job, NULL };
	snprintf(word, 40, "?");
	/* Another cluster's Slurm, or one of which that is not known, would say of a job that lives that there is none. */
	if (!*who->job || strcmp(who->cluster, cluster))
		return PILOT_SLURM_UNKNOWN;
	int code = pilot_slurm_run(argv, NULL, ASK_S, &out);
	return code < 0 ? PILOT_SLURM_UNKNOWN : pilot_slurm_fate_of(buf_text(&out), !code, who, word);
}
