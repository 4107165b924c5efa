/* SPDX-License-Identifier: MIT
 * Which error ends with which exit code: see cli.h, and rad(1).
 */
#include "cli/cli.h"

int cli_failure(const struct cli_call *c, int code)
{
	return c->verb && c->verb->code_is_the_tasks ? CLI_OWN : code;
}

int cli_code(const struct cli_call *c, const struct error *err)
{
	bool program = err->code != ERR_SYSTEM && (err->no == CLI_NO_PROGRAM || err->no == CLI_NOT_RUNNABLE);
	if (program && cli_failure(c, CLI_FAILED) == CLI_OWN)
		return err->no;
	switch (err->code) {
	case ERR_INVALID: return cli_failure(c, CLI_USAGE);
	case ERR_UNAVAILABLE: return cli_failure(c, CLI_NO_DAEMON);
	default: return cli_failure(c, CLI_FAILED);
	}
}
