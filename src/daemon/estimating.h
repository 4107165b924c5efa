/* SPDX-License-Identifier: MIT
 *
 * Slow estimators in processes of their own: `radd --estimate` reads one question from its input and writes one answer. It runs
 * as the task's user, since it reads what that user wrote, with a deadline and limits, and what it answers is checked.
 */
#ifndef RAD_DAEMON_ESTIMATING_H
#define RAD_DAEMON_ESTIMATING_H

#include "estimate/estimate.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define ESTIMATING_AT_ONCE 2
#define ESTIMATING_DEADLINE_MS 10000

struct estimating;

/* `spoke` false: the note says why, and begins with the estimator's name. */
typedef void (*estimating_done)(void *ctx, int64_t question, bool spoke, const struct estimate_result *said);

/* `program` is run with the argument --estimate. */
struct estimating *estimating_create(uv_loop_t *loop, const char *program, int64_t deadline_ms, estimating_done done,
				     void *ctx);
/* Ends the workers; nobody is answered any more. Frees itself once the loop has closed its handles. Takes NULL. */
void estimating_destroy(struct estimating *e);

/* Asks that row of the worker's table; takes a reference of `spec`. `done` comes from the loop, never from within this call. */
void estimating_ask(struct estimating *e, int64_t question, const struct estimator *row, struct spec *spec,
		    uint64_t declared_mib, const struct estimate_context *c);

/* The worker's main: answers one question by a row of `table`. Returns its exit code. */
int estimating_worker(const struct estimator *table);

#endif
