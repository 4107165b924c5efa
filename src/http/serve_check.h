/* SPDX-License-Identifier: MIT
 *
 * Whether a request may be answered at all: by the name it calls us, and by its token.
 */
#ifndef RAD_HTTP_SERVE_CHECK_H
#define RAD_HTTP_SERVE_CHECK_H

#include <stdbool.h>

/* `host`: the header's value, NULL: there is none. A number, localhost, this machine's name, or one of `more` (commas between;
 * NULL: none), with any port: a tunnel has its own. */
bool serve_check_host(const char *host, const char *more);
/* `header`: "Bearer TOKEN", or NULL. Takes as long for a wrong token as for the right one. */
bool serve_check_token(const char *header, const char *token);

#endif
