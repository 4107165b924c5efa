/* SPDX-License-Identifier: MIT
 * See columns.h. A format is read once, into pieces: a field with its size, or text that stands as it is.
 */
#include "cli/columns.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/scope.h"
#include "cli/term.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 1000	/* of one field */
#define SQUEUE_WIDTH 20		/* of a field of its --Format */

/* A field, or (NULL) a text. */
struct piece { const struct column_field *field; char *text; bool right; unsigned size; };

struct column_set {
	struct piece *pieces;
	size_t n, cap;
	enum column_form form;
	bool names;		/* read by names: a line below sacct's titles, a blank between columns */
	const char *delimiter;	/* NULL: widths */
	bool behind;
};

static struct piece *add_piece(struct column_set *c, const struct column_field *f)
{
	alloc_grow(c->pieces, c->n, c->cap);
	c->pieces[c->n] = (struct piece){ .field = f };
	return &c->pieces[c->n++];
}

void columns_destroy(struct column_set *c)
{
	for (size_t i = 0; c && i < c->n; i++)
		free(c->pieces[i].text);
	if (c)
		free(c->pieces);
	free(c);
}

void columns_delimit(struct column_set *c, const char *delimiter, bool behind)
{
	c->delimiter = delimiter;
	c->behind = behind;
}

/* ---- squeue's letters ---- */

static unsigned take_size(const char **p)
{
	unsigned size = 0;
	for (; isdigit((unsigned char)**p) && size <= MOST_COLUMNS; ++*p)
		size = size * 10 + (unsigned)(**p - '0');
	return size;
}

static int bad_letter(const char *at, struct error *err)
{
	char known[100];
	size_t n = 0;
	for (const struct column_field *f = column_fields_next(NULL); f; f = column_fields_next(f))
		if (f->letter && n + 3 < sizeof known) {
			known[n++] = ' ';
			known[n++] = f->letter;
		}
	known[n] = 0;
	return error_set(err, ERR_INVALID, "'%.40s': stands for nothing: a field is %%[.][size] and one of%s; or names, as "
			 "JobID,State", at, known);
}

static int read_letters(struct column_set *c, const char *text, struct error *err)
{
	for (const char *p = text; *p;) {
		const char *from = p;
		if (*p != '%' || p[1] == '%') {
			size_t n = *p == '%' ? 1 : strcspn(p, "%");
			add_piece(c, NULL)->text = alloc_printf("%.*s", (int)n, p);
			p += *p == '%' ? 2 : n;
			continue;
		}
		bool right = *++p == '.';
		p += right;
		unsigned size = take_size(&p);
		const struct column_field *f = size > MOST_COLUMNS ? NULL : column_fields_letter(*p);
		if (!f)
			return bad_letter(from, err);
		struct piece *piece = add_piece(c, f);
		piece->right = right;
		piece->size = size;
		p++;
	}
	return 0;
}

/* ---- names ---- */

void columns_list(FILE *out)
{
	unsigned n = 0;
	for (const struct column_field *f = column_fields_next(NULL); f; f = column_fields_next(f))
		fprintf(out, "%-18s%s", f->name, ++n % 4 ? " " : "\n");
	if (n % 4)
		putc('\n', out);
}

static int bad_name(const char *name, struct error *err)
{
	scoped_buf known = { 0 };
	const char *near = column_fields_near(name);
	for (const struct column_field *f = column_fields_next(NULL); f; f = column_fields_next(f))
		buf_printf(&known, " %s", f->name);
	scoped_free char *hint = near ? alloc_printf(": did you mean '%s'?", near) : NULL;
	return error_set(err, ERR_INVALID, "there is no field '%.40s'%s There are:%s", name, hint ? hint : ".", buf_text(&known));
}

/* "State", "State%20", "State%-20", "state:20", "state:.20". */
static int read_name(struct column_set *c, const char *word, struct error *err)
{
	size_t len = strcspn(word, "%:");
	scoped_free char *name = alloc_printf("%.*s", (int)len, word);
	const struct column_field *f = column_fields_find(name);
	const char *p = word + len;
	bool sacct = c->form == COLUMN_SACCT, sized = *p;
	p += sized;
	bool left = *p == '-', right = *p == '.';
	p += left || right;
	unsigned size = take_size(&p);
	if (!f)
		return bad_name(name, err);
	if (*p || size > MOST_COLUMNS || (sized && !size))
		return error_set(err, ERR_INVALID, "'%.40s': expected a width behind the name: State%%20, State%%-20 or state:20", word);
	struct piece *piece = add_piece(c, f);
	piece->size = size ? size : sacct ? f->width : SQUEUE_WIDTH;
	piece->right = right || (sacct && !left);
	return 0;
}

static int read_names(struct column_set *c, const char *text, struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	char *rest = copy;
	for (char *word; (word = strsep(&rest, ","));)
		if (*word && read_name(c, word, err))
			return -1;
	return 0;
}

static int check_fields(const struct column_set *c, const char *text, struct error *err)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->pieces[i].field)
			return 0;
	return error_set(err, ERR_INVALID, "'%.40s' names no field: write them as %%i %%j %%t, or as JobID,JobName,State", text);
}

/* Names with commas, and not text with letters in it. */
static bool is_names(const char *text)
{
	size_t len = strcspn(text, "%:,");
	return len && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") >= len &&
	       (!text[len] || text[len] == ',' || text[len] == ':' || isdigit((unsigned char)text[len + 1]) || text[len + 1] == '-');
}

struct column_set *columns_parse(const char *text, enum column_form form, struct error *err)
{
	struct column_set *c = alloc_zero(sizeof *c);
	c->form = form;
	c->names = is_names(text);
	if ((c->names ? read_names(c, text, err) : read_letters(c, text, err)) || check_fields(c, text, err)) {
		columns_destroy(c);
		return NULL;
	}
	return c;
}

static size_t add_members(const struct column_field *f, const char *members[COLUMNS_MEMBERS], size_t n)
{
	for (size_t i = 0; i < COLUMN_MEMBERS && f->members[i]; i++) {
		size_t k = 0;
		while (k < n && strcmp(members[k], f->members[i]))
			k++;
		if (k == n && n < COLUMNS_MEMBERS)
			members[n++] = f->members[i];
	}
	return n;
}

size_t columns_members(const struct column_set *c, const char *members[COLUMNS_MEMBERS])
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++)
		if (c->pieces[i].field)
			n = add_members(c->pieces[i].field, members, n);
	return n;
}

/* ---- printing ---- */

/* Cut and filled by columns of the terminal, not by bytes; where sacct cuts, a "+" says so. */
static void print_field(const struct column_set *c, const struct piece *p, const char *text, bool title, FILE *out)
{
	const struct term plain = { .utf8 = true };
	scoped_free char *clean = term_text(text, 0, &plain);
	bool cut = p->size && term_columns(clean) > p->size, marked = cut && c->form == COLUMN_SACCT && c->names && !title;
	if (cut)
		clean[term_bytes(clean, p->size - marked)] = 0;
	unsigned columns = term_columns(clean) + marked;
	int fill = p->size > columns ? (int)(p->size - columns) : 0;
	fprintf(out, "%*s%s%s%*s", p->right ? fill : 0, "", clean, marked ? "+" : "", p->right ? 0 : fill, "");
}

static void print_delimited(const struct column_set *c, const char *text, bool last, FILE *out)
{
	const struct term plain = { .utf8 = true };
	scoped_free char *clean = term_text(text, 0, &plain);
	fprintf(out, "%s%s", clean, last && !c->behind ? "" : c->delimiter);
}

/* `task` NULL: the titles. */
static void print_line(const struct column_set *c, const json_t *task, const json_t *gpus, FILE *out)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct piece *p = &c->pieces[i];
		const char *title = !p->field ? p->text : c->form == COLUMN_SACCT ? p->field->name : p->field->title;
		scoped_free char *text = p->field && task ? p->field->value(task, gpus, c->form) : alloc_string(title);
		if (c->delimiter && p->field)
			print_delimited(c, text, i + 1 == c->n, out);
		else if (p->field)
			print_field(c, p, text, !task, out);
		else if (!c->delimiter)
			fputs(text, out);
		if (c->names && c->form == COLUMN_SACCT && !c->delimiter)
			putc(' ', out);
	}
	putc('\n', out);
}

static void print_rule(const struct column_set *c, FILE *out)
{
	for (size_t i = 0; i < c->n; i++) {
		for (unsigned k = 0; k < c->pieces[i].size; k++)
			putc('-', out);
		putc(' ', out);
	}
	putc('\n', out);
}

void columns_print(const struct column_set *c, bool titles, const json_t *tasks, const json_t *gpus, FILE *out)
{
	size_t i;
	json_t *t;
	if (titles)
		print_line(c, NULL, gpus, out);
	if (titles && c->names && c->form == COLUMN_SACCT && !c->delimiter)
		print_rule(c, out);
	json_array_foreach(tasks, i, t)
		print_line(c, t, gpus, out);
}

/* ---- order ---- */

#define MOST_KEYS 8

struct sort_keys { struct { const struct column_field *field; bool down; } list[MOST_KEYS]; size_t n; };

static int read_keys(const char *text, struct sort_keys *keys, struct error *err)
{
	scoped_free char *copy = alloc_string(text);
	char *rest = copy;
	*keys = (struct sort_keys){ .n = 0 };
	for (char *word; (word = strsep(&rest, ","));) {
		bool down = *word == '-';
		const char *name = word + (down || *word == '+');
		const struct column_field *f = *name && !name[1] ? column_fields_letter(*name) : column_fields_find(name);
		if (!f)
			return bad_name(name, err);
		if (keys->n == MOST_KEYS)
			return error_set(err, ERR_INVALID, "more than %d fields to sort by", MOST_KEYS);
		keys->list[keys->n].field = f;
		keys->list[keys->n++].down = down;
	}
	return 0;
}

int columns_sort_check(const char *keys, struct error *err)
{
	struct sort_keys read;
	return read_keys(keys, &read, err);
}

size_t columns_sort_members(const char *text, const char *members[COLUMNS_MEMBERS], size_t n)
{
	struct sort_keys keys;
	if (!read_keys(text, &keys, NULL))
		for (size_t i = 0; i < keys.n; i++)
			n = add_members(keys.list[i].field, members, n);
	return n;
}

/* One task with what it is sorted by; texts are owned. */
struct sort_row { json_t *task; size_t at; struct { double number; char *text; } values[MOST_KEYS]; };

static int compare_rows(const void *x, const void *y, void *ctx)
{
	const struct sort_row *a = x, *b = y;
	const struct sort_keys *keys = ctx;
	for (size_t i = 0; i < keys->n; i++) {
		double n = a->values[i].number, m = b->values[i].number;
		if (!a->values[i].text && (isnan(n) || isnan(m)) && isnan(n) != isnan(m))
			return isnan(n) ? 1 : -1;	/* what is not known comes last, either way */
		int order = a->values[i].text ? strcmp(a->values[i].text, b->values[i].text) : (n > m) - (n < m);
		if (order)
			return keys->list[i].down ? -order : order;
	}
	return (a->at > b->at) - (a->at < b->at);
}

void columns_sort(json_t *tasks, const char *text, const json_t *gpus)
{
	struct sort_keys keys;
	size_t n = json_array_size(tasks);
	struct sort_row *rows = alloc_zero((n + 1) * sizeof *rows);
	if (read_keys(text, &keys, NULL))
		keys.n = 0;
	for (size_t i = 0; i < n; i++) {
		rows[i].task = json_incref(json_array_get(tasks, i));
		rows[i].at = i;
		for (size_t k = 0; k < keys.n; k++)
			if (keys.list[k].field->number)
				rows[i].values[k].number = keys.list[k].field->number(rows[i].task);
			else
				rows[i].values[k].text = keys.list[k].field->value(rows[i].task, gpus, COLUMN_SQUEUE);
	}
	qsort_r(rows, n, sizeof *rows, compare_rows, &keys);
	json_array_clear(tasks);
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(tasks, rows[i].task);
		for (size_t k = 0; k < keys.n; k++)
			free(rows[i].values[k].text);
	}
	free(rows);
}
