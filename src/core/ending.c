/* SPDX-License-Identifier: MIT
 * Exits: what the device showed is added to what the shim wrote, MPS neighbours get a moment to die of the same cause, and
 * then `recover` gives the verdict and says what comes next.
 */
#include "core/private.h"

#include "base/alloc.h"

#include <stdlib.h>

static bool failed_by_itself(const struct run *r)
{
	const struct exit_report *e = &r->report;
	return e->have_record && !e->never_began && !e->stopping && (e->signal || e->exit_code) &&
	       e->output.kind != SCAN_GPU_OOM;
}

static bool under_mps(const struct run *r)
{
	return task_attempt(r->t)->mode == SHARE_MPS;
}

static bool has_foreign(const struct core *c, const struct run *r)
{
	for (unsigned i = 0; i < r->n_slots; i++)
		if (ledger_foreign(&c->slots[r->slots[i]]->ledger) > MAP_FOREIGN_MIB)
			return true;
	return false;
}

/* The GPU that had least is the one that speaks. */
static void add_device_evidence(struct core *c, struct run *r)
{
	struct exit_report *e = &r->report;
	const struct attempt *a = task_attempt(r->t);
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = c->slots[r->slots[i]];
		uint64_t low = core_low_water(s);
		if (low >= least)
			continue;
		least = low;
		e->device_known = true;
		e->device_total_mib = s->r.mem_total_mib;
		e->device_free_min_mib = low;
	}
	e->peak_mib = r->meter.peak_mib;
	e->claim_mib = a->claim_mib;
	e->fenced = a->fenced;
	e->mps = a->mode == SHARE_MPS;
	e->had_neighbours = r->had_neighbours || has_foreign(c, r);
	e->stopping = r->t->stopping;
}

static void note_death(struct core *c, const struct run *r, int64_t mono_ms)
{
	for (unsigned i = 0; i < r->n_slots; i++) {
		struct slot *s = c->slots[r->slots[i]];
		unsigned at = s->n_deaths++ % (unsigned)(sizeof s->deaths / sizeof *s->deaths);
		s->deaths[at].task = r->t->id;
		s->deaths[at].placed_ms = r->placed_ms;
		s->deaths[at].ms = mono_ms;
	}
}

static bool close_in_time(const struct core *c, int64_t a_ms, int64_t b_ms)
{
	return llabs(a_ms - b_ms) <= c->config.cohort_ms;
}

/* One fault ends clients that are there together: not one that was placed when the other had gone. */
static bool were_together(const struct run *r, int64_t placed_ms, int64_t died_ms)
{
	return placed_ms <= r->exit_ms && died_ms >= r->placed_ms;
}

/* Whether another client of the same MPS server died within the cohort's time. */
static bool has_cohort(const struct core *c, const struct run *r)
{
	for (unsigned i = 0; i < r->n_slots; i++) {
		const struct slot *s = c->slots[r->slots[i]];
		for (size_t k = 0; k < sizeof s->deaths / sizeof *s->deaths; k++)
			if (s->deaths[k].task && s->deaths[k].task != r->t->id &&
			    were_together(r, s->deaths[k].placed_ms, s->deaths[k].ms) &&
			    close_in_time(c, s->deaths[k].ms, r->exit_ms))
				return true;
	}
	return false;
}

static void conclude(struct core *c, struct run *r, struct now now)
{
	struct task *t = r->t;
	struct verdict_result v = { 0 };
	struct recover_next next = { 0 };
	r->report.neighbour_faulted = under_mps(r) && failed_by_itself(r) && has_cohort(c, r);
	recover_verdict(&r->report, &v);
	recover_decide(&c->config.recover, t, &r->report, v.verdict, c->largest_gpu_mib, &next);
	/* The verdict may come later; the attempt ended when its processes did. */
	int64_t ended_ms = now.wall_ms - (now.mono_ms - r->exit_ms);
	struct event ev = { .kind = EV_ENDED, .t_ms = ended_ms, .u.ended = {
		.verdict = v.verdict, .exit_code = r->report.exit_code, .signal = r->report.signal, .evidence = v.evidence,
		.seen = core_measured(c, r), .next = next.next, .state = next.state, .next_claim_mib = next.claim_mib,
		.next_exclusive = next.exclusive } };
	core_emit(c, t, &ev);
	core_after_end(c, t, now);
}

void core_exited(struct core *c, task_id id, const struct exit_report *report, struct now now)
{
	struct run *r = core_run(c, id);
	if (!r || r->exited)
		return;
	for (unsigned i = 0; i < r->n_slots; i++)
		core_hold_slot(c, c->slots[r->slots[i]], now);
	r->report = *report;
	add_device_evidence(c, r);
	r->exited = true;
	r->exit_ms = now.mono_ms;
	core_detach(c, r, now);
	c->dirty = true;
	if (under_mps(r) && failed_by_itself(r))
		note_death(c, r, now.mono_ms);
	if (under_mps(r) && r->had_neighbours && failed_by_itself(r))
		c->n_unjudged++;
	else
		conclude(c, r, now);
}

int64_t core_settle_exits(struct core *c, struct now now)
{
	struct run **due = NULL;
	size_t n = 0, cap = 0, at = 0;
	int64_t next = INT64_MAX;
	if (!c->n_unjudged)
		return next;
	for (struct run *r; (r = idmap_next(&c->runs, &at));) {
		int64_t when = r->exit_ms + c->config.cohort_ms;
		if (!r->exited)
			continue;
		if (when > now.mono_ms) {
			next = when < next ? when : next;
			continue;
		}
		alloc_grow(due, n, cap);
		due[n++] = r;
	}
	c->n_unjudged -= n;
	for (size_t i = 0; i < n; i++)
		conclude(c, due[i], now);
	free(due);
	return next;
}
