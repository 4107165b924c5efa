/* SPDX-License-Identifier: MIT
 * See table.h.
 */
#include "cli/table.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/text.h"

#include <math.h>
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
	unsigned *natural;	/* as wide as what is in them */
};

struct table *table_create(const struct table_column *columns, size_t n)
{
	struct table *t = alloc_zero(sizeof *t);
	t->columns = columns;
	t->n_columns = n;
	t->natural = alloc_zero(n * sizeof *t->natural);
	for (size_t i = 0; i < n; i++)
		t->natural[i] = term_columns(columns[i].title);
	return t;
}

void table_destroy(struct table *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		free(t->cells[i].text);
	if (t) {
		free(t->cells);
		free(t->natural);
	}
	free(t);
}

void table_cell(struct table *t, enum style style, const char *text)
{
	unsigned *natural = &t->natural[t->n % t->n_columns], columns = term_columns(text);
	*natural = columns > *natural ? columns : *natural;
	alloc_grow(t->cells, t->n, t->cap);
	t->cells[t->n++] = (struct cell){ alloc_string(text), style };
}

void table_printf(struct table *t, enum style style, const char *fmt, ...)
{
	char text[1000];
	va_list ap;
	va_start(ap, fmt);
	text_vprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	table_cell(t, style, text);
}

void table_number(struct table *t, enum style style, const char *fmt, double v)
{
	char text[64];
	snprintf(text, sizeof text, fmt, v);
	table_cell(t, isnan(v) ? STYLE_DIM : style, isnan(v) ? "-" : text);
}

/* ---- widths; 0: the column is left out ---- */

static unsigned total_of(const struct table *t, const unsigned *widths)
{
	unsigned total = 0;
	for (size_t i = 0; i < t->n_columns; i++)
		total += widths[i] ? widths[i] + GAP : 0;
	return total > GAP ? total - GAP : 0;
}

/* As narrow as it may become. */
static unsigned least_of(const struct table *t, const unsigned *widths)
{
	unsigned total = 0;
	for (size_t i = 0; i < t->n_columns; i++) {
		unsigned min = t->columns[i].min;
		total += widths[i] ? (min && min < widths[i] ? min : widths[i]) + GAP : 0;
	}
	return total > GAP ? total - GAP : 0;
}

/* Leaves out what matters least, one column at a time, until the rest can be made to fit. */
static void drop(const struct table *t, unsigned *widths, unsigned width)
{
	while (least_of(t, widths) > width) {
		size_t last = t->n_columns;
		for (size_t i = 0; i < t->n_columns; i++)
			if (widths[i] && t->columns[i].drop && (last == t->n_columns || t->columns[i].drop > t->columns[last].drop))
				last = i;
		if (last == t->n_columns)
			return;
		widths[last] = 0;
	}
}

/* Takes columns from the widest that may be shortened, one at a time, so that several shrink evenly. */
static void shrink(const struct table *t, unsigned *widths, unsigned width)
{
	for (unsigned total = total_of(t, widths); total > width; total--) {
		size_t widest = t->n_columns;
		for (size_t i = 0; i < t->n_columns; i++)
			if (t->columns[i].min && widths[i] > t->columns[i].min && (widest == t->n_columns || widths[i] >= widths[widest]))
				widest = i;
		if (widest == t->n_columns)
			return;
		widths[widest]--;
	}
}

/* Free it. */
static unsigned *widths_for(const struct table *t, const struct term *term)
{
	unsigned *widths = alloc_zero(t->n_columns * sizeof *widths);
	memcpy(widths, t->natural, t->n_columns * sizeof *widths);
	if (term->width) {
		drop(t, widths, term->width);
		shrink(t, widths, term->width);
	}
	return widths;
}

/* ---- lines ---- */

static void print_blanks(int n, FILE *out)
{
	static const char blanks[] = "                                ";
	for (; n > 0; n -= (int)sizeof blanks - 1)
		fwrite_unlocked(blanks, 1, n < (int)sizeof blanks - 1 ? (size_t)n : sizeof blanks - 1, out);
}

/* Words that have room with the mark behind them; of the first alone, as much as has. Free it. */
static char *list_text(const char *text, unsigned width, const struct term *term)
{
	scoped_free char *clean = term_text(text, 0, term);
	size_t whole = 0;
	if (!width || term_columns(clean) <= width)
		return steal(clean);
	for (char *blank = strchr(clean, ' '); blank; blank = strchr(blank + 1, ' ')) {
		*blank = '\0';
		if (term_columns(clean) + 2 <= width)
			whole = (size_t)(blank - clean);
		*blank = ' ';
	}
	return whole ? alloc_printf("%.*s %s", (int)whole, clean, term->utf8 ? "…" : "~") : term_text(clean, width, term);
}

static char *cell_text(const struct table_column *c, const char *text, unsigned width, unsigned indent, const struct term *term)
{
	return c->wrap ? term_wrap(text, indent, term) : c->list ? list_text(text, width, term) :
	       c->ends ? term_text_ends(text, width, term) : term_text(text, width, term);
}

static void print_row(const struct table *t, const struct cell *row, const unsigned *widths, const struct term *term, FILE *out)
{
	size_t n = t->n_columns;
	unsigned indent = 0;
	bool any = false;
	while (n > 1 && (!*row[n - 1].text || !widths[n - 1]))	/* nothing behind the last text of a line */
		n--;
	for (size_t i = 0; i < n; i++) {
		if (!widths[i])
			continue;
		scoped_free char *text = cell_text(&t->columns[i], row[i].text, widths[i], indent, term);
		indent += widths[i] + GAP;
		int pad = (int)widths[i] - (int)term_columns(text);
		print_blanks((any ? GAP : 0) + (t->columns[i].right && pad > 0 ? pad : 0), out);
		if (row[i].style == STYLE_PLAIN)
			fputs_unlocked(text, out);
		else
			fprintf(out, "%s%s%s", term_style(term, row[i].style), text, term_style(term, STYLE_PLAIN));
		if (i + 1 < n && !t->columns[i].right && pad > 0)
			print_blanks(pad, out);
		any = true;
	}
	putc('\n', out);
}

static void print_titles(const struct table *t, const char *title, const unsigned *widths, const struct term *term, FILE *out)
{
	scoped_free struct cell *titles = alloc_zero(t->n_columns * sizeof *titles);
	for (size_t i = 0; i < t->n_columns; i++) {
		bool marked = title && !strcmp(title, t->columns[i].title);
		titles[i] = (struct cell){ (char *)t->columns[i].title, marked ? STYLE_GOOD : STYLE_BOLD };
	}
	print_row(t, titles, widths, term, out);
}

void table_print_titles(const struct table *t, const char *title, const struct term *term, FILE *out)
{
	scoped_free unsigned *widths = widths_for(t, term);
	print_titles(t, title, widths, term, out);
}

void table_print_one(const struct table *t, size_t row, bool bare, const struct term *term, FILE *out)
{
	scoped_free unsigned *widths = widths_for(t, term);
	struct term plain = *term;
	plain.colour = term->colour && !bare;
	print_row(t, t->cells + row * t->n_columns, widths, &plain, out);
}

void table_print(const struct table *t, const struct term *term, FILE *out)
{
	scoped_free unsigned *widths = widths_for(t, term);
	print_titles(t, NULL, widths, term, out);
	for (size_t i = 0; i + t->n_columns <= t->n; i += t->n_columns)
		print_row(t, t->cells + i, widths, term, out);
}
