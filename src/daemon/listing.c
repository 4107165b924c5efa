/* SPDX-License-Identifier: MIT
 * Lists of tasks that fit into a message: see listing.h. Each task becomes text as it comes, so that a list is never a tree of
 * ten thousand tasks in memory; and since its end is known only when it is there, what tells of a cut list comes last.
 */
#include "daemon/listing.h"

#include "base/json.h"
#include "base/scope.h"
#include "submit/wire.h"

#define MAX_REST 4096	/* for what is added to the tasks */

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
