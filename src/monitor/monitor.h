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

/* The table; ends with a NULL name. */
extern const struct monitor_backend *const monitor_backends[];

/* Finds the backend for a --devices value: "nvml", "sim:4xa100-40g", "sim:FILE.yaml". *rest is the part after the colon. */
const struct monitor_backend *monitor_find(const char *devices, const char **rest, struct error *err);

/* The body of the sampler process: samples every `interval_ms`, writes frames to `fd`, returns when the reader is gone.
 * Dies with its parent. */
int monitor_sampler_main(const char *devices, int64_t interval_ms, int fd);

/* Frames: how a snapshot travels through the pipe. Appends one frame. */
void monitor_frame_write(const struct snapshot *s, struct buf *out);
/* Takes one whole frame off the front of `in`. 1: *out is filled (clear it); 0: not all there yet; -1: not a frame. */
int monitor_frame_read(struct buf *in, struct snapshot *out, struct error *err);

#endif
