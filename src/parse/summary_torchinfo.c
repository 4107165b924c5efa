/* SPDX-License-Identifier: MIT
 *
 * torchinfo, and torch-summary before it: a tree, in any choice of columns and cut off at any depth:
 *	├─Sequential: 1-5                        [1, 256, 56, 56]          --
 *	│    └─Bottleneck: 2-1                   [1, 256, 56, 56]          75,008
 * A number in a parent's row is what it holds itself; "(recursive)" marks another call of a layer counted above.
 */
#include "parse/summary_private.h"

#include <string.h>

#define MAX_COLUMNS 10

enum torchinfo_column { COLUMN_OTHER, COLUMN_OUTPUT, COLUMN_PARAMS };

struct columns { enum torchinfo_column of[MAX_COLUMNS]; unsigned n; };

static struct columns read_header(struct summary_text header)
{
	static const struct { const char *title; enum torchinfo_column is; } known[] = {
		{ "Input Shape", COLUMN_OTHER }, { "Output Shape", COLUMN_OUTPUT }, { "Kernel Shape", COLUMN_OTHER },
		{ "Param #", COLUMN_PARAMS }, { "Param %", COLUMN_OTHER }, { "Groups", COLUMN_OTHER },
		{ "Mult-Adds", COLUMN_OTHER }, { "Trainable", COLUMN_OTHER },
	};
	struct columns c = { .n = 0 };
	for (struct summary_text t = header; t.len && c.n < MAX_COLUMNS; t.at++, t.len--)
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (summary_starts(t, known[i].title))
				c.of[c.n++] = known[i].is;
	return c;
}

/* Moves behind the drawn branches; returns their width in characters. */
static unsigned skip_branches(struct summary_text *t)
{
	unsigned width = 0;
	for (; t->len; width++) {
		if (*t->at == ' ' || *t->at == '|' || *t->at == '+')
			summary_drop(t, 1);
		else if (t->len >= 3 && t->at[0] == '\342' && t->at[1] == '\224')
			summary_drop(t, 3);
		else
			break;
	}
	return width;
}

/* "Conv2d (conv1): 3-12": the type; *nesting is set if the depth is there. */
static struct summary_text read_name(struct summary_text *t, unsigned *nesting, bool *numbered)
{
	struct summary_text type = summary_word(t);
	uint64_t depth, index;
	*numbered = false;
	if (summary_starts(*t, " (") && !summary_starts(*t, " (recursive)")) {
		const char *close = memchr(t->at, ')', t->len);
		if (close)
			summary_drop(t, (uint32_t)(close + 1 - t->at));
	}
	if (!summary_starts(*t, ": "))
		return type;
	struct summary_text at = { t->at + 2, t->len - 2 };
	if (summary_number(&at, &depth) && at.len && *at.at == '-') {
		summary_drop(&at, 1);
		if (summary_number(&at, &index)) {
			*t = at;
			*nesting = depth > SUMMARY_MAX_NESTING ? SUMMARY_MAX_NESTING + 1 : (unsigned)depth;
			*numbered = true;
		}
	}
	return type;
}

/* One cell in front of *t, which is moved behind it. False: it cannot be read. */
static bool read_cell(struct summary_text *t, enum torchinfo_column column, struct summary_layer *layer)
{
	if (*t->at == '[' || (*t->at == '(' && !summary_starts(*t, "(recursive)"))) {
		struct summary_layer other = { 0 };
		return summary_shape(t, column == COLUMN_OUTPUT ? layer : &other);
	}
	if (column == COLUMN_PARAMS && !summary_starts(*t, "(recursive)")) {	/* that has none of its own */
		if (summary_number(t, &layer->params))
			layer->has_params = true;
		else if (!summary_starts(*t, "--"))
			return false;
	}
	while (t->len && *t->at != ' ')
		summary_drop(t, 1);
	return true;
}

static int read_row(struct summary_reader *r, struct summary_text line, const struct columns *columns)
{
	struct summary_text t = line;
	bool numbered;
	unsigned nesting = (skip_branches(&t) + 3) / 5;	/* "├─" and 5 characters for each level above */
	struct summary_text type = read_name(&t, &nesting, &numbered);
	if (!type.len)
		return summary_refuse(r, line, "expected a row of a torchinfo table: TYPE: DEPTH-INDEX shape parameters");
	if (!numbered && type.at[0] >= 'a' && type.at[0] <= 'z' && r->out->n_layers)
		return 0;	/* one tensor of the layer above (verbose=2) */
	if (nesting > SUMMARY_MAX_NESTING)
		return summary_refuse(r, line, "nested deeper than any model (64)");
	struct summary_layer *layer = summary_add(r, type, line);
	if (!layer)
		return -1;
	layer->nesting = (uint8_t)nesting;
	if (r->out->n_layers > 1 && layer[-1].nesting < nesting)
		layer[-1].parent = true;
	t = summary_skip(t);
	for (unsigned i = 0; i < columns->n && t.len; i++) {
		if (!read_cell(&t, columns->of[i], layer))
			return summary_refuse(r, line, columns->of[i] == COLUMN_PARAMS ? "expected a number of parameters, '--' or "
					      "'(recursive)'" : "expected a shape like [1, 64, 56, 56]");
		t = summary_skip(t);
	}
	return 0;
}

int summary_read_torchinfo(struct summary_reader *r, struct summary_text header)
{
	const struct columns columns = read_header(header);
	struct summary_text line;
	while (summary_row(r, &line))
		if (read_row(r, line, &columns))
			return -1;
	return 0;
}
