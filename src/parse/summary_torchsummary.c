/* SPDX-License-Identifier: MIT
 *
 * torchsummary: one row a call, in the order in which the calls returned, so that a container stands behind what it holds:
 *	         BatchNorm2d-9           [-1, 64, 56, 56]             128
 * Figures are a module's own (its `weight` and `bias`), containers repeat only shapes.
 */
#include "parse/summary_private.h"

/* "Conv2d-12": the type. Empty when it is not of that form. */
static struct summary_text row_type(struct summary_text *t)
{
	uint64_t number;
	struct summary_text type = summary_word(t), none = { t->at, 0 };
	if (!type.len || !t->len || *t->at != '-')
		return none;
	summary_drop(t, 1);
	return summary_number(t, &number) ? type : none;
}

static int read_row(struct summary_reader *r, struct summary_text line)
{
	struct summary_text t = summary_skip(line), type = row_type(&t);
	if (!type.len)
		return summary_refuse(r, line, "expected a row of a torchsummary table: TYPE-N [shape] parameters");
	struct summary_layer *layer = summary_add(r, type, line);
	if (!layer)
		return -1;
	t = summary_skip(t);
	if (!summary_shape(&t, layer))
		return summary_refuse(r, line, "expected a shape like [-1, 64, 56, 56]");
	t = summary_skip(t);
	if (!summary_number(&t, &layer->params) || t.len)
		return summary_refuse(r, line, "expected the number of parameters at the end of the row");
	layer->has_params = true;
	return 0;
}

int summary_read_torchsummary(struct summary_reader *r)
{
	struct summary_text line;
	while (summary_row(r, &line))
		if (read_row(r, line))
			return -1;
	return 0;
}
