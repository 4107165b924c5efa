/* SPDX-License-Identifier: MIT
 * A radd of the caller's own, started in the background: see client.h. It must not hold on to the terminal or to a pipe
 * that the caller waits for, and it must be seen to work before anything is submitted to it.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_private.h"
#include "store/store.h"
#include "submit/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

#define READY_S 30

char *client_find_program(const char *name)
{
	scoped_free char *beside = paths_beside(name);
	return beside && !access(beside, X_OK) ? steal(beside) : paths_find(name, getenv("PATH"));
}

/* In the child: no terminal, no descriptors of the caller's but the one to report on. */
static void become_daemon(const char *program, int log_fd, int ready_fd)
{
	int null_fd = open("/dev/null", O_RDWR);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	pid_t daemon = fork();	/* it is no session leader, and nobody's child that must be waited for */
	if (daemon < 0)
		dprintf(ready_fd, "fork: %s\n", strerror(errno));
	if (daemon)
		_exit(daemon < 0);
	dup2(null_fd, 0);
	dup2(log_fd, 1);
	dup2(log_fd, 2);
	dup2(ready_fd, 3);
	close_range(4, ~0u, 0);
	if (chdir("/"))
		_exit(1);
	execl(program, "radd", "--ready-fd", "3", NULL);
	dprintf(3, "%s: %s\n", program, strerror(errno));
	_exit(1);
}

/* The line that radd writes when it is up or cannot be. 0, or -1 when nothing came in time. */
static int read_report(int fd, struct buf *line)
{
	char chunk[512];
	int64_t until = clock_mono_ms() + READY_S * 1000;
	while (!line->len || line->data[line->len - 1] != '\n') {
		struct pollfd p = { fd, POLLIN, 0 };
		int64_t left = until - clock_mono_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -1;
		ssize_t got = read(fd, chunk, sizeof chunk);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		buf_add(line, chunk, (size_t)got);
	}
	line->data[--line->len] = 0;
	return 0;
}

/* A home folder that is not there, or may not be written to, is what people have in containers. In one that another user made
 * (of /var/tmp, without HOME) nothing is written, as radd would not. */
static int open_in_state(const char *name, char **path, struct error *err)
{
	scoped_free char *state = wire_own_state_dir();
	struct error why = ERROR_INIT;
	scoped_fd int folder = wire_make_state_dir(state, &why) ? -1 : store_open_place(state, &why);
	int fd = -1;
	if (why.code == ERR_DENIED)
		return error_set(err, why.code, "starting radd: %s, or RAD_STATE", why.text);
	if (folder >= 0) {
		*path = alloc_printf("%s/%s", state, name);
		fd = openat(folder, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			error_errno(&why, "%s", *path);
	}
	if (why.no == EROFS)
		return error_set(err, why.code, "starting radd: %s: have it mounted for writing (mount -o remount,rw), or, with a new queue, "
				 "export RAD_STATE=/var/tmp/rad-%u", why.text, (unsigned)geteuid());
	return fd >= 0 ? fd : error_set(err, why.code, "starting radd: %s: its queue needs a folder that you may write to: "
					"export RAD_STATE=/var/tmp/rad-%u, or another on a local disk", why.text, (unsigned)geteuid());
}

/* Of several that want a radd at once, one starts it and the others wait for that. Returns the lock. */
static int wait_for_turn(struct error *err)
{
	scoped_free char *path = NULL;
	scoped_fd int fd = open_in_state("start.lock", &path, err);
	if (fd >= 0 && flock(fd, LOCK_EX))
		return error_errno(err, "starting radd: %s", path);
	return steal_fd(fd);
}

static int pid_of_daemon(void)
{
	struct error err = ERROR_INIT;
	json_t *status = client_call(wire_request("status"), &err);
	int pid = (int)json_integer_value(json_object_get(status, "pid"));
	json_decref(status);
	return pid;
}

static int spawn(const char *program, int log_fd, int *ready, struct error *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return error_errno(err, "starting radd: pipe");
	fflush(NULL);
	pid_t child = fork();
	if (!child)
		become_daemon(program, log_fd, ends[1]);
	close(ends[1]);
	*ready = ends[0];
	if (child < 0)
		return error_errno(err, "starting radd: fork");
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* In the background; waits until it answers or says why not. */
static int start_own(const char *program, struct error *err)
{
	scoped_free char *log = NULL;
	scoped_buf report = { 0 };
	scoped_fd int log_fd = open_in_state("radd.log", &log, err);
	scoped_fd int ready = -1;
	if (log_fd < 0 || spawn(program, log_fd, &ready, err))
		return -1;
	if (read_report(ready, &report))
		return error_set(err, ERR_UNAVAILABLE, "radd was started, but was not ready after %d s: see %s", READY_S, log);
	if (strcmp(buf_text(&report), "ok"))
		return error_set(err, ERR_UNAVAILABLE, "radd could not be started for you: %.700s (log: %s)",
				 report.len ? buf_text(&report) : "it ended at once", log);
	bool everybodys = !geteuid() && !getenv("RAD_SOCKET");
	cli_note("started radd for %s (pid %d, log %s)", everybodys ? "everybody on this machine, since you are root" : "you",
		 pid_of_daemon(), log);
	return 0;
}

int client_start(bool *started, struct error *err)
{
	scoped_free char *program = client_find_program("radd");
	struct error ignored = ERROR_INIT;
	*started = false;
	if (client_server()) {	/* it is waited for, and never started from here */
		scoped_fd int server = client_connect(err);
		return server < 0 ? -1 : 0;
	}
	if (!program)
		return error_set(err, ERR_UNAVAILABLE, "no radd is running, and its program is neither beside rad nor in PATH: install it");
	scoped_fd int turn = wait_for_turn(err);
	scoped_fd int there = turn < 0 ? -1 : client_connect(&ignored);
	if (there >= 0 || turn < 0)
		return there >= 0 ? 0 : -1;
	scoped_free char *path = wire_socket_path();
	if (client_check_elsewhere(path, err))
		return -1;
	*started = true;
	if (!start_own(program, err))
		return 0;
	/* Somebody with another state folder may have had one listen there first: that one is as good. */
	there = client_connect(&ignored);
	if (there < 0)
		return -1;
	*started = false;
	*err = ERROR_INIT;
	return 0;
}

int client_connect_or_start(struct error *err)
{
	bool started;
	int fd = client_connect(err);
	if (fd >= 0 || err->code != ERR_UNAVAILABLE || client_server() || !client_may_start())
		return fd;
	*err = ERROR_INIT;
	return client_start(&started, err) ? -1 : client_connect(err);
}
