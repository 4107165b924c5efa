/* SPDX-License-Identifier: MIT
 * rad report: what ran on this server's GPUs, or what files say of other runs, as a page, CSV or JSON.
 */
#include "account/account.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/accounts.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/feeds.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/report_monitor.h"
#include "cli/report_save.h"
#include "cli/span.h"
#include "submit/wire.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE ((size_t)256 << 20)

enum { FEEDS_SHOWN = 20, FEED_TASKS_SHOWN = 24 };

struct asked { const char *since, *until, *user, *output, *csv, *series_csv, *title, *monitor; bool json; };

/* From files ------------------------------------------------------------------------------------------------------------ */

/* "out/magm.json": magm. */
static char *name_of(const char *path)
{
	const char *base = words_base(path), *dot = strrchr(base, '.');
	return alloc_printf("%.*s", (int)(dot && dot > base ? (size_t)(dot - base) : strlen(base)), base);
}

static int add_file(struct report *r, const char *path, struct error *err)
{
	scoped_buf text = { 0 };
	scoped_free char *name = name_of(path);
	json_error_t where;
	if (io_read_file(path, MAX_FILE, &text, err))
		return -1;
	scoped_json *file = json_loadb(buf_text(&text), text.len, 0, &where);
	if (!file)
		return error_set(err, ERR_INVALID, "%s:%d: is not JSON: %s", path, where.line, where.text);
	return report_add_json(r, name, file, err) ? error_wrap(err, "%s", path) : 0;
}

/* As often as it was given. */
static int add_watched(const struct cli_call *c, struct report *r, struct error *err)
{
	for (size_t i = 0; i < c->n_given; i++) {
		if (strcmp(c->given[i].option->name, "monitor"))
			continue;
		scoped_free char *name = name_of(c->given[i].value);
		if (report_monitor_add(r, name, c->given[i].value, err))
			return -1;
	}
	return 0;
}

/* What report_add_tasks reads of those that ended, and what account_add_told and feeds do. */
static const char *const wanted[] = {
	"submit_time", "wait_s", "held_s", "run_s", "lost_s", "jct_s", "gpu_s", "gpu_share_s", "estimate", "feed", "attempts[].start",
	"attempts[].end", "attempts[].gpus", "attempts[].share", "attempts[].verdict", "attempts[].evidence", "attempts[].claim_mib",
	"attempts[].peak_mib", "attempts[].mean_smact", "attempts[].energy_j", "attempts[].gpu_s", "attempts[].gpu_share_s",
};

/* From the daemon ------------------------------------------------------------------------------------------------------- */

/* All that live, of which most may wait: each with what is read of it, and when it began. */
static json_t *ask_living(struct error *err)
{
	json_t *request = wire_request("list");
	accounts_want(request, wanted, COUNT_OF(wanted));
	json_array_append_new(json_object_get(request, "members"), json_text("start_time"));
	json_object_set_new(request, "fold", json_true());
	return client_call(request, err);
}

/* What runs now and began before the end of the span. */
static void add_living(const json_t *request, json_t *tasks, const json_t *living)
{
	char user[FORMAT_LEN] = "";
	if (json_is_integer(json_object_get(request, "uid")))
		format_user((uid_t)member_int(request, "uid"), user);
	int64_t to_ms = json_object_get(request, "to_ms") ? member_int(request, "to_ms") : INT64_MAX;
	size_t i;
	json_t *t;
	json_array_foreach(living, i, t) {
		bool mine = !*user || !strcmp(user, member_text(t, "user"));
		if (mine && member_ms(t, "start_time", INT64_MAX) < to_ms)
			json_array_append(tasks, t);
	}
}

/* The first start and the last end of attempts; an attempt that runs ends now. */
struct reach { int64_t first_ms, last_ms; };

static struct reach reach_of(const json_t *tasks)
{
	struct reach r = { INT64_MAX, 0 };
	int64_t now = clock_wall_ms();
	size_t i, k;
	json_t *t, *a;
	json_array_foreach(tasks, i, t) {
		const json_t *attempts = json_object_get(t, "attempts");
		json_array_foreach(attempts, k, a) {
			int64_t start = member_ms(a, "start", INT64_MAX), end = member_ms(a, "end", now);
			r.first_ms = start < r.first_ms ? start : r.first_ms;
			r.last_ms = end > r.last_ms ? end : r.last_ms;
		}
	}
	return r;
}

/* {"USER NAME": {tasks[] text}} of tasks that said a feed. */
static json_t *feeds_of(const json_t *tasks)
{
	json_t *all = json_object(), *t;
	size_t i;
	json_array_foreach(tasks, i, t) {
		const json_t *feed = json_object_get(t, "feed");
		const char *name = member_text(feed, "name"), *producer = member_text(feed, "producer");
		if (!*name)
			continue;
		scoped_free char *key = alloc_printf("%s of %s", name, member_text(t, "user"));
		json_t *one = json_object_get(all, key);
		if (!one)
			json_object_set_new(all, key, one = json_pack("{s[]}", "tasks"));
		json_array_append(json_object_get(one, "tasks"), json_object_get(t, "id"));
		if (!strcmp(member_text(feed, "role"), "producer") || (*producer && !json_object_get(one, "text"))) {
			scoped_free char *text = alloc_printf("; task %s feeds them, %.1f batches/s", *producer ? producer : "?",
							      member_number(feed, "batches_s"));
			json_object_set_new(one, "text", json_text(text));
		}
	}
	return all;
}

/* Which tasks had one loader, and, of the caller's that run now, who feeds them: a line for the page. */
static char *feeds_note(const json_t *tasks)
{
	struct buf text = { 0 };
	feeds_tell(tasks);
	scoped_json *feeds = feeds_of(tasks);
	const char *name;
	json_t *feed, *id;
	size_t i, shown = 0;
	json_object_foreach(feeds, name, feed) {
		const json_t *ids = json_object_get(feed, "tasks");
		if (shown++ == FEEDS_SHOWN)
			break;
		buf_printf(&text, "%s%s: tasks", shown > 1 ? ". " : "Feeds (one data loader for several tasks): ", name);
		json_array_foreach(ids, i, id)
			if (i < FEED_TASKS_SHOWN)
				buf_printf(&text, "%s %s", i ? "," : "", json_string_value(id));
		if (json_array_size(ids) > FEED_TASKS_SHOWN)
			buf_printf(&text, " and %zu more", json_array_size(ids) - FEED_TASKS_SHOWN);
		buf_printf(&text, "%s", member_text(feed, "text"));
	}
	return buf_steal(&text);
}

/* " WORD TIME", or nothing where there is no such time: of all tasks until then, or from then on. */
static char *moment_note(const char *word, int64_t ms)
{
	char text[FORMAT_LEN];
	return ms ? alloc_printf(" %s %s", word, format_ms(ms, text)) : alloc_string("");
}

/* Of which tasks the page is: a page that is kept, or sent to somebody, has to say so itself. */
static char *span_note(const json_t *span, const char *user)
{
	int64_t from_ms = member_int(span, "from_ms"), to_ms = member_int(span, "to_ms");
	scoped_free char *from = moment_note(to_ms ? "from" : "since", from_ms), *to = moment_note(from_ms ? "to" : "until", to_ms);
	return alloc_printf("tasks%s%s that ended%s%s, and those that still run", user ? " of " : "", user ? user : "", from, to);
}

/* The answers to acct, series and gpus, put together as a file of one run. */
static json_t *run_of(const json_t *accounts, const json_t *series, const json_t *gpus, struct reach reach, const char *title,
		      const char *which)
{
	char name[256] = "this server";
	gethostname(name, sizeof name - 1);
	scoped_free char *feeds = feeds_note(json_object_get(accounts, "tasks"));
	bool cut = json_is_true(json_object_get(accounts, "truncated"));
	const char *more = "there are more tasks than are listed here (the totals are of all): ask for a shorter time";
	scoped_free char *note = alloc_printf("%s%s%s%s%s", which, cut ? ". " : "", cut ? more : "", *feeds ? ". " : "", feeds);
	/* Places in series are those of its own list, so that comes first; the other knows of idle GPUs too. */
	json_t *list = json_array();
	json_array_extend(list, json_object_get(series, "gpus"));
	json_array_extend(list, json_object_get(gpus, "gpus"));
	json_t *run = json_pack("{so, so, so, so, sO, sO, sO}", "name", json_text(title ? title : name),
		"note", json_text_or_null(note),
		"origin", json_time_or_null(reach.last_ms ? reach.first_ms : clock_wall_ms()), "gpus", list,
		"totals", json_object_get(accounts, "totals"), "tasks", json_object_get(accounts, "tasks"),
		"series", json_object_get(series, "series"));
	return json_pack("{s[o]}", "runs", run);
}

static json_t *ask_series(struct reach reach, struct error *err)
{
	json_t *request = wire_request("series");
	json_object_set_new(request, "from_ms", json_integer(reach.last_ms ? reach.first_ms : 0));
	json_object_set_new(request, "to_ms", json_integer(reach.last_ms));
	return client_call(request, err);
}

/* What its attempts took until now, and how many of them ran out of memory: as their GPU hours are counted, and as the users'
 * rows count. */
static void add_under_way(struct account *sums, const json_t *task)
{
	const json_t *attempts = json_object_get(task, "attempts"), *a;
	for (size_t i = 0; (a = json_array_get(attempts, i)); i++) {
		sums->energy_j += isfinite(member_number(a, "energy_j")) ? member_number(a, "energy_j") : 0;
		sums->ooms += !strcmp(member_text(a, "verdict"), "oom");
	}
}

/* As an earlier release told them, or those of the tasks: of the first `ended`, and what the others took until now. */
static json_t *totals_of(const json_t *accounts, size_t ended)
{
	struct account sums = { 0 };
	json_t *told = json_object_get(accounts, "totals"), *t;
	const json_t *tasks = json_object_get(accounts, "tasks");
	size_t i;
	if (told && !json_is_null(told))
		return json_incref(told);
	json_array_foreach(tasks, i, t)
		if (i < ended)
			account_add_told(&sums, t);
		else
			add_under_way(&sums, t);
	told = account_to_json(&sums);
	account_clear(&sums);
	return told;
}

static int add_server(struct cli_call *c, struct report *r, const struct asked *a, struct error *err)
{
	json_t *request = wire_request("acct");
	if (span_fill(request, a->since, a->until, a->user, err)) {
		json_decref(request);
		return cli_usage(c, "%s", err->text);
	}
	scoped_json *span = json_copy(request);
	accounts_want(request, wanted, COUNT_OF(wanted));
	scoped_json *accounts = accounts_fetch_all(request, err);
	scoped_json *living = accounts ? ask_living(err) : NULL;
	scoped_json *gpus = living ? client_call(wire_request("gpus"), err) : NULL;
	if (!gpus)
		return cli_fail(c, err);
	json_t *tasks = json_object_get(accounts, "tasks");
	size_t ended = json_array_size(tasks);
	add_living(span, tasks, json_object_get(living, "tasks"));
	json_object_set_new(accounts, "totals", totals_of(accounts, ended));
	struct reach reach = reach_of(tasks);
	scoped_json *series = ask_series(reach, err);
	if (!series)
		return cli_fail(c, err);
	scoped_free char *which = span_note(span, a->user);
	scoped_json *run = run_of(accounts, series, gpus, reach, a->title, which);
	return report_add_json(r, "", run, err) ? cli_fail(c, err) : CLI_DONE;
}

/* The verb -------------------------------------------------------------------------------------------------------------- */

static int save(struct cli_call *c, const struct report *r, const struct asked *a)
{
	struct error err = ERROR_INIT;
	if ((a->output && report_save(r, a->output, REPORT_BY_NAME, &err)) ||
	    (a->csv && report_save(r, a->csv, REPORT_TASKS_CSV, &err)) ||
	    (a->series_csv && report_save(r, a->series_csv, REPORT_SERIES_CSV, &err)))
		return cli_fail(c, &err);
	return a->json ? cli_print_json(report_json(r)) : CLI_DONE;
}

/* How many of the forms are to go to standard output. */
static unsigned count_printed(const struct asked *a)
{
	const char *const outputs[] = { a->output, a->csv, a->series_csv, a->json ? "-" : NULL };
	unsigned n = 0;
	for (size_t i = 0; i < COUNT_OF(outputs); i++)
		n += outputs[i] && !strcmp(outputs[i], "-");
	return n;
}

int verb_report(struct cli_call *c)
{
	struct asked a = { 0 };
	const struct args_option options[] = {
		{ "output", 'o', "F.html", "write the page there; F.json and F.csv get that form", .value = &a.output },
		{ "csv", 0, "F.csv", "write the attempts of tasks there as CSV", .value = &a.csv },
		{ "series-csv", 0, "F.csv", "write memory, activity and power over time there as CSV", .value = &a.series_csv },
		{ "json", 0, NULL, "print all of it as JSON", .flag = &a.json },
		{ "monitor", 0, "F.csv", "a run is what rad monitor wrote there; may be given again", .value = &a.monitor },
		{ "title", 0, "TEXT", "of the page, and of the run where radd is asked", .value = &a.title },
		{ "since", 'S', "TIME", "tasks that ended since, and running ones: 7d, 2026-11-20 (default: midnight)", .value = &a.since },
		{ "until", 'E', "TIME", "and before that time", .value = &a.until },
		{ "user", 'u', "USER", "only this user's tasks", .value = &a.user },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	int rc = CLI_DONE;
	if (!cli_options(c, options))
		return c->rc;
	if (!a.output && !a.csv && !a.series_csv && !a.json)
		return cli_usage(c, "where to? -o F.html, --csv F.csv, --series-csv F.csv or --json");
	if (count_printed(&a) > 1)
		return cli_usage(c, "standard output takes one of them: name a file for the others");
	bool files = c->n_words || a.monitor;
	if (files && (a.since || a.until || a.user))
		return cli_usage(c, "--since, --until and --user ask radd, and the runs come from files here");
	scoped_free char *title = a.title ? alloc_string(a.title) : c->n_words == 1 && !a.monitor ? name_of(c->words[0])
				: alloc_string(c->n_words ? "Runs side by side" : a.monitor ? "GPUs that were watched" : "Tasks on GPUs");
	struct report *r = report_create(title, clock_wall_ms());
	for (size_t i = 0; i < c->n_words && !rc; i++)
		rc = add_file(r, c->words[i], &err) ? cli_fail(c, &err) : CLI_DONE;
	if (!rc && add_watched(c, r, &err))
		rc = cli_fail(c, &err);
	if (!files)
		rc = add_server(c, r, &a, &err);
	if (!rc)
		rc = save(c, r, &a);
	report_destroy(r);
	return rc;
}
