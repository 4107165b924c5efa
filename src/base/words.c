/* SPDX-License-Identifier: MIT
 * Distance between words: see words.h. A slip of the fingers is one edit, two swapped letters included; how many edits still
 * count as near grows with the word, since of a short one everything is near.
 */
#include "base/words.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static char fold(char c)
{
	return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

#define NEAREST_MAX 32	/* longer words are no typing errors of ours */

/* Edits (insert, delete, replace, swap of neighbours) between two words. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb)
{
	unsigned d[NEAREST_MAX + 1][NEAREST_MAX + 1];
	for (size_t i = 0; i <= na; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++)
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = d[i - 1][j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
			best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
			best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]) &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[na][nb];
}

/* Letters with which both begin, and with which both end. */
static size_t common_ends(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), least = na < nb ? na : nb, start = 0, end = 0;
	while (start < least && fold(a[start]) == fold(b[start]))
		start++;
	while (end < least - start && fold(a[na - 1 - end]) == fold(b[nb - 1 - end]))
		end++;
	return start + end;
}

/* --mem-gpu for --gpu-mem: what stands before one of its dashes stands behind it. */
static bool is_turned_round(const char *a, const char *b)
{
	size_t n = strlen(a);
	if (strlen(b) != n)
		return false;
	for (size_t i = 1; i + 1 < n; i++) {
		size_t rest = n - i - 1;
		if (fold(a[i]) == '_' && fold(b[rest]) == '_' && !strncasecmp(a, b + rest + 1, i) && !strncasecmp(a + i + 1, b, rest))
			return true;
	}
	return false;
}

const char *words_nearest(const char *word, const char *const *words)
{
	size_t len = strlen(word);
	const char *found = NULL;
	for (size_t i = 0; words[i]; i++)
		if (is_turned_round(word, words[i]))
			return words[i];
	unsigned best = len < 5 ? 2 : len < 8 ? 3 : 4;	/* one less is the most that counts as near */
	for (; len && len <= NEAREST_MAX && *words; words++) {
		size_t n = strlen(*words);
		unsigned d = n <= NEAREST_MAX ? distance(word, len, *words, n) : best;
		if (d > best || d >= n || (d == best && !found))
			continue;
		/* Of two as near, the one that begins and ends alike: max_gpu lacks a letter of max_gpus, and is no max_cpu; tme
		 * lacks one of time, and is no tmp. */
		if (d < best || common_ends(word, *words) > common_ends(word, found)) {
			best = d;
			found = *words;
		}
	}
	return found;
}

bool words_are_key(const char *word, size_t n, const char *key)
{
	size_t i = 0;
	while (i < n && key[i] && (word[i] == '-' ? '_' : word[i]) == key[i])
		i++;
	return i == n && !key[i];
}

bool words_other_dash(const char *word)
{
	static const char *const dashes[] = { "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212" };
	word += strspn(word, "-");
	for (size_t i = 0; i < COUNT_OF(dashes); i++)
		if (!strncmp(word, dashes[i], strlen(dashes[i])))
			return true;
	return false;
}

const char *words_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

const char *words_beside(const char *const pairs[][2], const char *word)
{
	for (size_t i = 0; pairs[i][0]; i++)
		if (!strcmp(word, pairs[i][0]))
			return pairs[i][1];
	return NULL;
}

bool words_end_in(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);
	return n >= k && !strcmp(text + n - k, end);
}

size_t words_utf8(const char *text, size_t left)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

size_t words_cut(const char *text, size_t max)
{
	size_t n = strnlen(text, max);
	return n < max ? n : text_whole(text, n);
}

/* U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069, U+E0000 to U+E007F. */
size_t words_turns(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	if (p[0] == 0xd8)
		return p[1] == 0x9c ? 2 : 0;
	if (p[0] == 0xf3)
		return p[1] == 0xa0 && (p[2] == 0x80 || p[2] == 0x81) && p[3] >= 0x80 && p[3] < 0xc0 ? 4 : 0;
	if (p[0] != 0xe2)
		return 0;
	if (p[1] == 0x80)
		return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae) ? 3 : 0;
	return p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9 ? 3 : 0;
}

size_t words_controls(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	return (*p && *p < ' ') || *p == 0x7f ? 1 : *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void words_replace_controls(char *text, char by)
{
	char *to = text;
	for (size_t n; *text; text += n ? n : 1)
		*to++ = (n = words_controls(text)) ? by : *text;
	*to = 0;
}

void words_add_html(struct buf *b, const char *text)
{
	for (size_t n; *text; text += n ? n : 1)
		switch ((n = words_turns(text)) ? '?' : *text) {
		case '?': buf_add_text(b, "?"); break;
		case '&': buf_add_text(b, "&amp;"); break;
		case '<': buf_add_text(b, "&lt;"); break;
		case '>': buf_add_text(b, "&gt;"); break;
		case '"': buf_add_text(b, "&quot;"); break;
		case '\'': buf_add_text(b, "&#39;"); break;
		default: buf_add(b, text, 1);
		}
}

void words_add_csv(struct buf *b, const char *text)
{
	bool formula = *text && strchr("=+-@\t\r", *text);
	if (!formula && !text[strcspn(text, ",\"\r\n")]) {
		buf_add_text(b, text);
		return;
	}
	buf_add_text(b, formula ? "\"'" : "\"");
	for (; *text; text++)
		buf_add(b, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
	buf_add_text(b, "\"");
}

void words_add_shell(struct buf *b, const char *text)
{
	buf_add_text(b, "'");
	for (; *text; text++)
		buf_add_text(b, *text == '\'' ? "'\\''" : (char[]){ *text, 0 });
	buf_add_text(b, "'");
}

/* '+' to ':' are digits and ",-./" too. */
static bool is_plain(unsigned char c)
{
	return c >= 0x80 || (c >= '+' && c <= ':') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '=' || c == '@' ||
	       c == '%';
}

void words_add_shell_word(struct buf *b, const char *text)
{
	size_t n = 0;
	while (is_plain((unsigned char)text[n]))
		n++;
	if (n && !text[n])
		buf_add_text(b, text);
	else
		words_add_shell(b, text);
}

char *words_next_shell_word(char **rest)
{
	static const char blanks[] = " \t\n";
	char *word = *rest + strspn(*rest, blanks), *to = word, *at = word;
	bool quoted = false;
	for (; *at && (quoted || !strchr(blanks, *at)); at++)
		if (*at == '\'')
			quoted = !quoted;
		else if (*at == '\\' && !quoted && at[1])
			*to++ = *++at;
		else
			*to++ = *at;
	*rest = at + (*at != 0);
	bool none = at == word;
	*to = 0;
	return none ? NULL : word;
}
