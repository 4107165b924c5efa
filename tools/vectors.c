/* SPDX-License-Identifier: MIT
 *
 * What GPUMemNet sees of model summaries, for training (python/radrm/gpumemnet): reads one JSON object a line,
 *	{"summary": TEXT, "batch_size": N, "seq_len": N, "input": [C, H, W], "optimizer": NAME, "precision": NAME}
 * of which all but the first may be missing, and writes one for each: family, reference_mib, inputs, tokens, what the published
 * nets are given (layers by type, parameters, activations, the layers themselves), the roles of layers to the host, or an error. Of the
 * project's build, never installed. With --about: names of the inputs, and sizes.
 */
#include "base/json.h"
#include "base/scope.h"
#include "estimate/activity.h"
#include "estimate/gpumemnet_vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *reals(const float *x, unsigned n)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(list, json_real((double)x[i]));
	return list;
}

static json_t *tokens(const struct gpumemnet_vector *v)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < v->n_tokens; i++)
		json_array_append_new(list, reals(v->tokens[i], GPUMEMNET_TOKEN));
	return list;
}

/* As the published encoder has them: kind, activations, parameters; how often in a row. */
static json_t *layers(const struct features *f)
{
	json_t *list = json_array();
	for (size_t i = 0; i < f->n_list; i++)
		json_array_append_new(list, json_pack("[i, I, I, I]", (int)f->list[i].kind, (json_int_t)f->list[i].activations,
						      (json_int_t)f->list[i].params, (json_int_t)f->list[i].times));
	return list;
}

/* Of models/activity_summary.h, in its order; empty where the summary tells no load. */
static json_t *roles(const struct summary *s, const struct features *f)
{
	double times[ACTIVITY_ROLES_MOST];
	json_t *list = json_array();
	size_t n = activity_summary_roles(s, f, times);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_real(times[i]));
	return list;
}

static json_t *counts(const struct summary *s, const struct features *f)
{
	json_t *all = json_object();
	for (size_t i = 0; i < f->n_types; i++) {
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)s->types[i].name.len, s->types[i].name.at);
		if (f->types[i].layers)
			json_object_set_new(all, name, json_integer((json_int_t)f->types[i].layers));
	}
	return all;
}

static json_t *describe(const struct summary *s, const struct features *f)
{
	struct gpumemnet_vector v;
	gpumemnet_vector(f, &v);
	return json_pack("{ss, sf, so, so, sI, sI, sI, sI, ss, so, so, so}", "family", features_family_name(f->family), "reference_mib",
			 v.reference_mib, "inputs", reals(v.inputs, GPUMEMNET_INPUTS), "tokens", tokens(&v),
			 "batch_size", (json_int_t)f->batch_size, "depth", (json_int_t)f->depth, "params", (json_int_t)f->params,
			 "activations", (json_int_t)f->activations, "activation", f->activation, "types", counts(s, f),
			 "layers", layers(f), "roles", roles(s, f));
}

static json_t *answer(json_t *asked)
{
	struct features_given given = {
		.batch_size = json_integer_value(json_object_get(asked, "batch_size")),
		.seq_len = json_integer_value(json_object_get(asked, "seq_len")),
		.optimizer = json_string_value(json_object_get(asked, "optimizer")),
		.precision = json_string_value(json_object_get(asked, "precision")),
	};
	json_t *text = json_object_get(asked, "summary"), *said;
	struct error err = ERROR_INIT;
	struct summary summary;
	struct features features;
	for (size_t i = 0; i < 3; i++)
		given.input[i] = json_integer_value(json_array_get(json_object_get(asked, "input"), i));
	if (!json_is_string(text) ||
	    summary_parse("summary", json_string_value(text), json_string_length(text), &summary, &err))
		return json_pack("{ss}", "error", err.code ? err.text : "no \"summary\"");
	features_from_summary(&summary, &given, &features);
	if (!features.activations_known || features.batch_size <= 0)
		said = json_pack("{ss}", "error", "no activations, or no batch size");
	else
		said = describe(&summary, &features);
	features_clear(&features);
	summary_clear(&summary);
	return said;
}

static json_t *about(void)
{
	json_t *names = json_array();
	for (unsigned i = 0; i < GPUMEMNET_INPUTS; i++) {
		char name[64];
		json_array_append_new(names, json_text(gpumemnet_input_name(i, name)));
	}
	return json_pack("{so, si, si}", "inputs", names, "tokens", GPUMEMNET_TOKENS, "token", (int)GPUMEMNET_TOKEN);
}

static void print(json_t *v)
{
	scoped_free char *text = json_dumps(v, JSON_COMPACT | JSON_REAL_PRECISION(9));
	puts(text);
	json_decref(v);
}

int main(int argc, char **argv)
{
	scoped_free char *line = NULL;
	size_t size = 0;
	if (argc == 2 && !strcmp(argv[1], "--about")) {
		print(about());
		return 0;
	}
	while (getline(&line, &size, stdin) > 0) {
		scoped_json *asked = json_loads(line, 0, NULL);
		print(asked ? answer(asked) : json_pack("{ss}", "error", "not JSON"));
	}
	return 0;
}
