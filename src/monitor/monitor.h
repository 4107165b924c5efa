/* SPDX-License-Identifier: MIT
 *
 * The sampler process, which reads the devices. A driver call may hang for minutes; so nothing of it runs in the daemon
 * itself: the sampler is `radd --sampler`, writes one frame a sample to a pipe, and is replaced when it misses its deadline
 * (a hung process may stay in the kernel; it is left behind and said so).
 */
#ifndef RAD_MONITOR_MONITOR_H
#define RAD_MONITOR_MONITOR_H

#include "base/buf.h"
#include "base/error.h"
#include "device/reading.h"

struct monitor_order {
	const char *devices, *folder;	/* as for device_create */
	const char *chosen;		/* what an earlier sampler's snapshots named, NULL: this is the first */
	int64_t interval_ms;		/* at least 100 */
	int fd;				/* where frames are written */
};

/* The body of the sampler process: samples and writes frames; identity, owner and RAD_TASK_ID of each process are filled in
 * here. Returns 0 when the reader is gone; 1 after an error frame, when the devices could not be opened or a whole sample
 * failed: a fresh process starts from a clean state. Dies with its parent. */
int monitor_sampler_main(const struct monitor_order *order);

/* Frames: how a snapshot, or the reason that there is none, travels through the pipe. Each appends one frame. */
void monitor_frame_write(const struct snapshot *s, struct buf *out);
void monitor_frame_write_error(const struct error *e, struct buf *out);
/* Takes one whole frame off the front of `in`. 1: *out is filled (clear it); 0: not all there yet; -1: ERR_UNAVAILABLE with
 * the sampler's own error, or ERR_CORRUPT when it is not a frame (and never will be: end the sampler). */
int monitor_frame_read(struct buf *in, struct snapshot *out, struct error *err);

#endif
