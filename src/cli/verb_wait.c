/* SPDX-License-Identifier: MIT
 * rad wait.
 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/submission.h"

int verb_wait(struct cli_call *c)
{
	bool json = false;
	const struct cli_option options[] = { { "json", 0, NULL, "print JSON: the tasks as they ended", .flag = &json }, { 0 } };
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	scoped_json *ids = json_array();
	for (size_t i = 0; i < c->n_words; i++)
		if (json_array_append_new(ids, json_string(c->words[i])))
			return cli_usage(c, "'%.60s' is no task id", c->words[i]);
	json_t *reply = client_wait_ended(ids, &err);
	if (!reply)
		return cli_fail(c, &err);
	int code = submission_code(json_object_get(reply, "tasks"));
	if (json)
		cli_print_json(reply);
	else
		json_decref(reply);
	return code;
}
