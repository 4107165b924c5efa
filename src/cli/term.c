/* SPDX-License-Identifier: MIT
 * See term.h.
 */
#include "cli/term.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"

#include <langinfo.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

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
	static const char *const codes[] = { "\033[0m", "\033[1m", "\033[2m", "\033[94m", "\033[95m", "\033[91m" };
	return term->colour ? codes[style] : "";
}

const char *term_plus_minus(const struct term *term)
{
	return term->utf8 ? "±" : "+-";
}

/* One character: its bytes, and its columns. What cannot be shown, or should not, is one '?'. */
static size_t next_char(const char *text, unsigned *columns, bool *bad)
{
	wchar_t wide;
	mbstate_t state = { 0 };
	size_t n = mbrtowc(&wide, text, strnlen(text, MB_LEN_MAX), &state);
	int w = n == 0 || n > 16 || words_turns(text) ? -1 : wcwidth(wide);
	*bad = w < 0;
	*columns = w < 0 ? 1 : (unsigned)w;
	return n == 0 || n > 16 ? 1 : n;
}

/* By bytes, since the locale of whoever reads an error may know no UTF-8 while his terminal does. */
void term_disarm(char *text)
{
	char *to = text;
	for (const char *p = text; *p;) {
		size_t turns = words_turns(p), n = turns ? turns : words_controls(p);
		*to++ = turns ? '?' : n ? ' ' : *p;
		p += n ? n : 1;
	}
	*to = 0;
}

/* How many bytes at its beginning are printable ASCII, each of one column: most text is nothing else, and a table of ten
 * thousand tasks is much text. */
static size_t plain_bytes(const char *text)
{
	size_t n = 0;
	while (text[n] >= ' ' && text[n] < 0x7f)
		n++;
	return n;
}

unsigned term_columns(const char *text)
{
	size_t plain = plain_bytes(text);
	unsigned total = (unsigned)plain, w;
	bool bad;
	for (text += plain; *text; text += next_char(text, &w, &bad), total += w)
		;
	return total;
}

size_t term_bytes(const char *text, unsigned columns)
{
	size_t at = 0, n;
	unsigned w;
	bool bad;
	for (; text[at]; at += n, columns -= w)
		if ((n = next_char(text + at, &w, &bad), w) > columns)
			break;
	return at;
}

char *term_text(const char *text, unsigned width, const struct term *term)
{
	struct buf out = { 0 };
	size_t plain = plain_bytes(text);
	if (!text[plain] && (!width || plain <= width))
		return alloc_string(text);
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

char *term_text_ends(const char *text, unsigned width, const struct term *term)
{
	char *clean = term_text(text, 0, term);
	unsigned columns = term_columns(clean), w;
	bool bad;
	if (!width || columns <= width)
		return clean;
	unsigned head = (width - 1) / 2, tail = width - 1 - head;
	const char *end = clean + term_bytes(clean, columns - tail);
	while (term_columns(end) > tail)	/* half of a wide character */
		end += next_char(end, &w, &bad);
	char *cut = alloc_printf("%.*s%s%s", (int)term_bytes(clean, head), clean, term->utf8 ? "…" : "~", end);
	free(clean);
	return cut;
}

/* How many bytes of the text stand on a line of so many columns: up to the last blank that fits, all of it if it does, a whole
 * word if not even that does. */
static size_t line_bytes(const char *text, unsigned room)
{
	size_t last = 0;
	unsigned used = 0, w;
	bool bad;
	for (size_t at = 0; text[at];) {
		bool blank = text[at] == ' ' && text[at + 1] != '%';	/* "5 %" is one word */
		if (blank && used <= room)
			last = at;
		else if (blank && !last)
			return at;
		if (used > room && last)
			return last;
		at += next_char(text + at, &w, &bad);
		used += w;
	}
	return used > room && last ? last : strlen(text);
}

char *term_wrap(const char *text, unsigned indent, const struct term *term)
{
	struct buf out = { 0 };
	scoped_free char *clean = term_text(text, 0, term);
	unsigned room = !term->width || term->width < indent + 20 ? ~0u : term->width - indent;
	for (const char *p = clean; *p;) {
		size_t n = line_bytes(p, room);
		if (out.len)
			buf_printf(&out, "\n%*s", (int)indent, "");
		buf_add(&out, p, n);
		p += n;
		p += strspn(p, " ");
	}
	return buf_steal(&out);
}

/* The window is that of stderr: stdout is a pipe in eval "$(rad lease)". Its last column stays free, and its last line. The
 * terminal may be in raw mode, where a '\n' leaves the column as it is. */
void term_show_line(unsigned *shown, const char *text)
{
	struct term term = term_ask();
	struct winsize size;
	bool known = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
	unsigned width = known && size.ws_col > 1 ? size.ws_col - 1 : 79, most = known && size.ws_row > 2 ? size.ws_row - 1 : 1;
	scoped_free char *clean = term_text(text, 0, &term);
	term_clear_line(shown);
	for (const char *p = clean; *p && *shown < most; ++*shown) {
		size_t n = *shown + 1 < most ? line_bytes(p, width) : strlen(p);
		scoped_free char *part = alloc_printf("%.*s", (int)n, p), *line = term_text(part, width, &term);
		fprintf(stderr, "%s%s", *shown ? "\r\n" : "", line);
		p += n;
		p += strspn(p, " ");
	}
}

void term_clear_line(unsigned *shown)
{
	for (unsigned i = *shown; i-- > 0;)
		fputs(i ? "\r\033[K\033[A" : "\r\033[K", stderr);
	*shown = 0;
}
