/* SPDX-License-Identifier: MIT
 *
 * Slots, and the attempts that come to them and go. A slot is never reused: a device that went away stays known by its UUID,
 * since tasks of it may still be judged, and it may come back under another index. An attempt leaves its slots as soon as its
 * processes have ended, while its entry in the ledgers stays until a reading shows the memory free: the driver frees it later.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_EVERY_MS 60000

struct fleet *fleet_create(const struct core_config *config, const struct fleet_ops *ops, struct fair *fair)
{
	struct fleet *f = alloc_zero(sizeof *f);
	f->config = config;
	f->ops = *ops;
	f->fair = fair;
	f->stale_due_ms = f->note_due_ms = INT64_MAX;
	return f;
}

static void slot_destroy(struct slot *s)
{
	window_destroy(s->window);
	infer_destroy(s->infer);
	ledger_clear(&s->ledger);
	free(s->runs);
	free(s->tenants);
	free(s->speeds);
	free(s->parts);
	free(s->solved);
	free(s->seen);
	free(s->others);
	free(s->procs);
	free(s->reserves);
	free(s);
}

void fleet_destroy(struct fleet *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n_slots; i++)
		slot_destroy(f->slots[i]);
	idmap_free_all(&f->runs);
	idmap_free(&f->by_uuid);
	free(f->slots);
	free(f->gpus);
	free(f->touched);
	free(f->reading);
	free(f);
}

/* Slots --------------------------------------------------------------------------------------------------------------- */

/* By hash, since a simulation asks for each reading of a thousand GPUs. */
static struct slot *find_slot(const struct fleet *f, const char *uuid)
{
	struct slot *s = idmap_get(&f->by_uuid, hash_key(uuid));
	if (!s || !strcmp(s->r.uuid, uuid))
		return s;
	for (size_t i = 0; i < f->n_slots; i++)	/* two of one hash */
		if (!strcmp(f->slots[i]->r.uuid, uuid))
			return f->slots[i];
	return NULL;
}

/* Made for whatever is named: a snapshot, a restart that finds tasks there, an administrator's drain. Its number is its place
 * in every array by slot, so slots are never sorted and never freed before the fleet. */
struct slot *fleet_take_slot(struct fleet *f, const char *uuid)
{
	struct slot *s = find_slot(f, uuid);
	if (s)
		return s;
	s = alloc_zero(sizeof *s);
	s->number = (uint32_t)f->n_slots;
	snprintf(s->r.uuid, sizeof s->r.uuid, "%s", uuid);
	s->energy_j = NAN;
	s->low_mib[0] = s->low_mib[1] = UINT64_MAX;
	s->window = window_create(&f->config->window);
	alloc_grow(f->slots, f->n_slots, f->cap_slots);
	f->slots[f->n_slots++] = s;
	if (!idmap_get(&f->by_uuid, hash_key(uuid)))
		idmap_put(&f->by_uuid, hash_key(uuid), s);
	fleet_touch_slot(f, s);
	return s;
}

int64_t fleet_slot_of(const struct fleet *f, const char *uuid)
{
	const struct slot *s = find_slot(f, uuid);
	return s ? (int64_t)s->number : -1;
}

/* A GPU whose readings stopped is not an empty one: what was said last may be wrong by now, so nobody is placed there, and the
 * tasks there keep what they hold. A reading that stands never grows old; a sample says nothing of later. */
bool fleet_is_stale(const struct fleet *f, const struct slot *s, int64_t mono_ms)
{
	bool old = !f->config->readings_stand && mono_ms - s->read_ms > f->config->stale_ms;
	return !s->in_snapshot || s->r.fallen || old;
}

/* Of a GPU that was not read yet, too: what an administrator said of it holds over a restart, and before the first snapshot. */
void fleet_drain(struct fleet *f, const char *uuid, bool drained)
{
	struct slot *s = fleet_take_slot(f, uuid);
	s->drained = drained;
	fleet_touch_slot(f, s);
}

void fleet_keep(struct fleet *f, uint32_t slot, task_id id)
{
	assert(slot < f->n_slots);
	struct slot *s = f->slots[slot];
	if (s->kept_for != id)
		fleet_touch_slot(f, s);
	s->kept_for = id;
}

task_id fleet_kept_for(const struct fleet *f, uint32_t slot)
{
	return f->slots[slot]->kept_for;
}

void fleet_give_turn(struct fleet *f, uint32_t slot, task_id id, uid_t uid)
{
	assert(slot < f->n_slots);
	struct slot *s = f->slots[slot];
	if (s->turn_task != id || s->turn_uid != uid)
		fleet_touch_slot(f, s);
	s->turn_task = id;
	s->turn_uid = uid;
}

task_id fleet_turn_of(const struct fleet *f, uint32_t slot)
{
	return f->slots[slot]->turn_task;
}

void fleet_touch_all(struct fleet *f)
{
	for (size_t i = 0; i < f->n_slots; i++)
		fleet_touch_slot(f, f->slots[i]);
}

void fleet_reconsider(struct fleet *f)
{
	f->shape++;
	fleet_touch_all(f);
}

void fleet_reserve(struct fleet *f, const struct core_reservation *list, size_t n)
{
	for (size_t i = 0; i < f->n_slots; i++)
		f->slots[i]->n_reserves = 0;
	f->reserves_version++;
	f->n_reserves = 0;
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < list[i].n_gpus; k++) {
			struct slot *s = fleet_take_slot(f, list[i].gpus[k]);
			alloc_grow(s->reserves, s->n_reserves, s->cap_reserves);
			s->reserves[s->n_reserves++] = (struct map_reserve){ list[i].uid, list[i].begin_ms, list[i].end_ms };
			f->n_reserves++;
		}
	fleet_reconsider(f);
}

bool fleet_has_reserves(const struct fleet *f)
{
	return f->n_reserves;
}

bool fleet_is_reserved_for(const struct fleet *f, uid_t uid, int64_t wall_ms)
{
	for (size_t i = 0; f->n_reserves && i < f->n_slots; i++)
		for (size_t k = 0; k < f->slots[i]->n_reserves; k++) {
			const struct map_reserve *r = &f->slots[i]->reserves[k];
			if (r->uid == uid && r->begin_ms <= wall_ms && wall_ms < r->end_ms)
				return true;
		}
	return false;
}

void fleet_set_usual(struct fleet *f, uint64_t most_mib, uint64_t mean_mib)
{
	if (most_mib == f->usual_mib && mean_mib == f->usual_mean_mib)
		return;
	f->usual_mib = most_mib;
	f->usual_mean_mib = mean_mib;
	fleet_touch_all(f);
}

/* Until now nobody wanted to know what tasks do to each other, so it was filled in nowhere. */
void fleet_watch_slowdown(struct fleet *f)
{
	if (!fleet_predicts(f))
		fleet_touch_all(f);
	f->slow_limits = true;
}

/* A plan counts with what is left of each task's work, as of now. */
void fleet_advance_all(struct fleet *f, struct now now)
{
	for (size_t i = 0; i < f->n_slots; i++)
		fleet_advance(f, f->slots[i], now);
	fleet_touch_all(f);
}

/* Attempts come and go ------------------------------------------------------------------------------------------------ */

struct run *fleet_run(const struct fleet *f, task_id id)
{
	return idmap_get(&f->runs, id);
}

/* What runs of its signature were seen to do alone on such a GPU; else a guess. */
static struct load expected_load(const struct fleet *f, const struct slot *s, const struct task *t)
{
	struct share_task l = fleet_expected(f, s, f->ops.known_load(f->ops.ctx, t, s->r.name).load);
	return (struct load){ l.gract, l.smact, true, true };
}

/* `extra`: a GPU beyond the number that it asked for, where only what is seen of it is held (fleet_move.c). */
static void slot_enter(struct slot *s, const struct run *r, bool extra)
{
	const struct attempt *a = task_attempt(r->t);
	bool for_life = r->t->estimate.enforced_for_life || a->fence_mib;
	ledger_enter(&s->ledger, r->t->id, extra ? 0 : a->claim_mib, for_life && !extra);
}

static bool is_extra(const struct run *r, unsigned i)
{
	return i + task_attempt(r->t)->n_extra >= r->n_slots;
}

static bool slot_has(const struct slot *s, const struct run *r)
{
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i] == r)
			return true;
	return false;
}

/* The order matters: what was so until now is summed up, and inference told of it, while the newcomer is not yet among the runs
 * that both go by; the window and inference begin anew once it is. fleet_leave is the mirror image. */
void fleet_join(struct fleet *f, struct slot *s, struct run *r, bool extra, struct now now)
{
	slot_enter(s, r, extra);
	fleet_touch_slot(f, s);
	if (slot_has(s, r))
		return;
	fleet_advance(f, s, now);
	fleet_infer_end_span(f, s, now);
	alloc_grow(s->runs, s->n_runs, s->cap_runs);
	s->runs[s->n_runs++] = r;
	for (size_t i = 0; s->n_runs > 1 && i < s->n_runs; i++)
		s->runs[i]->had_neighbours = true;
	fleet_part_join(f, s, r, r->took_ms);
	window_change(s->window, now.mono_ms, expected_load(f, s, r->t));
	fleet_infer_join(f, s, r);
}

static const char *run_model(const struct fleet *f, const struct run *r)
{
	return r->n_slots ? f->slots[r->slots[0]]->r.name : "";
}

/* What is known of it apart from what it shows. */
static void run_know(const struct fleet *f, struct run *r)
{
	const struct task *t = r->t;
	r->unknown = !t->estimate.claim_mib && !t->claim_floor_mib;
	r->capture_comes = r->unknown && f->ops.capture_comes(f->ops.ctx, t);
	r->known = f->ops.known_load(f->ops.ctx, t, run_model(f, r));
	r->cores_expected = f->ops.known_cores(f->ops.ctx, t);
}

/* What a restart finds is this same call. Its log tells what was measured, until when, and when it was placed; its processes,
 * windows and progress are seen anew. */
void fleet_begin(struct fleet *f, struct task *t, struct now now)
{
	const struct attempt *a = task_attempt(t);
	struct run *r = alloc_zero(sizeof *r);
	assert(t->state == TASK_RUNNING && (a->n_gpus || !t->gpus) && a->n_gpus <= SPEC_MAX_GPUS && !fleet_run(f, t->id));
	r->t = r->clock.task = t;
	r->placed_ms = now.mono_ms;
	r->weight_mib = fleet_weight_mib(f, a);
	/* One that a restart finds took its part all the time. */
	r->took_ms = now.mono_ms - (now.wall_ms > a->placed_ms ? now.wall_ms - a->placed_ms : 0);
	for (uint32_t i = 0; i < a->n_gpus; i++) {
		r->used_ms[r->n_slots] = now.mono_ms;
		r->slots[r->n_slots++] = fleet_take_slot(f, a->gpus[i])->number;
	}
	run_know(f, r);
	r->evidence = load_unknown();
	r->was_found = a->shim.pid;
	r->begin_s = a->seen.begin_s;
	r->host_peak_mib = a->seen.host_peak_mib;
	r->cpu = a->seen.cpu;
	r->cores = (struct fleet_cores){ NAN, NAN, INFINITY };	/* the first word of it is news */
	/* After a restart what was measured counts on; the log's last event tells until when. */
	if (a->seen.peak_mib) {
		meter_resume(&r->meter, &a->seen, t->booked_until_ms - a->start_ms - task_suspended_ms(t, t->booked_until_ms));
		r->warm = a->seen.warm;
		r->evidence = a->seen.inferred;
		if (r->known.source != LOAD_MEASURED)
			r->known = infer_combine(&r->known, &r->evidence);
	}
	r->pace = a->seen.pace;
	r->pace.before_per_s = f->ops.known_pace(f->ops.ctx, t, run_model(f, r));
	r->noted_ms = now.mono_ms;	/* EV_PLACED is in the log: the first note is due in a minute */
	f->note_due_ms = now.mono_ms + NOTE_EVERY_MS < f->note_due_ms ? now.mono_ms + NOTE_EVERY_MS : f->note_due_ms;
	idmap_put(&f->runs, t->id, r);
	f->n_attended += spec_is_attended(t->spec);
	f->n_cpu_tasks += !t->gpus;
	fair_take(f->fair, t->spec->uid, 1, fleet_taken_by(r), r->took_ms);
	for (unsigned i = 0; i < r->n_slots; i++)
		fleet_join(f, f->slots[r->slots[i]], r, is_extra(r, i), now);
	fleet_cores_moved(f);
	if (f->config->readings_stand)
		fleet_meter_run(f, r, now);	/* from here on it is measured */
}

/* What it showed since it began is kept, and weighed against what is known of it now. */
void fleet_estimated(struct fleet *f, const struct task *t, struct now now)
{
	struct run *r = fleet_run(f, t->id);
	if (!r)		/* its processes have ended */
		return;
	for (unsigned i = 0; i < r->n_slots; i++) {
		fleet_advance(f, f->slots[r->slots[i]], now);
		fleet_infer_end_span(f, f->slots[r->slots[i]], now);
	}
	r->evidence = fleet_measure(f, r).inferred;
	run_know(f, r);
	if (r->known.source != LOAD_MEASURED)
		r->known = infer_combine(&r->known, &r->evidence);
	fleet_cores_moved(f);
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = f->slots[r->slots[i]];
		fleet_infer_again(f, s, r);
		slot_enter(s, r, is_extra(r, i));
		fleet_touch_slot(f, s);
	}
}

void fleet_touch(struct fleet *f, task_id id)
{
	const struct run *r = fleet_run(f, id);
	for (unsigned i = 0; r && i < r->n_slots; i++)
		fleet_touch_slot(f, f->slots[r->slots[i]]);
}

/* Of one that ends, sums and inference are up to now already (fleet_finish). The ledger keeps its entry until the memory is
 * seen free. */
void fleet_leave(struct fleet *f, struct slot *s, const struct run *r, struct now now)
{
	struct load l = window_load(s->window);
	double n = (double)s->n_runs;
	size_t i = 0;
	while (i < s->n_runs && s->runs[i] != r)
		i++;
	assert(i < s->n_runs);
	s->runs[i] = s->runs[--s->n_runs];
	/* An equal part of what all took, though loads are believed one by one (fleet_belief): those are loads alone, and what each
	 * takes of a full GPU is less. Only limits on the load ask for it, until the window has settled; by what those who stay do
	 * alone, newcomers wait longer, and simulations of doc/results end further behind what was measured. */
	window_change(s->window, now.mono_ms, (struct load){ -l.gract / n, -l.smact / n, l.gract_known, l.smact_known });
	fleet_infer_leave(f, s, r);
	ledger_exited(&s->ledger, r->t->id, now.mono_ms);
	fleet_part_leave(f, s, r, now.mono_ms);
	fleet_touch_slot(f, s);
}

/* The GPU that had least is the one that speaks. */
static void device_evidence(const struct fleet *f, const struct run *r, struct now now, struct fleet_end *out)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		uint64_t low = fleet_low_water(s, now.mono_ms);
		out->had_foreign = out->had_foreign || ledger_foreign(&s->ledger) > MAP_FOREIGN_MIB;
		if (low >= least)
			continue;
		least = low;
		out->device_known = true;
		out->device_total_mib = s->r.mem_total_mib;
		out->device_free_min_mib = low;
	}
}

/* In three steps over all of its slots, since a run of several GPUs is metered over all of them: sums up to now, then what
 * they say, and only then off. */
bool fleet_finish(struct fleet *f, task_id id, struct now now, struct fleet_end *out)
{
	struct run *r = fleet_run(f, id);
	if (!r)
		return false;
	for (unsigned i = 0; i < r->n_slots; i++) {
		fleet_advance(f, f->slots[r->slots[i]], now);
		fleet_infer_end_span(f, f->slots[r->slots[i]], now);
	}
	*out = (struct fleet_end){ .n_slots = r->n_slots, .placed_ms = r->placed_ms, .had_neighbours = r->had_neighbours };
	out->measured = fleet_measure(f, r);
	out->measured.warm = fleet_stood_still(r, now);
	memcpy(out->slots, r->slots, sizeof out->slots);
	device_evidence(f, r, now, out);
	for (unsigned i = 0; i < r->n_slots; i++)
		fleet_leave(f, f->slots[r->slots[i]], r, now);
	fair_take(f->fair, r->t->spec->uid, -1, fleet_taken_by(r), now.mono_ms);
	f->n_attended -= spec_is_attended(r->t->spec);
	f->n_cpu_tasks -= !r->t->gpus;
	free(idmap_remove(&f->runs, id));
	fleet_cores_moved(f);
	return true;
}

static void note_again(struct fleet *f, const struct run *r)
{
	int64_t due_ms = r->noted_ms + NOTE_EVERY_MS;
	f->note_next_ms = due_ms < f->note_next_ms ? due_ms : f->note_next_ms;
}

/* One at a time, because the caller makes each an event; where the walk stood is kept, so that all together are one walk. That
 * event changes no run. note_due_ms may be too early, never too late, so a snapshot between two minutes walks nothing. */
task_id fleet_note_due(struct fleet *f, struct now now, struct measured *out)
{
	if (now.mono_ms < f->note_due_ms)
		return 0;
	if (!f->note_at)
		f->note_next_ms = INT64_MAX;
	for (struct run *r; (r = idmap_next(&f->runs, &f->note_at));) {
		bool due = now.mono_ms - r->noted_ms >= NOTE_EVERY_MS && r->meter.last_ms;
		if (due) {
			r->noted_ms = now.mono_ms;
			*out = fleet_measure(f, r);
		}
		note_again(f, r);
		if (due)
			return r->t->id;
	}
	f->note_at = 0;
	f->note_due_ms = f->note_next_ms;
	return 0;
}

/* Invariants ---------------------------------------------------------------------------------------------------------- */

/* From the runs to the slots and their ledgers here, from the ledgers back to the runs below: an entry that nobody owns would
 * hold memory for ever, a run without one would be placed upon. */
static int check_run(const struct fleet *f, const struct run *r, struct error *err)
{
	char id[TASK_ID_TEXT];
	task_id_text(r->t->id, id);
	if (r->t->state != TASK_RUNNING)
		return error_set(err, ERR_CORRUPT, "task %s: has an attempt on GPUs and is %s", id, task_state_name(r->t->state));
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = f->slots[r->slots[i]];
		const struct ledger_entry *e = ledger_find(&s->ledger, r->t->id);
		size_t times = 0;
		for (size_t k = 0; k < s->n_runs; k++)
			times += s->runs[k] == r;
		if (times != 1)
			return error_set(err, ERR_CORRUPT, "task %s: stands %zu times on GPU %s", id, times, s->r.uuid);
		if (!e || e->exit_ms)
			return error_set(err, ERR_CORRUPT, "task %s: runs on GPU %s, whose ledger has no claim of it", id, s->r.uuid);
	}
	return 0;
}

static int check_slot(const struct fleet *f, const struct slot *s, struct error *err)
{
	size_t running = 0;
	for (size_t i = 0; i < s->ledger.n; i++) {
		const struct ledger_entry *e = &s->ledger.entries[i];
		running += !e->exit_ms;
		if (!e->exit_ms && !fleet_run(f, e->task))
			return error_set(err, ERR_CORRUPT, "GPU %s: its ledger has a claim of an attempt that does not run", s->r.uuid);
	}
	if (running != s->n_runs)
		return error_set(err, ERR_CORRUPT, "GPU %s: %zu attempts run there, and %zu have claims", s->r.uuid, s->n_runs, running);
	return 0;
}

int fleet_check(const struct fleet *f, struct error *err)
{
	size_t at = 0, on_slots = 0, of_runs = 0;
	for (const struct run *r; (r = idmap_next(&f->runs, &at));) {
		of_runs += r->n_slots;
		if (check_run(f, r, err))
			return -1;
	}
	for (size_t i = 0; i < f->n_slots; i++) {
		on_slots += f->slots[i]->n_runs;
		if (check_slot(f, f->slots[i], err))
			return -1;
	}
	return on_slots == of_runs ? 0 : error_set(err, ERR_CORRUPT, "%zu attempts stand on GPUs, and %zu should", on_slots, of_runs);
}
