/* SPDX-License-Identifier: MIT
 *
 * Which of rad and a running radd is the older build.
 */
#ifndef RAD_CLI_RELEASES_H
#define RAD_CLI_RELEASES_H

/* What to do about it, as a sentence, to be freed; NULL: they are the same. `radd`: what it says it is. */
char *releases_advice(const char *radd);

#endif
