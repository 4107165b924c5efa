/* SPDX-License-Identifier: MIT
 * The questions to slow estimators, a few workers at a time: see estimating.h. The worker's side is in estimating_wire.c.
 */
#include "daemon/estimating.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/estimating_wire.h"
#include "estimate/margin.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ANSWER 16384
#define HANDLES 4	/* of a job that was started */

/* One question, and its worker once it has one. */
struct job {
	struct estimating *e;
	struct job *next;
	int64_t question;
	char row[sizeof ((struct estimate *)0)->estimator];
	struct spec *spec;		/* one reference, which costs less than the written question while many wait */
	uint64_t declared_mib;
	struct estimate_context context;	/* of this question alone */
	char gpu_name[64];
	char *request;
	uv_process_t process;
	uv_pipe_t in, out;
	uv_timer_t deadline;
	uv_write_t write;
	struct buf answer;
	bool exited, ended, late;	/* the process; its output; it was killed */
	int64_t status;
	int signal;
	int open_handles;
};

struct estimating {
	uv_loop_t *loop;
	char *program;
	int64_t deadline_ms;
	estimating_done done;
	void *ctx;
	struct job *first, *last;	/* not started yet */
	struct job *running[ESTIMATING_AT_ONCE];
	uv_timer_t pump;
	bool closing, pump_closed;
};

static void free_job(struct job *j)
{
	buf_free(&j->answer);
	spec_unref(j->spec);
	free(j->request);
	free(j);
}

static bool any_running(const struct estimating *e)
{
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i])
			return true;
	return false;
}

static void free_when_closed(struct estimating *e)
{
	if (!e->closing || !e->pump_closed || any_running(e))
		return;
	free(e->program);
	free(e);
}

static void on_pump(uv_timer_t *t);

static void want_pump(struct estimating *e)
{
	if (!e->closing)
		uv_timer_start(&e->pump, on_pump, 0, 0);
}

/* The end of a job ----------------------------------------------------------------------------------------------------- */

static void on_job_closed(uv_handle_t *h)
{
	struct job *j = h->data;
	struct estimating *e = j->e;
	if (--j->open_handles)
		return;
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i] == j)
			e->running[i] = NULL;
	free_job(j);
	want_pump(e);
	free_when_closed(e);
}

static void close_job(struct job *j)
{
	uv_handle_t *const handles[HANDLES] = { (uv_handle_t *)&j->process, (uv_handle_t *)&j->in, (uv_handle_t *)&j->out,
						(uv_handle_t *)&j->deadline };
	for (size_t i = 0; i < HANDLES; i++)
		if (!uv_is_closing(handles[i]))
			uv_close(handles[i], on_job_closed);
}

static void tell(struct job *j, const char *why)
{
	struct estimate_result said = { 0 };
	bool spoke = false;
	struct error err = ERROR_INIT;
	if (!why && estimating_read_answer(buf_text(&j->answer), &spoke, &said, &err))
		why = err.text;
	if (why)
		log_warn("estimator %s: %s", j->row, why);
	if (!spoke) {
		scoped_free char *note = alloc_printf("%s: %s", j->row, why ? why : said.note);
		said = (struct estimate_result){ .note[0] = 0 };
		memcpy(said.note, note, strnlen(note, sizeof said.note - 1));
	}
	snprintf(said.value.estimator, sizeof said.value.estimator, "%s", j->row);
	j->e->done(j->e->ctx, j->question, spoke, &said);
}

static void finish(struct job *j)
{
	char why[80] = "";
	if (!j->exited || !j->ended)
		return;
	if (j->late)
		snprintf(why, sizeof why, "no answer within %g s", (double)j->e->deadline_ms / 1000);
	else if (j->signal)
		snprintf(why, sizeof why, "it ended by signal %d", j->signal);
	else if (j->status)
		snprintf(why, sizeof why, "it ended with exit code %lld", (long long)j->status);
	tell(j, *why ? why : NULL);
	close_job(j);
}

static void on_exit_of(uv_process_t *p, int64_t status, int signal)
{
	struct job *j = p->data;
	j->exited = true;
	j->status = status;
	j->signal = signal;
	finish(j);
}

/* Its pid is somebody else's once it was collected. */
static void kill_worker(struct job *j)
{
	if (!j->exited)
		uv_process_kill(&j->process, SIGKILL);
}

/* Its user could have given the pipe to another process, which keeps it open for ever: that is not waited for. */
static void on_deadline(uv_timer_t *t)
{
	struct job *j = t->data;
	j->late = j->ended = true;
	kill_worker(j);
	finish(j);
}

/* Talking to it -------------------------------------------------------------------------------------------------------- */

static void give_room(uv_handle_t *h, size_t wanted, uv_buf_t *room)
{
	(void)h;
	room->base = alloc_zero(wanted);
	room->len = wanted;
}

static void on_answer(uv_stream_t *s, ssize_t n, const uv_buf_t *got)
{
	struct job *j = s->data;
	if (n > 0 && j->answer.len + (size_t)n <= MAX_ANSWER)
		buf_add(&j->answer, got->base, (size_t)n);
	else if (n > 0)
		kill_worker(j);		/* that is no answer */
	free(got->base);
	if (n >= 0)
		return;
	uv_read_stop(s);
	j->ended = true;
	finish(j);
}

/* Whether it could be written or not: the answer tells. */
static void on_written(uv_write_t *w, int status)
{
	(void)status;
	uv_handle_t *in = (uv_handle_t *)w->handle;
	if (!uv_is_closing(in))
		uv_close(in, on_job_closed);
}

static int spawn(struct job *j)
{
	char *argv[] = { j->e->program, (char *)"--estimate", NULL }, *no_environ[] = { NULL };
	uv_stdio_container_t stdio[] = {
		{ .flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&j->in },
		{ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&j->out },
		{ .flags = UV_IGNORE },		/* our log is not for the task's user to write to */
	};
	uv_process_options_t o = { .exit_cb = on_exit_of, .file = j->e->program, .args = argv, .env = no_environ, .cwd = "/",
				   .stdio = stdio, .stdio_count = (int)COUNT_OF(stdio) };
	if (!geteuid()) {
		o.flags = UV_PROCESS_SETUID | UV_PROCESS_SETGID;
		o.uid = j->spec->uid;
		o.gid = j->spec->gid;
	}
	return uv_spawn(j->e->loop, &j->process, &o);
}

static void start(struct job *j)
{
	char why[120];
	j->open_handles = HANDLES;
	uv_pipe_init(j->e->loop, &j->in, 0);
	uv_pipe_init(j->e->loop, &j->out, 0);
	uv_timer_init(j->e->loop, &j->deadline);
	j->process.data = j->in.data = j->out.data = j->deadline.data = j;
	int rc = spawn(j);
	if (rc) {
		snprintf(why, sizeof why, "it could not be started: %s", uv_strerror(rc));
		tell(j, why);
		close_job(j);
		return;
	}
	j->request = estimating_write_question(j->row, j->spec, j->declared_mib, &j->context);
	uv_buf_t request = uv_buf_init(j->request, (unsigned)strlen(j->request));
	uv_timer_start(&j->deadline, on_deadline, (uint64_t)j->e->deadline_ms, 0);
	uv_read_start((uv_stream_t *)&j->out, give_room, on_answer);
	uv_write(&j->write, (uv_stream_t *)&j->in, &request, 1, on_written);
}

static bool is_served(const struct estimating *e, uid_t uid)
{
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i] && e->running[i]->spec->uid == uid)
			return true;
	return false;
}

/* The first question of a user who has no worker yet, so that nobody waits behind all of another's; else the first. */
static struct job *take_next(struct estimating *e)
{
	struct job **at = &e->first, *before = NULL, *j = e->first;
	for (; j && is_served(e, j->spec->uid); j = j->next)
		before = j;
	if (!j)
		before = NULL;
	else if (before)
		at = &before->next;
	j = *at;
	*at = j->next;
	if (e->last == j)
		e->last = before;
	return j;
}

static void on_pump(uv_timer_t *t)
{
	struct estimating *e = t->data;
	for (size_t i = 0; i < ESTIMATING_AT_ONCE && e->first; i++) {
		if (e->running[i])
			continue;
		struct job *j = take_next(e);
		e->running[i] = j;
		start(j);
	}
}

/* Interface ------------------------------------------------------------------------------------------------------------ */

struct estimating *estimating_create(uv_loop_t *loop, const char *program, int64_t deadline_ms, estimating_done done, void *ctx)
{
	struct estimating *e = alloc_zero(sizeof *e);
	e->loop = loop;
	e->program = alloc_string(program);
	e->deadline_ms = deadline_ms;
	e->done = done;
	e->ctx = ctx;
	uv_timer_init(loop, &e->pump);
	e->pump.data = e;
	return e;
}

void estimating_ask(struct estimating *e, int64_t question, const struct estimator *row, struct spec *spec,
		    uint64_t declared_mib, const struct estimate_context *c)
{
	struct job *j = alloc_zero(sizeof *j);
	j->e = e;
	j->question = question;
	j->spec = spec_ref(spec);
	j->declared_mib = declared_mib;
	j->context = (struct estimate_context){ .gpu_name = c->gpu_name ? j->gpu_name : NULL, .gpu_total_mib = c->gpu_total_mib,
						.margin = c->margins ? margins_of(c->margins, row->name) : c->margin };
	snprintf(j->row, sizeof j->row, "%s", row->name);
	snprintf(j->gpu_name, sizeof j->gpu_name, "%s", c->gpu_name ? c->gpu_name : "");
	*(e->first ? &e->last->next : &e->first) = j;
	e->last = j;
	want_pump(e);
}

static void on_pump_closed(uv_handle_t *h)
{
	struct estimating *e = h->data;
	e->pump_closed = true;
	free_when_closed(e);
}

void estimating_destroy(struct estimating *e)
{
	if (!e)
		return;
	e->closing = true;
	for (struct job *j = e->first, *next; j; j = next) {
		next = j->next;
		free_job(j);
	}
	for (size_t i = 0; i < ESTIMATING_AT_ONCE; i++)
		if (e->running[i] && !e->running[i]->exited) {
			kill_worker(e->running[i]);
			close_job(e->running[i]);
		}
	uv_close((uv_handle_t *)&e->pump, on_pump_closed);
}
