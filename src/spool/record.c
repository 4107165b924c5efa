/* SPDX-License-Identifier: MIT
 * Versions of a task's record: see spool.h. Each holds all that is so, not only what changed: so the last one is enough, and
 * one that was damaged is mended by the next.
 */
#include "spool/private.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const states[] = {
	[SPOOL_PENDING] = "pending", [SPOOL_HELD] = "held", [SPOOL_CLAIMED] = "claimed", [SPOOL_ENDED] = "ended",
	[SPOOL_BROKEN] = "broken",
};
static const char *const wishes[] = {
	[SPOOL_WISH_NONE] = "none", [SPOOL_WISH_CANCEL] = "cancel", [SPOOL_WISH_REQUEUE] = "requeue", [SPOOL_WISH_HOLD] = "hold",
};

const char *spool_state_name(enum spool_state state)
{
	return states[state];
}

/* "jobs/12/t.4", "jobs/12/3.4" */
static void version_path(task_id id, unsigned version, char path[SPOOL_NAME])
{
	if (TASK_INDEX(id) < 0)
		snprintf(path, SPOOL_NAME, "jobs/%u/t.%u", TASK_JOB(id), version);
	else
		snprintf(path, SPOOL_NAME, "jobs/%u/%d.%u", TASK_JOB(id), TASK_INDEX(id), version);
}

/* ---- reading ---- */

static int read_word(const json_t *o, const char *key, const char *const *words, size_t n, unsigned *value)
{
	const char *text = json_string_value(json_object_get(o, key));
	for (size_t i = 0; text && i < n; i++)
		if (words[i] && !strcmp(text, words[i])) {
			*value = (unsigned)i;
			return 0;
		}
	return -1;
}

static void read_text(const json_t *o, const char *key, char *to, size_t size)
{
	text_printf(to, size, "%s", json_member_text(o, key));
}

/* A name of a pilot becomes a path. */
static bool is_name(const char *name)
{
	return strlen(name) < SPOOL_NAME - 1 && !strchr(name, '/') && *name != '.';
}

static bool read_members(const json_t *o, struct spool_record *r)
{
	struct error err = ERROR_INIT;
	unsigned state = 0, wish = SPOOL_WISH_NONE;
	int64_t format = 0, claim = 0, claims = 0, cuts = 0, time = 0;
	const char *end = json_string_value(json_object_get(o, "end"));
	if (read_word(o, "state", states, SPOOL_BROKEN, &state))
		return snprintf(r->text, sizeof r->text, "no 'state' that is known"), false;
	if (json_object_get(o, "wish") && read_word(o, "wish", wishes, COUNT_OF(wishes), &wish))
		return snprintf(r->text, sizeof r->text, "'wish' is none that is known"), false;
	if (json_read_int(o, "format", 1, SPOOL_FORMAT, &format, &err) ||
	    json_read_int(o, "claim", 0, SPOOL_MAX_VERSION, &claim, &err) || json_read_int(o, "claims", 0, SPOOL_MAX_VERSION,
			&claims, &err) ||
	    json_read_int(o, "cuts", 0, SPOOL_MAX_VERSION, &cuts, &err) || json_read_int(o, "time_ms", 0, INT64_MAX, &time, &err) ||
	    json_read_double(o, "ran_s", &r->ran_s, &err) || json_read_bool(o, "started", &r->started, &err))
		return text_printf(r->text, sizeof r->text, "%.300s", err.text), false;
	r->end = TASK_COMPLETED;
	if (state == SPOOL_ENDED && (!end || task_state_parse(end, &r->end) || !task_state_terminal(r->end)))
		return snprintf(r->text, sizeof r->text, "has ended, and 'end' is no end of a task"), false;
	read_text(o, "event", r->event, sizeof r->event);
	read_text(o, "by", r->by, sizeof r->by);
	read_text(o, "pilot", r->pilot, sizeof r->pilot);
	read_text(o, "text", r->text, sizeof r->text);
	if (!is_name(r->pilot) || (state == SPOOL_CLAIMED && !*r->pilot))
		return snprintf(r->text, sizeof r->text, "'pilot' is no name of a pilot"), false;
	if (!(r->ran_s >= 0 && r->ran_s < 1e12))
		return snprintf(r->text, sizeof r->text, "'ran_s' is no time"), false;
	r->state = state;
	r->wish = wish;
	r->claim = (unsigned)claim;
	r->claims = (unsigned)claims;
	r->cuts = (unsigned)cuts;
	r->time_ms = time;
	return true;
}

bool spool_parse_record(const char *text, size_t len, struct spool_record *r)
{
	json_error_t why;
	*r = (struct spool_record){ .state = SPOOL_BROKEN };
	scoped_json *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		return text_printf(r->text, sizeof r->text, "%.200s", why.text), false;
	if (!json_is_object(o))
		return snprintf(r->text, sizeof r->text, "no object"), false;
	if (!read_members(o, r)) {
		struct spool_record broken = { .state = SPOOL_BROKEN };
		memcpy(broken.text, r->text, sizeof broken.text);
		*r = broken;
		return false;
	}
	json_t *task = json_object_get(o, "task");
	r->task = json_is_object(task) ? json_incref(task) : NULL;
	return true;
}

int spool_read_version(const struct spool *s, task_id id, unsigned version, struct spool_record *r, struct error *err)
{
	char path[SPOOL_NAME];
	scoped_buf text = { 0 };
	struct error why = ERROR_INIT;
	version_path(id, version, path);
	*r = (struct spool_record){ .version = version, .state = SPOOL_BROKEN };
	if (spool_file_text(s, path, SPOOL_MAX_FILE, &text, &why)) {
		if (!spool_is_damage(&why))
			return error_pass(err, &why);
		text_printf(r->text, sizeof r->text, "its record cannot be read: %.300s", why.text);
		return 0;
	}
	if (!spool_parse_record(buf_text(&text), text.len, r)) {
		char broken[SPOOL_TEXT];
		text_printf(broken, sizeof broken, "its record %.80s cannot be read: %.250s", path, r->text);
		memcpy(r->text, broken, sizeof r->text);
	}
	r->version = version;
	return 0;
}

static bool is_seen(const struct spool *s, uint32_t job, const struct stat *of)
{
	const struct stat *was = &s->seen->of;
	return s->seen->job == job && was->st_ino == of->st_ino && was->st_size == of->st_size &&
	       was->st_mtim.tv_sec == of->st_mtim.tv_sec && was->st_mtim.tv_nsec == of->st_mtim.tv_nsec;
}

static int see(const struct spool *s, uint32_t job, struct error *err)
{
	char path[SPOOL_NAME];
	struct stat of = { 0 };
	snprintf(path, sizeof path, "jobs/%u/job", job);
	bool there = !fstatat(s->fd, path, &of, AT_SYMLINK_NOFOLLOW);
	if (there && is_seen(s, job, &of))
		return 0;
	scoped_json *o = spool_job(s, job, false, err);
	if (!o)
		return -1;
	s->seen->job = there ? job : 0;
	s->seen->of = of;
	read_text(o, "by", s->seen->by, sizeof s->seen->by);
	s->seen->time_ms = json_integer_value(json_object_get(o, "time_ms"));
	s->seen->hold = json_is_true(json_object_get(json_object_get(o, "spec"), "hold"));
	return 0;
}

/* As it was submitted. */
static int read_submission(const struct spool *s, task_id id, struct spool_record *r, struct error *err)
{
	struct error why = ERROR_INIT;
	*r = (struct spool_record){ .state = SPOOL_PENDING, .event = "submitted" };
	int failed = see(s, TASK_JOB(id), &why);
	if (failed && !spool_is_damage(&why))
		return error_pass(err, &why);
	if (failed) {
		r->state = SPOOL_BROKEN;
		text_printf(r->text, sizeof r->text, "%.300s", why.text);
		return 0;
	}
	memcpy(r->by, s->seen->by, sizeof r->by);
	r->time_ms = s->seen->time_ms;
	if (s->seen->hold)
		r->state = SPOOL_HELD;
	return 0;
}

static bool version_is_there(const struct spool *s, task_id id, unsigned version)
{
	char path[SPOOL_NAME];
	version_path(id, version, path);
	return !faccessat(s->fd, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

int spool_read(const struct spool *s, task_id id, unsigned from, struct spool_record *r, struct error *err)
{
	while (from < SPOOL_MAX_VERSION && version_is_there(s, id, from + 1))
		from++;
	return from ? spool_read_version(s, id, from, r, err) : read_submission(s, id, r, err);
}

void spool_record_clear(struct spool_record *r)
{
	json_decref(r->task);
	r->task = NULL;
}

/* ---- writing ---- */

struct spool_record spool_record_next(const struct spool_record *r, const char *event, const char *by)
{
	struct spool_record next = *r;
	next.task = NULL;
	*next.text = 0;
	snprintf(next.event, sizeof next.event, "%s", event);
	snprintf(next.by, sizeof next.by, "%s", by ? by : "");
	return next;
}

static json_t *record_to_json(struct spool_record *r, const struct spool *s)
{
	if (!*r->by)
		memcpy(r->by, s->by, sizeof r->by);
	r->time_ms = clock_wall_ms();
	json_t *o = json_pack("{si, ss, ss, sI, ss, ss, sI, sb, sI, sI, so, so}", "format", SPOOL_FORMAT, "event", r->event, "by",
			      r->by, "time_ms", (json_int_t)r->time_ms, "state", states[r->state], "pilot", r->pilot,
			      "claim", (json_int_t)r->claim, "started", r->started, "claims", (json_int_t)r->claims,
			      "cuts", (json_int_t)r->cuts, "ran_s", json_round3(r->ran_s), "text", json_text_or_null(r->text));
	if (r->wish != SPOOL_WISH_NONE)
		json_object_set_new(o, "wish", json_text(wishes[r->wish]));
	if (r->state == SPOOL_ENDED)
		json_object_set_new(o, "end", json_text(task_state_name(r->end)));
	if (r->task)
		json_object_set(o, "task", r->task);
	return o;
}

int spool_change(const struct spool *s, task_id id, struct spool_record *r, struct error *err)
{
	char name[SPOOL_NAME], path[SPOOL_NAME], folder[SPOOL_NAME], text[TASK_ID_TEXT];
	if (r->version >= SPOOL_MAX_VERSION)
		return error_set(err, ERR_CONFLICT, "task %s: was changed %d times, which is the most there is", task_id_text(id, text),
				 SPOOL_MAX_VERSION);
	scoped_json *content = record_to_json(r, s);
	version_path(id, r->version + 1, path);
	snprintf(folder, sizeof folder, "jobs/%u", TASK_JOB(id));
	if (spool_file_make(s, content, name, err))
		return -1;
	int rc = spool_file_link(s, name, folder, path, err);
	if (!rc)
		r->version++;
	return rc;
}

/* "live/12_3.7": removed only when a version above 7 says that it ended, which no version is while this one is not written. So
 * whoever tidies up meanwhile leaves it. */
int spool_revive(const struct spool *s, task_id id, struct spool_record *r, struct error *err)
{
	char path[SPOOL_NAME], text[TASK_ID_TEXT];
	snprintf(path, sizeof path, "live/%s.%u", task_id_text(id, text), r->version + 1);
	scoped_fd int fd = openat(s->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0600);
	if (fd < 0 || spool_sync_folder(s, "live", NULL))
		return error_errno(err, "%s/%s", s->dir, path);
	return spool_change(s, id, r, err);
}
