/* SPDX-License-Identifier: MIT
 * Attempts in the loop: each is begun (starting.h), its shim is watched through a pidfd, it is ended where that is asked for
 * (stopping.h), and what it left is told to the core.
 *
 * Nothing is done when an event happens, since it is not on disk yet: runner_note keeps what has to be done, runner_work does
 * it after the commit. What is lost with a radd that dies in between is found again by runner_adopt, from the task's state and
 * the attempt's folder; so every step may come twice.
 *
 * A shim is watched by pidfd and not as a child, since it belongs to no radd: it outlives this one, and the next one watches
 * it in the same way. Its pid alone says nothing (it may be another's by now): pid and start time together do.
 */
#include "daemon/runner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/text.h"
#include "daemon/asking.h"
#include "daemon/delaying.h"
#include "daemon/forgetting.h"
#include "daemon/hooks.h"
#include "daemon/launching.h"
#include "daemon/now.h"
#include "daemon/outsiders.h"
#include "daemon/owners.h"
#include "daemon/pacing.h"
#include "daemon/polling.h"
#include "daemon/servers.h"
#include "daemon/starting.h"
#include "daemon/stopping.h"
#include "daemon/sweeping.h"
#include "daemon/troubles.h"
#include "launch/cgroup.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 100		/* while something waits: an MPS server to come up, a task to end */
#define WORK_US 5000		/* of effects, and of steps, at a time: to find a task's processes all of the machine are looked at */
#define AGAIN_MAX_MS 600000	/* what its own user may be short of is not waited for on a GPU for longer */

/* One attempt from its placement to its end; there is one for each running task. */
struct watch {
	struct runner *r;
	task_id task;
	struct proc_id shim;
	int pidfd;
	struct polling *polling;	/* of pidfd */
	bool stranger;		/* its shim was of an earlier boot: whoever has these pids now is not ours to signal */
	enum {
		WATCH_STARTING,
		WATCH_RUNNING,
		WATCH_DELAYED,	/* its start is tried again */
		WATCH_UNREAD,	/* how it ended is */
	} stage;
	struct delaying delay;
	struct starting *starting;	/* NULL: not begun by this radd */
	struct stopping stopping;
	int64_t unstopped_ms;	/* mono; it is suspended, and had no process yet that could be stopped: tried again then. 0: it had */
};

enum effect_kind { EFFECT_LAUNCH, EFFECT_STOP, EFFECT_SUSPEND, EFFECT_FORGET, EFFECT_ASK, EFFECT_WARN };

struct effect { enum effect_kind kind; task_id task; char *folder; };	/* folder: to be forgotten; owned */

struct runner {
	uv_loop_t *loop;
	struct runner_plan plan;
	struct servers *servers;	/* MPS */
	struct launching_line *launches;
	struct forgetting *forgetting;
	struct hooks *hooks;		/* the administrator's programs */
	struct sweeping *sweeping;	/* NULL before runner_sweep */
	struct outsiders *outsiders;	/* processes of containers */
	struct idmap watches;		/* task -> struct watch */
	struct owners *owners;
	struct starting_plan starting;
	struct starting_library library;
	struct stopping_plan stopping;
	struct effect *effects;
	size_t n, cap;
	uv_timer_t tick;
};

/* Watching ------------------------------------------------------------------------------------------------------------- */

static void runner_unwatch(struct watch *w)
{
	polling_stop(w->polling);
	w->polling = NULL;
	if (w->pidfd >= 0)
		close(w->pidfd);
	w->pidfd = -1;
	if (w->shim.pid)
		owners_shim_gone(w->r->owners, w->shim.pid, w->task);
}

static void runner_drop_watch(struct watch *w)
{
	starting_destroy(w->starting);
	idmap_remove(&w->r->watches, w->task);
	runner_unwatch(w);
	delaying_end(&w->delay);
	free(w);
}

static const struct task *runner_task_of(const struct watch *w)
{
	return core_task(w->r->plan.core, w->task);
}

static int runner_watch_shim(struct watch *w, struct proc_id shim);

/* Two shims may have been started for one attempt, by this radd and one before it. The folder tells which of them has it;
 * the other one ends at once. */
static bool runner_watch_claimant(struct watch *w)
{
	struct proc_id shim;
	if (!launch_adopt(&w->r->plan.home, runner_task_of(w), &shim))
		return false;
	return shim.pid != w->shim.pid && !runner_watch_shim(w, shim);
}

static void runner_want_tick(struct runner *r);

/* Delays --------------------------------------------------------------------------------------------------------------- */

static void runner_delay_start(struct watch *w, const char *why)
{
	w->stage = WATCH_DELAYED;
	delaying_again(&w->delay, w->task, alloc_printf("not started yet, and tried again: %s", why));
	runner_want_tick(w->r);
}

static void runner_delay_end(struct watch *w, const char *why)
{
	w->stage = WATCH_UNREAD;
	delaying_again(&w->delay, w->task, alloc_printf("it ended, and how cannot be read yet: %s", why));
	runner_want_tick(w->r);
}

/* What one launch found again is there for the others. */
static void runner_hasten(struct runner *r)
{
	size_t at = 0;
	for (struct watch *w; (w = idmap_next(&r->watches, &at));)
		if (w->stage == WATCH_DELAYED)
			w->delay.retry_ms = 0;
}

/* What its shim left --------------------------------------------------------------------------------------------------- */

/* A task of which nobody knows any more must not go on unseen. */
static void runner_kill_rest(struct watch *w)
{
	if (!w->stranger)
		launch_signal(&w->r->plan.home, runner_task_of(w), SIGKILL);
}

/* What its output says last; a task that failed by itself leaves its server as it was. */
static void runner_note_fault(struct runner *r, const struct task *t, const struct exit_report *report)
{
	enum scan_kind kind = report->output.kind;
	if (report->have_record && task_attempt(t)->mode == SHARE_MPS && (kind == SCAN_MPS || kind == SCAN_DEVICE_FAULT))
		servers_note_fault(r->servers, t);
}

/* Containers' processes first, by what the task's record says of its end; the watch goes before the core is told, since
 * EV_ENDED may make a new attempt of the same task, which gets a watch of its own. */
static void runner_end(struct watch *w, const struct exit_report *report)
{
	struct runner *r = w->r;
	task_id task = w->task;
	outsiders_end(r->outsiders, runner_task_of(w), r->plan.config->kill_wait_ms);
	runner_note_fault(r, runner_task_of(w), report);
	runner_drop_watch(w);
	core_exited(r->plan.core, task, report, now_read());
}

/* Its cgroup goes the way of all that attempts leave. */
static int runner_unclaim(struct watch *w, struct error *err)
{
	char *cgroup;
	int rc = launch_unclaim(&w->r->plan.home, runner_task_of(w), &cgroup, err);
	if (cgroup)
		forgetting_add(w->r->forgetting, cgroup_remove_path, cgroup);
	return rc;
}

/* Nothing of it ran, though its shim did. Returns 1: it is begun again; 0: that is all that will be tried; -1: what is left of
 * it cannot be taken back yet. */
static int runner_begin_again(struct watch *w, const struct exit_report *report, bool claimed, struct error *err)
{
	const struct task *t = runner_task_of(w);
	const struct launch_home *home = &w->r->plan.home;
	if (t->stopping || (claimed && !report->again))
		return 0;
	if (!claimed && !launch_may_begin_again(home, t))
		return 0;
	if (claimed && delaying_ms(&w->delay) > AGAIN_MAX_MS)
		return 0;
	if (claimed && runner_unclaim(w, err))
		return -1;
	runner_delay_start(w, claimed ? report->output.line : "its shim ended before it began");
	return 1;
}

static void runner_failed(struct watch *w, const char *why);

/* The shim is gone: reads what it left and tells the core. Whatever can be wrong with a record is told apart: another
 * shim has the attempt (it is watched), the disk does not answer (tried again), nonsense (the attempt is lost), nothing
 * began (it may begin again, or was to stop: none is lost). Only then is it an end. */
static void runner_over(struct watch *w)
{
	struct runner *r = w->r;
	const struct task *t = runner_task_of(w);
	struct exit_report report = { 0 };
	struct error err = ERROR_INIT;
	bool claimed = true;
	char id[TASK_ID_TEXT];
	int rc = launch_result(&r->plan.home, t, &claimed, &report, &err);
	if (rc == 1 && runner_watch_claimant(w))	/* ours lost the race for the attempt to another radd's: that one runs */
		return;
	int again = rc ? 0 : runner_begin_again(w, &report, claimed, &err);
	if (again > 0)
		return;
	if (rc == 1 || again < 0 || (rc < 0 && err.code == ERR_SYSTEM)) {
		runner_delay_end(w, rc == 1 ? "another shim has it" : err.text);
		return;
	}
	if (!rc && !claimed && launch_may_begin_again(&r->plan.home, t)) {
		runner_failed(w, "it was stopped before it began");
		return;
	}
	if (rc < 0) {
		log_warn("task %s: its exit record cannot be read: %s", task_id_text(w->task, id), err.text);
		report = (struct exit_report){ .have_record = false };
	}
	if (claimed && !report.have_record)	/* its shim was killed, and its processes run perhaps */
		runner_kill_rest(w);
	pacing_look(r->plan.core, &r->plan.home, t);
	runner_end(w, &report);
}

static void on_shim_gone(void *ctx)
{
	runner_unwatch(ctx);
	runner_over(ctx);
}

/* Returns 0, or -1 when the process is gone already. */
static int runner_watch_shim(struct watch *w, struct proc_id shim)
{
	struct error err = ERROR_INIT;
	runner_unwatch(w);
	w->shim = shim;
	w->pidfd = proc_pidfd(shim.pid);
	if (proc_gone(shim))
		return -1;
	owners_shim(w->r->owners, shim.pid, w->task);
	w->stage = WATCH_RUNNING;
	delaying_end(&w->delay);	/* it may be delayed again, before its program begins */
	/* Out of descriptors or memory, which says nothing about the task: on_tick tries again. So too where the pid may have become
	 * another's, between reading the identity and opening it. */
	if (w->pidfd < 0 || !proc_alive(shim))
		error_errno(&err, "watching process %d", (int)shim.pid);
	else
		w->polling = polling_start(w->r->loop, w->pidfd, on_shim_gone, w, &err);
	if (!w->polling) {
		log_warn_limited("%s", err.text);
		runner_want_tick(w->r);
	}
	return 0;
}

static struct watch *runner_watch_task(struct runner *r, task_id task)
{
	struct watch *w = alloc_zero(sizeof *w);
	w->r = r;
	w->task = task;
	w->pidfd = -1;
	idmap_put(&r->watches, task, w);
	return w;
}

/* Starting ------------------------------------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *t);

static void runner_want_tick(struct runner *r)
{
	if (!uv_is_active((uv_handle_t *)&r->tick))
		uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_started(void *ctx, struct proc_id shim);

/* One that an earlier radd started came late, and to the claim before us. */
static bool runner_began_all_the_same(struct watch *w)
{
	const struct launch_home *home = &w->r->plan.home;
	struct proc_id shim;
	if (w->stranger || !launch_withdraw(home, runner_task_of(w)))
		return false;
	if (launch_adopt(home, runner_task_of(w), &shim))
		on_started(w, shim);
	else
		runner_over(w);
	return true;
}

/* It is not started, and will not be. */
static void runner_failed(struct watch *w, const char *why)
{
	if (runner_began_all_the_same(w))
		return;
	struct exit_report report = { .never_began = true, .have_record = false };
	char id[TASK_ID_TEXT];
	log_warn("task %s: not started: %s", task_id_text(w->task, id), why);
	report.output.kind = SCAN_OTHER_ERROR;
	text_printf(report.output.line, sizeof report.output.line, "%s", why);
	runner_end(w, &report);
}

static void runner_stop(struct watch *w);
static void runner_suspend(struct watch *w);

static void on_waits(void *ctx)
{
	runner_want_tick(((struct watch *)ctx)->r);
}

/* It may have ended already, or been asked to: both were possible while its launch was in a thread. */
static void on_started(void *ctx, struct proc_id shim)
{
	struct watch *w = ctx;
	struct runner *r = w->r;
	core_started(r->plan.core, w->task, shim, now_read());
	if (w->delay.text)
		runner_hasten(r);
	if (runner_watch_shim(w, shim))
		runner_over(w);
	else if (runner_task_of(w)->stopping)	/* asked for while it was launched */
		runner_stop(w);
	else if (runner_task_of(w)->suspended)	/* while it was to be launched again */
		runner_suspend(w);
}

static void on_over(void *ctx) { runner_over(ctx); }
static void on_failed(void *ctx, const char *why) { runner_failed(ctx, why); }
static void on_delayed(void *ctx, const char *why) { runner_delay_start(ctx, why); }

static void runner_begin(struct watch *w)
{
	static const struct starting_ops ops = { .waits = on_waits, .started = on_started, .over = on_over, .failed = on_failed,
						 .delayed = on_delayed };
	if (!w->starting)
		w->starting = starting_create(&w->r->starting, &ops, w, w->task);
	w->stage = WATCH_STARTING;
	w->stranger = false;	/* whose pids are known from here on are of this boot */
	starting_begin(w->starting);
}

/* Stopping ------------------------------------------------------------------------------------------------------------- */

/* A process in a file system or a driver that hangs dies of nothing. Its task is over for everybody else: its GPUs are given to
 * others as far as readings show them free, and what it still holds there counts as foreign. */
static void runner_give_up(struct watch *w)
{
	char id[TASK_ID_TEXT];
	log_error("task %s: its shim, pid %d, does not die of SIGKILL: it hangs in the kernel (a file system or a driver that does "
		  "not answer? see /proc/%d/stack, and dmesg). Its GPUs are released; what its processes still hold counts as foreign",
		  task_id_text(w->task, id), (int)w->shim.pid, (int)w->shim.pid);
	runner_end(w, &(struct exit_report){ .have_record = false });
}

static void runner_stop_step(struct watch *w)
{
	if (!stopping_step(&w->stopping, &w->r->stopping, runner_task_of(w), w->pidfd))
		runner_give_up(w);
}

/* Its processes go on, and are nobody's from now on. */
static void runner_let_go(struct watch *w)
{
	owners_let_go(w->r->owners, w->task);
	runner_end(w, &(struct exit_report){ .have_record = true, .unseen = true });
}

/* By where the attempt is: what does not run yet need not begin, what has ended need not be read, and the rest is signalled
 * step by step (stopping.h). Twice asked is once asked. */
static void runner_stop(struct watch *w)
{
	if (starting_is_launching(w->starting))	/* what comes of that goes on with it */
		return;
	if (runner_task_of(w)->stopping == STOP_GIVEN_BACK) {
		runner_let_go(w);
		return;
	}
	if (w->stage == WATCH_UNREAD) {
		runner_kill_rest(w);
		if (runner_task_of(w)->stopping == STOP_REQUEUE)	/* whether it may run again, only its record says */
			w->delay.retry_ms = 0;
		else		/* nobody wants to wait for that any more */
			runner_end(w, &(struct exit_report){ .have_record = false });
		return;
	}
	if (w->stage != WATCH_RUNNING) {	/* not started yet: it need not be */
		runner_failed(w, "it was stopped before it began");
		return;
	}
	if (!w->stopping.next_step_ms) {
		runner_want_tick(w->r);
		runner_stop_step(w);
	}
}

/* As its record says. Twice, for what was forked while the first ones were being stopped. A shim that has just begun, or begins
 * again, has no program yet. */
static void runner_suspend(struct watch *w)
{
	const struct task *t = runner_task_of(w);
	int got = 0;
	for (int i = 0; w->stage == WATCH_RUNNING && i < 2; i++)
		got += stopping_signal(&w->r->stopping, t, t->suspended ? SIGSTOP : SIGCONT);
	bool unstopped = t->suspended && !t->stopping && !got && w->stage == WATCH_RUNNING;
	w->unstopped_ms = unstopped ? clock_mono_ms() + TICK_MS : 0;
	if (unstopped)
		runner_want_tick(w->r);
}

/* What comes again ----------------------------------------------------------------------------------------------------- */

static bool runner_is_blind(const struct watch *w)
{
	return w->stage == WATCH_RUNNING && !w->polling;
}

static bool runner_waits_for_server(const struct watch *w)
{
	return w->stage == WATCH_STARTING && starting_waits(w->starting);
}

static bool runner_has_to_do(const struct watch *w)
{
	return runner_waits_for_server(w) || w->stage == WATCH_DELAYED || w->stage == WATCH_UNREAD || w->stopping.next_step_ms ||
	       w->unstopped_ms || runner_is_blind(w);
}

static void runner_tick(struct watch *w)
{
	int64_t now = clock_mono_ms();
	if (runner_waits_for_server(w) || (w->stage == WATCH_DELAYED && now >= w->delay.retry_ms))
		runner_begin(w);
	else if (w->stage == WATCH_UNREAD && now >= w->delay.retry_ms)
		runner_over(w);
	else if (runner_is_blind(w) && runner_watch_shim(w, w->shim))
		runner_over(w);
	else if (w->stopping.next_step_ms && now >= w->stopping.next_step_ms)
		runner_stop_step(w);
	else if (w->unstopped_ms && now >= w->unstopped_ms)
		runner_suspend(w);
}

/* Of what takes long and comes again; the rest is done at once. */
static int64_t due_ms(const struct watch *w)
{
	int64_t stop = w->stopping.next_step_ms, suspend = w->unstopped_ms;
	return stop && suspend ? (stop < suspend ? stop : suspend) : stop + suspend;
}

static int by_due(const void *a, const void *b)
{
	int64_t x = due_ms(*(struct watch *const *)a), y = due_ms(*(struct watch *const *)b);
	return (x > y) - (x < y);
}

/* What there was no time for; others have theirs before. */
static void runner_go_on(struct runner *r)
{
	uv_timer_start(&r->tick, on_tick, 0, TICK_MS);
}

/* A list first: what is done for one may add and remove watches, its own among them, and no walk of a map survives that. */
static void on_tick(uv_timer_t *timer)
{
	struct runner *r = timer->data;
	int64_t until_us = clock_mono_us() + WORK_US;
	size_t at = 0, n = 0, cap = 0, done = 0;
	struct watch **busy = NULL;
	for (struct watch *w; (w = idmap_next(&r->watches, &at));)
		if (runner_has_to_do(w)) {
			alloc_grow(busy, n, cap);
			busy[n++] = w;
		}
	if (n)
		qsort(busy, n, sizeof *busy, by_due);
	while (done < n && (!done || clock_mono_us() < until_us))
		runner_tick(busy[done++]);
	free(busy);
	if (!n)
		uv_timer_stop(timer);
	else if (done < n)
		runner_go_on(r);
}

/* Effects -------------------------------------------------------------------------------------------------------------- */

void runner_note(struct runner *r, const struct event *ev, const struct task *t)
{
	enum effect_kind kind;
	switch (ev->kind) {
	case EV_PLACED: kind = EFFECT_LAUNCH; break;
	case EV_STOP_ASKED: kind = EFFECT_STOP; break;
	case EV_SUSPENDED: case EV_RESUMED: kind = EFFECT_SUSPEND; break;
	case EV_ENDED: kind = EFFECT_FORGET; hooks_note_end(r->hooks, ev, t); break;
	case EV_SLOT_ASKED: kind = EFFECT_ASK; break;
	case EV_WARNED: kind = EFFECT_WARN; break;
	default: return;
	}
	alloc_grow(r->effects, r->n, r->cap);
	r->effects[r->n++] = (struct effect){ kind, t->id, kind == EFFECT_FORGET ? launch_folder(&r->plan.home, t) : NULL };
}

/* The task may have gone on since the event: each effect asks what is so now, and does nothing where nothing is to be done
 * any more. */
static void runner_run_effect(struct runner *r, const struct effect *e)
{
	struct watch *w = idmap_get(&r->watches, e->task);
	const struct task *t = core_task(r->plan.core, e->task);
	switch (e->kind) {
	case EFFECT_LAUNCH:
		if (t && t->state == TASK_RUNNING && !w)
			runner_begin(runner_watch_task(r, e->task));
		break;
	case EFFECT_STOP:
		if (w)
			runner_stop(w);
		break;
	case EFFECT_ASK:
		if (w && t && w->stage == WATCH_RUNNING)
			asking_for_place(&r->plan.home, t);
		break;
	case EFFECT_SUSPEND:
		if (w && t)
			runner_suspend(w);
		break;
	case EFFECT_WARN:	/* one that does not run yet has nothing to be warned of */
		if (w && t && w->stage == WATCH_RUNNING && stopping_signal(&r->stopping, t, t->spec->signal))
			launch_note_sent(&r->plan.home, t, LAUNCH_WARNED);
		break;
	case EFFECT_FORGET:
		forgetting_add(r->forgetting, launch_forget, e->folder);
		break;
	}
}

/* Folders of ended attempts can wait: they hold up nobody. */
bool runner_is_urgent(const struct runner *r)
{
	bool urgent = false;
	for (size_t i = 0; i < r->n; i++)
		urgent |= r->effects[i].kind != EFFECT_FORGET;
	return urgent;
}

/* What the effects lead to (a launch that fails, say) is noted anew, and done after the next commit. */
bool runner_work(struct runner *r)
{
	int64_t until_us = clock_mono_us() + WORK_US;
	size_t n = r->n, done = 0;
	hooks_work(r->hooks);	/* before effects make ends that are not on disk yet */
	while (done < n && (!done || clock_mono_us() < until_us)) {
		struct effect e = r->effects[done++];	/* the list may move */
		runner_run_effect(r, &e);
	}
	r->n -= done;
	if (done)
		memmove(r->effects, r->effects + done, r->n * sizeof *r->effects);
	if (done < n)
		runner_go_on(r);
	/* Every turn: a sample brings one, if nothing else does. */
	servers_tidy(r->servers, r->plan.core, r->plan.config->mps_idle_ms);
	return n && done == n;
}

/* After a restart ------------------------------------------------------------------------------------------------------ */

/* Its shim, running: the one that claimed the attempt, or the one that was started and has not come to that yet. */
static bool runner_find_shim(const struct watch *w, struct proc_id *shim)
{
	const struct task *t = runner_task_of(w);
	if (w->stranger)
		return false;
	if (launch_adopt(&w->r->plan.home, t, shim))
		return true;
	*shim = task_attempt(t)->shim;
	return !proc_gone(*shim);
}

/* No shim runs: it ended, or nobody started it. */
static void runner_adopt_ended(struct watch *w)
{
	struct runner *r = w->r;
	const struct task *t = runner_task_of(w);
	struct error err = ERROR_INIT;
	struct exit_report report = { 0 };
	bool claimed = false;
	char id[TASK_ID_TEXT];
	int rc = launch_result(&r->plan.home, t, &claimed, &report, &err);
	if (claimed || task_attempt(t)->shim.pid || rc < 0) {
		log_info("task %s: ended while no radd ran", task_id_text(t->id, id));
		runner_over(w);
	} else if (t->stopping) {
		runner_failed(w, "it was stopped before it began");
	} else {
		runner_drop_watch(w);
		struct event again = { .kind = EV_PLACED };
		runner_note(r, &again, t);
	}
}

void runner_adopt(struct runner *r, const struct task *t, bool new_boot)
{
	struct proc_id shim = { 0 };
	char id[TASK_ID_TEXT];
	struct watch *w = runner_watch_task(r, t->id);
	w->stranger = new_boot;
	if (!runner_find_shim(w, &shim) || runner_watch_shim(w, shim)) {
		runner_adopt_ended(w);
		return;
	}
	log_info("task %s: adopted, its shim is pid %d", task_id_text(t->id, id), (int)shim.pid);
	if (!task_attempt(t)->shim.pid)
		core_started(r->plan.core, t->id, shim, now_read());
	if (t->suspended || t->suspended_ms)	/* the signal may have been lost with the radd that was to send it */
		runner_suspend(w);
	if (task_attempt(t)->warned && launch_sent_ago_ms(&r->plan.home, t, LAUNCH_WARNED) < 0)
		runner_note(r, &(struct event){ .kind = EV_WARNED }, t);
	if (t->stopping)
		runner_stop(w);
	else if (core_is_leaving(r->plan.core, t, now_read()) && !asking_was_told(&r->plan.home, t, now_read().wall_ms))
		runner_note(r, &(struct event){ .kind = EV_SLOT_ASKED }, t);
}

struct kept { const struct launch_home *home; char **names; size_t n, cap; };

static void keep_name(void *ctx, const struct task *t)
{
	struct kept *k = ctx;
	char name[LAUNCH_NAME_LEN];
	if (t->state != TASK_RUNNING)
		return;
	alloc_grow(k->names, k->n, k->cap);
	k->names[k->n++] = alloc_string(launch_name(k->home, t, name));
}

/* Those of running tasks are kept by name, in whatever state their folder is; all else there is somebody's who has
 * ended. */
void runner_sweep(struct runner *r, bool remove)
{
	struct kept k = { .home = &r->plan.home };
	core_each_task(r->plan.core, keep_name, &k);
	sweeping_destroy(r->sweeping);
	r->sweeping = sweeping_start(r->forgetting, &r->plan.home, k.names, k.n, remove);
	for (size_t i = 0; i < k.n; i++)
		free(k.names[i]);
	free(k.names);
}

/* Questions, and words from outside ------------------------------------------------------------------------------------ */

const char *runner_delay(const struct runner *r, task_id id)
{
	const struct watch *w = idmap_get(&r->watches, id);
	return w ? w->delay.text : NULL;
}

bool runner_departed(struct runner *r, task_id id, const struct exit_report *report)
{
	struct watch *w = idmap_get(&r->watches, id);
	if (w)
		runner_end(w, report);
	return w;
}

char **runner_environment(const struct runner *r, const struct task *t)
{
	return starting_environment(&r->starting, t);
}

int runner_ask(const struct runner *r, const struct task *t, int signal)
{
	const struct watch *w = idmap_get(&r->watches, t->id);
	return w && w->stage == WATCH_RUNNING ? launch_ask(&r->plan.home, t, signal) : 0;
}

enum core_mps runner_mps(const struct runner *r, const char **why)
{
	return servers_can(r->servers, why);
}

void runner_tell_troubles(const struct runner *r, json_t *troubles)
{
	const struct watch *worst[2] = { NULL };	/* of starts, of ends */
	size_t n[2] = { 0 }, at = 0;
	for (const struct watch *w; (w = idmap_next(&r->watches, &at));)
		if (w->delay.text) {
			int which = w->stage == WATCH_UNREAD;
			n[which]++;
			if (!worst[which] || w->delay.times > worst[which]->delay.times)
				worst[which] = w;
		}
	for (int i = 0; i < 2; i++) {
		char id[TASK_ID_TEXT];
		if (n[i])
			troubles_add(troubles, "starts", "%zu task%s delayed; task %s: %s", n[i], n[i] > 1 ? "s are" : " is",
				     task_id_text(worst[i]->task, id), worst[i]->delay.text);
	}
	servers_tell(r->servers, troubles);
	sweeping_tell(r->sweeping, troubles);
	hooks_tell(r->hooks, troubles);
}

bool runner_slot_hears(const struct runner *r, const struct task *t)
{
	return asking_is_heard(&r->plan.home, t);
}

task_id runner_owner(struct runner *r, const struct proc_reading *p)
{
	return owners_of(r->owners, r->sweeping, p);
}

/* Life ----------------------------------------------------------------------------------------------------------------- */

struct runner *runner_create(uv_loop_t *loop, const struct runner_plan *plan)
{
	struct runner *r = alloc_zero(sizeof *r);
	*r = (struct runner){ .loop = loop, .plan = *plan, .servers = servers_create(plan->run_dir, plan->device),
			      .launches = launching_line_create(loop), .hooks = hooks_create(loop, plan->config, plan->store),
			      .forgetting = forgetting_create(loop), .outsiders = outsiders_create(loop, &plan->home) };
	r->owners = owners_create(plan->core, r->outsiders);
	r->starting = (struct starting_plan){ .core = plan->core, .home = plan->home, .socket_path = plan->socket_path,
					      .device = plan->device, .servers = r->servers, .hooks = r->hooks,
					      .launches = r->launches, .config = plan->config, .library = &r->library };
	r->stopping = (struct stopping_plan){ .config = plan->config, .home = plan->home, .servers = r->servers,
					      .outsiders = r->outsiders };
	uv_timer_init(loop, &r->tick);
	r->tick.data = r;
	return r;
}

void runner_leave(struct runner *r)
{
	servers_tidy(r->servers, r->plan.core, 0);
}

static void on_tick_closed(uv_handle_t *h)
{
	free(h->data);
}

void runner_destroy(struct runner *r)
{
	if (!r)
		return;
	for (;;) {
		size_t at = 0;
		struct watch *w = idmap_next(&r->watches, &at);
		if (!w)
			break;
		runner_drop_watch(w);
	}
	idmap_free(&r->watches);
	owners_destroy(r->owners);
	launching_line_destroy(r->launches);
	forgetting_destroy(r->forgetting);
	sweeping_destroy(r->sweeping);
	hooks_destroy(r->hooks);
	outsiders_destroy(r->outsiders);
	servers_destroy(r->servers);
	for (size_t i = 0; i < r->n; i++)
		free(r->effects[i].folder);
	free(r->effects);
	free(r->library.path);
	uv_close((uv_handle_t *)&r->tick, on_tick_closed);
}
