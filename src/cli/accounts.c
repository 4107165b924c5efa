/* SPDX-License-Identifier: MIT
 * See accounts.h. Answers are in the order of the tasks' ends, so what follows on one that was cut off begins after its last
 * task.
 */
#include "cli/accounts.h"

#include "base/json.h"
#include "base/scope.h"
#include "cli/client.h"
#include "cli/member.h"

void accounts_want(json_t *request, const char *const *members, size_t n)
{
	member_want(request, members, n);
	json_array_append_new(json_object_get(request, "members"), json_text("end_time"));
}

/* Whether there is more behind that answer; the request asks for it then. */
static bool asks_on(json_t *request, const json_t *reply)
{
	const json_t *tasks = json_object_get(reply, "tasks"), *last = json_array_get(tasks, json_array_size(tasks) - 1);
	if (!last || !json_is_true(json_object_get(reply, "truncated")))
		return false;
	json_object_set_new(request, "from_ms", json_integer(member_ms(last, "end_time", 0)));
	json_object_set_new(request, "after", json_text(member_text(last, "id")));
	return true;
}

json_t *accounts_fetch(json_t *request, accounts_each each, void *ctx, struct error *err)
{
	scoped_json *asked = request;
	json_object_set_new(request, "totals", json_false());
	json_t *reply = client_call(json_deep_copy(request), err);
	scoped_json *totals = json_incref(json_object_get(reply, "totals"));
	while (reply) {
		bool more = asks_on(request, reply);
		each(ctx, json_object_get(reply, "tasks"));
		json_t *next = more ? client_call(json_deep_copy(request), err) : NULL;
		/* One of an earlier release that does not know `after` begins at its beginning each time. */
		if (!more || (next && !json_is_null(json_object_get(next, "totals")))) {
			json_decref(next);
			break;
		}
		json_decref(reply);
		reply = next;
	}
	json_object_del(reply, "tasks");
	json_object_set(reply, "totals", totals);
	return reply;
}

static void collect(void *ctx, const json_t *tasks)
{
	json_array_extend(ctx, (json_t *)tasks);
}

json_t *accounts_fetch_all(json_t *request, struct error *err)
{
	scoped_json *tasks = json_array();
	json_t *reply = accounts_fetch(request, collect, tasks, err);
	json_object_set(reply, "tasks", tasks);
	return reply;
}
