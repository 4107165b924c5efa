/* SPDX-License-Identifier: MIT
 *
 * A printed nn.Module: a tree of "(name): Type(arguments)", whose parentheses nest. Equal neighbours are folded into
 * "(0-11): 12 x BertLayer(". Many print ", 1,234 params" behind each module: a parent's figure then includes its children's.
 */
#include "parse/summary_private.h"

#include <string.h>

/* ", 1,234 params": false when something else stands there. Nothing at all is fine. */
static bool read_params(struct summary_text t, struct summary_layer *layer)
{
	t = summary_trim(t);
	if (!t.len)
		return true;
	if (!summary_starts(t, ", "))
		return false;
	summary_drop(&t, 2);
	if (!summary_number(&t, &layer->params) || !summary_is(summary_skip(t), "params"))
		return false;
	layer->has_params = true;
	return true;
}

/* "(0-11): " or "(conv1): " in front of *t. */
static struct summary_text read_name(struct summary_text *t)
{
	struct summary_text none = { t->at, 0 };
	const char *close = *t->at == '(' ? memchr(t->at, ')', t->len) : NULL;
	if (!close || t->at + t->len - close < 4 || close[1] != ':' || close[2] != ' ')
		return none;
	struct summary_text name = { t->at + 1, (uint32_t)(close - t->at - 1) };
	summary_drop(t, (uint32_t)(close + 3 - t->at));
	return name;
}

/* "12 x " in front of *t; 1 when it is not there, 0 when it is too large. */
static uint64_t read_times(struct summary_text *t)
{
	struct summary_text at = *t;
	uint64_t n;
	if (!summary_number(&at, &n) || !summary_starts(at, " x "))
		return 1;
	summary_drop(&at, 3);
	*t = at;
	return n <= SUMMARY_MAX_LAYERS ? n : 0;
}

/* Where the parenthesis that opens at t.at[0] closes; NULL if not in this line. Quoted text does not count. */
static const char *closing(struct summary_text t)
{
	unsigned open = 0;
	char quote = 0;
	for (const char *c = t.at; c < t.at + t.len; c++) {
		if (quote)
			quote = *c == quote ? 0 : quote;
		else if (*c == '\'' || *c == '"')
			quote = *c;
		else if (*c == '(')
			open++;
		else if (*c == ')' && !--open)
			return c;
	}
	return NULL;
}

bool summary_opens_module(struct summary_text line)
{
	struct summary_text t = line, type = summary_word(&t);
	if (!type.len || type.at[0] < 'A' || type.at[0] > 'Z' || !t.len || *t.at != '(')
		return false;
	if (t.len == 1)
		return true;
	/* One module alone; prose and code have text behind the parenthesis. */
	const char *close = closing(t);
	struct summary_layer ignored = { 0 };
	return close && memchr(t.at, '=', t.len) && summary_kind_of(type, false) != SUMMARY_CONTAINER &&
	       read_params((struct summary_text){ close + 1, (uint32_t)(t.at + t.len - close - 1) }, &ignored);
}

/* The modules that are open around the line being read: their indices, outermost first. */
struct open_modules { uint32_t at[SUMMARY_MAX_NESTING]; unsigned n; };

static int open_module(struct summary_reader *r, struct open_modules *open, struct summary_text line)
{
	struct summary_text t = summary_trim(line), name = read_name(&t);
	uint64_t times = read_times(&t);
	struct summary_text type = summary_word(&t);
	if (!type.len || !t.len || *t.at != '(')
		return summary_refuse(r, line, "expected a module: (name): Type(...)");
	if (name.len > SUMMARY_MAX_NAME)
		return summary_refuse(r, line, "a longer name than any module has (500)");
	struct summary_layer *layer = summary_add(r, type, line);
	if (!layer)
		return -1;
	if (open->n) {
		struct summary_layer *parent = &r->out->layers[open->at[open->n - 1]];
		parent->parent = true;
		times *= parent->times;
	}
	if (!times || times > SUMMARY_MAX_LAYERS)
		return summary_refuse(r, line, "repeated more often than any model has layers (100000)");
	layer->times = (uint32_t)times;
	layer->name = name;
	layer->nesting = (uint8_t)open->n;
	const char *close = closing(t);
	if (close) {
		layer->args = (struct summary_text){ t.at + 1, (uint32_t)(close - t.at - 1) };
		if (!read_params((struct summary_text){ close + 1, (uint32_t)(t.at + t.len - close - 1) }, layer))
			return summary_refuse(r, line, "expected nothing or ', N params' behind a module");
		return 0;
	}
	if (open->n == SUMMARY_MAX_NESTING)
		return summary_refuse(r, line, "nested deeper than any model (64)");
	layer->args = (struct summary_text){ t.at + 1, t.len - 1 };	/* what extra_repr put in front of the children */
	open->at[open->n++] = (uint32_t)(r->out->n_layers - 1);
	return 0;
}

static int close_module(struct summary_reader *r, struct open_modules *open, struct summary_text line)
{
	struct summary_text t = line;
	summary_drop(&t, 1);
	if (!read_params(t, &r->out->layers[open->at[--open->n]]))
		return summary_refuse(r, line, "expected nothing or ', N params' behind a module");
	return 0;
}

/* Inside a module: a child, the end, or a line of its own extra_repr; without the blanks in front. */
static int read_inside(struct summary_reader *r, struct open_modules *open, struct summary_text line)
{
	if (*line.at == ')')
		return close_module(r, open, line);
	if (*line.at == '(')
		return open_module(r, open, line);
	struct summary_layer *parent = &r->out->layers[open->at[open->n - 1]];
	if (parent->parent)
		return summary_refuse(r, line, "expected '(name): Type(...)' or ')' inside a printed module");
	parent->args = summary_trim(line);
	return 0;
}

int summary_read_modules(struct summary_reader *r, struct summary_text first)
{
	struct open_modules open = { .n = 0 };
	struct summary_text line;
	if (open_module(r, &open, first))
		return -1;
	while (open.n) {
		if (!summary_line(r, &line))
			return summary_refuse(r, first, "the module printed from here on is never closed: the text was cut off");
		line = summary_skip(line);
		if (line.len && read_inside(r, &open, line))
			return -1;
	}
	r->out->cumulative = true;
	while (summary_peek(r, &line)) {
		struct summary_text t = summary_skip(line);
		if (t.len && *t.at != '=' && *t.at != '-' && !summary_total(r->out, line))
			break;
		summary_line(r, &line);
	}
	return 0;
}
