/* SPDX-License-Identifier: MIT
 *
 * What goes between radd and a worker of estimating.h: one JSON object each way.
 */
#ifndef RAD_DAEMON_ESTIMATING_WIRE_H
#define RAD_DAEMON_ESTIMATING_WIRE_H

#include "base/error.h"
#include "estimate/estimate.h"

#include <stdbool.h>
#include <stdint.h>

/* Free it. Of the context, the GPU and `margin` go along. */
char *estimating_write_question(const char *row, const struct spec *spec, uint64_t declared_mib,
				const struct estimate_context *c);
/* The worker may have been taken over by what it read: nothing is believed that does not keep the contract. */
int estimating_read_answer(const char *text, bool *spoke, struct estimate_result *said, struct error *err);

#endif
