/* SPDX-License-Identifier: MIT
 * Detached processes: see spawn.h. The two processes between us and the program share our memory until exec: copying a
 * daemon's page tables, twice, took longer than all else that a launch asks of its loop. We stand still while the first
 * makes the second. The second runs beside us, so that a file system that hangs in its exec does not hold us for longer than
 * we want; what it works on (struct spawn) is its own until it has left this memory, which the closed pipe tells.
 */
#include "launch/spawn.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define EXEC_DEADLINE_MS 5000
#define STACK_BYTES ((size_t)64 << 10)	/* of each of the two, which call little */

/* ThreadSanitizer does not survive a clone that shares memory: for it these are forks, with their price. */
#ifdef RAD_SANITIZE_THREAD
#define SPAWN_SHARES 0
#else
#define SPAWN_SHARES CLONE_VM
#endif
#define SPAWN_UNSEEN __attribute__((no_sanitize("address", "thread")))

/* In memory of its own, which a fork has in common with us too. */
struct spawn {
	char **argv, **env;
	char *stacks;
	int null_fd, out_fd;
	int held_fd;		/* of a pipe: that nobody holds it any more tells that the second process has left our memory */
	pid_t second;		/* as the first process knows it */
	struct proc_id id;	/* as it knows itself, before exec */
	int error;		/* why there is no program; 0: there is, or it died before */
};

static struct spawn *spawn_create(char *const argv[], char *const env[])
{
	struct spawn *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return NULL;
	s->argv = alloc_words(argv);
	s->env = alloc_words(env);
	s->stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	return s;
}

static void spawn_destroy(struct spawn *s)
{
	if (!s)
		return;
	free(s->argv);
	free(s->env);
	if (s->stacks != MAP_FAILED)
		munmap(s->stacks, 2 * STACK_BYTES);
	munmap(s, sizeof *s);
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

static void usual_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The second process, with descriptors and signal handlers of its own but in our memory: plain system calls only. Signals were
 * blocked before it was made: a handler of ours must not run here. */
SPAWN_UNSEEN static int spawn_become(void *arg)
{
	struct spawn *s = arg;
	if (proc_stat(getpid(), &s->id.start_ticks, NULL))
		_exit(1);
	s->id.pid = getpid();
	usual_signals();
	setsid();
	if (!chdir("/") && dup2(s->null_fd, 0) == 0 && dup2(s->out_fd, 1) == 1 && dup2(s->null_fd, 2) == 2) {
		close_all_but(s->held_fd);
		usual_descriptors();
		execve(s->argv[0], s->argv, s->env);
	}
	s->error = errno;
	_exit(1);
}

/* The first process: it ends at once and leaves its child to init. Stacks grow downwards. */
SPAWN_UNSEEN static int spawn_part(void *arg)
{
	struct spawn *s = arg;
	s->second = clone(spawn_become, s->stacks + 2 * STACK_BYTES, SPAWN_SHARES | SIGCHLD, s);
	if (s->second < 0)
		s->error = errno;
	_exit(0);
}

/* Until nobody holds the other end of the pipe. False: too late. */
static bool wait_until_left(int fd)
{
	int64_t deadline = clock_mono_ms() + EXEC_DEADLINE_MS, rest = EXEC_DEADLINE_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	while (rest > 0 && poll(&p, 1, (int)rest) <= 0)
		rest = deadline - clock_mono_ms();
	return rest > 0;
}

/* Returns whether the second process has left. Until then errno is one for us and it, so nothing is read from it; and nothing
 * in *s is written. Takes the pipe's end that is held. */
static bool spawn_run(struct spawn *s, int ending_fd)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid_t first = clone(spawn_part, s->stacks + STACK_BYTES, SPAWN_SHARES | CLONE_VFORK | SIGCHLD, s);
	if (first < 0)
		s->error = errno;
	else
		waitpid(first, NULL, 0);	/* in vain where the kernel was told to reap our children for us */
	close(s->held_fd);
	bool left = wait_until_left(ending_fd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return left;
}

/* A file system that hangs is waited for only so long: the process is known then, and its end will be seen. */
static int spawn_tell(const struct spawn *s, bool left, struct proc_id *id, struct error *err)
{
	if (left && s->error) {
		errno = s->error;
		return error_errno(err, s->id.pid ? "%s" : "fork: %s", s->argv[0]);
	}
	if (s->id.pid) {
		*id = s->id;
		return 0;
	}
	if (!left)
		kill(s->second, SIGKILL);
	return error_set(err, ERR_UNAVAILABLE, "%s: the new process %s", s->argv[0], left ? "died at once" : "did not report");
}

int spawn_detached(char *const argv[], char *const env[], int out_fd, struct proc_id *id, struct error *err)
{
	int pipe_fds[2] = { -1, -1 };
	scoped_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct spawn *s = spawn_create(argv, env);
	*id = (struct proc_id){ 0 };
	bool ready = null_fd >= 0 && s && s->stacks != MAP_FAILED && !pipe2(pipe_fds, O_CLOEXEC);
	int result = ready ? 0 : error_errno(err, "starting %s", argv[0]);
	if (ready && (null_fd < 3 || pipe_fds[1] < 3))
		result = error_set(err, ERR_INTERNAL, "starting %s: descriptors 0-2 are closed here", argv[0]);
	scoped_fd int ending_fd = pipe_fds[0];
	if (result) {
		scope_close(&pipe_fds[1]);
		spawn_destroy(s);
		return -1;
	}
	s->null_fd = null_fd;
	s->out_fd = out_fd < 0 ? null_fd : out_fd;
	s->held_fd = pipe_fds[1];
	bool left = spawn_run(s, ending_fd);
	result = spawn_tell(s, left, id, err);
	if (left)	/* else it is lost: it is still being used */
		spawn_destroy(s);
	return result;
}

char *spawn_shim_path(struct error *err)
{
	const char *set = getenv("RAD_SHIM");
	scoped_free char *path = set ? alloc_string(set) : paths_beside("rad-shim");
	if (!path) {
		error_errno(err, "/proc/self/exe");
		return NULL;
	}
	if (access(path, X_OK)) {
		error_errno(err, "%s: the program that starts tasks; is the installation complete?", path);
		return NULL;
	}
	return steal(path);
}
