/* SPDX-License-Identifier: MIT
 *
 * `none`: the paper's case of unknown memory (section 6.4.2). Claim 0 makes placement look for a fixed amount of free memory.
 */
#include "estimate/table.h"

#include <stdio.h>

bool estimate_none(const struct spec *s, uint64_t declared_mib, const struct estimate_context *c, struct estimate_result *out)
{
	(void)s, (void)declared_mib;
	snprintf(out->note, sizeof out->note, "%s", c->no_gpu ? "it asks for no GPU" : "nothing is known of its memory");
	return true;
}
