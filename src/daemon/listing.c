/* SPDX-License-Identifier: MIT
 * Lists of tasks that fit into a message: see listing.h.
 */
#include "daemon/listing.h"

#include "submit/wire.h"

#define MAX_BYTES (WIRE_MAX_MESSAGE / 4 * 3)	/* what is added to a reply, and an estimate that is a little low, have room */
#define FIXED_BYTES 900		/* keys, numbers and times of a task; and of an attempt */

/* A control character takes six: \u001b. */
static size_t text_bytes(const json_t *task, const char *key)
{
	const json_t *text = json_object_get(task, key);
	const char *p = json_string_value(text);
	size_t n = json_string_length(text);
	for (size_t i = 0, len = n; i < len; i++)
		n += (unsigned char)p[i] < ' ' ? 5 : p[i] == '"' || p[i] == '\\';
	return n;
}

static size_t task_bytes(const json_t *task)
{
	static const char *const texts[] = { "name", "command", "cwd", "log_path" };
	size_t n = FIXED_BYTES * (1 + json_array_size(json_object_get(task, "attempts")));
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		n += text_bytes(task, texts[i]);
	return n;
}

void listing_add(struct listing *l, json_t *task)
{
	size_t n = task_bytes(task);
	if (!l->tasks)
		l->tasks = json_array();
	if (l->truncated || l->bytes + n > MAX_BYTES) {
		l->truncated = true;
		json_decref(task);
		return;
	}
	l->bytes += n;
	json_array_append_new(l->tasks, task);
}

json_t *listing_reply(struct listing *l)
{
	json_t *tasks = l->tasks ? l->tasks : json_array();
	json_t *reply = json_pack("{si, so, sb}", "schema", 1, "tasks", tasks, "truncated", l->truncated);
	*l = (struct listing){ .tasks = NULL };
	return reply;
}

void listing_clear(struct listing *l)
{
	json_decref(l->tasks);
	*l = (struct listing){ .tasks = NULL };
}
