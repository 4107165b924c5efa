/* SPDX-License-Identifier: MIT
 * rad drain, undrain: GPUs out of use and back.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/moment.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>

struct drain_wish { const char *reason, *until, *length; };

/* Why, and until when: members that every request has. */
static int fill_drain(const struct drain_wish *d, json_t *request, struct error *err)
{
	int64_t now_ms = clock_wall_ms(), until_ms = 0, seconds = 0;
	if (d->until && d->length)
		return error_set(err, ERR_INVALID, "--until and --for say the same: give one of them");
	if (d->until && moment_parse(d->until, MOMENT_NEXT, now_ms, &until_ms, err))
		return error_wrap(err, "--until");
	if (d->until && until_ms <= now_ms)
		return error_set(err, ERR_INVALID, "--until: '%.40s' is past", d->until);
	if (d->length && units_parse_duration(d->length, 1, UNITS_TEN_YEARS_S, &seconds, err))
		return error_wrap(err, "--for");
	if (d->until || d->length)
		json_object_set_new(request, "until_ms", json_integer(d->until ? until_ms : now_ms + seconds * 1000));
	if (d->reason && json_object_set_new(request, "reason", json_exact(d->reason)))
		return error_set(err, ERR_INVALID, "--reason: is not UTF-8");
	return 0;
}

/* What the words name: numbers and UUIDs; "all" is every GPU, by its UUID. NULL: which there are is not to be had. */
static json_t *named(const struct cli_call *c, struct error *err)
{
	scoped_json *names = json_array();
	json_t *g;
	size_t k;
	for (size_t i = 0; i < c->n_words; i++) {
		if (strcmp(c->words[i], "all")) {
			which_gpus(c->words[i], names);
			continue;
		}
		scoped_json *all = client_call(wire_request("gpus"), err);
		if (!all)
			return NULL;
		json_array_foreach(json_object_get(all, "gpus"), k, g)
			json_array_append(names, json_object_get(g, "uuid"));
	}
	return json_incref(names);
}

static int drain_each(struct cli_call *c, json_t *request, const json_t *names, json_t *gpus)
{
	int rc = CLI_DONE;
	size_t i;
	json_t *name;
	json_array_foreach(names, i, name) {
		struct error err = ERROR_INIT;
		json_object_set(request, "gpu", name);
		scoped_json *reply = client_call(json_incref(request), &err);
		if (!reply && (rc = cli_fail(c, &err)) == CLI_NO_DAEMON)
			return rc;
		if (reply)
			json_array_append_new(gpus, json_pack("{sO, sO, sO*}", "uuid", json_object_get(reply, "uuid"), "drained",
							      json_object_get(reply, "drained"), "changed", json_object_get(reply, "changed")));
	}
	return rc;
}

/* Which they were: "2" is the GPU of that number, and no number of GPUs. */
static void tell_which(const char *what, const json_t *gpus, bool changed, int64_t until_ms, const json_t *all)
{
	char until[FORMAT_LEN] = "";
	scoped_json *uuids = json_array();
	size_t i;
	json_t *g;
	json_array_foreach(gpus, i, g)
		if (changed == !json_is_false(json_object_get(g, "changed")))
			json_array_append(uuids, json_object_get(g, "uuid"));
	scoped_free char *which = format_gpus(uuids, all);
	if (until_ms)	/* 18:00 may be tomorrow's */
		format_ms(until_ms, until);
	if (json_array_size(uuids))
		printf("%s GPU %s%s%s\n", what, which, until_ms ? " until " : "", until);
}

/* Whoever drains to work on a GPU wants to know what is still there: asked when nothing more can begin. */
static int tell(struct cli_call *c, const json_t *drained, int64_t until_ms)
{
	struct error err = ERROR_INIT;
	scoped_json *all = client_call(wire_request("gpus"), &err);
	char number[FORMAT_LEN];
	size_t i, k;
	json_t *g, *id;
	if (!all)
		return cli_fail(c, &err);
	bool drains = !strcmp(c->verb->name, "drain");
	tell_which(drains ? "Drained" : "Undrained", drained, true, until_ms, json_object_get(all, "gpus"));
	tell_which("Not drained before:", drained, false, 0, json_object_get(all, "gpus"));
	if (!drains)
		return CLI_DONE;
	json_array_foreach(json_object_get(all, "gpus"), i, g) {
		const json_t *tasks = json_object_get(g, "tasks");
		if (!json_array_size(tasks) || !member_find(drained, "uuid", member_text(g, "uuid")))
			continue;
		printf("GPU %s: still running there: task%s", format_gpu(g, json_object_get(all, "gpus"), number),
		       json_array_size(tasks) == 1 ? "" : "s");
		json_array_foreach(tasks, k, id)
			printf(" %s", json_string_value(id));
		putchar('\n');
	}
	return CLI_DONE;
}

int verb_drain(struct cli_call *c)
{
	bool json = false, drains = !strcmp(c->verb->name, "drain");
	struct drain_wish wish = { 0 };
	const struct args_option all[] = {
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ "reason", 0, "TEXT", "why, for everybody to see", .value = &wish.reason },
		{ "until", 0, "TIME", "when it comes back by itself: 18:00, 2026-11-20T18:00, now+2h", .value = &wish.until },
		{ "for", 0, "TIME", "the same as a length of time: 2h", .value = &wish.length },
		{ 0 },
	};
	const struct args_option plain[] = { all[0], { 0 } };
	struct error err = ERROR_INIT;
	scoped_json *gpus = json_array(), *request = wire_request(c->verb->name);
	if (!cli_options(c, drains ? all : plain) || !cli_want_words(c, 1, CLI_ANY_NUMBER))
		return c->rc;
	if (fill_drain(&wish, request, &err))
		return cli_usage(c, "%s", err.text);
	scoped_json *names = named(c, &err);
	if (!names)
		return cli_fail(c, &err);
	int rc = drain_each(c, request, names, gpus), told = CLI_DONE;
	if (json && rc != CLI_NO_DAEMON)
		cli_print_json(json_pack("{si, sO}", "schema", 1, "gpus", gpus));
	else if (json_array_size(gpus))
		told = tell(c, gpus, json_integer_value(json_object_get(request, "until_ms")));
	return rc ? rc : told;
}
