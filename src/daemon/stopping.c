/* SPDX-License-Identifier: MIT
 * The stop sequence: see stopping.h. No step waits for anything: each says when the next is due, and the end of the shim, which
 * the runner watches, is what ends the sequence.
 */
#include "daemon/stopping.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/outsiders.h"
#include "daemon/servers.h"
#include "launch/adopted.h"

#include <signal.h>
#include <string.h>

#define AGAIN_MS 100		/* to a program that is not there yet */
#define KILL_MIN_MS 1000	/* between two of these, at least; at most MPS_TERMINATE_MS, else kill_wait */
#define SHIM_KILLS 6		/* times SIGKILL is sent to a task before its shim is taken for stuck */
#define SHIM_GIVEN_UP 8		/* and when that did not help: it hangs in the kernel */

int stopping_signal(const struct stopping_plan *plan, const struct task *t, int sig)
{
	char id[TASK_ID_TEXT];
	int n = launch_signal(&plan->home, t, sig) + outsiders_signal(plan->outsiders, t, sig);
	if (n)
		log_info("task %s: %s sent to %d processes", task_id_text(t->id, id), strsignal(sig), n);
	return n;
}

/* A client with work in flight that is killed can take its MPS server along: the server is asked to end it first. */
static void terminate_clients(const struct stopping_plan *plan, const struct task *t)
{
	scoped_free pid_t *pids = NULL;
	size_t n = launch_processes(&plan->home, t, &pids);
	servers_terminate_clients(plan->servers, t, pids, n);
}

/* The shim has its user's rights, so its user can stop it, or have it hang in a file system of his; the GPU must come back
 * all the same. What it then leaves undone counts as a lost record. */
static void nudge_shim(struct stopping *s, const struct task *t, int shim_fd)
{
	if (adopted_is(t))	/* no shim, and not ours to signal whatever it has become */
		s->kills++;
	else if (shim_fd >= 0)
		proc_pidfd_signal(shim_fd, s->kills++ < SHIM_KILLS ? SIGCONT : SIGKILL);
}

static int64_t kill_pause(const struct stopping_plan *plan)
{
	int64_t wait = plan->config->kill_wait_ms;
	return wait < KILL_MIN_MS ? KILL_MIN_MS : wait < MPS_TERMINATE_MS ? wait : MPS_TERMINATE_MS;
}

/* The time runs from the first asking, also where a signal found nobody: a shim that takes long to begin must not put the
 * end off. */
static void ask_to_end(struct stopping *s, const struct stopping_plan *plan, const struct task *t, int64_t now)
{
	bool mps = task_attempt(t)->mode == SHARE_MPS && servers_end_clients(plan->servers);
	int64_t ago_ms = s->since_ms ? -1 : launch_sent_ago_ms(&plan->home, t, LAUNCH_ASKED);	/* by the radd before this one */
	bool asked = ago_ms >= 0;
	if (!s->since_ms)
		s->since_ms = now - (asked ? ago_ms : 0);
	s->next_step_ms = s->since_ms + plan->config->kill_wait_ms;
	if (!asked && stopping_signal(plan, t, SIGTERM)) {
		asked = true;
		launch_note_sent(&plan->home, t, LAUNCH_ASKED);
	}
	if (!asked && now + AGAIN_MS < s->next_step_ms)
		s->next_step_ms = now + AGAIN_MS;	/* its shim has not begun the program yet */
	else
		s->step = mps ? STOPPING_CLIENTS : STOPPING_KILL;
}

/* SIGTERM to all, at MPS a request to the server to let go of its client, SIGKILL again and again, and at last to the shim
 * itself. What hangs in the kernel survives even that, which the caller is told. */
bool stopping_step(struct stopping *s, const struct stopping_plan *plan, const struct task *t, int shim_fd)
{
	int64_t now = clock_mono_ms();
	switch (s->step) {
	case STOPPING_TERM:
		ask_to_end(s, plan, t, now);
		break;
	case STOPPING_CLIENTS:
		terminate_clients(plan, t);
		s->next_step_ms = now + MPS_TERMINATE_MS;
		s->step = STOPPING_KILL;
		break;
	case STOPPING_KILL:
		stopping_signal(plan, t, SIGKILL);
		nudge_shim(s, t, shim_fd);
		s->next_step_ms = now + kill_pause(plan);
		break;
	}
	return s->kills <= SHIM_GIVEN_UP;
}
