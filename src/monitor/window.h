/* SPDX-License-Identifier: MIT
 *
 * The load of one GPU over a window of time (section 6.2.2 of the dissertation: 1 s samples, 90 s). Pure.
 *
 * A window never crosses a change of the set of tasks. After a change, until `settle_ms` of samples exist, the load is
 *	last full mean + what the arrivals are expected to add - what the leavers are thought to have taken,
 * and from then on the mean over the samples since the change (at most the window).
 *
 * A sample speaks for the time since the sample before it, at most a tenth of the span: over a longer silence nothing is
 * known. One that reaches back over a change, or is the first, speaks for no time and only marks where the next begins.
 * GRACT and SMACT are kept apart: each counts only where its valid bit was set, and settles by its own samples. One that has
 * no valid samples for a whole span is not known, whatever was expected.
 */
#ifndef RAD_MONITOR_WINDOW_H
#define RAD_MONITOR_WINDOW_H

#include "device/reading.h"

#include <stdbool.h>
#include <stdint.h>

struct window_config {
	int64_t span_ms;	/* 90000 */
	int64_t settle_ms;	/* 10000 */
};

struct load { double gract, smact; bool gract_known, smact_known; };

struct window;	/* one per GPU */

/* `settle_ms` above the span counts as the span. Memory is bounded: four samples a second, and an hour at most, are kept. */
struct window *window_create(const struct window_config *config);
/* Takes NULL. */
void window_destroy(struct window *w);

/* A sample. Readings without the valid bit add nothing to that mean. Time goes forward (mono); a sample that does not is
 * ignored. */
void window_add(struct window *w, int64_t mono_ms, const struct gpu_reading *r);
/* The same for a reading that is known to have stood since the sample before: it speaks for all of that time. */
void window_add_span(struct window *w, int64_t mono_ms, const struct gpu_reading *r);
/* Nothing runs there and nothing was measured yet: the load is 0 until it is. Without it the first tasks on a new GPU would
 * make an unknown load. */
void window_idle(struct window *w);
/* The set of tasks changed: `delta` is the load expected to come (+) or to go (-), of a task alone. A delta that is not known
 * makes the load not known until it settles. */
void window_change(struct window *w, int64_t mono_ms, struct load delta);
/* The load for decisions, as defined above; clamped to 0..1. Before the first change, the plain mean. */
struct load window_load(const struct window *w);
/* The same as it will be at that moment, if `r` stands from the newest sample until then. Changes nothing. */
struct load window_load_at(const struct window *w, int64_t mono_ms, const struct gpu_reading *r);
/* Whether the SMACT of that load is what is expected after a change, not measured yet. */
bool window_expects(const struct window *w);

#endif
