/* SPDX-License-Identifier: MIT
 * rad wait.
 */
#include "base/json.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client_queue.h"
#include "cli/ids.h"
#include "cli/submission.h"

#define MAX_TIMEOUT_S ((int64_t)366 * 86400)

int verb_wait(struct cli_call *c)
{
	bool json = false;
	const char *timeout = NULL;
	int64_t for_s = -1;
	const struct args_option options[] = {
		CLIENT_QUEUE_OPTION,
		{ "timeout", 0, "TIME", "wait no longer, and exit with 124: seconds, or 10m, 2h", .value = &timeout },
		{ "json", 0, NULL, "print JSON: the tasks as they ended", .flag = &json },
		{ 0 },
	};
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	scoped_json *ids = json_array();
	struct ids list = { 0 };
	struct error err = ERROR_INIT;
	if (timeout && units_parse_int(timeout, 1, MAX_TIMEOUT_S, &for_s, NULL) &&
	    units_parse_duration(timeout, 1, MAX_TIMEOUT_S, &for_s, &err))
		return cli_usage(c, "--timeout: '%.60s': expected 1 to %lld seconds, or a time such as 10m, 2h, 1-12:00:00", timeout,
				 (long long)MAX_TIMEOUT_S);
	char id[TASK_ID_TEXT];
	bool read = true;
	for (size_t i = 0; i < c->n_words && read; i++)
		read = !ids_add(c->words[i], &list, &err);
	for (size_t i = 0; i < list.n; i++)
		json_array_append_new(ids, json_text(task_id_text(list.list[i], id)));
	ids_clear(&list);
	return read ? submission_wait(c, ids, for_s, json) : cli_usage(c, "%s", err.text);
}
