/* SPDX-License-Identifier: MIT
 * See accounts.h. Answers are in the order of the tasks' ends, so what follows on one that was cut off begins after its last
 * task.
 */
#include "cli/accounts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/member.h"

void accounts_want(json_t *request, const char *const *members, size_t n)
{
	static const char *const needed[] = { "id", "name", "user", "state", "end_time" };
	json_t *list = json_array();
	for (size_t i = 0; i < COUNT_OF(needed); i++)
		json_array_append_new(list, json_string(needed[i]));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(members[i]));
	json_object_set_new(request, "members", list);
}

/* Whether there is more that radd does not tell: one of an earlier release begins at its beginning each time. -1. */
static int fetch_rest(json_t *tasks, json_t *request, struct error *err)
{
	for (;;) {
		const json_t *last = json_array_get(tasks, json_array_size(tasks) - 1);
		json_object_set_new(request, "from_ms", json_integer(member_ms(last, "end_time", 0)));
		json_object_set_new(request, "after", json_string(member_text(last, "id")));
		scoped_json *reply = client_call(json_deep_copy(request), err);
		json_t *piece = json_object_get(reply, "tasks");
		if (!reply)
			return -1;
		if (!json_is_null(json_object_get(reply, "totals")))
			return 1;
		json_array_extend(tasks, piece);
		if (!json_is_true(json_object_get(reply, "truncated")))
			return 0;
		if (!json_array_size(piece))
			return 1;
	}
}

json_t *accounts_fetch(json_t *request, struct error *err)
{
	scoped_json *rest = json_deep_copy(request);
	scoped_json *all = client_call(request, err);
	json_t *tasks = json_object_get(all, "tasks");
	if (!json_is_true(json_object_get(all, "truncated")) || !json_array_size(tasks))
		return json_incref(all);
	if (!json_object_get(rest, "to_ms"))	/* what ends meanwhile is not in the totals either */
		json_object_set_new(rest, "to_ms", json_integer(clock_wall_ms()));
	int more = fetch_rest(tasks, rest, err);
	json_object_set_new(all, "truncated", json_boolean(more));
	return more < 0 ? NULL : json_incref(all);
}
