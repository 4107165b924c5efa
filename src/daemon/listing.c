/* SPDX-License-Identifier: MIT
 * Lists of tasks that fit into a message: see listing.h. Each task becomes text as it comes, so that a list is never a tree of
 * ten thousand tasks in memory; and since its end is known only when it is there, what tells of a cut list comes last.
 */
#include "daemon/listing.h"

#include "base/json.h"
#include "base/scope.h"
#include "submit/wire.h"

#include <string.h>

#define MAX_REST 4096	/* for what is added to the tasks */
#define MAX_OUTER 64	/* bytes of a member's name: none is as long */

/* NULL where there is none, or it is null: of ten thousand tasks that is nothing to tell. Borrowed. */
static json_t *listing_deep(const json_t *in, const char *name)
{
	json_t *value = json_object_get(in, name);
	return json_is_null(value) ? NULL : value;
}

/* Into the list of that name in `some`, which is as long as the task's. */
static void listing_pick_each(json_t *some, const char *outer, const json_t *from, const char *name)
{
	size_t i;
	json_t *in, *value, *list = json_object_get(some, outer);
	if (!list)
		json_object_set_new(some, outer, list = json_array());
	json_array_foreach(from, i, in) {
		if (i == json_array_size(list))
			json_array_append_new(list, json_object());
		if ((value = listing_deep(in, name)))
			json_object_set(json_array_get(list, i), name, value);
	}
}

static void listing_pick_one(json_t *some, const json_t *task, const char *path)
{
	const char *dot = strchr(path, '.');
	bool each = dot && dot - path > 2 && !strncmp(dot - 2, "[]", 2);
	size_t length = dot ? (size_t)(dot - path) - (each ? 2 : 0) : strlen(path);
	char outer[MAX_OUTER] = "";
	memcpy(outer, path, length < sizeof outer ? length : 0);
	json_t *in = json_object_get(task, outer), *value = in;
	size_t n = json_array_size(in);
	if (each && json_is_array(in)) {
		listing_pick_each(some, outer, in, dot + 1);
		return;
	}
	if (dot)
		value = listing_deep(n ? json_array_get(in, n - 1) : in, dot + 1);
	if (value)
		json_object_set(some, path, value);
}

json_t *listing_pick(const json_t *members, json_t *task)
{
	size_t i;
	json_t *name, *some = members ? json_object() : task;
	json_array_foreach(members, i, name)
		listing_pick_one(some, task, json_string_value(name));
	if (members)
		json_decref(task);
	return some;
}

static int listing_add_chunk(const char *text, size_t n, void *out)
{
	buf_add(out, text, n);
	return 0;
}

static void listing_begin(struct listing *l)
{
	if (!l->text.len)
		buf_printf(&l->text, "{\"v\":%d,\"schema\":1,\"tasks\":[", WIRE_VERSION);
}

/* The task that would make it too long is left out, and all after it, so that what is told is a beginning and not a
 * choice. */
void listing_add(struct listing *l, json_t *task)
{
	listing_begin(l);
	size_t before = l->text.len;
	if (!l->truncated) {
		if (l->n++)
			buf_add(&l->text, ",", 1);
		json_dump_callback(task, listing_add_chunk, &l->text, JSON_COMPACT | JSON_REAL_PRECISION(12));
		l->truncated = l->text.len > WIRE_MAX_MESSAGE - MAX_REST;
		if (l->truncated)
			l->text.len = before;
	}
	json_decref(task);
}

struct buf listing_finish(struct listing *l, json_t *more)
{
	scoped_json *rest = json_pack("{sb}", "truncated", l->truncated);
	if (more)
		json_object_update(rest, more);
	json_decref(more);
	scoped_free char *text = json_to_text(rest);
	listing_begin(l);
	buf_printf(&l->text, "],%s", text + 1);
	struct buf reply = l->text;
	*l = (struct listing){ .n = 0 };
	return reply;
}

void listing_clear(struct listing *l)
{
	buf_free(&l->text);
	*l = (struct listing){ .n = 0 };
}
