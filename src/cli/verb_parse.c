/* SPDX-License-Identifier: MIT
 * rad parse: what a model summary says, as the estimators see it.
 */
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/estimation.h"
#include "cli/table.h"
#include "estimate/given.h"

#include <inttypes.h>
#include <stdio.h>

static json_t *count_json(const struct features_type *t)
{
	return json_pack("{sI, sI, sI}", "layers", (json_int_t)t->layers, "params", (json_int_t)t->params, "activations",
			 (json_int_t)t->activations);
}

static json_t *kinds_json(const struct features *f)
{
	json_t *kinds = json_object();
	for (int k = 0; k < SUMMARY_CONTAINER; k++)
		if (f->kinds[k].layers)
			json_object_set_new(kinds, summary_kind_name((enum summary_kind)k), count_json(&f->kinds[k]));
	return kinds;
}

static json_t *types_json(const struct summary *s, const struct features *f)
{
	json_t *types = json_object();
	for (size_t i = 0; i < f->n_types; i++) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)s->types[i].name.len, s->types[i].name.at);
		if (f->types[i].layers)
			json_object_set_new(types, name, count_json(&f->types[i]));
	}
	return types;
}

static json_t *notes_json(const struct features *f)
{
	json_t *notes = json_array();
	for (unsigned i = 0; i < f->n_notes; i++)
		json_array_append_new(notes, json_text(f->notes[i]));
	return notes;
}

static int print_json(const struct summary *s, const struct features *f)
{
	json_t *input = f->input[1] ? json_pack("[I, I, I]", (json_int_t)f->input[0], (json_int_t)f->input[1],
						(json_int_t)f->input[2]) : json_null();
	return cli_print_json(json_pack("{si, ss, ss, sI, sI, sI, sI, so, so, so, so, so, so, so, so, so, so}", "schema", 1,
		"format", summary_format_name(f->format), "family", features_family_name(f->family),
		"layers", (json_int_t)f->layers, "depth", (json_int_t)f->depth, "params", (json_int_t)f->params,
		"trainable_params", (json_int_t)f->trainable_params,
		"activations", json_int_or_null((int64_t)f->activations, f->activations_known),
		"batch_size", json_int_or_null(f->batch_size, f->batch_size > 0),
		"seq_len", json_int_or_null(f->seq_len, f->seq_len > 0), "input", input,
		"activation", json_text_or_null(f->activation), "optimizer", json_text_or_null(f->optimizer),
		"precision", json_text_or_null(f->precision), "kinds", kinds_json(f), "types", types_json(s, f),
		"notes", notes_json(f)));
}

static void print_head(const struct features *f)
{
	printf("%s, %s\n", summary_format_name(f->format), features_family_name(f->family));
	printf("layers       %" PRIu64 ", %" PRIu64 " of them with weights to multiply with\n", f->layers, f->depth);
	printf("parameters   %" PRIu64 ", %" PRIu64 " trainable\n", f->params, f->trainable_params);
	if (f->activations_known)
		printf("activations  %" PRIu64 " a sample\n", f->activations);
	if (f->batch_size > 0)
		printf("batch size   %" PRId64 "\n", f->batch_size);
	if (f->seq_len > 0)
		printf("sequence     %" PRId64 "\n", f->seq_len);
	if (f->input[1] > 0)
		printf("input        %" PRId64 "x%" PRId64 "x%" PRId64 "\n", f->input[0], f->input[1], f->input[2]);
	if (*f->activation)
		printf("activation   %s\n", f->activation);
}

static int print_text(const struct summary *s, const struct features *f)
{
	static const struct table_column columns[] = {
		{ "TYPE", false, 20 }, { "KIND", false, 0 }, { "LAYERS", true, 0 }, { "PARAMETERS", true, 0 }, { "ACTIVATIONS", true, 0 },
	};
	struct table *t = table_create(columns, COUNT_OF(columns));
	const struct term term = term_ask();
	print_head(f);
	for (size_t i = 0; i < f->n_types; i++) {
		if (!f->types[i].layers)
			continue;
		table_printf(t, STYLE_PLAIN, "%.*s", (int)s->types[i].name.len, s->types[i].name.at);
		table_cell(t, STYLE_PLAIN, summary_kind_name(s->types[i].kind));
		table_printf(t, STYLE_PLAIN, "%" PRIu64, f->types[i].layers);
		table_printf(t, STYLE_PLAIN, "%" PRIu64, f->types[i].params);
		table_printf(t, STYLE_PLAIN, "%" PRIu64, f->types[i].activations);
	}
	table_print(t, &term, stdout);
	table_destroy(t);
	for (unsigned i = 0; i < f->n_notes; i++)
		printf("note: %s\n", f->notes[i]);
	return CLI_DONE;
}

static int parse(struct cli_call *c, const struct spec *s, bool json)
{
	struct error err = ERROR_INIT;
	struct summary summary;
	struct features features;
	if (!s->model) {
		error_set(&err, ERR_INVALID, "%.200s: names no model summary: add a line `model: FILE`", c->words[0]);
		return cli_fail(c, &err);
	}
	if (given_read(s, &summary, &features, &err))
		return cli_fail(c, &err);
	int rc = json ? print_json(&summary, &features) : print_text(&summary, &features);
	features_clear(&features);
	summary_clear(&summary);
	return rc;
}

int verb_parse(struct cli_call *c)
{
	struct estimation options_given = { 0 };
	bool json = false;
	const struct args_option options[] = {
		ESTIMATION_OPTIONS(options_given),
		{ "json", 0, NULL, "print JSON", .flag = &json }, { 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, 1))
		return c->rc;
	struct spec *s = estimation_read(c->words[0], &options_given, &err);
	if (!s)
		return options_given.usage ? cli_usage(c, "%s", err.text) : cli_fail(c, &err);
	int rc = parse(c, s, json);
	spec_unref(s);
	return rc;
}
