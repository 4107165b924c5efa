/* SPDX-License-Identifier: MIT
 * CSV: records are cut in place, so a file costs its own size and one array of pointers.
 */
#include "sim/csv.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

#include <stdlib.h>
#include <string.h>

static int wrong(const struct csv *c, size_t line, const char *what, struct error *err)
{
	return error_set(err, ERR_INVALID, "%s:%zu: %s", c->name, line, what);
}

/* Takes the end of a line at `p`: bytes to skip, 0 if it is none, -1 for a carriage return that ends nothing. */
static int line_end(const struct csv *c, const char *p)
{
	const char *end = c->text.data + c->text.len;
	if (p == end)
		return 0;
	if (*p == '\n')
		return 1;
	if (*p != '\r')
		return 0;
	return p + 1 < end && p[1] == '\n' ? 2 : -1;
}

/* A quoted field, from after its first quote; doubled quotes become one. Returns what follows the last quote, or NULL. */
static char *cut_quoted(struct csv *c, char *from)
{
	const char *end = c->text.data + c->text.len;
	char *to = from;
	for (char *p = from; p < end; p++) {
		if (*p == '"' && p + 1 < end && p[1] == '"') {
			p++;
		} else if (*p == '"') {
			*to = 0;
			return p + 1;
		}
		c->next_line += *p == '\n';
		*to++ = *p;
	}
	return NULL;
}

/* One field at c->at; leaves c->at on what ends it (or at the end of the text). */
static int cut_field(struct csv *c, struct error *err)
{
	char *end = c->text.data + c->text.len, *p = c->at;
	if (c->n == CSV_MAX_FIELDS)
		return wrong(c, c->line, "has more than 1000 fields", err);
	alloc_grow(c->fields, c->n, c->cap);
	if (p < end && *p == '"') {
		size_t from = c->next_line;
		c->fields[c->n++] = p + 1;
		c->at = cut_quoted(c, p + 1);
		return c->at ? 0 : wrong(c, from, "a quote is opened and not closed", err);
	}
	c->fields[c->n++] = p;
	while (p < end && *p != ',' && *p != '\n' && *p != '\r' && *p != '"')
		p++;
	c->at = p;
	if (p == end || *p != '"')
		return 0;
	return wrong(c, c->next_line, "a quote inside a field: put the whole field in quotes and double it", err);
}

/* Cuts the record at c->at into c->fields. */
static int cut_record(struct csv *c, struct error *err)
{
	char *end = c->text.data + c->text.len;
	c->n = 0;
	c->line = c->next_line;
	for (;;) {
		if (cut_field(c, err))
			return -1;
		char *stop = c->at;
		int skip = line_end(c, stop);
		if (skip < 0)
			return wrong(c, c->next_line, "a carriage return that ends no line", err);
		if (stop < end && !skip && *stop != ',')
			return wrong(c, c->next_line, "after a closing quote comes a comma or the end of the line", err);
		c->at = stop + (skip ? skip : stop < end);
		c->next_line += skip > 0;
		if (stop < end)
			*stop = 0;
		if (stop == end || skip)
			return 0;
		if (c->at == end) {	/* a comma was the last byte: an empty field follows */
			alloc_grow(c->fields, c->n, c->cap);
			c->fields[c->n++] = end;
			return 0;
		}
	}
}

/* 1, 0 at the end, -1. */
static int next_record(struct csv *c, struct error *err)
{
	const char *end = c->text.data + c->text.len;
	for (int skip; c->at < end && (skip = line_end(c, c->at)) > 0; c->next_line++)
		c->at += skip;
	if (c->at >= end)
		return 0;
	return cut_record(c, err) ? -1 : 1;
}

static int read_header(struct csv *c, struct error *err)
{
	int rc = next_record(c, err);
	if (rc < 0)
		return -1;
	if (!rc)
		return error_set(err, ERR_INVALID, "%s: is empty: its first line names the columns", c->name);
	for (size_t i = 0; i < c->n; i++) {
		if (!*c->fields[i])
			return wrong(c, c->line, "a column without a name", err);
		for (size_t k = 0; k < i; k++)
			if (!strcmp(c->fields[i], c->fields[k]))
				return error_set(err, ERR_INVALID, "%s:%zu: two columns are called '%.60s'", c->name, c->line,
						 c->fields[i]);
	}
	c->columns = c->fields;
	c->n_columns = c->n;
	c->fields = NULL;
	c->n = c->cap = 0;
	return 0;
}

static int begin(struct csv *c, struct error *err)
{
	buf_add(&c->text, "", 0);
	c->line = c->next_line = 1;
	if (!c->text.len)
		return error_set(err, ERR_INVALID, "%s: is empty: its first line names the columns", c->name);
	if (memchr(c->text.data, 0, c->text.len))
		return error_set(err, ERR_INVALID, "%s: is not text: it has zero bytes", c->name);
	c->at = c->text.data;
	if (c->text.len >= 3 && !memcmp(c->at, "\xef\xbb\xbf", 3))
		c->at += 3;
	return read_header(c, err);
}

int csv_open(struct csv *c, const char *path, struct error *err)
{
	*c = (struct csv){ .name = path };
	return io_read_file(path, CSV_MAX_FILE, &c->text, err) ? -1 : begin(c, err);
}

int csv_open_text(struct csv *c, const char *name, const char *bytes, size_t n, struct error *err)
{
	*c = (struct csv){ .name = name };
	buf_add(&c->text, bytes, n);
	return begin(c, err);
}

void csv_clear(struct csv *c)
{
	buf_free(&c->text);
	free(c->fields);
	free(c->columns);
	*c = (struct csv){ 0 };
}

int csv_next(struct csv *c, struct error *err)
{
	int rc = next_record(c, err);
	if (rc == 1 && c->n != c->n_columns)
		return error_set(err, ERR_INVALID, "%s:%zu: has %zu field%s, the header has %zu", c->name, c->line, c->n,
				 c->n == 1 ? "" : "s", c->n_columns);
	return rc;
}

int csv_column(const struct csv *c, const char *name)
{
	for (size_t i = 0; i < c->n_columns; i++)
		if (!strcmp(c->columns[i], name))
			return (int)i;
	return -1;
}

/* One "ours=theirs" of a map. */
static int map_column(char *pair, const char *const *names, size_t n, const char **theirs, struct error *err)
{
	char *equals = strchr(pair, '=');
	scoped_buf known = { 0 };
	if (!equals || !equals[1])
		return error_set(err, ERR_INVALID, "--map: '%.60s': write COLUMN=NAME, such as %s=NAME", pair, names[0]);
	*equals = 0;
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(pair, names[i])) {
			theirs[i] = equals + 1;
			return 0;
		}
		buf_printf(&known, " %s", names[i]);
	}
	return error_set(err, ERR_INVALID, "--map: '%.60s' is no column that is read; those are%s", pair, buf_text(&known));
}

int csv_columns(const struct csv *c, const char *const *names, size_t n, size_t n_needed, const char *map, int *at,
		struct error *err)
{
	scoped_free char *words = alloc_string_or_null(map);
	scoped_free const char **theirs = alloc_resize(NULL, n, sizeof *theirs);
	memcpy(theirs, names, n * sizeof *theirs);
	for (char *rest = words, *pair; rest && (pair = strsep(&rest, ","));)
		if (*pair && map_column(pair, names, n, theirs, err))
			return -1;
	for (size_t i = 0; i < n; i++) {
		at[i] = csv_column(c, theirs[i]);
		if (at[i] >= 0)
			continue;
		if (theirs[i] != names[i])
			return error_set(err, ERR_INVALID, "%s:1: has no column '%.60s'", c->name, theirs[i]);
		if (i < n_needed)
			return error_set(err, ERR_INVALID, "%s:1: has no column '%s'; --map %s=NAME reads it under another name", c->name,
					 names[i], names[i]);
	}
	return 0;
}

int csv_wrong(const struct csv *c, struct error *err)
{
	return error_wrap(err, "%s:%zu", c->name, c->line);
}
