/* SPDX-License-Identifier: MIT
 * Clients on the Unix socket: who they are comes from the kernel (SO_PEERCRED); what they send is decoded one message at a
 * time and answered in order.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/daemon.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MAX_CLIENTS 1024
#define MAX_CLIENTS_PER_USER 128
#define MAX_UNSENT ((size_t)64 << 20)	/* a client that does not read its answers is dropped at this many bytes */

struct client {
	struct server *s;
	struct client *next;
	uv_pipe_t pipe;
	uv_write_t write;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	struct buf in, out, sending;
	size_t committed;	/* bytes of `out` that may go: answered before the last commit */
	bool sending_now, closing, hang_up;
	/* A wait in progress: the next message is not read before it is answered. */
	task_id *waits;
	size_t n_waits;
	bool until_start;
};

struct server {
	struct daemon *d;
	uv_pipe_t listener;
	struct client *clients;
	size_t n_clients;
	bool changed, closing;
};

bool request_is_admin(const struct request *r)
{
	return r->uid == 0 || r->uid == geteuid();
}

/* Clients -------------------------------------------------------------------------------------------------------------- */

static void on_client_closed(uv_handle_t *h)
{
	struct client *c = h->data;
	struct client **at = &c->s->clients;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->s->n_clients--;
	buf_free(&c->in);
	buf_free(&c->out);
	buf_free(&c->sending);
	free(c->waits);
	free(c);
}

static void close_client(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void answer(struct client *c, json_t *reply)
{
	struct error err = ERROR_INIT;
	json_object_set_new(reply, "v", json_integer(WIRE_VERSION));
	if (wire_encode(reply, &c->out, &err)) {	/* too large: say so instead */
		json_t *refusal = wire_error(&err);
		wire_encode(refusal, &c->out, NULL);
		json_decref(refusal);
	}
	json_decref(reply);
	if (c->out.len + c->sending.len > MAX_UNSENT) {
		log_warn("client pid %d (uid %u) does not read its answers: dropped", (int)c->pid, (unsigned)c->uid);
		close_client(c);
	}
}

static void handle(struct client *c, const json_t *message)
{
	struct error err = ERROR_INIT;
	struct request r = { c->s->d, c, message, c->uid, c->gid, c->pid };
	json_t *reply = request_run(&r, &err);
	if (reply != REQUEST_LATER)
		answer(c, reply ? reply : wire_error(&err));
}

/* All whole messages in the buffer, up to one that has to wait. */
static void decode(struct client *c)
{
	struct error err = ERROR_INIT;
	int rc = 0;
	while (!c->closing && !c->n_waits && !c->hang_up) {
		json_t *message = NULL;
		rc = wire_decode(&c->in, &message, &err);
		if (rc != 1)
			break;
		handle(c, message);
		json_decref(message);
	}
	if (rc < 0) {
		answer(c, wire_error(&err));
		c->hang_up = true;
	}
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
	static char chunk[65536];	/* one thread, and each chunk is copied before the next is read */
	(void)h;
	(void)suggested;
	*out = uv_buf_init(chunk, sizeof chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
	struct client *c = stream->data;
	if (n < 0) {
		close_client(c);
		return;
	}
	if (c->closing || c->hang_up)
		return;
	buf_add(&c->in, chunk->base, (size_t)n);
	if (c->in.len > WIRE_MAX_MESSAGE + sizeof(uint32_t) + 65536)	/* only while it waits; else decode refuses sooner */
		close_client(c);
	else
		decode(c);
}

static void send_more(struct client *c);

static void on_written(uv_write_t *w, int status)
{
	struct client *c = w->data;
	c->sending_now = false;
	buf_drop(&c->sending, c->sending.len);
	if (status < 0)
		close_client(c);
	else
		send_more(c);
}

static void send_more(struct client *c)
{
	if (c->closing || c->sending_now)
		return;
	if (!c->committed) {
		if (c->hang_up)
			close_client(c);
		return;
	}
	buf_add(&c->sending, c->out.data, c->committed);
	buf_drop(&c->out, c->committed);
	c->committed = 0;
	uv_buf_t b = uv_buf_init(c->sending.data, (unsigned)c->sending.len);
	c->write.data = c;
	c->sending_now = true;
	if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &b, 1, on_written))
		close_client(c);
}

static unsigned clients_of(const struct server *s, uid_t uid)
{
	unsigned n = 0;
	for (const struct client *c = s->clients; c; c = c->next)
		n += c->uid == uid;
	return n;
}

/* Who is there, by the kernel's word. Returns false when it may not speak to this daemon. */
static bool identify(struct client *c)
{
	struct ucred cred;
	socklen_t size = sizeof cred;
	uv_os_fd_t fd;
	if (uv_fileno((uv_handle_t *)&c->pipe, &fd) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		return false;
	c->uid = cred.uid;
	c->gid = cred.gid;
	c->pid = cred.pid;
	if (geteuid() && cred.uid && cred.uid != geteuid())
		return false;	/* a user's own daemon serves its user */
	return c->s->n_clients <= MAX_CLIENTS && (!cred.uid || clients_of(c->s, cred.uid) <= MAX_CLIENTS_PER_USER);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct server *s = listener->data;
	if (status < 0)
		return;
	struct client *c = alloc_zero(sizeof *c);
	c->s = s;
	c->next = s->clients;
	s->clients = c;
	s->n_clients++;
	uv_pipe_init(s->d->loop, &c->pipe, 0);
	c->pipe.data = c;
	if (uv_accept(listener, (uv_stream_t *)&c->pipe) || !identify(c) ||
	    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read))
		close_client(c);
}

/* Waiting -------------------------------------------------------------------------------------------------------------- */

void server_wait(struct client *c, const task_id *ids, size_t n, bool until_start)
{
	c->waits = alloc_resize(c->waits, n, sizeof *ids);
	memcpy(c->waits, ids, n * sizeof *ids);
	c->n_waits = n;
	c->until_start = until_start;
	c->s->changed = true;
}

/* Whether that task, or any element of that job, is still what is waited for to end. */
static bool still(const struct core *core, task_id id, bool until_start)
{
	scoped_free task_id *ids = NULL;
	size_t n = core_job_tasks(core, TASK_JOB(id), &ids);
	for (size_t i = 0; i < n; i++) {
		if (TASK_INDEX(id) >= 0 && ids[i] != id)
			continue;
		if (!until_start || core_task(core, ids[i])->state != TASK_RUNNING)
			return true;
	}
	return false;
}

static void settle_wait(struct client *c)
{
	for (size_t i = 0; i < c->n_waits; i++)
		if (still(c->s->d->core, c->waits[i], c->until_start))
			return;
	json_t *reply = request_wait_reply(c->s->d, c->waits, c->n_waits);
	c->n_waits = 0;
	answer(c, reply);
	decode(c);
}

void server_task_changed(struct server *s)
{
	s->changed = true;
}

bool server_has_replies(const struct server *s)
{
	for (const struct client *c = s->clients; c; c = c->next)
		if (!c->closing && (c->out.len || c->hang_up))
			return true;
	return s->changed;
}

void server_flush(struct server *s)
{
	if (s->changed) {
		s->changed = false;
		for (struct client *c = s->clients; c; c = c->next)
			if (c->n_waits && !c->closing)
				settle_wait(c);
	}
	for (struct client *c = s->clients; c; c = c->next) {
		c->committed = c->out.len;
		send_more(c);
	}
}

void server_fail_replies(struct server *s, const struct error *why)
{
	for (struct client *c = s->clients; c; c = c->next)
		if (!c->closing && c->out.len) {
			buf_drop(&c->out, c->out.len);
			answer(c, wire_error(why));
			c->hang_up = true;	/* several answers became one: the count no longer fits */
		}
}

/* The socket ----------------------------------------------------------------------------------------------------------- */

/* A socket file that nobody answers on is a leftover; one that is answered belongs to a living radd. */
static int claim_path(const char *path, struct error *err)
{
	struct error ignored = ERROR_INIT;
	scoped_fd int fd = wire_connect(path, &ignored);
	if (fd >= 0)
		return error_set(err, ERR_CONFLICT, "another radd already listens on %s", path);
	if (unlink(path) && errno != ENOENT)
		return error_errno(err, "%s", path);
	return 0;
}

static int open_socket(const char *path, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof address.sun_path)
		return error_set(err, ERR_INVALID, "%s: a socket's path may have at most %zu characters: choose another with --socket",
				 path, sizeof address.sun_path - 1);
	if (claim_path(path, err))
		return -1;
	strcpy(address.sun_path, path);
	scoped_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(err, "socket");
	mode_t mask = umask(geteuid() ? 0177 : 0111);	/* root's daemon is for everybody; each request is checked by its uid */
	int rc = bind(fd, (struct sockaddr *)&address, sizeof address);
	umask(mask);
	if (rc)
		return error_errno(err, "%s", path);
	return steal_fd(fd);
}

struct server *server_create(struct daemon *d, const char *path, struct error *err)
{
	int fd = open_socket(path, err);
	if (fd < 0)
		return NULL;
	struct server *s = alloc_zero(sizeof *s);
	s->d = d;
	uv_pipe_init(d->loop, &s->listener, 0);
	s->listener.data = s;
	int rc = uv_pipe_open(&s->listener, fd);
	if (!rc)
		rc = uv_listen((uv_stream_t *)&s->listener, 512, on_connection);
	if (rc) {
		error_set(err, ERR_SYSTEM, "%s: %s", path, uv_strerror(rc));
		server_destroy(s);
		return NULL;
	}
	return s;
}

static void on_listener_closed(uv_handle_t *h)
{
	struct server *s = h->data;
	s->closing = true;
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	uv_close((uv_handle_t *)&s->listener, on_listener_closed);
	for (struct client *c = s->clients; c; c = c->next)
		close_client(c);
	while (!s->closing || s->clients)
		uv_run(s->d->loop, UV_RUN_NOWAIT);
	free(s);
}
