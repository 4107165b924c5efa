/* SPDX-License-Identifier: MIT
 * rad queue.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/queue_format.h"
#include "cli/table.h"
#include "cli/which.h"
#include "submit/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All that the table shows of a task beside what tasks are chosen by. */
static const char *const shown[] = { "priority", "gpus_requested", "run_s", "progress", "estimate", "attempts", "reason" };

/* ---- the table ---- */

/* The same line of the table, but for the index: pending or held elements of one array. */
static bool same_line(const json_t *a, const json_t *b)
{
	task_id i, k;
	enum task_state s = member_state(a);
	return (s == TASK_PENDING || s == TASK_HELD) && s == member_state(b) &&
	       !task_id_parse(member_text(a, "id"), &i, NULL) && !task_id_parse(member_text(b, "id"), &k, NULL) &&
	       TASK_JOB(i) == TASK_JOB(k) && !strcmp(member_text(a, "reason"), member_text(b, "reason")) &&
	       !strcmp(member_text(a, "name"), member_text(b, "name")) && member_int(a, "priority") == member_int(b, "priority");
}

/* An element that made place comes behind those that were never asked to: its turn, not its place in this list. */
static int compare_elements(const void *a, const void *b)
{
	task_id x = 0, y = 0;
	task_id_parse(member_text(*(json_t *const *)a, "id"), &x, NULL);
	task_id_parse(member_text(*(json_t *const *)b, "id"), &y, NULL);
	return (x > y) - (x < y);
}

/* "12_[3-7,9]" for tasks first..last of one array, as Slurm writes it. */
static void add_ids(struct table *table, json_t **first, size_t n)
{
	scoped_buf text = { 0 };
	task_id id = 0;
	if (n == 1) {
		table_cell(table, STYLE_PLAIN, member_text(*first, "id"));
		return;
	}
	qsort(first, n, sizeof *first, compare_elements);
	task_id_parse(member_text(*first, "id"), &id, NULL);
	buf_printf(&text, "%u_[", TASK_JOB(id));
	for (size_t i = 0; i < n;) {
		task_id from = 0, to = 0, next = 0;
		size_t k = i;
		task_id_parse(member_text(first[i], "id"), &from, NULL);
		for (to = from; ++k < n && !task_id_parse(member_text(first[k], "id"), &next, NULL) && next == to + 1; to = next)
			;
		buf_printf(&text, "%s%d", i ? "," : "", TASK_INDEX(from));
		if (to != from)
			buf_printf(&text, "-%d", TASK_INDEX(to));
		i = k;
	}
	buf_add_text(&text, "]");
	table_cell(table, STYLE_PLAIN, buf_text(&text));
}

/* How far it is and what is left, where any of them says so: two columns more. */
static void add_progress(struct table *table, const json_t *t)
{
	const json_t *p = json_object_get(t, "progress");
	char text[FORMAT_LEN];
	double percent = member_number(p, "percent");
	/* 100 % is what is done, and not what is nearly so. */
	table_cell(table, STYLE_PLAIN, format_percent(floor(percent) / 100, text));
	table_cell(table, STYLE_PLAIN, format_left(member_number(p, "left_s"), text));
}

static void add_row(struct table *table, json_t **first, size_t n, const json_t *gpus, bool progress)
{
	const json_t *t = *first;
	char text[FORMAT_LEN];
	enum task_state s = member_state(t);
	add_ids(table, first, n);
	table_cell(table, STYLE_PLAIN, member_text(t, "name"));
	table_cell(table, STYLE_PLAIN, member_text(t, "user"));
	table_cell(table, format_state_style(s), task_state_code(s));
	table_cell(table, STYLE_PLAIN, format_seconds(member_number(t, "run_s"), text));
	if (progress)
		add_progress(table, t);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(t, "gpus_requested"));
	table_cell(table, STYLE_PLAIN, format_mib(member_number(json_object_get(t, "estimate"), "claim_mib"), text));
	scoped_free char *where = format_gpus(json_object_get(member_last_attempt(t), "gpus"), gpus);
	const char *reason = member_text(t, "reason");
	/* Its GPU is held, and it does not run yet, not now, not where it was sent, or computes nothing. */
	if (s == TASK_RUNNING && (!strcmp(reason, "Delayed") || !strcmp(reason, "Suspended") || !strcmp(reason, "OtherGpus") ||
				  !strcmp(reason, "Idle")))
		table_printf(table, STYLE_YELLOW, "%s (%s)", where, reason);
	else if (s != TASK_PENDING && s != TASK_HELD)
		table_cell(table, STYLE_PLAIN, where);
	else
		table_printf(table, STYLE_DIM, "(%s)", reason);
}

static bool any_progress(const json_t *tasks)
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t)
		if (json_is_number(json_object_get(json_object_get(t, "progress"), "percent")))
			return true;
	return false;
}

static struct table *begin_table(bool progress)
{
	static const struct table_column plain[] = {
		{ "ID", .right = true, .min = 8 }, { "NAME", .min = 8 }, { "USER", .min = 6 }, { "ST" }, { "TIME", .right = true },
		{ "GPUS", .right = true }, { "MEM", .right = true }, { "GPU(REASON)", .min = 11 },
	};
	static const struct table_column with_progress[] = {
		{ "ID", .right = true, .min = 6 }, { "NAME", .min = 6 }, { "USER", .min = 4 }, { "ST" }, { "TIME", .right = true },
		{ "DONE", .right = true }, { "LEFT", .right = true },
		{ "GPUS", .right = true }, { "MEM", .right = true }, { "GPU(REASON)", .min = 11 },
	};
	return progress ? table_create(with_progress, COUNT_OF(with_progress)) : table_create(plain, COUNT_OF(plain));
}

void verb_queue_print(const json_t *tasks, const json_t *gpus, const struct term *term, FILE *out)
{
	bool progress = any_progress(tasks);
	struct table *table = begin_table(progress);
	size_t n = json_array_size(tasks);
	scoped_free json_t **list = alloc_zero((n + 1) * sizeof *list);
	for (size_t i = 0; i < n; i++)
		list[i] = json_array_get(tasks, i);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && same_line(list[i], list[k]); k++)
			;
		add_row(table, list + i, k - i, gpus, progress);
	}
	table_print(table, term, out);
	table_destroy(table);
}

/* How the list is shown. */
struct look { const char *format; bool titles; };

static int show_once(const struct which *f, const struct look *look, const struct term *term, struct error *err)
{
	scoped_json *found = which_fetch(f, look->format ? NULL : shown, COUNT_OF(shown), err);
	scoped_json *gpus = found ? client_call(wire_request("gpus"), err) : NULL;
	if (!gpus)
		return -1;
	const json_t *tasks = json_object_get(found, "tasks"), *known = json_object_get(gpus, "gpus");
	if (look->format)
		queue_format_print(look->format, look->titles, tasks, known, stdout);
	else
		verb_queue_print(tasks, known, term, stdout);
	if (json_is_true(json_object_get(found, "truncated")))
		puts("... and more tasks than one message can carry");
	return 0;
}

/* ---- the verb ---- */

static int watch(struct cli_call *c, const struct which *f, const struct look *look, const char *every)
{
	struct error err = ERROR_INIT;
	double seconds;
	if (units_parse_double(every, 0.2, 3600, &seconds, &err))
		return cli_usage(c, "--watch: %s", err.text);
	for (;;) {
		struct term term = term_ask();
		if (!term.live)
			return cli_usage(c, "--watch needs a terminal");
		fputs("\033[H\033[J", stdout);
		if (show_once(f, look, &term, &err))
			return cli_fail(c, &err);
		if (fflush(stdout))
			return CLI_FAILED;
		usleep((useconds_t)(seconds * 1e6));
	}
}

static int list(struct cli_call *c, const struct which *f, const struct look *look, bool json)
{
	struct error err = ERROR_INIT;
	if (json) {
		json_t *found = which_fetch(f, NULL, 0, &err);
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

static void print_starts(const json_t *starts)
{
	static const struct table_column columns[] = {
		{ "ID", .right = true, .min = 8 }, { "NAME", .min = 8 }, { "USER", .min = 6 }, { "GPUS", .right = true }, { "START" },
		{ "IN", .right = true }, { "HOW IT IS KNOWN", .min = 20 },
	};
	static const struct { const char *source, *words; } how[] = {
		{ "plan", "the plan" }, { "progress", "how far the tasks before it are" }, { "runs", "what earlier runs took" },
		{ "limit", "time limits: at the latest" }, { "begin", "--begin: no sooner" },
	};
	struct term term = term_ask();
	struct table *table = table_create(columns, COUNT_OF(columns));
	char text[FORMAT_LEN];
	size_t i;
	json_t *s;
	json_array_foreach(starts, i, s) {
		const char *words = "nobody knows when";
		bool known = *member_text(s, "start_time");
		for (size_t k = 0; k < COUNT_OF(how); k++)
			if (!strcmp(member_text(s, "source"), how[k].source))
				words = how[k].words;
		table_cell(table, STYLE_PLAIN, member_text(s, "id"));
		table_cell(table, STYLE_PLAIN, member_text(s, "name"));
		table_cell(table, STYLE_PLAIN, member_text(s, "user"));
		table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(s, "gpus_requested"));
		table_cell(table, STYLE_PLAIN, known ? format_time(member_text(s, "start_time"), text) : "-");
		table_cell(table, STYLE_PLAIN, known ? format_seconds(member_number(s, "in_s"), text) : "-");
		table_cell(table, known ? STYLE_PLAIN : STYLE_DIM, words);
	}
	table_print(table, &term, stdout);
	table_destroy(table);
}

static int show_starts(struct cli_call *c, const struct which *f, bool json)
{
	struct error err = ERROR_INIT;
	scoped_json *said = client_call(wire_request("starts"), &err);
	scoped_json *found = said ? which_fetch(f, shown, COUNT_OF(shown), &err) : NULL;
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

int verb_queue(struct cli_call *c)
{
	bool json = false, me = false, bare = false, start = false;
	struct look look = { .titles = true };
	const char *user = NULL, *states = NULL, *every = NULL;
	const struct args_option options[] = {
		{ "me", 0, NULL, "only your own tasks", .flag = &me },
		{ "user", 'u', "USER", "only this user's tasks (name or uid; all: everybody's)", .value = &user },
		{ "states", 't', "LIST", "all, or some of PD,H,R,CD,F,OOM,CA,TO,LO (default PD,H,R)", .words = CLI_STATES,
		  .value = &states },
		{ "format", 'o', "FORMAT", "a line of one's own for each task, as squeue's: '%.18i %.8j %.2t %.10M %R'",
		  .value = &look.format },
		{ "noheader", 0, NULL, "no line of titles above it", .flag = &bare },
		{ "start", 0, NULL, "when waiting tasks are expected to start, and how that is known", .flag = &start },
		{ "watch", 'w', "SECONDS", "show it again and again, on a terminal", .value = &every },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	struct which f = { .name = NULL };
	int rc;
	if (!cli_options(c, options))
		return c->rc;
	look.titles = !bare;
	if ((user || me) && which_user(&f, user, &err))
		rc = cli_fail(c, &err);
	else if (look.format && queue_format_check(look.format, &err))
		rc = cli_usage(c, "--format: %s", err.text);
	else if (which_states(&f, states ? states : "PD,H,R", &err) || which_ids(&f, c->words, c->n_words, &err))
		rc = cli_usage(c, "%s", err.text);
	else
		rc = start ? show_starts(c, &f, json) : every ? watch(c, &f, &look, every) : list(c, &f, &look, json);
	which_clear(&f);
	return rc;
}
