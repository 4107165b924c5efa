/* SPDX-License-Identifier: MIT
 *
 * Writes weights files (doc/gpumemnet-format.md) for tests and the fuzzer: small ones, whose weights are all the same but for
 * what a test sets.
 */
#ifndef RAD_TESTS_NET_WRITE_H
#define RAD_TESTS_NET_WRITE_H

#include "base/buf.h"
#include "base/crc.h"
#include "estimate/net.h"

#include <string.h>

/* What a section says; 0 is what is usual. */
struct net_sizes { uint32_t family, bins, layers, outs[NET_MAX_LAYERS], blocks, width, heads, inside, hidden; float share; };

static inline void net_put(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof v);
}

static inline void net_put_floats(struct buf *b, float v, size_t n)
{
	while (n--)
		buf_add(b, &v, sizeof v);
}

static inline void net_put_matrix(struct buf *b, uint32_t in, uint32_t out, float weight, float bias)
{
	uint32_t stride = (out + NET_LANES - 1) / NET_LANES * NET_LANES;

	for (uint32_t i = 0; i <= in; i++) {
		net_put_floats(b, i < in ? weight : bias, out);
		net_put_floats(b, 0, stride - out);
	}
}

/* Room for the length of the file or a section is left at `at` and filled by net_end. */
static inline void net_begin(struct buf *b, uint32_t families)
{
	char names[96] = "NVIDIA TEST";

	buf_add(b, "RADNET\r\n", 8);
	net_put(b, NET_VERSION);
	net_put(b, 0);
	net_put(b, GPUMEMNET_INPUTS);
	net_put(b, GPUMEMNET_TOKENS);
	net_put(b, GPUMEMNET_TOKEN);
	net_put(b, families);
	strcpy(names + 32, "PyTorch test");
	buf_add(b, names, sizeof names);
}

static inline void net_end(struct buf *b)
{
	uint32_t length = (uint32_t)b->len + 4, crc;

	memcpy(b->data + 12, &length, sizeof length);
	crc = crc_of(b->data, b->len);
	buf_add(b, &crc, sizeof crc);
}

static inline void net_put_encoder(struct buf *b, const struct net_sizes *s, float weight)
{
	net_put_floats(b, 0, GPUMEMNET_TOKEN);
	net_put_floats(b, 1, GPUMEMNET_TOKEN);
	net_put_matrix(b, GPUMEMNET_TOKEN, s->width, weight, 0);
	for (uint32_t i = 0; i < s->blocks; i++) {
		net_put_floats(b, 1, 2 * s->width);
		net_put_matrix(b, s->width, 3 * s->width, weight, 0);
		net_put_matrix(b, s->width, s->width, weight, 0);
		net_put_floats(b, 1, 2 * s->width);
		net_put_matrix(b, s->width, s->inside, weight, 0);
		net_put_matrix(b, s->inside, s->width, weight, 0);
	}
	net_put_floats(b, 1, 2 * s->width);
	net_put_matrix(b, 2 * s->width + GPUMEMNET_INPUTS, s->hidden, weight, 0);
	net_put_matrix(b, s->hidden, s->bins, weight, 0);
}

/* One section: inputs from -64 to 64, normalised by nothing; edges 0, 1, 2... ; one perceptron (none if it has no layers). */
static inline void net_put_section(struct buf *b, const struct net_sizes *s, float weight, float bias)
{
	size_t from = b->len;
	uint32_t in = GPUMEMNET_INPUTS, length;

	net_put(b, s->family);
	net_put(b, 0);
	net_put(b, s->bins);
	net_put(b, s->layers > 0);
	buf_add(b, &s->blocks, 5 * sizeof s->blocks);
	net_put_floats(b, s->share, 1);
	net_put_floats(b, -64, GPUMEMNET_INPUTS);
	net_put_floats(b, 64, GPUMEMNET_INPUTS);
	net_put_floats(b, 0, GPUMEMNET_INPUTS);
	net_put_floats(b, 1, GPUMEMNET_INPUTS);
	for (uint32_t i = 0; i <= s->bins; i++)
		net_put_floats(b, (float)i / 8, 1);
	if (s->layers) {
		net_put(b, s->layers);
		buf_add(b, s->outs, s->layers * sizeof *s->outs);
	}
	for (uint32_t i = 0; i < s->layers; in = s->outs[i++])
		net_put_matrix(b, in, s->outs[i], weight, bias);
	if (s->blocks)
		net_put_encoder(b, s, weight);
	length = (uint32_t)(b->len - from);
	memcpy(b->data + from + 4, &length, sizeof length);
}

#endif
