/* SPDX-License-Identifier: MIT
 * rad wait.
 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/submission.h"

int verb_wait(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON: the tasks as they ended", .flag = &json }, { 0 } };
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	scoped_json *ids = json_array();
	for (size_t i = 0; i < c->n_words; i++)
		if (json_array_append_new(ids, json_string(c->words[i])))
			return cli_usage(c, "'%.60s' is no task id", c->words[i]);
	return submission_wait(c, ids, json);
}
