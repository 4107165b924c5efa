/* SPDX-License-Identifier: MIT
 *
 * Model summaries as people have them, read into a list of layers:
 *  - torchsummary:	a flat table of modules in the order in which they ran;
 *  - torchinfo:	a table drawn as a tree (also the older torch-summary), any of its columns;
 *  - modules:		a printed nn.Module, with or without ", 1,234 params" behind each module;
 *  - keras:		model.summary() of Keras 2 and 3, also nested.
 * Pure: text in, layers out. What the layers mean together is the business of features.h.
 *
 * Layers stand in the order of the text; `nesting` makes them a tree (a layer's children follow it, one level deeper).
 * Names point into the text, which must outlive the summary.
 */
#ifndef RAD_PARSE_SUMMARY_H
#define RAD_PARSE_SUMMARY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SUMMARY_MAX_BYTES (1u << 20)
#define SUMMARY_MAX_LAYERS 100000	/* rows; also what repeats (`12 x`) may come to */
#define SUMMARY_MAX_NESTING 64
#define SUMMARY_MAX_TYPES 500		/* different type names */
#define SUMMARY_MAX_NAME 500		/* bytes of a class or a module: it is looked at for each layer inside */
#define SUMMARY_MAX_COUNT ((uint64_t)1 << 50)	/* of parameters or elements: more is no model */

enum summary_format { SUMMARY_TORCHSUMMARY, SUMMARY_TORCHINFO, SUMMARY_MODULES, SUMMARY_KERAS };

const char *summary_format_name(enum summary_format format);

#define SUMMARY_KINDS(X) \
	X(SUMMARY_CONV, "conv")			/* convolutions, transposed and depthwise too */ \
	X(SUMMARY_LINEAR, "linear")		/* Linear, Dense, GPT-2's Conv1D */ \
	X(SUMMARY_NORM, "norm")			/* normalisation of batches, layers, groups */ \
	X(SUMMARY_DROPOUT, "dropout")		/* and stochastic depth */ \
	X(SUMMARY_ACTIVATION, "activation")	/* functions of one value */ \
	X(SUMMARY_SOFTMAX, "softmax") \
	X(SUMMARY_POOL, "pool") \
	X(SUMMARY_EMBEDDING, "embedding") \
	X(SUMMARY_ATTENTION, "attention") \
	X(SUMMARY_RECURRENT, "recurrent")	/* LSTM, GRU, RNN */ \
	X(SUMMARY_OTHER, "other")		/* reshaping, joining, unknown modules without children */ \
	X(SUMMARY_INPUT, "input")		/* Keras lists inputs as layers */ \
	X(SUMMARY_CONTAINER, "container")	/* holds others; computes nothing of its own */

enum summary_kind {
#define X(name, word) name,
	SUMMARY_KINDS(X)
#undef X
	SUMMARY_KIND_COUNT
};

const char *summary_kind_name(enum summary_kind kind);

/* A piece of the summary's text. */
struct summary_text { const char *at; uint32_t len; };

struct summary_type {
	struct summary_text name;	/* "Conv2d"; the front of it where an old Keras cut it off */
	enum summary_kind kind;		/* by the name alone; SUMMARY_CONTAINER: not known */
};

struct summary_layer {
	struct summary_text name;	/* of a printed module: "downsample", "0"; else empty */
	struct summary_text args;	/* of a printed module: what stands in its parentheses */
	uint32_t line;			/* 1-based */
	uint32_t times;			/* how often it stands in the model: product of "12 x" around it */
	uint16_t type;			/* index in `types` */
	uint8_t nesting;		/* 0: the outermost */
	bool parent;			/* has children in the text */
	bool has_params, has_shape;
	uint32_t last_dim;		/* of its (first) output */
	uint32_t batch;			/* first dimension of its output; 0: open (-1, None) */
	/* As printed. A container's figure may repeat those of its children. */
	uint64_t params;
	/* Elements of its outputs with open dimensions taken as 1. */
	uint64_t elements;
	bool open_dims;			/* a dimension other than the first is open */
};

struct summary {
	enum summary_format format;
	struct summary_layer *layers;
	struct summary_type *types;
	size_t n_layers, n_types;
	bool cumulative;	/* a parent's `params` include those of its children */
	bool more;		/* another summary follows in the text; it was not read */
	/* What the text says at its end; 0: nothing. */
	uint64_t total_params, trainable_params;
	double params_mb, forward_mb;	/* torchinfo: 10^6 bytes */
};

/* Finds out the form, and reads it. Text before a summary (a log) is passed over; text that holds none is refused with the
 * line that gave it away, as is a row that cannot be read. `name` is shown in errors ("resnet.model:4: ...").
 * Returns 0; or -1 with *out empty. */
int summary_parse(const char *name, const char *text, size_t len, struct summary *out, struct error *err);
void summary_clear(struct summary *s);

/* Whether a piece of text is exactly that word. */
static inline bool summary_is(struct summary_text t, const char *word)
{
	return t.len == strlen(word) && !memcmp(t.at, word, t.len);
}

#endif
