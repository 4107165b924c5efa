/* SPDX-License-Identifier: MIT
 *
 * The sampler process as a child: see sampler.h. It is started by posix_spawn, not by fork: the daemon may be large, and little
 * may be done between fork and exec in a process with threads.
 */
#include "monitor/sampler.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/paths.h"
#include "base/scope.h"
#include "base/units.h"
#include "device/device.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

struct sampler {
	char *program, *devices, *folder;
	char *chosen;	/* by the first sampler; NULL: all GPUs, or not known yet */
	int64_t interval_ms;
	pid_t pid;	/* -1: none */
	int fd;
	struct buf in;
	pid_t left[SAMPLER_MAX_STUCK];
	unsigned n_left;
};

/* Arguments have places, so what is not there is an empty one. */
static const char *unless_empty(const char *word)
{
	return *word ? word : NULL;
}

int sampler_main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	struct monitor_order order = { .fd = SAMPLER_FD };
	if (argc != 6 || units_parse_int(argv[4], 1, INT32_MAX, &order.interval_ms, &err)) {
		fprintf(stderr, "radd: --sampler: %s\n", *err.text ? err.text : "is started by radd itself");
		return 2;
	}
	order.devices = argv[2];
	order.folder = unless_empty(argv[3]);
	order.chosen = unless_empty(argv[5]);
	return monitor_sampler_main(&order);
}

struct sampler *sampler_create(const char *program, const struct device *device, int64_t interval_ms)
{
	struct sampler *s = alloc_zero(sizeof *s);
	s->program = alloc_string(program);
	s->devices = alloc_string(device_setting(device));
	s->folder = alloc_string(device_folder(device) ? device_folder(device) : "");
	s->interval_ms = interval_ms;
	s->pid = s->fd = -1;
	return s;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	sampler_stop(s);
	buf_free(&s->in);
	free(s->program);
	free(s->devices);
	free(s->folder);
	free(s->chosen);
	free(s);
}

unsigned sampler_stuck(struct sampler *s)
{
	unsigned kept = 0;	/* waitpid only: a pid that was collected may be another's already */
	for (unsigned i = 0; i < s->n_left; i++)
		if (waitpid(s->left[i], NULL, WNOHANG) == 0)
			s->left[kept++] = s->left[i];
	s->n_left = kept;
	return kept;
}

void sampler_stop(struct sampler *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->in.len = 0;	/* half a frame of one process is not continued by the next */
	if (s->pid < 0)
		return;
	kill(s->pid, SIGKILL);
	/* sampler_start made sure that there is room. */
	s->left[s->n_left++] = s->pid;
	s->pid = -1;
	sampler_stuck(s);
}

/* The child has the pipe as SAMPLER_FD, the log as stderr, nothing else, none of the daemon's signal settings, and a process
 * group of its own: an interrupt from the terminal is for the daemon, with which it ends anyway. */
static int sampler_spawn(struct sampler *s, int pipe_end)
{
	char nothing[] = "", interval[24];
	char *argv[] = { s->program, "--sampler", s->devices, s->folder, interval, s->chosen ? s->chosen : nothing, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	snprintf(interval, sizeof interval, "%" PRId64, s->interval_ms);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_adddup2(&files, pipe_end, SAMPLER_FD);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawn(&s->pid, paths_again(s->program), &files, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (rc)
		s->pid = -1;
	return rc;
}

int sampler_start(struct sampler *s, struct error *err)
{
	int ends[2];
	sampler_stop(s);
	if (sampler_stuck(s) == SAMPLER_MAX_STUCK)
		return error_set(err, ERR_UNAVAILABLE, "sampler: %d of them hang in the driver: no more are started until one ends; "
				 "look at dmesg, the GPU or its driver needs a reset", SAMPLER_MAX_STUCK);
	if (pipe2(ends, O_CLOEXEC))
		return error_errno(err, "sampler: pipe");
	scoped_fd int theirs = ends[1];
	s->fd = ends[0];
	if (io_set_nonblocking(s->fd, true))
		return error_errno(err, "sampler: pipe");
	errno = sampler_spawn(s, theirs);
	return errno ? error_errno(err, "sampler: %s", s->program) : 0;
}

int sampler_fd(const struct sampler *s)
{
	return s->fd;
}

pid_t sampler_pid(const struct sampler *s)
{
	return s->pid;
}

/* Takes what the pipe holds. 1: something came; 0: nothing now; -1: the end. */
static int sampler_take(struct sampler *s)
{
	char bytes[16384];
	ssize_t n;
	do
		n = read(s->fd, bytes, sizeof bytes);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (!n)
		return -1;
	buf_add(&s->in, bytes, (size_t)n);
	return 1;
}

int sampler_read(struct sampler *s, struct snapshot *out, struct error *err)
{
	if (s->fd < 0)
		return error_set(err, ERR_UNAVAILABLE, "sampler: none runs");
	for (;;) {
		int rc = monitor_frame_read(&s->in, out, err);
		if (rc > 0 && out->chosen && !s->chosen)
			s->chosen = alloc_string(out->chosen);
		if (rc)
			return rc;
		rc = sampler_take(s);
		if (!rc)
			return 0;
		if (rc < 0)
			return error_set(err, ERR_UNAVAILABLE, "sampler: process %d ended", (int)s->pid);
	}
}
