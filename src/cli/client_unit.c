/* SPDX-License-Identifier: MIT
 * Whether systemd has given up the machine's radd. Its own program is asked: its library would be one more to depend on.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "cli/client_private.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK "timeout 1 systemctl show radd.service --property=ActiveState,SubState,Result,ExecMainStartTimestampMonotonic," \
	    "ActiveEnterTimestampMonotonic </dev/null 2>/dev/null"
#define GOOD_MS 2000	/* how long an answer is: who waits for radd looks again four times a second */

static char *ask_systemd(void)
{
	char line[256], state[32] = "", within[32] = "", result[32] = "";
	long long begun = 0, ready = 0;
	FILE *systemctl = access("/run/systemd/system", F_OK) ? NULL : popen(ASK, "re");
	while (systemctl && fgets(line, sizeof line, systemctl)) {
		sscanf(line, "ActiveState=%31s", state);
		sscanf(line, "SubState=%31s", within);
		sscanf(line, "Result=%31s", result);
		sscanf(line, "ExecMainStartTimestampMonotonic=%lld", &begun);
		sscanf(line, "ActiveEnterTimestampMonotonic=%lld", &ready);
	}
	if (systemctl)
		pclose(systemctl);
	/* One that was ready and crashed is back in seconds; one whose last start came to nothing is not. */
	bool failed = !strcmp(state, "failed"), in_vain = begun > ready;
	if (!failed && !(in_vain && !strcmp(within, "auto-restart")))
		return NULL;
	return alloc_printf("systemd %s (%s): 'systemctl status radd' and 'journalctl -u radd' say why",
			    in_vain ? "could not start it" : "does not start it again", result);
}

char *client_unit_trouble(void)
{
	static char *last;
	static int64_t until_ms;
	if (clock_mono_ms() >= until_ms) {
		free(last);
		last = ask_systemd();
		until_ms = clock_mono_ms() + GOOD_MS;
	}
	return alloc_string_or_null(last);
}
