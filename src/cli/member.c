/* SPDX-License-Identifier: MIT
 * See member.h.
 */
#include "cli/member.h"

#include <math.h>

const char *member_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

double member_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
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
