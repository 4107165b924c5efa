/* SPDX-License-Identifier: MIT
 *
 * The whole screen of a terminal: taken, drawn on, and given back as it was, however the program ends.
 */
#ifndef RAD_CLI_TOP_SCREEN_H
#define RAD_CLI_TOP_SCREEN_H

#include "base/buf.h"
#include "base/error.h"
#include "cli/term.h"

/* Takes the terminal at stdin and stdout. There is one at a time. Signals that end or stop a program come as bytes of the
 * descriptor top_screen_signals() (signalfd) from then on. */
int top_screen_open(struct error *err);
int top_screen_signals(void);
/* The mask of signals as it was before: for programs that are started meanwhile. */
const void *top_screen_mask(void);
/* Gives it back. A signal that was read (0: none) takes its usual effect here, with the terminal as it was before. */
void top_screen_close(int sig);
/* Ctrl-Z: the shell gets its terminal back until it is told to go on. */
void top_screen_stop(void);
/* These lines, each ended by a newline, over what stands there; what does not fit the height is left out. */
void top_screen_show(const struct buf *lines, const struct term *term);

/* Keys: a character by its code, and these. */
enum top_key {
	TOP_NO_KEY, TOP_ENTER = 13, TOP_ESCAPE = 27, TOP_BACKSPACE = 127,
	TOP_UP = 256, TOP_DOWN, TOP_LEFT, TOP_RIGHT, TOP_PAGE_UP, TOP_PAGE_DOWN, TOP_HOME, TOP_END,
};
/* The key at the beginning of what a terminal sent, and in *used how many bytes it takes; TOP_NO_KEY with 0 bytes: the
 * sequence goes on in what is still to come (not if `whole`: then an Escape is that key); with more: it means nothing here. */
int top_screen_key(const char *bytes, size_t n, bool whole, size_t *used);

#endif
