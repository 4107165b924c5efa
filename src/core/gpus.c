/* SPDX-License-Identifier: MIT
 * The GPUs as the core knows them: the last reading, a window of load, a ledger of memory, and the attempts that run there.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/scope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_LOAD SHARE_UNKNOWN_LOAD

/* Slots --------------------------------------------------------------------------------------------------------------- */

struct slot *core_slot(const struct core *c, const char *uuid)
{
	struct slot *s = idmap_get(&c->by_uuid, core_hash(uuid));
	if (!s || !strcmp(s->r.uuid, uuid))
		return s;
	for (size_t i = 0; i < c->n_slots; i++)	/* two of one hash */
		if (!strcmp(c->slots[i]->r.uuid, uuid))
			return c->slots[i];
	return NULL;
}

static struct slot *slot_of(struct core *c, const char *uuid)
{
	struct slot *s = core_slot(c, uuid);
	if (s)
		return s;
	s = alloc_zero(sizeof *s);
	s->number = (uint32_t)c->n_slots;
	s->changed = true;
	snprintf(s->r.uuid, sizeof s->r.uuid, "%s", uuid);
	s->energy_j = NAN;
	s->low_mib[0] = s->low_mib[1] = UINT64_MAX;
	s->window = window_create(&c->config.window);
	alloc_grow(c->slots, c->n_slots, c->cap_slots);
	c->slots[c->n_slots++] = s;
	if (!idmap_get(&c->by_uuid, core_hash(uuid)))
		idmap_put(&c->by_uuid, core_hash(uuid), s);
	return s;
}

struct run *core_run(const struct core *c, task_id id)
{
	return idmap_get(&c->runs, id);
}

bool core_slot_stale(const struct core *c, const struct slot *s, int64_t mono_ms)
{
	bool old = !c->config.readings_hold && mono_ms - s->read_ms > c->config.stale_ms;
	return !s->in_snapshot || s->r.fallen || old;
}

uint64_t core_low_water(const struct slot *s)
{
	return s->low_mib[0] < s->low_mib[1] ? s->low_mib[0] : s->low_mib[1];
}

/* What was measured --------------------------------------------------------------------------------------------------- */

static struct slot_seen *seen_of(struct slot *s, task_id task)
{
	for (size_t i = 0; i < s->n_seen; i++)
		if (s->seen[i].task == task)
			return &s->seen[i];
	return NULL;
}

/* `stood`: the reading is not of this moment alone, it was so since the one before. */
static void note_low_water(struct slot *s, int64_t mono_ms, bool stood)
{
	const unsigned needed = GPU_MEM_TOTAL | GPU_MEM_USED;
	if ((s->r.valid & needed) != needed || s->r.mem_used_mib > s->r.mem_total_mib)
		return;
	uint64_t free_mib = s->r.mem_total_mib - s->r.mem_used_mib;
	int64_t interval = mono_ms / LOW_WATER_MS;
	if (interval != s->low_interval) {
		s->low_mib[0] = interval == s->low_interval + 1 ? s->low_mib[1] : stood ? free_mib : UINT64_MAX;
		s->low_mib[1] = UINT64_MAX;
		s->low_interval = interval;
	}
	if (free_mib < s->low_mib[1])
		s->low_mib[1] = free_mib;
}

/* Energy of one GPU since the last sample of that attempt, in equal parts among those present. */
static double energy_part(const struct core *c, const struct slot *s, const struct run *r, struct now now)
{
	double energy_j = NAN;
	if (c->config.readings_hold && s->r.valid & GPU_POWER)
		energy_j = s->r.power_w * (double)(now.mono_ms - r->meter.last_ms) / 1000;
	else if (s->r.valid & GPU_ENERGY)
		energy_j = s->r.energy_j - s->energy_j;
	return energy_j / (double)s->n_runs;
}

static void note_warm(struct core *c, struct run *r, bool active, struct now now)
{
	if (active && !r->active_since_ms)
		r->active_since_ms = now.mono_ms;
	if (r->warm || !r->active_since_ms || now.mono_ms - r->active_since_ms < c->config.warm_ms ||
	    now.mono_ms - r->placed_ms < c->config.window.span_ms)
		return;
	r->warm = c->dirty = true;
	for (unsigned i = 0; i < r->n_slots; i++)
		c->slots[r->slots[i]]->changed = true;
}

/* One sample of one attempt, over all its GPUs. */
static void meter_run(struct core *c, struct run *r, struct now now)
{
	struct meter_sample m = { .mono_ms = now.mono_ms, .mem_known = true, .smact = 0, .energy_j = 0, .alone = true,
				  .speed = 1 };
	unsigned smact_seen = 0, gract_seen = 0;
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = c->slots[r->slots[i]];
		const struct slot_seen *seen = seen_of(s, r->t->id);
		if (s->r.valid & GPU_SMACT)
			m.smact += s->r.smact, smact_seen++;
		if (s->r.valid & GPU_GRACT)
			m.gract += s->r.gract, gract_seen++;
		if (!(s->r.valid & GPU_PROC_MEM))
			m.mem_known = false;
		else if (seen && seen->mib > m.mem_mib)
			m.mem_mib = seen->mib;
		m.alone = m.alone && s->n_runs == 1 && s->foreign_mib <= MAP_FOREIGN_MIB;
		m.active = m.active || seen || !(s->r.valid & GPU_PROCS);
		m.energy_j += energy_part(c, s, r, now);
		m.speed = fmin(m.speed, core_speed(c, s, r, now));
	}
	m.smact = smact_seen ? m.smact / smact_seen : NAN;
	m.gract = gract_seen ? m.gract / gract_seen : NAN;
	meter_add(&r->meter, &m);
	note_warm(c, r, m.active, now);
}

void core_hold_slot(struct core *c, struct slot *s, struct now now)
{
	if (!c->config.readings_hold || !s->in_snapshot)
		return;
	window_add_span(s->window, now.mono_ms, &s->r);
	note_low_water(s, now.mono_ms, true);
	for (size_t i = 0; i < s->n_runs; i++)
		meter_run(c, s->runs[i], now);
}

/* Attempts come and go ------------------------------------------------------------------------------------------------ */

/* What runs of its signature were seen to do alone on such a GPU. */
static struct load expected_load(const struct core *c, const struct slot *s, const struct task *t)
{
	struct share_task l = core_known_load(c, t, s->r.name);
	return (struct load){ isfinite(l.gract) ? l.gract : UNKNOWN_LOAD, isfinite(l.smact) ? l.smact : UNKNOWN_LOAD, true, true };
}

static void slot_join(struct core *c, struct slot *s, struct run *r, struct now now)
{
	const struct attempt *a = task_attempt(r->t);
	bool for_life = r->t->estimate.enforced_for_life || a->fenced;
	core_hold_slot(c, s, now);
	s->changed = true;
	alloc_grow(s->runs, s->n_runs, s->cap_runs);
	s->runs[s->n_runs++] = r;
	for (size_t i = 0; s->n_runs > 1 && i < s->n_runs; i++)
		s->runs[i]->had_neighbours = true;
	ledger_enter(&s->ledger, r->t->id, a->claim_mib, for_life, r->unknown);
	window_change(s->window, now.mono_ms, expected_load(c, s, r->t));
}

struct run *core_attach(struct core *c, struct task *t, struct now now)
{
	const struct attempt *a = task_attempt(t);
	struct run *r = alloc_zero(sizeof *r);
	r->t = t;
	r->placed_ms = now.mono_ms;
	r->unknown = !t->estimate.claim_mib && !t->claim_floor_mib;
	for (uint32_t i = 0; i < a->n_gpus; i++)
		r->slots[r->n_slots++] = slot_of(c, a->gpus[i])->number;
	r->known = core_known_load(c, t, c->slots[r->slots[0]]->r.name);
	/* After a restart what was measured counts on; the log's last event tells until when. */
	if (a->seen.peak_mib) {
		meter_resume(&r->meter, &a->seen, t->booked_until_ms - a->start_ms);
		r->warm = a->seen.warm;
	}
	r->noted_ms = now.mono_ms;
	idmap_put(&c->runs, t->id, r);
	for (unsigned i = 0; i < r->n_slots; i++)
		slot_join(c, c->slots[r->slots[i]], r, now);
	if (c->config.readings_hold)
		meter_run(c, r, now);	/* from here on it is measured */
	return r;
}

void core_touch(struct core *c, const struct task *t)
{
	const struct run *r = core_run(c, t->id);
	for (unsigned i = 0; r && i < r->n_slots; i++)
		c->slots[r->slots[i]]->changed = true;
}

static void slot_leave(struct core *c, struct slot *s, struct run *r, struct now now)
{
	core_hold_slot(c, s, now);
	struct load l = window_load(s->window);
	double n = (double)s->n_runs;
	s->changed = true;
	for (size_t i = 0; i < s->n_runs; i++) {
		if (s->runs[i] != r)
			continue;
		s->runs[i] = s->runs[--s->n_runs];
		/* What it took is not known one by one: an equal part of what all took. */
		window_change(s->window, now.mono_ms, (struct load){ -l.gract / n, -l.smact / n, l.gract_known, l.smact_known });
		ledger_exited(&s->ledger, r->t->id, now.mono_ms);
		return;
	}
}

void core_detach(struct core *c, struct run *r, struct now now)
{
	for (unsigned i = 0; i < r->n_slots; i++)
		slot_leave(c, c->slots[r->slots[i]], r, now);
}

/* Snapshots ----------------------------------------------------------------------------------------------------------- */

static void note_model(struct core *c, const char *name)
{
	if (!*name)
		return;
	if (!*c->gpu_name)
		snprintf(c->gpu_name, sizeof c->gpu_name, "%s", name);
	else if (strcmp(c->gpu_name, name))
		c->gpus_differ = true;
}

static struct slot *read_slot(struct core *c, const struct gpu_reading *g, struct now now)
{
	struct slot *s = slot_of(c, g->uuid);
	core_hold_slot(c, s, now);
	s->r = *g;
	s->in_snapshot = s->changed = true;
	s->n_seen = s->n_procs = 0;
	s->foreign_mib = s->mps_mib = 0;
	if (g->fallen)
		return s;
	note_model(c, g->name);
	s->read_ms = now.mono_ms;
	window_add(s->window, now.mono_ms, g);
	note_low_water(s, now.mono_ms, false);
	if (g->valid & GPU_MEM_TOTAL) {
		uint64_t capacity = g->mem_total_mib - (g->valid & GPU_MEM_RESERVED ? g->mem_reserved_mib : 0);
		if (capacity > c->largest_gpu_mib)
			c->largest_gpu_mib = capacity;
	}
	return s;
}

/* Books a process to the task that holds memory for it, to the MPS server, or to foreigners. */
static void read_process(struct core *c, struct slot *s, const struct proc_reading *p)
{
	task_id owner = p->mps_server ? 0 : c->ops.owner ? c->ops.owner(c->ops.ctx, p) : p->claimed;
	bool ours = owner && ledger_find(&s->ledger, owner);
	alloc_grow(s->procs, s->n_procs, s->cap_procs);
	s->procs[s->n_procs] = *p;
	s->procs[s->n_procs++].claimed = ours ? owner : 0;
	if (p->mps_server) {
		s->mps_mib += p->mem_mib;
	} else if (!ours) {
		s->foreign_mib += p->mem_mib;
	} else {
		struct slot_seen *seen = seen_of(s, owner);
		if (!seen) {
			alloc_grow(s->seen, s->n_seen, s->cap_seen);
			seen = &s->seen[s->n_seen++];
			*seen = (struct slot_seen){ .task = owner };
		}
		seen->mib += p->mem_mib;
		seen->procs++;
	}
}

static bool is_present(task_id task, void *ctx)
{
	return seen_of(ctx, task) != NULL;
}

static void update_ledger(struct core *c, struct slot *s, int64_t begun_ms)
{
	bool mem_known = s->r.valid & GPU_PROC_MEM, procs_known = s->r.valid & GPU_PROCS;
	if (s->r.valid & GPU_MEM_TOTAL)
		ledger_reading(&s->ledger, s->r.mem_total_mib, s->r.valid & GPU_MEM_RESERVED ? s->r.mem_reserved_mib : 0,
			       s->r.mem_used_mib, s->r.valid & GPU_MEM_USED, s->mps_mib, mem_known ? s->foreign_mib : 0, mem_known);
	for (size_t i = 0; mem_known && i < s->n_seen; i++) {
		const struct run *r = core_run(c, s->seen[i].task);
		ledger_observe(&s->ledger, s->seen[i].task, s->seen[i].mib, r && r->warm);
	}
	/* Where processes cannot be listed, a hold may only go when the memory of the GPU as a whole came back; that needs no
	 * rule of its own: with no process known to be there, used memory counts as foreign. */
	if (ledger_settle(&s->ledger, begun_ms, procs_known ? is_present : NULL, s))
		c->dirty = true;
}

#define NOTE_EVERY_MS 60000

/* Once a minute what was measured goes into the log, so that a restart does not forget it. */
static void note_measured(struct core *c, struct run *r, struct now now)
{
	if (now.mono_ms - r->noted_ms < NOTE_EVERY_MS || !r->meter.last_ms)
		return;
	struct event ev = { .kind = EV_MEASURED, .t_ms = now.wall_ms, .u.measured = core_measured(c, r) };
	r->noted_ms = now.mono_ms;
	core_emit(c, r->t, &ev);
}

static void meter_all(struct core *c, struct now now)
{
	size_t at = 0;
	for (struct run *r; (r = idmap_next(&c->runs, &at));)
		if (!r->exited) {
			meter_run(c, r, now);
			note_measured(c, r, now);
		}
}

/* Where readings hold, the meters came up to now before the reading changed: what is new is who is there. */
static void note_arrivals(struct core *c, struct slot *s, struct now now)
{
	for (size_t i = 0; i < s->n_runs; i++)
		note_warm(c, s->runs[i], seen_of(s, s->runs[i]->t->id), now);
}

void core_snapshot(struct core *c, const struct snapshot *snap, bool mps, struct now now)
{
	bool hold = c->config.readings_hold;
	for (size_t i = 0; i < c->n_slots && (!hold || mps != c->mps); i++) {
		c->slots[i]->in_snapshot &= hold;
		c->slots[i]->changed |= !hold || mps != c->mps;
	}
	c->mps = mps;
	if (c->cap_read < snap->n_gpus)
		c->read = alloc_resize(c->read, c->cap_read = snap->n_gpus, sizeof *c->read);
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		c->read[i] = read_slot(c, &snap->gpus[i], now)->number;
	for (uint32_t i = 0; i < snap->n_procs; i++)
		if (snap->procs[i].gpu < snap->n_gpus)
			read_process(c, c->slots[c->read[snap->procs[i].gpu]], &snap->procs[i]);
	if (!hold)
		meter_all(c, now);
	for (uint32_t i = 0; i < snap->n_gpus; i++) {
		struct slot *s = c->slots[c->read[i]];
		if (s->r.fallen)
			continue;
		if (hold)
			note_arrivals(c, s, now);
		update_ledger(c, s, snap->mono_ms);
		if (!s->n_runs && !s->n_procs && s->r.valid & GPU_PROCS)
			window_idle(s->window);
		s->energy_j = s->r.valid & GPU_ENERGY ? s->r.energy_j : NAN;
	}
	c->snapshot_seen = c->dirty = true;
}

struct measured core_measured(const struct core *c, const struct run *r)
{
	struct measured m = meter_read(&r->meter, c->config.warm_ms);
	m.warm = r->warm;
	return m;
}

/* Requests about GPUs ------------------------------------------------------------------------------------------------- */

size_t core_gpu_count(const struct core *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n_slots; i++)
		n += c->slots[i]->in_snapshot;
	return n;
}

void core_drain(struct core *c, const char *uuid, bool drained)
{
	struct slot *s = slot_of(c, uuid);
	s->drained = drained;
	s->changed = true;
	if (drained && s->kept_for)
		core_give_up(c, s->kept_for);
	c->dirty = true;
}

const char *core_find_gpu(const struct core *c, const char *word, struct error *err)
{
	const struct slot *found = NULL;
	bool number = *word && strspn(word, "0123456789") == strlen(word);
	for (size_t i = 0; i < c->n_slots; i++) {
		const struct slot *s = c->slots[i];
		bool match = number ? s->in_snapshot && !s->r.mig && s->r.index == strtoul(word, NULL, 10)
				    : *word && !strncmp(s->r.uuid, word, strlen(word));
		if (match && found) {
			error_set(err, ERR_INVALID, "GPU '%.60s': several UUIDs begin so; write more of it", word);
			return NULL;
		}
		if (match)
			found = s;
	}
	if (!found)
		error_set(err, ERR_NOT_FOUND, "GPU '%.60s': there is none; 'rad gpus -v' lists them by index and UUID, and MIG "
			  "instances go by their UUID", word);
	return found ? found->r.uuid : NULL;
}

size_t core_task_gpus(const struct core *c, task_id id, struct core_gpu_ref out[SPEC_MAX_GPUS])
{
	const struct run *r = core_run(c, id);
	for (unsigned i = 0; r && i < r->n_slots; i++) {
		const struct gpu_reading *g = &c->slots[r->slots[i]]->r;
		out[i] = (struct core_gpu_ref){ g->uuid, g->index, g->mig };
	}
	return r ? r->n_slots : 0;
}

static int by_index(const void *a, const void *b)
{
	const struct slot *const *x = a, *const *y = b;
	return ((*x)->r.index > (*y)->r.index) - ((*x)->r.index < (*y)->r.index);
}

void core_mps_gpus(const struct core *c, struct buf *out)
{
	scoped_free struct slot **list = alloc_zero((c->n_slots + 1) * sizeof *list);
	size_t n = 0;
	for (size_t i = 0; i < c->n_slots; i++) {
		struct slot *s = c->slots[i];
		if (s->in_snapshot && s->r.mps_capable && !s->r.mig && !s->r.fallen)
			list[n++] = s;
	}
	qsort(list, n, sizeof *list, by_index);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%s", i ? "," : "", list[i]->r.uuid);
}

unsigned core_mps_clients(const struct core *c, const char *gpu_uuid, uid_t *uid)
{
	const struct slot *s = core_slot(c, gpu_uuid);
	unsigned n = 0;
	for (size_t i = 0; s && i < s->n_runs; i++)
		if (task_attempt(s->runs[i]->t)->mode == SHARE_MPS) {
			*uid = s->runs[i]->t->spec->uid;
			n++;
		}
	return n;
}
