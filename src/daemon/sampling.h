/* SPDX-License-Identifier: MIT
 *
 * The sampler process in the loop: its readings are handed over; one that misses its deadline is replaced.
 */
#ifndef RAD_DAEMON_SAMPLING_H
#define RAD_DAEMON_SAMPLING_H

#include "base/error.h"
#include "device/reading.h"

#include <uv.h>

struct device;
struct sampling;

struct sampling_plan {
	const char *program;		/* what is started: see sampler_create */
	const struct device *device;	/* must outlive the sampling */
	int64_t interval_ms;
	int first_ms;			/* how long sampling_create waits for a first reading */
};

/* A reading has come. It is cleared afterwards. */
typedef void (*sampling_take)(void *ctx, const struct snapshot *snap);

/* Starts the sampler and waits for its first reading, which is handed over before this returns. NULL when the sampler ended
 * instead (no driver, a bad device spec: it has said why on stderr). A driver that merely hangs is no error: the daemon comes
 * up without readings and places nothing. */
struct sampling *sampling_create(uv_loop_t *loop, const struct sampling_plan *plan, sampling_take take, void *ctx,
				 struct error *err);
/* Takes NULL. Its memory goes when the loop has run once more. */
void sampling_destroy(struct sampling *s);

/* For `rad doctor`: how old the last snapshot is (-1: there was none), and how often the sampler had to be replaced. Both take
 * NULL: none was started yet. */
long long sampling_age_ms(const struct sampling *s);
unsigned sampling_restarts(const struct sampling *s);
/* Which GPUs are read, for people ("GPUs 0, 2 of 4"); and how many of the machine's are not. */
const char *sampling_gpus(const struct sampling *s);
unsigned sampling_others(const struct sampling *s);

#endif
