/* SPDX-License-Identifier: MIT
 *
 * Tables for people: columns as wide as what is in them, shortened with an ellipsis where the terminal is narrower.
 */
#ifndef RAD_CLI_TABLE_H
#define RAD_CLI_TABLE_H

#include "cli/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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

#endif
