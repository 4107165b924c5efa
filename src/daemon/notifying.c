/* SPDX-License-Identifier: MIT
 * Who is to be told what, and when: see notifying.h. What is sent, and how, is the worker's: notifying_worker.c.
 */
#include "daemon/notifying.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/names.h"
#include "daemon/worker.h"
#include "submit/notices.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE 8		/* workers, one a user */
#define DEADLINE_MS 60000
#define FIRST_GAP_MS 30000	/* between two to the same place, doubled while more come, up to */
#define LAST_GAP_MS 600000
#define MAX_NOTICES 100		/* in one; of more only how many */
#define MAX_WAITING 200		/* of one user's, at all places: some MiB of our memory */
#define MAX_ATTEMPTS 10		/* the last ones of a task that are told */
#define MAX_PLACES 50		/* of one user, that wait or are waited for */

/* One user's place. */
struct place {
	struct notifying *n;
	struct place *next;
	uid_t uid;
	gid_t gid;
	char *to;
	json_t *notices;		/* not sent yet */
	size_t more;			/* that had no room */
	int64_t due_ms, gap_ms;		/* mono; not before */
	struct worker *worker;
};

struct notifying {
	uv_loop_t *loop;
	char *program;
	struct names *names;
	struct place *places;
	unsigned running;
	uv_timer_t timer;
};

/* What happened -------------------------------------------------------------------------------------------------------- */

static bool is_failure(enum task_state s)
{
	return s == TASK_FAILED || s == TASK_OUT_OF_MEMORY || s == TASK_TIMEOUT || s == TASK_LOST;
}

/* The word of `list` that says it best; NULL: none does. */
static const char *word_of(const struct event *ev, const struct task *t, const char *list)
{
	bool over = task_state_terminal(t->state);
	bool ended = ev->kind == EV_ENDED, failed = ended && over && is_failure(t->state);
	const struct { const char *word; bool holds; } words[] = {
		{ "oom", ended && ev->u.ended.verdict == VERDICT_OOM },
		{ "fail", failed },
		{ "end", over && (ended || ev->kind == EV_CANCELLED) },
		{ "begin", ev->kind == EV_STARTED && t->n_attempts == 1 },
		{ "slot", !strcmp(event_kind_name(ev->kind), "slot_asked") },
	};
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (words[i].holds && notices_has(list, words[i].word))
			return words[i].word;
	return NULL;
}

static struct place *place_of(struct notifying *n, const struct spec *s)
{
	size_t of_user = 0;
	for (struct place *p = n->places; p; p = p->next) {
		if (p->uid == s->uid && !strcmp(p->to, s->notify_to))
			return p;
		of_user += p->uid == s->uid;
	}
	if (of_user >= MAX_PLACES)
		return NULL;
	struct place *p = alloc_zero(sizeof *p);
	*p = (struct place){ .n = n, .next = n->places, .uid = s->uid, .gid = s->gid, .to = alloc_string(s->notify_to),
			     .notices = json_array(), .gap_ms = FIRST_GAP_MS };
	return n->places = p;
}

static size_t waiting_of(const struct notifying *n, uid_t uid)
{
	size_t waiting = 0;
	for (const struct place *p = n->places; p; p = p->next)
		waiting += p->uid == uid ? json_array_size(p->notices) : 0;
	return waiting;
}

/* A task that was requeued a thousand times is no longer than another. */
static json_t *told_of(const struct task *t, int64_t now_ms)
{
	json_t *o = task_to_json(t, now_ms), *attempts = json_object_get(o, "attempts");
	while (json_array_size(attempts) > MAX_ATTEMPTS)
		json_array_remove(attempts, 0);
	return o;
}

void notifying_note(struct notifying *n, const struct event *ev, const struct task *t)
{
	const struct spec *s = t->spec;
	const char *word = s->notify && s->notify_to ? word_of(ev, t, s->notify) : NULL;
	struct place *p = word ? place_of(n, s) : NULL;
	if (word && !p)
		log_warn_limited("a user's notices have more places than %d: some are not sent", MAX_PLACES);
	if (!p)
		return;
	if (json_array_size(p->notices) >= MAX_NOTICES || waiting_of(n, p->uid) >= MAX_WAITING)
		p->more++;
	else
		json_array_append_new(p->notices, json_pack("{ss, so}", "event", word, "task", told_of(t, ev->t_ms)));
}

/* Sending -------------------------------------------------------------------------------------------------------------- */

static bool has_to_tell(const struct place *p)
{
	return json_array_size(p->notices) || p->more;
}

static void place_free(struct place *p)
{
	json_decref(p->notices);
	free(p->to);
	free(p);
}

static void on_time(uv_timer_t *t)
{
	(void)t;	/* it only has to wake the loop: notifying_work comes after the commit */
}

static void on_sent(void *ctx, const struct buf *answer, const char *why)
{
	struct place *p = ctx;
	p->worker = NULL;
	p->n->running--;
	if (!why && answer && answer->len)
		why = buf_text((struct buf *)answer);
	if (why) {
		const char *name;
		names_of(p->n->names, p->uid, &name);
		log_warn_limited("a notice of %s's was not sent: %.300s", name, why);
	}
}

static bool user_is_busy(const struct notifying *n, uid_t uid)
{
	for (const struct place *p = n->places; p; p = p->next)
		if (p->uid == uid && p->worker)
			return true;
	return false;
}

static void place_send(struct place *p, int64_t now_ms)
{
	struct notifying *n = p->n;
	char why[120] = "";
	const struct worker_plan plan = { .program = n->program, .flag = "--notify", .as_user = true, .uid = p->uid, .gid = p->gid,
					  .deadline_ms = DEADLINE_MS, .max_answer = 4096 };
	json_t *o = json_pack("{ss, so, sI}", "to", p->to, "notices", p->notices, "more", (json_int_t)p->more);
	char *text = json_to_text(o);
	json_decref(o);
	p->notices = json_array();
	p->more = 0;
	p->due_ms = now_ms + p->gap_ms;
	p->gap_ms = p->gap_ms * 2 < LAST_GAP_MS ? p->gap_ms * 2 : LAST_GAP_MS;
	n->running++;
	p->worker = worker_start(n->loop, &plan, text, on_sent, p, why, sizeof why);
	if (!p->worker)
		on_sent(p, NULL, why);
}

/* A place to which nothing went for as long as its gap is forgotten: the next notice there is a first one again. */
static void forget_places(struct notifying *n, int64_t now_ms)
{
	for (struct place **at = &n->places; *at;) {
		struct place *p = *at;
		if (p->worker || has_to_tell(p) || now_ms < p->due_ms) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		place_free(p);
	}
}

void notifying_work(struct notifying *n)
{
	int64_t now = clock_mono_ms(), next = INT64_MAX;
	if (!n->places)
		return;
	for (struct place *p = n->places; p; p = p->next) {
		bool wants = has_to_tell(p) && !p->worker;
		if (wants && now >= p->due_ms && n->running < AT_ONCE && !user_is_busy(n, p->uid))
			place_send(p, now);
		else if (now < p->due_ms && p->due_ms < next)	/* else the end of a worker has us look again */
			next = p->due_ms;
	}
	forget_places(n, now);
	if (next < INT64_MAX)
		uv_timer_start(&n->timer, on_time, (uint64_t)(next - now), 0);
}

struct notifying *notifying_create(uv_loop_t *loop, const char *program, struct names *names)
{
	struct notifying *n = alloc_zero(sizeof *n);
	n->loop = loop;
	n->program = alloc_string(program);
	n->names = names;
	n->timer.data = n;
	uv_timer_init(loop, &n->timer);
	return n;
}

static void on_closed(uv_handle_t *h)
{
	struct notifying *n = h->data;
	for (struct place *p = n->places, *next; p; p = next) {
		next = p->next;
		place_free(p);
	}
	free(n->program);
	free(n);
}

void notifying_destroy(struct notifying *n)
{
	if (!n)
		return;
	for (struct place *p = n->places; p; p = p->next)
		worker_stop(p->worker);
	uv_close((uv_handle_t *)&n->timer, on_closed);
}
