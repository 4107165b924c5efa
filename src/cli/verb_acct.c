/* SPDX-License-Identifier: MIT
 * rad acct: tasks that have ended, and what they took together, by user and by GPU.
 */
#include "account/account.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/accounts.h"
#include "cli/acct_groups.h"
#include "cli/acct_list.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/format.h"
#include "cli/span.h"
#include "cli/table.h"
#include "submit/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what a task took ---- */

/* Sums and maxima over attempts; NaN where nothing is known. */
struct took { double gpu_s, share_s, energy_j, peak_mib, smact; unsigned attempts, ooms; };

/* What tables and CSV are made of; the last ones CSV alone. */
static const char *const wanted[] = {
	"submit_time", "wait_s", "held_s", "run_s", "lost_s", "jct_s", "gpu_s", "gpu_share_s", "estimate.claim_mib", "attempts[].gpus",
	"attempts[].verdict", "attempts[].peak_mib", "attempts[].energy_j", "attempts[].mean_smact", "attempts[].gpu_s",
	"attempts[].gpu_share_s", "start_time", "exit_code", "signal", "gpus_requested",
};
#define WANTED_OF_CSV 4

static double plus(double a, double b) { return isnan(a) ? b : isnan(b) ? a : a + b; }

/* On one of its GPUs, whether it was alone there, and as a share of it. NaN: this radd is of an earlier release. */
static double attempt_s(const json_t *attempt)
{
	return member_number(attempt, "gpu_s") / (double)json_array_size(json_object_get(attempt, "gpus"));
}

static double attempt_share_s(const json_t *attempt, size_t gpu)
{
	const json_t *share = json_array_get(json_object_get(attempt, "gpu_share_s"), gpu);
	return json_is_number(share) ? json_number_value(share) : NAN;
}

static struct took took_of(const json_t *task)
{
	const json_t *attempts = json_object_get(task, "attempts");
	struct took sum = { .gpu_s = member_number(task, "gpu_s"), .share_s = member_number(task, "gpu_share_s"),
			    .energy_j = member_over_attempts(task, "energy_j", true),
			    .peak_mib = member_over_attempts(task, "peak_mib", false),
			    .smact = member_number(member_last_attempt(task), "mean_smact"),	/* the run that counts */
			    .attempts = (unsigned)json_array_size(attempts) };
	size_t i;
	json_t *a;
	json_array_foreach(attempts, i, a)
		sum.ooms += !strcmp(member_text(a, "verdict"), "oom");
	return sum;
}

/* ---- sums by user and by GPU ---- */

struct acct_group { char *name; unsigned tasks, ooms; double wait_s, run_s, gpu_s, share_s, energy_j, peak_mib; };
struct acct_groups { struct acct_group *list; size_t n, cap; };

static struct acct_group *group_of(struct acct_groups *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++)
		if (!strcmp(g->list[i].name, name))
			return &g->list[i];
	alloc_grow(g->list, g->n, g->cap);
	g->list[g->n] = (struct acct_group){ .name = alloc_string(name), .gpu_s = NAN, .share_s = NAN, .energy_j = NAN,
					     .peak_mib = NAN };
	return &g->list[g->n++];
}

static void groups_clear(struct acct_groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		free(g->list[i].name);
	free(g->list);
}

static void add_to_user(struct acct_groups *users, const json_t *task)
{
	struct acct_group *g = group_of(users, member_text(task, "user"));
	struct took took = took_of(task);
	g->tasks++;
	g->ooms += took.ooms;
	g->wait_s += member_number(task, "wait_s");
	g->run_s += member_number(task, "run_s");
	g->gpu_s = plus(g->gpu_s, took.gpu_s);
	g->share_s = plus(g->share_s, took.share_s);
	g->energy_j = plus(g->energy_j, took.energy_j);
	g->peak_mib = fmax(g->peak_mib, took.peak_mib);
}

/* An attempt's energy is that of all its GPUs, so each gets an equal part. */
static void add_to_gpus(struct acct_groups *gpus, const json_t *task)
{
	size_t i, k;
	json_t *a, *uuid;
	const json_t *attempts = json_object_get(task, "attempts");
	json_array_foreach(attempts, i, a) {
		const json_t *on = json_object_get(a, "gpus");
		json_array_foreach(on, k, uuid) {
			struct acct_group *g = group_of(gpus, json_string_value(uuid) ? json_string_value(uuid) : "?");
			g->tasks++;
			g->ooms += !strcmp(member_text(a, "verdict"), "oom");
			g->gpu_s = plus(g->gpu_s, attempt_s(a));
			g->share_s = plus(g->share_s, attempt_share_s(a, k));
			g->energy_j = plus(g->energy_j, member_number(a, "energy_j") / (double)json_array_size(on));
			g->peak_mib = fmax(g->peak_mib, member_number(a, "peak_mib"));
		}
	}
}

static json_t *groups_json(const struct acct_groups *g, const char *name, bool times)
{
	json_t *list = json_array();
	for (size_t i = 0; i < g->n; i++) {
		const struct acct_group *x = &g->list[i];
		json_t *o = json_pack("{ss, si, si, so, so, so, so}", name, x->name, times ? "tasks" : "attempts", (int)x->tasks, "oom",
			(int)x->ooms, "gpu_s", json_round3(x->gpu_s), "gpu_share_s", json_round3(x->share_s), "energy_j", json_round3(x->energy_j),
			"peak_mib", json_round3(x->peak_mib));
		if (times) {
			json_object_set_new(o, "wait_s", json_round3(x->wait_s));
			json_object_set_new(o, "run_s", json_round3(x->run_s));
		}
		json_array_append_new(list, o);
	}
	return list;
}

/* ---- tables ---- */

/* Today's ends without the day, which most lists are made of. */
static char *end_of(const json_t *task, char buf[FORMAT_LEN])
{
	char today[FORMAT_LEN];
	format_ms(clock_wall_ms(), today);
	format_time(member_text(task, "end_time"), buf);
	const char *blank = strchr(buf, ' ');
	if (blank && !strncmp(buf, today, (size_t)(blank - buf)))
		memmove(buf, blank + 1, strlen(blank));
	else if (blank)
		buf[blank - buf] = 'T';		/* one word, as sacct writes it */
	return buf;
}

static void print_tasks(const json_t *tasks, struct format_energy_unit unit, const struct term *term)
{
	size_t i;
	json_t *t;
	const struct table_column columns[] = {
		{ "ID", .right = true }, { "NAME", .min = 6, .ends = true }, { "USER", .min = 5 }, { "ST" },
		{ "WAIT", .right = true, .drop = 1 },
		{ "RUN", .right = true }, { "TRY", .right = true, .drop = 6 }, { "GPU HOURS", .right = true, .drop = 7 },
		{ "SHARES", .right = true, .drop = 8 }, { "PEAK", .right = true }, { "CLAIM", .right = true, .drop = 4 },
		{ "SMACT", .right = true, .drop = 3 }, { unit.title, .right = true, .drop = 2 }, { "END", .right = true, .drop = 5 },
	};
	struct table *table = table_create(columns, COUNT_OF(columns));
	char text[FORMAT_LEN];
	json_array_foreach(tasks, i, t) {
		struct took took = took_of(t);
		table_cell(table, STYLE_PLAIN, member_text(t, "id"));
		table_cell(table, STYLE_PLAIN, member_text(t, "name"));
		table_cell(table, STYLE_PLAIN, member_text(t, "user"));
		table_cell(table, format_state_style(member_state(t)), task_state_code(member_state(t)));
		table_cell(table, STYLE_PLAIN, format_seconds(member_number(t, "wait_s"), text));
		table_cell(table, STYLE_PLAIN, format_seconds(member_number(t, "run_s"), text));
		table_printf(table, STYLE_PLAIN, "%u", took.attempts);
		table_cell(table, STYLE_PLAIN, format_hours(took.gpu_s, text));
		table_cell(table, STYLE_PLAIN, format_hours(took.share_s, text));
		table_cell(table, STYLE_PLAIN, format_mib(took.peak_mib, text));
		table_cell(table, STYLE_PLAIN, format_mib(member_deep_number(t, "estimate.claim_mib"), text));
		table_cell(table, STYLE_PLAIN, format_percent(took.smact, text));
		table_cell(table, STYLE_PLAIN, format_energy_in(&unit, took.energy_j, text));
		table_cell(table, STYLE_PLAIN, end_of(t, text));
	}
	table_print(table, term, stdout);
	table_destroy(table);
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(((const struct acct_group *)a)->name, ((const struct acct_group *)b)->name);	/* GPU 10 behind 9 */
}

/* GPUs by their index, where they are still there. */
static void name_gpus(struct acct_groups *g)
{
	struct error ignored = ERROR_INIT;
	scoped_json *reply = client_call(wire_request("gpus"), &ignored);
	for (size_t i = 0; i < g->n; i++) {
		scoped_json *one = json_pack("[s]", g->list[i].name);
		free(g->list[i].name);
		g->list[i].name = format_gpus(one, json_object_get(reply, "gpus"));
	}
}

static void print_groups(struct acct_groups *g, const char *title, bool times, struct format_energy_unit unit,
			 const struct term *term)
{
	const struct table_column columns[] = {
		{ title, .min = 4 }, { times ? "TASKS" : "ATTEMPTS", .right = true }, { "OOM", .right = true, .drop = 2 },
		{ "GPU HOURS", .right = true }, { "SHARES", .right = true }, { "PEAK", .right = true, .drop = 1 },
		{ unit.title, .right = true },
	};
	char text[FORMAT_LEN];
	if (!g->n)	/* none of them began: a heading with nothing below it */
		return;
	struct table *table = table_create(columns, COUNT_OF(columns));
	qsort(g->list, g->n, sizeof *g->list, compare_names);
	for (size_t i = 0; i < g->n; i++) {
		table_cell(table, STYLE_PLAIN, g->list[i].name);
		table_printf(table, STYLE_PLAIN, "%u", g->list[i].tasks);
		table_printf(table, STYLE_PLAIN, "%u", g->list[i].ooms);
		table_cell(table, STYLE_PLAIN, format_hours(g->list[i].gpu_s, text));
		table_cell(table, STYLE_PLAIN, format_hours(g->list[i].share_s, text));
		table_cell(table, STYLE_PLAIN, format_mib(g->list[i].peak_mib, text));
		table_cell(table, STYLE_PLAIN, format_energy_in(&unit, g->list[i].energy_j, text));
	}
	putchar('\n');
	table_print(table, term, stdout);
	table_destroy(table);
}

static void print_totals(const json_t *totals, struct format_energy_unit unit)
{
	char a[FORMAT_LEN], b[FORMAT_LEN];
	long long tasks = member_int(totals, "tasks"), attempts = member_int(totals, "attempts");
	printf("%lld task%s in %lld attempt%s, %lld of them out of memory\n", tasks, tasks == 1 ? "" : "s", attempts,
	       attempts == 1 ? "" : "s", (long long)member_int(totals, "oom"));
	printf("%s from first submission to last end\n", format_seconds(member_number(totals, "trace_total_s"), a));
	printf("mean wait %s, mean run %s", format_seconds(member_number(totals, "avg_wait_s"), a),
	       format_seconds(member_number(totals, "avg_exec_s"), b));
	if (json_object_get(totals, "began") && member_int(totals, "began") < tasks)
		printf(" (of the %lld that began)", (long long)member_int(totals, "began"));
	putchar('\n');
	printf("mean completion %s, 95 %% within %s\n", format_seconds(member_number(totals, "avg_jct_s"), a),
	       format_seconds(member_number(totals, "p95_jct_s"), b));
	printf("%s GPU hours", format_hours(member_number(totals, "gpu_hours") * 3600, a));
	if (!isnan(member_number(totals, "gpu_share_hours")))
		printf("; as shares (a GPU's time divided among its tasks): %s",
		       format_hours(member_number(totals, "gpu_share_hours") * 3600, a));
	double energy_j = member_number(totals, "energy_j");
	if (isnan(energy_j))
		puts("\nenergy not known");
	else
		printf("\n%s %s\n", format_energy_in(&unit, energy_j, a), strrchr(unit.title, ' ') + 1);
}

/* ---- CSV ---- */

/* RFC 4180: lines end with CR LF. */
static void print_csv(const json_t *tasks)
{
	static const char *const texts[] = { "id", "name", "user", "state", "submit_time", "start_time", "end_time" };
	static const char *const numbers[] = {
		"wait_s", "held_s", "run_s", "lost_s", "jct_s", "exit_code", "signal", "gpus_requested",
	};
	size_t i;
	json_t *t;
	fputs("id,name,user,state,submit_time,start_time,end_time,wait_s,held_s,run_s,lost_s,jct_s,exit_code,signal,gpus_requested,"
	      "attempts,claim_mib,peak_mib,gpu_s,energy_j,gpu_share_s\r\n", stdout);
	json_array_foreach(tasks, i, t) {
		struct took took = took_of(t);
		for (size_t k = 0; k < COUNT_OF(texts); k++) {
			if (k)
				putchar(',');
			format_csv_text(stdout, member_text(t, texts[k]));
		}
		for (size_t k = 0; k < COUNT_OF(numbers); k++)
			format_csv_number(stdout, member_number(t, numbers[k]));
		format_csv_number(stdout, took.attempts);
		format_csv_number(stdout, member_deep_number(t, "estimate.claim_mib"));
		format_csv_number(stdout, took.peak_mib);
		format_csv_number(stdout, took.gpu_s);
		format_csv_number(stdout, took.energy_j);
		format_csv_number(stdout, took.share_s);
		fputs("\r\n", stdout);
	}
}

/* ---- the verb ---- */

struct acct_asked {
	bool json, csv, month, me, all;
	bool wide;
	const char *since, *until, *user, *by, *which, *slurms;
	int64_t from_ms, to_ms;	/* what that comes to; 0: no end */
	struct acct_list list;
};

/* Whoever did not say since when is told what that means, and who meant an earlier day that this one is yet to come. */
static void print_none(const struct acct_asked *a)
{
	bool said = a->month || a->since || a->until;
	bool wrong = a->to_ms && a->to_ms <= a->from_ms;
	puts(wrong ? "No task ended in that time, which ends before it begins: --since says when (default: midnight)" :
	     a->from_ms > clock_wall_ms() ? "No task ended in that time, which lies ahead" :
	     said ? "No task ended in that time" : "No task ended since midnight: --since 7d looks further back");
}

/* What all of its tables and JSON end with. */
struct acct_sums { struct acct_groups users, gpus; struct account account; double most_j; };

static void acct_sums_add(struct acct_sums *s, const json_t *tasks)
{
	size_t i;
	json_t *t;
	json_array_foreach(tasks, i, t) {
		s->most_j = fmax(s->most_j, took_of(t).energy_j);
		add_to_user(&s->users, t);
		add_to_gpus(&s->gpus, t);
		account_add_told(&s->account, t);
	}
}

static void acct_sums_clear(struct acct_sums *s)
{
	groups_clear(&s->users);
	groups_clear(&s->gpus);
	account_clear(&s->account);
}

/* As an earlier release told them, or those of the tasks. */
static json_t *acct_sums_totals(const struct acct_sums *s, const json_t *reply)
{
	json_t *told = json_object_get(reply, "totals");
	return json_is_null(told) ? account_to_json(&s->account) : json_incref(told);
}

/* A hundred thousand tasks are 150 MB: each piece goes out as it comes. */
struct json_out { struct acct_sums sums; bool begun; size_t n; };

static void print_piece(void *ctx, const json_t *tasks)
{
	struct json_out *out = ctx;
	scoped_free char *text = json_to_terminal(tasks);
	acct_sums_add(&out->sums, tasks);
	text[strlen(text) - 1] = '\0';
	printf("%s%s%s", out->begun ? "" : "{\"schema\":1,\"tasks\":[", out->n && text[1] ? "," : "", text + 1);
	out->begun = true;
	out->n += json_array_size(tasks);
}

static json_t *print_json(json_t *request, struct error *err)
{
	struct json_out out = { .sums.most_j = NAN };
	json_t *reply = accounts_fetch(request, print_piece, &out, err);
	if (reply) {
		scoped_json *rest = json_pack("{sO, so, so, so}", "truncated", json_object_get(reply, "truncated"), "totals",
					      acct_sums_totals(&out.sums, reply), "users", groups_json(&out.sums.users, "user", true),
					      "gpus", groups_json(&out.sums.gpus, "uuid", false));
		scoped_free char *text = json_to_terminal(rest);
		printf("],%s\n", text + 1);
	}
	acct_sums_clear(&out.sums);
	return reply;
}

static json_t *print_tables(const struct acct_asked *a, json_t *request, struct error *err)
{
	struct acct_sums sums = { .most_j = NAN };
	struct term term = term_ask();
	json_t *reply = accounts_fetch_all(request, err);
	const json_t *tasks = json_object_get(reply, "tasks");
	acct_sums_add(&sums, tasks);
	if (reply && !json_array_size(tasks)) {
		print_none(a);
	} else if (reply) {
		/* One unit in all of its tables, so that they can be compared. */
		const struct format_energy_unit unit = format_energy_unit(sums.most_j);
		scoped_json *totals = acct_sums_totals(&sums, reply);
		name_gpus(&sums.gpus);
		print_tasks(tasks, unit, &term);	/* the long one first: what it comes to stays in sight */
		print_groups(&sums.gpus, "GPU", false, unit, &term);
		print_groups(&sums.users, "USER", true, unit, &term);
		putchar('\n');
		print_totals(totals, unit);
	}
	acct_sums_clear(&sums);
	return reply;
}

static int print_by(struct cli_call *c, const struct acct_asked *a, json_t *reply)
{
	struct term term = term_ask();
	json_t *groups = json_object_get(reply, "groups");
	struct error err = ERROR_INIT;
	if (!groups) {
		error_set(&err, ERR_UNAVAILABLE, "--by: this radd is of an earlier release: restart it");
		return cli_fail(c, &err);
	}
	acct_groups_name(groups);
	if (a->json)
		return cli_print_json(json_incref(reply));
	if (!a->csv && !json_array_size(groups)) {
		print_none(a);
		return CLI_DONE;
	}
	if (!a->csv)
		print_totals(json_object_get(reply, "totals"), acct_groups_unit(groups));
	acct_groups_print(groups, &term, a->csv);
	return CLI_DONE;
}

/* The span and the user that were asked for, as a request; NULL with what is wrong. */
static json_t *take_span(const struct acct_asked *a, struct error *err)
{
	json_t *request = wire_request("acct");
	char own[FORMAT_LEN];
	const char *user = a->me ? format_user(getuid(), own) : a->user;
	if (a->by)
		json_object_set_new(request, "by", json_text(a->by));
	if (a->list.users)
		user = NULL;
	if (a->which ? span_fill_month(request, a->which, user, err) :
		       span_fill(request, a->month ? "month" : a->since, a->until, user, err)) {
		json_decref(request);
		return NULL;
	}
	if (a->by)
		span_fill_months(request);
	return request;
}

static json_t *fetch_csv(json_t *request, struct error *err)
{
	json_t *reply = accounts_fetch_all(request, err);
	if (reply)
		print_csv(json_object_get(reply, "tasks"));
	return reply;
}

static int print_asked(struct cli_call *c, struct acct_asked *a, json_t *request)
{
	struct error err = ERROR_INIT;
	a->from_ms = member_int(request, "from_ms");
	a->to_ms = member_int(request, "to_ms");
	if (!a->json)
		accounts_want(request, wanted, COUNT_OF(wanted) - (a->csv ? 0 : WANTED_OF_CSV));
	scoped_json *reply = a->by ? client_call(request, &err) : a->csv ? fetch_csv(request, &err) :
			     a->json ? print_json(request, &err) : print_tables(a, request, &err);
	if (!reply)
		return cli_fail(c, &err);
	if (a->by)
		return print_by(c, a, reply);
	if (json_is_true(json_object_get(reply, "truncated")))
		cli_note("that is not all, nor are the sums by user and GPU: this radd, of an earlier release, tells 10000 tasks at most. "
			 "--by sums up all");
	return CLI_DONE;
}

int verb_acct(struct cli_call *c)
{
	struct acct_asked a = { .json = false };
	const struct args_option options[] = {
		{ "since", 'S', "TIME", "tasks that ended since: 7d, yesterday, 2026-11, 2026-11-20, now-2hours (default: midnight)",
		  .value = &a.since },
		{ "starttime", 0, "TIME", "the same, in Slurm's spelling", .value = &a.since },
		{ "until", 'E', "TIME", "and before that time", .value = &a.until },
		{ "endtime", 0, "TIME", "the same, in Slurm's spelling", .value = &a.until },
		{ "user", 'u', "USER", "only this user's (name or uid; all: everybody's)", .value = &a.user },
		{ "me", 0, NULL, "only your own", .flag = &a.me },
		{ "allusers", 'a', NULL, "everybody's, as always", .flag = &a.all },
		{ "month", 0, "[2026-11]", "tasks that ended in that month; without one, since the first of this", .flag = &a.month,
		  .value = &a.which },
		{ "by", 0, "WHAT", "only sums, by user, group or month, or by several of these (user,month)",
		  .words = "user group month", .value = &a.by },
		ACCT_LIST_OPTIONS(a.list),
		{ "long", 'l', NULL, NULL, .flag = &a.wide },	/* sacct's, and refused, from here on */
		{ "accounts", 'A', "NAME", NULL, .value = &a.slurms },
		{ "partition", 'r', "NAME", NULL, .value = &a.slurms },
		{ "qos", 'q', "NAME", NULL, .value = &a.slurms },
		{ "csv", 0, NULL, "print CSV, one line a task or a sum", .flag = &a.csv },
		{ "json", 0, NULL, "print JSON", .flag = &a.json },
		{ 0 },
	};
	struct error err = ERROR_INIT;
	if (!cli_options(c, options))
		return c->rc;
	if (a.slurms)
		return cli_usage(c, CLI_NO_PARTITIONS, a.slurms);
	if (a.wide)
		return cli_usage(c, "--long: all that is known is --json; some of it --format=FIELDS, which --helpformat lists");
	if (a.csv && a.json)
		return cli_usage(c, "--csv or --json: one of them is printed");
	bool list = acct_list_wanted(&a.list, c);
	if (a.me && a.user)
		return cli_usage(c, CLI_ONE_OWNER);
	if (a.month && (a.since || (a.which && a.until)))
		return cli_usage(c, "--month and --since or --until both say when: give one of them");
	if (a.month && !a.which && c->n_words && strlen(c->words[0]) == 7 && c->words[0][4] == '-')
		return cli_usage(c, "--month: its month stands behind a '=': --month=%s", c->words[0]);
	if (list && (a.by || a.csv))
		return cli_usage(c, "--%s is of sums of all tasks in a span, and not of some that are listed: give one of them",
				 a.by ? "by" : "csv");
	if (a.user && strchr(a.user, ',') && !list)
		return cli_usage(c, "--user: '%.60s': sums are of one user, or of all (--by user); --format lists the tasks of several",
				 a.user);
	if (list)
		a.list.users = a.me ? NULL : a.user;
	json_t *request = take_span(&a, &err);
	if (!request)
		return cli_usage(c, "%s", err.text);
	return list ? acct_list_print(c, &a.list, request, a.json) : print_asked(c, &a, request);
}
