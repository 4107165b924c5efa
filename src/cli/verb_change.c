/* SPDX-License-Identifier: MIT
 * rad cancel, hold, release, requeue, update, drain, undrain: operations that change something and answer briefly.
 */
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "submit/options.h"
#include "submit/wire.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

/* Does it to each id; goes on after one that failed, and tells. */
static int change_each(struct cli_call *c, char *const *ids, size_t n, bool json)
{
	scoped_json *done = json_array();
	int rc = CLI_DONE;
	json_int_t changed = 0;
	for (size_t i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		scoped_json *reply = client_call_id(c->verb->name, ids[i], &err);
		if (!reply) {
			rc = cli_fail(c, &err);
			if (rc == CLI_NO_DAEMON)
				return rc;
			continue;
		}
		changed += member_int(reply, "changed");
		json_array_append_new(done, json_string(ids[i]));
	}
	if (json)
		cli_print_json(json_pack("{si, sI, sO}", "schema", 1, "changed", changed, "ids", done));
	return rc;
}

int verb_change(struct cli_call *c)
{
	bool json = false;
	const struct cli_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	if (!cli_options(c, options) || !cli_want_words(c, 1, 0))
		return c->rc;
	return change_each(c, c->words, c->n_words, json);
}

/* ---- cancel ---- */

/* Ids of the caller's own tasks that have not ended. */
static int own_tasks(bool pending_only, json_t *ids, struct error *err)
{
	const struct passwd *pw = getpwuid(getuid());
	scoped_json *all = client_call(wire_request("list"), err);
	size_t i;
	json_t *t;
	if (!all)
		return -1;
	const json_t *tasks = json_object_get(all, "tasks");
	json_array_foreach(tasks, i, t)
		if (pw && !strcmp(member_text(t, "user"), pw->pw_name) && (!pending_only || member_state(t) != TASK_RUNNING))
			json_array_append(ids, json_object_get(t, "id"));
	return 0;
}

static int cancel_all(struct cli_call *c, bool pending_only, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *ids = json_array();
	if (own_tasks(pending_only, ids, &err))
		return cli_fail(c, &err);
	size_t n = json_array_size(ids);
	scoped_free char **words = calloc(n + 1, sizeof *words);
	for (size_t i = 0; words && i < n; i++)
		words[i] = (char *)json_string_value(json_array_get(ids, i));
	int rc = change_each(c, words, n, json);
	if (!json)
		printf("Cancelled %zu task%s\n", n, n == 1 ? "" : "s");
	return rc;
}

int verb_cancel(struct cli_call *c)
{
	bool json = false, all = false, pending = false;
	const struct cli_option options[] = {
		{ "all", 0, NULL, "all your own tasks, running ones too", .flag = &all },
		{ "pending", 0, NULL, "all your own tasks that do not run", .flag = &pending },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	if (!cli_options(c, options))
		return c->rc;
	if ((all || pending) && !c->n_words)
		return cancel_all(c, !all, json);
	if (all || pending)
		return cli_usage(c, "either ids or --%s", all ? "all" : "pending");
	return cli_want_words(c, 1, 0) ? change_each(c, c->words, c->n_words, json) : c->rc;
}
