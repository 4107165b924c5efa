/* SPDX-License-Identifier: MIT
 * Which GPUs a task means: see stay_rule.h. The C library alone is there (stay_library.c).
 */
#include "launch/stay_rule.h"

#include <string.h>

#define ENTRIES_MOST 64

struct stay_entry { const char *text; size_t len; };
struct stay_list { struct stay_entry at[ENTRIES_MOST]; size_t n; };

/* Without the blanks around each, which CUDA passes over where numbers are; one comma may end it, as in "0,". False: too many,
 * or one is empty. */
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

static bool same(struct stay_entry a, struct stay_entry b)
{
	return a.len == b.len && !memcmp(a.text, b.text, a.len);
}

static bool has(const struct stay_list *list, size_t n, struct stay_entry w)
{
	for (size_t i = 0; i < n; i++)
		if (same(list->at[i], w))
			return true;
	return false;
}

/* As they are written by programs: "01" and "+1" are numbers to CUDA, but who knows to whom else. False: it is none. */
static bool number(struct stay_entry w, size_t *out)
{
	*out = 0;
	if (w.len > 9 || (w.len > 1 && *w.text == '0'))
		return false;
	for (size_t i = 0; i < w.len; i++) {
		if (w.text[i] < '0' || w.text[i] > '9')
			return false;
		*out = 10 * *out + (size_t)(w.text[i] - '0');
	}
	return true;
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

bool stay_rule(const char *given_text, const char *value_text, char out[STAY_BYTES])
{
	struct stay_list given, value;
	size_t places[ENTRIES_MOST], among = 0, below = 0;
	if (!split(given_text, &given) || !split(value_text, &value) || value.n > given.n)
		return false;
	for (size_t i = 0; i < value.n; i++) {
		if (has(&value, i, value.at[i]))
			return false;
		among += has(&given, given.n, value.at[i]);
	}
	if (among == value.n)
		return false;
	for (size_t i = 0; i < value.n; i++) {
		if (!number(value.at[i], &places[i]))
			return false;
		below += places[i] < given.n;
	}
	for (size_t i = 0; below < value.n && i < value.n; i++)
		places[i] = i;
	return write_list(&given, places, value.n, out);
}
