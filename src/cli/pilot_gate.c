/* SPDX-License-Identifier: MIT
 * See pilot_gate.h. A place is taken before the claim is made, and names it; so whoever is killed between the two leaves a
 * place that anybody may use who makes that same claim. If nobody wants to, the version that it names is made as one that
 * claims nothing, and the place is free.
 */
#include "cli/pilot_gate.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/pilot_after.h"

#include <string.h>

#define SHUT_MS 1000
#define STUCK_MS 10000		/* far longer than from a place to its claim */

/* Whether that claim holds its place: it is made, or may still be. -1: not known. */
static int holds(struct pilot_known *k, const struct spool *s, uint32_t job, const struct spool_place *place, bool *made)
{
	task_id id = TASK_ID(job, (int32_t)place->element);
	const struct pilot_known_task *t = pilot_known_find(k, id);
	*made = false;
	if (!t)		/* no element of it: a strange file */
		return 0;
	if (t->record.version < place->claim || (t->record.state == SPOOL_CLAIMED && t->record.claim == place->claim))
		t = pilot_known_read(k, s, id, NULL);
	if (!t)
		return -1;
	*made = t->record.version >= place->claim;
	return !*made || (t->record.state == SPOOL_CLAIMED && t->record.claim == place->claim);
}

/* Damaged: those that are claimed have their places. What is being claimed in this moment is not among them. */
static void mend(struct spool_gate *g, const struct pilot_known_job *j)
{
	g->places = alloc_zero((j->n + 1) * sizeof *g->places);
	g->n = 0;
	for (size_t i = 0; i < j->n; i++)
		if (j->tasks[i].record.state == SPOOL_CLAIMED)
			g->places[g->n++] = (struct spool_place){ .element = (uint32_t)TASK_INDEX(j->tasks[i].id),
								  .claim = j->tasks[i].record.claim };
}

/* The version that a place names, and that nobody makes: it says what the one before said. */
static void pass_over(struct pilot_known *k, const struct spool *s, uint32_t job, const struct spool_place *place)
{
	task_id id = TASK_ID(job, (int32_t)place->element);
	const struct pilot_known_task *t = pilot_known_find(k, id);
	if (!t || t->record.version + 1 != place->claim)
		return;
	struct spool_record next = spool_record_next(&t->record, "passed", NULL);
	memcpy(next.text, t->record.text, sizeof next.text);
	if (!spool_change(s, id, &next, NULL))
		pilot_known_set(k, id, &next);
}

/* Keeps those that hold their places; *mine: this claim has one. -1: one is not known. */
static int sift(struct pilot_known *k, const struct spool *s, const struct pilot_known_task *t, struct spool_gate *g,
		bool *mine)
{
	size_t kept = 0;
	bool stuck = t->job->gate_ms && clock_mono_ms() - t->job->gate_ms > STUCK_MS, made;
	for (size_t i = 0; i < g->n; i++) {
		struct spool_place place = g->places[i];
		int is = holds(k, s, t->job->number, &place, &made);
		if (is < 0)
			return -1;
		bool own = TASK_ID(t->job->number, (int32_t)place.element) == t->id && place.claim == t->record.version + 1;
		*mine = *mine || own;
		if (is && !made && !own && stuck)
			pass_over(k, s, t->job->number, &place);
		if (is)
			g->places[kept++] = place;
	}
	g->n = kept;
	return 0;
}

static int take(struct pilot_known *k, const struct spool *s, struct pilot_known_task *t, struct spool_gate *g,
		struct error *err)
{
	struct pilot_known_job *j = t->job;
	unsigned version = t->record.version;
	bool mine = false;
	if (g->version != j->gate || !j->gate_ms) {
		j->gate = g->version;
		j->gate_ms = clock_mono_ms();
	}
	if (g->broken)
		mend(g, j);
	if (sift(k, s, t, g, &mine))
		return error_set(err, ERR_UNAVAILABLE, "task %u: how many of it run cannot be read", j->number);
	/* It may be this one of which that was read anew. */
	if (t->record.version != version || t->record.state != SPOOL_PENDING)
		return 1;
	if (mine && !g->broken)
		return 0;
	if (g->n >= pilot_after_limit(j->spec))
		return 1;
	g->places = alloc_resize(g->places, g->n + 1, sizeof *g->places);
	g->places[g->n++] = (struct spool_place){ (uint32_t)TASK_INDEX(t->id), t->record.version + 1 };
	return spool_gate_change(s, j->number, g, err);
}

int pilot_gate_take(struct pilot_known *k, const struct spool *s, struct pilot_known_task *t, struct error *err)
{
	struct spool_gate g;
	if (spool_gate_read(s, t->job->number, t->job->gate, &g, err))
		return -1;
	int rc = take(k, s, t, &g, err);
	if (rc > 0)
		t->job->shut_ms = clock_mono_ms();
	spool_gate_clear(&g);
	return rc;
}

bool pilot_gate_is_shut(const struct pilot_known_job *j)
{
	return j->shut_ms && clock_mono_ms() - j->shut_ms < SHUT_MS;
}
