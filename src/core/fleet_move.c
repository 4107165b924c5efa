/* SPDX-License-Identifier: MIT
 *
 * Attempts whose processes are on other GPUs than they were given: a script that sets CUDA_VISIBLE_DEVICES itself, or a helper
 * that takes a context on every GPU. They are booked where they are, so that nobody is placed on top of them unaware and what
 * they were given and leave alone serves others.
 *
 * Slowly, since a wrong booking costs more than waiting: a GPU is taken in after some samples with a process there (until then
 * that counts as foreign), and one is given up only for one that was taken instead, once no process was there for as long as it
 * takes to be believed warm: it may come back. While a GPU that it was given stands unused, one taken instead of it has the
 * whole claim held; one beyond the number it asked for, only what is seen there.
 *
 * A task that wanders for ever is booked where it was last: each move is an event, and a log of those would have no end.
 */
#include "core/fleet_private.h"

#include <string.h>

#define SURE_SAMPLES 3
#define RELEASE_LEAST_MS 1000
#define MOVES_MOST 20

bool fleet_is_guest(const struct slot *s, const struct run *r)
{
	const struct attempt *a = task_attempt(r->t);
	for (uint32_t i = 0; i < a->n_given; i++)
		if (!strcmp(a->given[i], s->r.uuid))
			return false;
	return a->given;
}

/* Eight GPUs at a time: a process that opens a context on every GPU of a large machine is noticed on those first, and on the
 * others once these are booked. */
void fleet_note_astray(struct run *r, const struct slot *s)
{
	unsigned i = 0;
	while (i < r->n_astray && r->astray[i].slot != s->number)
		i++;
	if (i == ASTRAY_MOST)
		return;
	if (i == r->n_astray)
		r->astray[r->n_astray++] = (struct astray){ .slot = s->number };
	r->astray[i].here = true;
}

/* Else it stands where it was given, and nobody looks further. */
static bool has_places_to_find(const struct run *r)
{
	return r->n_astray || r->n_slots > r->t->gpus;
}

/* Where processes cannot be listed, one may be there. */
static bool may_be_there(const struct slot *s)
{
	return !s->in_snapshot || s->r.fallen || !(s->r.valid & GPU_PROCS);
}

/* A sample in which it was not seen there begins the count anew, since `here` is set by each snapshot before this is
 * called. */
void fleet_note_places(struct fleet *f, struct run *r, struct now now)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < r->n_astray; i++) {
		struct astray a = r->astray[i];
		a.samples++;
		if (a.here)
			r->astray[kept++] = (struct astray){ a.slot, a.samples, false };
	}
	r->n_astray = kept;
	f->may_move = f->may_move || has_places_to_find(r);
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = f->slots[r->slots[i]];
		bool seen = fleet_seen(s, r->t->id);
		r->was_used[i] = r->was_used[i] || seen;
		if (seen || may_be_there(s))
			r->used_ms[i] = now.mono_ms;
	}
}

static int64_t release_ms(const struct fleet *f)
{
	return f->config->warm_ms > RELEASE_LEAST_MS ? f->config->warm_ms : RELEASE_LEAST_MS;
}

/* What it is to hold: places of its slots that stay, and slots that come. */
struct places {
	uint32_t slots[SPEC_MAX_GPUS];
	bool given[SPEC_MAX_GPUS], used[SPEC_MAX_GPUS];
	int64_t used_ms[SPEC_MAX_GPUS];
	unsigned n;
	bool changed;
};

static void places_add(struct places *p, const struct fleet *f, const struct run *r, uint32_t slot, bool used, int64_t used_ms)
{
	p->slots[p->n] = slot;
	p->given[p->n] = !task_attempt(r->t)->given || !fleet_is_guest(f->slots[slot], r);
	p->used[p->n] = used;
	p->used_ms[p->n++] = used_ms;
}

static void places_list(struct places *p, const struct fleet *f, const struct run *r, struct now now)
{
	p->n = 0;
	p->changed = false;
	for (unsigned i = 0; i < r->n_slots; i++)
		places_add(p, f, r, r->slots[i], r->was_used[i], r->used_ms[i]);
	for (unsigned i = 0; i < r->n_astray && p->n < SPEC_MAX_GPUS; i++) {
		if (r->astray[i].samples < SURE_SAMPLES)
			continue;
		places_add(p, f, r, r->astray[i].slot, true, now.mono_ms);
		p->given[p->n - 1] = task_attempt(r->t)->given && p->given[p->n - 1];	/* not yet moved: it was given others */
		p->changed = true;
	}
}

/* Those that were left alone longest go, as long as it keeps as many as it asked for. */
static void places_release(struct places *p, const struct fleet *f, const struct run *r, struct now now)
{
	while (p->n > r->t->gpus) {
		unsigned oldest = 0;
		for (unsigned i = 1; i < p->n; i++)
			if (p->used_ms[i] < p->used_ms[oldest])
				oldest = i;
		if (now.mono_ms - p->used_ms[oldest] < release_ms(f))
			return;
		p->n--;
		p->slots[oldest] = p->slots[p->n];
		p->given[oldest] = p->given[p->n];
		p->used[oldest] = p->used[p->n];
		p->used_ms[oldest] = p->used_ms[p->n];
		p->changed = true;
	}
}

/* Those with the whole claim first: what it was given, and what it took for given ones that it does not use. */
static void places_tell(const struct places *p, const struct fleet *f, const struct run *r, struct fleet_move *out)
{
	unsigned served = 0, whole = 0;
	*out = (struct fleet_move){ .n_gpus = p->n };
	for (unsigned i = 0; i < p->n; i++)
		served += p->given[i] && p->used[i];
	for (unsigned i = 0; i < p->n; i++)
		if (p->given[i])
			out->gpus[whole++] = f->slots[p->slots[i]]->r.uuid;
	unsigned at = whole;
	for (unsigned i = 0; i < p->n; i++) {
		if (p->given[i])
			continue;
		out->gpus[at++] = f->slots[p->slots[i]]->r.uuid;
		out->n_extra += served >= r->t->gpus;
		served++;
	}
}

/* One that ends anyway is not booked anew. */
static bool places_find(const struct fleet *f, const struct run *r, struct now now, struct fleet_move *out)
{
	struct places p;
	if (r->t->stopping || task_attempt(r->t)->n_moves >= MOVES_MOST || !has_places_to_find(r))
		return false;
	places_list(&p, f, r, now);
	places_release(&p, f, r, now);
	if (p.changed)
		places_tell(&p, f, r, out);
	return p.changed;
}

task_id fleet_next_move(const struct fleet *f, struct now now, struct fleet_move *out)
{
	size_t at = 0;
	for (const struct run *r; f->may_move && (r = idmap_next(&f->runs, &at));)
		if (places_find(f, r, now, out))
			return r->t->id;
	return 0;
}

static int place_of(const struct run *r, uint32_t slot)
{
	for (unsigned i = 0; i < r->n_slots; i++)
		if (r->slots[i] == slot)
			return (int)i;
	return -1;
}

/* By the record, which EV_MOVED has changed, so that a log that is played back comes to the same. What its GPUs showed so far
 * is of the tasks that were there, so it is taken in first, on those that it stays on too: a run of one GPU and one of several
 * are not the same to inference. It joins before it leaves, and its user takes before he gives back: on the way the attempt is
 * nowhere without a GPU, and he never without a task. */
void fleet_moved(struct fleet *f, const struct task *t, struct now now)
{
	const struct attempt *a = task_attempt(t);
	struct run *r = fleet_run(f, t->id), before = *r;
	for (unsigned i = 0; i < r->n_slots; i++) {
		fleet_advance(f, f->slots[r->slots[i]], now);
		fleet_infer_end_span(f, f->slots[r->slots[i]], now);
	}
	r->n_slots = 0;
	r->took_ms = now.mono_ms;
	for (uint32_t i = 0; i < a->n_gpus; i++) {
		struct slot *s = fleet_take_slot(f, a->gpus[i]);
		int was = place_of(&before, s->number);
		fleet_join(f, s, r, i + a->n_extra >= a->n_gpus, now);
		r->used_ms[r->n_slots] = was < 0 ? now.mono_ms : before.used_ms[was];
		r->was_used[r->n_slots] = was < 0 || before.was_used[was];
		r->slots[r->n_slots++] = s->number;
	}
	for (unsigned i = 0; i < before.n_slots; i++)
		if (place_of(r, before.slots[i]) < 0)
			fleet_leave(f, f->slots[before.slots[i]], r, now);
	/* In this order: who has no task has no part in any GPU. */
	fair_take(f->fair, t->spec->uid, 1, fleet_taken_by(r), now.mono_ms);
	fair_take(f->fair, t->spec->uid, -1, fleet_taken_by(&before), now.mono_ms);
	r->n_astray = 0;
}
