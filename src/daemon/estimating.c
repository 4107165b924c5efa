/* SPDX-License-Identifier: MIT
 * The questions to slow estimators, a few workers at a time: see estimating.h. The worker's side is in estimating_wire.c.
 *
 * A question that waits is a reference to its spec; it is written when its worker starts, since it may hold a capture of
 * megabytes, and thousands may wait. Users take turns. A worker that fails has not spoken, and the next estimator is asked;
 * that it failed is in the note of what is said then.
 */
#include "daemon/estimating.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/estimating_wire.h"
#include "daemon/turns.h"
#include "estimate/margin.h"
#include "launch/worker.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER 16384

/* One question, and its worker once it has one. */
struct estimating_job {
	struct estimating *e;
	struct estimating_job *next;
	int64_t question;
	char row[sizeof ((struct estimate *)0)->estimator];
	struct spec *spec;		/* one reference, which costs less than the written question while many wait */
	uint64_t declared_mib;
	struct estimate_context context;	/* of this question alone */
	char gpu_name[64];
	struct worker *worker;
};

struct estimating {
	uv_loop_t *loop;
	char *program;
	int64_t deadline_ms;
	estimating_done done;
	void *ctx;
	struct estimating_job *first, *last;	/* not started yet */
	struct estimating_job *running[ESTIMATING_AT_ONCE];
	struct turns turns;
	uv_timer_t pump;
};

static void estimating_free(struct estimating_job *j)
{
	spec_unref(j->spec);
	free(j);
}

static void on_pump(uv_timer_t *t);

/* The end of a job ----------------------------------------------------------------------------------------------------- */

/* The name is set here and last, so that no worker speaks in another's. Of one that did not speak the note alone goes on:
 * figures beside it would be taken for its word. */
static void estimating_tell(struct estimating_job *j, const struct buf *answer, const char *why)
{
	struct estimate_result said = { 0 };
	bool spoke = false;
	struct error err = ERROR_INIT;
	if (!why && estimating_read_answer(buf_text(answer), &spoke, &said, &err))
		why = err.text;
	if (why)
		log_warn("estimator %s: %s", j->row, why);
	if (!spoke) {
		scoped_free char *note = alloc_printf("%s: %s", j->row, why ? why : said.note);
		said = (struct estimate_result){ .note[0] = 0 };
		memcpy(said.note, note, strnlen(note, sizeof said.note - 1));
	}
	snprintf(said.value.estimator, sizeof said.value.estimator, "%s", j->row);
	j->e->done(j->e->ctx, j->question, spoke, &said);
}

/* Its place is free: the next one is started, from the loop and not from here: a worker that fails at once calls this from
 * within its start, and many of them in a row would go as deep. */
static void on_done(void *ctx, const struct buf *answer, const char *why)
{
	struct estimating_job *j = ctx;
	struct estimating *e = j->e;
	estimating_tell(j, answer, why);
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i] == j)
			e->running[i] = NULL;
	estimating_free(j);
	uv_timer_start(&e->pump, on_pump, 0, 0);
}

/* As the task's user: the worker parses what he sent, so whoever breaks it has no more than his own rights. */
static void estimating_start(struct estimating_job *j)
{
	char why[120] = "";
	const struct worker_plan plan = { .program = j->e->program, .flag = "--estimate", .as_user = true, .uid = j->spec->uid,
					  .gid = j->spec->gid, .deadline_ms = j->e->deadline_ms, .max_answer = MAX_ANSWER };
	j->worker = worker_start(j->e->loop, &plan, estimating_write_question(j->row, j->spec, j->declared_mib, &j->context),
				 on_done, j, why, sizeof why);
	if (!j->worker)
		on_done(j, NULL, why);
}

static bool estimating_is_served(const struct estimating *e, uid_t uid)
{
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i] && e->running[i]->spec->uid == uid)
			return true;
	return false;
}

/* Whether a question of that user goes before one of the other's: he has no worker yet, or had his last one longer ago. */
static bool goes_before(const struct estimating *e, uid_t uid, uid_t other)
{
	bool served = estimating_is_served(e, uid), other_served = estimating_is_served(e, other);
	return served == other_served ? turns_before(&e->turns, uid, other) : other_served;
}

/* There is one. */
static struct estimating_job *estimating_take_next(struct estimating *e)
{
	struct estimating_job *before = NULL, *j = e->first;
	for (struct estimating_job *last = j, *at; (at = last->next); last = at)
		if (goes_before(e, at->spec->uid, j->spec->uid)) {
			before = last;
			j = at;
		}
	*(before ? &before->next : &e->first) = j->next;
	if (e->last == j)
		e->last = before;
	turns_take(&e->turns, j->spec->uid);
	return j;
}

/* In its place before it is started: a start that fails clears that place within the call. */
static void on_pump(uv_timer_t *t)
{
	struct estimating *e = t->data;
	for (size_t i = 0; i < ESTIMATING_AT_ONCE && e->first; i++) {
		if (e->running[i])
			continue;
		struct estimating_job *j = estimating_take_next(e);
		e->running[i] = j;
		estimating_start(j);
	}
}

/* Interface ------------------------------------------------------------------------------------------------------------ */

struct estimating *estimating_create(uv_loop_t *loop, const char *program, int64_t deadline_ms, estimating_done done, void *ctx)
{
	struct estimating *e = alloc_zero(sizeof *e);
	e->loop = loop;
	e->program = alloc_string(program);
	e->deadline_ms = deadline_ms;
	e->done = done;
	e->ctx = ctx;
	uv_timer_init(loop, &e->pump);
	e->pump.data = e;
	return e;
}

/* The context is the asker's and good for the time of the call, so all of it is copied; of the margins, which follow what the
 * store learns, only this row's. */
void estimating_ask(struct estimating *e, int64_t question, const struct estimator *row, struct spec *spec,
		    uint64_t declared_mib, const struct estimate_context *c)
{
	struct estimating_job *j = alloc_zero(sizeof *j);
	j->e = e;
	j->question = question;
	j->spec = spec_ref(spec);
	j->declared_mib = declared_mib;
	j->context = (struct estimate_context){ .gpu_name = c->gpu_name ? j->gpu_name : NULL, .gpu_total_mib = c->gpu_total_mib,
						.margin = c->margins ? margins_of(c->margins, row->name, spec->signature)
								     : c->margin };
	snprintf(j->row, sizeof j->row, "%s", row->name);
	snprintf(j->gpu_name, sizeof j->gpu_name, "%s", c->gpu_name ? c->gpu_name : "");
	*(e->first ? &e->last->next : &e->first) = j;
	e->last = j;
	uv_timer_start(&e->pump, on_pump, 0, 0);
}

static void on_pump_closed(uv_handle_t *h)
{
	struct estimating *e = h->data;
	turns_free(&e->turns);
	free(e->program);
	free(e);
}

/* Nobody is told. The tasks stay without an estimate in the store, and the next radd asks again. */
void estimating_destroy(struct estimating *e)
{
	if (!e)
		return;
	for (struct estimating_job *j = e->first, *next; j; j = next) {
		next = j->next;
		estimating_free(j);
	}
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i]) {
			worker_stop(e->running[i]->worker);
			estimating_free(e->running[i]);
		}
	uv_close((uv_handle_t *)&e->pump, on_pump_closed);
}
