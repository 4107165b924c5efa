/* SPDX-License-Identifier: MIT
 * Claims shared between daemons: see claims.h.
 *
 * The core asks in the middle of a pass, so nothing here waits: a look is a page or two of the cache for each daemon. What it
 * found new is told to the core before "no" is answered, since the core places again at once, by what it knows then. Whatever
 * fails of this fails open: a claim that cannot be shared is told (note_trouble), and the task starts.
 */
#include "daemon/claims.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/claims_folder.h"
#include "daemon/troubles.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_MS 20		/* at least, and */
#define AGAIN_CHANCE_MS 80	/* at most so much more, after two saw each other */

struct claims {
	uv_timer_t timer;
	char *path, *mark;		/* path: NULL: there are no others */
	struct claims_run *runs;	/* of ours, when they were published last */
	size_t n_runs, cap_runs;
	struct claims_folder *folder;	/* NULL: it cannot be used, at the moment */
	struct core *core;		/* that the timer tells */
	struct claims_seen told, seen;	/* what the core knows, and what was just seen */
	struct error trouble;		/* its text "": none */
	bool started;			/* a task, since they were published */
};

struct claims *claims_create(uv_loop_t *loop, const char *folder, const char *mark)
{
	struct claims *c = alloc_zero(sizeof *c);
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	c->path = folder ? alloc_string(folder) : NULL;
	c->mark = mark ? alloc_string(mark) : NULL;
	return c;
}

static void on_closed(uv_handle_t *h)
{
	struct claims *c = h->data;
	claims_seen_clear(&c->told);
	claims_seen_clear(&c->seen);
	free(c->runs);
	free(c->mark);
	free(c->path);
	free(c);
}

void claims_destroy(struct claims *c)
{
	if (!c)
		return;
	claims_folder_close(c->folder);
	uv_close((uv_handle_t *)&c->timer, on_closed);
}

/* Tasks run all the same: what others use is seen, only not what they are about to. */
static void note_trouble(struct claims *c, const struct error *err)
{
	if (err && strcmp(c->trouble.text, err->text))
		log_warn("claims are not shared with other daemons of this machine: %s", err->text);
	else if (!err && *c->trouble.text)
		log_info("claims are shared with other daemons of this machine again");
	c->trouble = err ? *err : (struct error)ERROR_INIT;
}

/* The shims that hold our claims. By them the next radd of this store, and others meanwhile, know which claims still stand
 * when this one is gone. */
static void find_runs(struct claims *c, const struct core *core)
{
	size_t at = 0;
	c->n_runs = 0;
	for (task_id id; (id = core_next_running(core, &at));) {
		const struct task *t = core_task(core, id);
		const struct attempt *a = task_attempt(t);
		for (uint32_t i = 0; a->shim.pid && i < a->n_gpus; i++) {
			alloc_grow(c->runs, c->n_runs, c->cap_runs);
			struct claims_run *r = &c->runs[c->n_runs++];
			*r = (struct claims_run){ .uid = t->spec->uid, .shim = a->shim };
			snprintf(r->uuid, sizeof r->uuid, "%s", a->gpus[i]);
		}
	}
}

/* What the core holds and what is wished for, in one page over the one before: who reads it half written is told by the sum at
 * its end, and looks again. */
static bool publish(struct claims *c, const struct core *core, const struct core_claim *wish, unsigned n_wish)
{
	struct core_claim rows[CLAIMS_ROWS];
	struct claims_runs runs[CLAIMS_ROWS] = { 0 };
	struct error err = ERROR_INIT;
	c->started = false;
	find_runs(c, core);
	size_t n = core_claims(core, rows, CLAIMS_ROWS - (n_wish < CLAIMS_ROWS ? n_wish : CLAIMS_ROWS));
	claims_page_name_runs(rows, n, c->runs, c->n_runs, runs);
	for (size_t i = 0; i < n; i++)
		if (rows[i].uid == (uid_t)-1)
			rows[i].uid = geteuid();
	for (unsigned i = 0; i < n_wish && n < CLAIMS_ROWS; i++)
		rows[n++] = wish[i];
	if (!c->folder)
		c->folder = claims_folder_open(c->path, c->mark, &err);
	bool failed = !c->folder || claims_folder_publish(c->folder, rows, runs, n, &err);
	note_trouble(c, failed ? &err : NULL);
	return !failed;
}

/* What was just seen is what the core knows from now on. */
static void tell(struct claims *c, struct core *core)
{
	struct claims_seen seen = c->seen;
	c->seen = c->told;
	c->told = seen;
	core_others(core, c->told.rows, c->told.n);
}

/* What is unsure is not told: half of what others hold would look like room. */
void claims_refresh(struct claims *c, struct core *core)
{
	if (!c->path)
		return;
	publish(c, core, NULL, 0);
	if (!c->folder)
		return;
	claims_folder_look(c->folder, &c->seen);
	if (!c->seen.unsure)
		tell(c, core);
}

void claims_note(struct claims *c, const struct event *ev)
{
	c->started = c->started || ev->kind == EV_STARTED;
}

void claims_work(struct claims *c, const struct core *core)
{
	if (c->path && c->started)
		publish(c, core, NULL, 0);
}

static void on_again(uv_timer_t *t)
{
	struct claims *c = t->data;
	claims_refresh(c, c->core);
}

static struct core_claim sum_on(const struct claims_seen *s, const char *uuid)
{
	struct core_claim sum = { .n_tasks = 0 };
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->rows[i].uuid, uuid)) {
			sum.held_mib += s->rows[i].held_mib;
			sum.n_tasks += s->rows[i].n_tasks;
		}
	return sum;
}

/* Whether there is more on those GPUs than the core counted with. */
static bool is_new(const struct claims *c, const struct core_claim *claims, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct core_claim was = sum_on(&c->told, claims[i].uuid), is = sum_on(&c->seen, claims[i].uuid);
		if (is.held_mib > was.held_mib || is.n_tasks > was.n_tasks)
			return true;
	}
	return false;
}

/* Somebody writes what we cannot read yet: as if he were there, until the next look. */
static void add_unknown(struct claims_seen *s, const struct core_claim *claims, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		alloc_grow(s->rows, s->n, s->cap);
		s->rows[s->n] = claims[i];
		s->rows[s->n++].uid = (uid_t)-1;
	}
}

/* Where two daemons take back at once, chance tells who comes again first, so that they do not go on in step. */
bool claims_settle(struct claims *c, struct core *core, const struct core_claim *claims, unsigned n)
{
	if (!c->path || !publish(c, core, claims, n))
		return true;
	claims_folder_look(c->folder, &c->seen);
	if (!c->seen.unsure && !is_new(c, claims, n))
		return true;
	publish(c, core, NULL, 0);
	if (c->seen.unsure)
		add_unknown(&c->seen, claims, n);
	tell(c, core);
	c->core = core;
	uv_timer_start(&c->timer, on_again, AGAIN_MS + (uint64_t)(uv_hrtime() / 1000 % AGAIN_CHANCE_MS), 0);
	return false;
}

void claims_tell(const struct claims *c, json_t *troubles)
{
	if (*c->trouble.text)
		troubles_add(troubles, "claims", "are not shared with other daemons of this machine, whose tasks may meet ours on a GPU: %s",
			     c->trouble.text);
}
