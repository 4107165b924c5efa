/* SPDX-License-Identifier: MIT
 * What tasks are expected to need, and what ended ones taught. A task is estimated when it comes, and again just before it is
 * placed if something was learnt of its signature since: so an array of many thousand elements costs no more than the ones
 * that are placed. Slow estimators are asked of the wiring; their tasks wait outside of the queue until the answer is there.
 */
#include "core/private.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "estimate/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One question to a slow estimator, and the tasks that wait for the answer: all elements of an array share one. */
struct question {
	int64_t number;
	const struct estimator *row;
	struct spec *spec;		/* one reference */
	uint64_t declared_mib;
	char before[200];		/* why slow estimators that were asked before did not answer; "": none was */
	task_id *tasks;
	size_t n, cap;
};

static void free_question(struct question *q)
{
	spec_unref(q->spec);
	free(q->tasks);
	free(q);
}

void core_free_questions(struct core *c)
{
	size_t at = 0;
	for (struct question *q; (q = idmap_next(&c->questions, &at));)
		free_question(q);
	idmap_free(&c->questions);
}

/* *h is filled, and must live as long as the context. */
static struct estimate_context context_of(const struct core *c, const struct spec *s, struct estimate_history *h)
{
	const char *gpu_name = *c->gpu_name && !c->gpus_differ ? c->gpu_name : NULL;
	*h = history_lookup(c->history, s->signature, gpu_name);
	return (struct estimate_context){ .gpu_name = gpu_name, .gpu_total_mib = c->largest_gpu_mib, .history = h,
					  .margins = history_margins(c->history) };
}

static void append(char *text, size_t size, const char *more)
{
	size_t len = strlen(text);
	if (*more && len + 3 < size)
		snprintf(text + len, size - len, "%s%.*s", len ? "; " : "", (int)(size - len - 3), more);
}

static void say(struct core *c, struct task *t, struct estimate_result *r, struct now now)
{
	struct event ev = { .kind = EV_ESTIMATED, .t_ms = now.wall_ms, .u.estimate = r->value };
	core_emit(c, t, &ev);
}

static void wait_for(struct core *c, struct task *t, const struct estimator *row, const char *before,
		     const struct estimate_context *context)
{
	struct question *q = c->last_question;
	if (!q || q->spec != t->spec || q->row != row || q->declared_mib != t->gpu_mem_mib) {
		q = alloc_zero(sizeof *q);
		*q = (struct question){ .number = ++c->n_asked, .row = row, .spec = spec_ref(t->spec), .declared_mib = t->gpu_mem_mib };
		snprintf(q->before, sizeof q->before, "%s", before);
		idmap_put(&c->questions, q->number, q);
		c->last_question = q;
		c->ops.estimate(c->ops.ctx, q->number, row, t->spec, t->gpu_mem_mib, context);
	}
	alloc_grow(q->tasks, q->n, q->cap);
	q->tasks[q->n++] = t->id;
}

/* Asks from that row on. */
static void ask(struct core *c, struct task *t, const struct estimator *from, const char *before, struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(c, t->spec, &h);
	struct estimate_result r;
	const struct estimator *slow = estimate_auto(from, c->ops.estimate ? SLOW_STOP : SLOW_ASK, t->spec, t->gpu_mem_mib,
						     &context, &r);
	if (slow) {
		wait_for(c, t, slow, before, &context);
		return;
	}
	append(r.note, sizeof r.note, before);
	estimate_conclude(&context, &r);
	say(c, t, &r, now);
}

void core_estimate(struct core *c, struct task *t, struct now now)
{
	ask(c, t, c->estimators, "", now);
}

void core_preview_estimate(const struct core *c, const struct spec *s, struct estimate_result *out)
{
	struct estimate_history h;
	struct estimate_context context = context_of(c, s, &h);
	estimate_auto(c->estimators, SLOW_SKIP, s, s->gpu_mem_mib, &context, out);
	estimate_conclude(&context, out);
}

/* It may have been cancelled, or changed and asked anew, while the question was open. */
static bool still_waits(const struct task *t, const struct question *q)
{
	return t && !t->estimated && t->spec == q->spec && t->gpu_mem_mib == q->declared_mib;
}

static void answer(struct core *c, struct task *t, const struct question *q, const struct estimate_result *said, struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(c, t->spec, &h);
	struct estimate_result r = *said;
	append(r.note, sizeof r.note, q->before);
	estimate_conclude(&context, &r);
	say(c, t, &r, now);
}

void core_estimated(struct core *c, int64_t question, bool spoke, const struct estimate_result *said, struct now now)
{
	struct question *q = idmap_remove(&c->questions, question);
	char before[sizeof q->before];
	if (!q)
		return;
	if (c->last_question == q)
		c->last_question = NULL;
	snprintf(before, sizeof before, "%s", q->before);
	append(before, sizeof before, said->note);
	for (size_t i = 0; i < q->n; i++) {
		struct task *t = core_task(c, q->tasks[i]);
		if (!still_waits(t, q))
			continue;
		if (spoke)
			answer(c, t, q, said, now);
		else
			ask(c, t, q->row + 1, before, now);
		if (t->estimated)
			core_enqueue(c, t);
	}
	free_question(q);
}

/* Learning ------------------------------------------------------------------------------------------------------------ */

static const struct estimator *row_of(const struct core *c, const char *name)
{
	for (const struct estimator *e = c->estimators; e->name; e++)
		if (!strcmp(e->name, name))
			return e;
	return NULL;
}

/* A slow estimator's answer stands, unless one that is asked before it now has one. */
static bool outranked(const struct core *c, const struct task *t, const struct estimate_result *r)
{
	const struct estimator *was = row_of(c, t->estimate.estimator), *is = row_of(c, r->value.estimator);
	return !was || !was->slow || !was->slow(t->spec) || (is && is < was);
}

static bool same(const struct estimate *a, const struct estimate *b)
{
	return !strcmp(a->estimator, b->estimator) && a->need_mib == b->need_mib && a->comfort_mib == b->comfort_mib &&
	       a->claim_mib == b->claim_mib && a->fenced == b->fenced && a->enforced_for_life == b->enforced_for_life;
}

void core_refresh_estimate(struct core *c, struct task *t, struct now now)
{
	struct estimate_history h;
	struct estimate_result r;
	if (history_told_ms(c->history, t->spec->signature) < t->estimated_ms)
		return;
	struct estimate_context context = context_of(c, t->spec, &h);
	estimate_auto(c->estimators, c->ops.estimate ? SLOW_SKIP : SLOW_ASK, t->spec, t->gpu_mem_mib, &context, &r);
	if (!outranked(c, t, &r)) {
		r.value = t->estimate;
		snprintf(r.note, sizeof r.note, "%s", t->estimate.note ? t->estimate.note : "");
	}
	estimate_conclude(&context, &r);
	if (!same(&r.value, &t->estimate))
		say(c, t, &r, now);
}

/* What the runs of the same signature should claim after this attempt ran out of memory. Under a fence the limit was what was
 * too small, so they take the same step as the task itself. Without one the task met its neighbours: what is refuted is only
 * what it had, so they get one growth step above that (section 7.2), at most what the task itself asks for now. */
static uint64_t sibling_claim(const struct core *c, const struct task *t, const struct attempt *a)
{
	uint64_t had = a->seen.peak_mib > a->claim_mib ? a->seen.peak_mib : a->claim_mib;
	uint64_t grown = had + c->config.recover.grow_step_mib;
	return a->fenced || grown > t->claim_floor_mib ? t->claim_floor_mib : grown;
}

void core_learn(struct core *c, const struct task *t, struct now now)
{
	const struct attempt *a = task_attempt(t);
	struct outcome o = history_outcome(t, core_slot(c, a->gpus[0])->r.name, now.wall_ms);
	if (a->verdict == VERDICT_OOM)
		o.retry_mib = sibling_claim(c, t, a);
	if (!history_tells(&o))
		return;
	core_remember(c, &o);
	if (c->ops.outcome)
		c->ops.outcome(c->ops.ctx, &o);
}

void core_remember(struct core *c, const struct outcome *o)
{
	history_note(c->history, o);
	if (o->verdict == VERDICT_OK)
		core_note_work(c, o->seen.work_s);
	c->blocked_at = 0;	/* it may be one of those that something is now known of */
	c->dirty = true;
}
