/* SPDX-License-Identifier: MIT
 * See track_cursor.h.
 */
#include "cli/track_cursor.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/member.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAX_FILE ((size_t)64 << 20)

/* The file ---------------------------------------------------------------------------------------------------------------- */

static int take_lock(struct track_cursor *c, struct error *err)
{
	scoped_free char *copy = alloc_string(c->path), *lock = alloc_printf("%s.lock", c->path);
	if (io_make_dirs(dirname(copy), 0700, err))
		return -1;
	c->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (c->lock < 0)
		return error_errno(err, "%s", lock);
	if (!flock(c->lock, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return error_errno(err, "%s", lock);
	return error_set(err, ERR_CONFLICT, "another rad track is sending there already (%s)", c->path);
}

static void add_done(struct track_cursor *c, const char *id, int64_t end_ms)
{
	alloc_grow(c->done, c->n_done, c->cap_done);
	c->done[c->n_done++] = (struct track_done){ alloc_string(id), end_ms };
}

static void read_entry(struct track_cursor *c, const json_t *o)
{
	const char *run = member_text(o, "run");
	char *key = alloc_string(member_text(o, "key"));
	struct track_entry *e = track_cursor_add(c, member_text(o, "id"), key, member_int(o, "sent_ms"));
	e->run = *run ? alloc_string(run) : NULL;
	e->refused = json_is_true(json_object_get(o, "refused"));
	e->doubt = true;	/* whoever wrote this may have been killed between a batch and the next file */
}

static int read_file(struct track_cursor *c, struct error *err)
{
	scoped_buf text = { 0 };
	json_error_t why;
	size_t i;
	json_t *o;
	if (io_read_file(c->path, MAX_FILE, &text, err))
		return -1;
	scoped_json *file = json_loadb(buf_text(&text), text.len, 0, &why);
	if (member_int(file, "schema") != 1)
		return error_set(err, ERR_CORRUPT, "%s: is no cursor of rad track: remove it (with --since, all of that time is looked "
				 "at again, and nothing sent twice)", c->path);
	c->from_ms = member_int(file, "from_ms");
	c->radd_pid = member_int(file, "radd_pid");
	c->radd_since_ms = member_int(file, "radd_since_ms");
	const json_t *runs = json_object_get(file, "runs"), *done = json_object_get(file, "done");
	json_array_foreach(runs, i, o)
		read_entry(c, o);
	json_array_foreach(done, i, o)
		add_done(c, member_text(o, "id"), member_int(o, "end_ms"));
	return 0;
}

int track_cursor_open(struct track_cursor *c, const char *path, int64_t from_ms, struct error *err)
{
	*c = (struct track_cursor){ .from_ms = from_ms, .path = alloc_string(path), .lock = -1 };
	if (take_lock(c, err) || (!access(path, F_OK) && read_file(c, err))) {
		track_cursor_close(c);
		return -1;
	}
	return 0;
}

int track_cursor_save(const struct track_cursor *c, struct error *err)
{
	json_t *runs = json_array(), *done = json_array();
	for (size_t i = 0; i < c->n; i++) {
		const struct track_entry *e = &c->entries[i];
		json_array_append_new(runs, json_pack("{ss, ss, so, sI, sb}", "id", e->id, "key", e->key, "run",
			json_text_or_null(e->run), "sent_ms", (json_int_t)e->sent_ms, "refused", e->refused));
	}
	for (size_t i = 0; i < c->n_done; i++)
		json_array_append_new(done, json_pack("{ss, sI}", "id", c->done[i].id, "end_ms", (json_int_t)c->done[i].end_ms));
	scoped_json *file = json_pack("{si, sI, sI, sI, so, so}", "schema", 1, "from_ms", (json_int_t)c->from_ms, "radd_pid",
		(json_int_t)c->radd_pid, "radd_since_ms", (json_int_t)c->radd_since_ms, "runs", runs, "done", done);
	scoped_free char *text = json_to_text(file);
	return io_replace_file(c->path, text, strlen(text), 0600, err);
}

/* Entries ----------------------------------------------------------------------------------------------------------------- */

static void entry_clear(struct track_entry *e)
{
	free(e->id);
	free(e->key);
	free(e->run);
	free(e->status);
	json_decref(e->task);
}

void track_cursor_close(struct track_cursor *c)
{
	for (size_t i = 0; i < c->n; i++)
		entry_clear(&c->entries[i]);
	for (size_t i = 0; i < c->n_done; i++)
		free(c->done[i].id);
	free(c->entries);
	free(c->done);
	free(c->path);
	if (c->lock >= 0)
		close(c->lock);
	*c = (struct track_cursor){ .lock = -1 };
}

struct track_entry *track_cursor_find(const struct track_cursor *c, const char *key)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->entries[i].key, key))
			return &c->entries[i];
	return NULL;
}

struct track_entry *track_cursor_add(struct track_cursor *c, const char *id, char *key, int64_t sent_ms)
{
	alloc_grow(c->entries, c->n, c->cap);
	c->entries[c->n] = (struct track_entry){ .id = alloc_string(id), .key = key, .status = alloc_string(""), .sent_ms = sent_ms };
	return &c->entries[c->n++];
}

bool track_cursor_is_done(const struct track_cursor *c, const char *id, int64_t end_ms)
{
	for (size_t i = 0; i < c->n_done; i++)
		if (c->done[i].end_ms == end_ms && !strcmp(c->done[i].id, id))
			return true;
	return false;
}

void track_cursor_finish(struct track_cursor *c, struct track_entry *e, int64_t end_ms)
{
	if (end_ms >= c->from_ms)
		add_done(c, e->id, end_ms);
	entry_clear(e);
	*e = c->entries[--c->n];
}

void track_cursor_advance(struct track_cursor *c, int64_t from_ms)
{
	size_t n = 0;
	if (from_ms <= c->from_ms)
		return;
	c->from_ms = from_ms;
	for (size_t i = 0; i < c->n_done; i++)
		if (c->done[i].end_ms >= from_ms)
			c->done[n++] = c->done[i];
		else
			free(c->done[i].id);
	c->n_done = n;
}
