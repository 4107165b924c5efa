/* SPDX-License-Identifier: MIT
 *
 * The protocol: any bytes, cut anywhere, give the same messages and the same end; a message that was read can be written
 * and read again, and a submission in it becomes a sound spec or an error.
 */
#include "fuzz.h"

#include "submit/validate.h"
#include "submit/wire.h"
#include "task/spec.h"

#include <string.h>

#define MAX_MESSAGES 64

struct stream { json_t *messages[MAX_MESSAGES]; size_t n; bool broken; };

static void read_stream(const uint8_t *data, size_t size, size_t piece, struct stream *out)
{
	struct buf in = { 0 };
	struct error err = ERROR_INIT;

	*out = (struct stream){ 0 };
	for (size_t at = 0; at < size && !out->broken; at += piece) {
		json_t *m = NULL;
		int got;

		buf_add(&in, data + at, piece < size - at ? piece : size - at);
		while ((got = wire_decode(&in, &m, &err)) == 1) {
			FUZZ_HOLDS(json_is_object(m));
			if (out->n < MAX_MESSAGES)
				out->messages[out->n++] = m;
			else
				json_decref(m);
		}
		out->broken = got < 0;
		FUZZ_HOLDS(!out->broken || (err.code == ERR_CORRUPT && *err.text));
	}
	buf_free(&in);
}

static void use(json_t *m)
{
	struct error err = ERROR_INIT;
	struct buf out = { 0 };
	json_t *again = NULL;

	FUZZ_HOLDS(!wire_encode(m, &out, &err) && wire_decode(&out, &again, &err) == 1 && !out.len);
	json_decref(again);
	buf_free(&out);
	wire_check(m, &err);
	wire_check_request(m, &err);
	struct spec *s = spec_from_json(json_object_get(m, "spec"), json_object_get(m, "environ"), &err);

	if (s && !submit_validate(s, &err))
		FUZZ_HOLDS(s->cwd[0] == '/' && (s->script || s->argv[0]));
	spec_unref(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stream whole, bytes;

	read_stream(data, size, size ? size : 1, &whole);
	read_stream(data, size, 1, &bytes);
	FUZZ_HOLDS(whole.n == bytes.n && whole.broken == bytes.broken);
	for (size_t i = 0; i < whole.n; i++) {
		FUZZ_HOLDS(json_equal(whole.messages[i], bytes.messages[i]));
		use(whole.messages[i]);
		json_decref(whole.messages[i]);
		json_decref(bytes.messages[i]);
	}
	return 0;
}
