/* SPDX-License-Identifier: MIT
 *
 * Model summaries: which form a text has, and what the readers of the four forms share: lines, numbers, shapes, the table of
 * type names. A summary is read in one pass; names stay in the text, so that a layer costs no allocation of its own.
 */
#include "parse/summary_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char *const format_names[] = { "torchsummary", "torchinfo", "modules", "keras" };

const char *summary_format_name(enum summary_format format)
{
	return format_names[format];
}

const char *summary_kind_name(enum summary_kind kind)
{
	static const char *const names[] = {
#define X(name, word) word,
		SUMMARY_KINDS(X)
#undef X
	};
	return names[kind];
}

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
	size_t n = 0;
	line = summary_skip(line);
	for (uint32_t i = 0; i < line.len && n < sizeof shown - 1; i++)	/* columns are far apart: one blank is enough */
		if (!is_blank(line.at[i]) || (n && shown[n - 1] != ' '))
			shown[n++] = is_blank(line.at[i]) || !line.at[i] ? ' ' : line.at[i];
	while (n && n == sizeof shown - 1 && (shown[n - 1] & 0x80))	/* not half a character */
		n--;
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
	t->len -= (uint32_t)(c - t->at);
	t->at = c;
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
	t->at += word.len;
	t->len -= word.len;
	return word;
}

/* ---- shapes ---- */

static uint64_t times_capped(uint64_t a, uint64_t b)
{
	return b && a > SUMMARY_MAX_COUNT / b ? SUMMARY_MAX_COUNT : a * b;
}

/* One shape, or a list of shapes (several outputs), of which the first gives batch and last dimension. */
struct shape_reading { struct summary_layer *layer; uint64_t product; unsigned dims; bool first_done; };

static void end_of_shape(struct shape_reading *s)
{
	if (!s->dims)
		return;
	s->layer->elements += s->product;
	if (s->layer->elements > SUMMARY_MAX_COUNT)
		s->layer->elements = SUMMARY_MAX_COUNT;
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
	s->product = times_capped(s->product, open ? 1 : dim);
	s->dims++;
}

/* A dimension in front of *t; false when there is none. */
static bool take_dim(struct summary_text *t, struct shape_reading *s)
{
	uint64_t dim = 1;
	bool open = *t->at == '-' || summary_starts(*t, "None") || *t->at == '?';
	uint32_t skip = *t->at == '-' || *t->at == '?' ? 1 : 4;
	if (open) {
		t->at += skip;
		t->len -= skip;
		if (skip == 1 && t->len && is_digit(*t->at) && !summary_number(t, &dim))
			return false;
		dim = 1;
	} else {
		struct summary_text digits = { t->at, 0 };	/* a comma here ends the dimension */
		while (digits.len < t->len && is_digit(digits.at[digits.len]))
			digits.len++;
		t->at += digits.len;
		t->len -= digits.len;
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
		t->at++;
		t->len--;
		if (!open)
			break;
	}
	layer->has_shape = !open && s.first_done;
	return !open;
}

/* ---- layers and types ---- */

static uint32_t hash_of(struct summary_text t)
{
	uint32_t h = 2166136261u;
	for (uint32_t i = 0; i < t.len; i++)
		h = (h ^ (unsigned char)t.at[i]) * 16777619u;
	return h;
}

/* Index of the type, new or known; SUMMARY_MAX_TYPES when there is no more room. */
static uint16_t type_index(struct summary_reader *r, struct summary_text name)
{
	struct summary *s = r->out;
	uint32_t slot = hash_of(name) % SUMMARY_SLOTS;
	for (; r->slots[slot]; slot = (slot + 1) % SUMMARY_SLOTS) {
		struct summary_text known = s->types[r->slots[slot] - 1].name;
		if (known.len == name.len && !memcmp(known.at, name.at, name.len))
			return (uint16_t)(r->slots[slot] - 1);
	}
	if (s->n_types == SUMMARY_MAX_TYPES)
		return SUMMARY_MAX_TYPES;
	alloc_grow(s->types, s->n_types, r->cap_types);
	s->types[s->n_types] = (struct summary_type){ name, summary_kind_of(name, s->format == SUMMARY_KERAS) };
	if (s->format == SUMMARY_KERAS && summary_is(name, "Conv1D"))	/* elsewhere GPT-2's linear layer */
		s->types[s->n_types].kind = SUMMARY_CONV;
	r->slots[slot] = (uint16_t)++s->n_types;
	return (uint16_t)(s->n_types - 1);
}

struct summary_layer *summary_add(struct summary_reader *r, struct summary_text type, struct summary_text line)
{
	struct summary *s = r->out;
	uint16_t index = type_index(r, type);
	if (s->n_layers == SUMMARY_MAX_LAYERS || index == SUMMARY_MAX_TYPES) {
		summary_refuse(r, line, s->n_layers == SUMMARY_MAX_LAYERS ? "more layers than any model has (100000)" :
			       "more kinds of layers than any model has (500)");
		return NULL;
	}
	alloc_grow(s->layers, s->n_layers, r->cap_layers);
	struct summary_layer *layer = &s->layers[s->n_layers++];
	*layer = (struct summary_layer){ .line = r->line, .times = 1, .type = index };
	return layer;
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

/* ---- which form ---- */

enum found { FOUND_NOTHING, FOUND_TORCHSUMMARY, FOUND_TORCHINFO, FOUND_KERAS, FOUND_MODULES };

/* Keras 2 and a torchinfo without depths share a header; only the latter draws a tree. */
static enum found tree_or_keras(const struct summary_reader *r)
{
	static const char branch[] = "\n\342\224\234\342\224\200";
	return memmem(r->next, (size_t)(r->end - r->next), branch, strlen(branch)) ? FOUND_TORCHINFO : FOUND_KERAS;
}

static enum found look_at(const struct summary_reader *r, struct summary_text line)
{
	struct summary_text t = summary_skip(line);
	if (summary_starts(t, "\342\224\203"))	/* the heavy bar in front of Keras 3's header */
		return summary_contains(t, "Layer (type)") ? FOUND_KERAS : FOUND_NOTHING;
	if (!summary_starts(t, "Layer (type"))
		return summary_opens_module(t) ? FOUND_MODULES : FOUND_NOTHING;
	if (summary_starts(t, "Layer (type:depth-idx)") || summary_starts(t, "Layer (type (var_name)"))
		return FOUND_TORCHINFO;
	if (!summary_starts(t, "Layer (type)") || !summary_contains(t, "Param #"))
		return FOUND_NOTHING;
	if (!summary_contains(t, "Output Shape"))
		return FOUND_TORCHINFO;
	/* torchsummary sets its header flush right in columns of 20, 25 and 15; the others flush left. */
	return t.at - line.at >= 4 ? FOUND_TORCHSUMMARY : tree_or_keras(r);
}

/* The line that shows the form; fails with the first line that says something. */
static enum found find_start(struct summary_reader *r, struct summary_text *line)
{
	struct summary_text first = { NULL, 0 };
	uint32_t first_line = 1;
	while (summary_line(r, line)) {
		enum found found = look_at(r, *line);
		if (found)
			return found;
		if (!first.at && summary_skip(*line).len) {
			first = *line;
			first_line = r->line;
		}
	}
	if (!first.at) {
		error_set(r->err, ERR_INVALID, "%.200s: is empty: expected a model summary", r->name);
		return FOUND_NOTHING;
	}
	r->line = first_line;
	summary_refuse(r, first, "begins no model summary: expected a table of torchsummary, torchinfo or Keras, or a printed module");
	return FOUND_NOTHING;
}

static int read_form(struct summary_reader *r, enum found found, struct summary_text line)
{
	r->out->format = found == FOUND_TORCHSUMMARY ? SUMMARY_TORCHSUMMARY : found == FOUND_TORCHINFO ? SUMMARY_TORCHINFO :
			 found == FOUND_KERAS ? SUMMARY_KERAS : SUMMARY_MODULES;
	switch (found) {
	case FOUND_TORCHSUMMARY:
		return summary_read_torchsummary(r);
	case FOUND_TORCHINFO:
		return summary_read_torchinfo(r, line);
	case FOUND_KERAS:
		return summary_read_keras(r, line);
	default:
		return summary_read_modules(r, line);
	}
}

static void look_for_more(struct summary_reader *r)
{
	struct summary_text line;
	while (!r->out->more && summary_line(r, &line))
		r->out->more = look_at(r, line) != FOUND_NOTHING;
}

int summary_parse(const char *name, const char *text, size_t len, struct summary *out, struct error *err)
{
	struct summary_reader r = { .name = name, .next = text, .end = text + len, .out = out, .err = err };
	struct summary_text line;
	*out = (struct summary){ 0 };
	if (len > SUMMARY_MAX_BYTES)
		return error_set(err, ERR_INVALID, "%.200s: is larger than 1 MiB: no model summary", name);
	enum found found = find_start(&r, &line);
	if (!found || read_form(&r, found, line)) {
		summary_clear(out);
		return -1;
	}
	if (!out->n_layers) {
		summary_refuse(&r, line, "a summary without layers");
		summary_clear(out);
		return -1;
	}
	look_for_more(&r);
	return 0;
}

void summary_clear(struct summary *s)
{
	free(s->layers);
	free(s->types);
	*s = (struct summary){ 0 };
}
