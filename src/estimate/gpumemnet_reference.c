/* SPDX-License-Identifier: MIT
 *
 * Memory by arithmetic: what PyTorch's derivative formulas keep of each layer's output, weights, gradients and the optimizer's
 * values. It need not be right: it takes out of the nets' task what is known, above all that memory goes with the batch.
 */
#include "estimate/gpumemnet_reference.h"

#include "base/scope.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

#define FIXED_MIB 800.0	/* context on the card of the training set (models/overheads.h) and cuBLAS's two workspaces */
#define INDEX_BYTES 8	/* max pooling keeps where the largest values stood */

bool gpumemnet_keeps_output(const char *activation)
{
	static const char *const names[] = { "ReLU", "Tanh", "Sigmoid" };
	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (!strcmp(activation, names[i]))
			return true;
	return false;
}

/* One pass through the layers. `made`: elements of the sample and of all outputs so far, the most that a layer can be given. */
struct reference_walk { const struct features *f; const struct gpumemnet_settings *s; bool keeps_output; double kernel, made; };

/* Whether the layer that follows keeps what it is given. */
static bool next_keeps(const struct reference_walk *w, size_t i)
{
	const struct features_layer *l = &w->f->list[i];
	if (l->times == 1 && i + 1 == w->f->n_list)
		return false;
	switch (l->times > 1 ? l->kind : w->f->list[i + 1].kind) {
	case SUMMARY_ACTIVATION:
		return !w->keeps_output;
	case SUMMARY_DROPOUT:
	case SUMMARY_SOFTMAX:
		return false;
	default:
		return true;
	}
}

/* Bytes of one value of a layer's output: autocast computes norms over tokens, softmax and embeddings in fp32. */
static double width_of(const struct reference_walk *w, enum summary_kind kind)
{
	bool wide = kind == SUMMARY_SOFTMAX || kind == SUMMARY_EMBEDDING ||
		    (kind == SUMMARY_NORM && w->f->family == FEATURES_TRANSFORMER);
	return w->s->autocast && wide ? 4 : (double)w->s->value;
}

/* Bytes that stay of one layer for each element of its output. */
static double kept_of(const struct reference_walk *w, size_t i)
{
	enum summary_kind kind = w->f->list[i].kind;
	double width = width_of(w, kind);
	bool keeps_own = kind == SUMMARY_SOFTMAX || (kind == SUMMARY_ACTIVATION && w->keeps_output);
	double kept = keeps_own || next_keeps(w, i) ? width : 0;
	if (kind == SUMMARY_DROPOUT)
		kept += 1;			/* its mask */
	if (kind == SUMMARY_POOL)
		kept += INDEX_BYTES;
	if (kind == SUMMARY_ATTENTION)
		kept += 4 * (double)w->s->value;	/* queries, keys, values, and what is projected */
	if (width > (double)w->s->value)
		kept += (double)w->s->value;		/* the copy that the next product takes */
	return kept;
}

/* Side of a square kernel, by the values that a convolution takes for each of its outputs (side x side x channels, and perhaps
 * a bias): the one that fits the channels of the layer before it, else that of the convolution before it. */
static double kernel_of(double values, double channels_before, double side_before)
{
	static const double sides[] = { 1, 3, 5, 7, 9, 11, 14, 16, 32 };	/* the last three cut images into patches */
	const size_t n = channels_before <= 3 ? COUNT_OF(sides) : 6;
	for (size_t i = 0; i < n; i++) {
		double all = sides[i] * sides[i] * channels_before;
		if (values == all || values == all + 1)
			return sides[i];
	}
	return side_before;
}

/* Side of a square image; 0: the layer gives none. A vector's last dimension is its features: taken for a width, it makes
 * images of a thousand by a thousand points out of a classifier between two convolutions, or of a class token before one. */
static double side_of(const struct features_layer *l)
{
	uint64_t side = l ? l->last_dim : 0;
	bool vectors = l && (l->kind == SUMMARY_LINEAR || l->kind == SUMMARY_EMBEDDING || l->kind == SUMMARY_ATTENTION);
	return side && !vectors && l->activations % (side * side) == 0 ? (double)side : 0;
}

/* Elements of what a linear layer or a convolution takes in: its parameters tell. 0: not known. */
static double guess_input(struct reference_walk *w, const struct features_layer *l, const struct features_layer *before)
{
	double params = (double)l->params, elements = (double)l->activations, width = l->last_dim;
	if (!l->last_dim || !l->activations || (l->kind != SUMMARY_LINEAR && l->kind != SUMMARY_CONV))
		return 0;
	if (l->kind == SUMMARY_LINEAR)
		return floor(params / width) * (elements / width);
	double values = floor(params / fmax(elements / (width * width), 1));
	double side = side_of(before) > 0 ? side_of(before) : width;
	if (side_of(before) > 0)
		w->kernel = kernel_of(values, (double)before->activations / (side * side), w->kernel);
	else	/* images have three channels, or one */
		w->kernel = kernel_of(values, 3, kernel_of(values, 1, w->kernel));
	return floor(values / (w->kernel * w->kernel)) * side * side;
}

/* A guess is a guess, but nothing is given more than there is: only the first layer reads what no layer made. */
static double input_of(struct reference_walk *w, const struct features_layer *l, const struct features_layer *before)
{
	double input = guess_input(w, l, before);
	return before ? fmin(input, w->made) : input;
}

void gpumemnet_refer(const struct features *f, const struct gpumemnet_settings *s, struct gpumemnet_reference *out)
{
	struct reference_walk w = { f, s, gpumemnet_keeps_output(f->activation), 3, 0 };
	const struct features_layer *before = NULL;
	double params = (double)f->params / (double)MIB, trainable = (double)f->trainable_params / (double)MIB;
	double batch = (double)f->batch_size / (double)MIB, largest = 0, last = 0;
	*out = (struct gpumemnet_reference){ .weights = (double)s->weight * (params + (double)s->states * trainable) };
	for (size_t i = 0; i < f->n_list; i++) {
		const struct features_layer *l = &f->list[i];
		double elements = (double)l->activations;
		/* More than the layer before it gave: the sample itself, or what was joined to it. */
		double input = input_of(&w, l, before), more = fmax(0, input - (before ? (double)before->activations : 0));
		more = more > 0.1 * elements || !before ? more * (double)s->value : 0;	/* a bias is none */
		out->values += batch * (elements * kept_of(&w, i) + more) * l->times;
		if (l->kind == SUMMARY_CONV)
			out->scratch = fmax(out->scratch, batch * (input + elements) * (double)s->value);
		largest = fmax(largest, fmax(elements * width_of(&w, l->kind), more));
		last = elements > 0 ? elements : last;
		w.made += (before ? 0 : input) + elements * l->times;
		before = elements > 0 ? l : before;
	}
	out->kernel = w.kernel;
	/* The loss: the last layer's output, the logarithm of its softmax, the gradients of both; autocast computes it in fp32. */
	out->passing = batch * fmax(2 * largest, last * (s->autocast ? 14 : 4 * (double)s->value));
	out->forward = out->weights + out->values + out->passing + (s->autocast ? (double)s->value * params : 0);
	out->step = out->weights + (double)s->weight * (1 + (double)s->temporaries) * trainable;
	out->all = FIXED_MIB + fmax(out->forward, out->step);
}
