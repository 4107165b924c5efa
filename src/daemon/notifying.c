/* SPDX-License-Identifier: MIT
 * Who is to be told what, and when: see notifying.h. What is sent, and how, is the worker's: notifying_worker.c.
 *
 * A notice lies in the store as "notice:N" of `meta`, since the event that it tells of: both are committed together. Before it
 * is sent it is `leaving`: taken out there, in a turn whose commit has to be over. How many had no room is not stored.
 */
#include "daemon/notifying.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/names.h"
#include "daemon/timer.h"
#include "daemon/turns.h"
#include "daemon/untold.h"
#include "launch/cgroup.h"
#include "launch/worker.h"
#include "store/store.h"
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
#define STALE_MS (24 * 3600 * INT64_C(1000))	/* what happened before that is not told after a start */
#define KEY "notice:"
#define NUMBER "n"		/* in a notice, as long as it is stored: that of its key */

/* One user's place. */
struct place {
	struct notifying *n;
	struct place *next;
	uid_t uid;
	gid_t gid;
	char *to;
	json_t *notices, *leaving;	/* not sent yet; leaving: NULL, or no more in the store once this turn is committed */
	json_t *sent;			/* the tasks of which the worker tells; NULL: there is no worker */
	size_t more;			/* that had no room */
	int64_t due_ms, gap_ms;		/* mono; not before */
	struct worker *worker;
	bool beside;			/* one that the last radd left may be in its cgroup */
};

struct notifying {
	uv_loop_t *loop;
	char *program;
	struct names *names;
	struct store *store;
	struct untold *untold;
	int64_t last;			/* number given out */
	int64_t since_ms;		/* mono; we began */
	struct place *places;
	unsigned running;
	struct turns turns;
	uv_timer_t timer;
};

/* What happened -------------------------------------------------------------------------------------------------------- */

static bool is_failure(enum task_state s)
{
	return s == TASK_FAILED || s == TASK_OUT_OF_MEMORY || s == TASK_TIMEOUT || s == TASK_LOST;
}

/* The word of `list` that says most of it, so that nobody gets two notices of one end; NULL: none does. */
static const char *word_of(const struct event *ev, const struct task *t, const char *list)
{
	bool over = task_state_terminal(t->state);
	bool ended = ev->kind == EV_ENDED, failed = ended && over && is_failure(t->state);
	const struct { const char *word; bool holds; } words[] = {
		{ "oom", ended && ev->u.ended.verdict == VERDICT_OOM },
		{ "fail", failed },
		{ "end", over && (ended || ev->kind == EV_CANCELLED) },
		{ "begin", ev->kind == EV_STARTED && t->n_attempts == 1 },
		{ "slot", ev->kind == EV_SLOT_ASKED },
	};
	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (words[i].holds && notices_has(list, words[i].word))
			return words[i].word;
	return NULL;
}

/* Few users have any, and few places each, so a list will do; a bound on them, since places are words that users make
 * up. */
static struct place *place_of(struct notifying *n, uid_t uid, gid_t gid, const char *to)
{
	size_t of_user = 0;
	for (struct place *p = n->places; p; p = p->next) {
		if (p->uid == uid && !strcmp(p->to, to))
			return p;
		of_user += p->uid == uid;
	}
	if (of_user >= MAX_PLACES)
		return NULL;
	struct place *p = alloc_zero(sizeof *p);
	*p = (struct place){ .n = n, .next = n->places, .uid = uid, .gid = gid, .to = alloc_string(to),
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

static char *key_of(int64_t number, char key[40])
{
	snprintf(key, 40, KEY "%lld", (long long)number);
	return key;
}

/* Takes the notice. */
static void place_add(struct place *p, json_t *notice, int64_t t_ms)
{
	char key[40];
	json_object_set_new(notice, NUMBER, json_integer(++p->n->last));
	json_array_append_new(p->notices, notice);
	json_t *o = json_pack("{sI, sI, sI, ss, sO}", "uid", (json_int_t)p->uid, "gid", (json_int_t)p->gid, "t_ms",
			      (json_int_t)t_ms, "to", p->to, "notice", notice);
	scoped_free char *text = json_to_text(o);
	json_decref(o);
	store_set_meta(p->n->store, key_of(p->n->last, key), text, NULL);	/* the commit says when that failed */
}

static void note(struct notifying *n, const char *word, const struct task *t, int64_t t_ms)
{
	const struct spec *s = t->spec;
	struct place *p = place_of(n, s->uid, s->gid, s->notify_to);
	if (!p)
		log_warn_limited("a user's notices have more places than %d: some are not sent", MAX_PLACES);
	if (!p)
		return;
	if (json_array_size(p->notices) >= MAX_NOTICES || waiting_of(n, p->uid) >= MAX_WAITING)
		p->more++;
	else
		place_add(p, json_pack("{ss, so}", "event", word, "task", told_of(t, t_ms)), t_ms);
}

void notifying_note(struct notifying *n, const struct event *ev, const struct task *t)
{
	const struct spec *s = t->spec;
	const char *word = s->notify && s->notify_to ? word_of(ev, t, s->notify) : NULL;
	if (word)
		note(n, word, t, ev->t_ms);
}

void notifying_note_memory(struct notifying *n, const struct task *t)
{
	if (t->spec->notify && t->spec->notify_to && notices_has(t->spec->notify, "mem"))
		note(n, "mem", t, clock_wall_ms());
}

/* After a start -------------------------------------------------------------------------------------------------------- */

struct unsent { struct notifying *n; int64_t *gone; size_t n_gone, cap; };

static void restore_one(struct unsent *r, int64_t number, const json_t *stored)
{
	const char *to = json_string_value(json_object_get(stored, "to"));
	json_t *notice = json_object_get(stored, "notice");
	int64_t t_ms = json_integer_value(json_object_get(stored, "t_ms"));
	struct place *p = NULL;
	if (to && json_is_object(notice) && clock_wall_ms() - t_ms < STALE_MS)
		p = place_of(r->n, (uid_t)json_integer_value(json_object_get(stored, "uid")),
			     (gid_t)json_integer_value(json_object_get(stored, "gid")), to);
	if (p) {
		json_array_append(p->notices, notice);
		return;
	}
	alloc_grow(r->gone, r->n_gone, r->cap);
	r->gone[r->n_gone++] = number;
}

static int on_stored(void *ctx, const char *key, const char *value)
{
	struct unsent *r = ctx;
	scoped_json *stored = json_loads(value, 0, NULL);
	int64_t number = strtoll(key + strlen(KEY), NULL, 10);
	r->n->last = number > r->n->last ? number : r->n->last;
	restore_one(r, number, stored);
	return 0;
}

static void restore_all(struct notifying *n)
{
	struct unsent r = { .n = n };
	struct error err = ERROR_INIT;
	char key[40];
	if (store_each_meta(n->store, KEY, on_stored, &r, &err))
		log_error("notices that were not sent before the last end of radd: %s", err.text);
	for (size_t i = 0; i < r.n_gone; i++)
		store_set_meta(n->store, key_of(r.gone[i], key), NULL, NULL);
	if (r.n_gone)
		log_warn("%zu notices that were not sent before the last end of radd are too old now, or cannot be read", r.n_gone);
	free(r.gone);
}

/* Sending -------------------------------------------------------------------------------------------------------------- */

static bool has_to_tell(const struct place *p)
{
	return json_array_size(p->notices) || p->more || p->leaving;
}

static void place_free(struct place *p)
{
	json_decref(p->notices);
	json_decref(p->leaving);
	json_decref(p->sent);
	free(p->to);
	free(p);
}

static void on_time(uv_timer_t *t)
{
	(void)t;	/* it only has to wake the loop: notifying_work comes after the commit */
}

static bool is_mail(const struct place *p)
{
	return !strncmp(p->to, "mail:", 5);
}

static char *cgroup_of(const struct place *p, char name[40])
{
	snprintf(name, 40, is_mail(p) ? "rad-mails-%u" : "rad-notices-%u", (unsigned)p->uid);
	return name;
}

/* Whether the last radd may have left one in it, which has its own deadline. */
static bool has_earlier(const struct place *p, int64_t now_ms)
{
	char name[40], path[PATH_MAX];
	return now_ms < p->n->since_ms + DEADLINE_MS && !cgroup_path(getpid(), cgroup_of(p, name), path) && cgroup_is_used(path);
}

/* What a user's program left behind has no more time than it had itself. A mailer may deliver on after it has taken a mail:
 * that is left in peace. */
static void end_left(const struct place *p)
{
	char name[40];
	if (is_mail(p) || p->beside)
		cgroup_remove(cgroup_of(p, name));
	else
		cgroup_end(cgroup_of(p, name));
}

static json_t *tasks_of(const json_t *notices)
{
	json_t *ids = json_array(), *notice;
	size_t i;
	json_array_foreach(notices, i, notice)
		json_array_append(ids, json_object_get(json_object_get(notice, "task"), "id"));
	return ids;
}

/* What the worker said is a line, and behind it, where the others were told, the ids of those that were not. Addresses, which
 * are often all the secret there is, are no part of it. */
static void note_untold(struct place *p, const char *why)
{
	size_t n = strcspn(why, "\n"), i;
	const char *which = why[n] ? why + n + 1 : "", *name;
	scoped_free char *line = alloc_printf("%.*s", (int)n, why);
	json_t *text;
	task_id id;
	names_of(p->n->names, p->uid, &name);
	json_array_foreach(p->sent, i, text) {
		scoped_free char *word = alloc_printf(" %s ", json_string_value(text));
		if (!task_id_parse(json_string_value(text), &id, NULL) && (!*which || strstr(which, word)))
			untold_add(p->n->untold, p->uid, id, clock_wall_ms(), line);
	}
	log_warn_limited("a notice of %s's (task %s%s) was not sent: %.300s", name, json_array_size(p->sent) ?
			 json_string_value(json_array_get(p->sent, 0)) : "?", json_array_size(p->sent) > 1 ? ", and more" : "", line);
}

/* What was not sent is not tried again: the place may be wrong for ever, and what it was about is in the store and in the
 * log. */
static void on_sent(void *ctx, const struct buf *answer, const char *why)
{
	struct place *p = ctx;
	p->worker = NULL;
	p->n->running--;
	end_left(p);
	if (!why && answer && answer->len)
		why = buf_text((struct buf *)answer);
	if (why)
		note_untold(p, why);
	json_decref(p->sent);
	p->sent = NULL;
}

static bool user_is_busy(const struct notifying *n, uid_t uid)
{
	for (const struct place *p = n->places; p; p = p->next)
		if (p->uid == uid && (p->worker || p->leaving))
			return true;
	return false;
}

/* Taken out of the store before it is sent: a radd that dies in between loses a notice, which is better than one that is
 * sent with every start. */
static void place_leave(struct place *p)
{
	size_t i;
	json_t *notice;
	char key[40];
	p->n->running++;
	p->leaving = p->notices;
	p->notices = json_array();
	json_array_foreach(p->leaving, i, notice) {
		store_set_meta(p->n->store, key_of(json_integer_value(json_object_get(notice, NUMBER)), key), NULL, NULL);
		json_object_del(notice, NUMBER);
	}
}

static void place_send(struct place *p, int64_t now_ms)
{
	struct notifying *n = p->n;
	char why[120] = "", cgroup[40], uid[16], gid[16];
	snprintf(uid, sizeof uid, "%u", (unsigned)p->uid);
	snprintf(gid, sizeof gid, "%u", (unsigned)p->gid);
	/* It becomes the user by itself: his groups are in the user database, which may hang. */
	const char *user = json_member_text(json_object_get(json_array_get(p->leaving, 0), "task"), "user");
	scoped_free char *then = alloc_string(*user ? user : uid);
	char *const args[] = { (char *)n->program, (char *)"--notify", uid, gid, then, NULL };
	const struct worker_plan plan = { .args = args, .cgroup = cgroup_of(p, cgroup), .deadline_ms = DEADLINE_MS,
					  .max_answer = 4096 };
	json_t *o = json_pack("{ss, so, sI}", "to", p->to, "notices", p->leaving, "more", (json_int_t)p->more);
	char *text = json_to_text(o);
	p->sent = tasks_of(p->leaving);
	json_decref(o);
	p->leaving = NULL;
	p->more = 0;
	p->beside = has_earlier(p, now_ms);
	p->due_ms = now_ms + p->gap_ms;
	p->gap_ms = p->gap_ms * 2 < LAST_GAP_MS ? p->gap_ms * 2 : LAST_GAP_MS;
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

/* One worker a user, so that his places, if they hang, do not take all AT_ONCE; and of the users the one who had his longest
 * ago, so that as many users whose places hang do not keep all others from theirs. Of his places the oldest. */
static struct place *next_place(struct notifying *n, int64_t now)
{
	struct place *best = NULL;
	for (struct place *p = n->places; p; p = p->next)
		if (has_to_tell(p) && now >= p->due_ms && !user_is_busy(n, p->uid) &&
		    (!best || !turns_before(&n->turns, best->uid, p->uid)))
			best = p;
	return best;
}

/* What lay in the store is sent after the commit that took it out. */
void notifying_work(struct notifying *n)
{
	int64_t now = clock_mono_ms(), next = INT64_MAX;
	if (!n->places)
		return;
	for (struct place *p = n->places; p; p = p->next)
		if (p->leaving)
			place_send(p, now);
	for (struct place *p; n->running < AT_ONCE && (p = next_place(n, now));) {
		turns_take(&n->turns, p->uid);
		place_leave(p);
		if (!store_dirty(n->store))
			place_send(p, now);
	}
	for (const struct place *p = n->places; p; p = p->next)
		if (now < p->due_ms && p->due_ms < next)
			next = p->due_ms;
	forget_places(n, now);
	timer_set(&n->timer, on_time, next, now);
}

struct notifying *notifying_create(uv_loop_t *loop, const char *program, struct names *names, struct store *store)
{
	struct notifying *n = alloc_zero(sizeof *n);
	n->loop = loop;
	n->program = alloc_string(program);
	n->names = names;
	n->store = store;
	n->untold = untold_create();
	n->since_ms = clock_mono_ms();
	n->timer.data = n;
	uv_timer_init(loop, &n->timer);
	restore_all(n);
	return n;
}

static void on_closed(uv_handle_t *h)
{
	struct notifying *n = h->data;
	for (struct place *p = n->places, *next; p; p = next) {
		next = p->next;
		place_free(p);
	}
	untold_destroy(n->untold);
	turns_free(&n->turns);
	free(n->program);
	free(n);
}

const struct untold *notifying_untold(const struct notifying *n)
{
	return n->untold;
}

void notifying_destroy(struct notifying *n)
{
	if (!n)
		return;
	for (struct place *p = n->places; p; p = p->next) {
		worker_leave(p->worker);
		for (size_t i = 0; i < json_array_size(p->leaving); i++)	/* taken out, and not sent */
			place_add(p, json_incref(json_array_get(p->leaving, i)), clock_wall_ms());
	}
	uv_close((uv_handle_t *)&n->timer, on_closed);
}
