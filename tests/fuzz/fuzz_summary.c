/* SPDX-License-Identifier: MIT
 * Readers of model summaries, fed arbitrary text. What they accept stays within its bounds, its features add up, and the
 * inputs of nets and the load that are made from them are numbers.
 */
#include "estimate/activity.h"
#include "estimate/gpumemnet_vector.h"

#include "fuzz.h"

#include <math.h>

static void check_layers(const struct summary *s)
{
	FUZZ_HOLDS(s->n_layers > 0 && s->n_layers <= SUMMARY_MAX_LAYERS && s->n_types <= SUMMARY_MAX_TYPES);
	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *l = &s->layers[i];
		FUZZ_HOLDS(l->type < s->n_types && l->times >= 1 && l->times <= SUMMARY_MAX_LAYERS);
		FUZZ_HOLDS(l->nesting <= SUMMARY_MAX_NESTING && l->params <= SUMMARY_MAX_COUNT && l->elements <= SUMMARY_MAX_COUNT);
		FUZZ_HOLDS(!l->parent || (i + 1 < s->n_layers && l[1].nesting > l->nesting));
	}
}

static void check_vector(const struct features *f)
{
	struct gpumemnet_vector v;
	gpumemnet_vector(f, &v);
	FUZZ_HOLDS(v.n_tokens <= GPUMEMNET_TOKENS && (v.n_tokens > 0 || !f->n_list) && v.reference_mib > 0);
	for (unsigned i = 0; i < GPUMEMNET_INPUTS; i++)
		FUZZ_HOLDS(isfinite(v.inputs[i]));
	for (unsigned t = 0; t < v.n_tokens; t++)
		for (unsigned i = 0; i < GPUMEMNET_TOKEN; i++)
			FUZZ_HOLDS(isfinite(v.tokens[t][i]) && v.tokens[t][i] >= 0);
}

static void check_load(const struct summary *s, const struct features *f)
{
	struct activity a;
	if (activity_from_summary(s, f, "NVIDIA H200", &a, NULL))
		FUZZ_HOLDS(a.step_s == 0 && a.load.source == LOAD_UNKNOWN);
	else
		FUZZ_HOLDS(isfinite(a.step_s) && a.step_s > 0 && a.load.load.gract >= 0 && a.load.load.gract <= 1 &&
			   a.load.load.smact <= a.load.load.gract && isfinite(a.load.watts));
}

static void check_features(const struct summary *s, const struct features_given *given)
{
	struct features f;
	uint64_t by_kind = 0, by_type = 0, listed = 0;
	features_from_summary(s, given, &f);
	FUZZ_HOLDS(f.params <= SUMMARY_MAX_COUNT && f.activations <= SUMMARY_MAX_COUNT && f.n_list <= s->n_layers);
	for (unsigned k = 0; k < SUMMARY_KIND_COUNT; k++)
		by_kind += f.kinds[k].layers;
	for (size_t i = 0; i < f.n_types; i++)
		by_type += f.types[i].layers;
	for (size_t i = 0; i < f.n_list; i++)
		listed += f.list[i].times;
	FUZZ_HOLDS(by_kind == f.layers && by_type == f.layers && listed == f.layers);
	check_vector(&f);
	check_load(s, &f);
	features_clear(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct features_given given[] = {
		{ 0 }, { .batch_size = 32, .seq_len = 128, .input = { 3, 32, 32 } }, { .seq_len = INT64_MAX, .input = { INT64_MAX, INT64_MAX, 1 } },
	};
	struct summary s;
	struct error err;
	if (summary_parse("fuzz", (const char *)data, size, &s, &err))
		return 0;
	check_layers(&s);
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		check_features(&s, &given[i]);
	summary_clear(&s);
	return 0;
}
