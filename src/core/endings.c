/* SPDX-License-Identifier: MIT
 *
 * See endings.h. One fault ends all clients of an MPS server within moments and with the same error text, so who is guilty
 * cannot be told from the exit alone: whoever died as an MPS client beside others, and of no error of its own, is judged
 * cohort_ms later, when it is known who died with it (recover/recover.h says what becomes of a cohort).
 */
#include "core/endings.h"

#include "base/alloc.h"
#include "base/idmap.h"
#include "core/pass.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#define FOUND_MS 60000		/* after a restart, within which what ended before it is found */

/* An attempt that ended and is not judged yet. */
struct open_end {
	task_id task;
	int64_t exit_ms;	/* mono */
	struct exit_report report;
	struct fleet_end seen;
};

/* An MPS client whose end others may have died of. */
struct death {
	task_id task;
	uid_t uid;
	int64_t placed_ms, ms;	/* mono */
	uint32_t slots[SPEC_MAX_GPUS];
	unsigned n_slots;
};

struct endings {
	const struct core_config *config;
	struct tasks *tasks;
	struct fleet *fleet;
	const struct pass *pass;
	struct idmap open;	/* task_id -> struct open_end */
	struct death *deaths;	/* recent ones */
	size_t n_deaths, cap_deaths;
	struct now restored;	/* until then nobody was there who could have noticed an end. wall_ms 0: all that runs began here */
};

struct endings *endings_create(const struct core_config *config, struct tasks *ts, struct fleet *f, const struct pass *p)
{
	struct endings *e = alloc_zero(sizeof *e);
	e->config = config;
	e->tasks = ts;
	e->fleet = f;
	e->pass = p;
	return e;
}

void endings_destroy(struct endings *e)
{
	if (!e)
		return;
	idmap_free_all(&e->open);
	free(e->deaths);
	free(e);
}

/* Cohorts ------------------------------------------------------------------------------------------------------------- */

/* Only such an end can be the fault of a neighbour: whoever was asked to stop, ran out of GPU memory by its own words or made
 * place ended for a reason that is known. */
static bool failed_by_itself(const struct open_end *o)
{
	const struct exit_report *r = &o->report;
	return r->have_record && !r->never_began && !r->unseen && !r->stopping && (r->signal || r->exit_code) &&
	       r->output.kind != SCAN_GPU_OOM && !recover_made_place(r);
}

/* One that is killed with work in flight takes the others along, whoever killed it; one that was asked to end does not
 * (doc/results). Of one that nobody saw end it is not known. */
static bool may_have_ended_others(const struct open_end *o)
{
	const struct exit_report *r = &o->report;
	if (recover_was_no_client(r))
		return false;
	return failed_by_itself(o) || (!r->have_record && !r->never_began) || (r->stopping && r->signal == SIGKILL);
}

/* Deaths that no attempt which is still to be judged can have had a part in are forgotten. */
static void forget_deaths(struct endings *e, int64_t mono_ms)
{
	int64_t oldest = mono_ms;
	size_t at = 0, kept = 0;
	for (const struct open_end *o; (o = idmap_next(&e->open, &at));)
		oldest = o->exit_ms < oldest ? o->exit_ms : oldest;
	for (size_t i = 0; i < e->n_deaths; i++)
		if (e->deaths[i].ms >= oldest - e->config->cohort_ms)
			e->deaths[kept++] = e->deaths[i];
	e->n_deaths = kept;
}

/* Noted of whoever may be the first cause, also where it is judged at once itself: those who die of it come later. */
static void endings_note_death(struct endings *e, const struct open_end *o)
{
	struct death d = { .task = o->task, .uid = tasks_find(e->tasks, o->task)->spec->uid, .placed_ms = o->seen.placed_ms,
			   .ms = o->exit_ms, .n_slots = o->seen.n_slots };
	for (unsigned i = 0; i < d.n_slots; i++)
		d.slots[i] = o->seen.slots[i];
	forget_deaths(e, o->exit_ms);
	alloc_grow(e->deaths, e->n_deaths, e->cap_deaths);
	e->deaths[e->n_deaths++] = d;
}

static bool share_a_slot(const struct open_end *o, const struct death *d)
{
	for (unsigned i = 0; i < o->seen.n_slots; i++)
		for (unsigned k = 0; k < d->n_slots; k++)
			if (o->seen.slots[i] == d->slots[k])
				return true;
	return false;
}

/* One fault ends clients that are there together: not one that was placed when the other had gone. */
static bool died_together(const struct endings *e, const struct open_end *o, const struct death *d)
{
	return d->placed_ms <= o->exit_ms && d->ms >= o->seen.placed_ms && llabs(d->ms - o->exit_ms) <= e->config->cohort_ms;
}

/* The first client of the same MPS server that died within the cohort's time, whoever's it is; NULL: none did. */
static const struct death *first_of_cohort(const struct endings *e, const struct open_end *o)
{
	const struct death *first = NULL;
	for (size_t i = 0; i < e->n_deaths; i++) {
		const struct death *d = &e->deaths[i];
		if (d->task != o->task && share_a_slot(o, d) && died_together(e, o, d) && (!first || d->ms < first->ms))
			first = d;
	}
	return first;
}

void endings_restored(struct endings *e, struct now now)
{
	e->restored = now;
}

/* The verdict may come later; the attempt ended when its processes did. That is when it was noticed, or, of one that was found
 * ended after a restart, when its shim says: a record is its user's, so it is asked of no end that could be noticed. */
static int64_t ended_at(const struct endings *e, const struct open_end *o, struct now now)
{
	int64_t noticed_ms = now.wall_ms - (now.mono_ms - o->exit_ms), said_ms = o->report.ended_ms;
	bool found = e->restored.wall_ms && o->exit_ms - e->restored.mono_ms <= FOUND_MS;
	return found && said_ms > 0 && said_ms < e->restored.wall_ms && said_ms < noticed_ms ? said_ms : noticed_ms;
}

/* Judging ------------------------------------------------------------------------------------------------------------- */

/* Somebody may have cancelled it, or had it queued again, while the verdict waited. */
static void endings_judge(struct endings *e, struct open_end *o, struct now now)
{
	struct task *t = tasks_find(e->tasks, o->task);
	struct verdict_result v;
	struct recover_next next;
	o->report.stopping = t->stopping;
	const struct death *other = o->report.mps && failed_by_itself(o) ? first_of_cohort(e, o) : NULL;
	o->report.neighbour_faulted = other;
	o->report.neighbour = other ? other->task : 0;
	o->report.neighbour_is_others = other && other->uid != t->spec->uid;
	recover_verdict(&o->report, &v);
	uint64_t largest_mib = v.verdict == VERDICT_OOM ? pass_largest_mib(e->pass, t->spec) : 0;	/* a look at every GPU */
	recover_decide(&e->config->recover, t, &o->report, v.verdict, largest_mib, &next);
	bool known = o->report.have_record && !o->report.never_began && !o->report.unseen;
	struct event ev = { .kind = EV_ENDED, .t_ms = ended_at(e, o, now), .u.ended = {
		.verdict = v.verdict, .exit_code = known ? o->report.exit_code : -1, .signal = o->report.signal,
		.evidence = v.evidence, .seen = o->seen.measured, .next = next.next, .state = next.state, .next_claim_mib = next.claim_mib,
		.next_exclusive = next.exclusive, .next_host_mem_mib = next.host_mem_mib, .next_delay_s = next.delay_s } };
	tasks_emit(e->tasks, t, &ev, now.wall_ms);
	if (next.delay_s)
		tasks_wait(e->tasks, t, now.wall_ms);
}

/* The code that means "start me again" counts only of a task that was asked, or asked for slots itself: a program that always
 * ends so would run for ever (decision 111). */
static void add_device_evidence(struct exit_report *r, const struct fleet_end *seen, const struct task *t)
{
	const struct attempt *a = task_attempt(t);
	r->device_known = seen->device_known;
	if (seen->device_known) {
		r->device_total_mib = seen->device_total_mib;
		r->device_free_min_mib = seen->device_free_min_mib;
	}
	r->peak_mib = seen->measured.peak_mib;
	r->claim_mib = attempt_limit_mib(a);
	r->fenced = a->fence_mib > 0;
	r->mps = a->mode == SHARE_MPS;
	r->no_gpu = !t->gpus;
	r->had_neighbours = seen->had_neighbours || seen->had_foreign;
	r->stopping = t->stopping;
	r->slot_asked = a->slot_asks > 0;
	if (r->slot_asked || t->spec->slot_s > 0)
		r->requeue_code = t->spec->requeue_code ? t->spec->requeue_code : SPEC_REQUEUE_CODE;
}

/* For the word of those beside it. A client alone on its GPUs has nobody to blame, one whose own error says why it failed
 * blames nobody, and one at a terminal is run once anyhow, with somebody waiting for its end. The wait is between exit and
 * verdict only: its GPUs are free already. */
static bool must_wait(const struct open_end *o, const struct task *t)
{
	return o->report.mps && failed_by_itself(o) && o->seen.had_neighbours && !spec_is_attended(t->spec) &&
	       recover_heeds_neighbours(&o->report);
}

void endings_add(struct endings *e, task_id id, const struct exit_report *report, struct now now)
{
	struct open_end o;
	struct task *t = tasks_find(e->tasks, id);
	if (!fleet_finish(e->fleet, id, now, &o.seen))
		return;
	o.task = id;
	o.exit_ms = now.mono_ms;
	o.report = *report;
	assert(t && t->state == TASK_RUNNING);
	add_device_evidence(&o.report, &o.seen, t);
	if (o.report.host_peak_mib > o.seen.measured.host_peak_mib)
		o.seen.measured.host_peak_mib = o.report.host_peak_mib;
	o.report.host_asked_mib = t->host_mem_mib;
	o.report.host_mem_mib = core_host_known(e->config->host_mem_mib) ? e->config->host_mem_mib : 0;
	if (o.report.mps && may_have_ended_others(&o))
		endings_note_death(e, &o);
	if (must_wait(&o, t)) {
		struct open_end *kept = alloc_zero(sizeof *kept);
		*kept = o;
		idmap_put(&e->open, id, kept);
	} else {
		endings_judge(e, &o, now);
	}
}

/* The next one that is due, NULL: none; *next: when another will be. Looked for anew after each verdict: it is an event,
 * from which others may follow that open or close ends. */
static struct open_end *endings_next_due(const struct endings *e, struct now now, int64_t *next)
{
	size_t at = 0;
	*next = INT64_MAX;
	for (struct open_end *o; (o = idmap_next(&e->open, &at));) {
		int64_t when = o->exit_ms + e->config->cohort_ms;
		if (when <= now.mono_ms)
			return o;
		*next = when < *next ? when : *next;
	}
	return NULL;
}

int64_t endings_turn(struct endings *e, struct now now)
{
	int64_t next;
	for (struct open_end *o; (o = endings_next_due(e, now, &next));) {
		idmap_remove(&e->open, o->task);
		endings_judge(e, o, now);
		free(o);
	}
	return next;
}

bool endings_open(const struct endings *e, task_id id, struct measured *out)
{
	const struct open_end *o = idmap_get(&e->open, id);
	if (o)
		*out = o->seen.measured;
	return o;
}

size_t endings_count(const struct endings *e)
{
	return e->open.n;
}
