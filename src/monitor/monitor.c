/* SPDX-License-Identifier: MIT
 *
 * The loop of the sampler process: one beat, one sample, one frame. It keeps no history and decides nothing, so that it can
 * be killed at any moment and its successor knows as much.
 */
#include "monitor/monitor.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "device/device.h"
#include "monitor/procs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

struct sampler_loop {
	struct device *device;
	struct procs *procs;
	int fd;
};

/* A failure is told in the frame's place and ends the process: a library that failed once may be in any state.
 * 0: go on; 1: the reader is gone; -1: nothing could be read, which the reader was told. */
static int sample_once(struct sampler_loop *s)
{
	struct snapshot snap = { .mono_ms = clock_mono_ms(), .wall_ms = clock_wall_ms() };
	struct error err = ERROR_INIT;
	scoped_buf frame = { 0 };
	int rc = device_sample(s->device, &snap, &err);
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

/* Beats of the clock, not pauses between samples: a slow sample does not shift all that come after it. */
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

static int sampler_loop_run(struct sampler_loop *s, int64_t interval_ms)
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

int monitor_sampler_main(const struct monitor_order *o)
{
	/* A parent that died before this line leaves a pipe without a reader, which ends us too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	struct error err = ERROR_INIT;
	struct sampler_loop s = { .device = device_create(o->devices, o->folder, &err), .fd = o->fd };
	int rc = 0;
	if (!s.device || device_open(s.device, o->chosen, &err)) {
		rc = report_unopened(&err, o->fd);
	} else {
		s.procs = procs_create(device_kind(s.device)->mps_process);
		rc = sampler_loop_run(&s, o->interval_ms < 100 ? 100 : o->interval_ms);
		procs_destroy(s.procs);
	}
	device_destroy(s.device);
	return rc;
}
