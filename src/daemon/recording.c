/* SPDX-License-Identifier: MIT
 * Means over spans of 10 s, kept here until the minute is over; and what is asked of them.
 *
 * Spans go by the wall clock, since people ask for "yesterday at three", but a reading is weighed by the monotonic time that
 * it stood for: a clock that is set makes a span longer or shorter, and its mean no less true. They are stored once a minute,
 * so that a server without a task writes to its disk no more often than that.
 */
#include "daemon/recording.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "submit/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_MS ((int64_t)10000)
#define STORE_EVERY_MS ((int64_t)60000)
#define THIN_EVERY_MS ((int64_t)3600000)
#define FINE_MS ((int64_t)86400000)		/* how long means of 10 s are kept */
#define KEEP_MS ((int64_t)60 * 86400000)

/* One GPU in the span that is not over. */
struct recorded_gpu {
	struct store_gpu what;
	int64_t mono_ms;	/* of its last reading */
	double sum[SERIES_VALUES], ms[SERIES_VALUES];
};

struct recorded_mean { struct store_gpu what; int64_t from_ms; double values[SERIES_VALUES]; };

struct recording {
	struct store *store;
	const struct settings *config;
	int64_t span;		/* the one that is not over, counted in STEP_MS of wall time; 0: none yet */
	struct recorded_gpu *gpus;
	size_t n, cap;
	struct recorded_mean *rows;	/* spans that are over */
	size_t n_rows, cap_rows;
	int64_t thinned_ms;	/* up to there means are joined; 0: see what an earlier radd left */
	int64_t thin_at_ms;
};

struct recording *recording_create(struct store *store, const struct settings *config)
{
	struct recording *r = alloc_zero(sizeof *r);
	*r = (struct recording){ .store = store, .config = config };
	return r;
}

void recording_destroy(struct recording *r)
{
	if (!r)
		return;
	free(r->gpus);
	free(r->rows);
	free(r);
}

static bool recording_means_of(const struct recorded_gpu *g, double values[SERIES_VALUES])
{
	bool any = false;
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		values[v] = g->ms[v] > 0 ? g->sum[v] / g->ms[v] : NAN;
		any = any || g->ms[v] > 0;
	}
	return any;
}

/* GPUs that were not read in it get no row: a gap is drawn as one. */
static void recording_close_span(struct recording *r)
{
	for (size_t i = 0; i < r->n; i++) {
		struct recorded_gpu *g = &r->gpus[i];
		struct recorded_mean row = { .what = g->what, .from_ms = r->span * STEP_MS };
		if (recording_means_of(g, row.values)) {
			alloc_grow(r->rows, r->n_rows, r->cap_rows);
			r->rows[r->n_rows++] = row;
		}
		memset(g->sum, 0, sizeof g->sum);
		memset(g->ms, 0, sizeof g->ms);
	}
}

/* Whole minutes, or a minute's mean would be made of a part of it. */
static void recording_thin(struct recording *r, struct now now)
{
	struct error err = ERROR_INIT;
	int64_t until = now.wall_ms - FINE_MS;
	if (now.mono_ms < r->thin_at_ms || until <= r->thinned_ms)
		return;
	if (store_thin_means(r->store, r->thinned_ms, until, now.wall_ms - KEEP_MS, &err))
		log_warn_limited("%s", err.text);
	r->thinned_ms = until / 60000 * 60000;
	r->thin_at_ms = now.mono_ms + THIN_EVERY_MS;
}

/* A disk that is nearly full is left to what tasks need: their events must never fail for the sake of a picture. */
static void recording_store_rows(struct recording *r, struct now now)
{
	struct error err = ERROR_INIT;
	bool room = store_has_room(r->store);
	for (size_t i = 0; room && i < r->n_rows; i++)
		if (store_add_means(r->store, &r->rows[i].what, r->rows[i].from_ms, r->rows[i].from_ms + STEP_MS,
				    r->rows[i].values, &err)) {
			log_warn_limited("%s", err.text);
			break;
		}
	r->n_rows = 0;
	if (room)
		recording_thin(r, now);
}

void recording_flush(struct recording *r, struct now now)
{
	recording_close_span(r);
	recording_store_rows(r, now);
}

/* As a rule at the same place as in the snapshot before. */
static struct recorded_gpu *recording_gpu_of(struct recording *r, const struct gpu_reading *g, size_t likely)
{
	for (size_t i = 0; i < r->n; i++) {
		struct recorded_gpu *at = &r->gpus[(likely + i) % r->n];
		if (!strcmp(at->what.uuid, g->uuid))
			return at;
	}
	alloc_grow(r->gpus, r->n, r->cap);
	r->gpus[r->n] = (struct recorded_gpu){ .mono_ms = 0 };
	return &r->gpus[r->n++];
}

/* A reading stands for the time since the one before it, at most two intervals: what lies in a longer silence is not known,
 * and the mean is of what is. */
static void recording_note_one(struct recording *r, const struct gpu_reading *reading, size_t place, struct now now)
{
	struct recorded_gpu *g = recording_gpu_of(r, reading, place);
	int64_t most = 2 * r->config->interval_ms, since = g->mono_ms ? now.mono_ms - g->mono_ms : 0;
	double ms = (double)(since < most ? since : most), values[SERIES_VALUES];
	snprintf(g->what.uuid, sizeof g->what.uuid, "%s", reading->uuid);
	snprintf(g->what.name, sizeof g->what.name, "%s", reading->name);
	g->what.index = reading->index;
	if (reading->valid & GPU_MEM_TOTAL)
		g->what.mem_total_mib = reading->mem_total_mib;
	g->mono_ms = now.mono_ms;
	if (ms <= 0)
		return;
	series_of_reading(reading, values);
	for (size_t v = 0; v < SERIES_KEPT; v++)
		if (isfinite(values[v])) {
			g->sum[v] += values[v] * ms;
			g->ms[v] += ms;
		}
}

/* The span is closed before the reading is added, which belongs to the one that begins. GPUs that fell off the bus say
 * nothing, and the time until they are back is a gap. */
void recording_note(struct recording *r, const struct snapshot *snap, struct now now)
{
	int64_t span = now.wall_ms / STEP_MS;
	if (span != r->span) {
		recording_close_span(r);
		if (span * STEP_MS / STORE_EVERY_MS != r->span * STEP_MS / STORE_EVERY_MS)
			recording_store_rows(r, now);
		r->span = span;
	}
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		if (!snap->gpus[i].fallen)
			recording_note_one(r, &snap->gpus[i], i, now);
}

/* What was not stored yet, oldest first; the span that is not over yet too. */
static void recording_each_unstored(const struct recording *r, struct now now, store_each_means each, void *ctx)
{
	int64_t from_ms = r->span * STEP_MS;
	double values[SERIES_VALUES];
	for (size_t i = 0; i < r->n_rows; i++)
		each(ctx, &r->rows[i].what, r->rows[i].from_ms, r->rows[i].from_ms + STEP_MS, r->rows[i].values);
	for (size_t i = 0; i < r->n; i++)
		if (recording_means_of(&r->gpus[i], values) && now.wall_ms > from_ms)
			each(ctx, &r->gpus[i].what, from_ms, now.wall_ms, values);
}

/* Answers ----------------------------------------------------------------------------------------------------------------- */

/* What is answered: means that are stored and those that are not yet, joined to at most SERIES_PARTS of each GPU. */
struct recorded_series { struct store_gpu what; struct series series; };
struct recorded { int64_t from_ms, to_ms; struct recorded_series *gpus; size_t n, cap; };

static void recording_add_one(void *ctx, const struct store_gpu *gpu, int64_t from_ms, int64_t to_ms,
			const double values[SERIES_VALUES])
{
	struct recorded *h = ctx;
	size_t i = 0;
	while (i < h->n && strcmp(h->gpus[i].what.uuid, gpu->uuid))
		i++;
	if (from_ms >= h->to_ms || to_ms <= h->from_ms)
		return;
	if (i == h->n) {
		alloc_grow(h->gpus, h->n, h->cap);
		h->gpus[h->n++] = (struct recorded_series){ .what = *gpu };
	}
	series_add(&h->gpus[i].series, from_ms, to_ms, values);
}

static int recording_by_index(const void *a, const void *b)
{
	const struct store_gpu *x = &((const struct recorded_series *)a)->what, *y = &((const struct recorded_series *)b)->what;
	return x->index == y->index ? strcmp(x->uuid, y->uuid) : x->index < y->index ? -1 : 1;
}

static json_t *recording_json(const struct recorded *h)
{
	json_t *gpus = json_array(), *all = json_array();
	for (size_t i = 0; i < h->n; i++) {
		const struct store_gpu *g = &h->gpus[i].what;
		const struct series *s = &h->gpus[i].series;
		json_array_append_new(gpus, json_pack("{si, ss, ss, so}", "index", (int)g->index, "uuid", g->uuid, "name", g->name,
			"mem_total_mib", json_int_or_null((json_int_t)g->mem_total_mib, g->mem_total_mib != 0)));
		json_t *one = json_pack("{sI, so}", "gpu", (json_int_t)i, "from", json_time_or_null(s->origin_ms));
		scoped_json *values = series_to_json(s);
		json_object_update(one, values);
		json_array_append_new(all, one);
	}
	return json_pack("{si, si, so, so}", "v", WIRE_VERSION, "schema", 1, "gpus", gpus, "series", all);
}

/* One row of "unstored". */
static void recording_add_row(void *ctx, const struct store_gpu *g, int64_t from_ms, int64_t to_ms,
			      const double values[SERIES_VALUES])
{
	json_t *list = json_array();
	for (size_t v = 0; v < SERIES_KEPT; v++)
		json_array_append_new(list, isfinite(values[v]) ? json_real(values[v]) : json_null());
	json_array_append_new(ctx, json_pack("[s, s, i, I, I, I, o]", g->uuid, g->name, (int)g->index,
					     (json_int_t)g->mem_total_mib, (json_int_t)from_ms, (json_int_t)to_ms, list));
}

/* With the request to the process that reads the store, which cannot see what is in memory here. */
json_t *recording_unstored(const struct recording *r, struct now now)
{
	json_t *rows = json_array();
	recording_each_unstored(r, now, recording_add_row, rows);
	return rows;
}

static void recording_read_row(struct recorded *h, json_t *row)
{
	struct store_gpu g = { .index = 0 };
	const char *uuid, *name;
	json_t *list;
	json_int_t mem, from_ms, to_ms;
	double values[SERIES_VALUES];
	int index;
	if (json_unpack(row, "[s, s, i, I, I, I, o]", &uuid, &name, &index, &mem, &from_ms, &to_ms, &list))
		return;
	snprintf(g.uuid, sizeof g.uuid, "%s", uuid);
	snprintf(g.name, sizeof g.name, "%s", name);
	g.index = (uint32_t)index;
	g.mem_total_mib = (uint64_t)mem;
	for (size_t v = 0; v < SERIES_VALUES; v++) {
		const json_t *value = json_array_get(list, v);
		values[v] = json_is_number(value) ? json_number_value(value) : NAN;
	}
	recording_add_one(h, &g, from_ms, to_ms, values);
}

int recording_read(struct store *s, const json_t *request, struct buf *reply, struct error *err)
{
	struct recorded h = { .to_ms = INT64_MAX };
	json_t *row;
	size_t i;
	if (json_read_int(request, "from_ms", 0, INT64_MAX, &h.from_ms, err) ||
	    json_read_int(request, "to_ms", 0, INT64_MAX, &h.to_ms, err))
		return -1;
	/* The first of them may have begun a minute before. */
	int rc = store_load_means(s, h.from_ms > 60000 ? h.from_ms - 60000 : 0, h.to_ms, recording_add_one, &h, err);
	json_array_foreach(json_object_get(request, "unstored"), i, row)
		recording_read_row(&h, row);
	if (h.n)
		qsort(h.gpus, h.n, sizeof *h.gpus, recording_by_index);
	if (!rc) {
		scoped_json *answer = recording_json(&h);
		scoped_free char *text = json_to_text(answer);
		buf_add_text(reply, text);
	}
	for (i = 0; i < h.n; i++)
		series_clear(&h.gpus[i].series);
	free(h.gpus);
	return rc;
}
