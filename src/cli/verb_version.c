/* SPDX-License-Identifier: MIT
 * rad version.
 */
#include "base/json.h"
#include "base/scope.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/releases.h"
#include "submit/wire.h"

#include <stdio.h>

#define ANSWER_S 5

int verb_version(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	/* At once: a server's radd that is away is waited for by those who want something of it. */
	scoped_fd int fd = client_connect_now(&err);
	scoped_json *status = client_call_within(fd, ANSWER_S, wire_request("status"), &err);
	const json_t *radd = json_object_get(status, "version"), *protocol = json_object_get(status, "protocol");
	if (json)
		return cli_print_json(json_pack("{si, ss, si, so, so}", "schema", 1, "rad", version_build, "protocol", WIRE_VERSION,
						"radd", radd ? json_incref((json_t *)radd) : json_null(),
						"radd_protocol", protocol ? json_incref((json_t *)protocol) : json_null()));
	printf("rad  %s (protocol %d)\n", version_build, WIRE_VERSION);
	if (status)
		printf("radd %s (protocol %lld, pid %lld)\n", member_text(status, "version"), (long long)member_int(status, "protocol"),
		       (long long)member_int(status, "pid"));
	else
		printf("radd: %s\n", err.text);
	scoped_free char *differ = status ? releases_advice(status) : NULL;
	if (differ)
		cli_note("%s", differ);
	return CLI_DONE;
}
