/* SPDX-License-Identifier: MIT
 * See queue_table.h.
 */
#include "cli/queue_table.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "cli/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const queue_table_members[QUEUE_TABLE_MEMBERS] = {
	"priority", "gpus_requested", "run_s", "progress.percent", "progress.left_s", "estimate.claim_mib", "attempts.gpus", "reason",
	"array_limit",
};

/* ---- rows ---- */

/* The same line of the table, but for the index: pending or held elements of one array. */
static bool same_line(const json_t *a, const json_t *b)
{
	return !*member_text(a, "elements") && !*member_text(b, "elements") && member_wait_alike(a, b);
}

/* An element that made place comes behind those that were never asked to: its turn, not its place in this list. */
static int compare_elements(const void *a, const void *b)
{
	task_id x = member_id(*(json_t *const *)a), y = member_id(*(json_t *const *)b);
	return (x > y) - (x < y);
}

static struct queue_rows rows_begin(const json_t *tasks)
{
	struct queue_rows r = { .n_tasks = json_array_size(tasks) };
	r.list = alloc_zero((r.n_tasks + 1) * sizeof *r.list);
	r.rows = alloc_zero((r.n_tasks + 1) * sizeof *r.rows);
	for (size_t i = 0; i < r.n_tasks; i++)
		r.list[i] = json_array_get(tasks, i);
	return r;
}

/* Negative: a's line comes before b's. */
static int compare_groups(const json_t *a, const json_t *b)
{
	task_id x = member_id(a), y = member_id(b);
	enum task_state s = member_state(a), t = member_state(b);
	if (TASK_JOB(x) != TASK_JOB(y))
		return TASK_JOB(x) < TASK_JOB(y) ? -1 : 1;
	return s != t ? (s > t) - (s < t) : strcmp(member_text(a, "reason"), member_text(b, "reason"));
}

static int compare_grouped(const void *a, const void *b)
{
	int c = compare_groups(*(json_t *const *)a, *(json_t *const *)b);
	return c ? c : compare_elements(a, b);
}

struct queue_rows queue_table_groups(const json_t *tasks)
{
	struct queue_rows r = rows_begin(tasks);
	qsort(r.list, r.n_tasks, sizeof *r.list, compare_grouped);
	for (size_t i = 0, k; i < r.n_tasks; i = k) {
		for (k = i + 1; k < r.n_tasks && !compare_groups(r.list[i], r.list[k]); k++)
			;
		r.rows[r.n++] = (struct queue_row){ r.list + i, k - i };
	}
	return r;
}

struct queue_rows queue_table_rows(const json_t *tasks, bool each)
{
	struct queue_rows r = rows_begin(tasks);
	for (size_t i = 0, k; i < r.n_tasks; i = k) {
		for (k = i + 1; k < r.n_tasks && !each && same_line(r.list[i], r.list[k]); k++)
			;
		if (k - i > 1)
			qsort(r.list + i, k - i, sizeof *r.list, compare_elements);
		r.rows[r.n++] = (struct queue_row){ r.list + i, k - i };
	}
	return r;
}

void queue_table_clear(struct queue_rows *r)
{
	free(r->list);
	free(r->rows);
	*r = (struct queue_rows){ 0 };
}

void queue_table_count(const json_t *tasks, size_t counts[TASK_STATE_COUNT + 1])
{
	size_t i;
	json_t *t;
	memset(counts, 0, (TASK_STATE_COUNT + 1) * sizeof *counts);
	json_array_foreach(tasks, i, t)
		counts[member_state(t)] += member_int(t, "count") > 1 ? (size_t)member_int(t, "count") : 1;
}

/* ---- the table ---- */

void queue_table_add_elements(struct buf *out, json_t *const *tasks, size_t n)
{
	for (size_t i = 0, k; i < n; i = k) {
		task_id from = member_id(tasks[i]), to = from;
		for (k = i + 1; k < n && member_id(tasks[k]) == to + 1; k++)
			to++;
		buf_printf(out, "%s%d", i ? "," : "", TASK_INDEX(from));
		if (to != from)
			buf_printf(out, "-%d", TASK_INDEX(to));
	}
}

char *queue_table_ids(json_t *const *first, size_t n)
{
	struct buf text = { 0 };
	const char *elements = member_text(*first, "elements");	/* radd did this already */
	if (n == 1 && !*elements)
		return alloc_string(member_text(*first, "id"));
	buf_printf(&text, "%u_[%s", TASK_JOB(member_id(*first)), elements);
	if (!*elements)
		queue_table_add_elements(&text, first, n);
	if (!task_state_terminal(member_state(*first)) && member_int(*first, "array_limit"))
		buf_printf(&text, "%%%lld", (long long)member_int(*first, "array_limit"));
	buf_add_text(&text, "]");
	return buf_steal(&text);
}

/* How far it is and what is left, where any of them says so: two columns more. */
static void add_progress(struct table *table, const json_t *t)
{
	char text[FORMAT_LEN];
	double percent = member_deep_number(t, "progress.percent");
	/* 100 % is what is done, and not what is nearly so. */
	table_cell(table, STYLE_PLAIN, format_percent(floor(percent) / 100, text));
	table_cell(table, STYLE_PLAIN, format_left(member_deep_number(t, "progress.left_s"), text));
}

static void add_row(struct table *table, const struct queue_row *row, const json_t *gpus, bool progress)
{
	const json_t *t = *row->tasks;
	char text[FORMAT_LEN];
	enum task_state s = member_state(t);
	scoped_free char *ids = queue_table_ids(row->tasks, row->n);
	table_cell(table, STYLE_PLAIN, ids);
	table_cell(table, STYLE_PLAIN, member_text(t, "name"));
	table_cell(table, STYLE_PLAIN, member_text(t, "user"));
	table_cell(table, format_state_style(s), task_state_code(s));
	table_cell(table, STYLE_PLAIN, format_seconds(member_number(t, "run_s"), text));
	if (progress)
		add_progress(table, t);
	table_printf(table, STYLE_PLAIN, "%lld", (long long)member_int(t, "gpus_requested"));
	table_cell(table, STYLE_PLAIN, format_mib(member_deep_number(t, "estimate.claim_mib"), text));
	scoped_free char *where = format_gpus(member_deep(t, "attempts.gpus"), gpus);
	const char *reason = member_text(t, "reason");
	/* Its GPU is held, and it does not run yet, not now, not for long, not where it was sent, or computes nothing. */
	if (s == TASK_RUNNING && (!strcmp(reason, "Delayed") || !strcmp(reason, "Suspended") || !strcmp(reason, "Stopping") ||
				  !strcmp(reason, "OtherGpus") || !strcmp(reason, "Idle")))
		table_printf(table, STYLE_WARN, "%s (%s)", where, reason);
	else if (s != TASK_PENDING && s != TASK_HELD)
		table_cell(table, STYLE_PLAIN, *where || member_int(t, "gpus_requested") ? where : "-");
	else
		table_printf(table, STYLE_DIM, "(%s)", reason);
}

static bool any_progress(const struct queue_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		if (json_is_number(member_deep(*rows->rows[i].tasks, "progress.percent")))
			return true;
	return false;
}

/* The last column is never shortened: half a reason is another one. */
static struct table *begin_table(bool progress)
{
	static const struct table_column plain[] = {
		{ "ID", .right = true, .min = 8 }, { "NAME", .min = 10, .ends = true }, { "USER", .min = 6, .drop = 2 }, { "ST" },
		{ "TIME", .right = true, .drop = 1 }, { "GPUS", .right = true, .drop = 4 }, { "MEM", .right = true, .drop = 3 },
		{ "GPU(REASON)" },
	};
	static const struct table_column with_progress[] = {
		{ "ID", .right = true, .min = 8 }, { "NAME", .min = 10, .ends = true }, { "USER", .min = 4, .drop = 2 }, { "ST" },
		{ "TIME", .right = true, .drop = 1 }, { "DONE", .right = true, .drop = 4 }, { "LEFT", .right = true, .drop = 3 },
		{ "GPUS", .right = true, .drop = 6 }, { "MEM", .right = true, .drop = 5 }, { "GPU(REASON)" },
	};
	return progress ? table_create(with_progress, COUNT_OF(with_progress)) : table_create(plain, COUNT_OF(plain));
}

struct table *queue_table_create(const struct queue_rows *rows, const json_t *gpus)
{
	bool progress = any_progress(rows);
	struct table *table = begin_table(progress);
	for (size_t i = 0; i < rows->n; i++)
		add_row(table, &rows->rows[i], gpus, progress);
	return table;
}

void queue_table_print(const json_t *tasks, const json_t *gpus, bool bare, bool each, const struct term *term, FILE *out)
{
	struct queue_rows rows = queue_table_rows(tasks, each);
	struct table *table = queue_table_create(&rows, gpus);
	for (size_t i = 0; bare && i < rows.n; i++)
		table_print_one(table, i, false, term, out);
	if (!bare)
		table_print(table, term, out);
	table_destroy(table);
	queue_table_clear(&rows);
}
