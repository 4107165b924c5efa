/* SPDX-License-Identifier: MIT
 *
 * JSON over HTTP to an MLflow server, by the machine's libcurl: loaded when `rad track` begins, so that nothing else of rad
 * needs it, and its certificates and proxies are those that the machine uses.
 */
#ifndef RAD_CLI_TRACK_HTTP_H
#define RAD_CLI_TRACK_HTTP_H

#include "base/error.h"

#include <jansson.h>
#include <signal.h>

struct track_http;

/* `uri`: http:// or https://, with a path where the server has one; who is asking is taken from the variables MLFLOW_TRACKING_*
 * and, where they say nothing, ~/.mlflow/credentials, as MLflow's own client does. A uri that carries a password is refused:
 * arguments are for all to see. *stop other than 0 ends a request under way. */
struct track_http *track_http_create(const char *uri, const volatile sig_atomic_t *stop, struct error *err);
void track_http_destroy(struct track_http *h);

/* One call of the REST API below /api/2.0/mlflow/: GET without a body (a `path` with its query), POST with one (takes the
 * reference). Returns the answer, a new reference, or NULL:
 *	ERR_UNAVAILABLE	not reached, too slow, told to come later, or an answer that is none: whether it was done is not known
 *	ERR_DENIED	who asks is not known there, or may not
 *	ERR_NOT_FOUND	what is named is not there
 *	ERR_CONFLICT	it is there already
 *	ERR_INVALID	refused otherwise: the same request will be refused again */
json_t *track_http_call(struct track_http *h, const char *path, json_t *body, struct error *err);

/* A value of a query, escaped. Free it. */
char *track_http_escape(const char *text);

#endif
