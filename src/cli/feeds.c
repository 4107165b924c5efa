/* SPDX-License-Identifier: MIT */
#include "cli/feeds.h"

#include "base/json.h"
#include "base/proc.h"
#include "base/scope.h"
#include "cli/format.h"
#include "feed/look.h"
#include "feed/ring.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static json_t *task_of(uint64_t pid)
{
	char id[64];
	json_t *task = pid && proc_environ((pid_t)pid, "RAD_TASK_ID", id, sizeof id) == 0 ? json_text(id) : NULL;
	return task ? task : json_null();
}

/* "12_3", "process 4711": how people are told of it. */
static json_t *who(uint64_t pid)
{
	json_t *task = task_of(pid);
	if (json_is_string(task))
		return task;
	json_decref(task);
	char text[40];
	snprintf(text, sizeof text, "process %llu", (unsigned long long)pid);
	return json_text(text);
}

static json_t *reader_to_json(const struct feed_reader_figures *r, uint64_t now_us, bool starved)
{
	struct feed_rate rate = feed_span_rate(&r->span, now_us, 0);
	return json_pack("{sI, so, sf, sf, sf, sI, so}", "pid", (json_int_t)r->pid, "task", task_of(r->pid), "batches_s",
			 rate.batches_s, "bytes_s", rate.bytes_s, "wait_fraction", rate.wait_fraction, "behind", (json_int_t)r->behind,
			 "waits_for", starved ? json_text("producer") : json_null());
}

/* Who has given everything back that there is has nothing to do but wait. */
static bool is_starved(const struct feed_figures *f, size_t i)
{
	return f->reader[i].behind == 0;
}

/* Whom somebody waits for now. */
static json_t *waited_for(const struct feed_figures *f)
{
	if (f->sleeps_us)
		return f->slowest_pid ? who(f->slowest_pid) : json_text("a reader");
	for (size_t i = 0; i < f->n_readers; i++)
		if (is_starved(f, i))
			return json_text("producer");
	return json_null();
}

static void add_figures(json_t *o, const struct feed_look *look)
{
	const struct feed_figures *f = &look->figures;
	struct feed_rate rate = feed_span_rate(&f->span, look->now_us, f->sleeps_us);
	json_t *readers = json_array();
	for (size_t i = 0; i < f->n_readers; i++)
		json_array_append_new(readers, reader_to_json(&f->reader[i], look->now_us, is_starved(f, i)));
	json_object_update_new(o, json_pack(
		"{sI, sI, sI, sI, sI, sf, sf, so, sf, so}", "epoch", (json_int_t)FEED_POS_EPOCH(f->pos), "batch",
		(json_int_t)FEED_POS_INDEX(f->pos), "slots", (json_int_t)f->slots, "slot_bytes",
		(json_int_t)f->slot_bytes, "memory_bytes", (json_int_t)f->memory_bytes, "batches_s", rate.batches_s, "bytes_s",
		rate.bytes_s, "waits_for", waited_for(f), "wait_fraction", rate.wait_fraction, "readers", readers));
}

static json_t *feed_to_json(const struct feed_look *look)
{
	static const char *const states[] = { [FEED_LOOK_NOBODY] = "nobody", [FEED_LOOK_BEGINS] = "begins", [FEED_LOOK_RUNS] = "runs",
					      [FEED_LOOK_HIDDEN] = "hidden" };
	json_t *producer = !look->writer ? json_null() : json_pack("{si, so}", "pid", (int)look->writer, "task",
								    task_of((uint64_t)look->writer));
	json_t *o = json_pack("{ss, ss, ss, sI, so}", "name", look->name, "state", states[look->state], "data", look->sign,
			      "tasks", (json_int_t)look->tasks, "producer", producer);
	if (look->state == FEED_LOOK_RUNS)
		add_figures(o, look);
	return o;
}

/* Appends it. Unless it was named, one that ended while we looked is none, nor are the files that stay of one whose processes
 * were all killed at once. */
static int add_feed(json_t *list, const char *name, bool named, struct error *err)
{
	struct feed_look look;
	struct error why = ERROR_INIT;
	if (feed_look(name, &look, &why) == 0) {
		if (!named && look.state == FEED_LOOK_NOBODY && !look.tasks)
			return 0;
		return json_array_append_new(list, feed_to_json(&look));
	}
	if (!named && why.code == ERR_NOT_FOUND)
		return 0;
	return error_pass(err, &why);
}

json_t *feeds_list(char *const *names, size_t n, struct error *err)
{
	scoped_json *list = json_array();
	scoped_free char **all = n ? NULL : feed_look_names(err);
	if (!n && !all)
		return NULL;
	for (size_t i = 0; n ? i < n : all[i] != NULL; i++)
		if (add_feed(list, n ? names[i] : all[i], n > 0, err))
			return NULL;
	return json_incref(list);
}

/* A task that makes what others read has the producer's word on whom it waits for, one that only reads its own. NULL: it has no
 * part in it. */
static json_t *part_of_task(const json_t *feed, const char *task)
{
	const json_t *r = member_find(json_object_get(feed, "readers"), "task", task), *producer = json_object_get(feed, "producer");
	bool produces = !strcmp(member_text(producer, "task"), task);
	if (!r && !produces)
		return NULL;
	const json_t *of = r ? r : feed;
	json_t *ids = json_array(), *v;
	size_t i;
	json_array_foreach(json_object_get(feed, "readers"), i, v)
		json_array_append(ids, json_object_get(v, "task"));
	return json_pack("{sO, ss, sO?, so, sO?, sO?, sO?, sO?}", "name", json_object_get(feed, "name"), "role",
			 produces ? "producer" : "reader", "producer", json_object_get(producer, "task"), "readers", ids, "batches_s",
			 json_object_get(of, "batches_s"), "bytes_s", json_object_get(of, "bytes_s"), "waits_for",
			 json_object_get(produces ? feed : of, "waits_for"), "wait_fraction", json_object_get(of, "wait_fraction"));
}

/* A task that is in no feed, though it was given one: whether it waits there for another to leave. */
static void tell_outside(json_t *task, const json_t *feeds)
{
	json_t *own = json_object_get(task, "feed"), *feed;
	size_t i;
	json_array_foreach(feeds, i, feed)
		if (json_is_object(own) && !strcmp(member_text(feed, "name"), member_text(own, "name")) &&
		    json_array_size(json_object_get(feed, "readers")) >= FEED_READERS_MAX)
			json_object_set_new(own, "full", json_true());
}

static void tell_task(json_t *task, const json_t *feeds)
{
	json_t *first = NULL, *others = json_array(), *feed;
	size_t i;
	json_array_foreach(feeds, i, feed) {
		json_t *part = part_of_task(feed, member_text(task, "id"));
		if (part && first)
			json_array_append_new(others, part);
		else if (part)
			first = part;
	}
	if (first) {
		json_object_set_new(first, "others", others);
		json_object_set(first, "tasks", json_object_get(json_object_get(task, "feed"), "tasks"));
		json_object_set_new(task, "feed", first);
	} else {
		json_decref(others);
		tell_outside(task, feeds);
	}
}

void feeds_tell(const json_t *tasks)
{
	char own[FORMAT_LEN];
	struct error err = ERROR_INIT;
	scoped_json *feeds = NULL;
	size_t i;
	json_t *t;
	format_user(geteuid(), own);
	json_array_foreach(tasks, i, t) {
		if (member_state(t) != TASK_RUNNING || strcmp(member_text(t, "user"), own))
			continue;
		if (!feeds && !(feeds = feeds_list(NULL, 0, &err)))
			return;
		tell_task(t, feeds);
	}
}
