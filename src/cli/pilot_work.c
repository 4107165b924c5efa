/* SPDX-License-Identifier: MIT
 * See pilot_work.h.
 *
 * Handing over, once: a task is submitted to radd held, under a name that tells the claim ("12_3.4 train"); its number there is
 * written down in the pilot's folder, on disk; then it is released. Who is killed before it was written down finds no number,
 * and submits anew; the first one, should it turn up, is held for ever, and is cancelled. So of all copies one alone can
 * start: the one whose number was written down.
 */
#include "cli/pilot_work.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/member.h"
#include "cli/pilot_after.h"
#include "cli/pilot_gate.h"
#include "cli/pilot_local.h"
#include "cli/pilot_node.h"
#include "cli/pilot_notice.h"
#include "cli/pilot_outcome.h"
#include "submit/wire.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TELL_AGAIN_MS 5000

struct work {
	struct pilot_handed h;
	bool started, waiting;		/* it is told that it runs; radd does not run it */
	bool delayed;			/* it waits for nothing but its next retry: others may be taken meanwhile */
	bool unread;			/* was said: its record cannot be read */
	int64_t told_ms;		/* mono; when radd was told last to end it; 0: it was not */
};

struct pilot_work {
	struct pilot *p;
	struct pilot_known *k;
	struct idmap all;		/* task_id -> struct work: of each task one claim is ours */
	bool looked;			/* for copies that a former agent left */
	int failed;
	struct error err;
};

static void add_handed(void *ctx, const struct pilot_handed *h)
{
	struct pilot_work *w = ctx;
	struct work *one = idmap_get(&w->all, h->id);
	if (one && one->h.claim > h->claim)
		return;
	if (!one)
		idmap_put(&w->all, h->id, one = alloc_zero(sizeof *one));
	one->h = *h;
	one->waiting = true;
}

struct pilot_work *pilot_work_create(struct pilot *p, struct pilot_known *k)
{
	struct pilot_work *w = alloc_zero(sizeof *w);
	w->p = p;
	w->k = k;
	pilot_node_handed(p, add_handed, w);
	return w;
}

void pilot_work_destroy(struct pilot_work *w)
{
	if (!w)
		return;
	idmap_free_all(&w->all);
	free(w);
}

struct claimed { const struct pilot_work *w; size_t n; };

static void count_claimed(void *ctx, struct pilot_known_task *t)
{
	struct claimed *c = ctx;
	const struct spool_record *r = &t->record;
	c->n += r->state == SPOOL_CLAIMED && !strcmp(r->pilot, c->w->p->who.name) && !idmap_get(&c->w->all, t->id);
}

size_t pilot_work_count(const struct pilot_work *w, size_t *waiting)
{
	struct claimed c = { w, 0 };
	size_t at = 0;
	pilot_known_each(w->k, count_claimed, &c);
	*waiting = c.n;
	for (struct work *one; (one = idmap_next(&w->all, &at));)
		*waiting += one->waiting && !one->delayed;
	return w->all.n + c.n;
}

/* ---- handing over ---- */

/* Held copies of claims whose number was not written down. */
static int cancel_copies(struct pilot_work *w, struct error *err)
{
	scoped_json *said = client_call(wire_request("list"), err);
	size_t i;
	json_t *t;
	if (!said)
		return -1;
	json_array_foreach(json_object_get(said, "tasks"), i, t) {
		char name[PILOT_KEY];
		task_id id = 0;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(member_text(t, "name"), "."), member_text(t, "name"));
		if (member_state(t) != TASK_HELD || task_id_parse(name, &id, NULL))
			continue;
		struct work *one = idmap_get(&w->all, id);
		if (!one || strcmp(one->h.local, member_text(t, "id")))
			json_decref(client_call_id("cancel", member_text(t, "id"), NULL));
	}
	return 0;
}

/* Trying again does not help, and it would keep the pilot from all others: a person is told. */
static int hold_refused(struct pilot_work *w, const struct pilot_known_task *t, const struct error *why, struct error *err)
{
	struct spool_record next = spool_record_next(&t->record, "held", w->p->who.name);
	next.state = t->record.wish == SPOOL_WISH_CANCEL ? SPOOL_ENDED : SPOOL_HELD;
	next.end = TASK_CANCELLED;
	next.started = false;
	next.wish = SPOOL_WISH_NONE;
	text_printf(next.text, sizeof next.text, "%s could not give it to its radd: %.250s", w->p->who.name, why->text);
	int rc = spool_change(w->p->s, t->id, &next, err);
	if (rc)
		return rc;
	pilot_notices_note(w->p->notices, t->job->spec, t->id, &next);
	pilot_known_set(w->k, t->id, &next);
	return 0;
}

static bool is_final(const struct error *why)
{
	return why->code == ERR_INVALID || why->code == ERR_DENIED || why->code == ERR_NOT_FOUND;
}

static int hand_over(struct pilot_work *w, const struct pilot_known_task *t, struct error *err)
{
	const struct spec *s = t->job->spec;
	struct error why = ERROR_INIT;
	bool looked = w->looked;
	json_t *request = pilot_local_request(w->p, t, t->record.claim, &why);
	scoped_json *reply = request ? client_call(request, &why) : NULL;
	w->looked = false;	/* for a copy, should this be as far as we get */
	if (!reply && (request ? is_final(&why) : why.code == ERR_CORRUPT))
		return hold_refused(w, t, &why, err);
	if (!reply)
		return error_pass(err, &why);
	struct pilot_handed h = { .id = t->id, .claim = t->record.claim, .signal = s->signal, .before_ms = s->signal_before_s * 1000,
				  .code = s->requeue_code ? s->requeue_code : SPEC_REQUEUE_CODE };
	text_printf(h.local, sizeof h.local, "%.20s", member_text(reply, "first"));
	if (pilot_node_note(w->p, &h, err))
		return -1;
	add_handed(w, &h);
	w->looked = looked;
	json_decref(client_call_id("release", h.local, NULL));	/* else with the next step */
	return 0;
}

int pilot_work_claim(struct pilot_work *w, struct pilot_known_task *t, struct error *err)
{
	int place = pilot_after_limit(t->job->spec) ? pilot_gate_take(w->k, w->p->s, t, err) : 0;
	if (place)
		return place;
	struct spool_record next = spool_record_next(&t->record, "claimed", w->p->who.name);
	next.state = SPOOL_CLAIMED;
	next.wish = SPOOL_WISH_NONE;
	next.started = false;
	next.claim = t->record.version + 1;
	next.claims++;
	snprintf(next.pilot, sizeof next.pilot, "%s", w->p->who.name);
	int rc = spool_change(w->p->s, t->id, &next, err);
	if (rc)
		return pilot_known_read(w->k, w->p->s, t->id, rc > 0 ? err : NULL) ? rc : -1;
	pilot_known_set(w->k, t->id, &next);
	return hand_over(w, t, err);
}

/* ---- what became of it ---- */

static bool is_ours(const struct pilot_work *w, const struct work *one, const struct pilot_known_task *t)
{
	return t && t->record.state == SPOOL_CLAIMED && t->record.claim == one->h.claim && !strcmp(t->record.pilot, w->p->who.name);
}

static void drop(struct pilot_work *w, struct work *one)
{
	pilot_node_forget(w->p, &one->h);
	idmap_remove(&w->all, one->h.id);
	free(one);
}

static void tell_radd(struct work *one, const char *op)
{
	json_decref(client_call_id(op, one->h.local, NULL));
}

/* A claim that was given back before it began was none. */
static bool begins_first(const struct pilot_work *w, const struct pilot_known_task *t)
{
	bool before = false;
	for (unsigned v = t->record.version; v && !before && t->record.claims > 1; v--) {
		struct spool_record r;
		if (spool_read_version(w->p->s, t->id, v, &r, NULL))
			continue;
		before = r.started;
		spool_record_clear(&r);
	}
	return !before;
}

/* What ended before it was seen running has begun too. */
static void note_unseen_start(struct pilot_work *w, const struct work *one, const struct pilot_known_task *t, json_t *local)
{
	struct spool_record begun = spool_record_next(&t->record, "started", w->p->who.name);
	if (t->record.started || !json_array_size(json_object_get(local, "attempts")) || !begins_first(w, t))
		return;
	begun.started = true;
	begun.task = local;	/* borrowed */
	pilot_notices_note(w->p->notices, t->job->spec, one->h.id, &begun);
}

/* 0: the queue has it. The local task is not needed any more then. */
static int carry_back(struct pilot_work *w, struct work *one, const struct pilot_known_task *t, json_t *local,
		struct error *err)
{
	struct spool_record next = pilot_outcome(w->p, &one->h, t, local);
	double ran = member_number(local, "run_s");
	/* What begins anew from its start has all of its --time again. */
	if (next.state == SPOOL_ENDED || !strcmp(next.event, "saved"))
		next.ran_s += isnan(ran) || ran < 0 ? 0 : ran;
	next.task = json_incref(local);
	int rc = spool_change(w->p->s, one->h.id, &next, err);
	if (!rc) {
		if (next.state == SPOOL_ENDED)
			note_unseen_start(w, one, t, local);
		pilot_notices_note(w->p->notices, t->job->spec, one->h.id, &next);
		pilot_known_set(w->k, one->h.id, &next);	/* which *t is: what it was is not asked any more */
	}
	spool_record_clear(&next);
	return rc;
}

static int tell_start(struct pilot_work *w, struct work *one, const struct pilot_known_task *t, json_t *local,
		struct error *err)
{
	struct spool_record next = spool_record_next(&t->record, "started", w->p->who.name);
	next.started = true;
	next.task = json_incref(local);
	int rc = spool_change(w->p->s, one->h.id, &next, err);
	if (!rc) {
		if (begins_first(w, t))
			pilot_notices_note(w->p->notices, t->job->spec, one->h.id, &next);
		pilot_known_set(w->k, one->h.id, &next);
	}
	spool_record_clear(&next);
	one->started = !rc;
	return rc < 0 ? -1 : 0;
}

static int look_at_local(struct pilot_work *w, struct work *one, struct pilot_known_task *t, json_t *local, struct error *err)
{
	enum task_state state = member_state(local);
	bool ours = is_ours(w, one, t), wish = ours && t->record.wish != SPOOL_WISH_NONE;
	one->waiting = state == TASK_PENDING || state == TASK_HELD;
	one->delayed = !strcmp(member_text(local, "reason"), "BeginTime");	/* --begin is the queue's, and not told to radd */
	if (task_state_terminal(state)) {
		int rc = ours ? carry_back(w, one, t, local, err) : 0;
		if (!rc)
			drop(w, one);
		return rc < 0 ? -1 : 0;	/* 1: it changed meanwhile, and is looked at again */
	}
	if (!ours || wish || (w->p->shared->ending && one->waiting)) {
		int64_t now = clock_mono_ms();
		if (!one->told_ms || now - one->told_ms > TELL_AGAIN_MS) {
			tell_radd(one, "cancel");
			one->told_ms = now;
		}
		return 0;
	}
	one->told_ms = 0;
	if (state == TASK_HELD)
		tell_radd(one, "release");
	return state == TASK_RUNNING && !t->record.started ? tell_start(w, one, t, local, err) : 0;
}

/* A folder of a job that was taken away, or damaged, by hand: no reason to take nothing else. */
static int unread(struct work *one, const struct error *why, struct error *err)
{
	if (why->code != ERR_NOT_FOUND && !spool_is_damage(why))
		return error_pass(err, why);
	if (!one->unread)
		cli_note("%s: what became of it can be told to nobody; it goes on", why->text);
	one->unread = true;
	one->waiting = false;
	return 0;
}

/* One that radd has no memory of was never released: its store is of before, and what it ran then is a stray. It is left to
 * people. */
static int step_one(struct pilot_work *w, struct work *one, bool look, struct error *err)
{
	struct error why = ERROR_INIT, later = ERROR_INIT;
	scoped_json *said = client_call_id("show", one->h.local, &why);
	if (!said && why.code != ERR_NOT_FOUND)
		return error_pass(err, &why);
	json_t *local = json_array_get(json_object_get(said, "tasks"), 0);
	enum task_state state = member_state(local);
	if (!look && !task_state_terminal(state) && (one->started || state != TASK_RUNNING) && !w->p->shared->ending)
		return 0;
	struct pilot_known_task *t = pilot_known_read(w->k, w->p->s, one->h.id, &later);
	/* Whether it is still ours is the queue's to say; while that does not answer, nothing is done. */
	if (!t)
		return unread(one, &later, err);
	one->waiting = local && one->waiting;
	return local ? look_at_local(w, one, t, local, err) : 0;
}

static void hand_over_if_ours(void *ctx, struct pilot_known_task *t)
{
	struct pilot_work *w = ctx;
	const struct spool_record *r = &t->record;
	if (r->state != SPOOL_CLAIMED || strcmp(r->pilot, w->p->who.name) || w->failed)
		return;
	if (idmap_get(&w->all, t->id))	/* this claim, or an older one that is being ended at radd */
		return;
	if (!w->looked && cancel_copies(w, &w->err)) {
		w->failed = -1;
		return;
	}
	w->looked = true;
	w->failed = hand_over(w, t, &w->err);
}

int pilot_work_step(struct pilot_work *w, bool look, struct error *err)
{
	scoped_free struct work **list = alloc_zero((w->all.n + 1) * sizeof *list);
	size_t at = 0, n = 0;
	int failed = 0;
	for (struct work *one; (one = idmap_next(&w->all, &at));)
		list[n++] = one;
	for (size_t i = 0; i < n; i++)
		failed |= step_one(w, list[i], look, err);
	w->failed = 0;
	w->err = ERROR_INIT;
	if (look)
		pilot_known_each(w->k, hand_over_if_ours, w);
	if (w->failed)
		*err = w->err;
	return failed || w->failed ? -1 : 0;
}
