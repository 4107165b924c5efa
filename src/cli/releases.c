/* SPDX-License-Identifier: MIT
 * See releases.h.
 */
#include "cli/releases.h"

#include "base/alloc.h"
#include "base/version.h"
#include "cli/client.h"
#include "cli/member.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Who cannot restart it is told who can: RAD_SOCKET may name another user's. */
static const char *how_to_restart(const json_t *status)
{
	int64_t uid = member_int(status, "uid");
	if (client_server())
		return "sudo systemctl restart radd";
	if (!json_object_get(status, "uid") || uid == (int64_t)geteuid())
		return "rad stop: the next rad submit starts the new one";
	return uid ? "it is another user's, whose 'rad stop' and next 'rad submit' do it" :
		     "an administrator does: systemctl restart radd";
}

char *releases_advice(const json_t *status)
{
	const char *radd = member_text(status, "version");
	char self[PATH_MAX] = "rad";
	int newer = strverscmp(radd, version_build);
	if (!newer)
		return NULL;
	if (newer < 0)
		return alloc_printf("radd is %s, rad is %s: restart radd (%s; tasks go on)", radd, version_build, how_to_restart(status));
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		strcpy(self, "rad");
	return alloc_printf("radd is %s, and this rad (%s) is the older %s: use the one that came with radd; type -a rad shows all in "
			    "PATH", radd, self, version_build);
}
