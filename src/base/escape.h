/* SPDX-License-Identifier: MIT
 *
 * Escape sequences in what programs print: bytes that are for a terminal (colours, cursors, titles, pictures), and no text.
 */
#ifndef RAD_BASE_ESCAPE_H
#define RAD_BASE_ESCAPE_H

#include <stdbool.h>

/* Where in one the bytes so far end. Whoever reads lines sets ESCAPE_NONE at each line's end: a sequence that never ends takes
 * its line, and not the log. */
enum escape { ESCAPE_NONE, ESCAPE_BEGUN, ESCAPE_CSI, ESCAPE_STRING };

/* Whether the next byte is a part of one. */
bool escape_takes(enum escape *at, char c);

#endif
