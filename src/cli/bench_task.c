/* SPDX-License-Identifier: MIT
 * Tasks of a bench: see bench_task.h.
 */
#include "cli/bench_task.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/proc_tree.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/bench.h"
#include "parse/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LINE_MAX_BYTES 2048
#define TERM_MS 8000	/* time to end for who was asked to */
#define TICK_MS 50
#define MAX_MEMBERS 4096
#define NOT_FOUND 127

struct bench_pattern { regex_t regex; };

struct bench_task {
	pid_t pid;
	int fd, status;
	bool ended;
	const struct bench_pattern *pattern;
	struct progress *progress;
	int64_t series;
	char line[LINE_MAX_BYTES], last[200];	/* the line under way; the last whole one */
	size_t len;
	bool reported;
	int64_t heard_ms;
	double steps;		/* as last reported */
	double counted;		/* lines that matched */
	char unit[PROGRESS_WORD];
	/* Of the span. */
	unsigned reports;
	int64_t first_ms, last_ms;
	double first_steps, last_steps;
};

/* Patterns ----------------------------------------------------------------------------------------------------------------- */

struct bench_pattern *bench_pattern_create(const char *text, struct error *err)
{
	struct bench_pattern *p = alloc_zero(sizeof *p);
	char why[200];
	int rc = regcomp(&p->regex, text, REG_EXTENDED);
	if (!rc)
		return p;
	regerror(rc, &p->regex, why, sizeof why);
	error_set(err, ERR_INVALID, "'%.60s': %s; expected an extended regular expression such as 'iter ([0-9]+)'", text, why);
	free(p);
	return NULL;
}

void bench_pattern_destroy(struct bench_pattern *p)
{
	if (!p)
		return;
	regfree(&p->regex);
	free(p);
}

/* Reports ------------------------------------------------------------------------------------------------------------------ */

/* It has done so many steps since it began. A count that went back is another one: the span begins anew with it. */
static void report(struct bench_task *t, double steps, int64_t mono_ms)
{
	if (t->reported && steps == t->steps)
		return;
	if (steps < t->steps)
		t->reports = 0;
	t->reported = true;
	t->steps = steps;
	t->heard_ms = mono_ms;
	if (!t->reports++) {
		t->first_ms = mono_ms;
		t->first_steps = steps;
	}
	t->last_ms = mono_ms;
	t->last_steps = steps;
}

static void match_line(struct bench_task *t, int64_t mono_ms)
{
	regmatch_t m[2];
	if (regexec(&t->pattern->regex, t->line, 2, m, 0))
		return;
	if (!t->pattern->regex.re_nsub) {
		report(t, ++t->counted, mono_ms);
	} else if (m[1].rm_so >= 0) {
		t->line[m[1].rm_eo] = 0;
		report(t, strtod(t->line + m[1].rm_so, NULL), mono_ms);
	}
}

static void end_line(struct bench_task *t, int64_t mono_ms)
{
	t->line[t->len] = 0;
	if (strspn(t->line, " \t") < t->len)
		snprintf(t->last, sizeof t->last, "%.*s", (int)sizeof t->last - 1, t->line);
	if (t->pattern)
		match_line(t, mono_ms);
	t->len = 0;
}

/* What a program writes over with a carriage return are lines too. */
static void take_lines(struct bench_task *t, const char *bytes, size_t n, int64_t mono_ms)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] == '\n' || bytes[i] == '\r')
			end_line(t, mono_ms);
		else if (bytes[i] && t->len + 1 < sizeof t->line)
			t->line[t->len++] = bytes[i];
}

static void ask_progress(struct bench_task *t, const char *bytes, size_t n, int64_t mono_ms)
{
	struct progress_report r;
	progress_feed(t->progress, bytes, n, mono_ms);
	progress_read(t->progress, &r);
	if (r.source == PROGRESS_NONE || (t->reported && r.t_ms <= t->heard_ms && r.series == t->series))
		return;
	if (r.series != t->series)
		t->reports = 0;
	t->series = r.series;
	snprintf(t->unit, sizeof t->unit, "%s", r.unit);
	report(t, r.advanced, mono_ms);
}

/* Processes ---------------------------------------------------------------------------------------------------------------- */

/* In the child, which never returns. */
static void become(char *const argv[], const struct bench_variable *changes, int out)
{
	int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (none < 0 || dup2(none, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(NOT_FOUND);
	for (const struct bench_variable *v = changes; v->name; v++)
		if (v->value ? setenv(v->name, v->value, 1) : unsetenv(v->name))
			_exit(NOT_FOUND);
	execvp(argv[0], argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(NOT_FOUND);
}

struct bench_task *bench_task_start(char *const argv[], const struct bench_variable *changes,
				    const struct bench_pattern *pattern, struct error *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC)) {
		error_errno(err, "pipe");
		return NULL;
	}
	pid_t pid = fork();
	if (!pid)
		become(argv, changes, fds[1]);
	close(fds[1]);
	if (pid < 0 || io_set_nonblocking(fds[0], true)) {
		error_errno(err, "%s: cannot be started", argv[0]);
		close(fds[0]);
		return NULL;
	}
	setpgid(pid, pid);	/* whoever of the two comes first */
	struct bench_task *t = alloc_zero(sizeof *t);
	t->pid = pid;
	t->fd = fds[0];
	t->pattern = pattern;
	t->progress = progress_create(0);
	t->heard_ms = clock_mono_ms();
	return t;
}

static void look_whether_it_ended(struct bench_task *t)
{
	if (!t->ended && waitpid(t->pid, &t->status, WNOHANG) == t->pid)
		t->ended = true;
}

void bench_task_read(struct bench_task *t, int64_t mono_ms)
{
	char bytes[16384];
	ssize_t n = -1;
	while (t->fd >= 0 && (n = read(t->fd, bytes, sizeof bytes)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		take_lines(t, bytes, (size_t)n, mono_ms);
		if (!t->pattern)
			ask_progress(t, bytes, (size_t)n, mono_ms);
	}
	if (t->fd >= 0 && n == 0)
		scope_close(&t->fd), t->fd = -1;
	look_whether_it_ended(t);
}

/* All processes of these tasks, each with its start, so that a signal hits no stranger who got the number since. */
static size_t members_of(struct bench_task **tasks, size_t n, struct proc_id *out)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++) {
		scoped_free pid_t *pids = NULL;
		size_t more = tasks[i]->ended ? 0 : proc_descendants(tasks[i]->pid, &pids);
		for (size_t k = 0; k < more && found < MAX_MEMBERS; k++) {
			out[found].pid = pids[k];
			found += !proc_stat(pids[k], &out[found].start_ticks, NULL);
		}
	}
	return found;
}

static void signal_all(struct bench_task **tasks, size_t n, const struct proc_id *members, size_t n_members, int signum)
{
	for (size_t i = 0; i < n; i++)
		kill(-tasks[i]->pid, signum);
	for (size_t i = 0; i < n_members; i++)
		if (proc_alive(members[i]))
			kill(members[i].pid, signum);
}

static bool anybody_left(struct bench_task **tasks, size_t n, const struct proc_id *members, size_t n_members)
{
	bool left = false;
	for (size_t i = 0; i < n; i++) {
		bench_task_read(tasks[i], clock_mono_ms());	/* one that waits for room in the pipe would not end */
		left |= !tasks[i]->ended;
	}
	for (size_t i = 0; i < n_members && !left; i++)
		left = proc_alive(members[i]);
	return left;
}

void bench_task_end_all(struct bench_task **tasks, size_t n)
{
	scoped_free struct proc_id *members = alloc_zero(MAX_MEMBERS * sizeof *members);
	size_t n_members = members_of(tasks, n, members);
	signal_all(tasks, n, members, n_members, SIGTERM);
	for (int64_t until = clock_mono_ms() + TERM_MS; anybody_left(tasks, n, members, n_members) && clock_mono_ms() < until;)
		poll(NULL, 0, TICK_MS);
	if (anybody_left(tasks, n, members, n_members))
		signal_all(tasks, n, members, n_members, SIGKILL);
	for (size_t i = 0; i < n; i++) {
		struct bench_task *t = tasks[i];
		if (!t->ended)
			waitpid(t->pid, &t->status, 0);
		scope_close(&t->fd);
		progress_destroy(t->progress);
		free(t);
	}
}

/* Questions ---------------------------------------------------------------------------------------------------------------- */

int bench_task_fd(const struct bench_task *t)
{
	return t->fd;
}

bool bench_task_reported(const struct bench_task *t)
{
	return t->reported;
}

int64_t bench_task_heard_ms(const struct bench_task *t)
{
	return t->heard_ms;
}

int bench_task_check(const struct bench_task *t, struct error *err)
{
	char last[sizeof t->last];
	if (!t->ended)
		return 0;
	text_printf(last, sizeof last, "%s", *t->last ? t->last : "it printed nothing");
	bench_make_showable(last);
	if (WIFSIGNALED(t->status))
		return error_set(err, ERR_CONFLICT, "ended by signal %d: %s", WTERMSIG(t->status), last);
	if (!WEXITSTATUS(t->status))
		return error_set(err, ERR_CONFLICT, "ended before it was measured: give it more work, or less to --seconds");
	return error_set(err, ERR_CONFLICT, "ended with exit code %d: %s", WEXITSTATUS(t->status), last);
}

void bench_task_mark(struct bench_task *t)
{
	t->reports = 0;
}

bool bench_task_measurable(const struct bench_task *t)
{
	return t->reports > 1 && t->last_ms > t->first_ms;
}

double bench_task_rate(const struct bench_task *t)
{
	return (t->last_steps - t->first_steps) * 1000 / (double)(t->last_ms - t->first_ms);
}

const char *bench_task_unit(const struct bench_task *t)
{
	return *t->unit ? t->unit : "step";
}
