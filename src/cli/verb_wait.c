/* SPDX-License-Identifier: MIT
 * rad wait.
 */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/client_queue.h"
#include "cli/ids.h"
#include "cli/submission.h"

int verb_wait(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = {
		CLIENT_QUEUE_OPTION,
		{ "json", 0, NULL, "print JSON: the tasks as they ended", .flag = &json },
		{ 0 },
	};
	if (!cli_options(c, options) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	scoped_json *ids = json_array();
	struct ids list = { 0 };
	struct error err = ERROR_INIT;
	char id[TASK_ID_TEXT];
	bool read = true;
	for (size_t i = 0; i < c->n_words && read; i++)
		read = !ids_add(c->words[i], &list, &err);
	for (size_t i = 0; i < list.n; i++)
		json_array_append_new(ids, json_string(task_id_text(list.list[i], id)));
	ids_clear(&list);
	return read ? submission_wait(c, ids, json) : cli_usage(c, "%s", err.text);
}
