/* SPDX-License-Identifier: MIT
 * Who reads in the history, and who is next: see reading.h. The worker's side is in reading_worker.c.
 */
#include "daemon/reading.h"

#include "base/alloc.h"
#include "daemon/worker.h"
#include "submit/wire.h"

#include <stdlib.h>

struct reading_job {
	struct reading *r;
	struct reading_job *next;
	uid_t uid;
	char *request;		/* NULL once it was started */
	struct worker *worker;
	reading_done done;
	void *ctx;
};

struct reading {
	uv_loop_t *loop;
	char *program;
	struct reading_job *first, **last;	/* not started yet */
	struct reading_job *running[READING_AT_ONCE];
};

struct reading *reading_create(uv_loop_t *loop, const char *program)
{
	struct reading *r = alloc_zero(sizeof *r);
	r->loop = loop;
	r->program = alloc_string(program);
	r->last = &r->first;
	return r;
}

/* Out of the table or the list. */
static void forget(struct reading_job *j)
{
	struct reading *r = j->r;
	for (size_t i = 0; i < READING_AT_ONCE; i++)
		if (r->running[i] == j)
			r->running[i] = NULL;
	for (struct reading_job **at = &r->first; *at; at = &(*at)->next)
		if (*at == j) {
			if (!(*at = j->next))
				r->last = at;
			break;
		}
	free(j->request);
	free(j);
}

void reading_destroy(struct reading *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < READING_AT_ONCE; i++)
		if (r->running[i]) {
			worker_stop(r->running[i]->worker);
			forget(r->running[i]);
		}
	while (r->first)
		forget(r->first);
	free(r->program);
	free(r);
}

struct reading_job *reading_ask(struct reading *r, uid_t uid, char *request, reading_done done, void *ctx)
{
	struct reading_job *j = alloc_zero(sizeof *j);
	*j = (struct reading_job){ .r = r, .uid = uid, .request = request, .done = done, .ctx = ctx };
	*r->last = j;
	r->last = &j->next;
	return j;
}

void reading_cancel(struct reading_job *j)
{
	if (!j)
		return;
	worker_cancel(j->worker);
	forget(j);
}

static void on_answer(void *ctx, const struct buf *answer, const char *why)
{
	struct reading_job *j = ctx;
	reading_done done = j->done;
	void *whose = j->ctx;
	forget(j);
	done(whose, answer, why);
}

static bool is_served(const struct reading *r, uid_t uid)
{
	for (size_t i = 0; i < READING_AT_ONCE; i++)
		if (r->running[i] && r->running[i]->uid == uid)
			return true;
	return false;
}

/* One of each user at a time: who asks for years again and again waits behind himself. */
static struct reading_job *take_next(struct reading *r)
{
	for (struct reading_job **at = &r->first, *j; (j = *at); at = &j->next)
		if (!is_served(r, j->uid)) {
			if (!(*at = j->next))
				r->last = at;
			j->next = NULL;
			return j;
		}
	return NULL;
}

static void start(struct reading_job *j)
{
	char why[120] = "";
	const struct worker_plan plan = { .program = j->r->program, .flag = "--read", .deadline_ms = READING_DEADLINE_MS,
					  .max_answer = WIRE_MAX_MESSAGE };
	char *request = j->request;
	j->request = NULL;
	j->worker = worker_start(j->r->loop, &plan, request, on_answer, j, why, sizeof why);
	if (!j->worker)
		on_answer(j, NULL, why);
}

void reading_start(struct reading *r)
{
	for (size_t i = 0; i < READING_AT_ONCE; i++) {
		struct reading_job *j = r->running[i] ? NULL : take_next(r);
		if (!j)
			continue;
		r->running[i] = j;
		start(j);
	}
}
