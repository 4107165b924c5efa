/* SPDX-License-Identifier: MIT
 * See repeat.h.
 */
#include "cli/repeat.h"


#include <stdio.h>
#include <unistd.h>

int repeat_show_every(struct cli_call *c, const char *every, bool json, repeat_show show, void *ctx)
{
	struct error err = ERROR_INIT;
	double seconds;
	if (json)
		return cli_usage(c, "--watch is for people: --json is printed once");
	if (cli_read_double("watch", every, 0.2, 3600, &seconds, &err))
		return cli_usage(c, "%s", err.text);
	for (;;) {
		struct term term = term_ask();
		if (!term.live)
			return cli_usage(c, "--watch needs a terminal");
		fputs("\033[H\033[J", stdout);
		if (show(ctx, &term, &err))
			return cli_fail(c, &err);
		if (fflush(stdout))
			return CLI_FAILED;
		usleep((useconds_t)(seconds * 1e6));
	}
}
