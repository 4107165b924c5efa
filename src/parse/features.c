/* SPDX-License-Identifier: MIT
 *
 * From layers to features: which rows are layers and which only hold others, what each owns, and sums. Figures that stand in
 * the text are taken from it; a printed model's others are worked out in features_shapes.c.
 */
#include "parse/features_private.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <stdio.h>
#include <string.h>

/* ---- what a row is and owns ---- */

/* A parent's figure includes its children's, `times` of them for each of the parent: what is left is its own. One pass, with
 * the open parents on a stack. */
static void own_params(const struct summary *s, struct features_fact *facts)
{
	struct { size_t at; uint64_t children; } open[SUMMARY_MAX_NESTING + 2];
	unsigned n = 0;
	for (size_t i = 0; i <= s->n_layers; i++) {
		const struct summary_layer *layer = i < s->n_layers ? &s->layers[i] : NULL;
		while (n && (!layer || s->layers[open[n - 1].at].nesting >= layer->nesting)) {
			size_t parent = open[--n].at;
			uint64_t figure = s->layers[parent].params;
			facts[parent].params = figure > open[n].children ? figure - open[n].children : 0;
			if (n)
				open[n - 1].children = summary_sum(open[n - 1].children, summary_product(figure,
					s->layers[parent].times / s->layers[open[n - 1].at].times));
		}
		if (!layer)
			break;
		if (layer->parent) {
			open[n].at = i;
			open[n++].children = 0;
			continue;
		}
		facts[i].params = layer->params;
		if (n)
			open[n - 1].children = summary_sum(open[n - 1].children, summary_product(layer->params,
				layer->times / s->layers[open[n - 1].at].times));
	}
}

static enum summary_kind resolve_kind(const struct summary *s, size_t i, uint64_t own)
{
	const struct summary_layer *layer = &s->layers[i];
	enum summary_kind kind = s->types[layer->type].kind;
	bool attention = summary_is(s->types[layer->type].name, "MultiheadAttention");
	if (kind == SUMMARY_INPUT)
		return kind;
	bool list = summary_is(s->types[layer->type].name, "Sequential") || summary_is(s->types[layer->type].name, "ModuleList");
	if (own == 0 && !attention && (layer->parent || list))
		return SUMMARY_CONTAINER;
	if (s->format == SUMMARY_TORCHSUMMARY && own == 0) {
		/* A flat table: a class of somebody's own that holds nothing stands for its children. */
		bool weighted = kind == SUMMARY_CONV || kind == SUMMARY_LINEAR || kind == SUMMARY_EMBEDDING || kind == SUMMARY_ATTENTION;
		return weighted && !attention ? SUMMARY_CONTAINER : kind;
	}
	return kind == SUMMARY_CONTAINER ? SUMMARY_OTHER : kind;
}

/* torchsummary sees none of MultiheadAttention's weights: they have other names. Four projections with biases. */
static uint64_t unseen_attention(uint64_t width)
{
	return summary_sum(summary_product(4 * width, width), 4 * width);
}

static void resolve_rows(const struct summary *s, struct features_fact *facts)
{
	if (s->cumulative)
		own_params(s, facts);
	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *layer = &s->layers[i];
		if (!s->cumulative)
			facts[i].params = layer->params;
		if (s->format == SUMMARY_TORCHSUMMARY && !layer->params &&
		    summary_is(s->types[layer->type].name, "MultiheadAttention"))
			facts[i].params = unseen_attention(layer->last_dim);
		facts[i].elements = layer->has_shape ? layer->elements : 0;
		facts[i].kind = resolve_kind(s, i, facts[i].params);
	}
}

/* ---- shared weights ---- */

/* Whether the class of the whole model names one of the architectures that keep input and output embeddings apart. */
static bool keeps_apart(const struct summary *s)
{
	static const char *const roots[] = { "Llama", "Mistral", "Mixtral", "GPTNeoX", "GPTJ", "Falcon", "Phi", "Qwen", "Olmo",
		"StableLm", "Persimmon", "Deepseek", "Glm" };
	for (size_t i = 0; i < s->n_layers && i < 4; i++)
		for (size_t k = 0; k < COUNT_OF(roots); k++)
			if (summary_starts(s->types[s->layers[i].type].name, roots[k]))
				return true;
	return false;
}

static uint64_t outputs_of(const struct summary *s, size_t i)
{
	int64_t out = s->layers[i].last_dim;
	if (s->format == SUMMARY_MODULES && !features_arg_numbers(s->layers[i].args, "out_features", &out, 1))
		return 0;
	return out > 0 ? (uint64_t)out : 0;
}

/* A linear layer with one output a word and the weights of the embedding at `words`, with or without a bias. */
static bool mirrors(const struct summary *s, const struct features_fact *facts, size_t i, size_t words)
{
	if (facts[i].kind != SUMMARY_LINEAR || s->format == SUMMARY_KERAS || facts[i].params < facts[words].params)
		return false;
	uint64_t out = outputs_of(s, i), bias = facts[i].params - facts[words].params;
	return out >= 1000 && facts[words].params % out == 0 && (!bias || bias == out);
}

/* A module around the output layer that holds the same bias once more (BERT's prediction head). */
static void share_bias(const struct summary *s, struct features_fact *facts, size_t i)
{
	for (size_t k = i; k-- > 0; )
		if (s->layers[k].nesting < s->layers[i].nesting) {
			if (facts[i].params && facts[k].params == facts[i].params && s->layers[k].parent) {
				facts[k].params = 0;
				facts[k].kind = SUMMARY_CONTAINER;
			}
			return;
		}
}

/* The output layer of a language model usually is its embedding, transposed; T5 and BART print their embedding once more in
 * encoder and decoder. */
static void find_shared(const struct summary *s, struct features_fact *facts, struct features *f)
{
	size_t words = SIZE_MAX;
	for (size_t i = 0; i < s->n_layers; i++) {
		if (words == SIZE_MAX || (facts[i].kind == SUMMARY_EMBEDDING && facts[i].params > facts[words].params)) {
			words = facts[i].kind == SUMMARY_EMBEDDING && facts[i].params ? i : words;
		} else if (facts[i].kind == SUMMARY_EMBEDDING && facts[i].params == facts[words].params &&
			   summary_is(s->layers[words].name, "shared")) {
			facts[i].params = 0;
		} else if (mirrors(s, facts, i, words)) {
			bool apart = keeps_apart(s);
			features_note(f, "line %u: taken as %s the embedding in line %u", s->layers[i].line,
				      apart ? "apart from" : "sharing its weights with", s->layers[words].line);
			if (apart)
				return;
			facts[i].params -= facts[words].params;
			share_bias(s, facts, i);
			return;
		}
	}
}

/* ---- sums ---- */

static bool hands_on(struct summary_text type)
{
	return summary_is(type, "Identity") || summary_is(type, "Flatten") || summary_is(type, "Unflatten");
}

static void count(struct features_type *t, uint64_t times, uint64_t params, uint64_t activations)
{
	t->layers += times;
	t->params = summary_sum(t->params, summary_product(params, times));
	t->activations = summary_sum(t->activations, summary_product(activations, times));
}

static void list_layer(struct features *f, const struct features_layer *l)
{
	struct features_layer *last = f->n_list ? &f->list[f->n_list - 1] : NULL;
	if (last && last->type == l->type && last->params == l->params && last->activations == l->activations &&
	    l->times <= UINT32_MAX - last->times)
		last->times += l->times;
	else
		f->list[f->n_list++] = *l;
}

static void sum_up(const struct summary *s, const struct features_fact *facts, struct features *f)
{
	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *layer = &s->layers[i];
		enum summary_kind kind = facts[i].kind;
		f->params = summary_sum(f->params, summary_product(facts[i].params, layer->times));
		if (kind == SUMMARY_CONTAINER || kind == SUMMARY_INPUT)
			continue;
		uint64_t elements = hands_on(s->types[layer->type].name) ? 0 : facts[i].elements;
		struct features_layer l = { kind, layer->type, layer->times, facts[i].params, elements, layer->last_dim,
					    layer->last_dim ? layer->last_dim : facts[i].side };
		list_layer(f, &l);
		count(&f->kinds[kind], layer->times, l.params, elements);
		count(&f->types[layer->type], layer->times, l.params, elements);
		f->layers += layer->times;
		f->activations = summary_sum(f->activations, summary_product(elements, layer->times));
	}
	f->depth = f->kinds[SUMMARY_CONV].layers + f->kinds[SUMMARY_LINEAR].layers + f->kinds[SUMMARY_EMBEDDING].layers +
		   f->kinds[SUMMARY_ATTENTION].layers + f->kinds[SUMMARY_RECURRENT].layers;
	f->trainable_params = s->trainable_params && s->trainable_params < f->params ? s->trainable_params : f->params;
	if (s->total_params && s->total_params != f->params)
		features_note(f, "the file says %ju parameters in total, its layers come to %ju", (uintmax_t)s->total_params,
			      (uintmax_t)f->params);
}

/* ---- tables: shapes are there, for a whole batch ---- */

static uint64_t batch_of(const struct summary *s)
{
	for (size_t i = 0; i < s->n_layers; i++)
		if (s->layers[i].has_shape)
			return s->layers[i].batch;
	return 0;
}

static void per_sample(const struct summary *s, const struct features_given *given, struct features_fact *facts,
		       struct features *f)
{
	uint64_t batch = batch_of(s);
	bool open = false;
	for (size_t i = 0; i < s->n_layers; i++) {
		const struct summary_layer *layer = &s->layers[i];
		if (layer->open_dims && given->seq_len > 0)
			facts[i].elements = summary_product(facts[i].elements, (uint64_t)given->seq_len);
		open |= layer->open_dims;
		if (batch > 1 && layer->batch != 1)	/* what is made once for the whole batch stays whole */
			facts[i].elements = (facts[i].elements + batch / 2) / batch;
		f->activations_known |= layer->has_shape;
		if (facts[i].kind == SUMMARY_EMBEDDING && layer->has_shape && !layer->open_dims && layer->last_dim && !f->seq_len)
			f->seq_len = (int64_t)(facts[i].elements / layer->last_dim);
	}
	if (open)
		features_note(f, given->seq_len > 0 ? "open dimensions taken as the sequence length" :
			      "open dimensions taken as 1: --seq-len N says what they are");
	if (!f->batch_size)
		f->batch_size = (int64_t)batch;
}

/* A torchinfo table cut off at a depth hides layers, but says at its end what all outputs come to, twice (forward and
 * backward), in bytes; and what a parameter takes. */
static void hidden_layers(const struct summary *s, const struct features_fact *facts, struct features *f)
{
	double width = s->params_mb > 0 && s->total_params ? s->params_mb * 1e6 / (double)s->total_params : 4;
	uint64_t batch = batch_of(s);
	bool hidden = false, half = width > 1.5 && width < 2.5;
	for (size_t i = 0; i < s->n_layers; i++)
		hidden |= facts[i].kind == SUMMARY_OTHER && s->types[s->layers[i].type].kind == SUMMARY_CONTAINER && facts[i].params;
	if (!f->precision[0] && s->params_mb > 0.05 && s->total_params)
		snprintf(f->precision, sizeof f->precision, "%s", width > 3 && width < 5 ? "32-bit" : half ? "16-bit" : "");
	if (!hidden || s->forward_mb <= 0)
		return;
	double all = s->forward_mb * 1e6 / 2 / (half ? 2 : 4) / (double)(batch ? batch : 1);
	if (all < (double)SUMMARY_MAX_COUNT && (uint64_t)all > f->activations) {
		f->kinds[SUMMARY_OTHER].activations += (uint64_t)all - f->activations;
		f->activations = (uint64_t)all;
		features_note(f, "the table hides inner layers: activations are its total, of layers with parameters "
			      "(a larger depth shows all)");
	}
}

/* ---- words ---- */

static void name_activation(const struct summary *s, struct features *f)
{
	static const struct { const char *part, *name; } spelled[] = {
		{ "LeakyReLU", "LeakyReLU" }, { "LeakyReLu", "LeakyReLU" }, { "PReLU", "PReLU" }, { "GELU", "GELU" },
		{ "ReLU", "ReLU" }, { "ReLu", "ReLU" }, { "SiLU", "SiLU" }, { "wish", "SiLU" }, { "SELU", "SELU" },
		{ "ELU", "ELU" }, { "Mish", "Mish" }, { "Tanh", "Tanh" }, { "Softplus", "Softplus" }, { "igmoid", "Sigmoid" },
	};
	uint64_t most = 0;
	size_t best = 0;
	for (size_t i = 0; i < s->n_types; i++) {
		uint64_t layers = s->types[i].kind == SUMMARY_ACTIVATION ? 2 * f->types[i].layers : 0;
		if (layers && summary_contains(s->types[i].name, "igmoid"))
			layers = 1;	/* gates, mostly: only where there is nothing else */
		if (layers > most) {
			most = layers;
			best = i;
		}
	}
	if (!most)
		return;
	struct summary_text name = s->types[best].name;
	snprintf(f->activation, sizeof f->activation, "%.*s", (int)name.len, name.at);
	for (size_t k = 0; k < COUNT_OF(spelled); k++)
		if (summary_contains(name, spelled[k].part)) {
			snprintf(f->activation, sizeof f->activation, "%s", spelled[k].name);
			return;
		}
}

static bool has_class(const struct summary *s, const char *part)
{
	for (size_t i = 0; i < s->n_types; i++)
		if (summary_contains(s->types[i].name, part))
			return true;
	return false;
}

static enum features_family family_by_layers(const struct summary *s, const struct features *f)
{
	const struct features_type *k = f->kinds;
	bool attends = k[SUMMARY_ATTENTION].layers || has_class(s, "Attention") || has_class(s, "Transformer") ||
		       (k[SUMMARY_EMBEDDING].layers && has_class(s, "LayerNorm"));
	if (attends && k[SUMMARY_CONV].layers <= k[SUMMARY_LINEAR].layers + k[SUMMARY_ATTENTION].layers)
		return FEATURES_TRANSFORMER;
	if (k[SUMMARY_CONV].layers)
		return FEATURES_CNN;
	bool plain = k[SUMMARY_LINEAR].layers && !k[SUMMARY_EMBEDDING].layers && !k[SUMMARY_RECURRENT].layers;
	return plain ? FEATURES_MLP : FEATURES_OTHER;
}

static void take_given(const struct features_given *g, struct features *f)
{
	f->batch_size = g->batch_size;
	f->seq_len = g->seq_len;
	memcpy(f->input, g->input, sizeof f->input);
	snprintf(f->optimizer, sizeof f->optimizer, "%s", g->optimizer ? g->optimizer : "");
	snprintf(f->precision, sizeof f->precision, "%s", g->precision ? g->precision : "");
}

void features_from_summary(const struct summary *s, const struct features_given *given, struct features *out)
{
	scoped_free struct features_fact *facts = alloc_zero(s->n_layers * sizeof *facts);
	*out = (struct features){ .format = s->format, .n_types = s->n_types };
	out->types = alloc_zero(s->n_types * sizeof *out->types);
	out->list = alloc_zero(s->n_layers * sizeof *out->list);
	take_given(given, out);
	resolve_rows(s, facts);
	if (s->format == SUMMARY_MODULES)
		features_follow_shapes(s, given, facts, out);
	else
		per_sample(s, given, facts, out);
	find_shared(s, facts, out);
	sum_up(s, facts, out);
	if (s->format == SUMMARY_TORCHINFO)
		hidden_layers(s, facts, out);
	name_activation(s, out);
	out->family = family_by_layers(s, out);
	if (!out->activations_known)
		features_note(out, "activations are not known: the summary shows no output shapes");
	if (s->more)
		features_note(out, "only the first of several summaries in the file is read");
}
