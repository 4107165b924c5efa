/* SPDX-License-Identifier: MIT
 * Tables and what the terminal can show: see table.h.
 */
#include "cli/table.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/units.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#define GAP 2

struct cell { char *text; enum style style; };

struct table {
	const struct table_column *columns;
	size_t n_columns;
	struct cell *cells;
	size_t n, cap;
};

/* ---- the terminal ---- */

struct term term_ask(void)
{
	const char *columns = getenv("COLUMNS"), *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
	struct term t = { .live = isatty(STDOUT_FILENO), .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8") };
	struct winsize size;
	int64_t width;
	if (t.live && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size)) {
		t.width = size.ws_col;
		t.height = size.ws_row;
	}
	if (t.live && !t.width)
		t.width = 80;
	if (columns && !units_parse_int(columns, 20, 10000, &width, NULL))
		t.width = (unsigned)width;
	if (kind && !strcmp(kind, "dumb"))
		t.live = false;
	t.colour = t.live && kind && !(no_colour && *no_colour);
	return t;
}

const char *term_style(const struct term *term, enum style style)
{
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m" };
	return term->colour ? codes[style] : "";
}

/* One character: its bytes, and its columns. What cannot be shown is one '?'. */
static size_t next_char(const char *text, unsigned *columns, bool *bad)
{
	wchar_t wide;
	mbstate_t state = { 0 };
	size_t n = mbrtowc(&wide, text, strlen(text), &state);
	int w = n == 0 || n > 16 ? -1 : wcwidth(wide);
	*bad = w < 0;
	*columns = w < 0 ? 1 : (unsigned)w;
	return n == 0 || n > 16 ? 1 : n;
}

unsigned term_columns(const char *text)
{
	unsigned total = 0, w;
	bool bad;
	for (; *text; text += next_char(text, &w, &bad), total += w)
		;
	return total;
}

char *term_text(const char *text, unsigned width, const struct term *term)
{
	struct buf out = { 0 };
	bool cut = width && term_columns(text) > width, bad;
	const char *mark = term->utf8 ? "…" : "~";
	unsigned room = cut ? width - 1 : ~0u, w;
	while (*text) {
		size_t n = next_char(text, &w, &bad);
		if (w > room)
			break;
		room -= w;
		buf_add(&out, bad ? "?" : text, bad ? 1 : n);
		text += n;
	}
	if (cut)
		buf_add_text(&out, mark);
	return buf_steal(&out);
}

/* ---- tables ---- */

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
	for (size_t i = 0; i < t->n_columns; i++) {
		bool last = i + 1 == t->n_columns;
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
