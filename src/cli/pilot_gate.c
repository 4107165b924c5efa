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
#define STRANGE_MS 120000	/* longer than a client of NFS believes that a name is not there */

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
static void mend(struct pilot_known *k, const struct spool *s, struct spool_gate *g, const struct pilot_known_job *j)
{
	g->places = alloc_zero((j->n + 1) * sizeof *g->places);
	g->n = 0;
	for (size_t i = 0; i < j->n; i++) {
		const struct spool_record *r = &j->tasks[i].record;
		if (r->state != SPOOL_ENDED)
			pilot_known_read(k, s, j->tasks[i].id, NULL);
		if (r->state == SPOOL_CLAIMED)
			g->places[g->n++] = (struct spool_place){ .element = (uint32_t)TASK_INDEX(j->tasks[i].id), .claim = r->claim };
	}
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

static bool has_stood(const struct pilot_known_job *j, int64_t ms)
{
	return j->gate_ms && clock_mono_ms() - j->gate_ms > ms;
}

/* Keeps those that hold their places. A place of a claim that nobody could have wanted yet is none, where it stays so: the file
 * was changed by hand. -1: one is not known. */
static int sift(struct pilot_known *k, const struct spool *s, const struct pilot_known_task *t, struct spool_gate *g)
{
	size_t kept = 0;
	bool stuck = has_stood(t->job, STUCK_MS), made;
	for (size_t i = 0; i < g->n; i++) {
		struct spool_place place = g->places[i];
		int is = holds(k, s, t->job->number, &place, &made);
		if (is < 0)
			return -1;
		if (is && !made && stuck)
			pass_over(k, s, t->job->number, &place);
		const struct pilot_known_task *its = pilot_known_find(k, TASK_ID(t->job->number, (int32_t)place.element));
		if (is && its->record.version + 1 < place.claim && has_stood(t->job, STRANGE_MS))
			is = 0;
		if (is)
			g->places[kept++] = place;
	}
	g->n = kept;
	return 0;
}

/* The same without a question to the file system: what has been seen to be over is over. */
static void sift_known(const struct pilot_known *k, uint32_t job, struct spool_gate *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < g->n; i++) {
		const struct spool_place *place = &g->places[i];
		const struct pilot_known_task *t = pilot_known_find(k, TASK_ID(job, (int32_t)place->element));
		if (t && (t->record.version < place->claim || (t->record.state == SPOOL_CLAIMED && t->record.claim == place->claim)))
			g->places[kept++] = *place;
	}
	g->n = kept;
}

static bool has_place(const struct spool_gate *g, const struct pilot_known_task *t)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->places[i].element == (uint32_t)TASK_INDEX(t->id) && g->places[i].claim == t->record.version + 1)
			return true;
	return false;
}

static int take(struct pilot_known *k, const struct spool *s, struct pilot_known_task *t, struct spool_gate *g,
		struct error *err)
{
	struct pilot_known_job *j = t->job;
	unsigned version = t->record.version;
	size_t limit = pilot_after_limit(j->spec);
	if (g->version != j->gate || !j->gate_ms) {
		j->gate = g->version;
		j->gate_ms = clock_mono_ms();
	}
	if (g->broken)
		mend(k, s, g, j);
	else if (has_place(g, t))
		return 0;
	sift_known(k, j->number, g);
	/* Of hundreds of places each would be a question, for each claim. */
	if (g->n >= limit && sift(k, s, t, g))
		return error_set(err, ERR_UNAVAILABLE, "task %u: how many of it run cannot be read", j->number);
	/* It may be this one of which that was read anew. */
	if (t->record.version != version || t->record.state != SPOOL_PENDING || g->n >= limit)
		return 1;
	g->places = alloc_resize(g->places, g->n + 1, sizeof *g->places);
	g->places[g->n++] = (struct spool_place){ (uint32_t)TASK_INDEX(t->id), t->record.version + 1 };
	return spool_gate_change(s, j->number, g, err);
}

int pilot_gate_take(struct pilot_known *k, const struct spool *s, struct pilot_known_task *t, struct error *err)
{
	struct spool_gate g;
	if (spool_gate_read(s, t->job->number, t->job->gate, &g, err)) {
		t->job->shut_ms = clock_mono_ms();
		return -1;
	}
	int rc = take(k, s, t, &g, err);
	if (rc)		/* where it cannot be told, others are not kept from their turn */
		t->job->shut_ms = clock_mono_ms();
	spool_gate_clear(&g);
	return rc;
}

bool pilot_gate_is_shut(const struct pilot_known_job *j)
{
	return j->shut_ms && clock_mono_ms() - j->shut_ms < SHUT_MS;
}
