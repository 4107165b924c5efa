/* SPDX-License-Identifier: MIT
 * rad exporter and rad web: become rad-http, which is a program of its own because what it is linked with (an HTTP server, and
 * what that brings along) is nothing that every other call of rad should have to load.
 */
#include "base/alloc.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/http_options.h"

#include <string.h>
#include <unistd.h>

int verb_http(struct cli_call *c)
{
	struct http_options o = { 0 };
	struct args_option rows[HTTP_OPTIONS_ROWS];
	struct error err = ERROR_INIT;
	scoped_free char **argv = alloc_zero(((size_t)c->argc + 2) * sizeof *argv);
	argv[0] = "rad-http";	/* before the options are read, which puts words in another order */
	for (int i = 0; i < c->argc; i++)
		argv[i + 1] = c->argv[i];
	http_options_rows(&o, !strcmp(c->verb->name, "web"), rows);
	if (!cli_options(c, rows) || !cli_want_words(c, 0, 0))
		return c->rc;
	scoped_free char *program = client_find_program("rad-http");
	if (!program) {
		error_set(&err, ERR_NOT_FOUND, "rad-http: is neither beside rad nor in PATH: install it (make install; with a package: "
			  "install that again)");
		return cli_fail(c, &err);
	}
	execv(program, argv);
	error_errno(&err, "%s", program);
	return cli_fail(c, &err);
}
