/* SPDX-License-Identifier: MIT
 * Limits of users and groups: see who.h. Each limit is read and written as the setting of its name, so it may be what that may
 * be.
 */
#include "settings/who.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/scope.h"
#include "settings/source.h"
#include "settings/value.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t,"

static const struct setting *row_of(enum allowance_kind k)
{
	const struct setting *row = settings_table;
	while (strcmp(row->name, allowance_word(k)))
		row++;	/* each has one: a test reads and writes them all */
	return row;
}

bool who_is(const char *key)
{
	return !strncmp(key, "user:", 5) || !strncmp(key, "group:", 6);
}

static struct settings_who *who_find(const struct settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_whos; i++)
		if (!strcmp(s->whos[i].name, name))
			return &s->whos[i];
	return NULL;
}

/* Texts ----------------------------------------------------------------------------------------------------------------- */

/* "0", "0G", "0.0": to some no limit, to others nothing at all. */
static bool is_zero(const char *value)
{
	return *value == '0' && !value[strcspn(value, "123456789")];
}

static int who_parse_one(const char *word, size_t len, struct allowance *a, bool says[ALLOWANCE_COUNT], struct error *err)
{
	const char *equals = memchr(word, '=', len);
	enum allowance_kind k = equals ? allowance_find(word, (size_t)(equals - word)) : ALLOWANCE_COUNT;
	if (k == ALLOWANCE_COUNT)
		return error_set(err, ERR_INVALID, "'%.*s': expected max_running=N, max_gpus=N, max_queued=N or max_mem=SIZE",
				 (int)(len < 60 ? len : 60), word);
	scoped_free char *value = alloc_printf("%.*s", (int)(word + len - equals - 1), equals + 1), *range = settings_range(row_of(k));
	if (is_zero(value))
		return error_set(err, ERR_INVALID, "%s: '%.40s' would let nothing run: it is %s (no limit)", allowance_word(k), value, range);
	if (value_parse(row_of(k), value, &a->most[k], err))
		return error_wrap(err, "%s", allowance_word(k));
	says[k] = true;
	return 0;
}

int who_parse(const char *text, struct allowance *a, bool says[ALLOWANCE_COUNT], struct error *err)
{
	struct allowance found = *a;
	bool said[ALLOWANCE_COUNT];
	memcpy(said, says, sizeof said);
	for (const char *at = text + strspn(text, BLANKS); *at; at += strspn(at, BLANKS)) {
		size_t len = strcspn(at, BLANKS);
		if (who_parse_one(at, len, &found, said, err))
			return -1;
		at += len;
	}
	*a = found;
	memcpy(says, said, sizeof said);
	return 0;
}

char *who_print(const struct allowance *a, const bool says[ALLOWANCE_COUNT])
{
	struct buf text = { 0 };
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		scoped_free char *value = says[k] ? value_print(row_of((enum allowance_kind)k), &a->most[k]) : NULL;
		if (value)
			buf_printf(&text, "%s%s=%s", text.len ? " " : "", allowance_word((enum allowance_kind)k), value);
	}
	return buf_steal(&text);
}

/* Rows ------------------------------------------------------------------------------------------------------------------ */

static void who_remove(struct settings *s, struct settings_who *w)
{
	free(w->name);
	memmove(w, w + 1, (size_t)(&s->whos[--s->n_whos] - w) * sizeof *w);
}

int who_set(struct settings *s, const char *key, const char *text, struct settings_source from, struct error *err)
{
	struct settings_who new = { .from = from }, *old = who_find(s, key);
	if (!strchr(key, ':')[1])
		return error_set(err, ERR_INVALID, "whose? write user:NAME or group:NAME");
	if (who_parse(text, &new.allows, new.says, err))
		return -1;
	if (old)
		who_remove(s, old);
	if (!text[strspn(text, BLANKS)])
		return 0;
	new.name = alloc_string(key);
	alloc_grow(s->whos, s->n_whos, s->cap_whos);
	s->whos[s->n_whos++] = new;
	return 0;
}

void who_clear(struct settings *s)
{
	while (s->n_whos)
		who_remove(s, &s->whos[s->n_whos - 1]);
	free(s->whos);
	s->whos = NULL;
	s->cap_whos = 0;
}

/* Told as settings are, by a row made for it. */
static void tell_row(const struct settings_who *old, const struct settings_who *new, settings_changed *tell, void *ctx)
{
	const struct setting row = { .name = old ? old->name : new->name };
	scoped_free char *was = old ? who_print(&old->allows, old->says) : alloc_string("(none)"),
			 *is = new ? who_print(&new->allows, new->says) : alloc_string("(none)");
	if (strcmp(was, is))
		tell(ctx, &row, was, is, true);
}

void who_adopt(struct settings *s, const struct settings *next, settings_changed *tell, void *ctx)
{
	for (size_t i = 0; i < s->n_whos; i++)
		tell_row(&s->whos[i], who_find(next, s->whos[i].name), tell, ctx);
	for (size_t i = 0; i < next->n_whos; i++)
		if (!who_find(s, next->whos[i].name))
			tell_row(NULL, &next->whos[i], tell, ctx);
	who_clear(s);
	for (size_t i = 0; i < next->n_whos; i++) {
		alloc_grow(s->whos, s->n_whos, s->cap_whos);
		s->whos[s->n_whos] = next->whos[i];
		s->whos[s->n_whos++].name = alloc_string(next->whos[i].name);
	}
}

void who_list(const struct settings *s, json_t *list)
{
	for (size_t i = 0; i < s->n_whos; i++) {
		scoped_free char *value = who_print(&s->whos[i].allows, s->whos[i].says), *source = source_print(s, &s->whos[i].from);
		json_array_append_new(list, json_pack("{ss, ss, ss, ss}", "name", s->whos[i].name, "value", value, "default", "",
						      "source", source));
	}
}

void who_measure(const struct settings *s, int *name_width, int *value_width)
{
	for (size_t i = 0; i < s->n_whos; i++) {
		scoped_free char *value = who_print(&s->whos[i].allows, s->whos[i].says);
		int name = (int)strlen(s->whos[i].name), columns = (int)strlen(value);
		*name_width = name > *name_width ? name : *name_width;
		*value_width = columns > *value_width ? columns : *value_width;
	}
}

void who_write(const struct settings *s, const char *form, FILE *out)
{
	for (size_t i = 0; i < s->n_whos; i++) {
		scoped_free char *value = who_print(&s->whos[i].allows, s->whos[i].says), *source = source_print(s, &s->whos[i].from);
		fprintf(out, form, s->whos[i].name, value, "", source);
	}
}

/* Asking ---------------------------------------------------------------------------------------------------------------- */

bool who_has_groups(const struct settings *s)
{
	for (size_t i = 0; i < s->n_whos; i++)
		if (*s->whos[i].name == 'g')
			return true;
	return false;
}

static bool is_user(const struct settings_who *w, const char *user)
{
	return !strncmp(w->name, "user:", 5) && !strcmp(w->name + 5, user);
}

static bool is_in_group(const struct settings_who *w, const char *groups)
{
	const char *name = w->name + 6;
	size_t len = strlen(name);
	if (*w->name != 'g')
		return false;
	for (const char *at = groups; *at; at += strspn(at, ":")) {
		size_t n = strcspn(at, ":");
		if (n == len && !memcmp(at, name, n))
			return true;
		at += n;
	}
	return false;
}

static bool allows_more(uint64_t a, uint64_t b)
{
	return b && (!a || a > b);
}

/* The row that decides, NULL: none has a word on it. */
static const struct settings_who *deciding(const struct settings *s, const char *user, const char *groups,
					   enum allowance_kind k)
{
	const struct settings_who *best = NULL;
	for (size_t i = 0; i < s->n_whos; i++) {
		const struct settings_who *w = &s->whos[i];
		if (w->says[k] && is_user(w, user))
			return w;
		if (w->says[k] && is_in_group(w, groups) && (!best || allows_more(w->allows.most[k], best->allows.most[k])))
			best = w;
	}
	return best;
}

struct allowance who_allows(const struct settings *s, const char *user, const char *groups,
			    const struct settings_who *row[ALLOWANCE_COUNT])
{
	struct allowance a = s->core.allowance;
	for (unsigned k = 0; k < ALLOWANCE_COUNT; k++) {
		const struct settings_who *w = deciding(s, user, groups, (enum allowance_kind)k);
		if (row)
			row[k] = w;
		if (w)
			a.most[k] = w->allows.most[k];
	}
	return a;
}

char *who_source(const struct settings *s, const struct settings_who *row, enum allowance_kind kind)
{
	scoped_free char *place = source_print(s, row ? &row->from : &s->from[row_of(kind) - settings_table]);
	return alloc_printf("%s in %s", row ? row->name : allowance_word(kind), place);
}
