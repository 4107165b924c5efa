/* SPDX-License-Identifier: MIT
 *
 * radd's answers as metrics: Prometheus's text format 0.0.4, or OpenMetrics 1.0. Names have base units (bytes, seconds,
 * ratios of 1, watts, joules), counters end in _total. What radd does not know has no sample, and what no GPU knows no
 * family: unknown is not zero. Reads no clock and no file.
 */
#ifndef RAD_HTTP_METRICS_H
#define RAD_HTTP_METRICS_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

#define METRICS_TASKS 1000	/* of which there are series, at most */
#define METRICS_TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metrics {
	const json_t *status, *gpus;	/* radd's answers; NULL: there is none */
	const json_t *users, *tasks;	/* the same; also NULL where they are not wanted */
	bool want_users, want_tasks;
	double took_s;			/* until they were there */
};

void metrics_write(const struct metrics *m, bool open, struct buf *out);

#endif
