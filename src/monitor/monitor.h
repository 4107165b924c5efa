/* SPDX-License-Identifier: MIT
 *
 * Backends, and the sampler process that calls them. A driver call may hang for minutes; so nothing here runs in the
 * daemon itself: the sampler is `radd --sampler SPEC`, writes one frame a sample to a pipe, and is replaced when it
 * misses its deadline (a hung process may stay in the kernel; it is left behind and said so).
 */
#ifndef RAD_MONITOR_MONITOR_H
#define RAD_MONITOR_MONITOR_H

#include "base/buf.h"
#include "base/error.h"
#include "monitor/reading.h"

struct monitor_backend {
	const char *name;		/* "nvml", "sim" */
	/* `spec` is what stood after the name and colon ("4xa100-40g"), "" if nothing. Returns the backend's own state, or
	 * NULL with an error that says what to do (no driver: name simulated devices). */
	void *(*open)(const char *spec, struct error *err);
	/* Fills an empty snapshot. A single GPU that fails gets `fallen`; -1 only when nothing could be read. */
	int (*sample)(void *state, struct snapshot *out, struct error *err);
	void (*close)(void *state);
};

/* The table; ends with NULL. */
extern const struct monitor_backend *const monitor_backends[];

/* Finds the backend for a --devices value: "nvml", "sim:4xa100-40g", "sim:FILE.yaml". *rest is the part after the colon. */
const struct monitor_backend *monitor_find(const char *devices, const char **rest, struct error *err);

/* The body of the sampler process: samples every `interval_ms` (at least 100) and writes frames to `fd`; identity, owner
 * and RAD_TASK_ID of each process are filled in here. Returns 0 when the reader is gone; 1 after an error frame, when the
 * backend could not be opened or a whole sample failed: a fresh process starts from a clean state. Dies with its parent. */
int monitor_sampler_main(const char *devices, int64_t interval_ms, int fd);

/* Frames: how a snapshot, or the reason that there is none, travels through the pipe. Each appends one frame. */
void monitor_frame_write(const struct snapshot *s, struct buf *out);
void monitor_frame_write_error(const struct error *e, struct buf *out);
/* Takes one whole frame off the front of `in`. 1: *out is filled (clear it); 0: not all there yet; -1: ERR_UNAVAILABLE with
 * the sampler's own error, or ERR_CORRUPT when it is not a frame (and never will be: end the sampler). */
int monitor_frame_read(struct buf *in, struct snapshot *out, struct error *err);

#endif
