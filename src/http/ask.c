/* SPDX-License-Identifier: MIT
 * See ask.h.
 */
#include "http/ask.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct ask {
	ask_done done;		/* NULL: nobody waits */
	void *ctx;
	int fd;			/* -1: there is no connection */
	uv_poll_t poll;
	uv_timer_t timer;	/* the deadline; at once when there is an error already */
	int open_handles;
	unsigned deadline_ms;
	struct buf out, in;
	struct error err;
};

static void on_closed(uv_handle_t *h)
{
	struct ask *a = h->data;
	if (--a->open_handles)
		return;
	if (a->fd >= 0)
		close(a->fd);
	buf_free(&a->out);
	buf_free(&a->in);
	free(a);
}

void ask_drop(struct ask *a)
{
	if (!a || uv_is_closing((uv_handle_t *)&a->timer))
		return;
	a->done = NULL;
	uv_close((uv_handle_t *)&a->timer, on_closed);
	if (a->fd >= 0)
		uv_close((uv_handle_t *)&a->poll, on_closed);
}

static void finish(struct ask *a, json_t *reply)
{
	ask_done done = a->done;
	if (a->fd >= 0)
		uv_poll_stop(&a->poll);
	if (done)
		done(a->ctx, reply, &a->err);
	ask_drop(a);
}

static void on_timer(uv_timer_t *t)
{
	struct ask *a = t->data;
	if (!a->err.text[0])
		error_set(&a->err, ERR_UNAVAILABLE, "radd has not answered for %g s", a->deadline_ms / 1000.0);
	finish(a, NULL);
}

/* Writes what is left of the question. False: it failed. */
static bool write_more(struct ask *a)
{
	while (a->out.len) {
		ssize_t n = send(a->fd, a->out.data, a->out.len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		buf_drop(&a->out, (size_t)n);
	}
	return true;
}

/* Reads what is there. 1: *reply is the answer; 0: not all of it yet; -1: there will be none, and err says why. */
static int read_more(struct ask *a, json_t **reply)
{
	char chunk[65536];
	ssize_t n;
	while ((n = recv(a->fd, chunk, sizeof chunk, 0)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(&a->in, chunk, (size_t)n);
	if (n < 0 && errno != EAGAIN)
		return error_errno(&a->err, "reading from radd");
	int rc = wire_decode(&a->in, reply, &a->err);
	if (!rc && !n)
		return error_set(&a->err, ERR_UNAVAILABLE, "radd closed the connection before it answered");
	return rc == 1 && wire_check(*reply, &a->err) ? -1 : rc;
}

static void on_ready(uv_poll_t *h, int status, int events)
{
	struct ask *a = h->data;
	json_t *reply = NULL;
	int rc = 0;
	if (status < 0)
		rc = error_set(&a->err, ERR_UNAVAILABLE, "radd's socket: %s", uv_strerror(status));
	else if (events & UV_WRITABLE && !write_more(a))
		rc = error_errno(&a->err, "writing to radd");
	else if (events & (UV_READABLE | UV_DISCONNECT))
		rc = read_more(a, &reply);
	if (rc)
		finish(a, rc > 0 ? reply : NULL);
	else
		uv_poll_start(h, UV_READABLE | UV_DISCONNECT | (a->out.len ? UV_WRITABLE : 0), on_ready);
	json_decref(reply);
}

static void start(struct ask *a, uv_loop_t *loop, const char *socket, const json_t *request)
{
	if (wire_encode(request, &a->out, &a->err))
		return;
	a->fd = wire_connect_now(socket, &a->err);
	if (a->fd < 0)
		return;
	uv_poll_init(loop, &a->poll, a->fd);
	a->poll.data = a;
	a->open_handles++;
	uv_poll_start(&a->poll, UV_READABLE | UV_WRITABLE | UV_DISCONNECT, on_ready);
}

struct ask *ask_radd(uv_loop_t *loop, const char *socket, json_t *request, unsigned deadline_ms, ask_done done, void *ctx)
{
	struct ask *a = alloc_zero(sizeof *a);
	a->done = done;
	a->ctx = ctx;
	a->fd = -1;
	a->deadline_ms = deadline_ms;
	uv_timer_init(loop, &a->timer);
	a->timer.data = a;
	a->open_handles = 1;
	start(a, loop, socket, request);
	json_decref(request);
	uv_timer_start(&a->timer, on_timer, a->fd < 0 ? 0 : deadline_ms, 0);
	return a;
}
