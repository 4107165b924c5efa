/* SPDX-License-Identifier: MIT
 *
 * The nets of GPUMemNet (dissertation, section 5.4.4): an ensemble of multilayer perceptrons, and a transformer encoder over a
 * model's layers, both classifiers. Their classes are bins of memory / reference (gpumemnet_vector.h), finer than the
 * published ones. The weights file, and the formulas, are doc/gpumemnet-format.md.
 *
 * A struct net points into the file's bytes, which must outlive it. Nothing here allocates.
 */
#ifndef RAD_ESTIMATE_NET_H
#define RAD_ESTIMATE_NET_H

#include "base/error.h"
#include "estimate/gpumemnet_vector.h"

#include <stddef.h>
#include <stdint.h>

#define NET_VERSION 1
#define NET_MAX_BYTES (8u << 20)
#define NET_MAX_BINS 128
#define NET_MAX_MEMBERS 16
#define NET_MAX_LAYERS 8	/* of a perceptron */
#define NET_MAX_WIDTH 256	/* of its layers */
#define NET_MAX_BLOCKS 4	/* of an encoder */
#define NET_MAX_MODEL 64	/* width of an encoder; inside a block four times that */
#define NET_LANES 4		/* rows of weights are padded to a multiple of this */

/* y = weights x + bias; weights stand input by input, `stride` to a row. */
struct net_matrix { const float *weights, *bias; uint32_t in, out, stride; };

struct net_perceptron { struct net_matrix layers[NET_MAX_LAYERS]; unsigned n; };

struct net_norm { const float *gain, *bias; };

struct net_block {
	struct net_norm before_attention, before_forward;
	struct net_matrix qkv, out, up, down;
};

struct net_encoder {
	const float *mean, *scale;	/* of a token's numbers */
	uint32_t width, heads;
	struct net_matrix embed;
	struct net_block blocks[NET_MAX_BLOCKS];
	unsigned n;			/* 0: there is no encoder */
	struct net_norm norm;
	struct net_perceptron head;	/* on the tokens' mean and maximum, and the inputs */
};

/* The nets of one family of models. */
struct net {
	char card[32], stack[64];		/* what the training set was measured on */
	const float *low, *high, *mean, *scale;	/* of inputs: range of the training set, and normalisation */
	const float *edges;			/* of the bins, log2(memory / reference), rising; one more than bins */
	uint32_t bins;
	struct net_perceptron members[NET_MAX_MEMBERS];
	unsigned n_members;
	struct net_encoder encoder;
	float encoder_share;			/* of the answer; 0: the ensemble alone, 1: the encoder alone */
};

/* The nets of a family from a weights file, whose first byte is aligned as a float. Checks structure and bounds, not every
 * number. Returns 0; or -1 when it is no such file, or holds none for that family (ERR_NOT_FOUND). */
int net_read(const void *bytes, size_t n, enum features_family family, struct net *out, struct error *err);
/* The whole file: its checksum, every family, and that each number is finite. */
int net_verify(const void *bytes, size_t n, struct error *err);

/* Probabilities of the bins, by the ensemble, by the encoder, and by both as the file weighs them. */
void net_ensemble(const struct net *net, const struct gpumemnet_vector *v, float *probabilities);
void net_encode(const struct net *net, const struct gpumemnet_vector *v, float *probabilities);
void net_answer(const struct net *net, const struct gpumemnet_vector *v, float *probabilities);

#endif
