/* SPDX-License-Identifier: MIT
 * A set of values of the table's rows, and where each came from: setting, comparing, listing.
 */
#include "settings/settings.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/words.h"
#include "settings/source.h"
#include "settings/value.h"
#include "settings/who.h"

#include <stdlib.h>
#include <string.h>

static size_t count_rows(void)
{
	size_t n = 0;
	while (settings_table[n].name)
		n++;
	return n;
}

static struct settings_source *source_of(const struct settings *s, const struct setting *row)
{
	return &s->from[row - settings_table];
}

static void *member_of(struct settings *s, const struct setting *row)
{
	return (char *)s + row->offset;
}

/* Rows are the owner of every default; core_config_default has those of what is no setting. */
struct settings settings_default(void)
{
	struct settings s = { .core = core_config_default(), .from = alloc_zero(count_rows() * sizeof *s.from) };
	struct error err = ERROR_INIT;
	for (const struct setting *row = settings_table; row->name; row++)
		if (value_parse(row, row->standard, member_of(&s, row), &err))
			abort();	/* a row that is wrong in itself: a test goes through all of them */
	return s;
}

void settings_clear(struct settings *s)
{
	for (const struct setting *row = settings_table; row->name; row++)
		if (row->type == SETTING_TEXT) {
			free(*(char **)member_of(s, row));
			*(char **)member_of(s, row) = NULL;
		}
	who_clear(s);
	free(s->file);
	free(s->from);
	s->file = NULL;
	s->from = NULL;
}

/* By name ---------------------------------------------------------------------------------------------------------------- */

const struct setting *settings_find(const char *name)
{
	size_t n = strlen(name);
	for (const struct setting *row = settings_table; row->name; row++)
		if (words_are_key(name, n, row->name) || (row->also && words_are_key(name, n, row->also)))
			return row;
	return NULL;
}

static int unknown_name(const char *name, struct error *err)
{
	scoped_free const char **names = alloc_zero((count_rows() + 1) * sizeof *names);
	for (size_t i = 0; settings_table[i].name; i++)
		names[i] = settings_table[i].name;
	const char *near = words_nearest(name, names);
	return error_set(err, ERR_INVALID, "unknown key '%.60s'%s%s%s (rad.conf(5) lists them)", name, near ? ": did you mean '" : "",
			 near ? near : "", near ? "'?" : "");
}

int settings_set(struct settings *s, const struct setting *row, const char *text, struct settings_source from,
		 struct error *err)
{
	if (value_parse(row, text, member_of(s, row), err))
		return -1;
	*source_of(s, row) = from;
	return 0;
}

int settings_set_named(struct settings *s, const char *name, const char *text, struct settings_source from,
		       struct error *err)
{
	const struct setting *row = settings_find(name);
	if (who_is(name))
		return who_set(s, name, text, from, err) ? error_wrap(err, "%s", name) : 0;
	if (!row)
		return unknown_name(name, err);
	return settings_set(s, row, text, from, err) ? error_wrap(err, "%s", row->name) : 0;
}

char *settings_print(const struct settings *s, const struct setting *row)
{
	return value_print(row, (const char *)s + row->offset);
}

/* Changing ---------------------------------------------------------------------------------------------------------------- */

/* Texts are compared, since they are what a value is kept as by: equal ones are the same setting, whatever else differs. */
void settings_adopt(struct settings *s, const struct settings *next, settings_changed *tell, void *ctx)
{
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *old = settings_print(s, row), *new = settings_print(next, row);
		bool differs = strcmp(old, new);
		if (differs && !row->restart)
			value_parse(row, new, member_of(s, row), NULL);
		if (!differs || !row->restart)
			*source_of(s, row) = *source_of(next, row);
		if (differs)
			tell(ctx, row, old, new, !row->restart);
	}
	who_adopt(s, next, tell, ctx);
	free(s->file);
	s->file = alloc_string_or_null(next->file);
}

/* Lists ------------------------------------------------------------------------------------------------------------------ */

char *settings_source(const struct settings *s, const struct setting *row)
{
	return source_print(s, source_of(s, row));
}

json_t *settings_json(const struct settings *s)
{
	json_t *list = json_array();
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *value = settings_print(s, row), *source = settings_source(s, row);
		json_array_append_new(list, json_pack("{ss, ss, ss, ss}", "name", row->name, "value", value, "default", row->standard,
						      "source", source));
	}
	who_list(s, list);
	return json_pack("{si, ss?, so}", "schema", 1, "file", s->file, "settings", list);
}

static int larger(int width, size_t len)
{
	return (int)len > width ? (int)len : width;
}

void settings_write(const struct settings *s, FILE *out)
{
	char form[64];
	int name_width = 0, value_width = 20, default_width = 0;
	who_measure(s, &name_width, &value_width);
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *value = settings_print(s, row);
		name_width = larger(name_width, strlen(row->name));
		value_width = larger(value_width, strlen(value));
		default_width = larger(default_width, strlen(row->standard));
	}
	snprintf(form, sizeof form, "%%-%ds  %%-%ds  %%-%ds  %%s\n", name_width, value_width, default_width);
	fprintf(out, form, "SETTING", "VALUE", "DEFAULT", "SOURCE");
	for (const struct setting *row = settings_table; row->name; row++) {
		scoped_free char *value = settings_print(s, row), *source = settings_source(s, row);
		fprintf(out, form, row->name, value, row->standard, source);
	}
	who_write(s, form, out);
}
