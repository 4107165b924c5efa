/* SPDX-License-Identifier: MIT
 * What control daemons of MPS say: any bytes. Servers are processes, no more than there is room for; a last line is printable.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "launch/mps_text.h"

#include <ctype.h>

#define MOST 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pids[MOST];
	scoped_free char *text = alloc_printf("%.*s", (int)size, (const char *)data);
	size_t n = mps_text_pids(text, pids, MOST);
	FUZZ_HOLDS(n <= MOST);
	for (size_t i = 0; i < n; i++)
		FUZZ_HOLDS(pids[i] > 1);
	scoped_free char *line = mps_text_last_line((const char *)data, size);
	for (const char *p = line; *p; p++)
		FUZZ_HOLDS(isprint((unsigned char)*p));
	return 0;
}
