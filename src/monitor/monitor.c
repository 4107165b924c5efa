/* SPDX-License-Identifier: MIT
 *
 * The table of backends, and the loop of the sampler process.
 */
#include "monitor/monitor.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "monitor/backends.h"
#include "monitor/procs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

const struct monitor_backend *const monitor_backends[] = {
	&nvml_backend,
	&simdev_backend,
	NULL,
};

const struct monitor_backend *monitor_find(const char *devices, const char **rest, struct error *err)
{
	size_t len = strcspn(devices, ":");
	for (const struct monitor_backend *const *b = monitor_backends; *b; b++) {
		if (strlen((*b)->name) != len || strncmp((*b)->name, devices, len))
			continue;
		*rest = devices[len] ? devices + len + 1 : "";
		return *b;
	}
	error_set(err, ERR_INVALID, "devices: \"%.60s\" names no kind of device: say nvml, or sim:4xa100-40g, or sim:FILE.yaml",
		  devices);
	return NULL;
}

struct sampling {
	const struct monitor_backend *backend;
	void *state;
	struct procs *procs;
	int fd;
};

/* 0: go on; 1: the reader is gone; -1: nothing could be read, which the reader was told. */
static int sample_once(struct sampling *s)
{
	struct snapshot snap = { .mono_ms = clock_mono_ms(), .wall_ms = clock_wall_ms() };
	struct error err = ERROR_INIT;
	scoped_buf frame = { 0 };
	int rc = s->backend->sample(s->state, &snap, &err);
	if (rc) {
		monitor_frame_write_error(&err, &frame);
	} else {
		procs_fill(s->procs, &snap);
		monitor_frame_write(&snap, &frame);
	}
	snapshot_clear(&snap);
	if (io_write_full(s->fd, frame.data, frame.len))
		return 1;
	return rc;
}

static int start_timer(int64_t interval_ms)
{
	struct timespec step = { .tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1000000 };
	struct itimerspec when = { .it_interval = step, .it_value = step };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (fd >= 0 && timerfd_settime(fd, 0, &when, NULL)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Until the next beat. Beats that passed while a sample took long are skipped. False when the reader is gone. */
static bool wait_beat(int timer, int fd)
{
	struct pollfd watch[2] = { { .fd = timer, .events = POLLIN }, { .fd = fd } };
	uint64_t beats;
	for (;;) {
		if (poll(watch, 2, -1) < 0) {
			if (errno != EINTR)
				return false;
			continue;
		}
		if (watch[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			return false;
		if (watch[0].revents & POLLIN && read(timer, &beats, sizeof beats) == (ssize_t)sizeof beats)
			return true;
	}
}

static int sampling_run(struct sampling *s, int64_t interval_ms)
{
	scoped_fd int timer = start_timer(interval_ms);
	if (timer < 0) {
		log_error("sampler: timer: %s", strerror(errno));
		return 1;
	}
	do {
		int rc = sample_once(s);
		if (rc)
			return rc < 0 ? 1 : 0;
	} while (wait_beat(timer, s->fd));
	return 0;
}

static int report_unopened(const struct error *err, int fd)
{
	scoped_buf frame = { 0 };
	monitor_frame_write_error(err, &frame);
	/* Nobody may be there to read it: then the log line below is all there is. */
	if (io_write_full(fd, frame.data, frame.len))
		log_error("sampler: %s", err->text);
	return 1;
}

int monitor_sampler_main(const char *devices, int64_t interval_ms, int fd)
{
	/* A parent that died before this line leaves a pipe without a reader, which ends us too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	struct error err = ERROR_INIT;
	const char *rest = "";
	struct sampling s = { .backend = monitor_find(devices, &rest, &err), .fd = fd };
	s.state = s.backend ? s.backend->open(rest, &err) : NULL;
	if (!s.state)
		return report_unopened(&err, fd);
	s.procs = procs_create();
	int rc = sampling_run(&s, interval_ms < 100 ? 100 : interval_ms);
	procs_destroy(s.procs);
	s.backend->close(s.state);
	return rc;
}
