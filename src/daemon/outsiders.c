/* SPDX-License-Identifier: MIT
 * See outsiders.h. Few tasks have any, so they stand in one list, and an attempt's token is read from its folder when a process
 * says that it belongs there: rare, since each process is asked once in its life.
 */
#include "daemon/outsiders.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/timer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS 1000
#define FEW 8		/* that are not looked through */

struct outsider {
	task_id task;
	struct proc_id id;
	int64_t kill_ms;	/* mono; 0: its attempt runs */
};

struct outsiders {
	struct launch_home home;
	uv_timer_t timer;
	struct outsider *list;
	size_t n, cap;
	size_t most;		/* until it is looked who is gone */
};

struct outsiders *outsiders_create(uv_loop_t *loop, const struct launch_home *home)
{
	struct outsiders *o = alloc_zero(sizeof *o);
	o->home = *home;
	o->most = FEW;
	o->timer.data = o;
	uv_timer_init(loop, &o->timer);
	return o;
}

static void on_closed(uv_handle_t *h)
{
	struct outsiders *o = h->data;
	free(o->list);
	free(o);
}

void outsiders_destroy(struct outsiders *o)
{
	if (o)
		uv_close((uv_handle_t *)&o->timer, on_closed);
}

/* Of the attempt that runs: those that wait to be killed are of an earlier one. */
static bool is_known(const struct outsiders *o, const struct task *t, struct proc_id id)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct outsider *one = &o->list[i];
		if (one->task == t->id && !one->kill_ms && proc_same(one->id, id))
			return true;
	}
	return false;
}

/* A container may start processes by the second for weeks. Each time that there are twice as many; those that wait to be
 * killed have their time. */
static void drop_gone(struct outsiders *o)
{
	size_t kept = 0;
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].kill_ms || !proc_gone(o->list[i].id))
			o->list[kept++] = o->list[i];
	o->n = kept;
	o->most = 2 * kept + FEW;
}

/* By the token of this very attempt, which its processes inherit and nobody else can read: an id alone would let anybody
 * have his memory counted as another's (decision 109). */
bool outsiders_prove(struct outsiders *o, const struct task *t, const struct proc_reading *p)
{
	char token[LAUNCH_TOKEN_LEN], id[TASK_ID_TEXT];
	if (!*p->token || !p->id.start_ticks || launch_token(&o->home, t, token) || strcmp(token, p->token))
		return false;
	if (is_known(o, t, p->id))
		return true;
	if (o->n >= o->most)
		drop_gone(o);
	alloc_grow(o->list, o->n, o->cap);
	o->list[o->n++] = (struct outsider){ t->id, p->id };
	log_info("task %s: process %d (uid %u, %s) is not its child, and has its token: a container's, counted as the task's",
		 task_id_text(t->id, id), (int)p->id.pid, (unsigned)p->uid, p->program);
	return true;
}

size_t outsiders_count(const struct outsiders *o)
{
	return o->n;
}

/* Those whose attempt is over are left out: the signal is for the attempt that runs now, of the same task. */
int outsiders_signal(struct outsiders *o, const struct task *t, int signal)
{
	int got = 0;
	for (size_t i = 0; i < o->n; i++)
		got += o->list[i].task == t->id && !o->list[i].kill_ms && !proc_signal(o->list[i].id, signal);
	return got;
}

static void on_time(uv_timer_t *timer);

static void outsiders_watch(struct outsiders *o)
{
	int64_t next = INT64_MAX;
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i].kill_ms && o->list[i].kill_ms < next)
			next = o->list[i].kill_ms;
	timer_set(&o->timer, on_time, next, clock_mono_ms());
}

/* Returns whether it has to be tried again: there was no descriptor to do it with. */
static bool outsider_kill(struct outsider *one)
{
	char id[TASK_ID_TEXT];
	if (!proc_signal(one->id, SIGKILL))
		log_info("task %s: killed process %d of its container, which did not end by itself", task_id_text(one->task, id),
			 (int)one->id.pid);
	else if (proc_alive(one->id))	/* another user's, and this daemon is not root's */
		log_warn("task %s: process %d of its container goes on, and is not this daemon's to kill: end the container",
			 task_id_text(one->task, id), (int)one->id.pid);
	else if (!proc_gone(one->id))
		one->kill_ms = clock_mono_ms() + AGAIN_MS;
	return one->kill_ms > clock_mono_ms();
}

static void on_time(uv_timer_t *timer)
{
	struct outsiders *o = timer->data;
	size_t kept = 0;
	for (size_t i = 0; i < o->n; i++) {
		struct outsider one = o->list[i];
		if (!one.kill_ms || one.kill_ms > clock_mono_ms() || outsider_kill(&one))
			o->list[kept++] = one;
	}
	o->n = kept;
	outsiders_watch(o);
}

/* What to do of one whose attempt is over; false: nothing more. Of a task that ended by itself its container's processes
 * are its user's business, and may be meant to go on; of one that was stopped they are what was to be stopped. */
static bool outlives(struct outsider *one, bool stopped, int64_t kill_wait_ms)
{
	char id[TASK_ID_TEXT];
	if (proc_gone(one->id))
		return false;
	log_warn("task %s: has ended, and process %d of its container has not: %s; until it is gone, what it holds stays counted",
		 task_id_text(one->task, id), (int)one->id.pid, stopped ? "it has a while to end" : "it is left alone");
	one->kill_ms = clock_mono_ms() + kill_wait_ms + 1;
	return stopped;
}

/* kill_ms is above 0 for all that stay here from now on, also with a wait of 0: it says as well that the attempt is
 * over. */
void outsiders_end(struct outsiders *o, const struct task *t, int64_t kill_wait_ms)
{
	size_t kept = 0;
	for (size_t i = 0; i < o->n; i++) {
		struct outsider one = o->list[i];
		bool ends = one.task == t->id && !one.kill_ms;
		if (!ends || outlives(&one, t->stopping != STOP_NONE, kill_wait_ms))
			o->list[kept++] = one;
	}
	o->n = kept;
	outsiders_watch(o);
}
