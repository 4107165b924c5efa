/* SPDX-License-Identifier: MIT
 * The page: tables that need no program, the data as JSON, and the script that draws it (share/report). Everything that came
 * from outside goes through add_text (markup) or add_data (JSON); nothing else of it is written. Both make characters that turn
 * the direction of text a '?'.
 */
#include "account/report_internal.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"

#include <math.h>
#include <string.h>

/* A browser lays this much out in a second or two. */
#define PAGE_TASKS 10000
#define PAGE_GPUS 32
#define OPEN_ROWS 100	/* longer tables are folded */
#define MAX_FAILURES 500
#define LONG_TEXT 16	/* bytes; the page may cut what is longer, and shows it where it is pointed at */

static const char style[] =
#include "account/report.css.inc"
;
static const char script[] =
#include "account/draw.js.inc"
#include "account/report.js.inc"
;

/* Text ----------------------------------------------------------------------------------------------------------------- */

/* JSON inside a script element: there a '<' could begin an end tag; within JSON it stands in strings only. */
static void add_data(struct buf *b, json_t *value)
{
	scoped_json *v = value;
	scoped_free char *text = json_to_text(v);
	const char *at = text;
	for (size_t n, turns; *at; at += n) {
		n = strcspn(at, "<\xd8\xe2");
		buf_add(b, at, n);
		turns = words_turns(at + n);
		if (turns || at[n] == '<')
			buf_add_text(b, turns ? "?" : "\\u003c");
		else
			buf_add(b, at + n, at[n] != 0);
		n += turns ? turns : at[n] != 0;
	}
}

static void add_duration(struct buf *b, double s)
{
	long long whole = (long long)fmin(fmax(round(s), 0), 1e15);
	if (isnan(s))
		buf_add_text(b, "–");
	else if (s < 60)
		buf_printf(b, "%.1f s", fabs(s) < 0.05 ? 0 : s);
	else if (whole < 3600)
		buf_printf(b, "%lld min %02lld s", whole / 60, whole % 60);
	else if (whole < 86400)
		buf_printf(b, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
	else
		buf_printf(b, "%lld d %02lld h", whole / 86400, whole / 3600 % 24);
}

/* A column of energies has one unit, by the largest in it. */
static const struct energy_unit { double joules; const char *word; const char *format; } energy_units[] = {
	{ 1, "J", "%.0f" }, { 3600, "Wh", "%.1f" }, { 3.6e6, "kWh", "%.2f" },
};

static const struct energy_unit *energy_unit(double most_j)
{
	return &energy_units[most_j >= 3.6e7 ? 2 : most_j >= 3600];
}

static void add_hours(struct buf *b, double s)
{
	if (isnan(s))
		buf_add_text(b, "–");
	else
		buf_printf(b, s < 36000 ? "%.3f" : "%.1f", s / 3600);
}

static void add_mib(struct buf *b, double mib)
{
	if (isnan(mib))
		buf_add_text(b, "–");
	else
		buf_printf(b, mib < 1024 ? "%.0f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
}

static void add_percent(struct buf *b, double f)
{
	if (isnan(f))
		buf_add_text(b, "–");
	else
		buf_printf(b, "%.0f %%", f * 100);
}

static void add_count(struct buf *b, double n)
{
	if (isnan(n))
		buf_add_text(b, "–");
	else
		buf_printf(b, "%.0f", n);
}

/* Tables --------------------------------------------------------------------------------------------------------------- */

static void text_cell(struct buf *b, const char *text)
{
	bool cut = strlen(text) > LONG_TEXT;
	buf_add_text(b, cut ? "<td title=\"" : "<td>");
	if (cut) {
		words_add_html(b, text);
		buf_add_text(b, "\">");
	}
	words_add_html(b, text);
	buf_add_text(b, "</td>");
}

/* A number as people read it; its plain value beside it, for sorting. */
static void cell(struct buf *b, double v, void (*add)(struct buf *b, double v))
{
	if (isnan(v))
		buf_add_text(b, "<td class=n>");
	else
		buf_printf(b, "<td class=n data-v=%.10g>", v);
	add(b, v);
	buf_add_text(b, "</td>");
}

static void energy_cell(struct buf *b, double j, const struct energy_unit *unit)
{
	if (isnan(j)) {
		buf_add_text(b, "<td class=n>–</td>");
		return;
	}
	buf_printf(b, "<td class=n data-v=%.10g>", j);
	buf_printf(b, unit->format, j / unit->joules);
	buf_add_text(b, "</td>");
}

/* A name that begins with '#' is of a column of numbers. */
static void head(struct buf *b, const char *const *names, size_t n)
{
	buf_add_text(b, "<thead><tr>");
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "<th scope=col%s>%s</th>", *names[i] == '#' ? " class=n" : "", names[i] + (*names[i] == '#'));
}

/* The last column, and the end of the head. */
static void head_energy(struct buf *b, const struct energy_unit *unit)
{
	buf_printf(b, "<th scope=col class=n>Energy, %s</th></tr></thead><tbody>", unit->word);
}

static size_t count_state(const struct report_run *run, const char *state)
{
	size_t n = 0;
	for (size_t i = 0; i < run->n_tasks; i++)
		n += !strcmp(run->tasks[i].state, state);
	return n;
}

static void run_row(struct buf *b, const struct report_run *run, const struct energy_unit *unit)
{
	static const struct { enum report_total which; void (*add)(struct buf *b, double v); } columns[] = {
		{ REPORT_trace_total_s, add_duration }, { REPORT_lower_bound_s, add_duration }, { REPORT_avg_wait_s, add_duration },
		{ REPORT_avg_exec_s, add_duration }, { REPORT_avg_jct_s, add_duration }, { REPORT_p95_jct_s, add_duration },
		{ REPORT_oom, add_count }, { REPORT_mean_smact, add_percent },
	};
	struct report_gpu_time time = report_gpu_time(run);
	bool watched = run->n_tasks && count_state(run, "watched") == run->n_tasks;	/* nothing is known of how those ended */
	buf_add_text(b, "<tr>");
	text_cell(b, run->name);
	cell(b, (double)run->n_tasks, add_count);
	cell(b, watched ? NAN : (double)count_state(run, "COMPLETED"), add_count);
	for (size_t i = 0; i < COUNT_OF(columns); i++)
		cell(b, watched && columns[i].which == REPORT_oom ? NAN : report_total(run, columns[i].which), columns[i].add);
	cell(b, time.gpu_s, add_hours);
	cell(b, time.share_s, add_hours);
	energy_cell(b, report_total(run, REPORT_energy_j), unit);
	buf_add_text(b, "</tr>\n");
}

static void add_summary(struct buf *b, const struct report *r)
{
	static const char *const names[] = { "Run", "#Tasks", "#Completed", "#Total time", "#Lower bound", "#Mean wait",
					     "#Mean execution", "#Mean completion", "#95 % done in", "#Out of memory",
					     "#Mean SMACT", "#GPU hours", "#As shares" };
	double most_j = NAN;
	for (size_t i = 0; i < r->n; i++)
		most_j = fmax(most_j, report_total(r->runs[i], REPORT_energy_j));
	buf_add_text(b, "<section id=summary><h2>Summary</h2><div class=wide><table>");
	head(b, names, COUNT_OF(names));
	head_energy(b, energy_unit(most_j));
	for (size_t i = 0; i < r->n; i++)
		run_row(b, r->runs[i], energy_unit(most_j));
	buf_add_text(b, "</tbody></table></div></section>\n");
}

static void user_row(struct buf *b, const struct report_run *run, const struct report_user *u, const struct energy_unit *unit)
{
	buf_add_text(b, "<tr>");
	text_cell(b, run->name);
	text_cell(b, u->name);
	cell(b, u->tasks, add_count);
	cell(b, u->completed, add_count);
	cell(b, u->began ? u->wait_s / u->began : NAN, add_duration);
	cell(b, u->began ? u->exec_s / u->began : NAN, add_duration);
	cell(b, u->began ? u->jct_s / u->began : NAN, add_duration);
	cell(b, u->ooms, add_count);
	cell(b, u->gpu_s, add_hours);
	cell(b, u->share_s, add_hours);
	energy_cell(b, u->energy_j, unit);
	buf_add_text(b, "</tr>\n");
}

static bool has_users(const struct report *r)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t t = 0; t < r->runs[i]->n_tasks; t++)
			if (*r->runs[i]->tasks[t].user)
				return true;
	return false;
}

static void add_users(struct buf *b, const struct report *r)
{
	static const char *const names[] = { "Run", "User", "#Tasks", "#Completed", "#Mean wait", "#Mean execution",
					     "#Mean completion", "#Out of memory", "#GPU hours", "#As shares" };
	struct report_user *lists[REPORT_MAX_RUNS];
	size_t n[REPORT_MAX_RUNS];
	double most_j = NAN;
	if (!has_users(r))
		return;
	for (size_t i = 0; i < r->n; i++) {
		lists[i] = report_users(r->runs[i], &n[i]);
		for (size_t k = 0; k < n[i]; k++)
			most_j = fmax(most_j, lists[i][k].energy_j);
	}
	buf_add_text(b, "<section id=users><h2>By user</h2><div class=chart></div><div class=wide><table>");
	head(b, names, COUNT_OF(names));
	head_energy(b, energy_unit(most_j));
	for (size_t i = 0; i < r->n; i++) {
		for (size_t k = 0; k < n[i]; k++)
			user_row(b, r->runs[i], &lists[i][k], energy_unit(most_j));
		free(lists[i]);
	}
	buf_add_text(b, "</tbody></table></div><p class=note>GPU hours count each GPU from a task's placement to its end. As shares, "
		     "each moment of a GPU is divided by the tasks on it, so that they add up to the time in which it was in use."
		     "</p></section>\n");
}

/* A time of the trace, or of the day. */
static void moment_cell(struct buf *b, const struct report_run *run, double s)
{
	char iso[CLOCK_ISO_LEN];
	if (!run->origin_ms || isnan(s)) {
		cell(b, s, add_duration);
		return;
	}
	buf_printf(b, "<td class=n data-v=%.10g><time>%s</time></td>", s, clock_iso(run->origin_ms + (int64_t)(s * 1000), iso));
}

static void gpus_cell(struct buf *b, const struct report_run *run, const struct report_attempt *a)
{
	char number[GPU_NUMBER_LEN];
	buf_add_text(b, "<td>");
	for (unsigned i = 0; a && i < a->n_gpus; i++) {
		buf_add_text(b, i ? ", " : "");
		words_add_html(b, report_gpu_number(&run->gpus[a->gpus[i]], number));
	}
	buf_add_text(b, "</td>");
}

static void failure_row(struct buf *b, const struct report_run *run, const struct report_task *t,
			const struct report_attempt *a)
{
	buf_add_text(b, "<tr>");
	text_cell(b, run->name);
	text_cell(b, t->id);
	text_cell(b, t->name);
	text_cell(b, t->user);
	cell(b, (double)(a - t->attempts) + 1, add_count);
	gpus_cell(b, run, a);
	moment_cell(b, run, a->end_s);
	cell(b, a->end_s - a->start_s, add_duration);
	text_cell(b, a->verdict);
	buf_add_text(b, "<td class=long>");
	words_add_html(b, a->evidence);
	buf_add_text(b, "</td></tr>\n");
}

/* Attempts that ended otherwise than asked for, as far as there is room for them. Returns how many there are. */
static size_t failure_rows(struct buf *b, const struct report *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		for (size_t t = 0; t < r->runs[i]->n_tasks; t++)
			for (size_t k = 0; k < r->runs[i]->tasks[t].n_attempts; k++) {
				const struct report_attempt *a = &r->runs[i]->tasks[t].attempts[k];
				bool well = isnan(a->end_s) || !strcmp(a->verdict, "ok") || !strcmp(a->verdict, "slot") ||
					    !strcmp(a->verdict, "cancelled");
				if (!well && n++ < MAX_FAILURES)
					failure_row(b, r->runs[i], &r->runs[i]->tasks[t], a);
			}
	return n;
}

static void add_failures(struct buf *b, const struct report *r)
{
	static const char *const names[] = { "Run", "ID", "Name", "User", "#Attempt", "GPUs", "#Ended", "#After", "Verdict",
					     "Why" };
	scoped_buf rows = { 0 };
	size_t n = failure_rows(&rows, r);
	if (!n)
		return;
	buf_printf(b, "<section id=failures><h2>Attempts that failed</h2><details%s><summary>%zu attempt%s%s</summary>"
		   "<div class=\"wide tall\"><table class=sort>", n <= OPEN_ROWS ? " open" : "", n, n == 1 ? "" : "s",
		   n > MAX_FAILURES ? "; the first ones are listed here, the CSV and JSON forms have all" : "");
	head(b, names, COUNT_OF(names));
	buf_add_text(b, "</tr></thead><tbody>");
	buf_add(b, rows.data, rows.len);
	buf_add_text(b, "</tbody></table></div></details></section>\n");
}

static void task_row(struct buf *b, const struct report_run *run, const struct report_task *t,
		     const struct report_gpu_time *time, const struct energy_unit *unit)
{
	struct report_took took = report_took(t);
	buf_add_text(b, "<tr>");
	text_cell(b, run->name);
	text_cell(b, t->id);
	text_cell(b, t->name);
	text_cell(b, t->user);
	text_cell(b, t->state);
	gpus_cell(b, run, t->n_attempts ? &t->attempts[t->n_attempts - 1] : NULL);
	moment_cell(b, run, t->submit_s);
	cell(b, t->wait_s, add_duration);
	cell(b, t->exec_s, add_duration);
	cell(b, t->jct_s, add_duration);
	cell(b, (double)t->n_attempts, add_count);
	cell(b, took.ooms, add_count);
	cell(b, t->claim_mib, add_mib);
	cell(b, took.peak_mib, add_mib);
	cell(b, took.mean_smact, add_percent);
	cell(b, time->gpu_s, add_hours);
	cell(b, time->share_s, add_hours);
	energy_cell(b, took.energy_j, unit);
	buf_add_text(b, "</tr>\n");
}

static void add_tasks(struct buf *b, const struct report *r)
{
	static const char *const names[] = { "Run", "ID", "Name", "User", "State", "GPUs", "#Submitted", "#Waited", "#Ran",
					     "#Done in", "#Tries", "#OOM", "#Estimate", "#Peak", "#SMACT", "#GPU hours",
					     "#As shares" };
	size_t all = 0;
	double most_j = NAN;
	for (size_t i = 0; i < r->n; i++)
		for (size_t t = 0; t < r->runs[i]->n_tasks; t++, all++)
			most_j = fmax(most_j, report_took(&r->runs[i]->tasks[t]).energy_j);
	if (!all)
		return;
	buf_printf(b, "<section id=tasks><h2>Tasks</h2><details%s><summary>%zu task%s%s</summary>"
		   "<p class=tools hidden><input type=search placeholder=\"Find in the table\" aria-label=\"Find in the table\"></p>"
		   "<div class=\"wide tall\"><table class=sort>", all <= OPEN_ROWS ? " open" : "", all, all == 1 ? "" : "s",
		   all > PAGE_TASKS ? "; the last ones are listed here, the CSV and JSON forms have all" : "");
	head(b, names, COUNT_OF(names));
	head_energy(b, energy_unit(most_j));
	for (size_t i = 0; i < r->n; i++) {
		scoped_free struct report_gpu_time *times = report_gpu_times(r->runs[i]);
		size_t n = r->runs[i]->n_tasks, most = all > PAGE_TASKS ? PAGE_TASKS / r->n : n;
		for (size_t t = n > most ? n - most : 0; t < n; t++)
			task_row(b, r->runs[i], &r->runs[i]->tasks[t], &times[t], energy_unit(most_j));
	}
	buf_add_text(b, "</tbody></table></div></details></section>\n");
}

/* The page ------------------------------------------------------------------------------------------------------------- */

static void add_header(struct buf *b, const struct report *r)
{
	char iso[CLOCK_ISO_LEN];
	buf_add_text(b, "<body><header><h1>");
	words_add_html(b, r->title);
	buf_printf(b, "</h1><p>Made by RAD-RM " RAD_VERSION " at <time>%s</time></p>", clock_iso(r->made_ms, iso));
	for (size_t i = 0; i < r->n; i++)
		if (r->runs[i]->note.len) {
			buf_add_text(b, "<p><b>");
			words_add_html(b, r->runs[i]->name);
			buf_add_text(b, "</b>: ");
			words_add_html(b, buf_text(&r->runs[i]->note));
			buf_add_text(b, "</p>");
		}
	buf_add_text(b, "<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript></header>\n<main>\n");
}

/* Nothing may be fetched, whatever stands in the page. */
#define POLICY "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

void report_html(const struct report *r, struct buf *out)
{
	buf_add_text(out, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
		     "<meta http-equiv=Content-Security-Policy content=\"" POLICY "\">"
		     "<meta name=viewport content=\"width=device-width, initial-scale=1\">"
		     "<meta name=color-scheme content=\"light dark\"><title>");
	words_add_html(out, r->title);
	buf_add_text(out, "</title>\n<style>\n");
	buf_add_text(out, style);
	buf_add_text(out, "</style></head>\n");
	add_header(out, r);
	add_summary(out, r);
	buf_add_text(out, "<div id=pictures></div>\n");
	add_users(out, r);
	add_failures(out, r);
	add_tasks(out, r);
	buf_printf(out, "</main>\n<script type=\"application/json\" id=data data-gpus=%d>", PAGE_GPUS);
	add_data(out, report_json_cut(r, PAGE_TASKS, PAGE_GPUS));
	buf_add_text(out, "</script>\n<script>\n");
	buf_add_text(out, script);
	buf_add_text(out, "</script></body></html>\n");
}
