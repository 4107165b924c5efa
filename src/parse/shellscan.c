/* SPDX-License-Identifier: MIT
 * A small lexer for bash's quoting: see shellscan.h. A stack says in what the next character stands; here-documents wait
 * in a list until the line they were named on has ended.
 */
#include "parse/shellscan.h"

#include <ctype.h>
#include <string.h>

enum context {
	CODE,		/* the bottom; never pushed */
	PAREN,		/* ( ) and $( ) */
	ARITHMETIC,	/* (( )) and $(( )): `<<` shifts here */
	BRACE,		/* ${ } */
	QUOTED_BRACE,	/* ${ } inside double quotes: ' is an ordinary character there */
	BACKTICK,
	DOUBLE, SINGLE,
	ANSI,		/* $' ' */
};

static enum context top(const struct shellscan *s)
{
	return s->depth ? (enum context)s->stack[s->depth - 1] : CODE;
}

static void push(struct shellscan *s, enum context c)
{
	if (s->depth < SHELLSCAN_DEPTH)
		s->stack[s->depth++] = (unsigned char)c;
	if (c >= DOUBLE)
		s->quote_line = s->line;
}

static void pop(struct shellscan *s)
{
	s->depth -= s->depth > 0;
}

static bool in_quotes(const struct shellscan *s)
{
	return top(s) >= DOUBLE;
}

bool shellscan_inside(const struct shellscan *s)
{
	return s->in_heredoc || s->continued || in_quotes(s);
}

const char *shellscan_unfinished(const struct shellscan *s, int *line)
{
	*line = s->n_heredocs ? s->heredocs[0].line : s->quote_line;
	return s->n_heredocs ? "here-document" : in_quotes(s) ? "quotes" : NULL;
}

static bool is_meta(char c)
{
	return isspace((unsigned char)c) || strchr(";&|<>()", c);
}

/* At "<<": remembers the here-document, if it is one. Returns the index after it. */
static size_t take_heredoc(struct shellscan *s, const char *line, size_t len, size_t i)
{
	i += 2;	/* in a here-string the third "<" stands where the word would begin, so that there is none */
	bool dash = i < len && line[i] == '-';
	i += dash;
	while (i < len && (line[i] == ' ' || line[i] == '\t'))
		i++;
	size_t begin = i;
	char quote = 0;
	for (; i < len && (quote || !is_meta(line[i])); i++) {
		if (line[i] == '\\' && !quote && i + 1 < len)
			i++;
		else if (line[i] == quote)
			quote = 0;
		else if (!quote && (line[i] == '\'' || line[i] == '"'))
			quote = line[i];
	}
	if (i > begin && i - begin <= SHELLSCAN_WORD && s->n_heredocs < SHELLSCAN_HEREDOCS)
		s->heredocs[s->n_heredocs++] =
			(struct shellscan_heredoc){ .word = line + begin, .len = i - begin, .dash = dash, .line = s->line };
	return i;
}

/* Whether the line is the word that ends the here-document; the word may stand in quotes where it was named. */
static bool ends_heredoc(const struct shellscan_heredoc *h, const char *line, size_t len)
{
	size_t at = 0;
	if (h->dash)
		for (; len && *line == '\t'; len--)
			line++;
	for (size_t i = 0; i < h->len; i++) {
		if (h->word[i] == '\'' || h->word[i] == '"')
			continue;
		if (h->word[i] == '\\' && i + 1 < h->len)
			i++;
		if (at >= len || line[at++] != h->word[i])
			return false;
	}
	return at == len;
}

static void heredoc_line(struct shellscan *s, const char *line, size_t len)
{
	if (!ends_heredoc(&s->heredocs[0], line, len))
		return;
	memmove(s->heredocs, s->heredocs + 1, --s->n_heredocs * sizeof *s->heredocs);
	s->in_heredoc = s->n_heredocs > 0;
}

/* After "$" inside code or double quotes. Returns the index after what it opened, or of what follows the "$". */
static size_t take_dollar(struct shellscan *s, const char *line, size_t len, size_t i)
{
	bool quoted = top(s) == DOUBLE || top(s) == QUOTED_BRACE;
	size_t left = len - ++i;
	if (left >= 2 && line[i] == '(' && line[i + 1] == '(')
		return push(s, ARITHMETIC), i + 2;
	if (left && line[i] == '(')
		return push(s, PAREN), i + 1;
	if (left && line[i] == '{')
		return push(s, quoted ? QUOTED_BRACE : BRACE), i + 1;
	if (left && line[i] == '\'' && !quoted)
		return push(s, ANSI), i + 1;
	return left && line[i] == '#' ? i + 1 : i;
}

static size_t take_paren(struct shellscan *s, const char *line, size_t len, size_t i)
{
	bool twice = i + 1 < len && line[i + 1] == line[i];
	if (line[i] == '(') {
		bool arithmetic = twice && top(s) != ARITHMETIC;
		push(s, arithmetic ? ARITHMETIC : top(s) == ARITHMETIC ? ARITHMETIC : PAREN);
		return i + 1 + arithmetic;
	}
	if (top(s) == ARITHMETIC) {
		/* One ")" closes a parenthesis inside it, two the whole; only the outermost of the run was opened by two. */
		bool outer = s->depth < 2 || s->stack[s->depth - 2] != ARITHMETIC;
		pop(s);
		return i + 1 + (outer && twice);
	}
	if (top(s) == PAREN)	/* else the ")" of a pattern in `case` */
		pop(s);
	return i + 1;
}

/* One character of code (or of a substitution's code) at `i`. Returns the index after what was taken; `len` ends the line. */
static size_t take_code(struct shellscan *s, const char *line, size_t len, size_t i)
{
	bool braced = top(s) == BRACE || top(s) == QUOTED_BRACE, plain = !braced && top(s) != ARITHMETIC;
	switch (line[i]) {
	case '#':
		return plain && (!i || is_meta(line[i - 1])) ? len : i + 1;
	case '\'':
		if (top(s) != QUOTED_BRACE)
			push(s, SINGLE);
		return i + 1;
	case '"':
		return push(s, DOUBLE), i + 1;
	case '$':
		return take_dollar(s, line, len, i);
	case '`':
		if (top(s) == BACKTICK)
			pop(s);
		else
			push(s, BACKTICK);
		return i + 1;
	case '(': case ')':
		return braced ? i + 1 : take_paren(s, line, len, i);
	case '}':
		if (braced)
			pop(s);
		return i + 1;
	case '<':
		return plain && i + 1 < len && line[i + 1] == '<' ? take_heredoc(s, line, len, i) : i + 1;
	default:
		return i + 1;
	}
}

static size_t take_double(struct shellscan *s, const char *line, size_t len, size_t i)
{
	if (line[i] == '$')
		return take_dollar(s, line, len, i);
	if (line[i] == '`')
		push(s, BACKTICK);
	else if (line[i] == '"')
		pop(s);
	return i + 1;
}

static void code_line(struct shellscan *s, const char *line, size_t len)
{
	for (size_t i = 0; i < len;) {
		enum context c = top(s);
		if (line[i] == '\\' && c != SINGLE) {
			s->continued = i + 1 == len && c != ANSI;
			i += 2;
		} else if (c == SINGLE || c == ANSI) {
			if (line[i++] == '\'')
				pop(s);
		} else {
			i = c == DOUBLE ? take_double(s, line, len, i) : take_code(s, line, len, i);
		}
	}
}

void shellscan_skip(struct shellscan *s)
{
	s->line++;
}

void shellscan_line(struct shellscan *s, const char *line, size_t len)
{
	s->line++;
	if (s->in_heredoc) {
		heredoc_line(s, line, len);
		return;
	}
	s->continued = false;
	code_line(s, line, len);
	s->in_heredoc = s->n_heredocs && !s->continued && !in_quotes(s);
}

/* ---- the first line ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_one_of(const char *const *words, const char *word, size_t len)
{
	for (; *words; words++)
		if (strlen(*words) == len && !memcmp(*words, word, len))
			return true;
	return false;
}

static const char *skip(const char *p, const char *end, bool blanks)
{
	while (p < end && is_blank(*p) == blanks)
		p++;
	return p;
}

size_t shellscan_other(const char *text, size_t len, const char **at)
{
	static const char *const shells[] = { "bash", "sh", "dash", "ksh", NULL }, *const env[] = { "env", NULL };
	if (len < 3 || memcmp(text, "#!", 2))
		return 0;
	const char *end = memchr(text, '\n', len);
	end = end ? end : text + len;
	while (end > text + 2 && is_blank(end[-1]))
		end--;
	const char *p = *at = skip(text + 2, end, true);
	/* The word that names it: the first, or after "env" the first that is no option. */
	for (const char *word; p < end; p = skip(p, end, true)) {
		word = p;
		p = skip(p, end, false);
		const char *slash = memrchr(word, '/', (size_t)(p - word)), *base = slash ? slash + 1 : word;
		size_t n = (size_t)(p - base);
		if (is_one_of(shells, base, n))
			return 0;
		if (!is_one_of(env, base, n) && (!n || *base != '-'))
			return (size_t)(end - *at);
	}
	return 0;
}
