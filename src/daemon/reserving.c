/* SPDX-License-Identifier: MIT
 * See reserving.h.
 */
#include "daemon/reserving.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/units.h"
#include "daemon/now.h"
#include "daemon/timer.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "reserve:"
#define LAST_KEY "reserve_last"	/* the newest id that was given out: none is given out twice */

struct one {
	struct core_reservation r;	/* r.gpus is owned */
	uid_t by;
	int64_t made_ms;
	char *reason;			/* owned; may be NULL */
	bool begun;			/* the core was told */
};

struct reserving {
	struct core *core;
	struct store *store;
	uv_timer_t timer;
	struct one *list;		/* by begin */
	size_t n, cap;
	uint32_t last_id;
};

static void one_clear(struct one *o)
{
	free(o->r.gpus);
	free(o->reason);
}

/* Two of one begin keep the order in which they were made, so that lists read the same after a restart. */
static int by_begin(const void *a, const void *b)
{
	const struct one *x = a, *y = b;
	if (x->r.begin_ms != y->r.begin_ms)
		return x->r.begin_ms < y->r.begin_ms ? -1 : 1;
	return (x->r.id > y->r.id) - (x->r.id < y->r.id);
}

/* All there are, in one array, as the core takes them. Free it. */
static struct core_reservation *reserving_plain(const struct reserving *v)
{
	struct core_reservation *list = alloc_zero((v->n + 1) * sizeof *list);
	for (size_t i = 0; i < v->n; i++)
		list[i] = v->list[i].r;
	return list;
}

/* All of them each time: the core takes a list in the place of the one before, so nothing can be left over there. */
static void reserving_tell(struct reserving *v)
{
	scoped_free struct core_reservation *list = reserving_plain(v);
	int64_t now_ms = clock_wall_ms();
	for (size_t i = 0; i < v->n; i++)
		v->list[i].begun = v->list[i].r.begin_ms <= now_ms;
	core_reserve(v->core, list, v->n);
}

static void on_time(uv_timer_t *timer);

/* Each has one moment that comes next: its begin, then its end. */
static void reserving_watch(struct reserving *v)
{
	int64_t next = INT64_MAX;
	for (size_t i = 0; i < v->n; i++) {
		const struct one *o = &v->list[i];
		int64_t due = o->begun ? o->r.end_ms : o->r.begin_ms;
		next = due < next ? due : next;
	}
	timer_set_wall(&v->timer, on_time, next);
}

/* The others move up, since the list is by begin. */
static int reserving_drop(struct reserving *v, size_t at, struct error *err)
{
	scoped_free char *key = alloc_printf(PREFIX "%u", v->list[at].r.id);
	one_clear(&v->list[at]);
	memmove(&v->list[at], &v->list[at + 1], (v->n - at - 1) * sizeof *v->list);
	v->n--;
	return store_set_meta(v->store, key, NULL, err);
}

static void reserving_end_due(struct reserving *v)
{
	int64_t now_ms = clock_wall_ms();
	for (size_t i = v->n; i-- > 0;)
		if (v->list[i].r.end_ms <= now_ms) {
			log_info("reservation %u is over", v->list[i].r.id);
			reserving_drop(v, i, NULL);	/* a failure dooms the turn, which says why */
		}
}

/* What is over goes first, so that one that begins as another ends is told together with that end, in one list. The core is
 * told only where something changed: it looks at all tasks anew then. */
static void on_time(uv_timer_t *timer)
{
	struct reserving *v = timer->data;
	size_t before = v->n;
	bool begins = false;
	reserving_end_due(v);
	for (size_t i = 0; i < v->n; i++) {
		bool now = !v->list[i].begun && v->list[i].r.begin_ms <= clock_wall_ms();
		if (now)
			log_info("reservation %u begins", v->list[i].r.id);
		begins = begins || now;
	}
	if (begins || v->n != before)
		reserving_tell(v);
	reserving_watch(v);
}

/* Making and keeping --------------------------------------------------------------------------------------------------- */

/* The newest id is kept beside it, in the same transaction: when this one is forgotten, no other may have its number. */
static int reserving_keep(const struct reserving *v, const struct one *o, struct error *err)
{
	scoped_free char *key = alloc_printf(PREFIX "%u", o->r.id);
	scoped_json *j = json_pack("{sI, sI, sI, so, sI, sI, so}", "uid", (json_int_t)o->r.uid, "begin_ms", (json_int_t)o->r.begin_ms,
		"end_ms", (json_int_t)o->r.end_ms, "gpus", task_uuids_json(o->r.gpus, o->r.n_gpus), "by", (json_int_t)o->by,
		"made_ms", (json_int_t)o->made_ms, "reason", json_text_or_null(o->reason));
	scoped_free char *text = json_to_text(j), *last = alloc_printf("%u", v->last_id);
	return store_set_meta(v->store, key, text, err) || store_set_meta(v->store, LAST_KEY, last, err) ? -1 : 0;
}

static int check_span(const struct core_reservation *r, int64_t now_ms, struct error *err)
{
	const int64_t grace_ms = 60000;		/* "now" was a moment ago */
	if (r->end_ms <= r->begin_ms)
		return error_set(err, ERR_INVALID, "it would end before it begins");
	if (r->begin_ms < now_ms - grace_ms)
		return error_set(err, ERR_INVALID, "it would begin in the past");
	if (r->begin_ms > now_ms + RESERVING_LATEST_MS || r->end_ms - r->begin_ms > RESERVING_LONGEST_MS)
		return error_set(err, ERR_INVALID, "it is to begin within a year, and to last 90 days at most");
	return 0;
}

static void reserving_insert(struct reserving *v, const struct one *o)
{
	alloc_grow(v->list, v->n, v->cap);
	v->list[v->n++] = *o;
	v->last_id = o->r.id > v->last_id ? o->r.id : v->last_id;
	qsort(v->list, v->n, sizeof *v->list, by_begin);
}

/* Chosen before an id is taken; stored last, in the transaction of this turn, so that a disk that fails dooms the turn and
 * with it what was told to the core. */
int reserving_add(struct reserving *v, struct core_reservation *want, bool given, uid_t by, const char *reason,
		  struct error *err)
{
	struct now now = now_read();
	scoped_free struct core_reservation *others = reserving_plain(v);
	if (check_span(want, now.wall_ms, err))
		return -1;
	if (v->n >= RESERVING_MOST)
		return error_set(err, ERR_UNAVAILABLE, "there are %d reservations, which is the maximum", RESERVING_MOST);
	if (core_pick_reserved(v->core, others, v->n, want, given, now, err))
		return -1;
	want->id = v->last_id + 1;
	struct one o = { .r = *want, .by = by, .made_ms = now.wall_ms, .reason = alloc_string_or_null(reason) };
	o.r.gpus = alloc_zero(want->n_gpus * sizeof *o.r.gpus);
	memcpy(o.r.gpus, want->gpus, want->n_gpus * sizeof *o.r.gpus);
	reserving_insert(v, &o);
	reserving_tell(v);
	reserving_watch(v);
	log_info("reservation %u: %u GPUs for uid %u, made by uid %u", o.r.id, o.r.n_gpus, (unsigned)o.r.uid, (unsigned)by);
	return reserving_keep(v, &o, err);
}

/* v->n where there is none. Places are good for the time of one call: an end or a new one moves the others. */
static size_t reserving_find(const struct reserving *v, uint32_t id)
{
	size_t i = 0;
	while (i < v->n && v->list[i].r.id != id)
		i++;
	return i;
}

bool reserving_user(const struct reserving *v, uint32_t id, uid_t *uid)
{
	size_t at = reserving_find(v, id);
	if (at < v->n)
		*uid = v->list[at].r.uid;
	return at < v->n;
}

/* Whether he may was asked by the caller, who knows the asker's rights; here `by` is for the log alone. */
int reserving_remove(struct reserving *v, uint32_t id, uid_t by, struct error *err)
{
	size_t at = reserving_find(v, id);
	if (at == v->n)
		return error_set(err, ERR_NOT_FOUND, "reservation %u: there is none; 'rad reserve' lists them", id);
	log_info("reservation %u: taken back by uid %u", id, (unsigned)by);
	int rc = reserving_drop(v, at, err);
	reserving_tell(v);
	reserving_watch(v);
	return rc;
}

/* Reading them again ----------------------------------------------------------------------------------------------------- */

static int read_gpus(const json_t *list, struct core_reservation *r, struct error *err)
{
	size_t n = json_array_size(list);
	if (!n || n > SPEC_MAX_GPUS)
		return error_set(err, ERR_CORRUPT, "'gpus' holds %zu GPUs", n);
	r->gpus = alloc_zero(n * sizeof *r->gpus);
	for (size_t i = 0; i < n; i++) {
		const char *uuid = json_string_value(json_array_get(list, i));
		if (!uuid || !*uuid || strlen(uuid) >= GPU_UUID_LEN)
			return error_set(err, ERR_CORRUPT, "'gpus' holds something that is no UUID");
		memcpy(r->gpus[r->n_gpus++], uuid, strlen(uuid) + 1);
	}
	return 0;
}

static int read_one(const char *id, const char *value, struct one *o, struct error *err)
{
	scoped_json *j = json_loads(value, 0, NULL);
	int64_t number, uid = -1, by = 0;
	if (units_parse_int(id, 1, UINT32_MAX, &number, err) || json_read_int(j, "uid", 0, UINT32_MAX, &uid, err) ||
	    json_read_int(j, "by", 0, UINT32_MAX, &by, err) || json_read_int(j, "begin_ms", 0, INT64_MAX, &o->r.begin_ms, err) ||
	    json_read_int(j, "end_ms", 0, INT64_MAX, &o->r.end_ms, err) ||
	    json_read_int(j, "made_ms", 0, INT64_MAX, &o->made_ms, err) ||
	    json_read_text(j, "reason", RESERVING_MAX_REASON, &o->reason, err) || read_gpus(json_object_get(j, "gpus"), &o->r, err))
		return -1;
	if (uid < 0)
		return error_set(err, ERR_CORRUPT, "its user is missing");
	o->r.id = (uint32_t)number;
	o->r.uid = (uid_t)uid;
	o->by = (uid_t)by;
	return 0;
}

/* One that cannot be read is nobody's: it stays in the store, for whoever looks into it. */
static int restore_one(void *ctx, const char *key, const char *value)
{
	struct reserving *v = ctx;
	struct one o = { 0 };
	struct error err = ERROR_INIT;
	if (read_one(key + strlen(PREFIX), value, &o, &err)) {
		log_warn("%s: cannot be read, left aside: %s", key, err.text);
		one_clear(&o);
		return 0;
	}
	reserving_insert(v, &o);
	return 0;
}

/* The core may not know these GPUs yet, nor need to: a slot is made for each (core/fleet.c). */
int reserving_restore(struct reserving *v, struct error *err)
{
	scoped_free char *last = store_get_meta(v->store, LAST_KEY);
	int64_t id = 0;
	if (last && !units_parse_int(last, 0, UINT32_MAX, &id, NULL))
		v->last_id = (uint32_t)id;
	int rc = store_each_meta(v->store, PREFIX, restore_one, v, err);
	reserving_end_due(v);
	if (v->n)
		reserving_tell(v);
	reserving_watch(v);
	return rc;
}

/* Told ------------------------------------------------------------------------------------------------------------------- */

static json_t *name_json(struct names *n, uid_t uid)
{
	const char *name;
	names_of(n, uid, &name);
	return json_text(name);
}

bool reserving_are_named(const struct reserving *v, struct names *n)
{
	const char *name;
	bool all = true;
	for (size_t i = 0; i < v->n; i++) {
		bool user = names_of(n, v->list[i].r.uid, &name) != NAME_ASKED;
		all = names_of(n, v->list[i].by, &name) != NAME_ASKED && user && all;
	}
	return all;
}

json_t *reserving_json(const struct reserving *v, struct names *n)
{
	struct now now = now_read();
	json_t *list = json_array();
	for (size_t i = 0; i < v->n; i++) {
		const struct one *o = &v->list[i];
		json_array_append_new(list, json_pack("{sI, so, so, so, so, sb, so, so, so, so}", "id", (json_int_t)o->r.id,
			"user", name_json(n, o->r.uid), "gpus", task_uuids_json(o->r.gpus, o->r.n_gpus),
			"begin_time", json_time_or_null(o->r.begin_ms), "end_time", json_time_or_null(o->r.end_ms),
			"active", o->r.begin_ms <= now.wall_ms, "by", name_json(n, o->by), "made_time", json_time_or_null(o->made_ms),
			"reason", json_text_or_null(o->reason), "overlaps", core_overlaps_json(v->core, &o->r, now)));
	}
	return list;
}

json_t *reserving_gpu_json(const struct reserving *v, struct names *n, const char *uuid)
{
	json_t *list = json_array();
	for (size_t i = 0; i < v->n; i++)
		for (unsigned k = 0; k < v->list[i].r.n_gpus; k++)
			if (!strcmp(v->list[i].r.gpus[k], uuid))
				json_array_append_new(list, json_pack("{sI, so, so, so}", "id", (json_int_t)v->list[i].r.id,
					"user", name_json(n, v->list[i].r.uid), "begin_time", json_time_or_null(v->list[i].r.begin_ms),
					"end_time", json_time_or_null(v->list[i].r.end_ms)));
	return list;
}

/* Life ------------------------------------------------------------------------------------------------------------------- */

struct reserving *reserving_create(uv_loop_t *loop, struct core *core, struct store *store)
{
	struct reserving *v = alloc_zero(sizeof *v);
	v->core = core;
	v->store = store;
	v->timer.data = v;
	uv_timer_init(loop, &v->timer);
	return v;
}

static void on_closed(uv_handle_t *h)
{
	struct reserving *v = h->data;
	for (size_t i = 0; i < v->n; i++)
		one_clear(&v->list[i]);
	free(v->list);
	free(v);
}

void reserving_destroy(struct reserving *v)
{
	if (v)
		uv_close((uv_handle_t *)&v->timer, on_closed);
}
