/* SPDX-License-Identifier: MIT
 *
 * What an MLflow server answered: any bytes, from whoever listens there.
 */
#ifndef RAD_CLI_TRACK_ANSWER_H
#define RAD_CLI_TRACK_ANSWER_H

#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>

/* A new reference, an object; or NULL with the errors of track_http_call. `code`: HTTP's; `base`: the server's address, for
 * words. */
json_t *track_answer(const char *base, long code, const struct buf *bytes, struct error *err);

#endif
