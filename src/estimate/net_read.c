/* SPDX-License-Identifier: MIT
 *
 * The reader of weights files (doc/gpumemnet-format.md). Every length is checked against what is left of the file and against
 * the bounds of net.h before anything is taken from it.
 *
 * The weights are part of the program, so this could trust them; but they are also what somebody trains and tries next, and a
 * reader that is right costs nothing. Nothing is copied: nets point into the file, which is aligned for floats by its format.
 * net_read checks what it needs for its family; net_verify everything, the checksum and every number, for the tests and whoever
 * writes such a file.
 */
#include "base/crc.h"
#include "estimate/net.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are used as they stand in the file");

static const char magic[8] = { 'R', 'A', 'D', 'N', 'E', 'T', '\r', '\n' };
#define CRC_LEN 4

struct net_header {
	char magic[8];
	uint32_t version, length;	/* of the whole file */
	uint32_t inputs, tokens, token, families;
	char card[32], stack[64];
};

struct section {
	uint32_t family, length;	/* with this */
	uint32_t bins, members, blocks, width, heads, inside, hidden;
	float encoder_share;
};

struct net_reader {
	const unsigned char *start, *at, *end;
	struct error *err;
};

static int read_wrong(const struct net_reader *r, const char *what)
{
	return error_set(r->err, ERR_CORRUPT, "weights file: byte %td: %s", r->at - r->start, what);
}

/* Compared as a quotient, so that a count from the file cannot overflow the product. */
static const void *read_take(struct net_reader *r, size_t count, size_t size)
{
	const void *at = r->at;
	if (count > (size_t)(r->end - r->at) / size) {
		read_wrong(r, "it ends too early");
		return NULL;
	}
	r->at += count * size;
	return at;
}

static int read_floats(struct net_reader *r, size_t n, const float **out)
{
	*out = read_take(r, n, sizeof **out);
	return *out ? 0 : -1;
}

static int read_norm(struct net_reader *r, uint32_t width, struct net_norm *out)
{
	return read_floats(r, width, &out->gain) || read_floats(r, width, &out->bias);
}

static int read_matrix(struct net_reader *r, uint32_t in, uint32_t outputs, struct net_matrix *out)
{
	uint32_t stride = (outputs + NET_LANES - 1) / NET_LANES * NET_LANES;
	*out = (struct net_matrix){ .in = in, .out = outputs, .stride = stride };
	return read_floats(r, (size_t)in * stride, &out->weights) || read_floats(r, stride, &out->bias);
}

static int read_member(struct net_reader *r, uint32_t bins, struct net_perceptron *out)
{
	uint32_t in = GPUMEMNET_INPUTS;
	const uint32_t *n = read_take(r, 1, sizeof *n), *outs;
	if (!n || !*n || *n > NET_MAX_LAYERS)
		return n ? read_wrong(r, "a perceptron of no or of too many layers") : -1;
	outs = read_take(r, *n, sizeof *outs);
	if (!outs)
		return -1;
	if (outs[*n - 1] != bins)
		return read_wrong(r, "a perceptron whose outputs are not the bins");
	for (uint32_t i = 0; i < *n; in = outs[i++])
		if (!outs[i] || outs[i] > NET_MAX_WIDTH || read_matrix(r, in, outs[i], &out->layers[i]))
			return read_wrong(r, "a layer that is too wide, or cut off");
	out->n = *n;
	return 0;
}

static int read_block(struct net_reader *r, const struct section *s, struct net_block *b)
{
	uint32_t d = s->width;
	return read_norm(r, d, &b->before_attention) || read_matrix(r, d, 3 * d, &b->qkv) || read_matrix(r, d, d, &b->out) ||
	       read_norm(r, d, &b->before_forward) || read_matrix(r, d, s->inside, &b->up) || read_matrix(r, s->inside, d, &b->down);
}

static int read_encoder(struct net_reader *r, const struct section *s, struct net_encoder *e)
{
	*e = (struct net_encoder){ .width = s->width, .heads = s->heads, .n = s->blocks };
	if (!s->blocks)
		return 0;
	if (s->blocks > NET_MAX_BLOCKS || !s->width || s->width > NET_MAX_MODEL || s->width % NET_LANES || !s->heads ||
	    s->width % s->heads || !s->inside || s->inside > 4 * NET_MAX_MODEL || !s->hidden || s->hidden > NET_MAX_WIDTH)
		return read_wrong(r, "an encoder of sizes that cannot be");
	if (read_floats(r, GPUMEMNET_TOKEN, &e->mean) || read_floats(r, GPUMEMNET_TOKEN, &e->scale) ||
	    read_matrix(r, GPUMEMNET_TOKEN, s->width, &e->embed))
		return -1;
	for (uint32_t i = 0; i < s->blocks; i++)
		if (read_block(r, s, &e->blocks[i]))
			return -1;
	e->head.n = 2;
	return read_norm(r, s->width, &e->norm) || read_matrix(r, 2 * s->width + GPUMEMNET_INPUTS, s->hidden, &e->head.layers[0]) ||
	       read_matrix(r, s->hidden, s->bins, &e->head.layers[1]);
}

/* NaN does not rise either. */
static bool read_rising(const float *edges, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!isfinite(edges[i]) || !isfinite(edges[i + 1]) || edges[i + 1] <= edges[i] || fabsf(edges[i]) > 32)
			return false;
	return fabsf(edges[n]) <= 32;
}

static int read_nets(struct net_reader *r, const struct section *s, struct net *out)
{
	if (s->bins < 2 || s->bins > NET_MAX_BINS || s->members > NET_MAX_MEMBERS)
		return read_wrong(r, "a number of bins or of perceptrons that cannot be");
	if (!(s->encoder_share >= 0 && s->encoder_share <= 1) || (s->encoder_share < 1 && !s->members) ||
	    (s->encoder_share > 0 && !s->blocks))
		return read_wrong(r, "nobody answers: the encoder's share does not fit the nets");
	out->bins = s->bins;
	out->n_members = s->members;
	out->encoder_share = s->encoder_share;
	if (read_floats(r, GPUMEMNET_INPUTS, &out->low) || read_floats(r, GPUMEMNET_INPUTS, &out->high) ||
	    read_floats(r, GPUMEMNET_INPUTS, &out->mean) || read_floats(r, GPUMEMNET_INPUTS, &out->scale) ||
	    read_floats(r, s->bins + 1, &out->edges))
		return -1;
	if (!read_rising(out->edges, s->bins))
		return read_wrong(r, "edges of bins that do not rise");
	for (uint32_t i = 0; i < s->members; i++)
		if (read_member(r, s->bins, &out->members[i]))
			return -1;
	return read_encoder(r, s, &out->encoder);
}

/* The header. What it says of vectors must be what this program makes. */
static const struct net_header *read_begin(struct net_reader *r, const void *bytes, size_t n)
{
	const struct net_header *h = bytes;
	*r = (struct net_reader){ .start = bytes, .at = bytes, .end = (const unsigned char *)bytes + n, .err = r->err };
	if (n < sizeof *h + CRC_LEN || n > NET_MAX_BYTES || memcmp(h->magic, magic, sizeof magic)) {
		error_set(r->err, ERR_CORRUPT, "not a weights file of GPUMemNet");
		return NULL;
	}
	if (h->version != NET_VERSION || h->inputs != GPUMEMNET_INPUTS || h->tokens != GPUMEMNET_TOKENS ||
	    h->token != GPUMEMNET_TOKEN) {
		error_set(r->err, ERR_CORRUPT, "weights file: version %u with %u inputs: this rad reads version %d with %d", h->version,
			  h->inputs, NET_VERSION, GPUMEMNET_INPUTS);
		return NULL;
	}
	if (h->length != n || h->families > FEATURES_FAMILY_COUNT) {
		read_wrong(r, "it is cut off, or something follows it");
		return NULL;
	}
	r->at += sizeof *h;
	r->end -= CRC_LEN;
	return h;
}

/* The next section, and a reader of no more than that. */
static const struct section *read_next(struct net_reader *r, struct net_reader *inner)
{
	const struct section *s = read_take(r, 1, sizeof *s);
	if (!s)
		return NULL;
	if (s->length < sizeof *s || s->length % sizeof(float) || s->length - sizeof *s > (size_t)(r->end - r->at)) {
		read_wrong(r, "a section of a length that cannot be");
		return NULL;
	}
	*inner = *r;
	inner->end = r->at + (s->length - sizeof *s);
	r->at = inner->end;
	return s;
}

static void name_source(const struct net_header *h, struct net *out)
{
	memcpy(out->card, h->card, sizeof out->card);
	memcpy(out->stack, h->stack, sizeof out->stack);
	out->card[sizeof out->card - 1] = out->stack[sizeof out->stack - 1] = 0;
}

int net_read(const void *bytes, size_t n, enum features_family family, struct net *out, struct error *err)
{
	struct net_reader r = { .err = err }, inner;
	const struct net_header *h = read_begin(&r, bytes, n);
	if (!h)
		return -1;
	memset(out, 0, sizeof *out);
	name_source(h, out);
	for (uint32_t i = 0; i < h->families; i++) {
		const struct section *s = read_next(&r, &inner);
		if (!s)
			return -1;
		if (s->family == family)
			return read_nets(&inner, s, out);
	}
	return error_set(err, ERR_NOT_FOUND, "no nets were trained for models of the family '%s'", features_family_name(family));
}

static int verify_section(struct net_reader *inner, const struct section *s)
{
	struct net out = { 0 };
	const unsigned char *from = inner->at;
	if (read_nets(inner, s, &out))
		return -1;
	if (inner->at != inner->end)
		return read_wrong(inner, "a section that is longer than its nets");
	/* Numbers of layers and widths among them are small, and finite as floats too. */
	for (const float *x = (const float *)(const void *)from; (const unsigned char *)x < inner->end; x++)
		if (!isfinite(*x))
			return read_wrong(inner, "a number that is none");
	return 0;
}

int net_verify(const void *bytes, size_t n, struct error *err)
{
	struct net_reader r = { .err = err }, inner;
	const struct net_header *h = read_begin(&r, bytes, n);
	uint32_t crc;
	if (!h)
		return -1;
	memcpy(&crc, r.end, sizeof crc);
	if (crc != crc_of(bytes, n - CRC_LEN))
		return error_set(err, ERR_CORRUPT, "weights file: wrong checksum: it was cut or changed");
	for (uint32_t i = 0; i < h->families; i++) {
		const struct section *s = read_next(&r, &inner);
		if (!s || s->family >= FEATURES_FAMILY_COUNT)
			return s ? read_wrong(&r, "a family that is not known") : -1;
		if (verify_section(&inner, s))
			return -1;
	}
	return r.at == r.end ? 0 : read_wrong(&r, "something follows its sections");
}
