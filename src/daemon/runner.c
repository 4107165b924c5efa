/* SPDX-License-Identifier: MIT
 * Attempts in the loop: launching them (after their MPS server, where they want one), watching their shims through pidfds,
 * ending them in steps, and telling whose process is whose.
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
#include "daemon/asking.h"
#include "daemon/hooks.h"
#include "daemon/launching.h"
#include "daemon/now.h"
#include "daemon/outsiders.h"
#include "daemon/pacing.h"
#include "daemon/polling.h"
#include "daemon/servers.h"
#include "daemon/sweeping.h"
#include "launch/adopted.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 100		/* while something waits: an MPS server to come up, a task to end */
#define MPS_WAIT_MS 60000	/* for a server to come up, or a former one to leave */
#define TERMINATE_MS 5000	/* between terminate_client and SIGKILL */
#define DELAY_MIN_MS 500	/* between two tries at what the machine was short of; doubled each time up to */
#define DELAY_MAX_MS 30000
#define AGAIN_MAX_MS 600000	/* what its own user may be short of is not waited for on a GPU for longer */
#define KILL_MIN_MS 1000	/* between two of these, at least; at most TERMINATE_MS, else kill_wait */
#define SHIM_KILLS 6		/* times SIGKILL is sent to a task before its shim is taken for stuck */
#define SHIM_GIVEN_UP 8		/* and when that did not help: it hangs in the kernel */

/* One attempt from its placement to its end; there is one for each running task. */
struct watch {
	struct runner *r;
	task_id task;
	struct proc_id shim;
	int pidfd;
	struct polling *polling;	/* of pidfd */
	bool stranger;		/* its shim was of an earlier boot: whoever has these pids now is not ours to signal */
	/* DELAYED: its launch is tried again, UNREAD: its end is read again, at retry_ms. */
	enum { WATCH_NEW, WATCH_MPS, WATCH_PROLOG, WATCH_LAUNCHING, WATCH_RUNNING, WATCH_DELAYED, WATCH_UNREAD } stage;
	char *delay;		/* why; NULL: it is not delayed */
	unsigned delays;
	int64_t retry_ms, delayed_since_ms;	/* mono */
	struct launching *launching;
	struct hook *prolog;	/* that runs */
	bool prepared;		/* the prolog is done, or there is none */
	int64_t mps_since_ms;	/* mono; since when it waits for its server */
	/* The stop sequence; 0: not stopping. */
	int64_t next_step_ms, stop_since_ms;
	enum { STEP_TERM, STEP_TERMINATE_CLIENT, STEP_KILL } step;
	unsigned kills;
	bool unheard;		/* it was asked to make place, by a signal that none of its processes handles */
};

enum effect_kind { EFFECT_LAUNCH, EFFECT_STOP, EFFECT_SUSPEND, EFFECT_FORGET, EFFECT_ASK };

struct effect { enum effect_kind kind; task_id task; char *folder; };	/* folder: to be forgotten; owned */

/* Who owns a process is asked every second and does not change: the answer is kept by pid and start time. */
struct owned { uint64_t start_ticks; task_id owner; uint64_t generation; };

struct runner {
	uv_loop_t *loop;
	struct runner_plan plan;
	struct servers *servers;	/* MPS */
	struct launching_line *launches;
	struct hooks *hooks;		/* the administrator's programs */
	struct sweeping *sweeping;	/* NULL before runner_sweep */
	struct outsiders *outsiders;	/* processes of containers */
	struct idmap watches;		/* task -> struct watch */
	struct idmap shims;		/* pid of the shim -> struct watch */
	struct idmap owners;		/* pid -> struct owned */
	uint64_t generation;		/* counts starts: a "nobody's" is asked again after one */
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
		idmap_remove(&w->r->shims, w->shim.pid);
}

static void runner_drop_watch(struct watch *w)
{
	launching_leave(w->launching);
	hooks_leave(w->prolog);
	idmap_remove(&w->r->watches, w->task);
	runner_unwatch(w);
	free(w->delay);
	free(w);
}

static const struct task *runner_task_of(const struct watch *w)
{
	return core_task(w->r->plan.core, w->task);
}

static int runner_watch_shim(struct watch *w, struct proc_id shim);

static bool runner_watch_claimant(struct watch *w)
{
	struct proc_id shim;
	if (launch_adopt(&w->r->plan.home, runner_task_of(w), &shim, NULL) != 1)
		return false;
	return shim.pid != w->shim.pid && !runner_watch_shim(w, shim);
}

static void runner_want_tick(struct runner *r);

/* Delays --------------------------------------------------------------------------------------------------------------- */

/* The machine is short of something, or something of ours is not there, which is no fault of the task's: it is tried again, and
 * told meanwhile. */
static void runner_delay_until(struct watch *w, int stage, const char *why)
{
	int64_t now = clock_mono_ms(), wait = (int64_t)DELAY_MIN_MS << (w->delays < 6 ? w->delays : 6);
	char id[TASK_ID_TEXT];
	if (!w->delays++)
		w->delayed_since_ms = now;
	w->stage = stage;
	w->retry_ms = now + (wait < DELAY_MAX_MS ? wait : DELAY_MAX_MS);
	free(w->delay);
	w->delay = alloc_printf(stage == WATCH_UNREAD ? "it ended, and how cannot be read yet: %s" :
				"not started yet, and tried again: %s", why);
	log_warn_limited("task %s: %s", task_id_text(w->task, id), w->delay);
	runner_want_tick(w->r);
}

/* What one launch found again is there for the others. */
static void runner_hasten(struct runner *r)
{
	size_t at = 0;
	for (struct watch *w; (w = idmap_next(&r->watches, &at));)
		if (w->stage == WATCH_DELAYED)
			w->retry_ms = 0;
}

const char *runner_delay(const struct runner *r, task_id id)
{
	const struct watch *w = idmap_get(&r->watches, id);
	return w ? w->delay : NULL;
}

/* Ends ----------------------------------------------------------------------------------------------------------------- */

static void runner_end(struct watch *w, const struct exit_report *report)
{
	struct runner *r = w->r;
	task_id task = w->task;
	outsiders_end(r->outsiders, runner_task_of(w), r->plan.config->kill_wait_ms);
	runner_drop_watch(w);
	core_exited(r->plan.core, task, report, now_read());
}

/* Nothing of it ran, though its shim did. Returns false when that is all that will be tried. */
static bool runner_begin_again(struct watch *w, const struct exit_report *report, bool claimed)
{
	const struct task *t = runner_task_of(w);
	const struct launch_home *home = &w->r->plan.home;
	if (t->stopping || (claimed && !report->again))
		return false;
	if (!claimed && !launch_may_begin_again(home, t))
		return false;
	if (claimed && w->delays && clock_mono_ms() - w->delayed_since_ms > AGAIN_MAX_MS)
		return false;
	if (claimed && launch_unclaim(home, t, NULL))
		return false;
	runner_delay_until(w, WATCH_DELAYED, claimed ? report->output.line : "its shim ended before it began");
	return true;
}

/* The shim is gone: reads what it left and tells the core. */
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
	if (rc == 1 || (rc < 0 && err.code == ERR_SYSTEM)) {
		runner_delay_until(w, WATCH_UNREAD, rc == 1 ? "another shim has it" : err.text);
		return;
	}
	if (rc < 0) {
		log_warn("task %s: its exit record cannot be read: %s", task_id_text(w->task, id), err.text);
		report = (struct exit_report){ .have_record = false };
	} else if (runner_begin_again(w, &report, claimed)) {
		return;
	}
	/* A shim that was killed leaves its task without a record, and perhaps running: a lost task must not go on unseen. */
	if (claimed && !report.have_record && !w->stranger)
		launch_signal(&r->plan.home, t, SIGKILL);
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
	/* Between reading the identity and opening it, the pid may have become another's. */
	if (!proc_alive(shim))
		return -1;
	idmap_put(&w->r->shims, shim.pid, w);
	w->stage = WATCH_RUNNING;
	w->r->generation++;
	free(w->delay);		/* how often it was delayed is kept: it may be again, before its program begins */
	w->delay = NULL;
	/* Out of descriptors or memory, which says nothing about the task: on_tick tries again. */
	if (w->pidfd < 0)
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

/* Launching ------------------------------------------------------------------------------------------------------------ */

static void on_tick(uv_timer_t *t);

static void runner_want_tick(struct runner *r)
{
	if (!uv_is_active((uv_handle_t *)&r->tick))
		uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
}

/* It is not started, and will not be. */
static void runner_failed(struct watch *w, const char *why)
{
	struct exit_report report = { .never_began = true, .have_record = false };
	char id[TASK_ID_TEXT];
	log_warn("task %s: not started: %s", task_id_text(w->task, id), why);
	report.output.kind = SCAN_OTHER_ERROR;
	snprintf(report.output.line, sizeof report.output.line, "%s", why);
	runner_end(w, &report);
}

static void runner_stop(struct watch *w);

static void runner_started(struct watch *w, struct proc_id shim)
{
	struct runner *r = w->r;
	core_started(r->plan.core, w->task, shim, now_read());
	if (w->delay)
		runner_hasten(r);
	if (runner_watch_shim(w, shim))
		runner_over(w);
	else if (runner_task_of(w)->stopping)	/* asked for while it was launched */
		runner_stop(w);
}

static void on_launched(void *ctx, int rc, struct proc_id shim, const struct error *err)
{
	struct watch *w = ctx;
	w->launching = NULL;
	w->stage = WATCH_NEW;
	if (rc && err->code == ERR_CONFLICT)	/* a former radd started it */
		rc = launch_adopt(&w->r->plan.home, runner_task_of(w), &shim, NULL) == 1 ? 0 : -1;
	if (!rc)
		runner_started(w, shim);
	else if (err->code == ERR_CONFLICT)
		runner_over(w);
	else if (err->code == ERR_INVALID)	/* the task's own */
		runner_failed(w, err->text);
	else if (runner_task_of(w)->stopping)
		runner_failed(w, "it was stopped before it began");
	else
		runner_delay_until(w, WATCH_DELAYED, err->text);
}

static struct launch_request runner_request(const struct runner *r, const struct task *t, struct launch_gpu gpus[SPEC_MAX_GPUS])
{
	const struct attempt *a = task_attempt(t);
	struct core_gpu_ref refs[SPEC_MAX_GPUS];
	size_t n = core_task_gpus(r->plan.core, t->id, refs);
	const char *pipe = a->mode == SHARE_MPS ? servers_pipe_dir(r->servers, t) : NULL;
	bool by_uuid = pipe && !servers_count_alike(r->servers, t, refs, n);
	for (size_t i = 0; i < n; i++) {
		snprintf(gpus[i].uuid, sizeof gpus[i].uuid, "%s", refs[i].uuid);
		gpus[i].index = refs[i].index;
		gpus[i].by_uuid = by_uuid || refs[i].mig;
	}
	return (struct launch_request){
		.home = r->plan.home, .task = t, .gpus = gpus, .n_gpus = (unsigned)n,
		.fence_mib = a->fenced ? a->claim_mib : 0, .device = r->plan.device, .mps_pipe_dir = pipe,
		.socket_path = r->plan.socket_path,
	};
}

char **runner_environment(const struct runner *r, const struct task *t)
{
	struct launch_gpu gpus[SPEC_MAX_GPUS] = { 0 };
	struct launch_request q = runner_request(r, t, gpus);
	return launch_variables(&q);
}

static void runner_launch(struct watch *w)
{
	struct runner *r = w->r;
	struct launch_gpu gpus[SPEC_MAX_GPUS] = { 0 };
	struct launch_request q = runner_request(r, runner_task_of(w), gpus);
	w->stranger = false;
	if (adopted_is(q.task)) {	/* it is there */
		runner_started(w, spec_process(q.task->spec));
		return;
	}
	w->stage = WATCH_LAUNCHING;
	w->launching = launching_start(r->launches, launch_prepare(&q), on_launched, w);
}

static void runner_wait_for_server(struct watch *w)
{
	int64_t now = clock_mono_ms();
	if (w->stage != WATCH_MPS)
		w->mps_since_ms = now;
	w->stage = WATCH_MPS;
	if (now - w->mps_since_ms > MPS_WAIT_MS)
		runner_delay_until(w, WATCH_DELAYED, "its MPS server did not become ready within a minute: do its GPUs answer?");
	else
		runner_want_tick(w->r);
}

static void runner_begin(struct watch *w);

static void on_prolog(void *ctx, const char *why)
{
	struct watch *w = ctx;
	w->prolog = NULL;
	w->prepared = !why;
	if (why)
		runner_delay_until(w, WATCH_DELAYED, why);
	else
		runner_begin(w);	/* its MPS server may have gone meanwhile */
}

static void runner_prepare(struct watch *w)
{
	w->stage = WATCH_PROLOG;
	w->prolog = hooks_prolog(w->r->hooks, runner_task_of(w), on_prolog, w);
}

/* An MPS task waits for its server, and all for the administrator's prolog. A server that does not come up is the machine's
 * trouble, and no task's fault. */
static void runner_begin(struct watch *w)
{
	const struct task *t = runner_task_of(w);
	const char *why;
	if (task_attempt(t)->mode == SHARE_MPS) {
		switch (servers_want(w->r->servers, w->r->plan.core, t, &why)) {
		case MPS_READY: break;
		case MPS_FAILED: runner_delay_until(w, WATCH_DELAYED, why); return;
		case MPS_STARTING: runner_wait_for_server(w); return;
		}
	}
	if (w->prepared || !hooks_has_prolog(w->r->hooks))
		runner_launch(w);
	else
		runner_prepare(w);
}

/* Ending --------------------------------------------------------------------------------------------------------------- */

/* Returns how many processes got it. */
static int runner_signal_task(const struct watch *w, int sig)
{
	const struct task *t = runner_task_of(w);
	char id[TASK_ID_TEXT];
	int n = launch_signal(&w->r->plan.home, t, sig) + outsiders_signal(w->r->outsiders, t, sig);
	if (n)
		log_info("task %s: %s sent to %d processes", task_id_text(w->task, id), strsignal(sig), n);
	return n;
}

/* A client with work in flight that is killed can take its MPS server along: the server is asked to end it first. */
static void runner_terminate_clients(struct watch *w)
{
	const struct task *t = runner_task_of(w);
	scoped_free pid_t *pids = NULL;
	size_t n = launch_processes(&w->r->plan.home, t, &pids);
	for (size_t i = 0; i < n; i++)
		servers_terminate_client(w->r->servers, t, pids[i]);
}

/* The shim has its user's rights, so its user can stop it, or have it hang in a file system of his; the GPU must come back
 * all the same. What it then leaves undone counts as a lost record. */
static void runner_nudge_shim(struct watch *w)
{
	if (adopted_is(runner_task_of(w)))	/* no shim, and not ours to signal whatever it has become */
		w->kills++;
	else if (w->pidfd >= 0)
		proc_pidfd_signal(w->pidfd, w->kills++ < SHIM_KILLS ? SIGCONT : SIGKILL);
}

static int64_t runner_kill_pause(const struct watch *w)
{
	int64_t wait = w->r->plan.config->kill_wait_ms;
	return wait < KILL_MIN_MS ? KILL_MIN_MS : wait < TERMINATE_MS ? wait : TERMINATE_MS;
}

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

static void runner_next_stop_step(struct watch *w)
{
	bool mps = task_attempt(runner_task_of(w))->mode == SHARE_MPS && servers_end_clients(w->r->servers);
	int64_t now = clock_mono_ms();
	switch (w->step) {
	case STEP_TERM:
		if (!w->stop_since_ms)
			w->stop_since_ms = now;
		w->next_step_ms = w->stop_since_ms + w->r->plan.config->kill_wait_ms;
		if (!runner_signal_task(w, SIGTERM) && now + TICK_MS < w->next_step_ms) {
			w->next_step_ms = now + TICK_MS;	/* its shim has not begun the program yet */
			break;
		}
		w->step = mps ? STEP_TERMINATE_CLIENT : STEP_KILL;
		break;
	case STEP_TERMINATE_CLIENT:
		runner_terminate_clients(w);
		w->next_step_ms = now + TERMINATE_MS;
		w->step = STEP_KILL;
		break;
	case STEP_KILL:
		runner_signal_task(w, SIGKILL);
		runner_nudge_shim(w);
		w->next_step_ms = now + runner_kill_pause(w);
		if (w->kills > SHIM_GIVEN_UP)
			runner_give_up(w);
		break;
	}
}

/* Its processes go on, and are nobody's from now on. */
static void runner_let_go(struct watch *w)
{
	struct runner *r = w->r;
	size_t at = 0;
	for (struct owned *o; (o = idmap_next(&r->owners, &at));)
		if (o->owner == w->task)
			o->owner = 0;
	r->generation++;
	runner_end(w, &(struct exit_report){ .have_record = true, .unseen = true });
}

static void runner_stop(struct watch *w)
{
	if (w->stage == WATCH_LAUNCHING)	/* on_launched goes on with it */
		return;
	if (runner_task_of(w)->stopping == STOP_GIVEN_BACK) {
		runner_let_go(w);
		return;
	}
	if (w->stage == WATCH_UNREAD) {		/* nobody wants to wait for that any more */
		launch_signal(&w->r->plan.home, runner_task_of(w), SIGKILL);
		runner_end(w, &(struct exit_report){ .have_record = false });
		return;
	}
	if (w->stage != WATCH_RUNNING) {	/* not started yet: it need not be */
		runner_failed(w, "it was stopped before it began");
		return;
	}
	if (!w->next_step_ms) {
		w->step = STEP_TERM;
		runner_next_stop_step(w);
		runner_want_tick(w->r);
	}
}

static bool runner_is_blind(const struct watch *w)
{
	return w->stage == WATCH_RUNNING && !w->polling;
}

static bool runner_has_to_do(const struct watch *w)
{
	return w->stage == WATCH_MPS || w->stage == WATCH_DELAYED || w->stage == WATCH_UNREAD || w->next_step_ms ||
	       runner_is_blind(w);
}

static void runner_tick(struct watch *w)
{
	int64_t now = clock_mono_ms();
	if (w->stage == WATCH_MPS || (w->stage == WATCH_DELAYED && now >= w->retry_ms))
		runner_begin(w);
	else if (w->stage == WATCH_UNREAD && now >= w->retry_ms)
		runner_over(w);
	else if (runner_is_blind(w) && runner_watch_shim(w, w->shim))
		runner_over(w);
	else if (w->next_step_ms && now >= w->next_step_ms)
		runner_next_stop_step(w);
}

static void on_tick(uv_timer_t *timer)
{
	struct runner *r = timer->data;
	size_t at = 0, n = 0, cap = 0;
	struct watch **busy = NULL;
	for (struct watch *w; (w = idmap_next(&r->watches, &at));)
		if (runner_has_to_do(w)) {
			alloc_grow(busy, n, cap);
			busy[n++] = w;
		}
	for (size_t i = 0; i < n; i++)
		runner_tick(busy[i]);
	free(busy);
	if (!n)
		uv_timer_stop(timer);
}

/* One that does not run yet has nothing to be warned of. */
void runner_signal(struct runner *r, const struct task *t, int signal)
{
	struct watch *w = idmap_get(&r->watches, t->id);
	if (w && w->stage == WATCH_RUNNING)
		runner_signal_task(w, signal);
}

/* As its record says. Twice, for what was forked while the first ones were being stopped. */
static void runner_suspend(struct watch *w, const struct task *t)
{
	for (int i = 0; w->stage == WATCH_RUNNING && i < 2; i++)
		runner_signal_task(w, t->suspended ? SIGSTOP : SIGCONT);
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
	default: return;
	}
	alloc_grow(r->effects, r->n, r->cap);
	r->effects[r->n++] = (struct effect){ kind, t->id, kind == EFFECT_FORGET ? launch_folder(&r->plan.home, t) : NULL };
}

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
			w->unheard = !asking_for_place(&r->plan.home, t);
		break;
	case EFFECT_SUSPEND:
		if (w && t)
			runner_suspend(w, t);
		break;
	case EFFECT_FORGET:
		launching_forget(r->loop, e->folder);
		servers_tidy(r->servers, r->plan.core);
		break;
	}
}

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
	struct effect *todo = r->effects;
	size_t n = r->n;
	r->effects = NULL;
	r->n = r->cap = 0;
	for (size_t i = 0; i < n; i++)
		runner_run_effect(r, &todo[i]);
	free(todo);
	hooks_work(r->hooks);
	return n;
}

/* Its shim, running: the one that claimed the attempt, or the one that was started and has not come to that yet. */
static bool runner_find_shim(const struct watch *w, struct proc_id *shim)
{
	const struct task *t = runner_task_of(w);
	if (w->stranger)
		return false;
	if (launch_adopt(&w->r->plan.home, t, shim, NULL) == 1)
		return true;
	*shim = task_attempt(t)->shim;
	return shim->pid && proc_alive(*shim);
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

void runner_sweep(struct runner *r, bool remove)
{
	struct kept k = { .home = &r->plan.home };
	core_each_task(r->plan.core, keep_name, &k);
	sweeping_destroy(r->sweeping);
	r->sweeping = sweeping_start(r->loop, &r->plan.home, k.names, k.n, remove);
	for (size_t i = 0; i < k.n; i++)
		free(k.names[i]);
	free(k.names);
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
		if (w->delay) {
			int which = w->stage == WATCH_UNREAD;
			n[which]++;
			if (!worst[which] || w->delays > worst[which]->delays)
				worst[which] = w;
		}
	for (int i = 0; i < 2; i++) {
		char id[TASK_ID_TEXT];
		scoped_free char *text = n[i] ? alloc_printf("%zu task%s delayed; task %s: %s", n[i], n[i] > 1 ? "s are" : " is",
							      task_id_text(worst[i]->task, id), worst[i]->delay) : NULL;
		if (text)
			json_array_append_new(troubles, json_pack("{ss, ss}", "check", "starts", "text", text));
	}
	sweeping_tell(r->sweeping, troubles);
	hooks_tell(r->hooks, troubles);
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
		runner_suspend(w, t);
	if (t->stopping)
		runner_stop(w);
	else if (core_is_leaving(r->plan.core, t, now_read()))	/* whether its signal was sent, nobody knows */
		runner_note(r, &(struct event){ .kind = EV_SLOT_ASKED }, t);
}

bool runner_is_unheard(const struct runner *r, task_id id)
{
	const struct watch *w = idmap_get(&r->watches, id);
	return w && w->unheard;
}

void runner_adopted(struct runner *r)
{
	servers_tidy(r->servers, r->plan.core);
}

/* Owners --------------------------------------------------------------------------------------------------------------- */

/* Up the parents to a shim of ours; else the task that the process names in its environment, if it has the attempt's token or
 * its user is the task's, and it is younger than the task's shim: the task of that id of another store may still have
 * processes. */
static task_id runner_find_owner(struct runner *r, const struct proc_reading *p)
{
	pid_t pid = p->id.pid;
	uint64_t start;
	for (int depth = 0; depth < 32 && pid > 1; depth++) {
		const struct watch *w = idmap_get(&r->shims, pid);
		if (w)
			return w->task;
		pid_t parent;
		if (proc_stat(pid, &start, &parent))
			break;
		if (sweeping_is_stray(r->sweeping, (struct proc_id){ pid, start }))
			return 0;
		pid = parent;
	}
	const struct task *t = p->claimed ? core_task(r->plan.core, p->claimed) : NULL;
	struct proc_id shim = t && t->state == TASK_RUNNING ? task_attempt(t)->shim : (struct proc_id){ 0 };
	if (!shim.pid || p->id.start_ticks < shim.start_ticks)
		return 0;
	return outsiders_prove(r->outsiders, t, p) || t->spec->uid == p->uid ? t->id : 0;
}

task_id runner_owner(struct runner *r, const struct proc_reading *p)
{
	struct owned *o = idmap_get(&r->owners, p->id.pid);
	if (o && o->start_ticks == p->id.start_ticks && (o->owner || o->generation == r->generation))
		return o->owner;
	if (!o)
		idmap_put(&r->owners, p->id.pid, o = alloc_zero(sizeof *o));
	*o = (struct owned){ p->id.start_ticks, runner_find_owner(r, p), r->generation };
	return o->owner;
}

/* Life ----------------------------------------------------------------------------------------------------------------- */

struct runner *runner_create(uv_loop_t *loop, const struct runner_plan *plan)
{
	struct runner *r = alloc_zero(sizeof *r);
	*r = (struct runner){ .loop = loop, .plan = *plan, .servers = servers_create(plan->run_dir, plan->device),
			      .launches = launching_line_create(loop), .hooks = hooks_create(loop, plan->config),
			      .outsiders = outsiders_create(loop, &plan->home) };
	uv_timer_init(loop, &r->tick);
	r->tick.data = r;
	return r;
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
	size_t at = 0;
	for (struct owned *o; (o = idmap_next(&r->owners, &at));)
		free(o);
	idmap_free(&r->watches);
	idmap_free(&r->shims);
	idmap_free(&r->owners);
	launching_line_destroy(r->launches);
	sweeping_destroy(r->sweeping);
	hooks_destroy(r->hooks);
	outsiders_destroy(r->outsiders);
	servers_destroy(r->servers);
	for (size_t i = 0; i < r->n; i++)
		free(r->effects[i].folder);
	free(r->effects);
	uv_close((uv_handle_t *)&r->tick, on_tick_closed);
}
