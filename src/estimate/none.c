/* SPDX-License-Identifier: MIT
 *
 * `none`: the paper's case of unknown memory (section 6.4.2). Claim 0 makes placement look for a fixed amount of free memory.
 */
#include "estimate/table.h"

#include <stdio.h>

bool estimate_none(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	(void)declared_mib, (void)c;
	snprintf(out->note, sizeof out->note, "%s", s->gpus ? "nothing is known of its memory" : "it asks for no GPU");
	return true;
}
