/* SPDX-License-Identifier: MIT
 * Framing, versions and errors of the protocol: see wire.h.
 */
#include "submit/wire.h"

#include "base/json.h"
#include "base/scope.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define HEADER 4

static void put_length(unsigned char *p, size_t n)
{
	for (int i = 0; i < HEADER; i++)
		p[i] = (unsigned char)(n >> (8 * (HEADER - 1 - i)));
}

static size_t get_length(const unsigned char *p)
{
	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

static int add_chunk(const char *text, size_t n, void *out)
{
	buf_add(out, text, n);
	return 0;
}

int wire_encode(const json_t *message, struct buf *out, struct error *err)
{
	size_t before = out->len;
	buf_add(out, "\0\0\0\0", HEADER);
	int failed = json_dump_callback(message, add_chunk, out, JSON_COMPACT | JSON_REAL_PRECISION(12));
	size_t n = out->len - before - HEADER;
	if (!failed && n <= WIRE_MAX_MESSAGE) {
		put_length((unsigned char *)out->data + before, n);
		return 0;
	}
	out->len = before;
	out->data[before] = 0;
	return failed ? error_set(err, ERR_INTERNAL, "a message could not be written as JSON")
		      : error_set(err, ERR_INVALID, "a message of %zu bytes is too large: %u are allowed", n, WIRE_MAX_MESSAGE);
}

int wire_encode_text(const char *text, size_t n, struct buf *out, struct error *err)
{
	unsigned char header[HEADER];
	if (n > WIRE_MAX_MESSAGE)
		return error_set(err, ERR_INVALID, "a message of %zu bytes is too large: %u are allowed", n, WIRE_MAX_MESSAGE);
	put_length(header, n);
	buf_add(out, header, HEADER);
	buf_add(out, text, n);
	return 0;
}

static json_t *parse(const char *bytes, size_t n, struct error *err)
{
	json_error_t why;
	json_t *message = json_loadb(bytes, n, 0, &why);
	if (!message) {
		error_set(err, ERR_CORRUPT, "a message is not JSON (%.100s, byte %d): is the other side rad?", why.text, why.position);
	} else if (!json_is_object(message)) {
		json_decref(message);
		error_set(err, ERR_CORRUPT, "a message is JSON, but not an object: is the other side rad?");
		return NULL;
	}
	return message;
}

static int check_length(size_t n, size_t max, struct error *err)
{
	if (n >= 2 && n <= max)
		return 0;
	return error_set(err, ERR_CORRUPT, "a message claims to be %zu bytes long (2 to %zu are allowed): is the other side rad?", n,
			 max);
}

/* The end of the text whose first byte is at p: behind its quote, or the end of the message. */
static const char *skip_text(const char *p, const char *end)
{
	while ((p = memchr(p, '"', (size_t)(end - p)))) {
		size_t backslashes = 0;
		while (p[-1 - (ptrdiff_t)backslashes] == '\\')
			backslashes++;
		p++;
		if (backslashes % 2 == 0)
			return p;
	}
	return end;
}

/* At least as many as the message has values, whether it is JSON or not. Counts no further than that. */
static size_t count_values(const char *bytes, size_t n, size_t most)
{
	size_t count = 0;
	for (const char *p = bytes, *end = bytes + n; p < end && count <= most;)
		switch (*p++) {
		case '[': case '{': case ',': count++; break;
		case '"': p = skip_text(p, end); break;
		}
	return count;
}

/* max_values 0: as many as there are. */
static int decode(struct buf *in, size_t max_bytes, size_t max_values, json_t **message, struct error *err)
{
	if (in->len < HEADER)
		return 0;
	size_t n = get_length((const unsigned char *)in->data);
	if (check_length(n, max_bytes, err))
		return -1;
	if (in->len < HEADER + n)
		return 0;
	if (max_values && count_values(in->data + HEADER, n, max_values) > max_values)
		return error_set(err, ERR_CORRUPT, "a message holds more than %zu values: is the other side rad?", max_values);
	*message = parse(in->data + HEADER, n, err);
	if (!*message)
		return -1;
	buf_drop(in, HEADER + n);
	return 1;
}

size_t wire_message_bytes(const struct buf *in)
{
	return in->len < HEADER ? 0 : HEADER + get_length((const unsigned char *)in->data);
}

int wire_decode(struct buf *in, json_t **message, struct error *err)
{
	return decode(in, WIRE_MAX_MESSAGE, 0, message, err);
}

int wire_decode_request(struct buf *in, json_t **message, struct error *err)
{
	return decode(in, WIRE_MAX_REQUEST, WIRE_MAX_VALUES, message, err);
}

json_t *wire_request(const char *op)
{
	return json_pack("{s:i, s:s, s:s}", "v", WIRE_VERSION, "op", op, "rad", RAD_VERSION);
}

json_t *wire_reply(void)
{
	return json_pack("{s:i, s:s}", "v", WIRE_VERSION, "rad", RAD_VERSION);
}

json_t *wire_error(const struct error *e)
{
	json_t *reply = wire_reply();
	json_object_set_new(reply, "error",
			    json_pack("{s:s, s:o}", "code", error_code_name(e->code), "text", json_text(e->text)));
	return reply;
}

static const char *release_of(const json_t *message)
{
	const char *release = json_string_value(json_object_get(message, "rad"));
	return release ? release : "of unknown release";
}

const char *wire_check_request(const json_t *request, struct error *err)
{
	const json_t *v = json_object_get(request, "v");
	const char *op = json_string_value(json_object_get(request, "op"));
	if (!json_is_integer(v)) {
		error_set(err, ERR_INVALID, "a request without a protocol version ('v')");
	} else if (json_integer_value(v) != WIRE_VERSION) {
		error_set(err, ERR_CONFLICT, "rad %.40s speaks protocol %lld, radd %s speaks %d: restart radd so that both are of the same "
			  "release (running tasks go on)", release_of(request), (long long)json_integer_value(v), RAD_VERSION, WIRE_VERSION);
	} else if (!op) {
		error_set(err, ERR_INVALID, "a request without a name ('op')");
	} else {
		return op;
	}
	return NULL;
}

int wire_check(const json_t *reply, struct error *err)
{
	const json_t *e = json_object_get(reply, "error"), *v = json_object_get(reply, "v");
	if (!json_is_integer(v) || json_integer_value(v) != WIRE_VERSION)
		return error_set(err, ERR_CONFLICT, "rad %s speaks protocol %d, radd %.40s speaks %lld: restart radd so that both are of the "
				 "same release (running tasks go on)", RAD_VERSION, WIRE_VERSION, release_of(reply),
				 (long long)json_integer_value(v));
	if (!e)
		return 0;
	const char *text = json_member_text(e, "text");
	return error_set(err, error_code_from_name(json_member_text(e, "code")), "%s",
			 *text ? text : "radd refused, but did not say why");
}

static int send_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t put = send(fd, bytes, n, MSG_NOSIGNAL);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		bytes += put;
		n -= (size_t)put;
	}
	return 0;
}

/* Exactly n bytes more, in pieces, so that a false length costs no memory. */
static int receive(int fd, struct buf *in, size_t n, struct error *err)
{
	char chunk[65536];
	while (n) {
		ssize_t got = recv(fd, chunk, n < sizeof chunk ? n : sizeof chunk, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno != ECONNRESET)	/* that: it closed, and the request was not read */
			return error_errno(err, "reading from radd");
		if (got <= 0)
			return error_set(err, ERR_UNAVAILABLE, "radd closed the connection before it answered: see its log");
		buf_add(in, chunk, (size_t)got);
		n -= (size_t)got;
	}
	return 0;
}

int wire_send(int fd, const json_t *request, struct error *err)
{
	scoped_buf out = { 0 };
	if (wire_encode(request, &out, err))
		return -1;
	/* A daemon that refuses before it has read everything closes its side; what it said is still to be read. */
	int sent = send_all(fd, out.data, out.len);
	return sent && errno != EPIPE && errno != ECONNRESET ? error_errno(err, "writing to radd") : 0;
}

json_t *wire_receive(int fd, struct error *err)
{
	scoped_buf in = { 0 };
	json_t *reply = NULL;
	if (receive(fd, &in, HEADER, err) || check_length(get_length((unsigned char *)in.data), WIRE_MAX_MESSAGE, err) ||
	    receive(fd, &in, get_length((unsigned char *)in.data), err) || wire_decode(&in, &reply, err) != 1)
		return NULL;
	if (!wire_check(reply, err))
		return reply;
	json_decref(reply);
	return NULL;
}

json_t *wire_call(int fd, const json_t *request, struct error *err)
{
	return wire_send(fd, request, err) ? NULL : wire_receive(fd, err);
}
