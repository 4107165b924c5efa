/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for their captures. The submitter's `rad` makes one, with the submitter's rights, and sends it; until then,
 * or until the time that the spec names, the question about the task's memory stays open here, in front of the estimator that
 * reads captures. A radd that is started anew asks again, and waits for what is left of the time.
 */
#ifndef RAD_DAEMON_CAPTURING_H
#define RAD_DAEMON_CAPTURING_H

#include "daemon/estimating.h"

#define CAPTURE_TURNS 5		/* times capture_wait: so long a capture may wait for its turn, behind others of its user */

struct capturing;

/* The capture is in the spec: the question can be asked. The context's texts are for the time of the call. */
typedef void (*capturing_ask)(void *ctx, int64_t question, const struct estimator *row, struct spec *spec,
			      uint64_t declared_mib, const struct estimate_context *c);

/* `done` tells of questions whose capture never came: not spoken, with the reason. Both come from the loop or from
 * capturing_came. */
struct capturing *capturing_create(uv_loop_t *loop, capturing_ask ask, estimating_done done, void *ctx);
/* Nobody is told any more. Frees itself once the loop has closed its handle. Takes NULL. */
void capturing_destroy(struct capturing *c);

/* Whether the spec has no capture yet, and one may still come in time. */
bool capturing_may_come(const struct spec *spec);
/* Keeps a question until the capture comes, or can come no more; takes a reference of `spec`. */
void capturing_wait(struct capturing *c, int64_t question, const struct estimator *row, struct spec *spec,
		    uint64_t declared_mib, const struct estimate_context *context);
bool capturing_awaits(const struct capturing *c, const struct spec *spec);
/* It is heard of: it still waits for its turn, and may for `wait_ms`, but not beyond capture_turn_s; or it has begun, and may
 * take `wait_ms`. All questions about that spec wait as long. `aside`: what it writes is nobody else's; returns whether that is
 * news. The caller stores the spec, which has changed. */
bool capturing_goes_on(struct capturing *c, struct spec *spec, int64_t wait_ms, bool begun, bool aside);
/* The capture came (base64; taken over) with its notes in `said`; or, with NULL, it will not come, and `said` is why.
 * All questions about that spec go on. The caller stores the spec, which has changed. */
void capturing_came(struct capturing *c, struct spec *spec, char *capture, const char *said);

#endif
