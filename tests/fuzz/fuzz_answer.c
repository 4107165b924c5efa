/* SPDX-License-Identifier: MIT
 * What an estimating worker answers, which read a user's capture and may have been taken over by it. What is accepted keeps the
 * contract of estimate.h.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "daemon/estimating_wire.h"

#include <string.h>

#define MOST_MIB ((uint64_t)1 << 40)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scoped_free char *text = alloc_zero(size + 1);
	struct estimate_result said;
	struct error err = ERROR_INIT;
	bool spoke = false;
	memcpy(text, data, size);
	if (estimating_read_answer(text, &spoke, &said, &err)) {
		FUZZ_HOLDS(*err.text);
		return 0;
	}
	FUZZ_HOLDS(memchr(said.note, 0, sizeof said.note));
	FUZZ_HOLDS(said.value.claim_mib <= MOST_MIB && said.value.need_mib <= MOST_MIB && said.high_mib <= MOST_MIB);
	FUZZ_HOLDS(!(said.value.prior.load.gract < 0) && !(said.value.prior.load.smact > 1));
	return 0;
}
