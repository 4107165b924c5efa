/* SPDX-License-Identifier: MIT
 * See member.h.
 */
#include "cli/member.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <string.h>

const char *member_text(const json_t *o, const char *key)
{
	return json_member_text(o, key);
}

double member_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

int64_t member_ms(const json_t *o, const char *key, int64_t unknown)
{
	int64_t ms;
	return clock_parse_iso(member_text(o, key), &ms) ? unknown : ms;
}

task_id member_id(const json_t *task)
{
	task_id id;
	return task_id_parse(member_text(task, "id"), &id, NULL) ? 0 : id;
}

const json_t *member_deep(const json_t *o, const char *path)
{
	char outer[64];
	size_t len = strcspn(path, ".");
	const json_t *value = json_object_get(o, path);
	if (value || !path[len] || len >= sizeof outer)
		return value;
	memcpy(outer, path, len);
	outer[len] = 0;
	const json_t *in = json_object_get(o, outer);
	size_t n = json_array_size(in);
	return json_object_get(n ? json_array_get(in, n - 1) : in, path + len + 1);
}

double member_deep_number(const json_t *o, const char *path)
{
	const json_t *v = member_deep(o, path);
	return json_is_number(v) ? json_number_value(v) : NAN;
}

json_int_t member_int(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

enum task_state member_state(const json_t *task)
{
	enum task_state s;
	return task_state_parse(member_text(task, "state"), &s) ? TASK_STATE_COUNT : s;
}

json_t *member_last_attempt(const json_t *task)
{
	const json_t *attempts = json_object_get(task, "attempts");
	size_t n = json_array_size(attempts);
	return n ? json_array_get(attempts, n - 1) : NULL;
}

double member_over_attempts(const json_t *task, const char *key, bool sum)
{
	double total = NAN;
	size_t i;
	json_t *a;
	json_array_foreach(json_object_get(task, "attempts"), i, a) {
		double v = member_number(a, key);
		total = sum && !isnan(total) && !isnan(v) ? total + v : fmax(total, v);	/* fmax: of a number and NaN the number */
	}
	return total;
}

void member_want(json_t *request, const char *const *members, size_t n)
{
	json_t *list = json_pack("[s, s, s, s]", "id", "name", "user", "state");
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_text(members[i]));
	json_object_set_new(request, "members", list);
}

json_t *member_find(const json_t *list, const char *key, const char *text)
{
	size_t i;
	json_t *one;
	json_array_foreach(list, i, one)
		if (!strcmp(member_text(one, key), text))
			return one;
	return NULL;
}

bool member_wait_alike(const json_t *a, const json_t *b)
{
	static const char *const same[] = { "state", "reason", "name", "user" };
	enum task_state s = member_state(a);
	bool alike = (s == TASK_PENDING || s == TASK_HELD) && TASK_JOB(member_id(a)) == TASK_JOB(member_id(b)) &&
		     member_int(a, "priority") == member_int(b, "priority");
	for (size_t i = 0; alike && i < COUNT_OF(same); i++)
		alike = !strcmp(member_text(a, same[i]), member_text(b, same[i]));
	return alike;
}

bool member_logs_nowhere(const json_t *task)
{
	bool elsewhere = json_is_true(json_object_get(task, "terminal")) || member_int(task, "process");
	return elsewhere && !strcmp(member_text(task, "log_path"), "/dev/null");
}
