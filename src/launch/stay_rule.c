/* SPDX-License-Identifier: MIT
 * Which GPUs a task means: see stay_rule.h. The C library alone is there (stay_library.c).
 */
#include "launch/stay_rule.h"

#include <string.h>

#define ENTRIES_MOST 64
#define DIGITS_MOST 10	/* so many and no GPU has that number */

struct stay_entry { const char *text; size_t len; };
struct stay_list { struct stay_entry at[ENTRIES_MOST]; size_t n; };

/* Without the blanks around each; one comma may end it. False: too many, or one is empty. */
static bool split(const char *text, struct stay_list *out)
{
	out->n = 0;
	for (;; text++) {
		const char *end = text + strcspn(text, ",");
		struct stay_entry w = { text, (size_t)(end - text) };
		for (; w.len && *w.text == ' '; w.len--)
			w.text++;
		while (w.len && w.text[w.len - 1] == ' ')
			w.len--;
		if (!w.len || out->n == ENTRIES_MOST)
			return !w.len && !*end && out->n;
		out->at[out->n++] = w;
		text = end;
		if (!*text)
			return true;
	}
}

/* What CUDA reads there: a number, perhaps behind blanks and a plus; whatever follows it (a line end that Windows left, "1x",
 * "0.0") up to the comma is passed over. False: no number, or one that no GPU has. */
static bool number(const char *text, size_t *out)
{
	size_t digits = 0;
	text += strspn(text, " \t\n\v\f\r");
	text += *text == '+';
	for (*out = 0; text[digits] >= '0' && text[digits] <= '9' && digits < DIGITS_MOST; digits++)
		*out = 10 * *out + (size_t)(text[digits] - '0');
	return digits && digits < DIGITS_MOST;
}

/* The GPUs that CUDA reads from the list: it ends at the first word that is no number, as "-1" is none. How many; more than
 * ENTRIES_MOST are none. */
static size_t numbers(const char *text, size_t out[ENTRIES_MOST])
{
	size_t n = 0;
	for (size_t one; number(text, &one); text++) {
		if (n == ENTRIES_MOST)
			return 0;
		out[n++] = one;
		text += strcspn(text, ",");
		if (!*text)
			break;
	}
	return n;
}

static bool has(const size_t *list, size_t n, size_t one)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == one)
			return true;
	return false;
}

static bool write_list(const struct stay_list *given, const size_t *places, size_t n, char out[STAY_BYTES])
{
	size_t len = 0;
	for (size_t i = 0; i < n; i++) {
		struct stay_entry w = given->at[places[i]];
		if (w.len + 2 > STAY_BYTES - len)
			return false;
		if (i)
			out[len++] = ',';
		memcpy(out + len, w.text, w.len);
		len += w.len;
	}
	out[len] = 0;
	return true;
}

bool stay_rule(const char *given_text, const char *value, char out[STAY_BYTES])
{
	struct stay_list given;
	size_t by_number[ENTRIES_MOST], n_numbers = 0, said[ENTRIES_MOST], n = numbers(value, said), among = 0, below = 0;
	*out = 0;
	if (!*given_text)
		return *value;
	if (!n || !split(given_text, &given) || n > given.n)
		return false;
	for (size_t i = 0; i < given.n; i++)
		n_numbers += number(given.at[i].text, &by_number[n_numbers]);
	for (size_t i = 0; i < n; i++) {
		if (has(said, i, said[i]))
			return false;
		among += has(by_number, n_numbers, said[i]);
		below += said[i] < given.n;
	}
	if (among == n)
		return false;
	for (size_t i = 0; below < n && i < n; i++)
		said[i] = i;
	return write_list(&given, said, n, out);
}
