/* SPDX-License-Identifier: MIT
 * What each task on a GPU does alone, from what the GPU shows while several are there (share/infer.h), as far as nobody
 * measured it.
 *
 * A span lasts as long as the same tasks are there. But a task does not compute from its first moment: it loads, builds, and
 * ends with a save. So what counts of a span is its longest steady stretch, from when every task has a process on the GPU and
 * the memory of none grows any more: a sample that differs by far from the stretch, as the ones after it do, begins another
 * one.
 */
#include "core/fleet_private.h"

#include <math.h>
#include <string.h>

#define MOVED 0.10	/* SMACT: the level is another one */
#define EXACT 1e-6	/* the same, where readings stand */
#define LEAST_MS 2500	/* a shorter stretch says nothing */
#define WELL_KNOWN_SD 0.06	/* of SMACT; the law does not say more */
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

static double level(const struct stretch *s)
{
	return s->smact_ms / s->ms;
}

static struct stretch stretch_less(const struct stretch *a, const struct stretch *b)
{
	return (struct stretch){ .ms = a->ms - b->ms, .smact_ms = a->smact_ms - b->smact_ms,
				 .gract_ms = a->gract_ms - b->gract_ms, .gract_seen_ms = a->gract_seen_ms - b->gract_seen_ms,
				 .dram_ms = a->dram_ms - b->dram_ms, .dram_seen_ms = a->dram_seen_ms - b->dram_seen_ms };
}

/* The level has moved when none of the last samples is near that of the stretch before them: one odd sample is noise. */
static bool level_moved(const struct fleet_span *p, const struct stretch *before, size_t samples, double by)
{
	if (!(before->ms > 0))
		return false;
	for (size_t i = 0; i < samples; i++)
		if (!(p->recent[i].ms > 0) || fabs(level(&p->recent[i]) - level(before)) <= by)
			return false;
	return true;
}

/* Where readings stand, every change of them is one, and shows at once. */
static void span_add(struct fleet_span *p, const struct stretch *one, bool stands)
{
	size_t samples = stands ? 1 : RECENT;
	struct stretch last = { 0 };
	memmove(&p->recent[1], &p->recent[0], (RECENT - 1) * sizeof p->recent[0]);
	p->recent[0] = *one;
	stretch_add(&p->lasts, one);
	for (size_t i = 0; i < samples; i++)
		stretch_add(&last, &p->recent[i]);
	struct stretch before = stretch_less(&p->lasts, &last);
	if (!level_moved(p, &before, samples, stands ? EXACT : MOVED))
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

/* Readings that say something of these tasks, and of nobody else. A task of several GPUs waits for the slowest of them, which
 * the law does not know of here; one that is suspended shows nothing of what it does. */
static bool span_counts(const struct slot *s)
{
	bool procs_known = s->r.valid & GPU_PROCS;
	if (!(s->r.valid & GPU_SMACT) || !(s->r.smact >= 0 && s->r.smact <= 1) || s->r.fallen || s->foreign_mib > MAP_FOREIGN_MIB)
		return false;
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i]->t->suspended || s->runs[i]->n_slots > 1 || (procs_known && !s->runs[i]->active_since_ms))
			return false;
	return s->in_snapshot;
}

/* How long a stretch must be for inference to be told of it. Where readings stand, a longer one says the same. */
static double span_due_ms(const struct fleet *f, const struct slot *s)
{
	if (!f->config->readings_stand)
		return fmax(LEAST_MS, s->span.told_ms * AGAIN);
	const struct window_config *w = &f->config->window;	/* as it settles in window.c */
	return s->span.told_ms > 0 ? INFINITY : fmax(fmin((double)w->settle_ms, (double)w->span_ms), 1);
}

/* Rounded up: a look a millisecond early would find the stretch too short and be due again at once. */
int64_t fleet_infer_due_ms(const struct fleet *f, const struct slot *s)
{
	double left = s->infer && span_counts(s) ? span_due_ms(f, s) - s->span.lasts.ms : INFINITY;
	return isfinite(left) && left > 0 ? s->spoke_ms + (int64_t)ceil(left) : INT64_MAX;
}

/* Inference takes the newest word of a span for the whole of it, so to tell again is to correct: a span counts once, however
 * long it lasts (decision 80). */
static void span_tell(struct slot *s)
{
	const struct stretch *best = span_best(&s->span);
	struct infer_reading mean = stretch_mean(best);
	infer_span(s->infer, task_attempt(s->runs[0]->t)->mode, &mean);
	s->span.told_ms = best->ms;
}

/* Coming and going ----------------------------------------------------------------------------------------------------- */

static bool any_to_learn_of(const struct fleet *f, const struct slot *s)
{
	for (size_t i = 0; i < s->n_runs; i++) {
		struct load_belief b = fleet_belief(f, s->runs[i]);
		if (b.source != LOAD_MEASURED && !(b.smact_sd <= WELL_KNOWN_SD))
			return true;
	}
	return false;
}

static void join_one(const struct fleet *f, struct infer *to, const struct run *r)
{
	struct load_belief b = fleet_belief(f, r);
	infer_join(to, r->t->id, &b);
}

/* Begun with all that are there when the first one comes that nobody knows well, since what a GPU shows is the sum of all.
 * MIG instances tell their own activity, and have one task each. */
void fleet_infer_join(const struct fleet *f, struct slot *s, const struct run *r)
{
	if (s->infer) {
		join_one(f, s->infer, r);
	} else if (s->n_runs > 1 && !s->r.mig && any_to_learn_of(f, s)) {
		struct infer *made = infer_create();
		for (size_t i = 0; i < s->n_runs; i++)	/* before it is the slot's, or each would be asked of it */
			join_one(f, made, s->runs[i]);
		s->infer = made;
	}
}

/* A thousand guesses are not carried on for tasks that are all known well: on a GPU that never idles that would be for ever.
 * What they came to stays with the runs. */
static void keep_and_forget(struct slot *s)
{
	for (size_t i = 0; i < s->n_runs; i++) {
		struct run *r = s->runs[i];
		struct load_belief in, shown = infer_evidence(s->infer, r->t->id);
		if (shown.source != LOAD_UNKNOWN)
			r->evidence = infer_combine(&r->evidence, &shown);
		if (r->known.source != LOAD_MEASURED && infer_belief(s->infer, r->t->id, &in) && in.source == LOAD_INFERRED)
			r->known = in;
	}
	infer_destroy(s->infer);
	s->infer = NULL;
}

void fleet_infer_leave(const struct fleet *f, struct slot *s, const struct run *r)
{
	if (!s->infer)
		return;
	infer_leave(s->infer, r->t->id);
	if (!any_to_learn_of(f, s))
		keep_and_forget(s);
}

void fleet_infer_again(const struct fleet *f, struct slot *s, const struct run *r)
{
	if (!s->infer)
		return;
	infer_leave(s->infer, r->t->id);
	join_one(f, s->infer, r);
}

static void span_begin(const struct fleet *f, struct slot *s, struct now now)
{
	memset(&s->span, 0, sizeof s->span);
	s->spoke_ms = f->config->readings_stand ? now.mono_ms : 0;	/* a sample would reach back over the change */
}

void fleet_infer_restart(const struct fleet *f, struct slot *s, struct now now)
{
	if (s->infer)
		infer_forget_span(s->infer);
	span_begin(f, s, now);
}

/* Called before a run joins or ends, while the runs are still those that the span is of. */
void fleet_infer_end_span(const struct fleet *f, struct slot *s, struct now now)
{
	double ms = span_best(&s->span)->ms;
	bool told = s->span.told_ms > 0 && f->config->readings_stand;	/* a longer one says the same */
	if (s->infer && s->n_runs && ms >= LEAST_MS && ms > s->span.told_ms && !told)
		span_tell(s);
	span_begin(f, s, now);
}

/* Samples -------------------------------------------------------------------------------------------------------------- */

void fleet_infer_sample(struct fleet *f, struct slot *s, struct now now)
{
	int64_t since_ms = s->spoke_ms, for_ms = now.mono_ms - since_ms;
	s->spoke_ms = now.mono_ms;
	if (!s->infer || !s->n_runs || !since_ms || for_ms <= 0 || !span_counts(s))
		return;
	if (!f->config->readings_stand && for_ms > f->config->stale_ms)	/* of a longer silence nothing is known */
		return;
	struct stretch one = stretch_of(&s->r, (double)for_ms);
	span_add(&s->span, &one, f->config->readings_stand);
	if (span_best(&s->span)->ms >= span_due_ms(f, s)) {
		span_tell(s);
		fleet_touch_slot(f, s);
	}
}
