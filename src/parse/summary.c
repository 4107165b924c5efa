/* SPDX-License-Identifier: MIT
 *
 * Model summaries: which form a text has. People paste what is on their screen: a summary may stand in a log, so text before it
 * is passed over, and the form is told by the first line that begins one, whatever comes behind it.
 */
#include "parse/summary_private.h"

#include <stdlib.h>
#include <string.h>

static const char *const format_names[] = { "torchsummary", "torchinfo", "modules", "keras" };

const char *summary_format_name(enum summary_format format)
{
	return format_names[format];
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
