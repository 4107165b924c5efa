/* SPDX-License-Identifier: MIT
 *
 * See estimates.h. All elements of an array share one question to a slow estimator, since they share the spec; an answer is for
 * those that still wait for exactly that, because a task may have been cancelled, or changed and asked anew, while it was open.
 *
 * The answer that hangs on a capture may take minutes. Who waits for it may be told to do without (decision 246): then it comes
 * late, and is an estimate of a task that waits or runs by then.
 */
#include "core/estimates.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "estimate/history.h"
#include "share/infer.h"

#include <math.h>
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

#define UNKNOWN_S 3600		/* what a task takes alone as long as none has ended */
#define OTHER_GPU_SD 0.15	/* of a load that was seen on another model of GPU */
#define OVERDUE 0.125		/* a task that runs longer than expected is taken to have this part of that time left */
#define TYPICAL_OF 100		/* what tasks took on average: over about so many */

struct estimates {
	const struct core_config *config;
	struct core_ops ops;
	struct tasks *tasks;
	const struct fleet *fleet;
	struct history *history;
	const struct estimator *table;	/* that is asked */
	struct estimator only[2];	/* where it has one row */
	struct idmap questions;		/* number -> struct question: slow estimators that are being asked */
	struct idmap late;		/* task_id -> struct question: tasks that do without its answer until it comes */
	struct question *last_question;	/* the newest, while it is open */
	int64_t n_asked;
	struct idmap looked;		/* task_id -> when (wall) something was learnt that it was looked at with, as a number */
	double typical_s;		/* mean work of tasks that completed here */
	unsigned typical_n;
	uint64_t version;
};

static void free_question(struct question *q)
{
	spec_unref(q->spec);
	free(q->tasks);
	free(q);
}

struct estimates *estimates_create(const struct core_config *config, const struct core_ops *ops, struct tasks *ts,
				   const struct fleet *f)
{
	struct estimates *e = alloc_zero(sizeof *e);
	*e = (struct estimates){ .config = config, .ops = *ops, .tasks = ts, .fleet = f };
	e->history = history_create(HISTORY_SIGNATURES);
	e->table = config->estimators ? config->estimators : estimators;
	if (config->estimator) {
		e->only[0] = *config->estimator;
		e->only[0].baseline = false;	/* chosen, so it is asked */
		e->table = e->only;
	}
	return e;
}

void estimates_destroy(struct estimates *e)
{
	size_t at = 0;
	if (!e)
		return;
	for (struct question *q; (q = idmap_next(&e->questions, &at));)
		free_question(q);
	idmap_free(&e->questions);
	idmap_free(&e->late);
	idmap_free(&e->looked);
	history_destroy(e->history);
	free(e);
}

/* *h is filled, and must live as long as the context. Where there are several models of GPU none is named, since nobody knows
 * yet on which the task will be. */
static struct estimate_context context_of(const struct estimates *e, const char *signature, unsigned gpus,
					  struct estimate_history *h)
{
	const char *model = fleet_model(e->fleet), *gpu_name = *model ? model : NULL;
	*h = history_lookup(e->history, signature, gpu_name);
	return (struct estimate_context){ .gpu_name = gpu_name, .gpu_total_mib = fleet_largest_mib(e->fleet),
					  .history = gpus ? h : NULL, .margins = history_margins(e->history), .no_gpu = !gpus };
}

static void note_append(char *text, size_t size, const char *more)
{
	size_t len = strlen(text);
	if (*more && len + 3 < size)
		snprintf(text + len, size - len, "%s%.*s", len ? "; " : "", (int)(size - len - 3), more);
}

static void estimates_say(struct estimates *e, struct task *t, struct estimate_result *r, struct now now)
{
	struct event ev = { .kind = EV_ESTIMATED, .t_ms = now.wall_ms, .u.estimate = r->value };
	tasks_emit(e->tasks, t, &ev, now.wall_ms);
}

/* Elements of an array are asked one after the other, so the newest question is the only one that can be theirs: no table by
 * spec is needed. A claim that was changed since is a question of its own. */
static void estimates_wait_for(struct estimates *e, struct task *t, const struct estimator *row, const char *before,
			       const struct estimate_context *context)
{
	struct question *q = e->last_question;
	if (!q || q->spec != t->spec || q->row != row || q->declared_mib != t->gpu_mem_mib) {
		q = alloc_zero(sizeof *q);
		*q = (struct question){ .number = ++e->n_asked, .row = row, .spec = spec_ref(t->spec),
					.declared_mib = t->gpu_mem_mib };
		snprintf(q->before, sizeof q->before, "%s", before);
		idmap_put(&e->questions, q->number, q);
		e->last_question = q;
		e->ops.estimate(e->ops.ctx, q->number, row, t->spec, t->gpu_mem_mib, context);
	}
	alloc_grow(q->tasks, q->n, q->cap);
	q->tasks[q->n++] = t->id;
}

/* Asks from that row on. */
static void estimates_ask_from(struct estimates *e, struct task *t, const struct estimator *from, const char *before,
			       struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(e, task_signature(t), t->gpus, &h);
	struct estimate_result r;
	const struct estimator *slow = estimate_auto(from, e->ops.estimate ? SLOW_STOP : SLOW_ASK, t->spec, t->gpu_mem_mib,
						     &context, &r);
	if (slow) {
		estimates_wait_for(e, t, slow, before, &context);
		return;
	}
	note_append(r.note, sizeof r.note, before);
	estimate_conclude(&context, &r);
	estimates_say(e, t, &r, now);
}

void estimates_ask(struct estimates *e, struct task *t, struct now now)
{
	estimates_ask_from(e, t, e->table, "", now);
}

void estimates_preview(const struct estimates *e, const struct spec *s, struct estimate_result *out)
{
	struct estimate_history h;
	struct estimate_context context = context_of(e, s->signature, s->gpus, &h);
	estimate_auto(e->table, SLOW_SKIP, s, s->gpu_mem_mib, &context, out);
	estimate_conclude(&context, out);
}

/* Also one that was asked anew since: the same spec and claim, so the same answer. */
static bool is_answer_to(const struct question *q, const struct task *t)
{
	return t && t->spec == q->spec && t->gpu_mem_mib == q->declared_mib;
}

static bool still_waits(const struct task *t, const struct question *q)
{
	return is_answer_to(q, t) && !t->estimated;
}

static void estimates_tell(struct estimates *e, struct task *t, const struct question *q, const struct estimate_result *said,
			   struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(e, task_signature(t), t->gpus, &h);
	struct estimate_result r = *said;
	note_append(r.note, sizeof r.note, q->before);
	estimate_conclude(&context, &r);
	estimates_say(e, t, &r, now);
}

/* Nobody could read what tells the load: the answer that was at hand stands without it. */
static bool estimates_tell_without_load(struct estimates *e, struct task *t, const struct question *q, struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(e, task_signature(t), t->gpus, &h);
	struct estimate_result r;
	if (!q->row->load_aside || !estimate_ask(q->row, t->spec, t->gpu_mem_mib, &context, &r))
		return false;
	estimates_tell(e, t, q, &r, now);
	return true;
}

void estimates_answer(struct estimates *e, int64_t question, bool spoke, const struct estimate_result *said, struct now now)
{
	struct question *q = idmap_remove(&e->questions, question);
	char before[sizeof q->before];
	if (!q)
		return;
	if (e->last_question == q)
		e->last_question = NULL;
	snprintf(before, sizeof before, "%s", q->before);
	note_append(before, sizeof before, said->note);
	/* By id: any of them may have gone, or been asked anew, while the question was open. */
	for (size_t i = 0; i < q->n; i++) {
		struct task *t = tasks_find(e->tasks, q->tasks[i]);
		bool late = idmap_get(&e->late, q->tasks[i]) == q;
		if (late)
			idmap_remove(&e->late, q->tasks[i]);
		if (!still_waits(t, q) && !(late && is_answer_to(q, t) && !t->estimate.claim_mib))
			continue;
		if (spoke)
			estimates_tell(e, t, q, said, now);
		else if (!estimates_tell_without_load(e, t, q, now))
			estimates_ask_from(e, t, q->row + 1, before, now);
	}
	free_question(q);
}

size_t estimates_open(const struct estimates *e)
{
	return e->questions.n;
}

/* Doing without ------------------------------------------------------------------------------------------------------- */

/* And may begin before it is there: both run the script, so only where its files are its own. */
static bool waits_for_capture(const struct spec *s)
{
	return !s->capture && s->capture_until_s && s->capture_aside;
}

/* The first that could be placed, for all elements of an array are alike. NULL: none could, or its capture is there. */
static struct task *first_uncaptured(const struct estimates *e, const struct question *q)
{
	for (size_t i = 0; waits_for_capture(q->spec) && i < q->n; i++) {
		struct task *t = tasks_find(e->tasks, q->tasks[i]);
		if (still_waits(t, q) && t->state == TASK_PENDING && !t->waiting_for_deps && t->gpus)
			return tasks_array_admits(e->tasks, t) ? t : NULL;
	}
	return NULL;
}

struct task *estimates_next_uncaptured(const struct estimates *e, size_t *at)
{
	struct task *t = NULL;
	for (const struct question *q; !t && (q = idmap_next(&e->questions, at));)
		t = first_uncaptured(e, q);
	return t;
}

void estimates_do_without(struct estimates *e, struct task *t, struct now now)
{
	size_t at = 0;
	for (struct question *q; (q = idmap_next(&e->questions, &at));)
		if (first_uncaptured(e, q) == t) {
			idmap_put(&e->late, t->id, q);
			if (!estimates_tell_without_load(e, t, q, now))
				estimates_ask_from(e, t, q->row + 1, "a GPU was idle, so it began before its capture was made", now);
			return;
		}
}

void estimates_restore(struct estimates *e, struct task *t, struct now now)
{
	struct estimate_history h;
	struct estimate_context context = context_of(e, task_signature(t), t->gpus, &h);
	struct estimate_result r;
	if (t->estimate.claim_mib || !e->ops.estimate || !waits_for_capture(t->spec) || t->spec->capture_until_s * 1000 <= now.wall_ms)
		return;
	const struct estimator *slow = estimate_auto(e->table, SLOW_STOP, t->spec, t->gpu_mem_mib, &context, &r);
	if (slow) {
		estimates_wait_for(e, t, slow, "", &context);
		idmap_put(&e->late, t->id, e->last_question);
	}
}

bool estimates_comes_late(const struct estimates *e, const struct task *t)
{
	return idmap_get(&e->late, t->id);
}

void estimates_forget(struct estimates *e, task_id id)
{
	idmap_remove(&e->looked, id);
}

/* Learning ------------------------------------------------------------------------------------------------------------ */

static const struct estimator *row_of(const struct estimates *e, const char *name)
{
	for (const struct estimator *row = e->table; row->name; row++)
		if (!strcmp(row->name, name))
			return row;
	return NULL;
}

/* A slow estimator's answer stands, unless one that is asked before it now has one. */
static bool estimates_outranked(const struct estimates *e, const struct task *t, const struct estimate_result *r)
{
	const struct estimator *was = row_of(e, t->estimate.estimator), *is = row_of(e, r->value.estimator);
	return !was || !was->slow || !was->slow(t->spec) || (is && is < was);
}

static bool estimates_same(const struct estimate *a, const struct estimate *b)
{
	return !strcmp(a->estimator, b->estimator) && a->need_mib == b->need_mib && a->comfort_mib == b->comfort_mib &&
	       a->claim_mib == b->claim_mib && a->fenced == b->fenced && a->enforced_for_life == b->enforced_for_life;
}

/* "Looked at" is remembered by what was known then, as a time: history tells when a signature last taught something, and two
 * lessons within one millisecond look alike, so in that millisecond nothing is remembered. A slow estimator is not asked
 * again: that would send the task out of the queue just as its turn came. */
void estimates_refresh(struct estimates *e, struct task *t, struct now now)
{
	struct estimate_history h;
	struct estimate_result r;
	int64_t told_ms = estimates_told_ms(e, t);
	if (told_ms < t->estimated_ms || (int64_t)(intptr_t)idmap_get(&e->looked, t->id) == told_ms)
		return;
	if (told_ms != now.wall_ms)	/* more may yet be learnt in this millisecond */
		idmap_put(&e->looked, t->id, (void *)(intptr_t)told_ms);
	struct estimate_context context = context_of(e, task_signature(t), t->gpus, &h);
	estimate_auto(e->table, e->ops.estimate ? SLOW_SKIP : SLOW_ASK, t->spec, t->gpu_mem_mib, &context, &r);
	if (r.value.prior.source == LOAD_UNKNOWN)
		r.value.prior = t->estimate.prior;	/* what was read of it stays true */
	if (!estimates_outranked(e, t, &r)) {
		r.value = t->estimate;
		snprintf(r.note, sizeof r.note, "%s", t->estimate.note ? t->estimate.note : "");
	}
	estimate_conclude(&context, &r);
	if (!estimates_same(&r.value, &t->estimate))
		estimates_say(e, t, &r, now);
}

/* What the runs of the same signature should claim after this attempt ran out of memory. Under a fence the limit was what was
 * too small, so they take the same step as the task itself. Without one the task met its neighbours: what is refuted is only
 * what it had, so they get one growth step above that (section 7.2), at most what the task itself asks for now. */
static uint64_t sibling_claim(const struct estimates *e, const struct task *t, const struct attempt *a)
{
	uint64_t had = a->seen.peak_mib > a->claim_mib ? a->seen.peak_mib : a->claim_mib;
	uint64_t grown = had + e->config->recover.grow_step_mib;
	return a->fence_mib || grown > t->claim_floor_mib ? t->claim_floor_mib : grown;
}

void estimates_learn(struct estimates *e, const struct task *t, struct now now)
{
	const struct attempt *a = task_attempt(t);
	if (!t->gpus || !a->n_gpus)	/* its like with a GPU is another program */
		return;
	uint32_t slot = (uint32_t)fleet_slot_of(e->fleet, a->gpus[0]);
	struct outcome o = history_outcome(t, fleet_model_of(e->fleet, slot), now.wall_ms);
	if (a->verdict == VERDICT_OOM)
		o.retry_mib = sibling_claim(e, t, a);
	if (!history_tells(&o))
		return;
	estimates_remember(e, &o);
	if (e->ops.outcome)
		e->ops.outcome(e->ops.ctx, &o);
}

/* A mean over about the last hundred: it follows as a lab's work changes, and one odd task moves it little. */
static void note_work(struct estimates *e, double work_s)
{
	if (!isfinite(work_s))
		return;
	e->typical_n += e->typical_n < TYPICAL_OF;
	e->typical_s += (work_s - e->typical_s) / e->typical_n;
}

void estimates_remember(struct estimates *e, const struct outcome *o)
{
	history_note(e->history, o);
	if (o->verdict == VERDICT_OK)
		note_work(e, o->seen.work_s);
	e->version++;
}

uint64_t estimates_version(const struct estimates *e)
{
	return e->version;
}

int64_t estimates_told_ms(const struct estimates *e, const struct task *t)
{
	return history_told_ms(e->history, task_signature(t));
}

struct history_usual estimates_usual(const struct estimates *e)
{
	return history_usual(e->history);
}

/* What is known ------------------------------------------------------------------------------------------------------- */

/* What it came with says of it, at the pace that this host is known to have by now. Unknown: nothing. */
static struct load_belief estimates_prior(const struct estimates *e, const struct task *t, const char *gpu_name)
{
	struct load_belief prior = t->estimate.prior;
	if (!t->estimated || prior.source == LOAD_UNKNOWN)
		return load_unknown();
	hostpace_apply(&prior, estimates_host_pace(e).pace, gpu_name);
	return prior;
}

/* Runs on another model count as a guess, so what was read of the task itself is weighed in, at the pace that this host is
 * known to have by now. A load measured here stands, whatever the prior says (decision 80). */
struct load_belief estimates_load(const struct estimates *e, const struct task *t, const char *gpu_name)
{
	struct estimate_history h = history_lookup(e->history, task_signature(t), gpu_name);
	struct load_belief seen = h.load;
	if (h.other_gpu && seen.source != LOAD_UNKNOWN) {
		seen.source = LOAD_GUESSED;
		seen.gract_sd = seen.smact_sd = seen.dram_sd = OTHER_GPU_SD;
	}
	struct load_belief prior = estimates_prior(e, t, gpu_name);
	if (prior.source == LOAD_UNKNOWN)
		return seen;
	if (seen.source == LOAD_MEASURED) {
		seen.load.kernels = prior.load.kernels;	/* readings do not show them */
		return seen;
	}
	return infer_combine(&seen, &prior);
}

struct hostpace estimates_host_pace(const struct estimates *e)
{
	return history_host_pace(e->history);
}

/* Never across models: how many steps a second one makes is what differs most between them. */
double estimates_pace(const struct estimates *e, const struct task *t, const char *gpu_name)
{
	struct estimate_history h = history_lookup(e->history, task_signature(t), gpu_name);
	return h.other_gpu ? 0 : h.alone_per_s;
}

struct cores_expected estimates_cores(const struct estimates *e, const struct task *t)
{
	struct estimate_history h = history_lookup(e->history, task_signature(t), fleet_first_model(e->fleet));
	struct load_belief prior = estimates_prior(e, t, fleet_first_model(e->fleet));
	if (h.cores > 0)
		return (struct cores_expected){ h.cores, CORES_RUNS };
	return prior.cores > 0 ? (struct cores_expected){ prior.cores, CORES_CAPTURED } : (struct cores_expected){ 1, CORES_UNKNOWN };
}

/* What is left of a task that goes on after a slot: by its own progress, the done part f having taken W, W (1 - f) / f; else
 * what runs of its kind take, less W. NaN: it is at its beginning, or nobody knows. */
static double left_after_slots(const struct task *t, double whole_s)
{
	double done_s = t->n_slots ? t->slot_work_s : NAN, f = 0;
	for (uint32_t i = t->n_attempts; t->n_slots && i > 0 && !(f > 0); i--)
		f = t->attempts[i - 1].verdict == VERDICT_SLOT ? t->attempts[i - 1].seen.pace.fraction : 0;
	if (f > 0)
		return done_s * (1 - f) / f;
	return isfinite(whole_s) && isfinite(done_s) ? fmax(whole_s - done_s, 0) : NAN;
}

/* As its capture counts it, at the pace that this host is known to have by now; NaN: it does not tell. */
static double counted_s(const struct estimates *e, const struct task *t)
{
	struct load_belief guess = estimates_prior(e, t, fleet_first_model(e->fleet));
	double run_s = load_run_s(&guess);
	return run_s > 0 ? run_s : NAN;
}

/* A limit will be enforced, so nothing is longer; and people set it with room to spare, so what was learnt or counted goes
 * before it. With none of these a task takes what tasks took here: no more than some number for those who need one. */
double estimates_work_s(const struct estimates *e, const struct task *t, enum work_known *how)
{
	struct estimate_history h = history_lookup(e->history, task_signature(t), fleet_first_model(e->fleet));
	bool runs = isfinite(h.work_s);
	double whole = runs ? h.work_s : counted_s(e, t), left = left_after_slots(t, whole), s = isfinite(left) ? left : whole;
	double limit = t->time_limit_s ? fmax((double)t->time_limit_s - (double)t->slot_ran_ms / 1000, 0) : INFINITY;
	*how = isnan(s) ? WORK_UNKNOWN : !runs && isfinite(whole) ? WORK_COUNTED : WORK_RUNS;
	if (isfinite(limit) && !(s <= limit))
		return *how = WORK_LIMIT, limit;
	return isfinite(s) ? s : e->typical_n ? e->typical_s : UNKNOWN_S;
}

double estimates_clock_s(const struct estimates *e, const struct task *t, struct now now)
{
	const struct fleet_clock *running = fleet_clock_of(e->fleet, t->id);
	double limit_s = t->estimate.prior.limit_s, ran_s = running ? (double)(now.mono_ms - running->began_ms) / 1000 : 0;
	struct measured m;
	if (!(limit_s > 0))
		return INFINITY;
	bool told = running && fleet_measured(e->fleet, t->id, &m) && isfinite(m.begin_s);
	return fabs((told ? m.begin_s : ESTIMATES_BEGIN_S) + limit_s - ran_s);
}

static double limit_left_s(const struct task *t, struct now now)
{
	int64_t ends_ms = task_limit_ends_ms(t);
	return ends_ms < INT64_MAX ? (double)(ends_ms - now.wall_ms) / 1000 : INFINITY;
}

/* In seconds alone. Nobody meters one without GPUs, which nobody slows either; another has done nothing before it is seen. */
static double work_done_s(const struct fleet_run *r, struct now now)
{
	int64_t stood_ms = task_suspended_ms(r->task, now.wall_ms);
	if (!r->n_slots)
		return (double)(now.wall_ms - task_attempt(r->task)->start_ms - stood_ms) / 1000;
	return isfinite(r->work_s) ? r->work_s : 0;
}

/* What it says itself beats what others took. */
struct time_left estimates_left(const struct estimates *e, const struct fleet_run *r, struct now now)
{
	struct time_left left = { .clock_s = estimates_clock_s(e, r->task, now), .limit_s = limit_left_s(r->task, now) };
	double all_s = estimates_work_s(e, r->task, &left.how), done_s = work_done_s(r, now);
	left.says = isfinite(r->left_s);
	left.known = left.says || left.how != WORK_UNKNOWN;
	left.overdue = !left.says && done_s >= all_s;
	left.s = fmin(left.says ? r->left_s : fmax(all_s - done_s, all_s * OVERDUE), left.clock_s);
	return left;
}

/* The clock tells the end of one that goes on without saying how far it has to go, too. */
bool estimates_progress(const struct estimates *e, const struct task *t, struct now now, struct progress_report *out)
{
	if (!fleet_progress(e->fleet, t->id, now.mono_ms, out))
		return false;
	double clock_s = estimates_clock_s(e, t, now);
	if (isfinite(clock_s) && out->per_s > 0 && !(out->left_s >= 0 && out->left_s <= clock_s)) {
		out->left_s = clock_s;
		out->spread_s = -1;
	}
	return true;
}
