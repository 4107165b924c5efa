/* SPDX-License-Identifier: MIT
 * See drains.h.
 */
#include "daemon/drains.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/timer.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "drained:"

struct drain {
	char *uuid, *reason;	/* owned; reason may be NULL */
	int64_t uid;		/* -1: not known, as of an earlier release */
	int64_t since_ms, until_ms;	/* wall; 0: not known, no end */
};

struct drains {
	struct core *core;
	struct store *store;
	uv_timer_t timer;
	struct drain *list;
	size_t n, cap;
};

static struct drain *drains_find(const struct drains *d, const char *uuid)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->list[i].uuid, uuid))
			return &d->list[i];
	return NULL;
}

static void on_time(uv_timer_t *timer);

static void drains_watch(struct drains *d)
{
	int64_t first_ms = INT64_MAX;
	for (size_t i = 0; i < d->n; i++)
		if (d->list[i].until_ms && d->list[i].until_ms < first_ms)
			first_ms = d->list[i].until_ms;
	timer_set_wall(&d->timer, on_time, first_ms);
}

static void drain_clear(struct drain *one)
{
	free(one->uuid);
	free(one->reason);
}

/* The last one takes its place: `one` is another's afterwards. */
static int drains_forget(struct drains *d, struct drain *one, struct error *err)
{
	scoped_free char *key = alloc_printf(PREFIX "%s", one->uuid);
	core_drain(d->core, one->uuid, false);
	drain_clear(one);
	*one = d->list[--d->n];
	drains_watch(d);
	return store_set_meta(d->store, key, NULL, err);
}

/* From the end, since what is forgotten gives its place to the last, which was looked at already. */
static void drains_end_due(struct drains *d)
{
	for (size_t i = d->n; i-- > 0;) {
		struct drain *one = &d->list[i];
		if (!one->until_ms || one->until_ms > clock_wall_ms())
			continue;
		log_info("GPU %s: its time out of use is over: in use again", one->uuid);
		drains_forget(d, one, NULL);	/* a failure dooms the turn, which says why */
	}
}

static void on_time(uv_timer_t *timer)
{
	struct drains *d = timer->data;
	drains_end_due(d);
	drains_watch(d);
}

/* What it returns is good until the next is taken, since the list may move. */
static struct drain *drains_take(struct drains *d, const char *uuid)
{
	struct drain *one = drains_find(d, uuid);
	if (one)
		return one;
	alloc_grow(d->list, d->n, d->cap);
	one = &d->list[d->n++];
	*one = (struct drain){ .uuid = alloc_string(uuid), .uid = -1 };
	return one;
}

/* In the transaction of the turn: where that fails radd ends without having told anybody, so what the core believes meanwhile
 * counts for nothing. */
static int drains_keep(const struct drains *d, const struct drain *one, struct error *err)
{
	scoped_free char *key = alloc_printf(PREFIX "%s", one->uuid);
	scoped_json *o = json_pack("{sI, sI, sI, so}", "uid", (json_int_t)one->uid, "since_ms", (json_int_t)one->since_ms,
				   "until_ms", (json_int_t)one->until_ms, "reason", json_text_or_null(one->reason));
	scoped_free char *text = json_to_text(o);
	return store_set_meta(d->store, key, text, err);
}

/* Drained again is drained on: since when it is out of use stays, while who, why and until when are as said last. */
int drains_add(struct drains *d, const char *uuid, uid_t by, const char *reason, int64_t until_ms, struct error *err)
{
	struct drain *one = drains_find(d, uuid);
	int64_t since_ms = one && one->since_ms ? one->since_ms : clock_wall_ms();
	one = drains_take(d, uuid);
	free(one->reason);
	one->reason = alloc_string_or_null(reason);
	one->uid = (int64_t)by;
	one->since_ms = since_ms;
	one->until_ms = until_ms;
	core_drain(d->core, uuid, true);
	drains_watch(d);
	return drains_keep(d, one, err);
}

/* One that is not drained is in use already, which is what was asked for. */
int drains_remove(struct drains *d, const char *uuid, struct error *err)
{
	struct drain *one = drains_find(d, uuid);
	return !one ? 1 : drains_forget(d, one, err);
}

/* What cannot be read of it leaves the GPU drained: that much is sure. An earlier release wrote no more than "1". */
static int restore_one(void *ctx, const char *key, const char *value)
{
	struct drains *d = ctx;
	struct drain *one = drains_take(d, key + strlen(PREFIX));
	struct error err = ERROR_INIT;
	scoped_json *o = json_loads(value, 0, NULL);
	if (json_read_int(o, "uid", -1, UINT32_MAX, &one->uid, &err) ||
	    json_read_int(o, "since_ms", 0, INT64_MAX, &one->since_ms, &err) ||
	    json_read_int(o, "until_ms", 0, INT64_MAX, &one->until_ms, &err) ||
	    json_read_text(o, "reason", DRAIN_MAX_REASON, &one->reason, &err))
		log_warn("GPU %s: is drained, and what is kept of that cannot be read: %s", one->uuid, err.text);
	core_drain(d->core, one->uuid, true);
	return 0;
}

/* Those whose time was over while no radd ran end here, before the first pass. */
int drains_restore(struct drains *d, struct error *err)
{
	int rc = store_each_meta(d->store, PREFIX, restore_one, d, err);
	drains_end_due(d);
	drains_watch(d);
	return rc;
}

json_t *drains_json(const struct drains *d, struct names *n, const char *uuid)
{
	const struct drain *one = drains_find(d, uuid);
	const char *name = NULL;
	if (!one)
		return NULL;
	if (one->uid >= 0)
		names_of(n, (uid_t)one->uid, &name);
	return json_pack("{so, so, so, so}", "user", json_text_or_null(name), "since_time", json_time_or_null(one->since_ms),
			 "until_time", json_time_or_null(one->until_ms), "reason", json_text_or_null(one->reason));
}

struct drains *drains_create(uv_loop_t *loop, struct core *core, struct store *store)
{
	struct drains *d = alloc_zero(sizeof *d);
	d->core = core;
	d->store = store;
	d->timer.data = d;
	uv_timer_init(loop, &d->timer);
	return d;
}

/* The loop may still hold the timer, which is a part of this. Rows of the store stay: a drain outlives radd. */
static void on_closed(uv_handle_t *h)
{
	struct drains *d = h->data;
	for (size_t i = 0; i < d->n; i++)
		drain_clear(&d->list[i]);
	free(d->list);
	free(d);
}

void drains_destroy(struct drains *d)
{
	if (d)
		uv_close((uv_handle_t *)&d->timer, on_closed);
}
