/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of the nets. Products go over outputs, four at a time (SSE and NEON alike), and sums have one order, so that
 * every machine gets the same figures.
 *
 * No library: an answer takes microseconds (bench/README.md), and a framework would be most of the program.
 * Nothing is allocated, and all sizes were checked when the weights were read, so nothing can fail. The compiler's vector
 * extension rather than intrinsics: one source for all machines. -ffp-contract=off (meson.build) keeps sums from being fused on
 * machines that could.
 */
#include "estimate/net.h"

#include <math.h>
#include <string.h>

typedef float vec __attribute__((vector_size(4 * NET_LANES), aligned(4), may_alias));

#define NORM_LEAST 1e-5f	/* PyTorch's LayerNorm */

static vec net_load(const float *from)
{
	return *(const vec *)from;
}

static void net_store(float *to, vec v)
{
	*(vec *)to = v;
}

/* y has room for a padded row. Four sums at a time stay in registers. */
static void net_apply(const struct net_matrix *m, const float *x, float *y)
{
	uint32_t j = 0;
	for (; j + 4 * NET_LANES <= m->stride; j += 4 * NET_LANES) {
		vec a = net_load(m->bias + j), b = net_load(m->bias + j + NET_LANES);
		vec c = net_load(m->bias + j + 2 * NET_LANES), d = net_load(m->bias + j + 3 * NET_LANES);
		const float *w = m->weights + j;
		for (uint32_t i = 0; i < m->in; i++, w += m->stride) {
			a += x[i] * net_load(w);
			b += x[i] * net_load(w + NET_LANES);
			c += x[i] * net_load(w + 2 * NET_LANES);
			d += x[i] * net_load(w + 3 * NET_LANES);
		}
		net_store(y + j, a);
		net_store(y + j + NET_LANES, b);
		net_store(y + j + 2 * NET_LANES, c);
		net_store(y + j + 3 * NET_LANES, d);
	}
	for (; j < m->stride; j += NET_LANES) {
		vec a = net_load(m->bias + j);
		for (uint32_t i = 0; i < m->in; i++)
			a += x[i] * net_load(m->weights + i * m->stride + j);
		net_store(y + j, a);
	}
}

static void net_rectify(float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = x[i] > 0 ? x[i] : 0;
}

/* Less the largest, so that nothing overflows; the sum is at least 1. */
static void net_softmax(float *x, uint32_t n)
{
	float most = x[0], sum = 0;
	for (uint32_t i = 1; i < n; i++)
		most = x[i] > most ? x[i] : most;
	for (uint32_t i = 0; i < n; i++)
		sum += x[i] = expf(x[i] - most);
	for (uint32_t i = 0; i < n; i++)
		x[i] /= sum;
}

/* Linear layers with ReLU between them; `logits` has room for a padded row. */
static void net_perceive(const struct net_perceptron *p, const float *x, float *logits)
{
	float rows[2][NET_MAX_WIDTH];
	const float *from = x;
	for (unsigned i = 0; i < p->n; i++) {
		float *to = i + 1 < p->n ? rows[i % 2] : logits;
		net_apply(&p->layers[i], from, to);
		if (i + 1 < p->n)
			net_rectify(to, p->layers[i].out);
		from = to;
	}
}

/* Inputs outside the training set's range count as its ends: beyond them the nets know nothing. */
static void net_normalise(const struct net *net, const float *inputs, float *x)
{
	for (unsigned i = 0; i < GPUMEMNET_INPUTS; i++)
		x[i] = (fminf(fmaxf(inputs[i], net->low[i]), net->high[i]) - net->mean[i]) * net->scale[i];
}

void net_ensemble(const struct net *net, const struct gpumemnet_vector *v, float *probabilities)
{
	float x[GPUMEMNET_INPUTS], logits[NET_MAX_WIDTH];
	memset(probabilities, 0, net->bins * sizeof *probabilities);
	net_normalise(net, v->inputs, x);
	for (unsigned m = 0; m < net->n_members; m++) {
		net_perceive(&net->members[m], x, logits);
		net_softmax(logits, net->bins);
		for (uint32_t k = 0; k < net->bins; k++)
			probabilities[k] += logits[k] / (float)net->n_members;
	}
}

/* ---- the encoder ---- */

static void net_norm(const struct net_norm *n, uint32_t width, const float *x, float *y)
{
	float mean = 0, variance = 0, scale;
	for (uint32_t i = 0; i < width; i++)
		mean += x[i] / (float)width;
	for (uint32_t i = 0; i < width; i++)
		variance += (x[i] - mean) * (x[i] - mean) / (float)width;
	scale = 1 / sqrtf(variance + NORM_LEAST);
	for (uint32_t i = 0; i < width; i++)
		y[i] = (x[i] - mean) * scale * n->gain[i] + n->bias[i];
}

/* What the tokens' rows of one head look like: queries, keys and values one after another in a row of three widths. */
struct heads { const float *qkv; uint32_t stride, width, n; };

/* Column i of the keys, for all tokens: products over tokens then go four at a time. */
static void transpose_keys(const struct heads *h, const float *keys, float turned[][GPUMEMNET_TOKENS])
{
	for (uint32_t i = 0; i < h->width; i++) {
		memset(turned[i], 0, sizeof turned[i]);
		for (uint32_t t = 0; t < h->n; t++)
			turned[i][t] = keys[t * h->stride + i];
	}
}

static void attend_one(const struct heads *h, const float *query, const float *values, float turned[][GPUMEMNET_TOKENS],
		       float *out)
{
	float scores[GPUMEMNET_TOKENS] = { 0 };
	float scale = 1 / sqrtf((float)h->width);
	for (uint32_t i = 0; i < h->width; i++)
		for (uint32_t t = 0; t < h->n; t += NET_LANES)
			net_store(scores + t, net_load(scores + t) + query[i] * scale * net_load(turned[i] + t));
	net_softmax(scores, h->n);
	memset(out, 0, h->width * sizeof *out);
	for (uint32_t t = 0; t < h->n; t++)
		for (uint32_t i = 0; i < h->width; i++)
			out[i] += scores[t] * values[t * h->stride + i];
}

/* Scratch of a block: rows of tokens. */
struct scratch {
	float wide[GPUMEMNET_TOKENS][4 * NET_MAX_MODEL];	/* queries, keys, values; then inside the forward layers */
	float out[GPUMEMNET_TOKENS][NET_MAX_MODEL], row[NET_MAX_MODEL];
	float turned[NET_MAX_MODEL][GPUMEMNET_TOKENS];
};

/* Softmax attention, all heads, added to x: the residual way of the block. */
static void net_attend(const struct net_encoder *e, const struct net_block *b, unsigned n, float x[][NET_MAX_MODEL],
		       struct scratch *s)
{
	struct heads h = { s->wide[0], 4 * NET_MAX_MODEL, e->width / e->heads, n };
	for (unsigned t = 0; t < n; t++) {
		net_norm(&b->before_attention, e->width, x[t], s->row);
		net_apply(&b->qkv, s->row, s->wide[t]);
	}
	for (uint32_t head = 0; head < e->heads; head++) {
		const float *at = h.qkv + head * h.width;
		transpose_keys(&h, at + e->width, s->turned);
		for (unsigned t = 0; t < n; t++)
			attend_one(&h, at + t * h.stride, at + 2 * e->width, s->turned, s->out[t] + head * h.width);
	}
	for (unsigned t = 0; t < n; t++) {
		net_apply(&b->out, s->out[t], s->row);
		for (uint32_t i = 0; i < e->width; i++)
			x[t][i] += s->row[i];
	}
}

static void net_forward(const struct net_encoder *e, const struct net_block *b, unsigned n, float x[][NET_MAX_MODEL],
			struct scratch *s)
{
	for (unsigned t = 0; t < n; t++) {
		net_norm(&b->before_forward, e->width, x[t], s->row);
		net_apply(&b->up, s->row, s->wide[t]);
		net_rectify(s->wide[t], b->up.out);
		net_apply(&b->down, s->wide[t], s->row);
		for (uint32_t i = 0; i < e->width; i++)
			x[t][i] += s->row[i];
	}
}

static void net_embed(const struct net_encoder *e, const struct gpumemnet_vector *v, float x[][NET_MAX_MODEL])
{
	for (unsigned t = 0; t < v->n_tokens; t++) {
		float token[GPUMEMNET_TOKEN];
		for (unsigned i = 0; i < GPUMEMNET_TOKEN; i++)
			token[i] = (v->tokens[t][i] - e->mean[i]) * e->scale[i];
		net_apply(&e->embed, token, x[t]);
	}
}

/* Mean and maximum over the tokens, one behind the other. */
static void net_pool(const struct net_encoder *e, unsigned n, float x[][NET_MAX_MODEL], float *pooled)
{
	float row[NET_MAX_MODEL];
	for (unsigned t = 0; t < n; t++) {
		net_norm(&e->norm, e->width, x[t], row);
		for (uint32_t i = 0; i < e->width; i++) {
			float *mean = pooled + i, *most = pooled + e->width + i;
			*mean = (t ? *mean : 0) + row[i] / (float)n;
			*most = t && *most > row[i] ? *most : row[i];
		}
	}
}

void net_encode(const struct net *net, const struct gpumemnet_vector *v, float *probabilities)
{
	const struct net_encoder *e = &net->encoder;
	float x[GPUMEMNET_TOKENS][NET_MAX_MODEL], joined[2 * NET_MAX_MODEL + GPUMEMNET_INPUTS] = { 0 }, logits[NET_MAX_WIDTH];
	struct scratch s;
	net_embed(e, v, x);
	for (unsigned b = 0; b < e->n; b++) {
		net_attend(e, &e->blocks[b], v->n_tokens, x, &s);
		net_forward(e, &e->blocks[b], v->n_tokens, x, &s);
	}
	net_pool(e, v->n_tokens, x, joined);
	net_normalise(net, v->inputs, joined + 2 * e->width);
	net_perceive(&e->head, joined, logits);
	net_softmax(logits, net->bins);
	memcpy(probabilities, logits, net->bins * sizeof *probabilities);
}

/* The share was chosen in training (doc/gpumemnet-format.md); at its ends only one of the two is computed. */
void net_answer(const struct net *net, const struct gpumemnet_vector *v, float *probabilities)
{
	float encoded[NET_MAX_BINS], share = net->encoder.n ? net->encoder_share : 0;
	if (share < 1)
		net_ensemble(net, v, probabilities);
	if (share > 0)
		net_encode(net, v, encoded);
	for (uint32_t k = 0; k < net->bins; k++)
		probabilities[k] = share >= 1 ? encoded[k] : share > 0 ? (1 - share) * probabilities[k] + share * encoded[k] :
				   probabilities[k];
}
