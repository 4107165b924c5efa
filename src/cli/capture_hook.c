/* SPDX-License-Identifier: MIT
 * libradcapture.so, which every program of a captured command loads (LD_PRELOAD; python/radrm/capture/command.py).
 * A Python finds the capture's hook by PYTHONPATH, and many a script sets that anew (`PYTHONPATH=. python train.py`):
 * without the hook it would train for real. So whoever starts without it gets it back, in front of what the script
 * said, before main() reads it. Needs the C library only, and does nothing where RADRM_CAPTURE_PATH, the folders that
 * the hook needs, is not set.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void keep_hook(void)
{
	const char *hook = getenv("RADRM_CAPTURE_PATH"), *path = getenv("PYTHONPATH");
	size_t n = hook ? strlen(hook) : 0;
	char *both;
	if (!n || (path && !strncmp(path, hook, n) && (!path[n] || path[n] == ':')))
		return;
	if (asprintf(&both, "%s%s%s", hook, path && *path ? ":" : "", path ? path : "") < 0)
		return;
	setenv("PYTHONPATH", both, 1);
	free(both);
}
