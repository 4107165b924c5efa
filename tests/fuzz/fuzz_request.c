/* SPDX-License-Identifier: MIT
 * What a shim is to start, as it lies in the attempt folder. What is accepted, written again, is the same.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/scope.h"
#include "launch/request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err;
	scoped_buf first = { 0 }, second = { 0 };
	struct shim_request *r = shim_request_decode((const char *)data, size, &err);
	if (!r)
		return 0;
	FUZZ_HOLDS(r->argv && r->environ && r->cwd && r->output && r->label);
	shim_request_encode(r, &first);
	shim_request_destroy(r);
	r = shim_request_decode(first.data, first.len, &err);
	FUZZ_HOLDS(r);
	shim_request_encode(r, &second);
	FUZZ_HOLDS(first.len == second.len && !memcmp(first.data, second.data, first.len));
	shim_request_destroy(r);
	return 0;
}
