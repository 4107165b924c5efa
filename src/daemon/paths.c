/* SPDX-License-Identifier: MIT
 * See paths.h. Apart from the rest of the daemon, so that `rad` can ask without being linked with it.
 */
#include "daemon/paths.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <unistd.h>

char *daemon_default_state_dir(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	if (!geteuid())
		return alloc_string("/var/lib/rad");
	if (state && *state == '/')
		return alloc_printf("%s/rad", state);
	if (home && *home == '/')
		return alloc_printf("%s/.local/state/rad", home);
	return alloc_printf("/var/tmp/rad-%u", (unsigned)geteuid());
}
