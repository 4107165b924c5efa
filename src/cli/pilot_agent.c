/* SPDX-License-Identifier: MIT
 * See pilot_agent.h. Which task next: the first in the queue's order that the radd would start at this moment; so nothing is
 * claimed that another pilot could start sooner. One that has stood first for a while and finds no room is claimed all the
 * same, by one pilot, whose radd then keeps GPUs for it as for any task.
 */
#include "cli/pilot_agent.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/format.h"
#include "cli/member.h"
#include "cli/pilot_after.h"
#include "cli/pilot_gate.h"
#include "cli/pilot_local.h"
#include "cli/pilot_node.h"
#include "cli/pilot_notice.h"
#include "cli/pilot_others.h"
#include "cli/pilot_work.h"

#include <poll.h>
#include <stdio.h>

#define STEP_MS 200		/* what ended is told at once: if the node dies before, it has to be done again */
#define LOOK_MS 1000		/* between two looks at the queue, which cost its server something */
#define BEAT_MS 4000
#define TRIES 8			/* of tasks that do not fit now, in one step: each costs a question to radd */
#define PATIENCE_MS 60000
#define CLEAN_MS 3600000
#define LEFT_OVER_S 86400	/* who writes takes milliseconds; a file server may hang for long */
#define MOST_REFUSED 1000
#define LENGTHENED_MS 60000	/* by less than that the end moves with each answer of Slurm's, which is in seconds */

struct agent {
	struct pilot *p;
	struct pilot_known *k;
	struct pilot_work *w;
	struct pilot_others *o;
	json_t *refused;	/* id -> why it can never run here */
	int64_t end_ms;		/* mono; of the allocation, when these were refused */
	size_t gpus;
	json_int_t beat;
	int64_t clean_ms;	/* mono; when tmp/ was cleaned */
	int64_t beat_ms, look_ms, idle_ms;	/* mono; of the last beat and look; since when there is nothing to do, 0: there is */
	bool lost, lost_radd, stuck;	/* was told: the queue, the radd does not answer; nothing can be taken */
};

/* ---- the queue comes and goes ---- */

static json_t *who_json(const struct pilot *p)
{
	const struct pilot_who *w = &p->who;
	return json_pack("{ss, ss, ss, ss, sI, ss, so}", "host", w->host, "boot", w->boot, "job", w->job, "cluster", w->cluster,
			 "restarts", (json_int_t)w->restarts, "release", RAD_VERSION, "state", json_text(p->state));
}

static void lose_queue(struct agent *a, const struct error *err)
{
	size_t waiting;
	if (!a->lost)
		cli_note("the queue does not answer (%s): nothing more is taken from it; %zu tasks go on", err->text,
			 pilot_work_count(a->w, &waiting));
	a->lost = true;
	spool_close(a->p->s);	/* a folder that is opened again has no stale handle */
	a->p->s = NULL;
}

static int find_queue(struct agent *a)
{
	struct error err = ERROR_INIT;
	if (a->p->s)
		return 0;
	a->p->s = spool_open(a->p->dir, false, &err);
	scoped_json *who = who_json(a->p);
	if (!a->p->s || spool_enter(a->p->s, a->p->who.name, who, &err)) {
		lose_queue(a, &err);
		return -1;
	}
	if (a->lost)
		cli_note("the queue answers again");
	a->lost = false;
	a->beat_ms = a->look_ms = 0;
	return 0;
}

/* ---- the heart ---- */

static void beat(struct agent *a)
{
	struct error err = ERROR_INIT;
	size_t waiting;
	int64_t now = clock_mono_ms(), end = a->p->shared->end_ms;
	if (a->beat_ms && now - a->beat_ms < BEAT_MS)
		return;
	a->beat_ms = now;
	scoped_json *status = json_pack("{sI, sI, sI, so, sb, sO, so}", "beat", (json_int_t)++a->beat, "gpus", (json_int_t)a->gpus,
					"tasks", (json_int_t)pilot_work_count(a->w, &waiting), "left_s",
					json_int_or_null((end - now) / 1000, end != INT64_MAX), "ending", (int)a->p->shared->ending,
					"refused", a->refused, "silent", pilot_others_silent(a->o));
	if (spool_status(a->p->s, a->p->who.name, status, &err))
		lose_queue(a, &err);
}

/* A pilot that comes back goes on counting: who watches has seen its numbers. */
static void find_pulse(struct agent *a)
{
	scoped_json *said = spool_pilot(a->p->s, a->p->who.name);
	a->beat = member_int(json_object_get(said, "status"), "beat");
}

/* ---- what to claim ---- */

static bool saves(const struct spec *s)
{
	return s->signal || s->slot_s > 0 || s->requeue_code;
}

/* Whether there is time for it; `why` for one for which there never will be in this allocation. */
static bool has_time(const struct agent *a, const struct pilot_known_task *t, char why[SPOOL_TEXT])
{
	char asked[FORMAT_LEN], left[FORMAT_LEN];
	const struct spec *s = t->job->spec;
	int64_t end = a->p->shared->end_ms, margin = pilot_margin_ms(&a->p->options),
		told = s->signal && s->signal_before_s * 1000 > margin ? s->signal_before_s * 1000 : margin;
	double left_s = (double)(end - clock_mono_ms() - told) / 1000, wants_s = (double)s->time_limit_s - t->record.ran_s;
	*why = 0;
	if (end == INT64_MAX || (s->time_limit_s && wants_s <= left_s))
		return true;
	if (!s->time_limit_s || saves(s))	/* else it would be told to save before it has done anything */
		return left_s >= (double)margin / 2000;
	text_printf(why, SPOOL_TEXT, "asks for %s, and this allocation has %s left: ask for a longer one, or have it save when it is "
		    "told to (--slot)", format_seconds(wants_s, asked), format_seconds(left_s > 0 ? left_s : 0, left));
	return false;
}

/* People are told of the first thousand; the others are not asked about again and again all the same, or what comes after them
 * would never have its turn. */
static void refuse(struct agent *a, struct pilot_known_task *t, const char *why)
{
	char id[TASK_ID_TEXT];
	t->refused = t->record.version + 1;
	if (json_object_size(a->refused) < MOST_REFUSED)
		json_object_set_new(a->refused, task_id_text(t->id, id), json_text(why));
	a->beat_ms = 0;		/* people are told at once */
}

static bool is_refused(const struct pilot_known_task *t)
{
	return t->refused == t->record.version + 1;
}

/* One that waits no more is nobody's to refuse; in an allocation that was lengthened each is tried again. */
static void keep_refused(struct agent *a, struct pilot_known_task **list, size_t n)
{
	json_t *kept = json_object();
	char id[TASK_ID_TEXT];
	int64_t end = a->p->shared->end_ms;
	bool lengthened = end - LENGTHENED_MS > a->end_ms;
	for (size_t i = 0; lengthened && i < n; i++)
		list[i]->refused = 0;
	n = lengthened ? 0 : n;
	a->end_ms = end;
	for (size_t i = 0; i < n && json_object_size(a->refused); i++) {
		json_t *why = json_object_get(a->refused, task_id_text(list[i]->id, id));
		if (why)
			json_object_set(kept, id, why);
	}
	json_decref(a->refused);
	a->refused = kept;
}

/* 1: to be claimed; 0: not now; -1: radd does not answer. */
static int wants(struct agent *a, struct pilot_known_task *t, bool first, struct error *err)
{
	char why[SPOOL_TEXT];
	enum pilot_local_fit fit;
	struct error said = ERROR_INIT;
	int64_t now = clock_mono_ms();
	if (!has_time(a, t, why)) {
		if (*why)
			refuse(a, t, why);
		return 0;
	}
	if (pilot_local_try(t, &fit, &said))
		return error_pass(err, &said);
	if (fit == PILOT_FITS_NEVER)
		refuse(a, t, said.text);
	if (fit != PILOT_FITS_LATER || !first)
		return fit == PILOT_FITS;
	if (!t->job->unfit_ms)
		t->job->unfit_ms = now;
	return now - t->job->unfit_ms > PATIENCE_MS;
}

/* Elements of an array are alike: of each job one is asked about. NULL: none is to be claimed now. */
static struct pilot_known_task *choose(struct agent *a, struct pilot_known_task **list, size_t n, struct error *err)
{
	const struct pilot_known_job *asked = NULL, *waits = NULL;
	int tries = 0;
	for (size_t i = 0; i < n && tries < TRIES; i++) {
		struct pilot_known_task *t = list[i];
		if (t->job == asked || t->job == waits || is_refused(t))
			continue;
		enum pilot_after after = pilot_after(a->k, t, NULL);
		if (after != PILOT_READY || pilot_gate_is_shut(t->job)) {
			waits = after == PILOT_READY || after == PILOT_ARRAY_LIMIT || !spec_waits_by_element(t->job->spec) ? t->job : waits;
			continue;
		}
		int want = wants(a, t, !tries, err);
		if (want)
			return want > 0 ? t : NULL;
		asked = is_refused(t) ? asked : t->job;
		tries++;
	}
	return NULL;
}

/* Returns whether something was claimed: then the next is looked for without a pause. */
static bool claim(struct agent *a, struct error *err)
{
	scoped_free struct pilot_known_task **list = NULL;
	size_t waiting, n;
	pilot_work_count(a->w, &waiting);
	n = pilot_known_pending(a->k, &list);
	keep_refused(a, list, n);
	if (waiting || a->p->shared->ending)
		return false;
	struct pilot_known_task *t = choose(a, list, n, err);
	if (!t)
		return false;
	t->job->unfit_ms = 0;
	return pilot_work_claim(a->w, t, err) >= 0;
}

/* ---- the loop ---- */

static bool is_done(struct agent *a)
{
	size_t waiting, n = pilot_work_count(a->w, &waiting);
	int64_t now = clock_mono_ms(), idle = a->p->options.idle_ms;
	if (n)
		a->idle_ms = 0;
	else if (!a->idle_ms)
		a->idle_ms = now;
	if (n)
		return false;
	return a->p->shared->ending || (idle && now - a->idle_ms >= idle);
}

/* Radd first: what it does not say now, it says with the next step. */
static int check_radd(struct agent *a)
{
	struct error err = ERROR_INIT;
	if (!pilot_node_start_radd(a->p, &err)) {
		a->lost_radd = false;
		return 0;
	}
	if (!a->lost_radd)
		cli_note("the pilot's radd does not start: %s", err.text);
	a->lost_radd = true;
	return -1;
}

/* Of a radd whose disk is full, say: it answers, and takes nothing. */
static void tell_stuck(struct agent *a, const struct error *err)
{
	if (err->code && !a->stuck)
		cli_note("nothing more can be taken from the queue for now: %s", err->text);
	a->stuck = err->code;
}

/* What was killed while it wrote. */
static void clean(struct agent *a)
{
	int64_t now = clock_mono_ms();
	if (a->clean_ms && now - a->clean_ms < CLEAN_MS)
		return;
	a->clean_ms = now;
	int n = spool_clean(a->p->s, LEFT_OVER_S, NULL);
	if (n > 0)
		cli_note("%d files that were begun in the queue and not finished were removed", n);
}

/* -1: something did not answer. */
static int step(struct agent *a, bool *busy)
{
	struct error err = ERROR_INIT;
	int64_t now = clock_mono_ms();
	bool look = !a->look_ms || now - a->look_ms >= LOOK_MS;
	if (check_radd(a) || find_queue(a))
		return -1;
	if (look && pilot_known_look(a->k, a->p->s, &err)) {
		lose_queue(a, &err);
		return -1;
	}
	a->look_ms = look ? now : a->look_ms;
	clean(a);
	int failed = pilot_work_step(a->w, look, &err);
	pilot_others_look(a->o);
	if (!failed)
		*busy = claim(a, &err);
	if (a->p->s)
		beat(a);
	pilot_notices_work(a->p->notices);
	if (err.code == ERR_SYSTEM && a->p->s)
		lose_queue(a, &err);
	else
		tell_stuck(a, &err);
	return failed;
}

int pilot_agent_run(struct pilot *p, size_t gpus)
{
	struct error ignored = ERROR_INIT;
	struct agent a = { .p = p, .k = pilot_known_create(), .refused = json_object(), .gpus = gpus };
	a.w = pilot_work_create(p, a.k);
	a.o = pilot_others_create(p, a.k);
	p->notices = pilot_notices_create();
	if (!find_queue(&a))
		find_pulse(&a);
	for (bool done = false; !done;) {
		bool busy = false;
		int failed = step(&a, &busy);
		done = !failed && !busy && p->s && is_done(&a);
		if (!done)
			poll(NULL, 0, busy ? 50 : STEP_MS);
	}
	pilot_known_look(a.k, p->s, &ignored);	/* what has just ended is on the list of live ones: there may be no pilot after this */
	spool_leave(p->s, p->who.name);
	pilot_notices_destroy(p->notices);
	pilot_others_destroy(a.o);
	pilot_work_destroy(a.w);
	pilot_known_destroy(a.k);
	json_decref(a.refused);
	return 0;
}
