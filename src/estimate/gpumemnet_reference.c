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

/* One pass through the layers. */
struct walk { const struct features *f; const struct gpumemnet_settings *s; bool keeps_output; };

/* Whether the layer that follows keeps what it is given. */
static bool next_keeps(const struct walk *w, size_t i)
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
static double width_of(const struct walk *w, enum summary_kind kind)
{
	bool wide = kind == SUMMARY_SOFTMAX || kind == SUMMARY_EMBEDDING ||
		    (kind == SUMMARY_NORM && w->f->family == FEATURES_TRANSFORMER);
	return w->s->autocast && wide ? 4 : (double)w->s->value;
}

/* Bytes that stay of one layer for each element of its output. */
static double kept_of(const struct walk *w, size_t i)
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

void gpumemnet_refer(const struct features *f, const struct gpumemnet_settings *s, struct gpumemnet_reference *out)
{
	const struct walk w = { f, s, gpumemnet_keeps_output(f->activation) };
	double params = (double)f->params / (double)MIB, trainable = (double)f->trainable_params / (double)MIB;
	double batch = (double)f->batch_size / (double)MIB, largest = 0, last = 0;
	*out = (struct gpumemnet_reference){ .weights = (double)s->weight * (params + (double)s->states * trainable) };
	for (size_t i = 0; i < f->n_list; i++) {
		double elements = (double)f->list[i].activations;
		out->values += batch * elements * f->list[i].times * kept_of(&w, i);
		largest = fmax(largest, elements * width_of(&w, f->list[i].kind));
		last = elements > 0 ? elements : last;
	}
	/* The loss: the logarithm of the last layer's softmax in fp32 and its gradient. */
	out->passing = batch * fmax(2 * largest, last * (2 * 4 + (s->autocast ? 4 : 0)));
	out->forward = out->weights + out->values + out->passing + (s->autocast ? (double)s->value * params : 0);
	out->step = out->weights + (double)s->weight * (1 + (double)s->temporaries) * trainable;
	out->all = FIXED_MIB + fmax(out->forward, out->step);
}
