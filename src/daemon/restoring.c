/* SPDX-License-Identifier: MIT
 * A start: see restoring.h. All tasks are in the core before the first is adopted, since what former radds left behind is told
 * apart from what runs by what the core has; and nothing is removed when a task could not be read, whose attempt that may be.
 */
#include "daemon/restoring.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/scope.h"
#include "daemon/folding.h"
#include "daemon/now.h"

#include <string.h>
#include <unistd.h>

struct restoring {
	struct core *core;
	struct runner *runner;
	bool new_boot;	/* the machine, or this container, was started anew since */
	bool unread;	/* a task was left alone */
	int64_t set_ms;	/* by so much the wall clock was set since tasks' logs were written */
};

static int restore_one(void *ctx, struct task *t, const char *broken)
{
	struct restoring *r = ctx;
	char id[TASK_ID_TEXT];
	if (broken) {
		log_error("task %s: its log cannot be read, so it is left alone: %s", task_id_text(t->id, id), broken);
		r->unread = true;
		task_destroy(t);
		return 0;
	}
	struct now now = now_read();
	now.wall_ms -= r->set_ms;
	core_restore(r->core, t, now);
	return 0;
}

/* In a walk of its own: to adopt may end a task, which may make others eligible. */
static void adopt_one(void *ctx, const struct task *t)
{
	const struct restoring *r = ctx;
	if (t->state == TASK_RUNNING)
		runner_adopt(r->runner, t, r->new_boot);
}

static void restore_outcome(void *ctx, const struct outcome *o)
{
	core_remember(((struct restoring *)ctx)->core, o);
}

/* Pids and start times mean something within one boot and one pid namespace only. */
static int note_boot(struct store *store, bool *new_boot, struct error *err)
{
	char space[64] = "";
	scoped_buf now = { 0 };
	scoped_free char *before = store_get_meta(store, "boot");
	if (proc_boot(&now) || readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
		log_warn("cannot tell whether the machine was restarted: /proc is not as expected");
	buf_add_text(&now, space);
	*new_boot = before && strcmp(before, buf_text(&now));
	return store_set_meta(store, "boot", buf_text(&now), err);
}

/* What was taught comes first, since tasks without an estimate are asked about as they come; attempts are sorted into ours
 * and others' before the first is adopted. */
int restoring_run(struct store *store, struct core *core, struct runner *runner, struct error *err)
{
	struct restoring r = { .core = core, .runner = runner };
	struct error why = ERROR_INIT;
	if (store_load_outcomes(store, clock_wall_ms() - FOLDING_TAUGHT_MS, FOLDING_TAUGHT_MOST, restore_outcome, &r, &why))
		log_warn("what earlier tasks took cannot be read, so estimates do without it: %s", why.text);
	if (note_boot(store, &r.new_boot, err))
		return -1;
	r.set_ms = r.new_boot ? 0 : now_set_since(store);
	if (store_load_live(store, restore_one, &r, err))
		return -1;
	if (r.set_ms)
		core_clock_set(core, r.set_ms, now_read());
	runner_sweep(runner, !r.unread);
	core_each_task(core, adopt_one, &r);
	return 0;
}
