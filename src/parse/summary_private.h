/* SPDX-License-Identifier: MIT
 *
 * Between summary.c, the readers of the four forms, and what they share (summary_text.c). Only for the files of this folder.
 */
#ifndef RAD_PARSE_SUMMARY_PRIVATE_H
#define RAD_PARSE_SUMMARY_PRIVATE_H

#include "parse/summary.h"

#define SUMMARY_SLOTS 1024	/* of the table of type names; a power of two above SUMMARY_MAX_TYPES */

/* A summary being read: where in the text, and what came of it. */
struct summary_reader {
	const char *name, *next, *end;	/* `next`: the first byte not read */
	uint32_t line;			/* of the line read last, 1-based */
	struct summary *out;
	struct error *err;
	size_t cap_layers, cap_types;
	uint16_t slots[SUMMARY_SLOTS];	/* index in `types` + 1; 0: free */
};

/* The next line without its end and without blanks behind; false at the end of the text. */
bool summary_line(struct summary_reader *r, struct summary_text *line);
/* The same without moving on. */
bool summary_peek(const struct summary_reader *r, struct summary_text *line);
/* The next row of a table between lines of '=' or '-'. False behind the last, where the totals have been read too. */
bool summary_row(struct summary_reader *r, struct summary_text *line);
/* Fails on the line read last: "NAME:LINE: 'what it says': why". Returns -1. */
int summary_refuse(struct summary_reader *r, struct summary_text line, const char *why);

/* Adds a layer of that type, zeroed but for line, type and times (1); NULL (refused) when there are too many. */
struct summary_layer *summary_add(struct summary_reader *r, struct summary_text type, struct summary_text line);
/* The kind by a type's name; `cut`: the name may have lost its end. SUMMARY_CONTAINER when not known. */
enum summary_kind summary_kind_of(struct summary_text type, bool cut);

/* Counts stop at SUMMARY_MAX_COUNT instead of wrapping. */
static inline uint64_t summary_sum(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) || sum > SUMMARY_MAX_COUNT ? SUMMARY_MAX_COUNT : sum;
}
static inline uint64_t summary_product(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) || product > SUMMARY_MAX_COUNT ? SUMMARY_MAX_COUNT : product;
}

/* Small pieces of text. */
static inline void summary_drop(struct summary_text *t, uint32_t n)
{
	t->at += n;
	t->len -= n;
}
struct summary_text summary_trim(struct summary_text t);
/* Without the blanks in front. */
struct summary_text summary_skip(struct summary_text t);
static inline bool summary_starts(struct summary_text t, const char *with)
{
	size_t n = strlen(with);
	return t.len >= n && !memcmp(t.at, with, n);
}
/* Where the word, which is not empty, stands first; NULL: nowhere. */
const char *summary_find(struct summary_text t, const char *word);
static inline bool summary_contains(struct summary_text t, const char *word)
{
	return summary_find(t, word) != NULL;
}
/* "12,345,678": the number in front of *t, which is moved behind it. False: there is none, or it is above SUMMARY_MAX_COUNT. */
bool summary_number(struct summary_text *t, uint64_t *n);
/* Reads "[-1, 64, 7, 7]", "(None, 10)", or a list of them, in front of *t into the layer; moves behind it. */
bool summary_shape(struct summary_text *t, struct summary_layer *layer);
/* The word [A-Za-z_][A-Za-z0-9_.]* in front of *t, which is moved behind it; empty when there is none. */
struct summary_text summary_word(struct summary_text *t);
/* "Total params: 1,234" and its like, into the summary. False: the line is none of them. */
bool summary_total(struct summary *s, struct summary_text line);

/* The readers. Each is called with `next` behind the line that showed the form (its header, or the first module's line). */
int summary_read_torchsummary(struct summary_reader *r);
int summary_read_torchinfo(struct summary_reader *r, struct summary_text header);
int summary_read_keras(struct summary_reader *r, struct summary_text header);
int summary_read_modules(struct summary_reader *r, struct summary_text first);

/* Whether a line opens a printed module: "ResNet(", or "Linear(in_features=8, out_features=1, bias=True)". */
bool summary_opens_module(struct summary_text line);

#endif
