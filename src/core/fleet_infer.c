/* SPDX-License-Identifier: MIT
 * What each task on a GPU does alone, from what the GPU shows while several are there (share/infer.h), as far as nobody measured it.
 *
 * A span lasts as long as the same tasks are there. But a task does not compute from its first moment: it loads, builds, and
 * ends with a save. So what counts of a span is its longest steady stretch, from when every task has a process on the GPU: a
 * sample that differs by far from the stretch, as the ones after it do, begins another one.
 */
#include "core/fleet_private.h"

#include <math.h>
#include <string.h>

#define MOVED 0.10	/* SMACT: the level is another one */
#define LEAST_MS 3000	/* a shorter stretch says nothing */
#define AGAIN 1.5	/* as long again and half: inference is told of the longer mean */
#define RECENT (sizeof ((struct fleet_span *)0)->recent / sizeof(struct stretch))

/* Stretches ------------------------------------------------------------------------------------------------------------ */

static void stretch_add(struct stretch *to, const struct stretch *s)
{
	to->ms += s->ms;
	to->smact_ms += s->smact_ms;
	to->gract_ms += s->gract_ms, to->gract_seen_ms += s->gract_seen_ms;
	to->dram_ms += s->dram_ms, to->dram_seen_ms += s->dram_seen_ms;
}

static struct stretch stretch_of(const struct gpu_reading *r, double ms)
{
	bool gract = r->valid & GPU_GRACT && isfinite(r->gract), dram = r->valid & GPU_DRAM && isfinite(r->dram);
	return (struct stretch){ .ms = ms, .smact_ms = r->smact * ms, .gract_ms = gract ? r->gract * ms : 0,
				 .gract_seen_ms = gract ? ms : 0, .dram_ms = dram ? r->dram * ms : 0, .dram_seen_ms = dram ? ms : 0 };
}

static struct infer_reading stretch_mean(const struct stretch *s)
{
	return (struct infer_reading){ s->gract_seen_ms > 0 ? s->gract_ms / s->gract_seen_ms : NAN, s->smact_ms / s->ms,
				       s->dram_seen_ms > 0 ? s->dram_ms / s->dram_seen_ms : NAN, s->ms / 1000 };
}

static bool stretches_differ(const struct stretch *a, const struct stretch *b)
{
	return fabs(a->smact_ms / a->ms - b->smact_ms / b->ms) > MOVED;
}

/* The level has moved when none of the last samples was near that of the stretch: one odd sample is noise. They then begin the next
 * stretch. */
static bool span_moved(const struct fleet_span *p, double before_ms, const struct stretch *before)
{
	if (!(before_ms > 0))
		return false;
	for (size_t i = 0; i < RECENT; i++)
		if (!(p->recent[i].ms > 0) || !stretches_differ(&p->recent[i], before))
			return false;
	return true;
}

static void span_add(struct fleet_span *p, const struct stretch *one)
{
	memmove(&p->recent[1], &p->recent[0], (RECENT - 1) * sizeof p->recent[0]);
	p->recent[0] = *one;
	stretch_add(&p->lasts, one);
	struct stretch before = p->lasts, last = { 0 };
	for (size_t i = 0; i < RECENT; i++)
		stretch_add(&last, &p->recent[i]);
	before.ms -= last.ms, before.smact_ms -= last.smact_ms;
	before.gract_ms -= last.gract_ms, before.gract_seen_ms -= last.gract_seen_ms;
	before.dram_ms -= last.dram_ms, before.dram_seen_ms -= last.dram_seen_ms;
	if (!span_moved(p, before.ms, &before))
		return;
	if (before.ms > p->longest.ms)
		p->longest = before;
	p->lasts = last;
	memset(p->recent, 0, sizeof p->recent);
}

static const struct stretch *span_best(const struct fleet_span *p)
{
	return p->lasts.ms >= p->longest.ms ? &p->lasts : &p->longest;
}

/* How long a stretch must be for inference to be told of it. Where readings stand, a longer one says the same; it is told when
 * its GPU is looked at in any case, so that a simulation that jumps to that moment comes to the same as one that does not. */
static double span_due_ms(const struct fleet *f, const struct slot *s)
{
	if (!f->config->readings_stand)
		return fmax(LEAST_MS, s->span.told_ms * AGAIN);
	const struct window_config *w = &f->config->window;	/* as it settles in window.c */
	return s->span.told_ms > 0 ? INFINITY : fmax(fmin((double)w->settle_ms, (double)w->span_ms), 1);
}

static void span_tell(struct slot *s)
{
	const struct stretch *best = span_best(&s->span);
	struct infer_reading mean = stretch_mean(best);
	infer_span(s->infer, task_attempt(s->runs[0]->t)->mode, &mean);
	s->span.told_ms = best->ms;
}

/* Coming and going ----------------------------------------------------------------------------------------------------- */

static bool wants_inference(const struct fleet *f, const struct slot *s)
{
	if (s->n_runs < 2 || s->r.mig || (f->config->readings_stand && !fleet_predicts(f)))
		return false;
	for (size_t i = 0; i < s->n_runs; i++)
		if (fleet_belief(f, s->runs[i]).source != LOAD_MEASURED)
			return true;
	return false;
}

static void join_one(const struct fleet *f, struct infer *to, const struct run *r)
{
	struct load_belief b = fleet_belief(f, r);
	infer_join(to, r->t->id, &b);
}

void fleet_infer_join(const struct fleet *f, struct slot *s, const struct run *r)
{
	if (s->infer) {
		join_one(f, s->infer, r);
	} else if (wants_inference(f, s)) {
		struct infer *made = infer_create();
		for (size_t i = 0; i < s->n_runs; i++)	/* before it is the slot's, or each would be asked of it */
			join_one(f, made, s->runs[i]);
		s->infer = made;
	}
}

void fleet_infer_leave(struct slot *s, const struct run *r)
{
	if (!s->infer)
		return;
	infer_leave(s->infer, r->t->id);
	if (s->n_runs)
		return;
	infer_destroy(s->infer);
	s->infer = NULL;
}

void fleet_infer_end_span(const struct fleet *f, struct slot *s, struct now now)
{
	double ms = span_best(&s->span)->ms;
	if (s->infer && s->n_runs && ms >= LEAST_MS && ms > s->span.told_ms)
		span_tell(s);
	memset(&s->span, 0, sizeof s->span);
	s->spoke_ms = f->config->readings_stand ? now.mono_ms : 0;	/* a sample would reach back over the change */
}

/* Samples -------------------------------------------------------------------------------------------------------------- */

/* Readings that say something of these tasks, and of nobody else. A task of several GPUs waits for the slowest of them, which the
 * law does not know of here. */
static bool span_counts(const struct slot *s)
{
	bool procs_known = s->r.valid & GPU_PROCS;
	if (!(s->r.valid & GPU_SMACT) || !(s->r.smact >= 0 && s->r.smact <= 1) || s->r.fallen || s->foreign_mib > MAP_FOREIGN_MIB)
		return false;
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i]->n_slots > 1 || (procs_known && !s->runs[i]->active_since_ms))
			return false;
	return s->in_snapshot;
}

void fleet_infer_sample(struct fleet *f, struct slot *s, struct now now)
{
	int64_t since_ms = s->spoke_ms, for_ms = now.mono_ms - since_ms;
	s->spoke_ms = now.mono_ms;
	if (!s->infer || !s->n_runs || !since_ms || for_ms <= 0 || !span_counts(s))
		return;
	if (!f->config->readings_stand && for_ms > f->config->stale_ms)	/* of a longer silence nothing is known */
		return;
	struct stretch one = stretch_of(&s->r, (double)for_ms);
	span_add(&s->span, &one);
	if (span_best(&s->span)->ms >= span_due_ms(f, s)) {
		span_tell(s);
		fleet_touch_slot(f, s);
	}
}

struct load_belief fleet_evidence(const struct fleet *f, const struct run *r)
{
	struct load_belief e = r->evidence;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = f->slots[r->slots[i]];
		struct load_belief here = s->infer ? infer_evidence(s->infer, r->t->id) : load_unknown();
		if (here.source != LOAD_UNKNOWN)
			e = infer_combine(&e, &here);
	}
	return e;
}
