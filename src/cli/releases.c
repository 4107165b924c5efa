/* SPDX-License-Identifier: MIT
 * See releases.h.
 */
#include "cli/releases.h"

#include "base/alloc.h"
#include "base/version.h"
#include "cli/client.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

char *releases_advice(const char *radd)
{
	char self[PATH_MAX] = "rad";
	int newer = strverscmp(radd, version_build);
	if (!newer)
		return NULL;
	if (newer < 0)
		return alloc_printf("radd is %s, rad is %s: restart radd (%s; tasks go on)", radd, version_build, client_server() ?
				    "sudo systemctl restart radd" : "rad stop: the next rad submit starts the new one");
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		strcpy(self, "rad");
	return alloc_printf("radd is %s, and this rad (%s) is the older %s: use the one that came with radd; type -a rad shows all in "
			    "PATH", radd, self, version_build);
}
