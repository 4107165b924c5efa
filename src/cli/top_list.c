/* SPDX-License-Identifier: MIT
 * See top_list.h. The table is made once for each answer of radd, and only the lines that are seen are written: of ten thousand
 * tasks, a key moves through some tens.
 */
#include "cli/top_list.h"

#include "base/scope.h"
#include "cli/member.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REVERSE "\033[7m"
#define PLAIN "\033[0m"

/* ---- orders ---- */

static double of_id(const json_t *t)
{
	return (double)member_id(t);
}

static double of_time(const json_t *t) { return member_number(t, "run_s"); }
static double of_done(const json_t *t) { return member_deep_number(t, "progress.percent"); }
static double of_left(const json_t *t) { return member_deep_number(t, "progress.left_s"); }
static double of_gpus(const json_t *t) { return member_number(t, "gpus_requested"); }
static double of_memory(const json_t *t) { return member_deep_number(t, "estimate.claim_mib"); }

/* By a number, the largest first unless `up`, or by a text. */
static const struct order { const char *title, *text; double (*number)(const json_t *t); bool up; } orders[] = {
	{ NULL, NULL, NULL, false },
	{ "ID", NULL, of_id, true }, { "NAME", "name", NULL, false }, { "USER", "user", NULL, false }, { "ST", "state", NULL, false },
	{ "TIME", NULL, of_time, false }, { "DONE", NULL, of_done, false }, { "LEFT", NULL, of_left, true },
	{ "GPUS", NULL, of_gpus, false }, { "MEM", NULL, of_memory, false }, { "GPU(REASON)", "reason", NULL, false },
};

/* What is not known comes last, in both directions; what is alike stays in the order of the queue. */
static int compare_rows(const void *a, const void *b, void *list)
{
	const struct top_list *l = list;
	const struct order *o = &orders[l->by];
	const struct queue_row *x = a, *y = b;
	int rc = 0;
	if (o->text) {
		rc = strcmp(member_text(*x->tasks, o->text), member_text(*y->tasks, o->text));
	} else if (o->number) {
		double v = o->number(*x->tasks), w = o->number(*y->tasks);
		if (isnan(v) || isnan(w))
			return isnan(v) != isnan(w) ? (isnan(v) ? 1 : -1) : (x->tasks > y->tasks) - (x->tasks < y->tasks);
		rc = (o->up ? 1 : -1) * ((v > w) - (v < w));
	}
	if (!rc)
		rc = (x->tasks > y->tasks) - (x->tasks < y->tasks);
	return l->reverse ? -rc : rc;
}

void top_list_sort(struct top_list *l, int step)
{
	l->by = (unsigned)((l->by + COUNT_OF(orders) + (size_t)step) % COUNT_OF(orders));
	l->reverse = false;
}

const char *top_list_order(const struct top_list *l)
{
	return orders[l->by].title;
}

/* ---- what is in it ---- */

static bool has(const struct top_list *l, const json_t *t)
{
	static const char *const keys[] = { "id", "name", "user", "reason" };
	if (*l->user && strcmp(l->user, member_text(t, "user")))
		return false;
	for (size_t i = 0; *l->find && i < COUNT_OF(keys); i++)
		if (strcasestr(member_text(t, keys[i]), l->find))
			return true;
	return !*l->find;
}

static void forget_rows(struct top_list *l)
{
	table_destroy(l->table);
	queue_table_clear(&l->rows);
	json_decref(l->some);
	l->table = NULL;
	l->some = NULL;
}

static bool row_has(const struct queue_row *row, const char *id)
{
	for (size_t i = 0; i < row->n; i++)
		if (!strcmp(member_text(row->tasks[i], "id"), id))
			return true;
	return false;
}

/* Where it was chosen, wherever that is now; where it is gone, what stands in its place. */
static void choose_again(struct top_list *l)
{
	for (size_t i = 0; *l->id && i < l->rows.n; i++)
		if (row_has(&l->rows.rows[i], l->id)) {
			l->at = i;
			return;
		}
	top_list_move(l, 0);
}

void top_list_update(struct top_list *l, const json_t *tasks, const json_t *gpus)
{
	size_t i;
	json_t *t;
	forget_rows(l);
	l->some = json_array();
	json_array_foreach(tasks, i, t)
		if (has(l, t))
			json_array_append(l->some, t);
	l->rows = queue_table_rows(l->some, false);
	if (l->by || l->reverse)
		qsort_r(l->rows.rows, l->rows.n, sizeof *l->rows.rows, compare_rows, l);
	l->table = queue_table_create(&l->rows, gpus);
	choose_again(l);
}

void top_list_clear(struct top_list *l)
{
	forget_rows(l);
	*l = (struct top_list){ 0 };
}

/* ---- one of them ---- */

void top_list_move(struct top_list *l, long by)
{
	size_t last = l->rows.n ? l->rows.n - 1 : 0;
	if (by < 0)
		l->at = l->at > (size_t)-by ? l->at - (size_t)-by : 0;
	else
		l->at = (size_t)by < last - (l->at < last ? l->at : last) ? l->at + (size_t)by : last;
	snprintf(l->id, sizeof l->id, "%s", l->rows.n ? member_text(*l->rows.rows[l->at].tasks, "id") : "");
}

const char *top_list_chosen(const struct top_list *l)
{
	return l->rows.n ? member_text(*l->rows.rows[l->at].tasks, "id") : NULL;
}

const json_t *top_list_chosen_row(const struct top_list *l, char **ids)
{
	const struct queue_row *row = l->rows.n ? &l->rows.rows[l->at] : NULL;
	*ids = row ? queue_table_ids(row->tasks, row->n) : NULL;
	return row ? *row->tasks : NULL;
}

/* ---- lines ---- */

/* As wide as the window, so that the whole line is marked. */
static void print_chosen(const struct top_list *l, size_t row, const struct term *term, FILE *out)
{
	char *line = NULL;
	size_t n;
	FILE *f = open_memstream(&line, &n);
	if (!f)
		return;
	table_print_one(l->table, row, true, term, f);
	fclose(f);
	line[strcspn(line, "\n")] = 0;
	unsigned columns = term_columns(line);
	fprintf(out, REVERSE "%s%*s" PLAIN "\n", line, term->width > columns ? (int)(term->width - columns) : 0, "");
	free(line);
}

unsigned top_list_print(struct top_list *l, unsigned lines, const struct term *term, FILE *out)
{
	unsigned shown = 1;
	if (!l->table || lines < 2)
		return 0;
	size_t room = lines - 1, last = l->rows.n > room ? l->rows.n - room : 0;
	if (l->at < l->first)
		l->first = l->at;
	if (l->at >= l->first + room)
		l->first = l->at - room + 1;
	l->first = l->first > last ? last : l->first;
	table_print_titles(l->table, top_list_order(l), term, out);
	for (size_t i = l->first; i < l->rows.n && shown < lines; i++, shown++) {
		if (i == l->at)
			print_chosen(l, i, term, out);
		else
			table_print_one(l->table, i, false, term, out);
	}
	return shown;
}
