/* SPDX-License-Identifier: MIT
 * See submit_radt.h.
 */
#include "cli/submit_radt.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/client.h"
#include "sim/csv.h"

#include <ctype.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROWS 10000

enum radt_column { EXPERIMENT, WORKLOAD, NAME, STATUS, RUN, DEVICES, COLLOCATION, LISTENERS, FILE_, PARAMS, COLUMNS };
static const char *const names[COLUMNS + 1] = { "Experiment", "Workload", "Name", "Status", "Run", "Devices", "Collocation",
						"Listeners", "File", "Params", NULL };

/* One row as it stands. */
struct radt_line { size_t line; char *fields[COLUMNS]; bool done; };
struct radt_file { struct csv csv; int at[COLUMNS]; struct radt_line *lines; size_t n, cap; };

static void file_clear(struct radt_file *f)
{
	for (size_t i = 0; i < f->n; i++)
		for (size_t c = 0; c < COLUMNS; c++)
			free(f->lines[i].fields[c]);
	free(f->lines);
	csv_clear(&f->csv);
}

static void add_note(struct submit_radt *r, char *note)
{
	for (size_t i = 0; i < r->n_notes; i++)
		if (!strcmp(r->notes[i], note)) {
			free(note);
			return;
		}
	r->notes = alloc_resize(r->notes, r->n_notes + 2, sizeof *r->notes);
	r->notes[r->n_notes++] = note;
	r->notes[r->n_notes] = NULL;
}

/* Reading ----------------------------------------------------------------------------------------------------------------- */

static char *trimmed(const char *text)
{
	text += strspn(text, " \t");
	size_t n = strlen(text);
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	return alloc_printf("%.*s", (int)n, text);
}

/* A header may have blanks behind its commas, as radT's own examples do. */
static int find_columns(struct radt_file *f, struct submit_radt *r, struct error *err)
{
	memset(f->at, -1, sizeof f->at);
	for (size_t i = 0; i < f->csv.n_columns; i++) {
		scoped_free char *name = trimmed(f->csv.columns[i]);
		int c = 0;
		while (c < COLUMNS && strcasecmp(names[c], name))
			c++;
		const char *near = c < COLUMNS ? NULL : words_nearest(name, (const char **)names);
		if (near)
			return error_set(err, ERR_INVALID, "%s:1: column %.40s: did you mean %s?", f->csv.name, name, near);
		if (c == COLUMNS)
			add_note(r, alloc_printf("column %.40s: radT has none of that name: not looked at", name));
		else if (f->at[c] >= 0)
			return error_set(err, ERR_INVALID, "%s:1: column %s: is there twice", f->csv.name, names[c]);
		else
			f->at[c] = (int)i;
	}
	static const enum radt_column needed[] = { WORKLOAD, FILE_ };
	for (size_t i = 0; i < COUNT_OF(needed); i++)
		if (f->at[needed[i]] < 0)
			return error_set(err, ERR_INVALID, "%s:1: there is no column %s: the first line names radT's columns, Workload and "
					 "File at least", f->csv.name, names[needed[i]]);
	return 0;
}

static int read_lines(struct radt_file *f, struct error *err)
{
	int rc;
	while ((rc = csv_next(&f->csv, err)) == 1) {
		if (f->n == MAX_ROWS)
			return error_set(err, ERR_INVALID, "%s: has more than %d rows", f->csv.name, MAX_ROWS);
		alloc_grow(f->lines, f->n, f->cap);
		struct radt_line *l = &f->lines[f->n++];
		*l = (struct radt_line){ .line = f->csv.line };
		for (int c = 0; c < COLUMNS; c++)
			l->fields[c] = trimmed(f->at[c] < 0 ? "" : f->csv.fields[f->at[c]]);
		l->done = strstr(l->fields[STATUS], "FINISHED") || strstr(l->fields[STATUS], "FAILED");
	}
	return rc ? -1 : f->n ? 0 : error_set(err, ERR_INVALID, "%s: has no rows", f->csv.name);
}

/* Meaning ----------------------------------------------------------------------------------------------------------------- */

static int wrong(const struct radt_file *f, const struct radt_line *l, enum radt_column c, const char *expected,
		 struct error *err)
{
	return error_set(err, ERR_INVALID, "%s:%zu: column %s: '%.60s': expected %s", f->csv.name, l->line, names[c], l->fields[c],
			 expected);
}

static bool same_group(const struct radt_line *a, const struct radt_line *b)
{
	return !strcmp(a->fields[WORKLOAD], b->fields[WORKLOAD]) && !strcmp(a->fields[EXPERIMENT], b->fields[EXPERIMENT]);
}

/* "1+2": bit 1 and bit 2; nothing: GPU 0, radT's default. */
static int read_devices(const struct radt_file *f, const struct radt_line *l, uint64_t *set, struct error *err)
{
	scoped_free char *copy = alloc_string(*l->fields[DEVICES] ? l->fields[DEVICES] : "0");
	char *rest = NULL;
	*set = 0;
	for (char *word = strtok_r(copy, "+", &rest); word; word = strtok_r(NULL, "+", &rest)) {
		scoped_free char *bare = trimmed(word);
		int64_t n;
		if (units_parse_int(bare, 0, 63, &n, NULL))
			return wrong(f, l, DEVICES, "numbers of GPUs, 0 or 1+2", err);
		*set |= UINT64_C(1) << n;
	}
	return *set ? 0 : wrong(f, l, DEVICES, "numbers of GPUs, 0 or 1+2", err);
}

/* Whether another row that runs at the same time names one of these devices. -1: that row is wrong. */
static int is_in_company(const struct radt_file *f, const struct radt_line *l, uint64_t set, struct error *err)
{
	for (size_t i = 0; i < f->n; i++) {
		uint64_t other;
		if (&f->lines[i] == l || !same_group(&f->lines[i], l))
			continue;
		if (read_devices(f, &f->lines[i], &other, err))
			return -1;
		if (set & other)
			return 1;
	}
	return 0;
}

static void add_word(char ***list, char *word)
{
	size_t n = alloc_count(*list);
	*list = alloc_resize(*list, n + 2, sizeof **list);
	(*list)[n] = word;
	(*list)[n + 1] = NULL;
}

static void add_option(struct submit_radt_row *row, const char *name, const char *value)
{
	add_word(&row->options, value ? alloc_printf("--%s=%s", name, value) : alloc_printf("--%s", name));
}

/* "3g.20gb", "1g.10gb+me" */
static bool is_profile(const char *word)
{
	size_t n = strspn(word, "0123456789");
	return n && !strncasecmp(word + n, "g.", 2) && isdigit((unsigned char)word[n + 2]);
}

static int read_sharing(const struct radt_file *f, const struct radt_line *l, struct submit_radt_row *row, struct error *err)
{
	const char *how = l->fields[COLLOCATION];
	char gpus[16];
	uint64_t set;
	if (read_devices(f, l, &set, err))
		return -1;
	snprintf(gpus, sizeof gpus, "%d", __builtin_popcountll(set));
	add_option(row, "gpus", gpus);
	if (!strcasecmp(how, "mps")) {
		add_option(row, "share", "mps");
	} else if (is_profile(how)) {
		add_option(row, "share", "mig");
		add_option(row, "constraint", how);
	} else if (!*how || !strcmp(how, "-") || !strcasecmp(how, "nan")) {
		int company = is_in_company(f, l, set, err);
		if (company < 0)
			return -1;
		add_option(row, company ? "share" : "exclusive", company ? "streams" : NULL);
	} else {
		return wrong(f, l, COLLOCATION, "-, MPS, or a MIG profile such as 3g.20gb", err);
	}
	return 0;
}

/* radT runs the script from its own folder, by the python that there is. */
static int read_command(const struct radt_file *f, const struct radt_line *l, struct submit_radt_row *row, struct error *err)
{
	scoped_free char *one = alloc_string(l->fields[FILE_]), *two = alloc_string(l->fields[FILE_]);
	scoped_free char *params = alloc_string(l->fields[PARAMS]), *python = client_find_program("python");
	char *rest = NULL;
	if (!*l->fields[FILE_] || access(l->fields[FILE_], R_OK))
		return wrong(f, l, FILE_, "a script that can be read, from the current folder", err);
	row->folder = realpath(dirname(one), NULL);
	if (!row->folder)
		return error_errno(err, "%s:%zu: column File: %s", f->csv.name, l->line, one);
	add_word(&row->words, alloc_string(python ? "python" : "python3"));
	add_word(&row->words, alloc_string(basename(two)));
	for (char *word = strtok_r(params, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		add_word(&row->words, alloc_string(word));
	return 0;
}

static void note_listeners(const struct radt_line *l, struct submit_radt *r)
{
	static const char *const own[] = { "nsys", "nsysraw", "ncu", "ncuraw", "ncuattach" };
	scoped_free char *copy = alloc_string(l->fields[LISTENERS]);
	char *rest = NULL;
	for (char *word = strtok_r(copy, "+", &rest); word; word = strtok_r(NULL, "+", &rest)) {
		scoped_free char *bare = trimmed(word);
		bool profiler = false;
		for (size_t i = 0; i < COUNT_OF(own); i++)
			profiler = profiler || !strcasecmp(bare, own[i]);
		if (profiler)
			add_note(r, alloc_printf("column Listeners: %s: no profiler is started: put it into the script", bare));
		else if (*bare && strcasecmp(bare, "none"))
			add_note(r, alloc_string("column Listeners: none is started: radd samples the GPUs itself, and rad track sends "
						 "that to MLflow"));
	}
}

static int read_row(const struct radt_file *f, const struct radt_line *l, struct submit_radt *r, struct error *err)
{
	int64_t ignored;
	alloc_grow(r->rows, r->n, r->cap);
	struct submit_radt_row *row = &r->rows[r->n++];
	*row = (struct submit_radt_row){ .line = l->line, .name = alloc_string(l->fields[NAME]) };
	row->experiment = alloc_string(l->fields[EXPERIMENT]);
	if (*row->experiment && units_parse_int(row->experiment, 0, INT64_MAX, &ignored, NULL))
		return wrong(f, l, EXPERIMENT, "the number of an experiment of MLflow", err);
	if (!*l->fields[WORKLOAD])
		return wrong(f, l, WORKLOAD, "the number of a workload", err);
	row->group = alloc_printf("%s+%s", *row->experiment ? row->experiment : "0", l->fields[WORKLOAD]);
	if (*row->name)
		add_option(row, "name", row->name);
	if (read_sharing(f, l, row, err) || read_command(f, l, row, err))
		return -1;
	add_option(row, "chdir", row->folder);
	note_listeners(l, r);
	return 0;
}

/* A workload runs whole, as long as one of its rows is to be run. */
static bool is_done(const struct radt_file *f, const struct radt_line *l)
{
	bool done = true;
	for (size_t i = 0; i < f->n; i++)
		done = done && (f->lines[i].done || !same_group(&f->lines[i], l));
	return done;
}

/* All rows of the workload that begins at that line, if it does. */
static int read_workload(const struct radt_file *f, size_t first, struct submit_radt *r, struct error *err)
{
	for (size_t i = 0; i < first; i++)
		if (same_group(&f->lines[i], &f->lines[first]))
			return 0;
	bool done = is_done(f, &f->lines[first]);
	for (size_t i = first; i < f->n; i++) {
		if (!same_group(&f->lines[i], &f->lines[first]))
			continue;
		if (done)
			r->passed_over++;
		else if (read_row(f, &f->lines[i], r, err))
			return -1;
	}
	return 0;
}

static int read_rows(const struct radt_file *f, struct submit_radt *r, struct error *err)
{
	for (size_t i = 0; i < f->n; i++)
		if (read_workload(f, i, r, err))
			return -1;
	if (r->passed_over)
		add_note(r, alloc_printf("%zu row%s passed over, by the column Status: clear it to run %s again", r->passed_over,
					 r->passed_over == 1 ? " is" : "s are", r->passed_over == 1 ? "it" : "them"));
	return r->n ? 0 : error_set(err, ERR_INVALID, "%s: all rows have finished or failed, by the column Status", f->csv.name);
}

int submit_radt_read(struct submit_radt *r, const char *path, struct error *err)
{
	struct radt_file f = { .n = 0 };
	*r = (struct submit_radt){ .n = 0 };
	int rc = csv_open(&f.csv, path, err) || find_columns(&f, r, err) || read_lines(&f, err) || read_rows(&f, r, err);
	file_clear(&f);
	return rc ? -1 : 0;
}

void submit_radt_clear(struct submit_radt *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct submit_radt_row *row = &r->rows[i];
		free(row->group);
		free(row->experiment);
		free(row->name);
		free(row->folder);
		alloc_free_list(row->options);
		alloc_free_list(row->words);
	}
	free(r->rows);
	alloc_free_list(r->notes);
	*r = (struct submit_radt){ .n = 0 };
}
