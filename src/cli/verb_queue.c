/* SPDX-License-Identifier: MIT
 * rad queue.
 */
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_queue.h"
#include "cli/columns.h"
#include "cli/format.h"
#include "cli/queue_table.h"
#include "cli/repeat.h"
#include "cli/table.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <ctype.h>
#include <string.h>

#define LONG_FORMAT "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"	/* squeue's */

/* How the list is shown. */
struct look { struct column_set *columns; const char *sort; bool bare, each; };

/* On a terminal a person reads it; a script counts lines. */
static void print_counts(const json_t *tasks, const struct term *term)
{
	size_t counts[TASK_STATE_COUNT + 1], n = 0;
	char word[32];
	queue_table_count(tasks, counts);
	fputs(term_style(term, STYLE_BOLD), stdout);
	for (unsigned i = 0; i < TASK_STATE_COUNT; i++) {
		snprintf(word, sizeof word, "%s", task_state_name(i));
		for (char *p = word; *p; p++)
			*p = *p == '_' ? ' ' : (char)tolower((unsigned char)*p);
		if (counts[i])
			printf("%s%zu %s", n++ ? ", " : "", counts[i], word);
	}
	printf("%s%s\n", n ? "" : "No tasks", term_style(term, STYLE_PLAIN));
}

static int show_once(const struct which *f, const struct look *look, const struct term *term, struct error *err)
{
	const char *asked[COLUMNS_MEMBERS];
	size_t n = look->columns ? columns_members(look->columns, asked) : QUEUE_TABLE_MEMBERS;
	if (!look->columns)
		memcpy(asked, queue_table_members, sizeof queue_table_members);
	if (look->sort)
		n = columns_sort_members(look->sort, asked, n);
	scoped_json *found = which_fetch(f, asked, n, err);
	scoped_json *gpus = found ? client_call(wire_request("gpus"), err) : NULL;
	if (!gpus)
		return -1;
	const json_t *known = json_object_get(gpus, "gpus");
	json_t *tasks = json_object_get(found, "tasks");
	if (look->sort)
		columns_sort(tasks, look->sort, known);
	if (!look->columns && term->live)
		print_counts(tasks, term);
	if (look->columns)
		columns_print(look->columns, !look->bare, tasks, known, stdout);
	else
		queue_table_print(tasks, known, look->bare, look->each, term, stdout);
	if (json_is_true(json_object_get(found, "truncated")))
		puts("... and more tasks than one message can carry");
	return 0;
}

/* ---- the verb ---- */

/* What --watch repeats. */
struct watched_queue { const struct which *which; const struct look *look; };

static int show_again(void *ctx, const struct term *term, struct error *err)
{
	const struct watched_queue *w = ctx;
	return show_once(w->which, w->look, term, err);
}

static int list(struct cli_call *c, const struct which *f, const struct look *look, bool json)
{
	struct error err = ERROR_INIT;
	if (json) {
		json_t *found = which_fetch(f, NULL, 0, &err);
		if (found && look->sort)
			columns_sort(json_object_get(found, "tasks"), look->sort, NULL);
		return found ? cli_print_json(found) : cli_fail(c, &err);
	}
	struct term term = term_ask();
	return show_once(f, look, &term, &err) ? cli_fail(c, &err) : CLI_DONE;
}

/* ---- expected starts ---- */

/* Those of the tasks that the filter lets through: a new list of {id, name, user, gpus_requested, reason, and what is said of
 * its start}. */
static json_t *join_starts(const json_t *starts, const json_t *tasks)
{
	json_t *joined = json_array(), *t, *s;
	scoped_json *by_id = json_object();
	size_t i;
	json_array_foreach(starts, i, s)
		json_object_set(by_id, member_text(s, "id"), s);
	json_array_foreach(tasks, i, t) {
		static const char *const keys[] = { "id", "name", "user", "gpus_requested", "reason" };
		json_t *one = (s = json_object_get(by_id, member_text(t, "id"))) ? json_copy(s) : NULL;
		for (size_t k = 0; one && k < COUNT_OF(keys); k++)
			json_object_set(one, keys[k], json_object_get(t, keys[k]));
		if (one)
			json_array_append_new(joined, one);
	}
	return joined;
}

/* Elements of one array, one after the other, of which nobody knows when: one line. */
static bool start_goes_on(const json_t *a, const json_t *b)
{
	task_id x = member_id(a), y = member_id(b);
	return !*member_text(a, "start_time") && !*member_text(b, "start_time") && TASK_JOB(x) == TASK_JOB(y) &&
	       TASK_INDEX(y) == TASK_INDEX(x) + 1 && !strcmp(member_text(a, "reason"), member_text(b, "reason"));
}

static void add_start_ids(struct table *table, const json_t *first, const json_t *last)
{
	task_id a = member_id(first), b = member_id(last);
	if (first == last)
		table_cell(table, STYLE_PLAIN, member_text(first, "id"));
	else
		table_printf(table, STYLE_PLAIN, "%u_[%d-%d]", TASK_JOB(a), TASK_INDEX(a), TASK_INDEX(b));
}

static void add_how(struct table *table, const json_t *s)
{
	static const char *const how[][2] = {
		{ "plan", "the plan" }, { "progress", "how far the tasks before it are" }, { "runs", "what earlier runs took" },
		{ "limit", "at the latest: time limits" },
		{ "capture", "the loops in their scripts" }, { "begin", "no sooner: --begin" }, { NULL },
	};
	const char *words = words_beside(how, member_text(s, "source"));
	if (words)
		table_cell(table, STYLE_PLAIN, words);
	else
		table_printf(table, STYLE_DIM, "nobody knows (%s)", member_text(s, "reason"));
}

static void print_starts(const json_t *starts)
{
	static const struct table_column columns[] = {
		{ "ID", .right = true }, { "NAME", .min = 4, .ends = true }, { "USER", .min = 6, .drop = 3 },
		{ "GPUS", .right = true, .drop = 4 }, { "START", .drop = 2 }, { "IN", .right = true, .drop = 1 }, { "HOW IT IS KNOWN" },
	};
	struct term term = term_ask();
	struct table *table = table_create(columns, COUNT_OF(columns));
	char text[FORMAT_LEN];
	size_t n = json_array_size(starts);
	for (size_t i = 0, k; i < n; i = k + 1) {
		const json_t *s = json_array_get(starts, i);
		bool known = *member_text(s, "start_time");
		for (k = i; k + 1 < n && start_goes_on(json_array_get(starts, k), json_array_get(starts, k + 1)); k++)
			;
		add_start_ids(table, s, json_array_get(starts, k));
		table_cell(table, STYLE_PLAIN, member_text(s, "name"));
		table_cell(table, STYLE_PLAIN, member_text(s, "user"));
		table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(s, "gpus_requested"));
		table_cell(table, STYLE_PLAIN, known ? format_time(member_text(s, "start_time"), text) : "-");
		table_cell(table, STYLE_PLAIN, known ? format_seconds(member_number(s, "in_s"), text) : "-");
		add_how(table, s);
	}
	table_print(table, &term, stdout);
	table_destroy(table);
}

static int show_starts(struct cli_call *c, const struct which *f, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *said = client_call(wire_request("starts"), &err);
	scoped_json *found = said ? which_fetch(f, queue_table_members, QUEUE_TABLE_MEMBERS, &err) : NULL;
	if (!found)
		return cli_fail(c, &err);
	json_t *starts = join_starts(json_object_get(said, "starts"), json_object_get(found, "tasks"));
	if (json)
		return cli_print_json(json_pack("{si, so, sO}", "schema", 1, "starts", starts, "truncated",
						json_object_get(said, "truncated")));
	print_starts(starts);
	json_decref(starts);
	if (json_is_true(json_object_get(said, "truncated")))
		puts("... and more");
	return CLI_DONE;
}

/* What was asked for. */
struct queue_asked {
	bool json, me, bare, start, wide, parsable, each;
	const char *user, *states, *every, *format, *ids;
	const char *slurms;	/* what means nothing here */
};

static int take_look(const struct queue_asked *a, struct look *look, struct error *err)
{
	const char *format = a->format ? a->format : a->wide ? LONG_FORMAT : a->parsable ? "%i %j %u %t %M %R" : NULL;
	look->bare = a->bare;
	look->each = a->each;
	if (look->sort && columns_sort_check(look->sort, err))
		return error_wrap(err, "--sort");
	look->columns = format ? columns_parse(format, COLUMN_SQUEUE, err) : NULL;
	if (format && !look->columns)
		return error_wrap(err, "--format");
	if (a->parsable)
		columns_delimit(look->columns, "|", false);
	return 0;
}

static int take_which(struct cli_call *c, const struct queue_asked *a, struct which *f, struct error *err)
{
	char *ids = (char *)a->ids;
	if (which_states(f, a->states ? a->states : "PD,H,R", err) || which_ids(f, c->words, c->n_words, err) ||
	    (ids && which_ids(f, &ids, 1, err)))
		return -1;
	return 0;
}

int verb_queue(struct cli_call *c)
{
	struct queue_asked a = { .json = false };
	struct look look = { .columns = NULL };
	struct which f = { .name = NULL };
	struct watched_queue again = { &f, &look };
	const struct args_option options[] = {
		{ "me", 0, NULL, "only your own tasks", .flag = &a.me },
		{ "user", 'u', "USER", "only tasks of this user, or these (names or uids; all: everybody's)", .value = &a.user },
		{ "states", 't', "LIST", "all, or some of PD,H,R,CD,F,OOM,CA,TO,LO (default PD,H,R)", .words = CLI_STATES,
		  .value = &a.states },
		{ "name", 'n', "PATTERN", "only tasks of this name, or one of these: *, ? and [...] as in the shell", .value = &f.name },
		{ "jobs", 'j', "LIST", "only these, as ids that stand alone: 12,14_[0-3]", .value = &a.ids },
		{ "format", 'o', "FORMAT", "a line of one's own for each task: '%.18i %.8j %.2t %.10M %R', or JobID,State,Elapsed",
		  .value = &a.format },
		{ "Format", 'O', "FIELDS", "the same, as squeue has it", .value = &a.format },
		{ "long", 'l', NULL, "squeue's long form", .flag = &a.wide },
		{ "sort", 'S', "FIELDS", "in this order: fields of --format, - in front of one that goes down: -Priority,JobID",
		  .value = &look.sort },
		{ "noheader", 'h', NULL, "no line of titles above it", .flag = &a.bare },
		{ "parsable2", 'P', NULL, "columns with | between them, and no widths", .flag = &a.parsable },
		{ "array", 'r', NULL, "a line for each element of an array", .flag = &a.each },
		{ "start", 0, NULL, "when waiting tasks are expected to start, and how that is known", .flag = &a.start },
		{ "watch", 'w', "SECONDS", "show it again and again, on a terminal", .value = &a.every },
		{ "iterate", 'i', "SECONDS", "the same, in Slurm's spelling", .value = &a.every },
		CLIENT_QUEUE_OPTION,
		{ "partition", 'p', "NAME", NULL, .value = &a.slurms },
		{ "account", 'A', "NAME", NULL, .value = &a.slurms },
		{ "qos", 'q', "NAME", NULL, .value = &a.slurms },
		{ "json", 0, NULL, "print JSON", .flag = &a.json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	int rc;
	if (!cli_options(c, options))
		return c->rc;
	if (a.slurms)
		return cli_usage(c, CLI_NO_PARTITIONS, a.slurms);
	if (a.every && a.start)
		return cli_usage(c, "--start is printed once: leave out --watch");
	if (a.me && a.user)
		return cli_usage(c, CLI_ONE_OWNER);
	f.fold = !a.format && !a.wide && !a.start && !a.json && !a.each && !look.sort;
	if (((a.user || a.me) && which_users(&f, a.me ? NULL : a.user, &err)) || take_look(&a, &look, &err) ||
	    take_which(c, &a, &f, &err))
		rc = cli_usage(c, "%s", err.text);
	else
		rc = a.start ? show_starts(c, &f, a.json) : a.every ? repeat_show_every(c, a.every, a.json, show_again, &again) :
		     list(c, &f, &look, a.json);
	columns_destroy(look.columns);
	which_clear(&f);
	return rc;
}
