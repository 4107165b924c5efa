/* SPDX-License-Identifier: MIT
 * What a bench says: see bench_print.h. Text of commands is escaped in both files.
 */
#include "cli/bench_print.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/table.h"

#include <math.h>

static double slowest(const json_t *run)
{
	double least = NAN;
	size_t i;
	json_t *t;
	json_array_foreach(json_object_get(run, "tasks"), i, t)
		least = fmin(least, member_number(t, "relative"));
	return least;
}

/* Of serial, which command it is; why there is nothing; else nothing. */
static const char *remark(const json_t *run, bool several)
{
	const json_t *task = json_array_get(json_object_get(run, "tasks"), 0);
	if (*member_text(run, "error"))
		return "not measured";
	return several && json_array_size(json_object_get(run, "tasks")) == 1 ? member_text(task, "name") : "";
}

void bench_print_table(const json_t *result, FILE *out)
{
	static const struct table_column columns[] = {
		{ "MODE", false, 0 }, { "TASKS", true, 0 }, { "STP", true, 0 }, { "DELTA", true, 0 }, { "SLOWEST", true, 0 },
		{ "SMACT", true, 0 }, { "SMOCC", true, 0 }, { "DRAM", true, 0 }, { "POWER", true, 0 }, { "ENERGY", true, 0 },
		{ "MEMORY", true, 0 }, { "", false, 12 },
	};
	static const char *const loads[] = { "smact", "smocc", "dram" };
	struct table *t = table_create(columns, COUNT_OF(columns));
	struct term term = term_ask();
	bool several = json_array_size(json_object_get(result, "commands")) > 1;
	char text[FORMAT_LEN];
	size_t i;
	json_t *run;
	json_array_foreach(json_object_get(result, "runs"), i, run) {
		table_cell(t, STYLE_PLAIN, member_text(run, "mode"));
		table_printf(t, STYLE_PLAIN, "%lld", (long long)member_int(run, "degree"));
		table_number(t, STYLE_PLAIN, "%.2f", member_number(run, "stp"));
		table_number(t, STYLE_PLAIN, "%.2f", member_number(run, "delta"));
		table_number(t, STYLE_PLAIN, "%.2f", slowest(run));
		for (size_t k = 0; k < COUNT_OF(loads); k++)
			table_cell(t, STYLE_PLAIN, format_percent(member_number(run, loads[k]), text));
		table_number(t, STYLE_PLAIN, "%.0f W", member_number(run, "power_w"));
		table_cell(t, STYLE_PLAIN, format_energy(member_number(run, "energy_j"), text));
		table_cell(t, STYLE_PLAIN, format_mib(member_number(run, "mem_used_mib"), text));
		table_cell(t, *member_text(run, "error") ? STYLE_BAD : STYLE_PLAIN, remark(run, several));
	}
	table_print(t, &term, out);
	table_destroy(t);
	if (i)
		fputs("ENERGY is of the GPU until each task has done what it does alone in a minute.\n", out);
}

/* CSV ---------------------------------------------------------------------------------------------------------------------- */

static void csv_number(struct buf *b, const json_t *o, const char *name)
{
	double v = member_number(o, name);
	buf_printf(b, isnan(v) ? "," : ",%.12g", v);
}

int bench_print_csv(const json_t *result, const char *path, struct error *err)
{
	static const char *const of_task[] = { "steps_s", "relative", "slowdown" };
	static const char *const of_run[] = {
		"stp", "delta", "gract", "smact", "smocc", "dram", "pcie_rx_mib_s", "pcie_tx_mib_s", "power_w", "energy_j", "mem_used_mib",
		"repeats", "spread",
	};
	scoped_buf b = { 0 };
	size_t i, n;
	json_t *run, *task;
	buf_add_text(&b, "mode,degree,task,name");
	for (size_t k = 0; k < COUNT_OF(of_task); k++)
		buf_printf(&b, ",%s", of_task[k]);
	for (size_t k = 0; k < COUNT_OF(of_run); k++)
		buf_printf(&b, ",%s", of_run[k]);
	buf_add_text(&b, "\n");
	json_array_foreach(json_object_get(result, "runs"), i, run)
		json_array_foreach(json_object_get(run, "tasks"), n, task) {
			buf_printf(&b, "%s,%lld,%zu,", member_text(run, "mode"), (long long)member_int(run, "degree"), n + 1);
			words_add_csv(&b, member_text(task, "name"));
			for (size_t k = 0; k < COUNT_OF(of_task); k++)
				csv_number(&b, task, of_task[k]);
			for (size_t k = 0; k < COUNT_OF(of_run); k++)
				csv_number(&b, run, of_run[k]);
			buf_add_text(&b, "\n");
		}
	return io_save_file(path, b.data, b.len, err);
}

/* The page ----------------------------------------------------------------------------------------------------------------- */

#define BAR_WIDE 460
#define BAR_HIGH 18

/* Throughput of each run as a bar, and one line where a GPU that is not shared would be. */
static void html_bars(struct buf *b, const json_t *runs)
{
	double most = 1;
	size_t i, n = 0;
	json_t *run;
	json_array_foreach(runs, i, run)
		most = fmax(most, member_number(run, "stp"));	/* fmax: not NAN */
	buf_printf(b, "<svg viewBox=\"0 0 %d %zu\" width=\"100%%\" role=\"img\" aria-label=\"System throughput of each run\" "
		   "style=\"max-width:%dpx\">\n", BAR_WIDE + 210, json_array_size(runs) * (BAR_HIGH + 4), BAR_WIDE + 210);
	json_array_foreach(runs, i, run) {
		double stp = member_number(run, "stp");
		size_t y = n++ * (BAR_HIGH + 4);
		buf_printf(b, "<text x=\"0\" y=\"%zu\" font-size=\"12\" fill=\"currentColor\">%s, %lld</text>", y + 13,
			   member_text(run, "mode"), (long long)member_int(run, "degree"));
		if (!isnan(stp))
			buf_printf(b, "<rect class=\"bar\" x=\"110\" y=\"%zu\" width=\"%.1f\" height=\"%d\"/>"
				   "<text x=\"%.1f\" y=\"%zu\" font-size=\"12\" fill=\"currentColor\">%.2f</text>\n", y,
				   stp / most * BAR_WIDE, BAR_HIGH - 4, 116 + stp / most * BAR_WIDE, y + 13, stp);
	}
	buf_printf(b, "<path d=\"M%.1f 0v%zu\" stroke=\"currentColor\" stroke-dasharray=\"3 3\"/></svg>\n", 110 + BAR_WIDE / most,
		   json_array_size(runs) * (BAR_HIGH + 4));
}

static void html_number(struct buf *b, const char *fmt, double v)
{
	char text[FORMAT_LEN];
	snprintf(text, sizeof text, fmt, v);
	buf_printf(b, "<td class=\"n\">%s</td>", isnan(v) ? "–" : text);
}

/* What each does; of several commands, which one it is. */
static void html_speeds(struct buf *b, const json_t *run, bool several)
{
	size_t i;
	json_t *t;
	buf_add_text(b, "<td class=\"long\">");
	words_add_html(b, member_text(run, "error"));
	json_array_foreach(json_object_get(run, "tasks"), i, t) {
		buf_printf(b, "%s%.2f: %.4g steps/s%s", i ? "<br>" : "", member_number(t, "relative"), member_number(t, "steps_s"),
			   several ? ", " : "");
		words_add_html(b, several ? member_text(t, "name") : "");
	}
	buf_add_text(b, "</td>");
}

static bool is_told(const json_t *runs, const char *name)
{
	size_t i;
	json_t *run;
	json_array_foreach(runs, i, run)
		if (!isnan(member_number(run, name)))
			return true;
	return false;
}

/* What this GPU does not tell has no column. */
static void html_rows(struct buf *b, const json_t *runs, bool several)
{
	static const struct { const char *name, *fmt, *title; } columns[] = {
		{ "stp", "%.2f", "STP" }, { "delta", "%.2f", "Delta" }, { "gract", "%.2f", "GRACT" }, { "smact", "%.2f", "SMACT" },
		{ "smocc", "%.2f", "SMOCC" }, { "dram", "%.2f", "DRAM" }, { "pcie_rx_mib_s", "%.0f", "PCIe to GPU, MiB/s" },
		{ "pcie_tx_mib_s", "%.0f", "From GPU, MiB/s" }, { "power_w", "%.0f", "Power, W" },
		{ "energy_j", "%.0f", "Energy of a minute's work, J" }, { "mem_used_mib", "%.0f", "Memory, MiB" },
		{ "spread", "%.3f", "Spread" },
	};
	bool told[COUNT_OF(columns)];
	size_t i;
	json_t *run;
	buf_add_text(b, "<div class=\"wide\"><table><thead><tr><th>Mode</th><th class=\"n\">Tasks</th><th>Each, against alone</th>");
	for (size_t k = 0; k < COUNT_OF(columns); k++)
		if ((told[k] = is_told(runs, columns[k].name)))
			buf_printf(b, "<th class=\"n\">%s</th>", columns[k].title);
	buf_add_text(b, "</tr></thead><tbody>\n");
	json_array_foreach(runs, i, run) {
		buf_printf(b, "<tr><td>%s</td><td class=\"n\">%lld</td>", member_text(run, "mode"), (long long)member_int(run, "degree"));
		html_speeds(b, run, several);
		for (size_t k = 0; k < COUNT_OF(columns); k++)
			if (told[k])
				html_number(b, columns[k].fmt, member_number(run, columns[k].name));
		buf_add_text(b, "</tr>\n");
	}
	buf_add_text(b, "</tbody></table></div>\n");
}

int bench_print_page(const json_t *result, const char *path, struct error *err)
{
	static const char style[] =
#include "account/report.css.inc"
		;
	scoped_buf b = { 0 };
	size_t i;
	json_t *command;
	buf_printf(&b, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
		   "content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"
		   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
		   "<title>Collocation</title>\n<style>%s</style>\n"
		   "<header><h1>Collocation on ", style);
	words_add_html(&b, member_text(result, "gpu"));
	buf_add_text(&b, "</h1>");
	json_array_foreach(json_object_get(result, "commands"), i, command) {
		buf_add_text(&b, "<p><code>");
		words_add_html(&b, json_string_value(command));
		buf_add_text(&b, "</code></p>");
	}
	buf_add_text(&b, "</header>\n<main><section><h2>Throughput</h2><p class=\"note\">STP: the sum of the tasks' speeds, each "
		     "against alone. The dashed line is a GPU that is not shared.</p>\n");
	html_bars(&b, json_object_get(result, "runs"));
	buf_add_text(&b, "</section>\n<section><h2>Runs</h2>\n");
	html_rows(&b, json_object_get(result, "runs"), json_array_size(json_object_get(result, "commands")) > 1);
	buf_add_text(&b, "</section></main></html>\n");
	return io_save_file(path, b.data, b.len, err);
}
