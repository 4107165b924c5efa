/* SPDX-License-Identifier: MIT
 * rad gpus.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/repeat.h"
#include "cli/table.h"
#include "map/map.h"
#include "submit/wire.h"

#include <math.h>
#include <string.h>

#define BAR 4	/* columns of a load bar */

/* ---- cells ---- */

/* "NVIDIA A100-SXM4-40GB" without the maker's name; of an instance first what tells it from its siblings, as the end is what
 * a narrow terminal cuts: "3g.20gb A100-SXM4-40GB". */
static void name_cell(struct table *table, const char *name)
{
	const char *model = !strncmp(name, "NVIDIA ", 7) ? name + 7 : name, *mig = strstr(model, " MIG ");
	if (mig)
		table_printf(table, STYLE_PLAIN, "%s %.*s", mig + 5, (int)(mig - model), model);
	else
		table_cell(table, STYLE_PLAIN, model);
}

static void add_bar(struct buf *out, double fraction, unsigned width, const struct term *term)
{
	static const char *const eighths[] = { " ", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	double full = (isnan(fraction) ? 0 : fraction < 0 ? 0 : fraction > 1 ? 1 : fraction) * width;
	unsigned whole = (unsigned)full;
	for (unsigned i = 0; i < width; i++) {
		if (i < whole)
			buf_add_text(out, term->utf8 ? "█" : "#");
		else if (i == whole && term->utf8)
			buf_add_text(out, eighths[(unsigned)((full - whole) * 8)]);
		else
			buf_add_text(out, term->utf8 ? " " : ".");
	}
}

static void load_cell(struct table *table, const json_t *g, const struct term *term)
{
	scoped_buf text = { 0 };
	char number[FORMAT_LEN];
	double v = member_number(g, "smact_now");
	if (term->live)
		add_bar(&text, v, BAR, term);
	buf_printf(&text, "%5s", format_percent(v, number));	/* a full bar is followed by "100%", and a blank between */
	table_cell(table, isnan(v) || v < 0.005 ? STYLE_DIM : STYLE_GOOD, buf_text(&text));
	bool expected = !strcmp(member_text(g, "smact_source"), "expected") && member_number(g, "smact") >= 0.005;
	table_printf(table, expected ? STYLE_DIM : STYLE_PLAIN, "%s%s", expected ? "~" : "",
		     format_percent(member_number(g, "smact"), number));
}

static void used_cell(struct table *table, const json_t *g)
{
	char used[FORMAT_LEN], total[FORMAT_LEN];
	format_mib(member_number(g, "mem_total_mib"), total);
	char *whole = strstr(total, ".0");
	if (whole)
		memmove(whole, whole + 2, strlen(whole + 2) + 1);
	table_printf(table, STYLE_PLAIN, "%s/%s", format_mib(member_number(g, "mem_used_mib"), used), total);
}

static void mib_cell(struct table *table, const json_t *g, const char *key)
{
	char text[FORMAT_LEN];
	double v = member_number(g, key);
	table_cell(table, v > 0 ? STYLE_PLAIN : STYLE_DIM, v == 0 ? "0" : format_mib(v, text));
}

static bool is_stale(const json_t *g)
{
	return json_is_true(json_object_get(g, "stale"));
}

/* What a GPU does, or why it takes nothing. */
static void share_cell(struct table *table, const json_t *g)
{
	bool idle = !strcmp(member_text(g, "share"), "idle");
	if (is_stale(g))
		table_cell(table, STYLE_BAD, "stale");
	else if (json_is_true(json_object_get(g, "drained")))
		table_cell(table, STYLE_WARN, "drained");
	else if (idle && member_number(g, "mem_foreign_mib") > MAP_FOREIGN_MIB)
		table_cell(table, STYLE_WARN, "foreign");
	else
		table_cell(table, idle ? STYLE_DIM : STYLE_PLAIN, member_text(g, "share"));
}

static void tasks_cell(struct table *table, const json_t *g)
{
	scoped_buf text = { 0 };
	size_t i;
	json_t *id;
	const json_t *tasks = json_object_get(g, "tasks");
	json_array_foreach(tasks, i, id)
		buf_printf(&text, "%s%s", i ? " " : "", json_string_value(id));
	table_cell(table, STYLE_PLAIN, buf_text(&text));
}

/* A new reference. Of one that does not answer, the last readings are none: memory would look free that nobody can have. */
static json_t *as_known(const json_t *g)
{
	static const char *const readings[] = { "smact_now", "smact", "mem_used_mib", "mem_foreign_mib", "mem_available_mib",
						"power_w", "temperature_c" };
	json_t *known = json_copy((json_t *)g);
	for (size_t i = 0; is_stale(g) && i < COUNT_OF(readings); i++)
		json_object_del(known, readings[i]);
	return known;
}

static void number_cell(struct table *table, enum style style, const json_t *g, const json_t *gpus)
{
	char text[FORMAT_LEN];
	table_cell(table, style, format_gpu(g, gpus, text));
}

/* What has a column when any GPU tells it: memory of processes that are not ours, and how warm it is. */
struct seen { bool others, warmth; };

static void add_row(struct table *table, const json_t *asked, const json_t *gpus, struct seen seen, const struct term *term)
{
	scoped_json *g = as_known(asked);
	number_cell(table, STYLE_BOLD, g, gpus);
	name_cell(table, member_text(g, "name"));
	load_cell(table, g, term);
	used_cell(table, g);
	mib_cell(table, g, "mem_held_mib");
	if (seen.others)
		mib_cell(table, g, "mem_foreign_mib");
	mib_cell(table, g, "mem_available_mib");
	table_number(table, STYLE_PLAIN, "%.0f", member_number(g, "power_w"));
	if (seen.warmth)
		table_number(table, STYLE_PLAIN, "%.0f", member_number(g, "temperature_c"));
	share_cell(table, g);
	tasks_cell(table, g);
}

/* ---- tables ---- */

static struct seen what_is_seen(const json_t *gpus)
{
	struct seen seen = { 0 };
	size_t i;
	json_t *g;
	json_array_foreach(gpus, i, g) {
		seen.others = seen.others || member_number(g, "mem_foreign_mib") > 0;
		seen.warmth = seen.warmth || !isnan(member_number(g, "temperature_c"));
	}
	return seen;
}

/* What the table has no column for: below it, on as many lines as it takes, each with its style, since rad top shows some. */
static void print_note(const char *line, const struct term *term, FILE *out)
{
	scoped_free char *text = term_wrap(line, 2, term);
	char *rest = text;
	for (char *part; (part = strsep(&rest, "\n"));)
		fprintf(out, "%s%s%s\n", term_style(term, STYLE_WARN), part, term_style(term, STYLE_PLAIN));
}

/* One that is gone has left its number to another: the UUID says which it is. */
static void print_stale(const json_t *gpus, const struct term *term, FILE *out)
{
	size_t i;
	json_t *g;
	char number[FORMAT_LEN];
	json_array_foreach(gpus, i, g) {
		const char *uuid = member_text(g, "uuid");
		int length = !strncmp(uuid, "GPU-", 4) ? 12 : 40;	/* one that never answered has a made-up name */
		bool lost = !strncmp(format_gpu(g, gpus, number), uuid, strlen(number));
		scoped_free char *line = lost ? alloc_printf("GPU %s (which was %lld): does not answer: see rad doctor", number,
							     (long long)member_int(g, "index")) :
						alloc_printf("GPU %s (%.*s): does not answer: see rad doctor", number, length, uuid);
		if (is_stale(g))
			print_note(line, term, out);
	}
}

/* By whom, since when, until when, and why, as far as each was said. */
static void print_drained(const json_t *gpus, const struct term *term, FILE *out)
{
	size_t i;
	json_t *g;
	char since[FORMAT_LEN], until[FORMAT_LEN], number[FORMAT_LEN];
	json_array_foreach(gpus, i, g) {
		const json_t *d = json_object_get(g, "drain");
		const char *user = member_text(d, "user"), *reason = member_text(d, "reason");
		bool begins = *member_text(d, "since_time"), ends = *member_text(d, "until_time");
		if (!*user && !begins)
			continue;
		scoped_free char *line = alloc_printf("GPU %s: drained%s%s%s%s%s%s%s%s", format_gpu(g, gpus, number),
			*user ? " by " : "", user, begins ? " since " : "", begins ? format_time(member_text(d, "since_time"), since) : "",
			ends ? " until " : "", ends ? format_time(member_text(d, "until_time"), until) : "", *reason ? ": " : "", reason);
		print_note(line, term, out);
	}
}

static void print_reserved(const json_t *gpus, const struct term *term, FILE *out)
{
	size_t i, k;
	json_t *g, *r;
	char begin[FORMAT_LEN], end[FORMAT_LEN], number[FORMAT_LEN];
	json_array_foreach(gpus, i, g) {
		const json_t *list = json_object_get(g, "reservations");
		json_array_foreach(list, k, r) {
			scoped_free char *line = alloc_printf("GPU %s: reserved for %s from %s to %s (reservation %lld)",
				format_gpu(g, gpus, number), member_text(r, "user"), format_time(member_text(r, "begin_time"), begin),
				format_time(member_text(r, "end_time"), end), (long long)member_int(r, "id"));
			print_note(line, term, out);
		}
	}
}

#define FOREIGN_LINES 8

/* Who has the memory of which nobody here was asked. */
static void print_foreign(const json_t *gpus, const struct term *term, FILE *out)
{
	size_t i, k, n = 0;
	json_t *g, *p;
	char size[FORMAT_LEN], number[FORMAT_LEN];
	json_array_foreach(gpus, i, g) {
		const json_t *processes = json_object_get(g, "processes");
		json_array_foreach(processes, k, p) {
			if (*member_text(p, "task") || !*member_text(p, "text") || n++ >= FOREIGN_LINES)
				continue;
			double mib = member_number(p, "mem_mib");
			format_gpu(g, gpus, number);
			scoped_free char *line = isnan(mib) ?
				alloc_printf("GPU %s: used by %s, not a task of rad; nothing tells how much it holds", number,
					     member_text(p, "text")) :
				alloc_printf("GPU %s: %s held by %s, not a task of rad", number, format_mib(mib, size),
					     member_text(p, "text"));
			print_note(line, term, out);
		}
	}
	if (n > FOREIGN_LINES)
		fprintf(out, "... and %zu more, which rad gpus -v lists\n", n - FOREIGN_LINES);
}

void verb_gpus_print(const json_t *gpus, const struct term *term, FILE *out)
{
	static const struct table_column all[] = {
		{ "GPU", .right = true }, { "NAME", .min = 6, .drop = 4 }, { "SMACT", .right = true },
		{ "MEAN", .right = true, .drop = 6 }, { "USED", .right = true }, { "HELD", .right = true, .drop = 2 },
		{ "OTHER", .right = true, .drop = 3 }, { "FREE", .right = true }, { "W", .right = true, .drop = 5 },
		{ "C", .right = true, .drop = 7 },
		{ "SHARE", .drop = 1 }, { "TASKS", .min = 12, .list = true },
	};
	struct table_column columns[COUNT_OF(all)];
	struct seen seen = what_is_seen(gpus);
	size_t n = 0, i;
	json_t *g;
	for (size_t k = 0; k < COUNT_OF(all); k++)
		if ((seen.others || strcmp(all[k].title, "OTHER")) && (seen.warmth || strcmp(all[k].title, "C")))
			columns[n++] = all[k];
	struct table *table = table_create(columns, n);
	json_array_foreach(gpus, i, g)
		add_row(table, g, gpus, seen, term);
	table_print(table, term, out);
	table_destroy(table);
	print_stale(gpus, term, out);
	print_drained(gpus, term, out);
	print_reserved(gpus, term, out);
	print_foreign(gpus, term, out);
}

static void print_uuids(const json_t *gpus, const struct term *term)
{
	static const struct table_column columns[] = { { "GPU", .right = true }, { "UUID" }, { "NAME", .min = 6 } };
	struct table *table = table_create(columns, COUNT_OF(columns));
	size_t i;
	json_t *g;
	json_array_foreach(gpus, i, g) {
		number_cell(table, STYLE_PLAIN, g, gpus);
		table_cell(table, STYLE_PLAIN, member_text(g, "uuid"));
		table_cell(table, STYLE_PLAIN, member_text(g, "name"));
	}
	putchar('\n');
	table_print(table, term, stdout);
	table_destroy(table);
}

/* What other daemons of the machine hold, whether processes of theirs are there yet or not. */
static void add_claims(struct table *table, const json_t *g, const json_t *gpus)
{
	const json_t *claims = json_object_get(g, "claims");
	char text[FORMAT_LEN];
	size_t i;
	json_t *c;
	json_array_foreach(claims, i, c) {
		number_cell(table, STYLE_PLAIN, g, gpus);
		table_cell(table, STYLE_DIM, "-");
		table_cell(table, STYLE_PLAIN, member_text(c, "user"));
		table_cell(table, STYLE_WARN, "claimed");
		table_cell(table, STYLE_PLAIN, format_mib(member_number(c, "held_mib"), text));
		table_cell(table, STYLE_DIM, "-");
		table_cell(table, STYLE_PLAIN, "another radd's tasks");
	}
}

static void print_processes(const json_t *gpus, const struct term *term)
{
	static const struct table_column columns[] = {
		{ "GPU", .right = true }, { "PID", .right = true }, { "USER", .min = 6 }, { "TASK" }, { "MEM", .right = true },
		{ "SINCE", .drop = 1 }, { "COMMAND", .min = 10 },
	};
	struct table *table = table_create(columns, COUNT_OF(columns));
	size_t i, k, rows = 0;
	json_t *g, *p;
	json_array_foreach(gpus, i, g) {
		const json_t *processes = json_object_get(g, "processes");
		json_array_foreach(processes, k, p) {
			char text[FORMAT_LEN];
			const char *task = member_text(p, "task"), *user = member_text(p, "user"), *command = member_text(p, "command");
			number_cell(table, STYLE_PLAIN, g, gpus);
			table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(p, "pid"));
			table_cell(table, STYLE_PLAIN, *user ? user : "?");
			table_cell(table, *task ? STYLE_PLAIN : STYLE_WARN, *task ? task : "foreign");
			table_cell(table, STYLE_PLAIN, format_mib(member_number(p, "mem_mib"), text));
			table_cell(table, STYLE_PLAIN, format_time(member_text(p, "start_time"), text));
			table_cell(table, STYLE_PLAIN, *command ? command : member_text(p, "program"));
		}
		add_claims(table, g, gpus);
		rows += json_array_size(processes) + json_array_size(json_object_get(g, "claims"));
	}
	putchar('\n');
	if (rows)
		table_print(table, term, stdout);
	else
		puts("No process holds memory on a GPU");
	table_destroy(table);
}

/* Of the machine, what running tasks asked for; a server of which nobody asks for anything is not told that. */
static void print_host(const json_t *host, bool verbose)
{
	char a[FORMAT_LEN], b[FORMAT_LEN];
	bool cpus = verbose || member_int(host, "cpus_held"), mem = verbose || member_int(host, "mem_held_mib");
	if (!json_is_object(host) || (!cpus && !mem))
		return;
	printf("\nHost: ");
	if (cpus && json_is_integer(json_object_get(host, "cpus")))
		printf("%lld of %lld CPUs", (long long)member_int(host, "cpus_held"), (long long)member_int(host, "cpus"));
	else if (cpus)
		printf("%lld CPUs", (long long)member_int(host, "cpus_held"));
	if (mem)
		printf("%s%s", cpus ? " and " : "", format_mib(member_number(host, "mem_held_mib"), a));
	if (mem && json_is_integer(json_object_get(host, "mem_mib")))
		printf(" of %s", format_mib(member_number(host, "mem_mib"), b));
	printf("%s asked for by running tasks\n", mem ? " of memory" : "");
	if (!isnan(member_number(host, "cores")))
		printf("      they are seen to need %.1f of %g cores\n", member_number(host, "cores_needed"), member_number(host, "cores"));
}

/* What is amiss with what radd tells others of these GPUs. */
static void print_troubles(const struct term *term)
{
	struct error ignored = ERROR_INIT;
	scoped_json *status = client_call(wire_request("status"), &ignored);
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(status, "troubles"), i, one) {
		scoped_free char *line = alloc_printf("%s: %s", member_text(one, "check"), member_text(one, "text"));
		const char *check = member_text(one, "check");
		if (!strcmp(check, "dcgm_job_mapping") || !strcmp(check, "mps"))
			print_note(line, term, stdout);
	}
}

static void print_reply(const json_t *reply, bool verbose, const struct term *term)
{
	const json_t *gpus = json_object_get(reply, "gpus");
	verb_gpus_print(gpus, term, stdout);
	print_host(json_object_get(reply, "host"), verbose);
	print_troubles(term);
	if (verbose) {
		print_uuids(gpus, term);
		print_processes(gpus, term);
	}
}

static int show_again(void *ctx, const struct term *term, struct error *err)
{
	const bool *verbose = ctx;
	scoped_json *reply = client_call(wire_request("gpus"), err);
	if (reply)
		print_reply(reply, *verbose, term);
	return reply ? 0 : -1;
}

int verb_gpus(struct cli_call *c)
{
	bool json = false, verbose = false, of_nodes = false;
	const char *every = NULL, *partition = NULL;
	const struct args_option options[] = {
		{ "verbose", 'v', NULL, "UUIDs, and the processes on each GPU, foreign ones too", .flag = &verbose },
		{ "watch", 'w', "SECONDS", "show it again and again, on a terminal; rad top has more", .value = &every },
		{ "interval", 'i', "SECONDS", "the same, in gpustat's spelling", .value = &every },
		{ "json", 0, NULL, "print JSON", .flag = &json },
		/* sinfo's */
		{ "Node", 'N', NULL, NULL, .flag = &of_nodes },
		{ "summarize", 's', NULL, NULL, .flag = &of_nodes },
		{ "partition", 'p', "NAME", NULL, .value = &partition },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options) || !cli_want_words(c, 0, 0))
		return c->rc;
	if (of_nodes || partition)
		return cli_usage(c, "this is one machine, without nodes and partitions: 'rad gpus' alone lists its GPUs");
	if (every)
		return repeat_show_every(c, every, json, show_again, &verbose);
	scoped_json *reply = client_call(wire_request("gpus"), &err);
	if (!reply)
		return cli_fail(c, &err);
	if (json)
		return cli_print_json(json_incref(reply));
	struct term term = term_ask();
	print_reply(reply, verbose, &term);
	return CLI_DONE;
}
