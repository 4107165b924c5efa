/* SPDX-License-Identifier: MIT
 * Which GPUs a reservation gets, and which tasks it meets. That nobody starts into one is the filter's (map/filter.c); that its
 * user goes first there, the pass's.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"

#include <math.h>
#include <string.h>

static bool spans_meet(const struct core_reservation *a, const struct core_reservation *b)
{
	return a->begin_ms < b->end_ms && b->begin_ms < a->end_ms;
}

static bool has_gpu(const struct core_reservation *r, const char *uuid)
{
	for (unsigned i = 0; i < r->n_gpus; i++)
		if (!strcmp(r->gpus[i], uuid))
			return true;
	return false;
}

/* The first of them that has that GPU in the span of `want`; NULL: none. */
static const struct core_reservation *meets(const struct core_reservation *others, size_t n,
					    const struct core_reservation *want, const char *uuid)
{
	for (size_t i = 0; i < n; i++)
		if (spans_meet(&others[i], want) && has_gpu(&others[i], uuid))
			return &others[i];
	return NULL;
}

/* When a running task is expected to end (wall). INT64_MAX: nobody knows, as of one that is longer there than its like: its
 * owner is to be asked, too. */
static int64_t run_ends_ms(const struct core *c, const struct fleet_run *r, struct now now)
{
	const struct time_left left = estimates_left(c->estimates, r, now);
	double left_s = fmin(left.known && !left.overdue ? left.s : left.clock_s, left.limit_s);
	return isfinite(left_s) && !r->task->suspended ? now.wall_ms + (int64_t)(left_s * 1000) : INT64_MAX;
}

/* How many tasks may still run then on each slot; free it. By expectations, so a choice and no promise: the filter keeps others
 * from starting into it, and what runs longer overlaps (decision 110). */
static unsigned *still_running(const struct core *c, int64_t then_ms, struct now now)
{
	unsigned *n = alloc_zero((fleet_size(c->fleet) + 1) * sizeof *n);
	struct fleet_run r;
	for (size_t at = 0; fleet_next_run(c->fleet, &at, &r);)
		for (unsigned i = 0; i < r.n_slots && run_ends_ms(c, &r, now) > then_ms; i++)
			n[r.slots[i]]++;
	return n;
}

#define OUT_OF_USE 1000000	/* a drained or silent GPU comes after all others */

/* Its place in `order`, or -1. Whole GPUs only: whoever wants instances names them. */
static int64_t find_best(const struct core *c, const uint32_t *order, const unsigned *running,
			 const struct core_reservation *others, size_t n, const struct core_reservation *want, struct now now)
{
	int64_t best = -1;
	unsigned least = 0;
	for (size_t i = 0; i < fleet_size(c->fleet); i++) {
		struct fleet_gpu g = fleet_look(c->fleet, order[i], now.mono_ms);
		if (!g.present || g.reading->mig || has_gpu(want, g.reading->uuid) || meets(others, n, want, g.reading->uuid))
			continue;
		unsigned tasks = running[order[i]] + (g.drained || g.stale ? OUT_OF_USE : 0);
		if (best < 0 || tasks < least)
			best = (int64_t)i, least = tasks;
	}
	return best;
}

static int check_given(const struct core_reservation *others, size_t n, const struct core_reservation *want, struct error *err)
{
	for (unsigned i = 0; i < want->n_gpus; i++) {
		const struct core_reservation *other = meets(others, n, want, want->gpus[i]);
		if (other)
			return error_set(err, ERR_CONFLICT, "GPU %s: is in reservation %u at that time; 'rad reserve' lists them",
					 want->gpus[i], other->id);
	}
	return 0;
}

static unsigned count_present(const struct core *c, bool mig)
{
	unsigned n = 0;
	for (uint32_t i = 0; i < fleet_size(c->fleet); i++) {
		struct fleet_gpu g = fleet_look(c->fleet, i, 0);
		n += g.present && g.reading->mig == mig;
	}
	return n;
}

/* One after the other by merit, and kept by number. `want` holds those that were chosen so far, which is how the next choice
 * knows them. */
int core_pick_reserved(struct core *c, const struct core_reservation *others, size_t n, struct core_reservation *want,
		       bool given, struct now now, struct error *err)
{
	unsigned wanted = want->n_gpus;
	int64_t place, places[SPEC_MAX_GPUS];
	if (given)
		return check_given(others, n, want, err);
	scoped_free uint32_t *order = fleet_in_order(c->fleet);
	scoped_free unsigned *running = still_running(c, want->begin_ms, now);
	want->n_gpus = 0;
	while (want->n_gpus < wanted && (place = find_best(c, order, running, others, n, want, now)) >= 0) {
		unsigned k = want->n_gpus++;
		for (; k && places[k - 1] > place; k--) {	/* in the order in which people count them, not in that of merit */
			places[k] = places[k - 1];
			memcpy(want->gpus[k], want->gpus[k - 1], GPU_UUID_LEN);
		}
		places[k] = place;
		memcpy(want->gpus[k], fleet_look(c->fleet, order[place], now.mono_ms).reading->uuid, GPU_UUID_LEN);
	}
	if (want->n_gpus == wanted)
		return 0;
	return error_set(err, ERR_CONFLICT, "%u GPU%s wanted, and %u of %u %s free of other reservations at that time; 'rad "
			 "reserve' lists them%s", wanted, wanted == 1 ? "" : "s", want->n_gpus, count_present(c, false),
			 want->n_gpus == 1 ? "is" : "are", count_present(c, true) ? ", and MIG instances are reserved by number (1:0) or UUID" : "");
}

static void add_overlap(const struct core *c, const struct core_reservation *r, const struct fleet_run *run, int64_t ends_ms,
			json_t *list)
{
	char id[TASK_ID_TEXT];
	json_t *gpus = json_array();
	for (unsigned i = 0; i < run->n_slots; i++) {
		const char *uuid = fleet_look(c->fleet, run->slots[i], 0).reading->uuid;
		if (has_gpu(r, uuid))
			json_array_append_new(gpus, json_text(uuid));
	}
	if (!json_array_size(gpus)) {
		json_decref(gpus);
		return;
	}
	json_array_append_new(list, json_pack("{ss, ss, so, so}", "task", task_id_text(run->task->id, id), "user",
		run->task->spec->user ? run->task->spec->user : "", "gpus", gpus, "end_time",
		json_time_or_null(ends_ms == INT64_MAX ? 0 : ends_ms)));
}

/* Told when a reservation is made, so that an administrator asks these people instead of surprising them. */
json_t *core_overlaps_json(struct core *c, const struct core_reservation *r, struct now now)
{
	json_t *list = json_array();
	struct fleet_run run;
	for (size_t at = 0; fleet_next_run(c->fleet, &at, &run);) {
		int64_t ends_ms = run_ends_ms(c, &run, now);
		if (run.task->spec->uid != r->uid && ends_ms > r->begin_ms)
			add_overlap(c, r, &run, ends_ms, list);
	}
	return list;
}
