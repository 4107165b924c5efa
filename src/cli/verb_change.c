/* SPDX-License-Identifier: MIT
 * rad cancel, hold, release, requeue, update: operations that change something and answer briefly.
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Sends `request` for each id; goes on after one that failed, and tells. */
static int change_each(struct cli_call *c, json_t *request, char *const *ids, size_t n, bool json)
{
	scoped_json *done = json_array();
	int rc = CLI_DONE;
	json_int_t changed = 0;
	for (size_t i = 0; i < n; i++) {
		struct error err = ERROR_INIT;
		json_object_set_new(request, "id", json_string(ids[i]));
		scoped_json *reply = client_check_which(ids[i], &err) ? NULL : client_call(json_incref(request), &err);
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

static int change_words(struct cli_call *c, bool json)
{
	scoped_json *request = wire_request(c->verb->name);
	return cli_want_words(c, 1, CLI_ANY_NUMBER) ? change_each(c, request, c->words, c->n_words, json) : c->rc;
}

int verb_change(struct cli_call *c)
{
	bool json = false;
	const struct args_option options[] = { { "json", 0, NULL, "print JSON", .flag = &json }, { 0 } };
	return cli_options(c, options) ? change_words(c, json) : c->rc;
}

/* ---- cancel ---- */

/* Ids of the caller's own tasks that have not ended. *more: the list was longer than a message. */
static int own_tasks(bool pending_only, json_t *ids, bool *more, struct error *err)
{
	char me[FORMAT_LEN];
	scoped_json *all = client_call(wire_request("list"), err);
	size_t i;
	json_t *t;
	if (!all)
		return -1;
	*more = json_is_true(json_object_get(all, "truncated"));
	format_user(getuid(), me);
	const json_t *tasks = json_object_get(all, "tasks");
	json_array_foreach(tasks, i, t)
		if (!strcmp(member_text(t, "user"), me) && (!pending_only || member_state(t) != TASK_RUNNING))
			json_array_append(ids, json_object_get(t, "id"));
	return 0;
}

static int cancel_all(struct cli_call *c, bool pending_only, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *ids = json_array();
	bool more = false;
	if (own_tasks(pending_only, ids, &more, &err))
		return cli_fail(c, &err);
	size_t n = json_array_size(ids);
	scoped_free char **words = alloc_zero((n + 1) * sizeof *words);
	for (size_t i = 0; i < n; i++)
		words[i] = (char *)json_string_value(json_array_get(ids, i));
	scoped_json *request = wire_request("cancel");
	int rc = change_each(c, request, words, n, json);
	if (!json)
		printf("Cancelled %zu task%s%s\n", n, n == 1 ? "" : "s", more ? "; the queue was longer than one message: do it again" : "");
	return rc;
}

int verb_cancel(struct cli_call *c)
{
	bool json = false, all = false, pending = false;
	const struct args_option options[] = {
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
	return change_words(c, json);
}

/* ---- update ---- */

/* What may change of a task, as on the command line of submit. */
struct update { const char *priority, *time, *gpu_mem, *max_slowdown, *name; };

static int fill_update(const struct update *u, json_t *request, struct error *err)
{
	int64_t priority = 0, seconds = 0;
	uint64_t mib = 0;
	double slowdown;
	bool unlimited = u->time && (!strcasecmp(u->time, "unlimited") || !strcmp(u->time, "0"));
	if (u->priority && units_parse_int(u->priority, -1000000000, 1000000000, &priority, err))
		return error_wrap(err, "priority");
	if (u->time && !unlimited && units_parse_duration(u->time, &seconds, err))
		return error_wrap(err, "time");
	if (u->gpu_mem && units_parse_mib(u->gpu_mem, &mib, err))
		return error_wrap(err, "gpu-mem");
	if (u->priority)
		json_object_set_new(request, "priority", json_integer(priority));
	if (u->time)
		json_object_set_new(request, "time_limit_s", json_integer(seconds));
	if (u->gpu_mem)
		json_object_set_new(request, "gpu_mem_mib", json_integer((json_int_t)mib));
	if (u->max_slowdown && units_parse_double(u->max_slowdown, 1, 1000, &slowdown, err))
		return error_wrap(err, "max-slowdown");
	if (u->max_slowdown)
		json_object_set_new(request, "max_slowdown", json_real(slowdown));
	if (u->name && json_object_set_new(request, "name", json_string(u->name)))
		return error_set(err, ERR_INVALID, "name: is not UTF-8");
	return 0;
}

/* Takes the words of the form KEY=VALUE out of the list; Slurm's users write them so. */
static int take_settings(struct cli_call *c, const struct args_option *options)
{
	size_t kept = 0;
	for (size_t i = 0; i < c->n_words; i++) {
		char *equals = strchr(c->words[i], '=');
		const struct args_option *o = options;
		if (!equals) {
			c->words[kept++] = c->words[i];
			continue;
		}
		size_t len = (size_t)(equals - c->words[i]);
		for (char *p = c->words[i]; p < equals; p++)
			*p = *p == '_' ? '-' : *p;
		for (; o->name && !(o->value && strlen(o->name) == len && !strncmp(o->name, c->words[i], len)); o++)
			;
		if (!o->name)
			return cli_usage(c, "'%.60s': expected priority, time, gpu-mem, max-slowdown or name", c->words[i]);
		*o->value = equals + 1;
	}
	c->n_words = kept;
	return 0;
}

int verb_update(struct cli_call *c)
{
	bool json = false;
	struct update u = { 0 };
	const struct args_option options[] = {
		{ "priority", 0, "N", "its place in the queue: higher goes first", .value = &u.priority },
		{ "time", 't', "TIME", "its time limit, counted from its start; unlimited for none", .value = &u.time },
		{ "gpu-mem", 0, "SIZE", "the memory it takes on each GPU, for its next attempt", .value = &u.gpu_mem },
		{ "max-slowdown", 0, "X", "the slowdown it bears", .value = &u.max_slowdown },
		{ "name", 'J', "NAME", "its name", .value = &u.name },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options))
		return c->rc;
	int rc = take_settings(c, options);
	if (rc || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return rc ? rc : c->rc;
	scoped_json *request = wire_request("update");
	size_t plain = json_object_size(request);
	if (fill_update(&u, request, &err))
		return cli_usage(c, "%s", err.text);
	if (json_object_size(request) == plain)
		return cli_usage(c, "nothing to change: give --priority, --time, --gpu-mem, --max-slowdown or --name");
	return change_each(c, request, c->words, c->n_words, json);
}
