/* SPDX-License-Identifier: MIT
 *
 * Tables for people: columns as wide as what is in them, shortened with an ellipsis where the terminal is narrower.
 */
#ifndef RAD_CLI_TABLE_H
#define RAD_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What the terminal can do. */
struct term {
	bool live;		/* stdout is a terminal: tables may be redrawn */
	bool colour;
	bool utf8;
	unsigned width;		/* columns; 0: no limit (a pipe) */
	unsigned height;
};

/* Asks the environment (COLUMNS, NO_COLOR, TERM, locale) and the terminal. */
struct term term_ask(void);

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GREEN, STYLE_YELLOW, STYLE_RED };

struct table_column {
	const char *title;
	bool right;		/* aligned right: numbers */
	unsigned min;		/* 0: never shortened; else not below this many columns */
};

struct table;
struct table *table_create(const struct table_column *columns, size_t n);
void table_destroy(struct table *t);
/* The next cell; rows fill from left to right. Control characters are shown as '?'. */
void table_cell(struct table *t, enum style style, const char *text);
void table_printf(struct table *t, enum style style, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void table_print(const struct table *t, const struct term *term, FILE *out);

/* Text for a terminal in at most `width` columns (0: no limit), control characters made harmless. Free it. */
char *term_text(const char *text, unsigned width, const struct term *term);
unsigned term_columns(const char *text);
/* Around text that is to be styled; "" without colour. */
const char *term_style(const struct term *term, enum style style);

#endif
