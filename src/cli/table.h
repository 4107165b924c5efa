/* SPDX-License-Identifier: MIT
 *
 * Tables for people: columns as wide as what is in them, shortened with an ellipsis where the terminal is narrower, and where
 * even that does not do, fewer of them.
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
	unsigned drop;		/* 0: always there; else left out where there is no room, the highest first */
	bool ends;		/* shortened in the middle: names of tasks, which often differ at their ends */
	bool wrap;		/* the last one: goes on below instead of being shortened */
	bool list;		/* shortened behind a word: the beginning of a task's number reads as the number of another */
};

struct table;
struct table *table_create(const struct table_column *columns, size_t n);
void table_destroy(struct table *t);
/* The next cell; rows fill from left to right. Control characters are shown as '?'. */
void table_cell(struct table *t, enum style style, const char *text);
void table_printf(struct table *t, enum style style, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A number by a format of one double; "-", dimmed, where none is known (NaN). */
void table_number(struct table *t, enum style style, const char *fmt, double v);
void table_print(const struct table *t, const struct term *term, FILE *out);
/* Only the titles (`title` is marked as what is sorted by; NULL: none), or one row of it, in the widths that the whole table
 * has; `bare` without styles, for who puts one of his own around the line. */
void table_print_titles(const struct table *t, const char *title, const struct term *term, FILE *out);
void table_print_one(const struct table *t, size_t row, bool bare, const struct term *term, FILE *out);

#endif
