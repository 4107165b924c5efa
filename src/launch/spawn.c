/* SPDX-License-Identifier: MIT
 * Detached processes: see spawn.h. Two pipes make the start exact: through `report` the grandchild says its pid before anything
 * else, and at `go` it waits until we know its start time too. A daemon that dies in between leaves a process that ends.
 */
#include "launch/spawn.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define EXEC_DEADLINE_MS 5000

/* What comes back through the report pipe: the pid, and an errno if exec failed. */
struct spawn_report { pid_t pid; int error; };

struct spawn {
	char *const *argv;
	char *const *env;
	int null_fd, out_fd;
	int report[2], go[2];
};

static void close_pair(int pair[2])
{
	scope_close(&pair[0]);
	scope_close(&pair[1]);
	pair[0] = pair[1] = -1;
}

static void close_all_but(int keep)
{
	/* The numbers between stay valid for the one descriptor that exec closes by itself. */
	if (keep > 3)
		syscall(SYS_close_range, 3u, (unsigned)keep - 1, 0u);
	syscall(SYS_close_range, (unsigned)keep + 1, ~0u, 0u);
}

/* The daemon raised its own limit; programs that use select() must not get that. */
static void usual_descriptors(void)
{
	struct rlimit limit;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur > FD_SETSIZE) {
		limit.rlim_cur = FD_SETSIZE;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* The grandchild. Signals were blocked before the fork; the program gets them as at the start of any program. */
__attribute__((noreturn)) static void become(const struct spawn *s)
{
	struct spawn_report report = { .pid = getpid() };
	char go;
	close(s->go[1]);
	bool begin = write(s->report[1], &report, sizeof report) == sizeof report && read(s->go[0], &go, 1) == 1;
	if (!begin)
		_exit(1);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	bool ready = !chdir("/") && dup2(s->null_fd, 0) == 0 && dup2(s->out_fd, 1) == 1 && dup2(s->null_fd, 2) == 2;
	if (ready) {
		close_all_but(s->report[1]);
		usual_descriptors();
		execve(s->argv[0], s->argv, s->env);
	}
	report.error = errno;
	ssize_t ignored = write(s->report[1], &report, sizeof report);
	(void)ignored;
	_exit(1);
}

/* Reads one report. 1: got it, 0: the other end is closed, -1: error or too late. */
static int read_report(int fd, struct spawn_report *report, int64_t deadline_ms)
{
	size_t got = 0;
	while (got < sizeof *report) {
		int64_t left = deadline_ms - clock_mono_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		ssize_t r = read(fd, (char *)report + got, sizeof *report - got);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return (int)r;
		got += (size_t)r;
	}
	return 1;
}

static pid_t fork_twice(const struct spawn *s)
{
	pid_t middle = fork();
	if (middle)
		return middle;
	pid_t last = fork();
	if (!last)
		become(s);
	_exit(last < 0);
}

/* The child in between ends at once; nobody may have told the kernel to reap our children for us. */
static int reap(pid_t middle)
{
	int status;
	while (waitpid(middle, &status, 0) < 0)
		if (errno != EINTR)
			return errno == ECHILD ? 0 : -1;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

/* Learns who it is, lets it go, and waits until it is the program or has said why not. */
static int await_exec(struct spawn *s, struct proc_id *id, struct error *err)
{
	struct spawn_report report;
	int64_t deadline = clock_mono_ms() + EXEC_DEADLINE_MS;
	if (read_report(s->report[0], &report, deadline) != 1)
		return error_set(err, ERR_UNAVAILABLE, "%s: the new process did not report", s->argv[0]);
	id->pid = report.pid;
	if (proc_stat(report.pid, &id->start_ticks, NULL))
		return error_set(err, ERR_UNAVAILABLE, "%s: the new process died at once", s->argv[0]);
	if (io_write_full(s->go[1], "g", 1))
		return error_errno(err, "%s", s->argv[0]);
	/* Closed by exec; or a second report says why not. A file system that hangs is waited for only so long: the process
	 * is known, and its end will be seen. */
	if (read_report(s->report[0], &report, deadline) != 1)
		return 0;
	errno = report.error;
	return error_errno(err, "%s", s->argv[0]);
}

/* Signals wait meanwhile: a handler of ours must not run in the children. */
static int start_blocking_signals(struct spawn *s, struct proc_id *id, struct error *err)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid_t middle = fork_twice(s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (middle < 0)
		return error_errno(err, "fork");
	scope_close(&s->report[1]);
	s->report[1] = -1;
	/* The reading end of `go` stays open here, so that writing to a dead process is no SIGPIPE. */
	if (reap(middle))
		return error_set(err, ERR_SYSTEM, "fork: too many processes, or no memory");
	return await_exec(s, id, err);
}

int spawn_detached(char *const argv[], char *const env[], int out_fd, struct proc_id *id, struct error *err)
{
	scoped_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct spawn s = { .argv = argv, .env = env, .null_fd = null_fd, .out_fd = out_fd < 0 ? null_fd : out_fd,
			   .report = { -1, -1 }, .go = { -1, -1 } };
	*id = (struct proc_id){ 0 };
	int result = -1;
	if (null_fd < 0 || pipe2(s.report, O_CLOEXEC) || pipe2(s.go, O_CLOEXEC))
		error_errno(err, "starting %s", argv[0]);
	else if (null_fd < 3 || s.report[1] < 3)
		error_set(err, ERR_INTERNAL, "starting %s: descriptors 0-2 are closed here", argv[0]);
	else
		result = start_blocking_signals(&s, id, err);
	close_pair(s.report);
	close_pair(s.go);
	if (result)
		*id = (struct proc_id){ 0 };
	return result;
}

char *spawn_shim_path(struct error *err)
{
	/* Beside ourselves, not in PATH: shim and daemon speak a form that may change with every version. */
	const char *set = getenv("RAD_SHIM");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (!set && n <= 0) {
		error_errno(err, "/proc/self/exe");
		return NULL;
	}
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (slash)
		*slash = 0;
	scoped_free char *path = set ? alloc_string(set) : alloc_printf("%s/rad-shim", self);
	if (access(path, X_OK)) {
		error_errno(err, "%s: the program that starts tasks; is the installation complete?", path);
		return NULL;
	}
	return steal(path);
}
