/* SPDX-License-Identifier: MIT
 *
 * The slots as placement sees them, and their versions. Whatever may have changed a slot's look puts it into the list of
 * touched ones; when somebody asks, those are filled anew, and one that may answer a request otherwise than before gets the
 * next version of the fleet. So a pass costs what moved, not what exists: one end among a thousand GPUs is one slot, and a
 * sample in which loads change a little is none.
 *
 * Nobody compares fields by hand: looks are zeroed before they are filled and compared as memory, so a new field counts by
 * itself.
 */
#include "core/fleet_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A run that was to start alone is not joined before it is warm. */
static task_id alone_still(const struct slot *s)
{
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i]->t->exclusive_next && !s->runs[i]->warm)
			return s->runs[i]->t->id;
	return 0;
}

static uint64_t driver_available(const struct slot *s)
{
	const struct gpu_reading *g = &s->r;
	return g->valid & GPU_MEM_USED && g->mem_used_mib < g->mem_total_mib ? g->mem_total_mib - g->mem_used_mib : 0;
}

/* What stays when nothing runs there. */
static void look_at_device(const struct fleet *f, const struct slot *s, struct map_gpu *g)
{
	g->slot = s->number;
	g->index = s->r.index;
	g->uuid = s->r.uuid;
	g->name = s->r.name;
	g->mps_capable = s->r.mps_capable && f->mps;
	g->one_process = s->r.one_process;
	g->mps_together = fleet_mps_together(f, s);
	g->mig = s->r.mig;
	g->instance = s->r.instance;
}

/* What runs there, or others hold: all that a placement may be refused for as long as it lasts. kept_for: for a head, else
 * for a recovering task that must not be joined yet. */
static void look_at_room(const struct fleet *f, const struct slot *s, struct now now, struct map_gpu *g)
{
	struct ledger_room room = ledger_room(&s->ledger);
	g->available_mib = f->config->map.ledger ? room.available_mib : driver_available(s);
	g->total_mib = room.capacity_mib;
	g->usual_mib = f->usual_mib;
	g->usual_mean_mib = f->usual_mean_mib;
	g->foreign_mib = room.foreign_mib;
	g->claimed_mib = s->ledger.claimed_mib;
	g->load = window_load(s->window);
	g->drained = s->drained;
	g->stale = fleet_is_stale(f, s, now.mono_ms);
	g->settling = room.settling;
	g->kept_for = s->kept_for ? s->kept_for : alone_still(s);
	g->turn_task = s->turn_task;
	g->turn_uid = s->turn_uid;
	g->reserves = s->n_reserves ? s->reserves : NULL;
	g->n_reserves = (unsigned)s->n_reserves;
	g->reserves_version = s->n_reserves ? f->reserves_version : 0;
}

/* As those share it who were given it, `native`: one of them was seen before; a guest, or one that was adopted, does not say. A
 * guest that was to be alone bars it all the same. */
static void share_there(const struct slot *s, const struct run *r, bool first, bool *native, struct map_gpu *g)
{
	enum share_mode mode = task_attempt(r->t)->mode;
	int64_t server = fleet_mps_of(r);
	const struct spec *spec = r->t->spec;
	bool came = spec->process_pid && !spec->lease && !spec->announced;	/* it was there already */
	bool guest = fleet_is_guest(s, r) || came;
	if (first || mode == SHARE_NEVER || (g->mode != SHARE_NEVER && !guest))
		g->mode = mode;
	if (first || (!guest && !*native))
		g->mps_uid = server;
	else if (!guest && server != g->mps_uid)
		g->mps_uid = MAP_MPS_SEVERAL;
	*native = *native || !guest;
}

/* What it will take and do is known in seconds, when its capture is there; it is known too once it was seen. Not for longer: it
 * may load its data for hours. */
static bool still_captured(const struct fleet *f, const struct run *r, struct now now)
{
	return r->capture_comes && !r->warm && now.mono_ms - r->placed_ms < f->config->window.span_ms;
}

static void note_cold(struct map_gpu *g, const struct task *t)
{
	if (g->n_cold < MAP_COLD_MOST)
		g->cold[g->n_cold] = task_signature_key(t);
	g->n_cold++;
}

static void look_at_run(const struct fleet *f, const struct slot *s, const struct run *r, struct now now, bool *native,
			struct map_gpu *g)
{
	share_there(s, r, !g->n_tasks, native, g);
	g->n_tasks++;
	if (r->unknown && !r->warm && f->config->map.ledger)
		note_cold(g, r->t);
	g->has_multi_gpu = g->has_multi_gpu || r->n_slots > 1;
	g->capture_comes = g->capture_comes || still_captured(f, r, now);
	g->unseen = g->unseen || fleet_unseen(f, r, now);
	g->has_limit = g->has_limit || r->t->max_slowdown > 0;
}

static void look_at_runs(const struct fleet *f, const struct slot *s, struct now now, struct map_gpu *g)
{
	bool native = false;
	g->mps_uid = MAP_MPS_NONE;
	g->tenants = s->n_tenants == s->n_runs ? s->tenants : NULL;
	for (size_t k = 0; k < s->n_runs; k++)
		look_at_run(f, s, s->runs[k], now, &native, g);
}

/* Solved once where tenants change, not for each request that is asked of the slot. */
static double work_there(const struct map_gpu *was, const struct map_gpu *is, bool tenants_changed)
{
	if (!is->n_tasks)
		return 0;
	return !tenants_changed && was->work > 0 && was->mode == is->mode ? was->work : map_work(is);
}

static void unlink_slot(struct fleet *f, struct slot *s)
{
	if (s->newer)
		s->newer->older = s->older;
	else if (f->newest == s)
		f->newest = s->older;
	if (s->older)
		s->older->newer = s->newer;
	s->newer = s->older = NULL;
}

/* It moved: it goes before all others. */
static void move_slot(struct fleet *f, struct slot *s)
{
	unlink_slot(f, s);
	s->version = ++f->version;
	assert(!f->newest || f->newest->version < s->version);	/* fleet_moved_since stops at the first that is older */
	s->older = f->newest;
	if (s->older)
		s->older->newer = s;
	f->newest = s;
}

/* What others' chances hang on too: a claim is cut to what the largest GPUs have, and an n-GPU task needs n there that suit. */
static bool same_shape(const struct map_gpu *a, const struct map_gpu *b)
{
	return a->total_mib == b->total_mib && a->stale == b->stale && a->drained == b->drained && a->mig == b->mig &&
	       a->mps_capable == b->mps_capable;
}

static void look_anew(const struct fleet *f, const struct slot *s, bool tenants_changed, struct now now,
		      const struct map_gpu *was, struct map_gpu *g)
{
	memset(g, 0, sizeof *g);
	look_at_device(f, s, g);
	look_at_room(f, s, now, g);
	look_at_runs(f, s, now, g);
	g->work = f->predicts ? work_there(was, g, tenants_changed) : 0;
}

/* After nothing but a reading, those who run there look as before, and most of a look is of them; but for one that is unseen,
 * or whose capture is waited for, only for a time, and for loads that are predicted from what each sample shows. In builds with
 * checks the long way is gone too, and comes to the same. */
static bool look_again(const struct fleet *f, const struct slot *s, struct now now, const struct map_gpu *was,
		       struct map_gpu *g)
{
	if (s->touched_runs || was->unseen || was->capture_comes || f->predicts)
		return false;
	memcpy(g, was, sizeof *g);
	look_at_device(f, s, g);
	look_at_room(f, s, now, g);
#ifdef RAD_CHECKS
	struct map_gpu anew;
	look_anew(f, s, false, now, was, &anew);
	memcpy(&anew.load, &g->load, sizeof anew.load);	/* the same window's, but for bytes between its members */
	assert(!memcmp(g, &anew, sizeof anew));
#endif
	return true;
}

/* The heart of the versions (decision 70): the new look beside the old one. That a slot moved is what makes the pass go on,
 * so what every sample changes a little (a load within its limits, `work` that comes out the same) must not count, and
 * anything that may turn an answer must. */
static void fleet_fill_slot(struct fleet *f, struct slot *s, struct now now)
{
	assert(s->touched && s->number < f->n_gpus);
	struct map_gpu seen, *g = &f->gpus[s->number];
	bool tenants_changed = false, is_new = !s->version;
	if (!look_again(f, s, now, g, &seen)) {
		tenants_changed = fleet_fill_tenants(f, s, now);
		look_anew(f, s, tenants_changed, now, g, &seen);
	}
	s->touched = s->touched_runs = false;
	if (!seen.stale && !f->config->readings_stand && s->read_ms + f->config->stale_ms < f->stale_due_ms)
		f->stale_due_ms = s->read_ms + f->config->stale_ms;
	bool moved = is_new || tenants_changed || !map_answers_alike(&f->config->map, g, &seen);
	f->shape += moved && (is_new || !same_shape(g, &seen));
	memcpy(g, &seen, sizeof seen);
	if (moved)
		move_slot(f, s);
}

/* A slot goes stale by time alone: all are looked at again when the first of them may have. */
static void look_for_stale(struct fleet *f, struct now now)
{
	if (now.mono_ms <= f->stale_due_ms)
		return;
	f->stale_due_ms = INT64_MAX;
	fleet_touch_all(f);
}

/* New places are zeroed before they are filled, since the old look is compared with: `version` 0 says that there was none. */
const struct map_gpu *fleet_gpus(struct fleet *f, struct now now)
{
	if (f->cap_gpus < f->n_slots)
		f->gpus = alloc_resize(f->gpus, f->cap_gpus = f->cap_slots, sizeof *f->gpus);
	if (f->n_gpus < f->n_slots)
		memset(&f->gpus[f->n_gpus], 0, (f->n_slots - f->n_gpus) * sizeof *f->gpus);
	f->n_gpus = f->n_slots;
	f->predicts = fleet_predicts(f);
	look_for_stale(f, now);
	for (size_t i = 0; i < f->n_touched; i++)
		fleet_fill_slot(f, f->slots[f->touched[i]], now);
	f->n_touched = 0;
	return f->gpus;
}

static void look_without_entry(const struct fleet *f, const struct ledger_entry *e, struct map_gpu *g)
{
	uint64_t held = f->config->map.ledger ? ledger_held_of(e) : e->observed_mib;
	g->available_mib = g->available_mib + held < g->total_mib ? g->available_mib + held : g->total_mib;
}

/* As if those who ended had given their memory back. */
static void look_settled(const struct fleet *f, const struct slot *s, int64_t ended_ms, struct map_gpu *g)
{
	g->settling = false;
	for (size_t i = 0; i < s->ledger.n; i++) {
		const struct ledger_entry *e = &s->ledger.entries[i];
		if (e->exit_ms && e->exit_ms >= ended_ms)
			look_without_entry(f, e, g);
		else
			g->settling = g->settling || e->exit_ms;
	}
}

/* Its memory, and its part of the load as far as that is known; what was there for it alone is there for others. */
static void look_without(const struct fleet *f, const struct slot *s, const struct run *r, struct map_gpu *g)
{
	const struct ledger_entry *e = ledger_find(&s->ledger, r->t->id);
	struct share_task load = fleet_belief(f, r).load;
	if (e)
		look_without_entry(f, e, g);
	if (isfinite(load.smact))
		g->load.smact = fmax(g->load.smact - load.smact, 0);
	if (isfinite(load.gract))
		g->load.gract = fmax(g->load.gract - load.gract, 0);
	if (g->kept_for == r->t->id)
		g->kept_for = 0;
}

void fleet_gpu_without(const struct fleet *f, uint32_t slot, fleet_gone *gone, const void *ctx, int64_t ended_ms,
		       struct now now, struct map_tenant *tenants, struct map_gpu *out)
{
	const struct slot *s = f->slots[slot];
	bool native = false;
	memset(out, 0, sizeof *out);
	look_at_device(f, s, out);
	look_at_room(f, s, now, out);
	look_settled(f, s, ended_ms, out);
	out->mps_uid = MAP_MPS_NONE;
	for (size_t k = 0; k < s->n_runs; k++) {
		if (gone(ctx, s->runs[k]->t->id)) {
			look_without(f, s, s->runs[k], out);
			continue;
		}
		if (s->n_tenants == s->n_runs)
			tenants[out->n_tasks] = s->tenants[k];
		look_at_run(f, s, s->runs[k], now, &native, out);
	}
	out->tenants = out->n_tasks && s->n_tenants == s->n_runs ? tenants : NULL;
	if (!out->n_tasks)
		out->load = (struct load){ 0, 0, true, true };
	out->work = out->n_tasks && fleet_predicts(f) ? map_work(out) : 0;
}

size_t fleet_devices(const struct fleet *f, struct map_gpu *out)
{
	size_t n = 0;
	for (size_t i = 0; i < f->n_slots; i++) {
		if (!f->slots[i]->in_snapshot)
			continue;
		memset(&out[n], 0, sizeof out[n]);
		look_at_device(f, f->slots[i], &out[n]);
		out[n].total_mib = ledger_capacity(&f->slots[i]->ledger);
		out[n++].mps_uid = MAP_MPS_NONE;
	}
	return n;
}

size_t fleet_size(const struct fleet *f)
{
	return f->n_slots;
}

uint64_t fleet_version(const struct fleet *f)
{
	return f->version;
}

uint64_t fleet_shape(const struct fleet *f)
{
	return f->shape;
}

/* By the list in the order of versions, so it costs as many steps as slots moved, with a thousand of them too. */
size_t fleet_moved_since(const struct fleet *f, uint64_t version, uint32_t *slots)
{
	size_t n = 0;
	for (const struct slot *s = f->newest; s && s->version > version; s = s->older)
		slots[n++] = s->number;
	return n;
}

bool fleet_was_read(const struct fleet *f)
{
	return f->was_read;
}
