/* SPDX-License-Identifier: MIT
 * Typed reads and null-aware writes over jansson: see json.h.
 */
#include "base/json.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/scope.h"

#include <math.h>
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

char *json_to_text(const json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
	return text ? text : alloc_string("null");
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
	scoped_json *valid = json_string(text);
	for (char *p = text; !valid && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
}

json_t *json_text(const char *text)
{
	json_t *v = json_string(text);
	if (v)
		return v;
	scoped_free char *plain = alloc_string(text);
	json_make_showable(plain);
	return json_string(plain);
}

json_t *json_text_or_null(const char *text)
{
	return text && *text ? json_text(text) : json_null();
}

json_t *json_time_or_null(int64_t wall_ms)
{
	char buf[CLOCK_ISO_LEN];
	return wall_ms ? json_string(clock_iso(wall_ms, buf)) : json_null();
}

json_t *json_int_or_null(int64_t v, bool known)
{
	return known ? json_integer(v) : json_null();
}
