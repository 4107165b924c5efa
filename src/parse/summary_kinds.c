/* SPDX-License-Identifier: MIT
 *
 * What a layer is by the name of its class. Libraries wrap the same few layers under many names (Conv2dSame, LlamaRMSNorm,
 * NonDynamicallyQuantizableLinear), so most rows look at a part of the name; the first that fits counts.
 * A model has thousands of layers of few types, so the name is looked at once for each type.
 */
#include "parse/summary_private.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <string.h>

const char *summary_kind_name(enum summary_kind kind)
{
	static const char *const names[] = {
#define X(name, word) word,
		SUMMARY_KINDS(X)
#undef X
	};
	return names[kind];
}

enum how { WHOLE, FRONT, BACK, INSIDE };

static const struct rule { enum how how; const char *word; enum summary_kind kind; } rules[] = {
	/* Names that a later row would take for something else. */
	{ WHOLE, "Conv1D", SUMMARY_LINEAR },			/* Hugging Face's, of GPT-2 */
	{ INSIDE, "RotaryEmbedding", SUMMARY_OTHER },
	{ INSIDE, "Pooler", SUMMARY_CONTAINER },
	{ INSIDE, "NormActivation", SUMMARY_CONTAINER },
	{ WHOLE, "ActivityRegularization", SUMMARY_OTHER },

	{ WHOLE, "ConvLSTM2D", SUMMARY_RECURRENT },
	{ FRONT, "Conv1d", SUMMARY_CONV }, { FRONT, "Conv2d", SUMMARY_CONV }, { FRONT, "Conv3d", SUMMARY_CONV },
	{ FRONT, "Conv1D", SUMMARY_CONV }, { FRONT, "Conv2D", SUMMARY_CONV }, { FRONT, "Conv3D", SUMMARY_CONV },
	{ FRONT, "ConvTranspose", SUMMARY_CONV }, { FRONT, "LazyConv", SUMMARY_CONV },
	{ WHOLE, "SeparableConv1D", SUMMARY_CONV }, { WHOLE, "SeparableConv2D", SUMMARY_CONV },
	{ WHOLE, "DepthwiseConv1D", SUMMARY_CONV }, { WHOLE, "DepthwiseConv2D", SUMMARY_CONV },

	{ INSIDE, "BatchNorm", SUMMARY_NORM }, { INSIDE, "LayerNorm", SUMMARY_NORM }, { INSIDE, "GroupNorm", SUMMARY_NORM },
	{ INSIDE, "InstanceNorm", SUMMARY_NORM }, { BACK, "RMSNorm", SUMMARY_NORM }, { BACK, "ResponseNorm", SUMMARY_NORM },
	{ BACK, "Normalization", SUMMARY_NORM },

	{ INSIDE, "Softmax", SUMMARY_SOFTMAX }, { WHOLE, "Softmin", SUMMARY_SOFTMAX },
	{ INSIDE, "Dropout", SUMMARY_DROPOUT }, { WHOLE, "DropPath", SUMMARY_DROPOUT },
	{ WHOLE, "StochasticDepth", SUMMARY_DROPOUT },

	{ INSIDE, "GELU", SUMMARY_ACTIVATION }, { INSIDE, "SiLU", SUMMARY_ACTIVATION }, { INSIDE, "ReLU", SUMMARY_ACTIVATION },
	{ INSIDE, "ReLu", SUMMARY_ACTIVATION }, { BACK, "ELU", SUMMARY_ACTIVATION }, { INSIDE, "Swish", SUMMARY_ACTIVATION },
	{ INSIDE, "swish", SUMMARY_ACTIVATION }, { INSIDE, "Mish", SUMMARY_ACTIVATION }, { BACK, "Activation", SUMMARY_ACTIVATION },
	{ WHOLE, "Tanh", SUMMARY_ACTIVATION }, { BACK, "igmoid", SUMMARY_ACTIVATION }, { WHOLE, "Hardtanh", SUMMARY_ACTIVATION },
	{ FRONT, "Softplus", SUMMARY_ACTIVATION }, { WHOLE, "Softsign", SUMMARY_ACTIVATION }, { BACK, "shrink", SUMMARY_ACTIVATION },
	{ WHOLE, "GLU", SUMMARY_ACTIVATION }, { WHOLE, "Threshold", SUMMARY_ACTIVATION },

	{ FRONT, "MaxPool", SUMMARY_POOL }, { FRONT, "AvgPool", SUMMARY_POOL }, { FRONT, "Adaptive", SUMMARY_POOL },
	{ FRONT, "AveragePool", SUMMARY_POOL }, { FRONT, "Global", SUMMARY_POOL }, { FRONT, "LPPool", SUMMARY_POOL },
	{ FRONT, "FractionalMaxPool", SUMMARY_POOL }, { FRONT, "MaxUnpool", SUMMARY_POOL },

	{ INSIDE, "LSTM", SUMMARY_RECURRENT }, { INSIDE, "GRU", SUMMARY_RECURRENT }, { BACK, "RNN", SUMMARY_RECURRENT },
	{ WHOLE, "RNNCell", SUMMARY_RECURRENT }, { WHOLE, "Bidirectional", SUMMARY_RECURRENT },

	{ BACK, "Embedding", SUMMARY_EMBEDDING }, { WHOLE, "EmbeddingBag", SUMMARY_EMBEDDING },
	{ INSIDE, "Attention", SUMMARY_ATTENTION },
	{ BACK, "Linear", SUMMARY_LINEAR }, { FRONT, "Linear", SUMMARY_LINEAR }, { WHOLE, "Dense", SUMMARY_LINEAR },
	{ WHOLE, "Bilinear", SUMMARY_LINEAR }, { WHOLE, "EinsumDense", SUMMARY_LINEAR },

	{ WHOLE, "InputLayer", SUMMARY_INPUT },
	{ WHOLE, "Identity", SUMMARY_OTHER }, { WHOLE, "Flatten", SUMMARY_OTHER }, { WHOLE, "Unflatten", SUMMARY_OTHER },
	{ WHOLE, "Reshape", SUMMARY_OTHER }, { WHOLE, "Permute", SUMMARY_OTHER }, { WHOLE, "RepeatVector", SUMMARY_OTHER },
	{ WHOLE, "Upsample", SUMMARY_OTHER }, { FRONT, "UpSampling", SUMMARY_OTHER }, { FRONT, "Upsampling", SUMMARY_OTHER },
	{ FRONT, "ZeroPad", SUMMARY_OTHER }, { FRONT, "ReflectionPad", SUMMARY_OTHER }, { FRONT, "ReplicationPad", SUMMARY_OTHER },
	{ FRONT, "ConstantPad", SUMMARY_OTHER }, { FRONT, "CircularPad", SUMMARY_OTHER }, { FRONT, "Cropping", SUMMARY_OTHER },
	{ FRONT, "Pixel", SUMMARY_OTHER }, { WHOLE, "ChannelShuffle", SUMMARY_OTHER }, { WHOLE, "Fold", SUMMARY_OTHER },
	{ WHOLE, "Unfold", SUMMARY_OTHER }, { WHOLE, "CosineSimilarity", SUMMARY_OTHER },
	{ WHOLE, "Add", SUMMARY_OTHER }, { WHOLE, "Subtract", SUMMARY_OTHER }, { WHOLE, "Multiply", SUMMARY_OTHER },
	{ WHOLE, "Average", SUMMARY_OTHER }, { WHOLE, "Maximum", SUMMARY_OTHER }, { WHOLE, "Minimum", SUMMARY_OTHER },
	{ WHOLE, "Concatenate", SUMMARY_OTHER }, { WHOLE, "Dot", SUMMARY_OTHER }, { WHOLE, "Lambda", SUMMARY_OTHER },
	{ WHOLE, "Masking", SUMMARY_OTHER }, { WHOLE, "Rescaling", SUMMARY_OTHER }, { WHOLE, "TFOpLambda", SUMMARY_OTHER },
	{ FRONT, "Random", SUMMARY_OTHER }, { BACK, "Loss", SUMMARY_OTHER },
};

static bool fits(const struct rule *rule, struct summary_text t)
{
	size_t n = strlen(rule->word);
	switch (rule->how) {
	case WHOLE:
		return summary_is(t, rule->word);
	case FRONT:
		return summary_starts(t, rule->word);
	case BACK:
		return t.len >= n && !memcmp(t.at + t.len - n, rule->word, n);
	default:
		return summary_contains(t, rule->word);
	}
}

enum summary_kind summary_kind_of(struct summary_text type, bool cut)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (fits(&rules[i], type))
			return rules[i].kind;
	/* "BatchNo", "MaxPoo": old Keras cuts names at the column's end. */
	for (size_t i = 0; cut && type.len >= 3 && i < sizeof rules / sizeof *rules; i++)
		if (strlen(rules[i].word) >= type.len && !memcmp(rules[i].word, type.at, type.len))
			return rules[i].kind;
	return SUMMARY_CONTAINER;
}

/* ---- the table of types, and layers ---- */

/* Index of the type, new or known; SUMMARY_MAX_TYPES when there is no more room. */
static uint16_t type_index(struct summary_reader *r, struct summary_text name)
{
	struct summary *s = r->out;
	uint32_t slot = hash_bytes(HASH_SEED, name.at, name.len) % SUMMARY_SLOTS;
	for (; r->slots[slot]; slot = (slot + 1) % SUMMARY_SLOTS) {
		struct summary_text known = s->types[r->slots[slot] - 1].name;
		if (known.len == name.len && !memcmp(known.at, name.at, name.len))
			return (uint16_t)(r->slots[slot] - 1);
	}
	if (s->n_types == SUMMARY_MAX_TYPES)
		return SUMMARY_MAX_TYPES;
	alloc_grow(s->types, s->n_types, r->cap_types);
	s->types[s->n_types] = (struct summary_type){ name, summary_kind_of(name, s->format == SUMMARY_KERAS) };
	if (s->format == SUMMARY_KERAS && summary_is(name, "Conv1D"))	/* elsewhere GPT-2's linear layer */
		s->types[s->n_types].kind = SUMMARY_CONV;
	r->slots[slot] = (uint16_t)++s->n_types;
	return (uint16_t)(s->n_types - 1);
}

struct summary_layer *summary_add(struct summary_reader *r, struct summary_text type, struct summary_text line)
{
	struct summary *s = r->out;
	if (type.len > SUMMARY_MAX_NAME) {
		summary_refuse(r, line, "a longer name than any class has (500)");
		return NULL;
	}
	uint16_t index = type_index(r, type);
	if (s->n_layers == SUMMARY_MAX_LAYERS || index == SUMMARY_MAX_TYPES) {
		summary_refuse(r, line, s->n_layers == SUMMARY_MAX_LAYERS ? "more layers than any model has (100000)" :
			       "more kinds of layers than any model has (500)");
		return NULL;
	}
	alloc_grow(s->layers, s->n_layers, r->cap_layers);
	struct summary_layer *layer = &s->layers[s->n_layers++];
	*layer = (struct summary_layer){ .line = r->line, .times = 1, .type = index };
	return layer;
}
