/* SPDX-License-Identifier: MIT
 * Command lines, which any process may write as it likes: what is shown of them is printable, ends, and of the arguments of an
 * interpreter has one at most.
 */
#include "monitor/program.h"

#include "fuzz.h"

#include <string.h>

static bool is_shown(const char *text, size_t size)
{
	size_t n = strnlen(text, size);
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] >= 0x7f)
			return false;
	return n < size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char program[PROC_PROGRAM_LEN], command[PROC_COMMAND_LEN], comm[16] = "";
	size_t n = size < sizeof comm ? size : sizeof comm - 1;
	if (n)
		memcpy(comm, data, n);
	program_describe((const char *)data, size, comm, program, command);
	FUZZ_HOLDS(is_shown(program, sizeof program) && is_shown(command, sizeof command));
	return 0;
}
