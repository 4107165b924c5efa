/* SPDX-License-Identifier: MIT
 *
 * What is amiss, as `status` tells it and rad doctor and rad gpus print it: the member `troubles`, a list of objects.
 */
#ifndef RAD_DAEMON_TROUBLES_H
#define RAD_DAEMON_TROUBLES_H

#include <jansson.h>

/* `check`: of what, a word. A text that is not UTF-8, of a path, say, is told all the same. */
void troubles_add(json_t *troubles, const char *check, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
