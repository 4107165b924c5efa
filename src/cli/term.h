/* SPDX-License-Identifier: MIT
 *
 * The terminal: what it can show, and text that fits it.
 */
#ifndef RAD_CLI_TERM_H
#define RAD_CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>

/* What the terminal can do. */
struct term {
	bool live;		/* stdout is a terminal: tables may be redrawn */
	bool colour;
	bool utf8;
	unsigned width;		/* columns; 0: no limit (a pipe) */
	unsigned height;	/* lines; 0: no limit */
};

/* Asks the environment (COLUMNS, NO_COLOR, TERM, locale) and the terminal. */
struct term term_ask(void);

/* Bright blue, magenta and red: of the sixteen colours, those that can be read on a light and on a dark ground in the palettes
 * of common terminals (doc/decisions/0127). Nothing is told by colour alone. */
enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_WARN, STYLE_BAD };

/* Text for a terminal in at most `width` columns (0: no limit), control characters made harmless. Free it. */
char *term_text(const char *text, unsigned width, const struct term *term);
/* The same, but what is cut out is in the middle: for names that differ at their ends. Free it. */
char *term_text_ends(const char *text, unsigned width, const struct term *term);
/* The same text on as many lines as it takes: broken at blanks, all but the first indented. Free it. */
char *term_wrap(const char *text, unsigned indent, const struct term *term);
/* The same in place for a line that is to be printed as it is: control characters become blanks, those that turn the direction
 * of text '?'. */
void term_disarm(char *text);
unsigned term_columns(const char *text);
/* How many of its bytes stand in so many columns, whole characters. */
size_t term_bytes(const char *text, unsigned columns);
/* "±", where it can be shown. */
const char *term_plus_minus(const struct term *term);
/* Around text that is to be styled; "" without colour. */
const char *term_style(const struct term *term, enum style style);

/* Puts a text on the terminal of stderr, in place of the one that stands there, on as many lines as it takes: *shown of them.
 * It is broken to the window's width and kept within its height, since of what wraps or scrolls only a part could be taken
 * away again. */
void term_show_line(unsigned *shown, const char *text);
/* Takes it away. */
void term_clear_line(unsigned *shown);

#endif
