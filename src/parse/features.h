/* SPDX-License-Identifier: MIT
 *
 * What a model summary says of a training task, for estimators of memory: the features of GPUMemNet (dissertation, section 5.4)
 * and those it lacks (optimizer, precision, input size, sequence length).
 *
 * A layer here is a module without children, or one with parameters of its own; containers are none. Activations are the
 * elements of layers' outputs in one forward pass over one sample: a layer that is called twice counts twice, parameters
 * that are shared count once. What the text does not show (sizes, when modules are only printed) is worked out by following
 * shapes through the layers; every guess leaves a note.
 */
#ifndef RAD_PARSE_FEATURES_H
#define RAD_PARSE_FEATURES_H

#include "parse/summary.h"

#define FEATURES_FAMILIES(X) \
	X(FEATURES_MLP, "mlp") \
	X(FEATURES_CNN, "cnn") \
	X(FEATURES_TRANSFORMER, "transformer") \
	X(FEATURES_OTHER, "other")	/* recurrent and recommender models, and the unknown */

enum features_family {
#define X(name, word) name,
	FEATURES_FAMILIES(X)
#undef X
	FEATURES_FAMILY_COUNT
};

const char *features_family_name(enum features_family family);

/* What is known beside the summary; it beats what the summary says. 0 or NULL: not known. */
struct features_given {
	int64_t batch_size, seq_len;
	int64_t input[3];		/* of an image: channels, height, width */
	const char *optimizer, *precision;
};

/* One layer, or several alike in a row, in the order of the text. */
struct features_layer {
	enum summary_kind kind;
	uint16_t type;			/* index in the summary's types */
	uint32_t times;
	uint64_t params, activations;	/* of one */
	uint32_t last_dim;		/* of its output: features, or an image's width; 0: the text does not show it */
	uint32_t side;			/* the same, worked out where the text does not show it; 0: not known */
};

/* Layers of one class. */
struct features_type { uint64_t layers, params, activations; };

#define FEATURES_MAX_NOTES 8

struct features {
	enum summary_format format;
	enum features_family family;
	/* Totals; those by kind and by type count the same layers. */
	uint64_t layers, params, trainable_params, activations;
	struct features_type kinds[SUMMARY_KIND_COUNT];
	struct features_type *types;	/* as many as the summary has types, in its order */
	struct features_layer *list;
	size_t n_types, n_list;
	uint64_t depth;			/* layers that hold weights to multiply with: conv, linear, embedding, attention, recurrent */
	bool activations_known;		/* false: the summary shows neither shapes nor anything to work them out from */
	int64_t batch_size, seq_len;	/* 0: not known */
	int64_t input[3];		/* channels, height, width; 0: not an image, or not known */
	char activation[24];		/* most frequent activation function, in PyTorch's spelling; "": not shown */
	char optimizer[32], precision[32];	/* as given, or from the file; "": not known */
	char notes[FEATURES_MAX_NOTES][160];	/* what was assumed or does not add up */
	unsigned n_notes;
};

/* Never fails: what cannot be known is left at 0 and noted. */
void features_from_summary(const struct summary *s, const struct features_given *given, struct features *out);
void features_clear(struct features *f);

#endif
