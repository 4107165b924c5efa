/* SPDX-License-Identifier: MIT
 * What MPS control daemons say: see mps_text.h.
 */
#include "launch/mps_text.h"

#include "base/alloc.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

size_t mps_text_pids(const char *answer, int *pids, size_t most)
{
	size_t n = 0;
	for (char *end; n < most; answer = end) {
		long pid = strtol(answer, &end, 10);
		if (end == answer || pid <= 1 || pid > INT_MAX)
			break;
		pids[n++] = (int)pid;
	}
	return n;
}

char *mps_text_last_line(const char *log, size_t len)
{
	while (len && isspace((unsigned char)log[len - 1]))
		len--;
	const char *line = len ? memrchr(log, '\n', len) : NULL;
	line = line ? line + 1 : log;
	char *words = alloc_printf("%.*s", (int)(log + len - line), line);
	for (char *p = words; *p; p++)
		*p = isprint((unsigned char)*p) ? *p : ' ';
	return words;
}
