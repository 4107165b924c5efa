/* SPDX-License-Identifier: MIT
 * See table.h.
 */
#include "cli/table.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2

struct cell { char *text; enum style style; };

struct table {
	const struct table_column *columns;
	size_t n_columns;
	struct cell *cells;
	size_t n, cap;
};

struct table *table_create(const struct table_column *columns, size_t n)
{
	struct table *t = alloc_zero(sizeof *t);
	t->columns = columns;
	t->n_columns = n;
	return t;
}

void table_destroy(struct table *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		free(t->cells[i].text);
	if (t)
		free(t->cells);
	free(t);
}

void table_cell(struct table *t, enum style style, const char *text)
{
	alloc_grow(t->cells, t->n, t->cap);
	t->cells[t->n++] = (struct cell){ alloc_string(text), style };
}

void table_printf(struct table *t, enum style style, const char *fmt, ...)
{
	char text[1000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	table_cell(t, style, text);
}

static unsigned total_of(const struct table *t, const unsigned *widths)
{
	unsigned total = 0;
	for (size_t i = 0; i < t->n_columns; i++)
		total += widths[i] + (i ? GAP : 0);
	return total;
}

/* Takes columns from the widest that may be shortened, one at a time, so that several shrink evenly. */
static void fit(const struct table *t, unsigned *widths, unsigned width)
{
	for (unsigned total = total_of(t, widths); width && total > width; total--) {
		size_t widest = t->n_columns;
		for (size_t i = 0; i < t->n_columns; i++)
			if (t->columns[i].min && widths[i] > t->columns[i].min && (widest == t->n_columns || widths[i] >= widths[widest]))
				widest = i;
		if (widest == t->n_columns)
			return;
		widths[widest]--;
	}
}

static void print_row(const struct table *t, const struct cell *row, const unsigned *widths, const struct term *term, FILE *out)
{
	size_t n = t->n_columns;
	while (n > 1 && !*row[n - 1].text)	/* nothing behind the last text of a line */
		n--;
	for (size_t i = 0; i < n; i++) {
		bool last = i + 1 == n;
		scoped_free char *text = term_text(row[i].text, widths[i], term);
		int pad = (int)widths[i] - (int)term_columns(text);
		fprintf(out, "%s%*s", i ? "  " : "", t->columns[i].right && pad > 0 ? pad : 0, "");
		if (row[i].style == STYLE_PLAIN)
			fputs(text, out);
		else
			fprintf(out, "%s%s%s", term_style(term, row[i].style), text, term_style(term, STYLE_PLAIN));
		if (!last && !t->columns[i].right && pad > 0)
			fprintf(out, "%*s", pad, "");
	}
	putc('\n', out);
}

void table_print(const struct table *t, const struct term *term, FILE *out)
{
	scoped_free unsigned *widths = alloc_zero(t->n_columns * sizeof *widths);
	scoped_free struct cell *titles = alloc_zero(t->n_columns * sizeof *titles);
	for (size_t i = 0; i < t->n_columns; i++) {
		titles[i] = (struct cell){ (char *)t->columns[i].title, STYLE_BOLD };
		widths[i] = term_columns(t->columns[i].title);
	}
	for (size_t i = 0; i < t->n; i++) {
		unsigned w = term_columns(t->cells[i].text);
		widths[i % t->n_columns] = w > widths[i % t->n_columns] ? w : widths[i % t->n_columns];
	}
	fit(t, widths, term->width);
	print_row(t, titles, widths, term, out);
	for (size_t i = 0; i + t->n_columns <= t->n; i += t->n_columns)
		print_row(t, t->cells + i, widths, term, out);
}
