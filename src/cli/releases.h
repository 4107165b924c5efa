/* SPDX-License-Identifier: MIT
 *
 * Which of rad and a running radd is the older build.
 */
#ifndef RAD_CLI_RELEASES_H
#define RAD_CLI_RELEASES_H

#include <jansson.h>

/* What to do about it, as a sentence, to be freed; NULL: they are the same. `status`: radd's answer to that. */
char *releases_advice(const json_t *status);

#endif
