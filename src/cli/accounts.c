/* SPDX-License-Identifier: MIT
 * See accounts.h. Answers are in the order of the tasks' ends, so after one that was cut off the next begins with the moment
 * at which it ends: of those that ended in that same millisecond, those that are here already are passed over.
 */
#include "cli/accounts.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/member.h"

#include <string.h>

static int64_t last_end(const json_t *tasks)
{
	return member_ms(json_array_get(tasks, json_array_size(tasks) - 1), "end_time", 0);
}

/* The ids of those at the end of the list that ended at that time. */
static json_t *ended_at(const json_t *tasks, int64_t ms)
{
	json_t *ids = json_object();
	for (size_t i = json_array_size(tasks); i-- && member_ms(json_array_get(tasks, i), "end_time", 0) == ms;)
		json_object_set_new(ids, member_text(json_array_get(tasks, i), "id"), json_true());
	return ids;
}

/* Adds what is new in the answer. */
static size_t take(json_t *tasks, const json_t *reply, const json_t *there)
{
	size_t i, n = json_array_size(tasks);
	json_t *t;
	json_array_foreach(json_object_get(reply, "tasks"), i, t)
		if (!json_object_get(there, member_text(t, "id")))
			json_array_append(tasks, t);
	return json_array_size(tasks) - n;
}

/* The rest, in pieces as long as the one that held as many as an answer holds: radd sums up all of the span that it is asked
 * for, each time. Whether there is still more of it, which is where more ended in one millisecond. -1. */
static int fetch_rest(json_t *tasks, json_t *request, struct error *err)
{
	int64_t from_ms = last_end(tasks), to_ms = member_int(request, "to_ms");
	int64_t piece_ms = from_ms - member_ms(json_array_get(tasks, 0), "end_time", 0) + 1;
	while (from_ms < to_ms) {
		int64_t end_ms = to_ms - from_ms > piece_ms ? from_ms + piece_ms : to_ms;
		scoped_json *there = ended_at(tasks, from_ms);
		json_object_set_new(request, "from_ms", json_integer(from_ms));
		json_object_set_new(request, "to_ms", json_integer(end_ms));
		scoped_json *reply = client_call(json_deep_copy(request), err);
		if (!reply)
			return -1;
		bool cut = json_is_true(json_object_get(reply, "truncated"));
		if (!take(tasks, reply, there) && cut)
			return 1;
		int64_t begin_ms = from_ms;
		from_ms = cut ? last_end(tasks) : end_ms;
		piece_ms = cut ? from_ms - begin_ms + 1 : piece_ms < to_ms ? piece_ms * 2 : piece_ms;
	}
	return 0;
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
