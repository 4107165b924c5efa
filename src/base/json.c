/* SPDX-License-Identifier: MIT
 * Typed reads and null-aware writes over jansson: see json.h.
 */
#include "base/json.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong(struct error *err, const char *key, const char *expected)
{
	return error_set(err, ERR_INVALID, "'%s' must be %s", key, expected);
}

/* The member, or NULL when it is absent or null. */
static json_t *member(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);
	return v && !json_is_null(v) ? v : NULL;
}

int json_read_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *value, struct error *err)
{
	const json_t *v = member(obj, key);
	if (!v)
		return 0;
	if (!json_is_integer(v))
		return wrong(err, key, "a whole number");
	int64_t i = json_integer_value(v);
	if (i < min || i > max)
		return error_set(err, ERR_INVALID, "'%s' is %lld; it must be from %lld to %lld", key, (long long)i,
				 (long long)min, (long long)max);
	*value = i;
	return 0;
}

int json_read_double(const json_t *obj, const char *key, double *value, struct error *err)
{
	const json_t *v = member(obj, key);
	if (!v)
		return 0;
	if (!json_is_number(v))
		return wrong(err, key, "a number");
	*value = json_number_value(v);
	return 0;
}

int json_read_bool(const json_t *obj, const char *key, bool *value, struct error *err)
{
	const json_t *v = member(obj, key);
	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(err, key, "true or false");
	*value = json_is_true(v);
	return 0;
}

int json_read_text(const json_t *obj, const char *key, size_t max_len, char **value, struct error *err)
{
	const json_t *v = member(obj, key);
	if (!v)
		return 0;
	if (!json_is_string(v))
		return wrong(err, key, "text");
	size_t len = json_string_length(v);
	if (len > max_len)
		return error_set(err, ERR_INVALID, "'%s' is %zu bytes long; %zu are allowed", key, len, max_len);
	if (strlen(json_string_value(v)) != len)
		return wrong(err, key, "text without zero bytes");
	free(*value);
	*value = alloc_string(json_string_value(v));
	return 0;
}

const char *json_member_text(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));
	return text ? text : "";
}

static char *to_text(const json_t *v, size_t flags)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12) | flags);
	return text ? text : alloc_string("null");
}

char *json_to_text(const json_t *v)
{
	return to_text(v, 0);
}

char *json_to_terminal(const json_t *v)
{
	static const char first[] = "\xc2\xd8\xe2\xf3";	/* with which those begin */
	scoped_free char *text = json_to_text(v);
	const char *at = text + strcspn(text, first);
	while (*at && !words_controls(at) && !words_turns(at))
		at += 1 + strcspn(at + 1, first);
	return *at ? to_text(v, JSON_ENSURE_ASCII) : steal(text);
}

json_t *json_round3(double v)
{
	if (!isfinite(v))
		return json_null();
	double r = round(v * 1000) / 1000;
	return r == floor(r) && fabs(r) < 9e15 ? json_integer((json_int_t)r) : json_real(r);
}

void json_make_showable(char *text)
{
	for (size_t left = strlen(text), n; left; text += n, left -= n)
		if (!(n = words_utf8(text, left))) {
			*text = '?';
			n = 1;
		}
}

json_t *json_exact(const char *text)
{
	return json_string(text);
}

json_t *json_text(const char *text)
{
	json_t *v = json_string(text);
	if (v || !text)
		return v;
	scoped_free char *plain = alloc_string(text);
	json_make_showable(plain);
	return json_string(plain);
}

json_t *json_text_n(const char *text, size_t n)
{
	scoped_free char *copy = alloc_printf("%.*s", (int)n, text);
	return json_text(copy);
}

json_t *json_printf(const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	size_t room = (size_t)text_vprintf(NULL, 0, fmt, ap) + 1;
	scoped_free char *text = alloc_zero(room);
	text_vprintf(text, room, fmt, again);
	va_end(again);
	va_end(ap);
	return json_text(text);
}

json_t *json_text_or_null(const char *text)
{
	return text && *text ? json_text(text) : json_null();
}

json_t *json_time_or_null(int64_t wall_ms)
{
	char buf[CLOCK_ISO_LEN];
	return wall_ms ? json_text(clock_iso(wall_ms, buf)) : json_null();
}

json_t *json_int_or_null(int64_t v, bool known)
{
	return known ? json_integer(v) : json_null();
}

/* ---- values by a format ---- */

struct making {
	const char *at;
	va_list ap;
	bool failed;
};

static char making_next(struct making *m)
{
	m->at += strspn(m->at, " :,");
	return *m->at ? *m->at++ : 0;
}

static json_t *making_value(struct making *m, char kind);

static json_t *making_object(struct making *m)
{
	json_t *o = json_object();
	for (char c; (c = making_next(m)) == 's'; ) {
		const char *key = va_arg(m->ap, const char *);
		json_t *v = making_value(m, making_next(m));
		if (v && json_object_set_new(o, key, v))
			m->failed = true;
	}
	return o;
}

static json_t *making_list(struct making *m)
{
	json_t *list = json_array();
	for (char c; (c = making_next(m)) && c != ']'; ) {
		json_t *v = making_value(m, c);
		if (v)
			json_array_append_new(list, v);
	}
	return list;
}

/* NULL: the value is left out, or all has failed. */
static json_t *making_value(struct making *m, char kind)
{
	json_t *v = NULL;
	switch (kind) {
	case '{': return making_object(m);
	case '[': return making_list(m);
	case 's': v = json_text(va_arg(m->ap, const char *)); break;
	case 'o': v = va_arg(m->ap, json_t *); break;
	case 'O': v = json_incref(va_arg(m->ap, json_t *)); break;
	case 'i': v = json_integer(va_arg(m->ap, int)); break;
	case 'I': v = json_integer(va_arg(m->ap, json_int_t)); break;
	case 'b': v = json_boolean(va_arg(m->ap, int)); break;
	case 'f': v = json_real(va_arg(m->ap, double)); break;
	case 'n': v = json_null(); break;
	}
	char otherwise = *m->at == '?' || *m->at == '*' ? *m->at++ : 0;
	if (!v && !otherwise)
		m->failed = true;
	return v || otherwise != '?' ? v : json_null();
}

json_t *json_make(const char *fmt, ...)
{
	struct making m = { .at = fmt };
	va_start(m.ap, fmt);
	json_t *v = making_value(&m, making_next(&m));
	va_end(m.ap);
	if (!m.failed)
		return v;
	json_decref(v);
	return NULL;
}
