/* SPDX-License-Identifier: MIT
 *
 * model.summary() of Keras. Keras 2 prints at fixed columns, Keras 3 draws a table; both break long cells over several lines,
 * and Keras before 2.9 cuts them off:
 *	 max_pooling2d_1 (MaxPooling2  (None, 12, 12, 64)      0
 *	 D)
 * A nested model has a row of its own with the sum of its layers, which follow when asked for (expand_nested).
 */
#include "parse/summary_private.h"

#include <string.h>

#define MAX_CELL 400

/* A row being put together from its lines. */
struct keras_row {
	bool begun, typed;		/* typed: the type's closing parenthesis was seen */
	struct summary_text first;	/* its first line, for errors */
	uint32_t line;
	struct summary_text type;
	char shape[MAX_CELL], params[MAX_CELL];
	size_t n_shape, n_params;
	unsigned nesting;
};

struct keras_table {
	bool drawn;			/* Keras 3 */
	uint32_t shape_at, params_at, params_end;	/* Keras 2: columns, in bytes */
};

static struct summary_text slice(struct summary_text t, uint32_t from, uint32_t to)
{
	from = from < t.len ? from : t.len;
	to = to < from ? from : to < t.len ? to : t.len;	/* a header may name its columns in any order */
	return (struct summary_text){ t.at + from, to - from };
}

static uint32_t column_of(struct summary_text header, const char *title, uint32_t missing)
{
	const char *at = memmem(header.at, header.len, title, strlen(title));
	return at ? (uint32_t)(at - header.at) : missing;
}

static void append(char *to, size_t *n, struct summary_text piece)
{
	for (uint32_t i = 0; i < piece.len && *n < MAX_CELL - 4; i++)
		if (piece.at[i] != ' ' && piece.at[i] != '\t' && piece.at[i] != '|')
			to[(*n)++] = piece.at[i];
}

/* "conv2d_1 (Conv2D)", or a part of it: the type is what stands behind the last parenthesis that opens. */
static void add_name(struct keras_row *row, struct summary_text piece)
{
	piece = summary_trim(piece);
	if (row->typed || !piece.len)
		return;
	const char *open = memrchr(piece.at, '(', piece.len);
	if (open)
		row->type = slice(piece, (uint32_t)(open + 1 - piece.at), piece.len);
	else if (row->n_shape && !row->type.len)
		row->type = piece;	/* the line broke behind the parenthesis */
	const char *close = row->type.len ? memchr(row->type.at, ')', row->type.len) : NULL;
	if (close)
		row->type.len = (uint32_t)(close - row->type.at);
	row->typed = close || (row->type.len && memchr(piece.at, ')', piece.len));
}

static int read_shape(struct summary_layer *layer, struct keras_row *row)
{
	int open = 0;
	for (size_t i = 0; i < row->n_shape; i++)
		open += strchr("[(", row->shape[i]) ? 1 : strchr("])", row->shape[i]) ? -1 : 0;
	for (; open > 0 && row->n_shape < MAX_CELL; open--)	/* cut off */
		row->shape[row->n_shape++] = ')';
	struct summary_text t = { row->shape, (uint32_t)row->n_shape };
	if (!t.len || !strchr("[(", *t.at))
		return 0;	/* "multiple", "?" */
	return summary_shape(&t, layer) ? 0 : -1;
}

/* The row is complete. */
static int end_row(struct summary_reader *r, struct keras_row *row)
{
	if (!row->begun)
		return 0;
	uint32_t now = r->line;
	r->line = row->line;	/* errors and layers name the row's first line */
	row->begun = false;
	struct summary_text type = summary_word(&row->type), params = { row->params, (uint32_t)row->n_params };
	if (!type.len)
		return summary_refuse(r, row->first, "expected a row of a Keras table: name (Type), shape, parameters");
	if (row->nesting > SUMMARY_MAX_NESTING)
		return summary_refuse(r, row->first, "nested deeper than any model (64)");
	struct summary_layer *layer = summary_add(r, type, row->first);
	if (!layer)
		return -1;
	layer->nesting = (uint8_t)row->nesting;
	if (r->out->n_layers > 1 && layer[-1].nesting < row->nesting)
		layer[-1].parent = true;
	if (read_shape(layer, row))
		return summary_refuse(r, row->first, "expected a shape like (None, 56, 56, 64)");
	if (!summary_number(&params, &layer->params))
		return summary_refuse(r, row->first, "expected a number of parameters");
	layer->has_params = true;
	r->line = now;
	return 0;
}

static void begin_row(struct summary_reader *r, struct keras_row *row, struct summary_text line)
{
	*row = (struct keras_row){ .begun = true, .first = line, .line = r->line };
}

/* Where the column's text begins: rows of nested models stand a little off. */
static uint32_t begin_of(struct summary_text line, uint32_t column)
{
	while (column && column < line.len && line.at[column] != ' ' && line.at[column - 1] != ' ')
		column--;
	return column;
}

/* Keras 2: a line with a figure in the column of parameters begins a row, others go on with it. */
static int plain_line(struct summary_reader *r, const struct keras_table *t, struct keras_row *row, struct summary_text line)
{
	uint32_t shape_at = begin_of(line, t->shape_at), params_at = begin_of(line, t->params_at);
	struct summary_text name = slice(line, 0, shape_at), params = summary_trim(slice(line, params_at, t->params_end));
	if (params.len && *params.at >= '0' && *params.at <= '9') {
		if (end_row(r, row))
			return -1;
		begin_row(r, row, line);
		for (; name.len && (*name.at == '|' || *name.at == ' '); summary_drop(&name, 1))
			row->nesting += *name.at == '|';
		append(row->params, &row->n_params, params);
	} else if (!row->begun) {
		return summary_refuse(r, line, "expected a row of a Keras table: name (Type), shape, parameters");
	}
	add_name(row, name);
	append(row->shape, &row->n_shape, slice(line, shape_at, params_at));
	return 0;
}

/* The cell in front of *t, up to a light bar; moves behind the bar. */
static struct summary_text take_cell(struct summary_text *t)
{
	const char *bar = memmem(t->at, t->len, "\342\224\202", 3);
	struct summary_text cell = { t->at, (uint32_t)((bar ? bar : t->at + t->len) - t->at) };
	summary_drop(t, cell.len + (bar ? 3 : 0));
	return cell;
}

/* Keras 3: lines between two rules are one row. */
static int drawn_line(struct summary_reader *r, struct keras_row *row, struct summary_text line)
{
	struct summary_text t = summary_skip(line);
	if (!summary_starts(t, "\342\224\202"))		/* a rule */
		return end_row(r, row);
	summary_drop(&t, 3);
	struct summary_text name = take_cell(&t), shape = take_cell(&t), params = take_cell(&t);
	if (!row->begun) {
		begin_row(r, row, line);
		const char *branch = memmem(name.at, name.len, "\342\224\224", 3);
		if (branch)
			row->nesting = (unsigned)(branch - name.at) / 4 + 1;
	}
	add_name(row, name);
	append(row->shape, &row->n_shape, shape);
	append(row->params, &row->n_params, params);
	return 0;
}

static bool is_rule(struct summary_text t)
{
	while (t.len && *t.at == '|')
		summary_drop(&t, 1);
	return t.len && (*t.at == '_' || *t.at == '=' || summary_starts(t, "\302\257"));
}

int summary_read_keras(struct summary_reader *r, struct summary_text header)
{
	const struct keras_table table = {
		.drawn = summary_starts(summary_skip(header), "\342\224\203"),
		.shape_at = column_of(header, "Output Shape", 0), .params_at = column_of(header, "Param #", 0),
		.params_end = column_of(header, "Connected to", column_of(header, "Trainable", header.len + 40)),
	};
	struct keras_row row = { 0 };
	struct summary_text line;
	bool ended = false;
	r->out->cumulative = true;
	while (summary_peek(r, &line)) {
		struct summary_text t = summary_skip(line);
		bool total = summary_total(r->out, line);
		if (ended && t.len && !total && !is_rule(t))
			break;
		summary_line(r, &line);
		ended = ended || total;
		if (ended || !t.len || (!table.drawn && is_rule(t)))
			continue;
		if (table.drawn ? drawn_line(r, &row, line) : plain_line(r, &table, &row, line))
			return -1;
	}
	return end_row(r, &row);
}
