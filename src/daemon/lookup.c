/* SPDX-License-Identifier: MIT
 * Who reads in the history, and who is next: see lookup.h. The worker's side is in lookup_worker.c.
 *
 * None begins before a commit (lookups_start): the process reads the store as it is on disk, and who asks after a change of his
 * own has to find it there.
 */
#include "daemon/lookup.h"

#include "base/alloc.h"
#include "daemon/turns.h"
#include "launch/worker.h"
#include "submit/wire.h"

#include <stdlib.h>

struct lookup {
	struct lookups *r;
	struct lookup *next;
	uid_t payer;
	char *request;		/* NULL once it was started */
	struct worker *worker;
	lookup_done done;
	void *ctx;
};

struct lookups {
	uv_loop_t *loop;
	char *program, *env[2];
	struct lookup *first;	/* not started yet, as they came */
	struct lookup *running[LOOKUP_AT_ONCE];
	struct turns turns;
};

struct lookups *lookups_create(uv_loop_t *loop, const char *program, const char *state_dir)
{
	struct lookups *r = alloc_zero(sizeof *r);
	r->loop = loop;
	r->program = alloc_string(program);
	r->env[0] = alloc_printf("RAD_STATE=%s", state_dir);
	return r;
}

/* Out of the table or the list, before anybody is told, since he may ask for the next one at once. */
static void lookups_forget(struct lookup *j)
{
	struct lookups *r = j->r;
	for (size_t i = 0; i < LOOKUP_AT_ONCE; i++)
		if (r->running[i] == j)
			r->running[i] = NULL;
	for (struct lookup **at = &r->first; *at; at = &(*at)->next)
		if (*at == j) {
			*at = j->next;
			break;
		}
	free(j->request);
	free(j);
}

/* Processes are ended and not waited for: who asked is gone already, and they only read. */
void lookups_destroy(struct lookups *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < LOOKUP_AT_ONCE; i++)
		if (r->running[i]) {
			worker_stop(r->running[i]->worker);
			lookups_forget(r->running[i]);
		}
	while (r->first)
		lookups_forget(r->first);
	turns_free(&r->turns);
	free(r->program);
	free(r->env[0]);
	free(r);
}

/* Noted and no more: with the others it begins after the commit. */
struct lookup *lookups_ask(struct lookups *r, uid_t payer, char *request, lookup_done done, void *ctx)
{
	struct lookup *j = alloc_zero(sizeof *j), **at = &r->first;
	*j = (struct lookup){ .r = r, .payer = payer, .request = request, .done = done, .ctx = ctx };
	while (*at)
		at = &(*at)->next;
	*at = j;
	return j;
}

/* `done` is not called, neither now nor later: who cancels may be gone when an answer would come. */
void lookup_cancel(struct lookup *j)
{
	if (!j)
		return;
	worker_cancel(j->worker);
	lookups_forget(j);
}

static void lookup_tell(struct lookup *j, const struct buf *answer, const char *why)
{
	lookup_done done = j->done;	/* to forget it frees it */
	void *whose = j->ctx;
	lookups_forget(j);
	done(whose, answer, why);
}

/* What ended it, if anything did, was a bound on its time or memory. */
static void on_answer(void *ctx, const struct buf *answer, const char *why)
{
	char text[160];
	snprintf(text, sizeof text, "%s: ask for a shorter time", why ? why : "");
	lookup_tell(ctx, answer, why ? text : NULL);
}

static bool lookups_is_served(const struct lookups *r, uid_t payer)
{
	for (size_t i = 0; i < LOOKUP_AT_ONCE; i++)
		if (r->running[i] && r->running[i]->payer == payer)
			return true;
	return false;
}

/* One of each user at a time, so that nobody has all places; and of the users the one whose last one is longest ago. */
static struct lookup *lookups_take_next(struct lookups *r)
{
	struct lookup **best = NULL;
	for (struct lookup **at = &r->first; *at; at = &(*at)->next)
		if (!lookups_is_served(r, (*at)->payer) && (!best || turns_before(&r->turns, (*at)->payer, (*best)->payer)))
			best = at;
	if (!best)
		return NULL;
	struct lookup *j = *best;
	*best = j->next;
	j->next = NULL;
	turns_take(&r->turns, j->payer);
	return j;
}

/* The text is the worker's from here on, also where none could be started: then it has been freed. */
static void lookup_start(struct lookup *j)
{
	char why[120] = "";
	const struct worker_plan plan = { .program = j->r->program, .flag = "--read", .env = j->r->env,
					  .deadline_ms = LOOKUP_DEADLINE_MS, .max_answer = WIRE_MAX_MESSAGE };
	char *request = j->request;
	j->request = NULL;
	j->worker = worker_start(j->r->loop, &plan, request, on_answer, j, why, sizeof why);
	if (!j->worker)
		lookup_tell(j, NULL, why);
}

/* A place that is found free stays free until the next commit when its process could not be started: lookup_tell has taken it
 * out of the table again. */
void lookups_start(struct lookups *r)
{
	for (size_t i = 0; i < LOOKUP_AT_ONCE; i++) {
		struct lookup *j = r->running[i] ? NULL : lookups_take_next(r);
		if (!j)
			continue;
		r->running[i] = j;
		lookup_start(j);
	}
}
