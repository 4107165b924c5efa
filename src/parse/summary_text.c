/* SPDX-License-Identifier: MIT
 *
 * What the readers of the four forms share: lines, numbers, shapes, totals. A summary is read in one pass;
 * names stay in the text, so that a layer costs no allocation of its own. Texts come from people and are bounded here: counts
 * stop at SUMMARY_MAX_COUNT instead of wrapping.
 */
#include "parse/summary_private.h"

#include "base/words.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct summary_text summary_skip(struct summary_text t)
{
	while (t.len && is_blank(*t.at))
		t.at++, t.len--;
	return t;
}

struct summary_text summary_trim(struct summary_text t)
{
	t = summary_skip(t);
	while (t.len && is_blank(t.at[t.len - 1]))
		t.len--;
	return t;
}

bool summary_peek(const struct summary_reader *r, struct summary_text *line)
{
	if (r->next >= r->end)
		return false;
	const char *stop = memchr(r->next, '\n', (size_t)(r->end - r->next));
	*line = (struct summary_text){ r->next, (uint32_t)((stop ? stop : r->end) - r->next) };
	while (line->len && is_blank(line->at[line->len - 1]))
		line->len--;
	return true;
}

bool summary_line(struct summary_reader *r, struct summary_text *line)
{
	if (!summary_peek(r, line))
		return false;
	const char *stop = memchr(line->at + line->len, '\n', (size_t)(r->end - line->at) - line->len);
	r->next = stop ? stop + 1 : r->end;
	r->line++;
	return true;
}

int summary_refuse(struct summary_reader *r, struct summary_text line, const char *why)
{
	char shown[64];
	size_t n = 0, step;
	line = summary_skip(line);
	for (uint32_t i = 0; i < line.len; i += (uint32_t)step) {
		size_t size = words_utf8(line.at + i, line.len - i);
		const char *c = is_blank(line.at[i]) || !line.at[i] ? " " : size ? line.at + i : "?";
		step = size ? size : 1;
		if (*c == ' ' && (!n || shown[n - 1] == ' '))
			continue;	/* columns are far apart: one blank is enough */
		if (n + step >= sizeof shown)	/* no part of a character */
			break;
		memcpy(shown + n, c, step);
		n += step;
	}
	shown[n] = '\0';
	return error_set(r->err, ERR_INVALID, "%.200s:%u: '%s': %s", r->name, r->line, shown, why);
}

/* ---- words and numbers ---- */

/* Texts and words are short: memmem() takes longer to prepare than this does to look. */
const char *summary_find(struct summary_text t, const char *word)
{
	size_t n = strlen(word);
	for (; t.len >= n; t.at++, t.len--)
		if (*t.at == *word && !memcmp(t.at, word, n))
			return t.at;
	return NULL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool summary_number(struct summary_text *t, uint64_t *n)
{
	uint64_t value = 0;
	const char *c = t->at, *end = t->at + t->len;
	if (c == end || !is_digit(*c))
		return false;
	for (; c < end; c++) {
		if (*c == ',' && c + 1 < end && is_digit(c[1]))
			continue;
		if (!is_digit(*c))
			break;
		value = value * 10 + (uint64_t)(*c - '0');
		if (value > SUMMARY_MAX_COUNT)
			return false;
	}
	summary_drop(t, (uint32_t)(c - t->at));
	*n = value;
	return true;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

struct summary_text summary_word(struct summary_text *t)
{
	struct summary_text word = { t->at, 0 };
	if (!t->len || is_digit(*t->at))
		return word;
	while (word.len < t->len && is_word(word.at[word.len]))
		word.len++;
	summary_drop(t, word.len);
	return word;
}

/* ---- shapes ---- */

/* One shape, or a list of shapes (several outputs), of which the first gives batch and last dimension. */
struct shape_reading { struct summary_layer *layer; uint64_t product; unsigned dims; bool first_done; };

static void end_of_shape(struct shape_reading *s)
{
	if (!s->dims)
		return;
	s->layer->elements = summary_sum(s->layer->elements, s->product);
	s->first_done = true;
	s->dims = 0;
}

static void add_dim(struct shape_reading *s, uint64_t dim, bool open)
{
	if (!s->dims)
		s->product = 1;
	if (!s->first_done && !s->dims)
		s->layer->batch = open || dim > UINT32_MAX ? 0 : (uint32_t)dim;
	if (!s->first_done)
		s->layer->last_dim = dim > UINT32_MAX ? UINT32_MAX : (uint32_t)dim;
	s->layer->open_dims |= open && s->dims;
	s->product = summary_product(s->product, open ? 1 : dim);
	s->dims++;
}

/* A dimension in front of *t; false when there is none. */
static bool take_dim(struct summary_text *t, struct shape_reading *s)
{
	uint64_t dim = 1;
	bool open = *t->at == '-' || summary_starts(*t, "None") || *t->at == '?';
	uint32_t skip = *t->at == '-' || *t->at == '?' ? 1 : 4;
	if (open) {
		summary_drop(t, skip);
		if (skip == 1 && t->len && is_digit(*t->at) && !summary_number(t, &dim))
			return false;
		dim = 1;
	} else {
		struct summary_text digits = { t->at, 0 };	/* a comma here ends the dimension */
		while (digits.len < t->len && is_digit(digits.at[digits.len]))
			digits.len++;
		summary_drop(t, digits.len);
		if (!summary_number(&digits, &dim))
			return false;
	}
	add_dim(s, dim, open);
	return true;
}

bool summary_shape(struct summary_text *t, struct summary_layer *layer)
{
	struct shape_reading s = { .layer = layer };
	unsigned open = 0;
	layer->elements = 0;
	while (t->len) {
		char c = *t->at;
		if (c == '[' || c == '(') {
			end_of_shape(&s);
			open++;
		} else if (c == ']' || c == ')') {
			if (!open)
				return false;
			end_of_shape(&s);
			open--;
		} else if (!is_blank(c) && c != ',') {
			if (!open || !take_dim(t, &s))
				return false;
			continue;
		}
		summary_drop(t, 1);
		if (!open)
			break;
	}
	layer->has_shape = !open && s.first_done;
	return !open;
}

/* ---- the end of a table ---- */

/* "(MB): 97.49" */
static double read_mb(struct summary_text t)
{
	char digits[32];
	const char *colon = memchr(t.at, ':', t.len);
	if (!colon)
		return 0;
	size_t n = (size_t)(t.at + t.len - colon - 1);
	n = n < sizeof digits ? n : sizeof digits - 1;
	memcpy(digits, colon + 1, n);
	digits[n] = '\0';
	double mb = strtod(digits, NULL);
	return mb > 0 && mb < 1e12 ? mb : 0;
}

bool summary_total(struct summary *s, struct summary_text line)
{
	uint64_t ignored;
	const struct { const char *start; uint64_t *to; } counts[] = {
		{ "Total params:", &s->total_params }, { "Trainable params:", &s->trainable_params },
		{ "Non-trainable params:", &ignored }, { "Optimizer params:", &ignored },
	};
	line = summary_skip(line);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		if (!summary_starts(line, counts[i].start))
			continue;
		uint32_t skip = (uint32_t)strlen(counts[i].start);
		struct summary_text rest = summary_skip((struct summary_text){ line.at + skip, line.len - skip });
		return summary_number(&rest, counts[i].to);
	}
	if (summary_starts(line, "Params size (MB):"))
		s->params_mb = read_mb(line);
	else if (summary_starts(line, "Forward/backward pass size (MB):"))
		s->forward_mb = read_mb(line);
	else
		return summary_starts(line, "Total mult-adds") || summary_starts(line, "Input size (MB):") ||
		       summary_starts(line, "Estimated Total Size (MB):");
	return true;
}

bool summary_row(struct summary_reader *r, struct summary_text *line)
{
	bool ended = false;
	while (summary_peek(r, line)) {
		struct summary_text t = summary_skip(*line);
		bool rule = t.len && (*t.at == '=' || *t.at == '-'), total = t.len && summary_total(r->out, t);
		if (ended && t.len && !rule && !total)
			return false;
		summary_line(r, line);
		ended = ended || total || (rule && r->out->n_layers);
		if (!ended && t.len && !rule)
			return true;
	}
	return false;
}
