/* SPDX-License-Identifier: MIT
 * See serve.h. libmicrohttpd has no thread here: its epoll descriptor is polled by the loop, its timeouts are a timer.
 */
#include "http/serve.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/scope.h"
#include "http/serve_check.h"

#include <microhttpd.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define IDLE_S 30		/* a connection on which nothing moves */
#define MEMORY (32u << 10)	/* of one connection: longer requests are refused */
#define BLOCK (32u << 10)
#define PING_TICKS 10		/* of a second */
#define CROWDED (SERVE_CONNECTIONS - 16)	/* from here on, who has waited longest for nothing makes place */

/* A connection, from its beginning to its end. */
struct conn {
	struct conn *next, **from;	/* newest first */
	int fd;
	uint64_t due_ms;		/* on the loop's clock; 0: whenever */
	uint64_t taken_ms;		/* when the client was last seen to take some of an answer, */
	int untaken;			/* of which the kernel had so many bytes then; -1: it is sent none */
	bool waits;			/* for a request */
};

struct serve_call {
	struct serve *serve;
	struct MHD_Connection *connection;
	struct conn *conn;
	struct MHD_Response *response;	/* NULL: not answered yet */
	unsigned status;
	bool asked, aside;	/* its route was run; it waits for an answer */
};

struct stream {
	struct stream *next, **from;
	struct serve *serve;
	struct MHD_Connection *connection;
	unsigned seen[SERVE_TOPICS];
	struct buf out;
	size_t sent;
	bool rests, ping;	/* nothing is to be sent; the client is to be tried */
};

struct serve {
	struct serve_config config;
	struct MHD_Daemon *http;
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t timer, tick;
	int open_handles;
	unsigned ticks;
	bool running, ending;	/* within MHD_run */
	struct conn *conns;
	struct stream *streams;
	size_t n_conns, n_streams;
};

/* The loop -------------------------------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *t);

static void serve_run(struct serve *s)
{
	MHD_UNSIGNED_LONG_LONG ms;
	if (s->running)
		return;
	s->running = true;
	MHD_run(s->http);
	s->running = false;
	if (MHD_get_timeout(s->http, &ms) == MHD_YES)
		uv_timer_start(&s->timer, on_timer, ms, 0);
	else
		uv_timer_stop(&s->timer);
}

static void on_timer(uv_timer_t *t)
{
	serve_run(t->data);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	serve_run(h->data);
}

/* What resumed connections have to do is done from the loop, not from within the call that resumed them. */
static void serve_run_soon(struct serve *s)
{
	if (!s->running)
		uv_timer_start(&s->timer, on_timer, 0, 0);
}

/* Whether nothing was taken of its answer for a while. A client that reads is hardly ever met with the same number of bytes
 * before it, second after second. */
static bool conn_stalls(struct conn *c, uint64_t now_ms)
{
	int untaken = 0;
	if (c->untaken < 0)
		return false;
	if (ioctl(c->fd, SIOCOUTQ, &untaken) || !untaken || untaken != c->untaken) {
		c->untaken = untaken;
		c->taken_ms = now_ms;
	}
	return now_ms - c->taken_ms >= SERVE_STALLED_S * 1000;
}

/* libmicrohttpd's own timeout begins anew with every byte; these do not. */
static void on_tick(uv_timer_t *t)
{
	struct serve *s = t->data;
	uint64_t now = uv_now(s->loop);
	for (struct conn *c = s->conns; c; c = c->next) {
		bool stalls = conn_stalls(c, now);
		if ((c->due_ms && now > c->due_ms) || (stalls && s->n_conns > CROWDED))
			shutdown(c->fd, SHUT_RDWR);
	}
	if (++s->ticks % PING_TICKS)
		return;
	for (struct stream *r = s->streams; r; r = r->next)
		r->ping = true;
	serve_wake(s);
}

/* Connections ----------------------------------------------------------------------------------------------------------- */

static void conn_wait(const struct serve *s, struct conn *c, unsigned seconds, bool for_request)
{
	if (!c)
		return;
	c->due_ms = seconds ? uv_now(s->loop) + seconds * 1000 : 0;
	c->waits = for_request;
	c->untaken = for_request || !seconds ? -1 : 0;
	c->taken_ms = uv_now(s->loop);
}

/* The oldest of those that have sent no whole request: nobody can keep others out by saying nothing. Not the one that has just
 * come, which had no time to. */
static void conn_make_place(const struct serve *s)
{
	struct conn *oldest = NULL;
	for (struct conn *c = s->conns->next; c; c = c->next)
		oldest = c->waits ? c : oldest;
	if (!oldest)
		return;
	oldest->waits = false;	/* its end is only noticed later, and the next one is to cut another */
	shutdown(oldest->fd, SHUT_RDWR);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
			  enum MHD_ConnectionNotificationCode code)
{
	struct serve *s = ctx;
	struct conn *c = *socket_ctx;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		c = alloc_zero(sizeof *c);
		c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		c->next = s->conns;
		c->from = &s->conns;
		if (c->next)
			c->next->from = &c->next;
		s->conns = *socket_ctx = c;
		conn_wait(s, c, SERVE_REQUEST_S, true);
		if (++s->n_conns > CROWDED)
			conn_make_place(s);
	} else if (c) {
		s->n_conns--;
		*c->from = c->next;
		if (c->next)
			c->next->from = c->from;
		free(c);
		*socket_ctx = NULL;
	}
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **call_ctx,
			 enum MHD_RequestTerminationCode code)
{
	struct serve_call *call = *call_ctx;
	struct serve *s = ctx;
	(void)connection;
	(void)code;
	if (!call)
		return;
	conn_wait(s, call->conn, SERVE_REQUEST_S, true);
	if (call->response)
		MHD_destroy_response(call->response);
	free(call);
	*call_ctx = NULL;
}

/* Answers --------------------------------------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *r, const char *type)
{
	static const char *const headers[][2] = {
		{ "Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
					     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
		{ "X-Content-Type-Options", "nosniff" }, { "X-Frame-Options", "DENY" }, { "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Resource-Policy", "same-origin" }, { "Cross-Origin-Opener-Policy", "same-origin" },
		{ "Cache-Control", "no-store" },
	};
	for (size_t i = 0; i < COUNT_OF(headers); i++)
		MHD_add_response_header(r, headers[i][0], headers[i][1]);
	MHD_add_response_header(r, "Content-Type", type);
}

static void take_response(struct serve_call *call, unsigned status, struct MHD_Response *response)
{
	call->response = response;
	call->status = status;
	if (!call->aside)
		return;
	call->aside = false;
	MHD_resume_connection(call->connection);
	serve_run_soon(call->serve);
}

void serve_answer(struct serve_call *call, unsigned status, const char *type, const char *text, size_t n)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)text, MHD_RESPMEM_MUST_COPY);
	add_headers(r, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
	conn_wait(call->serve, call->conn, SERVE_ANSWER_S, false);
	take_response(call, status, r);
}

void serve_fail(struct serve_call *call, unsigned status, const char *text)
{
	scoped_json *o = json_pack("{so}", "error", json_text(text));
	scoped_free char *body = json_to_text(o);
	serve_answer(call, status, "application/json", body, strlen(body));
}

/* Streams --------------------------------------------------------------------------------------------------------------- */

static ssize_t stream_read(void *ctx, uint64_t pos, char *to, size_t room)
{
	struct stream *r = ctx;
	(void)pos;
	if (r->serve->ending)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (r->sent == r->out.len) {
		buf_drop(&r->out, r->out.len);
		r->sent = 0;
		r->serve->config.fill(r->serve->config.ctx, r->seen, &r->out);
		if (!r->out.len && r->ping)
			buf_add_text(&r->out, ":\n\n");
		r->ping = false;
	}
	if (!r->out.len) {
		r->rests = true;
		MHD_suspend_connection(r->connection);
		return 0;
	}
	size_t n = r->out.len - r->sent < room ? r->out.len - r->sent : room;
	memcpy(to, r->out.data + r->sent, n);
	r->sent += n;
	return (ssize_t)n;
}

static void streams_changed(struct serve *s)
{
	if (s->config.streams_changed)
		s->config.streams_changed(s->config.ctx, s->n_streams);
}

static void stream_free(void *ctx)
{
	struct stream *r = ctx;
	struct serve *s = r->serve;
	*r->from = r->next;
	if (r->next)
		r->next->from = r->from;
	buf_free(&r->out);
	free(r);
	s->n_streams--;
	streams_changed(s);
}

void serve_stream(struct serve_call *call)
{
	struct serve *s = call->serve;
	if (s->n_streams == SERVE_STREAMS) {
		serve_fail(call, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open: close some");
		return;
	}
	struct stream *r = alloc_zero(sizeof *r);
	*r = (struct stream){ .serve = s, .connection = call->connection, .next = s->streams, .from = &s->streams, .ping = true };
	if (r->next)
		r->next->from = &r->next;
	s->streams = r;
	s->n_streams++;
	struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, r, stream_free);
	add_headers(response, "text/event-stream");
	conn_wait(s, call->conn, 0, false);
	take_response(call, MHD_HTTP_OK, response);
	streams_changed(s);
}

void serve_wake(struct serve *s)
{
	for (struct stream *r = s->streams; r; r = r->next)
		if (r->rests) {
			r->rests = false;
			MHD_resume_connection(r->connection);
		}
	serve_run_soon(s);
}

/* Requests -------------------------------------------------------------------------------------------------------------- */

const char *serve_query(const struct serve_call *call, const char *name)
{
	return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *serve_header(const struct serve_call *call, const char *name)
{
	return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

static const struct serve_route *find_route(const struct serve *s, const char *path)
{
	for (const struct serve_route *r = s->config.routes; r->path; r++)
		if (!strcmp(r->path, path))
			return r;
	return NULL;
}

static void dispatch(struct serve_call *call, const char *path, const char *method)
{
	const struct serve *s = call->serve;
	const struct serve_route *r = find_route(s, path);
	bool tcp = !s->config.place->path;
	if (tcp && !serve_check_host(serve_header(call, "Host"), s->config.hosts))
		serve_fail(call, MHD_HTTP_MISDIRECTED_REQUEST, "this machine is not known by that name: --host NAME takes it");
	else if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		serve_fail(call, MHD_HTTP_METHOD_NOT_ALLOWED, "there is nothing to do here but to look: GET");
	else if (!r)
		serve_fail(call, MHD_HTTP_NOT_FOUND, "there is no such page");
	else if (r->secret && s->config.token && !serve_check_token(serve_header(call, "Authorization"), s->config.token))
		serve_fail(call, MHD_HTTP_UNAUTHORIZED,
			"the token is missing or not that of this rad web: open the address that it printed");
	else
		r->run(s->config.ctx, call);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_len, void **call_ctx)
{
	struct serve *s = ctx;
	struct serve_call *call = *call_ctx;
	(void)version;
	(void)body;
	if (!call) {
		call = *call_ctx = alloc_zero(sizeof *call);
		call->serve = s;
		call->connection = connection;
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
		call->conn = info ? info->socket_context : NULL;
		/* What has no body is answered when its headers are there; the others before theirs is read. */
		if (!strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD))
			return MHD_YES;
	}
	*body_len = 0;
	if (!call->asked) {
		call->asked = true;
		conn_wait(s, call->conn, 0, false);
		dispatch(call, path, method);
	}
	if (call->response)
		return MHD_queue_response(connection, call->status, call->response);
	call->aside = true;
	MHD_suspend_connection(connection);
	return MHD_YES;
}

/* Life ------------------------------------------------------------------------------------------------------------------ */

static void *note_nothing(void *ctx, const char *uri, struct MHD_Connection *connection)
{
	(void)ctx;
	(void)uri;
	(void)connection;
	return NULL;
}

static struct MHD_Daemon *start_http(struct serve *s)
{
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, s,
		MHD_OPTION_LISTEN_SOCKET, s->config.place->fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVE_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
		MHD_OPTION_URI_LOG_CALLBACK, note_nothing, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

struct serve *serve_create(uv_loop_t *loop, const struct serve_config *config, struct error *err)
{
	struct serve *s = alloc_zero(sizeof *s);
	s->config = *config;
	s->loop = loop;
	s->http = start_http(s);
	if (!s->http) {
		free(s);
		error_set(err, ERR_SYSTEM, "the HTTP server could not be started on %s", config->place->address);
		return NULL;
	}
	uv_poll_init(loop, &s->poll, MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
	uv_timer_init(loop, &s->timer);
	uv_timer_init(loop, &s->tick);
	s->poll.data = s->timer.data = s->tick.data = s;
	s->open_handles = 3;
	uv_poll_start(&s->poll, UV_READABLE, on_poll);
	uv_timer_start(&s->tick, on_tick, 1000, 1000);
	return s;
}

static void on_closed(uv_handle_t *h)
{
	struct serve *s = h->data;
	if (!--s->open_handles)
		free(s);
}

void serve_destroy(struct serve *s)
{
	if (!s)
		return;
	s->ending = true;
	serve_wake(s);
	MHD_run(s->http);
	uv_poll_stop(&s->poll);
	MHD_stop_daemon(s->http);
	uv_close((uv_handle_t *)&s->poll, on_closed);
	uv_close((uv_handle_t *)&s->timer, on_closed);
	uv_close((uv_handle_t *)&s->tick, on_closed);
}
