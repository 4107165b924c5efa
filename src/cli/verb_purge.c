/* SPDX-License-Identifier: MIT
 * rad purge: what ended long ago goes for good. It counts first and says what would go; it removes after a yes.
 */
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/span.h"
#include "submit/wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct purge {
	json_int_t tasks, kept;
	bool own;	/* nobody's was said: the caller's */
};

/* One walk through all of them, a piece a request. */
static int purge_walk(json_t *request, bool dry_run, struct purge *sum, struct error *err)
{
	*sum = (struct purge){ .own = sum->own };
	json_object_del(request, "at_ms");
	json_object_del(request, "at");
	json_object_set_new(request, "dry_run", json_boolean(dry_run));
	for (bool done = false; !done;) {
		scoped_json *reply = client_call(json_incref(request), err);
		if (!reply)
			return -1;
		sum->tasks += member_int(reply, "tasks");
		sum->kept += member_int(reply, "kept");
		done = json_is_true(json_object_get(reply, "done"));
		json_object_set(request, "at_ms", json_object_get(reply, "at_ms"));
		json_object_set(request, "at", json_object_get(reply, "at"));
	}
	return 0;
}

static void purge_tell(const struct purge *p, const char *what)
{
	printf("%s %lld ended task%s", what, (long long)p->tasks, p->tasks == 1 ? "" : "s");
	if (p->kept)
		printf("; %lld as old stay%s: others of their array, or tasks that depend on them, have not ended",
		       (long long)p->kept, p->kept == 1 ? "s" : "");
	if (p->own && !p->tasks && !p->kept && !geteuid())
		printf(" of root's own; --user all: everybody's");
	puts("");
}

static void purge_json(const struct purge *p, bool dry_run)
{
	cli_print_json(json_pack("{si, sI, sI, sb}", "schema", 1, "tasks", p->tasks, "kept", p->kept, "dry_run", (int)dry_run));
}

/* Whoever cannot be asked has to have said it. */
static bool purge_agreed(const struct purge *p)
{
	char answer[16] = "";
	if (!isatty(STDIN_FILENO))
		return false;
	fflush(stdout);
	fprintf(stderr, "Remove %lld task%s for good, from accounts too? Logs and files stay. [y/N] ", (long long)p->tasks,
		p->tasks == 1 ? "" : "s");
	return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int purge_request(json_t *request, const char *older, const char *user, struct error *err)
{
	int64_t age_s;
	if (units_parse_duration(older, 0, UNITS_TEN_YEARS_S, &age_s, err))
		return error_wrap(err, "--older");
	json_object_set_new(request, "before_ms", json_integer(clock_wall_ms() - age_s * 1000));
	if (user && !strcmp(user, "all"))
		json_object_set_new(request, "uid", json_integer(-1));
	else if (user)
		return span_fill_user(request, user, err);
	return 0;
}

static int purge_remove(struct cli_call *c, json_t *request, struct purge *sum, bool json)
{
	struct error err = ERROR_INIT;
	if (purge_walk(request, false, sum, &err))
		return cli_fail(c, &err);
	if (json)
		purge_json(sum, false);
	else
		purge_tell(sum, "Removed");
	return CLI_DONE;
}

int verb_purge(struct cli_call *c)
{
	bool json = false, dry_run = false, yes = false;
	const char *older = NULL, *user = NULL;
	const struct args_option options[] = {
		{ "older", 0, "TIME", "those that ended so long ago: 90d, 12h", .value = &older },
		{ "user", 'u', "USER", "of that user, or all, for the administrator (default: your own)", .value = &user },
		{ "dry-run", 0, NULL, "only say how many", .flag = &dry_run },
		{ "yes", 'y', NULL, "do not ask", .flag = &yes },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	struct purge sum = { 0 };
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (!older)
		return cli_usage(c, "--older is missing: how long ago they ended, for example --older 90d");
	sum.own = !user;
	scoped_json *request = wire_request("purge");
	if (purge_request(request, older, user, &err))
		return cli_usage(c, "%s", err.text);
	if (yes && !dry_run)
		return purge_remove(c, request, &sum, json);
	if (purge_walk(request, true, &sum, &err))
		return cli_fail(c, &err);
	bool over = dry_run || !sum.tasks;
	if (json && over)
		purge_json(&sum, true);
	else if (!json)
		purge_tell(&sum, "Would remove");
	if (over)
		return CLI_DONE;
	if (purge_agreed(&sum))
		return purge_remove(c, request, &sum, json);
	error_set(&err, ERR_INVALID, "nothing was removed: say --yes to remove them");
	return cli_fail(c, &err);
}
