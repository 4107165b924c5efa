/* SPDX-License-Identifier: MIT
 * Processes that answer one request: see worker.h.
 *
 * It is over when two things have happened, in either order: the process was collected, and its output has ended. One without
 * the other is not enough: a process may leave a child that holds the pipe, and output may end long before the process does.
 * The object goes when all four of its handles are closed, which is later than it is told.
 */
#include "launch/worker.h"

#include "base/alloc.h"
#include "base/paths.h"
#include "launch/cgroup.h"
#include "launch/chunk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HANDLES 4

struct worker {
	struct worker_plan plan;
	worker_done done;	/* NULL: told, or not to be told any more */
	void *ctx;
	char *request;
	uv_process_t process;
	uv_pipe_t in, out;
	uv_timer_t deadline;
	uv_write_t write;
	struct buf answer;
	bool exited, ended, late, too_long;	/* the process; its output; it was killed for that */
	int64_t status;
	int signal;
	int open_handles;
};

/* libuv holds each handle until it has called this: what is freed earlier is freed under it. */
static void on_closed(uv_handle_t *h)
{
	struct worker *w = h->data;
	if (--w->open_handles)
		return;
	buf_free(&w->answer);
	free(w->request);
	free(w);
}

/* Come to from several sides; `in` was closed already where all of the request was written. */
static void worker_close(struct worker *w)
{
	uv_handle_t *const handles[HANDLES] = { (uv_handle_t *)&w->process, (uv_handle_t *)&w->in, (uv_handle_t *)&w->out,
						(uv_handle_t *)&w->deadline };
	for (size_t i = 0; i < HANDLES; i++)
		if (!uv_is_closing(handles[i]))
			uv_close(handles[i], on_closed);
}

/* Its pid is somebody else's once it was collected. */
static void worker_kill(struct worker *w)
{
	if (!w->exited && w->plan.args)
		kill(-w->process.pid, SIGKILL);
	else if (!w->exited)
		uv_process_kill(&w->process, SIGKILL);
}

static void worker_finish(struct worker *w)
{
	char why[80] = "";
	worker_done done = w->done;
	if (!w->exited || !w->ended)
		return;
	if (w->late)
		snprintf(why, sizeof why, "no answer within %g s", (double)w->plan.deadline_ms / 1000);
	else if (w->too_long)
		snprintf(why, sizeof why, "its answer is longer than %zu bytes", w->plan.max_answer);
	else if (w->signal)
		snprintf(why, sizeof why, "it ended by signal %d", w->signal);
	else if (w->status)
		snprintf(why, sizeof why, "it ended with exit code %lld", (long long)w->status);
	w->done = NULL;
	if (done)
		done(w->ctx, &w->answer, *why ? why : NULL);
	worker_close(w);
}

static void on_exit_of(uv_process_t *p, int64_t status, int signal)
{
	struct worker *w = p->data;
	w->exited = true;
	w->status = status;
	w->signal = signal;
	worker_finish(w);
}

/* Its user could have given the pipe to another process, which keeps it open for ever: that is not waited for. */
static void on_deadline(uv_timer_t *t)
{
	struct worker *w = t->data;
	w->late = w->ended = true;
	worker_kill(w);
	worker_finish(w);
}

/* Killed as soon as it is too long, and nothing more of it is kept: a process that writes without end must not fill our memory
 * before its deadline. Of one whose end alone is of use the beginning goes. */
static void worker_take(struct worker *w, const char *bytes, size_t n)
{
	size_t most = w->plan.max_answer;
	w->too_long = w->too_long || (!w->plan.only_end && w->answer.len + n > most);
	if (w->too_long) {
		worker_kill(w);
		return;
	}
	buf_add(&w->answer, bytes, n);
	if (w->plan.only_end && w->answer.len > most)
		buf_drop(&w->answer, w->answer.len - most);
}

static void on_answer(uv_stream_t *s, ssize_t n, const uv_buf_t *got)
{
	struct worker *w = s->data;
	if (n > 0)
		worker_take(w, got->base, (size_t)n);
	if (n >= 0)
		return;
	uv_read_stop(s);
	w->ended = true;
	worker_finish(w);
}

/* Whether it could be written or not: the answer tells. */
static void on_written(uv_write_t *write, int status)
{
	(void)status;
	uv_handle_t *in = (uv_handle_t *)write->handle;
	if (!uv_is_closing(in))
		uv_close(in, on_closed);
}

static int worker_spawn(struct worker *w, uv_loop_t *loop)
{
	char *argv[] = { (char *)w->plan.program, (char *)w->plan.flag, NULL }, *no_environ[] = { NULL };
	char **args = w->plan.args ? (char **)w->plan.args : argv, **env = w->plan.env ? (char **)w->plan.env : no_environ;
	uv_stdio_container_t stdio[] = {
		{ .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&w->in },
		{ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&w->out },
		{ .flags = UV_IGNORE },		/* our log is not for a user's process to write to */
	};
	uv_process_options_t o = { .exit_cb = on_exit_of, .file = paths_again(args[0]), .args = args, .env = env, .cwd = "/",
				   .stdio = stdio, .stdio_count = (int)(sizeof stdio / sizeof *stdio) };
	if (w->plan.args)	/* a program of others, which starts more */
		o.flags |= UV_PROCESS_DETACHED;
	if (w->plan.as_user && !geteuid()) {
		o.flags |= UV_PROCESS_SETUID | UV_PROCESS_SETGID;
		o.uid = w->plan.uid;
		o.gid = w->plan.gid;
	}
	return uv_spawn(loop, &w->process, &o);
}

/* All four handles are there before anything can fail, or worker_close would have others to close on each way out. Read before
 * it is written: one that answers while it is still being asked does not stand still. */
struct worker *worker_start(uv_loop_t *loop, const struct worker_plan *plan, char *request, worker_done done, void *ctx,
			    char *why, size_t why_size)
{
	struct worker *w = alloc_zero(sizeof *w);
	w->plan = *plan;
	w->done = done;
	w->ctx = ctx;
	w->request = request;
	w->open_handles = HANDLES;
	uv_pipe_init(loop, &w->in, 0);
	uv_pipe_init(loop, &w->out, 0);
	uv_timer_init(loop, &w->deadline);
	w->process.data = w->in.data = w->out.data = w->deadline.data = w;
	int rc = worker_spawn(w, loop);
	if (rc) {
		snprintf(why, why_size, "it could not be started: %s", uv_strerror(rc));
		w->exited = true;
		worker_close(w);
		return NULL;
	}
	if (plan->cgroup)
		cgroup_put(plan->cgroup, w->process.pid);
	uv_buf_t text = uv_buf_init(w->request, (unsigned)strlen(w->request));
	uv_timer_start(&w->deadline, on_deadline, (uint64_t)plan->deadline_ms, 0);
	uv_read_start((uv_stream_t *)&w->out, chunk_alloc, on_answer);
	uv_write(&w->write, (uv_stream_t *)&w->in, &text, 1, on_written);
	return w;
}

/* Nobody is told, but it is waited for all the same: its pid must not stay a zombie of ours. */
void worker_cancel(struct worker *w)
{
	if (!w)
		return;
	w->done = NULL;
	w->ended = true;
	worker_kill(w);
	worker_finish(w);
}

void worker_leave(struct worker *w)
{
	if (!w)
		return;
	w->done = NULL;
	worker_close(w);
}

void worker_stop(struct worker *w)
{
	if (w)
		worker_kill(w);
	worker_leave(w);
}
