/* SPDX-License-Identifier: MIT
 *
 * Writes capture files (doc/capture-format.md) for tests, the fuzzer and the bench: byte by byte, so also wrong ones.
 */
#ifndef RAD_TESTS_CAPTURE_WRITE_H
#define RAD_TESTS_CAPTURE_WRITE_H

#include "base/alloc.h"
#include "base/buf.h"

#include <stdint.h>
#include <string.h>

enum { WRITE_END, WRITE_ALLOC, WRITE_FREE, WRITE_STREAM, WRITE_MARK, WRITE_OP, WRITE_EMPTY };
enum { WRITE_GEMM = 1, WRITE_CONV, WRITE_ATTENTION, WRITE_SCRATCH };

struct capture_writer {
	struct buf out;
	uint64_t allocs, records;
};

struct capture_texts { const char *torch, *alloc_conf, *model; };

static inline void write_varint(struct buf *b, uint64_t v)
{
	do {
		unsigned char byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

		buf_add(b, &byte, 1);
		v >>= 7;
	} while (v);
}

static inline void write_text(struct buf *b, const char *text)
{
	write_varint(b, strlen(text));
	buf_add_text(b, text);
}

static inline void write_begin(struct capture_writer *w, const struct capture_texts *t, uint64_t flags, uint64_t growth,
			       uint64_t communicators)
{
	const uint64_t numbers[] = { 1000000, 8, 128, flags, growth, communicators };	/* params, batch, seq_len, ... */

	memset(w, 0, sizeof *w);
	buf_add(&w->out, "RADCAP\r\n\1", 9);
	write_text(&w->out, t->torch);
	write_text(&w->out, t->alloc_conf);
	write_text(&w->out, t->model);
	write_text(&w->out, "adamw");
	write_text(&w->out, "fp32");
	write_text(&w->out, "00ff");
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		write_varint(&w->out, numbers[i]);
}

static inline void write_record(struct capture_writer *w, unsigned kind, uint64_t argument)
{
	write_varint(&w->out, argument << 3 | kind);
	w->records++;
}

/* Returns its number. */
static inline uint64_t write_alloc(struct capture_writer *w, uint64_t bytes)
{
	write_record(w, WRITE_ALLOC, bytes);
	return w->allocs++;
}

static inline void write_free(struct capture_writer *w, uint64_t number)
{
	write_record(w, WRITE_FREE, w->allocs - 1 - number);
}

static inline void write_gemm(struct capture_writer *w, uint64_t thread, uint64_t lt)
{
	write_record(w, WRITE_OP, WRITE_GEMM);
	write_varint(&w->out, thread);
	write_varint(&w->out, lt);
}

static inline void write_conv(struct capture_writer *w, const uint64_t figures[7])
{
	write_record(w, WRITE_OP, WRITE_CONV);
	for (int i = 0; i < 7; i++)
		write_varint(&w->out, figures[i]);
}

/* Written bit by bit, unlike the reader's. */
static inline uint32_t write_crc(const void *bytes, size_t n)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		crc ^= ((const unsigned char *)bytes)[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static inline void write_checksum(struct buf *b)
{
	uint32_t crc = write_crc(b->data, b->len);

	for (int i = 0; i < 4; i++, crc >>= 8) {
		unsigned char byte = crc & 255;

		buf_add(b, &byte, 1);
	}
}

static inline void write_end(struct capture_writer *w)
{
	write_varint(&w->out, w->records << 3 | WRITE_END);
	write_checksum(&w->out);
}

static inline void write_load(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n)
{
	write_varint(&w->out, w->records << 3 | WRITE_END);
	for (int i = 0; i < 10; i++)
		write_varint(&w->out, host[i]);
	write_varint(&w->out, n);
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < 8; k++)
			write_varint(&w->out, kernels[i][k]);
}

/* Ends one of version 2 with its load part: ten figures of the host, kernels of eight each. */
static inline void write_end_load(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n)
{
	write_load(w, host, kernels, n);
	w->out.data[8] = 2;
	write_checksum(&w->out);
}

/* Ends one of version 3, which also says how many steps the run has. */
static inline void write_end_steps(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n,
				   uint64_t steps)
{
	write_load(w, host, kernels, n);
	write_varint(&w->out, steps);
	w->out.data[8] = 3;
	write_checksum(&w->out);
}

/* Ends one of version 4, which says what evaluations take, too. */
static inline void write_end_beside(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n,
				    uint64_t steps, uint64_t beside)
{
	write_load(w, host, kernels, n);
	write_varint(&w->out, steps);
	write_varint(&w->out, beside);
	w->out.data[8] = 4;
	write_checksum(&w->out);
}

/* Ends one of version 5, which tells of data loaders, too: five figures of each. */
static inline void write_end_loaders(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n,
				     const uint64_t (*loaders)[5], size_t n_loaders)
{
	write_load(w, host, kernels, n);
	write_varint(&w->out, n_loaders);
	for (size_t i = 0; i < n_loaders; i++)
		for (int k = 0; k < 5; k++)
			write_varint(&w->out, loaders[i][k]);
	write_varint(&w->out, 7);
	write_varint(&w->out, 0);
	w->out.data[8] = 5;
	write_checksum(&w->out);
}

/* Ends one of version 6, which says what the run's own clock allows, too. */
static inline void write_end_limit(struct capture_writer *w, const uint64_t host[10], const uint64_t (*kernels)[8], size_t n,
				   uint64_t steps, uint64_t limit_ms)
{
	write_load(w, host, kernels, n);
	write_varint(&w->out, 0);
	write_varint(&w->out, steps);
	write_varint(&w->out, 0);
	write_varint(&w->out, limit_ms);
	w->out.data[8] = 6;
	write_checksum(&w->out);
}

/* As specs hold captures. */
static inline char *write_base64(const struct buf *in)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = alloc_zero((in->len + 2) / 3 * 4 + 1), *at = text;

	for (size_t i = 0; i < in->len; i += 3) {
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (i + k < in->len ? (unsigned char)in->data[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			*at++ = i + k > in->len ? '=' : digits[bits >> (18 - 6 * k) & 63];
	}
	return text;
}

#endif
