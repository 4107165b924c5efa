/* SPDX-License-Identifier: MIT
 *
 * From a model summary's features to the nets' inputs: see gpumemnet_vector.h.
 *
 * Training reads its inputs from this very code (tools/vectors), so that the nets are asked about the same numbers that they
 * learnt from. Any change here, or in the features it reads, makes the weights wrong: train again (HACKING). Counts go in as
 * logarithms, since models span six orders of magnitude; shares stay shares.
 */
#include "estimate/gpumemnet_vector.h"
#include "estimate/gpumemnet_reference.h"

#include "base/scope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- words for optimizer and precision ---- */

/* The first row whose word is a part of the name counts. */
static const struct optimizer { const char *part; float states, temporaries; } optimizers[] = {
	{ "adafactor", 0, 1 }, { "amsgrad", 3, 1 }, { "adam", 2, 1 }, { "lamb", 2, 1 }, { "adadelta", 2, 1 }, { "adagrad", 1, 1 },
	{ "rmsprop", 1, 1 }, { "lion", 1, 1 }, { "lars", 1, 0 }, { "momentum", 1, 0 }, { "nesterov", 1, 0 }, { "sgdm", 1, 0 },
	{ "sgd", 0, 0 },
};

static const struct optimizer *find_optimizer(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(optimizers); i++)
		if (strcasestr(name, optimizers[i].part))
			return &optimizers[i];
	return NULL;
}

/* A summary that shows what its weights take ("32-bit") does not say how it is computed with. PyTorch lets convolutions use
 * TF32 unless it is told not to; matrix products only when it is told to. */
static const struct precision {
	const char *part;
	float weight, value;
	bool autocast, tf32, tf32_convolutions, weights_only;
} precisions[] = {
	{ "32-bit", 4, 4, .weights_only = true }, { "ieee", 4, 4 },
	{ "amp", 4, 2, true }, { "auto", 4, 2, true }, { "mixed", 4, 2, true },
	{ "tf32", 4, 4, .tf32 = true }, { "32", 4, 4, .tf32_convolutions = true },
	{ "16", 2, 2 }, { "half", 2, 2 },
};

static const struct precision *find_precision(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(precisions); i++)
		if (strcasestr(name, precisions[i].part))
			return &precisions[i];
	return NULL;
}

bool gpumemnet_knows_optimizer(const char *name)
{
	return find_optimizer(name);
}

bool gpumemnet_knows_precision(const char *name)
{
	return find_precision(name);
}

/* ---- sizes ---- */

/* 1 + x, so that none is 0 and not minus infinity. */
static float size_of(double x)
{
	return (float)log2(1 + (x > 0 ? x : 0));
}

static float vector_share(double part, double whole)
{
	return whole > 0 ? (float)(part / whole) : 0;
}

static void describe_settings(const struct gpumemnet_settings *s, struct gpumemnet_vector *v)
{
	v->inputs[GPUMEMNET_STATES] = s->states;
	v->inputs[GPUMEMNET_OPTIMIZER_UNKNOWN] = !v->optimizer_known;
	v->inputs[GPUMEMNET_WEIGHT_BYTES] = s->weight;
	v->inputs[GPUMEMNET_VALUE_BYTES] = s->value;
	v->inputs[GPUMEMNET_AUTOCAST] = s->autocast;
	v->inputs[GPUMEMNET_TF32] = s->tf32;
	v->inputs[GPUMEMNET_PRECISION_UNKNOWN] = !v->precision_known;
}

static void vector_refer(const struct features *f, const struct gpumemnet_settings *settings, struct gpumemnet_vector *v)
{
	struct gpumemnet_reference r;
	gpumemnet_refer(f, settings, &r);
	v->reference_mib = r.all;
	v->inputs[GPUMEMNET_REFERENCE] = size_of(r.all);
	v->inputs[GPUMEMNET_STATIC_SHARE] = vector_share(r.weights, r.all);
	v->inputs[GPUMEMNET_FORWARD_SHARE] = vector_share(r.forward, r.all);
	v->inputs[GPUMEMNET_STEP_SHARE] = vector_share(r.step, r.all);
	v->inputs[GPUMEMNET_VALUES_SHARE] = vector_share(r.values, r.all);
	v->inputs[GPUMEMNET_PASSING_SHARE] = vector_share(r.passing, r.all);
	v->inputs[GPUMEMNET_SCRATCH_SHARE] = vector_share(r.scratch, r.all);
	v->inputs[GPUMEMNET_KERNEL] = r.scratch > 0 ? (float)r.kernel : 0;
}

static void describe_activation(const char *name, float *inputs)
{
	if (!*name || !strcmp(name, "Identity"))
		inputs[GPUMEMNET_KEEPS_NONE] = 1;
	else
		inputs[gpumemnet_keeps_output(name) ? GPUMEMNET_KEEPS_OUTPUT : GPUMEMNET_KEEPS_INPUT] = 1;
}

static void describe_layers(const struct features *f, float *inputs)
{
	uint64_t most = 0, heaviest = 0, last = 0;
	for (size_t i = 0; i < f->n_list; i++) {
		most = f->list[i].activations > most ? f->list[i].activations : most;
		heaviest = f->list[i].params > heaviest ? f->list[i].params : heaviest;
		last = f->list[i].activations ? f->list[i].activations : last;
	}
	inputs[GPUMEMNET_LARGEST_ACTIVATIONS] = vector_share((double)most, (double)f->activations);
	inputs[GPUMEMNET_LAST_ACTIVATIONS] = vector_share((double)last, (double)f->activations);
	inputs[GPUMEMNET_LARGEST_PARAMS] = vector_share((double)heaviest, (double)f->params);
	for (unsigned k = 0; k < GPUMEMNET_KINDS; k++) {
		float *of_kind = inputs + GPUMEMNET_SCALAR_COUNT + 3 * k;
		of_kind[0] = size_of((double)f->kinds[k].layers);
		of_kind[1] = vector_share((double)f->kinds[k].params, (double)f->params);
		of_kind[2] = vector_share((double)f->kinds[k].activations, (double)f->activations);
	}
}

static void describe_model(const struct features *f, float *inputs)
{
	double batch = (double)f->batch_size, seq = (double)f->seq_len;
	inputs[GPUMEMNET_BATCH] = size_of(batch);
	inputs[GPUMEMNET_PARAMS] = size_of((double)f->params);
	inputs[GPUMEMNET_TRAINABLE] = vector_share((double)f->trainable_params, (double)f->params);
	inputs[GPUMEMNET_ACTIVATIONS] = size_of((double)f->activations);
	inputs[GPUMEMNET_BATCH_ACTIVATIONS] = size_of(batch * (double)f->activations);
	inputs[GPUMEMNET_LAYERS] = size_of((double)f->layers);
	inputs[GPUMEMNET_DEPTH] = size_of((double)f->depth);
	inputs[GPUMEMNET_SEQ] = size_of(seq);
	inputs[GPUMEMNET_INPUT] = size_of((double)f->input[0] * (double)f->input[1] * (double)f->input[2]);
	inputs[GPUMEMNET_ATTENTION_SIZE] = size_of(batch * seq * seq);
}

/* ---- the layers as a sequence ---- */

/* Layers that are alike; with `mixed` those of a kind for which there was no room, added up. */
struct vector_group { enum summary_kind kind; bool mixed; uint64_t first, times; double params, activations; };

/* A model of a thousand layers has few that differ, and the encoder reads 64 tokens. The last of these, one a kind, take what
 * differs beyond that, so no layer is left out. */
static struct vector_group *group_of(struct vector_group *groups, unsigned *n, const struct features_layer *l)
{
	const unsigned single = GPUMEMNET_TOKENS - GPUMEMNET_KINDS;
	for (unsigned i = 0; i < *n; i++) {
		bool same = groups[i].params == (double)l->params && groups[i].activations == (double)l->activations;
		if (groups[i].kind == l->kind && (groups[i].mixed || same))
			return &groups[i];
	}
	groups[*n] = (struct vector_group){ .kind = l->kind, .mixed = *n >= single };
	return &groups[(*n)++];
}

static unsigned group_layers(const struct features *f, struct vector_group *groups)
{
	uint64_t at = 0;
	unsigned n = 0;
	for (size_t i = 0; i < f->n_list; at += f->list[i].times, i++) {
		const struct features_layer *l = &f->list[i];
		struct vector_group *g = group_of(groups, &n, l);
		double times = l->times;
		if (!g->times)
			g->first = at;
		g->times += l->times;
		g->params = g->mixed ? g->params + times * (double)l->params : (double)l->params;
		g->activations = g->mixed ? g->activations + times * (double)l->activations : (double)l->activations;
	}
	return n;
}

static void describe_group(const struct features *f, const struct vector_group *g, float *token)
{
	double times = (double)g->times, params = g->mixed ? g->params / times : g->params;
	double activations = g->mixed ? g->activations / times : g->activations;
	float *numbers = token + GPUMEMNET_KINDS;
	token[g->kind] = 1;
	numbers[0] = size_of(params);
	numbers[1] = size_of(activations);
	numbers[2] = size_of(times);
	numbers[3] = size_of(activations * (double)f->batch_size);
	numbers[4] = vector_share(times * params, (double)f->params);
	numbers[5] = vector_share(times * activations, (double)f->activations);
	numbers[6] = vector_share((double)g->first, (double)f->layers);
}

/* What is not known is taken as Adam, fp32. */
static struct gpumemnet_settings vector_settings_of(const struct features *f, struct gpumemnet_vector *v)
{
	struct gpumemnet_settings s = { .states = 2, .temporaries = 1, .weight = 4, .value = 4 };
	const struct optimizer *o = find_optimizer(f->optimizer);
	const struct precision *p = find_precision(f->precision);
	v->optimizer_known = o;
	v->precision_known = p && !p->weights_only;
	if (o)
		s.states = o->states, s.temporaries = o->temporaries;
	if (p)
		s = (struct gpumemnet_settings){ s.states, s.temporaries, p->weight, p->value, p->autocast,
						 p->tf32 || (p->tf32_convolutions && f->family == FEATURES_CNN) };
	return s;
}

void gpumemnet_vector(const struct features *f, struct gpumemnet_vector *out)
{
	struct vector_group groups[GPUMEMNET_TOKENS];
	memset(out, 0, sizeof *out);
	const struct gpumemnet_settings settings = vector_settings_of(f, out);
	describe_settings(&settings, out);
	vector_refer(f, &settings, out);
	describe_activation(f->activation, out->inputs);
	describe_layers(f, out->inputs);
	describe_model(f, out->inputs);
	out->n_tokens = group_layers(f, groups);
	for (unsigned i = 0; i < out->n_tokens; i++)
		describe_group(f, &groups[i], out->tokens[i]);
}

const char *gpumemnet_input_name(unsigned input, char text[64])
{
	static const char *const scalars[] = {
#define X(name, words) words,
		GPUMEMNET_SCALARS(X)
#undef X
	};
	static const char *const by_kind[] = { "%s layers", "share of parameters in %s layers", "share of activations in %s layers" };
	unsigned k = input - GPUMEMNET_SCALAR_COUNT;
	if (input < GPUMEMNET_SCALAR_COUNT)
		snprintf(text, 64, "%s", scalars[input]);
	else
		snprintf(text, 64, by_kind[k % 3], summary_kind_name((enum summary_kind)(k / 3)));
	return text;
}
