/* SPDX-License-Identifier: MIT
 *
 * `declared`: the person knows. Taken at their word, so it can also be enforced.
 */
#include "estimate/table.h"

#include <stdio.h>

bool estimate_declared(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c,
		       struct estimate_result *out)
{
	(void)s, (void)c;
	if (!declared_mib) {
		snprintf(out->note, sizeof out->note, "no memory declared (gpu_mem: SIZE, --gpu-mem SIZE)");
		return false;
	}
	out->value.need_mib = out->value.comfort_mib = out->value.claim_mib = declared_mib;
	out->value.fenced = out->value.enforced_for_life = true;
	snprintf(out->note, sizeof out->note, "declared");
	return true;
}
