/* SPDX-License-Identifier: MIT
 *
 * Snapshots. Where readings are samples, a snapshot lists every GPU, and one that it does not list has gone; where readings
 * stand it lists those that changed. Meters come after all processes were booked, since an attempt of several GPUs is metered
 * over all of them, and ledgers after that, since whoever became warm is believed from this snapshot on.
 *
 * What a snapshot does not say is unknown, and unknown is not zero: without a list of processes every task counts as active,
 * without their memory no entry of a ledger falls below its claim, and a GPU that has fallen off the bus keeps what it said
 * last.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"
#include "base/least.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void note_model(struct fleet *f, const char *name)
{
	if (!*name)
		return;
	if (!*f->model)
		snprintf(f->model, sizeof f->model, "%s", name);
	else if (strcmp(f->model, name))
		f->models_differ = true;
}

/* The largest ever: claims are cut to it (decision 11), and a GPU that is away for a moment must not make a task
 * infeasible. */
static void note_capacity(struct fleet *f, const struct gpu_reading *g)
{
	if (!(g->valid & GPU_MEM_TOTAL))
		return;
	uint64_t capacity = less_or_zero(g->mem_total_mib, g->valid & GPU_MEM_RESERVED ? g->mem_reserved_mib : 0);
	if (capacity > f->largest_mib)
		f->largest_mib = capacity;
}

/* A sampler lists GPUs in one order, so the nth is mostly the one that it was last: to compare costs less than to look up. */
static struct slot *find_again(struct fleet *f, uint32_t nth, const char *uuid)
{
	struct slot *s = nth < f->n_reading ? f->slots[f->reading[nth]] : NULL;
	return s && !strcmp(s->r.uuid, uuid) ? s : fleet_take_slot(f, uuid);
}

/* What was so up to now is summed up before the reading is overwritten. A GPU that has fallen keeps its old readings: what they
 * said of memory is still held by the ledger. */
static struct slot *fleet_read_slot(struct fleet *f, uint32_t nth, const struct gpu_reading *g, struct now now)
{
	struct slot *s = find_again(f, nth, g->uuid);
	fleet_advance(f, s, now);
	fleet_touch_read(f, s);
	f->n_present += !s->in_snapshot;
	s->r = *g;
	s->in_snapshot = true;
	s->n_seen = s->n_procs = 0;
	s->foreign_mib = s->mps_mib = 0;
	if (g->fallen)
		return s;
	note_model(f, g->name);
	note_capacity(f, g);
	s->read_ms = now.mono_ms;
	window_add(s->window, now.mono_ms, g);
	fleet_note_low_water(s, now.mono_ms, false);
	return s;
}

/* Several processes of a task on one GPU (ranks) add up. */
static void fleet_note_seen(struct slot *s, task_id owner, uint64_t mib)
{
	struct slot_seen *seen = fleet_seen(s, owner);
	if (!seen) {
		alloc_grow(s->seen, s->n_seen, s->cap_seen);
		seen = &s->seen[s->n_seen++];
		*seen = (struct slot_seen){ .task = owner };
	}
	seen->mib += mib;
}

/* Books a process to the task that has a claim there, to the MPS server, or to foreigners; one of a task that runs elsewhere to
 * them too, until it is sure that the task has moved. */
static void fleet_read_process(struct fleet *f, struct slot *s, const struct proc_reading *p)
{
	task_id owner = p->mps_server ? 0 : f->ops.owner(f->ops.ctx, p);
	struct run *run = owner ? fleet_run(f, owner) : NULL;
	bool ours = owner && ledger_find(&s->ledger, owner);
	alloc_grow(s->procs, s->n_procs, s->cap_procs);
	s->procs[s->n_procs] = *p;
	s->procs[s->n_procs++].claimed = ours || run ? owner : 0;
	if (!ours && run)
		fleet_note_astray(run, s);
	if (p->mps_server)
		s->mps_mib += p->mem_mib;
	else if (ours)
		fleet_note_seen(s, owner, p->mem_mib);
	else
		s->foreign_mib += p->mem_mib;
}

static bool is_present(task_id task, void *ctx)
{
	return fleet_seen(ctx, task) != NULL;
}

static void fleet_update_ledger(struct fleet *f, struct slot *s, int64_t begun_ms)
{
	bool mem_known = s->r.valid & GPU_PROC_MEM, procs_known = s->r.valid & GPU_PROCS;
	if (s->r.valid & GPU_MEM_TOTAL)
		ledger_read(&s->ledger, &(struct ledger_reading){
			.total_mib = s->r.mem_total_mib, .reserved_mib = s->r.valid & GPU_MEM_RESERVED ? s->r.mem_reserved_mib : 0,
			.used_mib = s->r.mem_used_mib, .used_known = s->r.valid & GPU_MEM_USED, .mps_mib = s->mps_mib,
			.foreign_seen_mib = mem_known ? s->foreign_mib : 0, .proc_mem_known = mem_known });
	for (size_t i = 0; mem_known && i < s->n_seen; i++) {
		const struct run *r = fleet_run(f, s->seen[i].task);
		ledger_observe(&s->ledger, s->seen[i].task, s->seen[i].mib, r && r->warm);
	}
	/* Where processes cannot be listed, an entry may only go when the memory of the GPU as a whole came back; that needs no
	 * rule of its own: with no process known to be there, used memory counts as foreign. */
	ledger_settle(&s->ledger, begun_ms, procs_known ? is_present : NULL, s);
	if (s->n_others || s->ledger.claimed_mib)
		fleet_count_others(s);
}

/* Where readings stand, the meters came up to now before the reading changed: what is new is who is there. */
static void note_arrivals(struct fleet *f, struct slot *s, struct now now)
{
	for (size_t i = 0; i < s->n_runs; i++)
		fleet_note_warm(f, s->runs[i], fleet_seen(s, s->runs[i]->t->id), s->r.valid & GPU_PROC_MEM, now);
}

static void fleet_meter_all(struct fleet *f, struct now now)
{
	size_t at = 0;
	f->may_move = false;
	for (struct run *r; (r = idmap_next(&f->runs, &at));) {
		fleet_meter_run(f, r, now);
		fleet_note_places(f, r, now);
	}
}

/* Every GPU that this snapshot does not list has gone; all have changed where what MPS servers can be had did. */
static void forget_snapshot(struct fleet *f, enum core_mps mps)
{
	if (mps != f->mps)
		fleet_touch_all(f);
	f->mps = mps;
	if (f->config->readings_stand)
		return;
	f->n_present = 0;
	for (size_t i = 0; i < f->n_slots; i++) {
		f->slots[i]->in_snapshot = false;
		fleet_touch_read(f, f->slots[i]);
	}
}

/* An idle GPU that has never been measured has a known load: none. */
static void fleet_conclude_slot(struct fleet *f, struct slot *s, const struct snapshot *snap, struct now now)
{
	if (s->r.fallen)
		return;
	if (f->config->readings_stand)
		note_arrivals(f, s, now);
	else
		fleet_infer_sample(f, s, now);
	fleet_update_ledger(f, s, snap->mono_ms);
	if (!s->n_runs && !s->n_procs && s->r.valid & GPU_PROCS)
		window_idle(s->window);
	s->energy_j = s->r.valid & GPU_ENERGY ? s->r.energy_j : NAN;
	if (s->r.valid & GPU_POWER && s->r.power_w > 0 && (s->idle_w <= 0 || s->r.power_w < s->idle_w))
		s->idle_w = s->r.power_w;
}

/* Each step needs all of the one before it, over all GPUs: the slots are there before processes are booked to them, processes
 * before meters, meters before ledgers. f->reading holds the slot of each GPU of this snapshot, so that nobody looks for it
 * again. */
void fleet_read(struct fleet *f, const struct snapshot *snap, enum core_mps mps, struct now now)
{
	forget_snapshot(f, mps);
	if (f->cap_reading < snap->n_gpus)
		f->reading = alloc_resize(f->reading, f->cap_reading = snap->n_gpus, sizeof *f->reading);
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		f->reading[i] = fleet_read_slot(f, i, &snap->gpus[i], now)->number;
	f->n_reading = snap->n_gpus;
	f->n_unused = snap->n_others;
	for (uint32_t i = 0; i < snap->n_procs; i++)
		if (snap->procs[i].gpu < snap->n_gpus)
			fleet_read_process(f, f->slots[f->reading[snap->procs[i].gpu]], &snap->procs[i]);
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		fleet_note_unlisted(f->slots[f->reading[i]]);
	if (!f->config->readings_stand)
		fleet_meter_all(f, now);
	for (uint32_t i = 0; i < snap->n_gpus; i++)
		fleet_conclude_slot(f, f->slots[f->reading[i]], snap, now);
	if (!f->config->readings_stand)
		fleet_note_idle(f, now);
	f->was_read = true;
}
