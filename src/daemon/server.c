/* SPDX-License-Identifier: MIT
 * Clients on the Unix socket: who they are comes from the kernel (SO_PEERCRED); what they send is decoded one message at a
 * time and answered in order.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/daemon.h"
#include "daemon/lookup.h"
#include "daemon/usage.h"
#include "daemon/walk.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define MAX_CLIENTS 1024
#define MAX_CLIENTS_PER_USER 128	/* at most a quarter of all */
#define FOR_ROOT 16			/* connections that only root gets, when all others are taken */
#define MAX_UNSENT ((size_t)64 << 20)	/* a client that does not read its answers is dropped at this many bytes */
#define MAX_USER_BYTES ((size_t)256 << 20)	/* kept for all connections of a user: the one that goes beyond is dropped */
#define LARGE ((size_t)128 << 10)		/* a message that is not read in the loop */
#define READ_AHEAD ((size_t)128 << 10)	/* of a client whose next message is not looked at yet */
#define SLICE_US 5000			/* for all long answers together, in one turn of the loop */
#define REST_MS 20			/* how often those who have to wait for their turn are looked at */

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
	bool sending_now, closing, hang_up, paused;
	bool resting;		/* its user took more than his share of the daemon: its next message waits */
	/* A wait in progress: the next message is not read before it is answered. */
	task_id *waits;
	size_t n_waits, n_over;	/* the first n_over of them are over */
	task_id waits_on;	/* a task of waits[n_over] that is not over; 0: not looked for yet */
	bool until_start;
	/* What else it waits for, likewise: a long list in pieces, a lookup in the history, the name of its user. */
	struct walk *walk;
	struct lookup *lookup;
	json_t *again;		/* the request that waits for a name */
	size_t asked;		/* bytes of the message that was read last */
	bool settled;		/* its wait is over, and what came behind it was not looked at yet */
	struct parse *parse;	/* the request that is being read */
};

/* Reading one takes a tenth of a second, so a thread does it, which sees nothing but these bytes. */
struct parse {
	uv_work_t work;
	struct client *c;	/* NULL: it went away */
	struct buf bytes;	/* all that had come; what is behind the message goes back */
	json_t *message;
	struct error err;
	int rc;
	int64_t took_us;
};

struct server {
	struct daemon *d;
	uv_pipe_t listener;
	struct client *clients;
	size_t n_clients, max_clients;
	struct usages *usages;
	uv_timer_t rest;
	uv_idle_t slices;	/* while there are long lists, or clients, to go on with */
	bool changed;
	unsigned open_handles;
};

static bool is_admin_uid(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

bool request_is_admin(const struct request *r)
{
	return is_admin_uid(r->uid);
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
	walk_destroy(c->walk);
	json_decref(c->again);
	if (c->parse)
		c->parse->c = NULL;
	free(c);
}

static void close_client(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	lookup_cancel(c->lookup);
	c->lookup = NULL;
	uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static size_t bytes_of(const struct client *c)
{
	return c->in.cap + c->out.cap + c->sending.cap + c->n_waits * sizeof *c->waits + (c->parse ? c->parse->bytes.cap : 0) +
	       (c->again ? c->asked : 0);
}

static bool is_admin(const struct client *c)
{
	return is_admin_uid(c->uid);
}

/* Whether its user's connections hold more than one user may have us hold. */
static bool too_much(const struct client *c)
{
	size_t sum = 0;
	for (const struct client *other = c->s->clients; other; other = other->next)
		sum += other->uid == c->uid ? bytes_of(other) : 0;
	return sum > MAX_USER_BYTES && !is_admin(c);
}

/* Memory of large messages is not kept for small ones. */
static void trim(struct buf *b)
{
	if (!b->len && b->cap > READ_AHEAD)
		buf_free(b);
}

/* Whether its next message has to wait for the answer to this one. */
static bool is_busy(const struct client *c)
{
	return c->n_waits || c->walk || c->lookup || c->again || c->parse;
}

static void check_unsent(struct client *c)
{
	if (c->out.len + c->sending.len > MAX_UNSENT || too_much(c)) {
		log_warn_limited("client pid %d (uid %u) does not read its answers: dropped", (int)c->pid, (unsigned)c->uid);
		close_client(c);
	}
}

static void answer(struct client *c, json_t *reply)
{
	struct error err = ERROR_INIT;
	json_object_set_new(reply, "v", json_integer(WIRE_VERSION));
	if (wire_encode(reply, &c->out, &err)) {	/* too large: say so instead */
		scoped_json *refusal = wire_error(&err);
		wire_encode(refusal, &c->out, NULL);
	}
	json_decref(reply);
	check_unsent(c);
}

static void answer_text(struct client *c, const struct buf *reply)
{
	struct error err = ERROR_INIT;
	if (wire_encode_text(buf_text(reply), reply->len, &c->out, &err))
		answer(c, wire_error(&err));
	else
		check_unsent(c);
}

static void spend(const struct client *c, int64_t began_us)
{
	int64_t now = clock_mono_us();
	if (!is_admin(c))
		usages_spend(c->s->usages, c->uid, now - began_us, now);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk);

/* Who sends on while his next message has to wait is not read from. */
static void pause_or_go_on(struct client *c)
{
	bool pause = (is_busy(c) || c->resting) && c->in.len > READ_AHEAD;
	if (c->closing || pause == c->paused)
		return;
	c->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&c->pipe);
	else if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read))
		close_client(c);
}

/* A piece of the list, and the answer with the last one. */
static void tell_more(struct client *c, int64_t for_us)
{
	struct error err = ERROR_INIT;
	int done = walk_step(c->walk, c->s->d, clock_mono_us() + for_us, &err);
	if (!done)
		return;
	scoped_buf reply = walk_finish(c->walk);
	walk_destroy(c->walk);
	c->walk = NULL;
	if (done > 0)
		answer_text(c, &reply);
	else
		answer(c, wire_error(&err));
}

/* Takes over the reference of the message. */
static void handle(struct client *c, json_t *message)
{
	struct error err = ERROR_INIT;
	struct request r = { c->s->d, c, message, c->uid, c->gid, c->pid };
	int64_t began = clock_mono_us();
	json_t *reply = request_run(&r, &err);
	if (reply == REQUEST_AGAIN)
		c->again = json_incref(message);
	else if (reply != REQUEST_LATER)
		answer(c, reply ? reply : wire_error(&err));
	json_decref(message);
	spend(c, began);
}

static void on_rest(uv_timer_t *timer);

/* Whether its user has to let others go first. */
static bool has_to_rest(struct client *c)
{
	c->resting = !is_admin(c) && usages_rest_us(c->s->usages, c->uid, clock_mono_us()) > 0;
	if (c->resting && !uv_is_active((uv_handle_t *)&c->s->rest))
		uv_timer_start(&c->s->rest, on_rest, REST_MS, REST_MS);
	return c->resting;
}

static void refuse(struct client *c, const struct error *err)
{
	answer(c, wire_error(err));
	c->hang_up = true;
}

/* Large messages ------------------------------------------------------------------------------------------------------- */

static void parse_there(uv_work_t *work)
{
	struct parse *p = work->data;
	int64_t began = clock_mono_us();
	p->rc = wire_decode_request(&p->bytes, &p->message, &p->err);
	p->took_us = clock_mono_us() - began;
}

static void decode(struct client *c);

static void on_parsed(uv_work_t *work, int status)
{
	struct parse *p = work->data;
	struct client *c = p->c;
	if (c && !c->closing && !c->hang_up && !status) {
		c->parse = NULL;
		buf_add(&p->bytes, c->in.data ? c->in.data : "", c->in.len);
		buf_free(&c->in);
		c->in = p->bytes;
		p->bytes = (struct buf){ 0 };
		spend(c, clock_mono_us() - p->took_us);
		if (p->rc == 1)
			handle(c, json_incref(p->message));
		else
			refuse(c, &p->err);
		decode(c);
	} else if (c) {
		c->parse = NULL;
	}
	buf_free(&p->bytes);
	json_decref(p->message);
	free(p);
}

static bool is_large(const struct buf *in)
{
	size_t n = wire_message_bytes(in);
	return n > LARGE && n <= in->len;
}

static void parse_elsewhere(struct client *c)
{
	struct parse *p = alloc_zero(sizeof *p);
	*p = (struct parse){ .work.data = p, .c = c, .bytes = c->in };
	c->in = (struct buf){ 0 };
	c->parse = p;
	uv_queue_work(c->s->d->loop, &p->work, parse_there, on_parsed);
}

/* All whole messages in the buffer, up to one that has to wait. */
static void decode(struct client *c)
{
	struct error err = ERROR_INIT;
	int rc = 0;
	while (!c->closing && !is_busy(c) && !c->hang_up && !has_to_rest(c)) {
		json_t *message = NULL;
		c->asked = wire_message_bytes(&c->in);
		if (is_large(&c->in)) {
			parse_elsewhere(c);
			break;
		}
		int64_t began = clock_mono_us();
		rc = wire_decode_request(&c->in, &message, &err);
		spend(c, began);
		if (rc != 1)
			break;
		handle(c, message);
	}
	if (rc < 0)
		refuse(c, &err);
	trim(&c->in);
	pause_or_go_on(c);
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
	decode(c);
	if (too_much(c)) {
		log_warn_limited("client pid %d (uid %u) sends more than one user may have kept here: dropped", (int)c->pid,
				 (unsigned)c->uid);
		close_client(c);
	}
}

/* Long lists, all at once and each a piece a turn; and clients whose wait is over go on. Who has to rest is woken by the
 * timer. */
static void on_slices(uv_idle_t *h)
{
	struct server *s = h->data;
	int64_t n = 0;
	for (struct client *c = s->clients; c; c = c->next)
		n += c->walk && !c->closing && !c->resting;
	if (!n)
		uv_idle_stop(h);
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->settled) {
			c->settled = false;
			decode(c);
		}
		if (!c->walk || c->closing || c->resting || has_to_rest(c))
			continue;
		int64_t began = clock_mono_us();
		tell_more(c, SLICE_US / n);
		spend(c, began);
		if (!c->walk)
			decode(c);
	}
}

static void go_on(struct client *c)
{
	if (c->walk)
		uv_idle_start(&c->s->slices, on_slices);
	else
		decode(c);
}

static void on_rest(uv_timer_t *timer)
{
	struct server *s = timer->data;
	bool any = false;
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->resting && !c->closing && !has_to_rest(c))
			go_on(c);
		any |= c->resting && !c->closing;
	}
	if (!any)
		uv_timer_stop(timer);
}

static void send_more(struct client *c);

static void on_written(uv_write_t *w, int status)
{
	struct client *c = w->data;
	c->sending_now = false;
	buf_drop(&c->sending, c->sending.len);
	trim(&c->sending);
	trim(&c->out);
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
	if (c->committed == c->out.len) {	/* as a rule; a long answer is not copied */
		struct buf empty = c->sending;
		c->sending = c->out;
		c->out = empty;
	} else {
		buf_add(&c->sending, c->out.data, c->committed);
		buf_drop(&c->out, c->committed);
	}
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

static bool has_place(const struct client *c)
{
	const struct server *s = c->s;
	size_t own = s->max_clients / 4 < MAX_CLIENTS_PER_USER ? s->max_clients / 4 : MAX_CLIENTS_PER_USER;
	if (!c->uid)
		return s->n_clients <= s->max_clients + FOR_ROOT;
	if (s->n_clients <= s->max_clients && (is_admin(c) || clients_of(s, c->uid) <= own))
		return true;
	log_warn_limited("client pid %d (uid %u): too many connections, so this one is closed", (int)c->pid, (unsigned)c->uid);
	return false;
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
	return has_place(c);
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
	c->n_over = 0;
	c->waits_on = 0;
	c->until_start = until_start;
	c->s->changed = true;
}

static bool is_over(const struct core *core, task_id id, bool until_start)
{
	const struct task *t = core_task(core, id);
	return !t || (until_start && t->state == TASK_RUNNING);
}

/* A task that this id stands for and that is not over: the last one of an array, since it will probably last longest.
 * 0: there is none. */
static task_id find_open(const struct core *core, task_id id, bool until_start)
{
	scoped_free task_id *ids = NULL;
	if (core_task(core, id) || TASK_INDEX(id) >= 0)
		return is_over(core, id, until_start) ? 0 : id;
	for (size_t i = core_job_tasks(core, TASK_JOB(id), &ids); i-- > 0;)
		if (!is_over(core, ids[i], until_start))
			return ids[i];
	return 0;
}

static bool still_waits(struct client *c)
{
	const struct core *core = c->s->d->core;
	if (c->waits_on && !is_over(core, c->waits_on, c->until_start))
		return true;
	for (; c->n_over < c->n_waits; c->n_over++)
		if ((c->waits_on = find_open(core, c->waits[c->n_over], c->until_start)))
			return true;
	return false;
}

/* What its client sent behind it is done in the loop, since nothing may be answered between a commit and the answers to it. */
static void settle_wait(struct client *c)
{
	struct error err = ERROR_INIT;
	int64_t began = clock_mono_us();
	if (still_waits(c))
		return;
	size_t n = c->n_waits;
	c->n_waits = 0;
	if (request_wait_reply(c->s->d, c, c->waits, n, &err))
		answer(c, wire_error(&err));
	spend(c, began);
	c->settled = true;
	uv_idle_start(&c->s->slices, on_slices);
}

void server_tell(struct client *c, task_id *ids, size_t n, bool living)
{
	c->walk = walk_create(ids, n, living);
	tell_more(c, SLICE_US);		/* most are short */
	if (c->walk)
		uv_idle_start(&c->s->slices, on_slices);
}

static void on_looked_up(void *ctx, const struct buf *reply, const char *why)
{
	struct client *c = ctx;
	struct error err = ERROR_INIT;
	c->lookup = NULL;
	if (why)
		error_set(&err, ERR_UNAVAILABLE, "looking into the history: %s: ask for a shorter time", why);
	if (why)
		answer(c, wire_error(&err));
	else
		answer_text(c, reply);
	decode(c);
}

void server_read(struct client *c, char *request)
{
	c->lookup = lookups_ask(c->s->d->lookups, c->uid, request, on_looked_up, c);
}

void server_names_changed(struct server *s)
{
	for (struct client *c = s->clients; c; c = c->next) {
		json_t *message = c->again;
		if (!message || c->closing)
			continue;
		c->again = NULL;
		handle(c, message);
		decode(c);
	}
}

void server_task_changed(struct server *s)
{
	s->changed = true;
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

/* What was committed goes out as it is; several later answers become one error, so the count no longer fits. */
static void fail_client(struct client *c, const struct error *why)
{
	bool told = c->out.len > c->committed || c->walk;
	c->out.len = c->committed;
	walk_destroy(c->walk);
	c->walk = NULL;
	lookup_cancel(c->lookup);
	c->lookup = NULL;
	json_decref(c->again);
	c->again = NULL;
	c->n_waits = 0;
	c->hang_up = true;
	if (told)
		answer(c, wire_error(why));
	c->committed = c->out.len;
	send_more(c);
}

void server_fail(struct server *s, const struct error *why)
{
	for (struct client *c = s->clients; c; c = c->next)
		if (!c->closing)
			fail_client(c, why);
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

/* Half of the descriptors stay for tasks, whose shims are watched through one each. */
static size_t most_clients(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > MAX_CLIENTS)
		return MAX_CLIENTS;
	return (size_t)limit.rlim_cur / 2;
}

struct server *server_create(struct daemon *d, const char *path, struct error *err)
{
	int fd = open_socket(path, err);
	if (fd < 0)
		return NULL;
	struct server *s = alloc_zero(sizeof *s);
	s->d = d;
	s->usages = usages_create();
	s->max_clients = most_clients();
	s->open_handles = 3;
	uv_timer_init(d->loop, &s->rest);
	uv_idle_init(d->loop, &s->slices);
	uv_pipe_init(d->loop, &s->listener, 0);
	s->listener.data = s->rest.data = s->slices.data = s;
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

static void on_handle_closed(uv_handle_t *h)
{
	((struct server *)h->data)->open_handles--;
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	uv_close((uv_handle_t *)&s->listener, on_handle_closed);
	uv_close((uv_handle_t *)&s->rest, on_handle_closed);
	uv_close((uv_handle_t *)&s->slices, on_handle_closed);
	for (struct client *c = s->clients; c; c = c->next)
		close_client(c);
	while (s->open_handles || s->clients)
		uv_run(s->d->loop, UV_RUN_NOWAIT);
	usages_destroy(s->usages);
	free(s);
}
