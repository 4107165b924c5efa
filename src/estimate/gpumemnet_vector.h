/* SPDX-License-Identifier: MIT
 *
 * What GPUMemNet's nets see of a task: numbers made from a model summary's features, once, here. Training reads them from this
 * code too (tools/vectors.c). Beside the published inputs (dissertation, section 5.4.4: layers by kind, batch size, parameters,
 * activations, activation function) they say which optimizer and precision, how large input and sequence are, and
 * what arithmetic alone gives: the *reference*, which the nets' answers are relative to.
 *
 * A change here is a new version of the weights: train again.
 */
#ifndef RAD_ESTIMATE_GPUMEMNET_VECTOR_H
#define RAD_ESTIMATE_GPUMEMNET_VECTOR_H

#include "parse/features.h"

#include <stdbool.h>

/* Layers that are alike (kind, parameters, activations) make one token, in the order in which they first appear. Those for
 * which there is no room are added up by kind. */
#define GPUMEMNET_KINDS SUMMARY_INPUT	/* kinds of layers that compute */
#define GPUMEMNET_TOKENS 64
#define GPUMEMNET_TOKEN (GPUMEMNET_KINDS + 7)

/* In the order of the vector. Sizes are log2(1 + x); shares are of the whole model. */
#define GPUMEMNET_SCALARS(X) \
	X(BATCH, "batch size") X(PARAMS, "parameters") X(TRAINABLE, "share of trainable parameters") \
	X(ACTIVATIONS, "activations of a sample") X(BATCH_ACTIVATIONS, "activations of a batch") X(LAYERS, "layers") \
	X(DEPTH, "depth") X(SEQ, "sequence length") X(INPUT, "input size") X(ATTENTION_SIZE, "attention scores of a head") \
	X(LARGEST_ACTIVATIONS, "share of the largest layer's activations") X(LAST_ACTIVATIONS, "share of the last layer's") \
	X(LARGEST_PARAMS, "share of the largest layer's parameters") \
	X(KEEPS_NONE, "no activation function shown") X(KEEPS_OUTPUT, "one that keeps its output (ReLU)") \
	X(KEEPS_INPUT, "one that keeps its input (GELU)") \
	X(STATES, "optimizer's values a parameter") X(OPTIMIZER_UNKNOWN, "optimizer not known") \
	X(WEIGHT_BYTES, "bytes of a weight") X(VALUE_BYTES, "bytes of an activation") X(AUTOCAST, "mixed precision") X(TF32, "TF32") \
	X(PRECISION_UNKNOWN, "precision not known") \
	X(REFERENCE, "reference") X(STATIC_SHARE, "share of weights and states") X(FORWARD_SHARE, "share after the forward pass") \
	X(STEP_SHARE, "share in the optimizer's step") X(VALUES_SHARE, "share of what activations keep") \
	X(PASSING_SHARE, "share of what comes and goes") \
	X(SCRATCH_SHARE, "share of the largest convolution") X(KERNEL, "kernel's side")

enum gpumemnet_scalar {
#define X(name, text) GPUMEMNET_##name,
	GPUMEMNET_SCALARS(X)
#undef X
	GPUMEMNET_SCALAR_COUNT
};

/* Behind the scalars, for each kind of layer: how many, its share of parameters, its share of activations. */
#define GPUMEMNET_INPUTS (GPUMEMNET_SCALAR_COUNT + 3 * GPUMEMNET_KINDS)

struct gpumemnet_vector {
	float inputs[GPUMEMNET_INPUTS];
	float tokens[GPUMEMNET_TOKENS][GPUMEMNET_TOKEN];
	unsigned n_tokens;
	double reference_mib;		/* context + weights, gradients, optimizer's values and activations, as they meet */
	bool optimizer_known, precision_known;	/* false: taken as Adam, fp32 */
};

/* `f` has activations and a batch size. */
void gpumemnet_vector(const struct features *f, struct gpumemnet_vector *out);

/* Whether these names of an optimizer and of a precision say anything to it; and by which parts of a name, for people. */
bool gpumemnet_knows_optimizer(const char *name);
bool gpumemnet_knows_precision(const char *name);
#define GPUMEMNET_OPTIMIZERS "adam (adamw, ...), sgd, momentum, rmsprop, adagrad, adadelta, adafactor, lamb, lars, lion"
#define GPUMEMNET_PRECISIONS "fp32, tf32, fp16, bf16, amp, mixed"

/* "batch size"; of inputs by kind "linear layers", "activations in linear layers"... Returns `text`. */
const char *gpumemnet_input_name(unsigned input, char text[64]);

#endif
