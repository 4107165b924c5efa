/* SPDX-License-Identifier: MIT
 *
 * The reader of capture files (doc/capture-format.md). One pass; each number is checked against its bound as it is read, so
 * that nothing is allocated or added up on the word of the file alone.
 *
 * What passes is consistent, so that replay needs no check of its own: ids count up from 0, every FREE names a storage that
 * lives, sums stay below 2^50. The checksum is against accidents and is looked at before the header; it stops nobody who
 * means harm, so the reader never relies on it. Errors say the byte, since the one who reads them has a hex dump and not our
 * structs.
 */
#include "estimate/capture.h"

#include "base/alloc.h"
#include "base/crc.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char magic[] = "RADCAP\r\n";
#define MAGIC_LEN (sizeof magic - 1)
#define CRC_LEN 4
#define CAPTURE_VERSION_LOAD 2	/* the first with a load part */
#define CAPTURE_VERSION_STEPS 3	/* and with the steps of the whole run behind it */
#define CAPTURE_VERSION_BESIDE 4	/* and what evaluations take */
#define CAPTURE_VERSION_LOADERS 5	/* and data loaders, before these */
#define CAPTURE_VERSION_LIMIT 6		/* and what the run's own clock allows, behind them */

enum { TAG_END, TAG_ALLOC, TAG_FREE, TAG_STREAM, TAG_MARK, TAG_OP, TAG_EMPTY };
enum { OP_GEMM = 1, OP_CONV, OP_ATTENTION, OP_SCRATCH };

struct capture_reader {
	const unsigned char *start, *at, *end;
	struct error *err;
	struct capture *c;
	size_t cap_records, cap_convs;
	uint64_t *live;		/* bytes by id; 0: freed; owned */
	size_t n_live, cap_live;
	uint64_t live_bytes, version;
	unsigned stream;
};

static int capture_wrong(const struct capture_reader *r, const char *what)
{
	return error_set(r->err, ERR_INVALID, "capture file: byte %td: %s", r->at - r->start, what);
}

/* The shortest form only: one number, one way to write it, so that nothing can be said in two ways. */
static int read_varint(struct capture_reader *r, uint64_t *value)
{
	uint64_t v = 0;

	for (unsigned shift = 0; r->at < r->end && shift < 64; shift += 7) {
		unsigned char byte = *r->at++;

		if (shift == 63 && byte > 1)
			return capture_wrong(r, "a number above 2^64");
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (!byte && shift)
			return capture_wrong(r, "a number that is not in its shortest form");
		*value = v;
		return 0;
	}
	return capture_wrong(r, "it ends inside a number");
}

/* The error names the byte where the number begins, not where it ended. */
static int read_number(struct capture_reader *r, const char *name, uint64_t least, uint64_t most, uint64_t *value)
{
	const unsigned char *from = r->at;

	if (read_varint(r, value))
		return error_wrap(r->err, "%s", name);
	if (*value >= least && *value <= most)
		return 0;
	return error_set(r->err, ERR_INVALID, "capture file: byte %td: %s is %llu: expected %llu to %llu", from - r->start, name,
			 (unsigned long long)*value, (unsigned long long)least, (unsigned long long)most);
}

static int read_u32(struct capture_reader *r, const char *name, uint32_t least, uint32_t most, uint32_t *value)
{
	uint64_t v;

	if (read_number(r, name, least, most, &v))
		return -1;
	*value = (uint32_t)v;
	return 0;
}

static int read_text(struct capture_reader *r, const char *name, char *text, size_t size)
{
	uint64_t len;

	if (read_number(r, name, 0, size - 1, &len))
		return -1;
	if (len > (size_t)(r->end - r->at))
		return capture_wrong(r, "it ends inside a text");
	for (size_t i = 0; i < len; i++, r->at++) {
		if (*r->at < 0x20 || *r->at > 0x7e)
			return capture_wrong(r, "a character that is not printable ASCII");
		text[i] = (char)*r->at;
	}
	text[len] = '\0';
	return 0;
}

static int read_header(struct capture_reader *r)
{
	struct capture *c = r->c;

	if (read_text(r, "torch", c->torch, sizeof c->torch) ||
	    read_text(r, "alloc_conf", c->alloc_conf, sizeof c->alloc_conf) ||
	    read_text(r, "model", c->model, sizeof c->model) ||
	    read_text(r, "optimizer", c->optimizer, sizeof c->optimizer) ||
	    read_text(r, "precision", c->precision, sizeof c->precision) || read_text(r, "key", c->key, sizeof c->key) ||
	    read_number(r, "params", 0, CAPTURE_MAX_LIVE, &c->params) || read_number(r, "batch", 0, CAPTURE_MAX_COUNT, &c->batch) ||
	    read_number(r, "seq_len", 0, CAPTURE_MAX_COUNT, &c->seq_len) || read_u32(r, "flags", 0, CAPTURE_FLAGS, &c->flags) ||
	    read_number(r, "growth", 0, CAPTURE_MAX_LIVE, &c->growth) ||
	    read_u32(r, "communicators", 0, CAPTURE_MAX_COMMUNICATORS, &c->communicators))
		return -1;
	return 0;
}

/* The next record of the result, zeroed. */
static struct capture_record *capture_add(struct capture_reader *r, enum capture_kind kind)
{
	struct capture *c = r->c;

	alloc_grow(c->records, c->n_records, r->cap_records);
	c->records[c->n_records] = (struct capture_record){ .kind = (uint8_t)kind };
	return &c->records[c->n_records++];
}

static int read_alloc(struct capture_reader *r, uint64_t bytes)
{
	struct capture_record *new;

	if (!bytes || bytes > CAPTURE_MAX_REQUEST)
		return capture_wrong(r, "a request of 0 or more than 2^46 bytes");
	if (r->n_live == CAPTURE_MAX_ALLOCS)
		return capture_wrong(r, "more than 1000000 requests");
	if (bytes > CAPTURE_MAX_LIVE - r->live_bytes)
		return capture_wrong(r, "more than 2^50 bytes are live at once");
	new = capture_add(r, CAPTURE_ALLOC);
	new->bytes = bytes;
	new->what = (uint8_t)r->stream;
	new->id = (uint32_t)r->n_live;
	alloc_grow(r->live, r->n_live, r->cap_live);
	r->live[r->n_live++] = bytes;
	r->live_bytes += bytes;
	if (r->c->peak_live < r->live_bytes)
		r->c->peak_live = r->live_bytes;
	return 0;
}

static int read_free(struct capture_reader *r, uint64_t back)
{
	size_t id;

	if (back >= r->n_live)
		return capture_wrong(r, "what is freed was never requested");
	id = r->n_live - 1 - (size_t)back;
	if (!r->live[id])
		return capture_wrong(r, "what is freed is free already");
	capture_add(r, CAPTURE_FREE)->id = (uint32_t)id;
	r->live_bytes -= r->live[id];
	r->live[id] = 0;
	return 0;
}

static int read_mark(struct capture_reader *r, uint64_t phase)
{
	if (phase >= CAPTURE_PHASES)
		return capture_wrong(r, "an unknown phase");
	capture_add(r, CAPTURE_MARK)->what = (uint8_t)phase;
	r->c->iterations += phase == CAPTURE_ITERATION;
	return 0;
}

static int read_gemm(struct capture_reader *r)
{
	struct capture_record *new;
	uint32_t thread, lt;

	if (read_u32(r, "thread of a GEMM", 0, 1, &thread) || read_u32(r, "lt of a GEMM", 0, 1, &lt))
		return -1;
	new = capture_add(r, CAPTURE_GEMM);
	new->what = (uint8_t)thread;
	new->lt = lt;
	new->stream = (uint8_t)r->stream;
	return 0;
}

static int read_conv(struct capture_reader *r)
{
	struct capture_conv v = { 0 };
	uint32_t direction, layout;

	if (read_u32(r, "direction of a convolution", 0, CAPTURE_DIRECTIONS - 1, &direction) ||
	    read_number(r, "input of a convolution", 0, CAPTURE_MAX_REQUEST, &v.in) ||
	    read_number(r, "output of a convolution", 0, CAPTURE_MAX_REQUEST, &v.out) ||
	    read_number(r, "weight of a convolution", 0, CAPTURE_MAX_REQUEST, &v.weight) ||
	    read_u32(r, "taps of a convolution", 1, CAPTURE_MAX_FACTOR, &v.taps) ||
	    read_u32(r, "groups of a convolution", 1, CAPTURE_MAX_FACTOR, &v.groups) ||
	    read_u32(r, "layout of a convolution", 0, 1, &layout))
		return -1;
	v.direction = direction;
	v.channels_last = layout;
	capture_add(r, CAPTURE_CONV)->id = (uint32_t)r->c->n_convs;
	alloc_grow(r->c->convs, r->c->n_convs, r->cap_convs);
	r->c->convs[r->c->n_convs++] = v;
	return 0;
}

static int read_op(struct capture_reader *r, uint64_t class)
{
	uint32_t kernel;
	uint64_t bytes;

	switch (class) {
	case OP_GEMM:
		return read_gemm(r);
	case OP_CONV:
		return read_conv(r);
	case OP_ATTENTION:
		if (read_u32(r, "kernel of an attention", 0, 3, &kernel))
			return -1;
		capture_add(r, CAPTURE_ATTENTION)->what = (uint8_t)kernel;
		return 0;
	case OP_SCRATCH:
		if (read_number(r, "scratch memory", 1, CAPTURE_MAX_REQUEST, &bytes))
			return -1;
		capture_add(r, CAPTURE_SCRATCH)->bytes = bytes;
		return 0;
	default:
		return capture_wrong(r, "an unknown class of operators");
	}
}

static int read_record(struct capture_reader *r, uint64_t tag, uint64_t argument)
{
	switch (tag) {
	case TAG_ALLOC:
		return read_alloc(r, argument);
	case TAG_FREE:
		return read_free(r, argument);
	case TAG_STREAM:
		if (argument > CAPTURE_MAX_STREAM)
			return capture_wrong(r, "a stream above 255");
		r->stream = (unsigned)argument;
		return 0;
	case TAG_MARK:
		return read_mark(r, argument);
	case TAG_OP:
		return read_op(r, argument);
	case TAG_EMPTY:
		if (argument)
			return capture_wrong(r, "an EMPTY with an argument");
		capture_add(r, CAPTURE_EMPTY);
		return 0;
	default:
		return capture_wrong(r, "an unknown kind of record");
	}
}

static int read_records(struct capture_reader *r)
{
	uint64_t first = 0;

	for (size_t n = 0; n <= CAPTURE_MAX_RECORDS; n++) {
		if (read_varint(r, &first))
			return -1;
		if ((first & 7) != TAG_END) {
			if (read_record(r, first & 7, first >> 3))
				return -1;
			continue;
		}
		return first >> 3 == n ? 0 : capture_wrong(r, "another number of records than it says");
	}
	return capture_wrong(r, "more than 3000000 records");
}

static int read_kernel(struct capture_reader *r, struct capture_kernel *k)
{
	uint32_t class, unit, layout;

	if (read_u32(r, "class of a kernel", 0, KERNEL_CLASSES - 1, &class) ||
	    read_u32(r, "unit of a kernel", 0, UNIT_COUNT - 1, &unit) ||
	    read_u32(r, "layout of a kernel", 0, CAPTURE_LAYOUTS - 1, &layout) ||
	    read_number(r, "count of a kernel", 1, CAPTURE_MAX_WORK, &k->count) ||
	    read_number(r, "flops of a kernel", 0, CAPTURE_MAX_WORK, &k->flops) ||
	    read_number(r, "bytes of a kernel", 0, CAPTURE_MAX_WORK, &k->bytes) ||
	    read_number(r, "blocks of a kernel", 0, CAPTURE_MAX_WORK, &k->blocks) ||
	    read_number(r, "depth of a kernel", 0, CAPTURE_MAX_WORK, &k->depth))
		return -1;
	k->class = (uint8_t)class;
	k->unit = (uint8_t)unit;
	k->layout = (uint8_t)layout;
	return 0;
}

/* Memory is taken as kernels are read, not by the number that the file claims. */
static int read_load(struct capture_reader *r)
{
	struct capture_host *h = &r->c->host;
	uint64_t *const figures[] = { &h->forward, &h->backward, &h->updates, &h->views, &h->modules, &h->listed, &h->parameters,
		&h->waits, &h->transfers, &h->transferred };
	uint64_t n = 0;
	size_t cap = 0;

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		if (read_number(r, "work of the host", 0, CAPTURE_MAX_WORK, figures[i]))
			return -1;
	if (read_number(r, "number of kernels", 0, CAPTURE_MAX_KERNELS, &n))
		return -1;
	while (r->c->n_kernels < n) {
		struct capture_kernel k = { 0 };

		if (read_kernel(r, &k))
			return -1;
		alloc_grow(r->c->kernels, r->c->n_kernels, cap);
		r->c->kernels[r->c->n_kernels++] = k;
	}
	return 0;
}

static int read_loaders(struct capture_reader *r)
{
	uint64_t n = 0;

	if (read_number(r, "number of loaders", 0, CAPTURE_MAX_LOADERS, &n))
		return -1;
	for (; r->c->n_loaders < n; r->c->n_loaders++) {
		struct capture_loader *l = &r->c->loaders[r->c->n_loaders];

		if (read_number(r, "workers of a loader", 0, CAPTURE_MAX_WORKERS, &l->workers) ||
		    read_number(r, "time of a loader", 0, CAPTURE_MAX_COUNT, &l->cpu_us) ||
		    read_number(r, "measured batches of a loader", 0, CAPTURE_MAX_COUNT, &l->measured) ||
		    read_number(r, "batches of a loader", 0, CAPTURE_MAX_COUNT, &l->batches) ||
		    read_number(r, "steps of a loader", 0, CAPTURE_MAX_COUNT, &l->steps))
			return -1;
	}
	return 0;
}

static int read_parts(struct capture_reader *r)
{
	if (read_header(r) || read_records(r) || (r->version >= CAPTURE_VERSION_LOAD && read_load(r)) ||
	    (r->version >= CAPTURE_VERSION_LOADERS && read_loaders(r)) ||
	    (r->version >= CAPTURE_VERSION_STEPS && read_number(r, "steps", 0, CAPTURE_MAX_COUNT, &r->c->steps)) ||
	    (r->version >= CAPTURE_VERSION_BESIDE && read_number(r, "beside", 0, CAPTURE_MAX_COUNT, &r->c->beside)) ||
	    (r->version >= CAPTURE_VERSION_LIMIT && read_number(r, "limit", 0, CAPTURE_MAX_COUNT, &r->c->limit_ms)))
		return -1;
	return r->at == r->end ? 0 : capture_wrong(r, "something follows its end");
}

/* What can be said before a number is read: it is a capture file, whole, of a version we know. */
static int open_file(struct capture_reader *r, size_t len)
{
	if (len < MAGIC_LEN || memcmp(r->start, magic, MAGIC_LEN))
		return error_set(r->err, ERR_INVALID, "not a capture file: expected one written by `rad capture`");
	if (len > CAPTURE_MAX_BYTES)
		return error_set(r->err, ERR_INVALID, "capture file: %zu bytes: at most %u are read", len, (unsigned)CAPTURE_MAX_BYTES);
	r->at += MAGIC_LEN;
	if (read_varint(r, &r->version))
		return -1;
	if (r->version < 1 || r->version > CAPTURE_VERSION)
		return error_set(r->err, ERR_INVALID, "capture file: version %llu: this rad reads versions 1 to %u",
				 (unsigned long long)r->version, CAPTURE_VERSION);
	if (r->end - r->at < CRC_LEN)
		return capture_wrong(r, "it ends before its checksum");
	r->end -= CRC_LEN;
	if (crc_read(r->end) != crc_of(r->start, (size_t)(r->end - r->start)))
		return error_set(r->err, ERR_INVALID, "capture file: wrong checksum: it was cut or changed: capture again");
	return 0;
}

int capture_read(const void *bytes, size_t len, struct capture *c, struct error *err)
{
	scoped_free uint64_t *live = NULL;
	const unsigned char *start = len ? bytes : "";
	struct capture_reader r = { .start = start, .at = start, .end = start + len, .err = err, .c = c };
	int result;

	memset(c, 0, sizeof *c);
	result = open_file(&r, len) || read_parts(&r) ? -1 : 0;
	live = r.live;
	c->n_allocs = (uint32_t)r.n_live;
	if (result)
		capture_clear(c);
	return result;
}

static int capture_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Base64 (RFC 4648, with padding). Returns the bytes and their number, or NULL. */
static unsigned char *capture_decode(const char *text, size_t *n)
{
	size_t len = strlen(text), digits = len;
	scoped_free unsigned char *bytes = NULL;
	uint32_t bits = 0;

	while (digits && len - digits < 2 && text[digits - 1] == '=')
		digits--;
	if (!digits || len % 4 || len > CAPTURE_MAX_BYTES / 3 * 4)
		return NULL;
	bytes = alloc_zero(len / 4 * 3);
	*n = 0;
	for (size_t i = 0; i < digits; i++) {
		int d = capture_digit(text[i]);

		if (d < 0)
			return NULL;
		bits = bits << 6 | (uint32_t)d;
		if (i % 4)	/* the first digit of four completes no byte, each other one does */
			bytes[(*n)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
	}
	return steal(bytes);
}

int capture_read_text(const char *base64, struct capture *c, struct error *err)
{
	size_t n;
	scoped_free unsigned char *bytes = capture_decode(base64, &n);

	memset(c, 0, sizeof *c);
	if (!bytes)
		return error_set(err, ERR_INVALID, "capture: not base64, or too long");
	return capture_read(bytes, n, c, err);
}

void capture_clear(struct capture *c)
{
	free(c->records);
	free(c->convs);
	free(c->kernels);
	memset(c, 0, sizeof *c);
}
