/* SPDX-License-Identifier: MIT
 * Clients on the Unix socket: who they are comes from the kernel (SO_PEERCRED); what they send is decoded one message at a
 * time and answered in order.
 *
 * An answer lies in `out` until the turn it was made in is committed (server_flush), so it may be taken back until then
 * (server_fail). While one takes longer, its client's next message stays undecoded: answers need no numbers, and a client can
 * hold up nobody but itself. What it may hold, in bytes, and take, in time, is bounded for all connections of a user together;
 * for one connection it would be no bound, since he can open another.
 *
 * A client is freed when the loop has closed its handle, never earlier: whoever walks the list may go on after closing one.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/names.h"
#include "daemon/parsing.h"
#include "daemon/server_socket.h"
#include "daemon/usage.h"
#include "submit/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MAX_CLIENTS 1024
#define MAX_CLIENTS_PER_USER 128	/* at most a quarter of all */
#define FOR_ROOT 16			/* connections that only root gets, when all others are taken */
#define MAX_UNSENT ((size_t)64 << 20)	/* a client that does not read its answers is dropped at this many bytes */
#define MAX_USER_BYTES ((size_t)256 << 20)	/* kept for all connections of a user: the one that goes beyond is dropped */
#define LARGE ((size_t)128 << 10)		/* a message that is not read in the loop */
#define READ_AHEAD ((size_t)128 << 10)	/* of a client whose next message is not looked at yet */
#define SLICE_US 5000			/* for all long answers together, in one turn of the loop, and as long as the rest of */
#define SLICE_MAX_US 50000		/* the turn took: half of the time is theirs when there is much else to do */
#define REST_MS 20			/* how often those who have to wait for their turn are looked at */

/* One connection. */
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
	/* `hang_up`: nothing more is heard of it, and it is closed when all was sent. */
	bool sending_now, closing, hang_up, paused;
	bool resting;		/* its user took more than his share of the daemon: its next message waits */
	/* What it waits for; its next message is not looked at before it is answered. At most one of them. */
	struct awaiting *awaiting;	/* tasks */
	struct walk *walk;		/* a long list, in pieces */
	struct lookup *lookup;		/* in the history */
	struct parsing *parsing;	/* its message, which is large */
	json_t *again;			/* the name of its user: then this request is run again */
	size_t asked;			/* bytes of the message that was read last */
	bool settled;			/* its wait is over, and what came behind it was not looked at yet */
};

struct server {
	uv_loop_t *loop;
	char *path;
	struct server_ops ops;
	uv_pipe_t listener;
	struct client *clients;
	size_t n_clients, max_clients;
	struct usages *usages;
	uv_timer_t rest;
	uv_idle_t slices;	/* while there are long lists, or clients, to go on with */
	int64_t sliced_us;	/* when the last slice was over */
	bool changed;		/* tasks, in this turn */
	bool failed;
	unsigned open_handles;	/* those of its clients among them */
};

static bool client_is_admin(const struct client *c)
{
	return request_is_admin(c->uid);
}

/* Who answers for what its user does: whoever may be many uids is one user all the same. */
static uid_t client_payer(const struct client *c)
{
	const struct server_ops *o = &c->s->ops;
	return o->payer ? o->payer(o->ctx, c->uid, false) : c->uid;
}

/* Clients -------------------------------------------------------------------------------------------------------------- */

static void server_handle_closed(struct server *s)
{
	if (--s->open_handles)
		return;
	usages_destroy(s->usages);
	free(s->path);
	free(s);
}

static void on_client_closed(uv_handle_t *h)
{
	struct client *c = h->data;
	struct server *s = c->s;
	struct client **at = &s->clients;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	s->n_clients--;
	buf_free(&c->in);
	buf_free(&c->out);
	buf_free(&c->sending);
	free(c);
	server_handle_closed(s);
}

/* Whatever it waits for. */
static void client_forget(struct client *c)
{
	awaiting_destroy(c->awaiting);
	walk_destroy(c->walk);
	lookup_cancel(c->lookup);
	parsing_cancel(c->parsing);
	json_decref(c->again);
	c->awaiting = NULL;
	c->walk = NULL;
	c->lookup = NULL;
	c->parsing = NULL;
	c->again = NULL;
}

static void client_close(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	client_forget(c);
	uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static size_t client_bytes(const struct client *c)
{
	return c->in.cap + c->out.cap + c->sending.cap + awaiting_bytes(c->awaiting) + parsing_bytes(c->parsing) +
	       (c->again ? c->asked : 0);
}

/* Whether its user's connections hold more than one user may have us hold. */
static bool client_holds_too_much(const struct client *c)
{
	size_t sum = 0;
	uid_t payer = client_payer(c);
	for (const struct client *other = c->s->clients; other; other = other->next)
		sum += client_payer(other) == payer ? client_bytes(other) : 0;
	return sum > MAX_USER_BYTES && !client_is_admin(c);
}

/* Memory of large messages is not kept for small ones. */
static void trim(struct buf *b)
{
	if (!b->len && b->cap > READ_AHEAD)
		buf_free(b);
}

/* Whether its next message has to wait for the answer to this one. */
static bool client_is_busy(const struct client *c)
{
	return c->awaiting || c->walk || c->lookup || c->parsing || c->again;
}

static void client_check_unsent(struct client *c)
{
	if (c->out.len + c->sending.len > MAX_UNSENT || client_holds_too_much(c)) {
		log_warn_limited("client pid %d (uid %u) does not read its answers: dropped", (int)c->pid, (unsigned)c->uid);
		client_close(c);
	}
}

static void client_answer(struct client *c, json_t *reply)
{
	struct error err = ERROR_INIT;
	json_object_set_new(reply, "v", json_integer(WIRE_VERSION));
	if (wire_encode(reply, &c->out, &err)) {	/* too large: say so instead */
		scoped_json *refusal = wire_error(&err);
		wire_encode(refusal, &c->out, NULL);
	}
	json_decref(reply);
	client_check_unsent(c);
}

static void client_answer_text(struct client *c, const struct buf *reply)
{
	struct error err = ERROR_INIT;
	if (wire_encode_text(buf_text(reply), reply->len, &c->out, &err))
		client_answer(c, wire_error(&err));
	else
		client_check_unsent(c);
}

static void client_spend(const struct client *c, int64_t began_us)
{
	int64_t now = clock_mono_us();
	if (!client_is_admin(c))
		usages_spend(c->s->usages, client_payer(c), now - began_us, now);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk);

/* Who sends on while his next message has to wait is not read from. */
static void client_pause_or_go_on(struct client *c)
{
	bool pause = (client_is_busy(c) || c->resting) && c->in.len > READ_AHEAD;
	if (c->closing || pause == c->paused)
		return;
	c->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&c->pipe);
	else if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read))
		client_close(c);
}

/* A piece of the list, and the answer with the last one. */
static void client_tell_more(struct client *c, int64_t for_us)
{
	struct error err = ERROR_INIT;
	int done = walk_step(c->walk, clock_mono_us() + for_us, &err);
	if (!done)
		return;
	scoped_buf reply = walk_finish(c->walk);
	walk_destroy(c->walk);
	c->walk = NULL;
	if (done > 0)
		client_answer_text(c, &reply);
	else
		client_answer(c, wire_error(&err));
}

static void on_slices(uv_idle_t *h);

static void client_start_walk(struct client *c, struct walk *walk)
{
	c->walk = walk;
	client_tell_more(c, SLICE_US);	/* most are short */
	if (c->walk && !uv_is_active((uv_handle_t *)&c->s->slices)) {
		c->s->sliced_us = clock_mono_us();
		uv_idle_start(&c->s->slices, on_slices);
	}
}

static void on_looked_up(void *ctx, const struct buf *reply, const char *why);

static void client_take_reply(struct client *c, const struct reply *reply, json_t *message)
{
	switch (reply->kind) {
	case REPLY_NOW:
		client_answer(c, reply->json);
		break;
	case REPLY_WALK:
		client_start_walk(c, reply->walk);
		break;
	case REPLY_WAIT:
		c->awaiting = reply->awaiting;
		c->s->changed = true;
		break;
	case REPLY_LOOKUP:
		c->lookup = lookups_ask(c->s->ops.lookups, c->uid, reply->lookup, on_looked_up, c);
		break;
	case REPLY_AGAIN:
		c->again = json_incref(message);
		break;
	}
}

/* Takes over the reference of the message. */
static void client_handle(struct client *c, json_t *message)
{
	struct error err = ERROR_INIT;
	struct message m = { .json = message, .bytes = c->asked, .uid = c->uid, .gid = c->gid, .pid = c->pid };
	struct reply reply;
	int64_t began = clock_mono_us();
	if (c->s->ops.run(c->s->ops.requests, &m, &reply, &err))
		client_answer(c, wire_error(&err));
	else
		client_take_reply(c, &reply, message);
	json_decref(message);
	client_spend(c, began);
}

static void on_rest(uv_timer_t *timer);

/* Whether its user has to let others go first. */
static bool client_has_to_rest(struct client *c)
{
	c->resting = !client_is_admin(c) && usages_rest_us(c->s->usages, client_payer(c), clock_mono_us()) > 0;
	if (c->resting && !uv_is_active((uv_handle_t *)&c->s->rest))
		uv_timer_start(&c->s->rest, on_rest, REST_MS, REST_MS);
	return c->resting;
}

static void client_refuse(struct client *c, const struct error *err)
{
	client_answer(c, wire_error(err));
	c->hang_up = true;
}

/* Large messages ------------------------------------------------------------------------------------------------------- */

static void client_decode(struct client *c);

/* What had come behind it goes back in front of what has come since. */
static void on_parsed(void *ctx, json_t *message, struct buf *rest, int64_t took_us, const struct error *err)
{
	struct client *c = ctx;
	c->parsing = NULL;
	buf_add(rest, c->in.data ? c->in.data : "", c->in.len);
	buf_free(&c->in);
	c->in = *rest;
	*rest = (struct buf){ 0 };
	client_spend(c, clock_mono_us() - took_us);
	if (message)
		client_handle(c, message);
	else
		client_refuse(c, err);
	client_decode(c);
}

static bool is_large(const struct buf *in)
{
	size_t n = wire_message_bytes(in);
	return n > LARGE && n <= in->len;
}

/* All whole messages in the buffer, up to one that has to wait. */
static void client_decode(struct client *c)
{
	struct error err = ERROR_INIT;
	int rc = 0;
	while (!c->closing && !client_is_busy(c) && !c->hang_up && !client_has_to_rest(c)) {
		json_t *message = NULL;
		c->asked = wire_message_bytes(&c->in);
		if (is_large(&c->in) && (c->parsing = parsing_start(c->s->loop, &c->in, on_parsed, c)))
			break;
		int64_t began = clock_mono_us();
		rc = wire_decode_request(&c->in, &message, &err);
		client_spend(c, began);
		if (rc != 1)
			break;
		client_handle(c, message);
	}
	if (rc < 0)
		client_refuse(c, &err);
	trim(&c->in);
	client_pause_or_go_on(c);
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
		client_close(c);
		return;
	}
	if (c->closing || c->hang_up)
		return;
	buf_add(&c->in, chunk->base, (size_t)n);
	client_decode(c);
	if (client_holds_too_much(c)) {
		log_warn_limited("client pid %d (uid %u) sends more than one user may have kept here: dropped", (int)c->pid,
				 (unsigned)c->uid);
		client_close(c);
	}
}

/* Long lists, all at once and each a piece a turn; and clients whose wait is over go on. Who has to rest is woken by the
 * timer. */
static void on_slices(uv_idle_t *h)
{
	struct server *s = h->data;
	int64_t n = 0, rest = clock_mono_us() - s->sliced_us;
	int64_t slice = rest < SLICE_US ? SLICE_US : rest < SLICE_MAX_US ? rest : SLICE_MAX_US;
	for (struct client *c = s->clients; c; c = c->next)
		n += c->walk && !c->closing && !c->resting;
	if (!n)
		uv_idle_stop(h);
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->settled) {
			c->settled = false;
			client_decode(c);
		}
		if (!c->walk || c->closing || c->resting || client_has_to_rest(c))
			continue;
		int64_t began = clock_mono_us();
		client_tell_more(c, slice / (n ? n : 1));	/* it may be the list of one whose wait was over just now */
		client_spend(c, began);
		if (!c->walk)
			client_decode(c);
	}
	s->sliced_us = clock_mono_us();
}

static void client_go_on(struct client *c)
{
	if (c->walk)
		uv_idle_start(&c->s->slices, on_slices);
	else
		client_decode(c);
}

static void on_rest(uv_timer_t *timer)
{
	struct server *s = timer->data;
	bool any = false;
	for (struct client *c = s->clients; c; c = c->next) {
		if (c->resting && !c->closing && !client_has_to_rest(c))
			client_go_on(c);
		any |= c->resting && !c->closing;
	}
	if (!any)
		uv_timer_stop(timer);
}

static void client_send_more(struct client *c);

static void on_written(uv_write_t *w, int status)
{
	struct client *c = w->data;
	c->sending_now = false;
	buf_drop(&c->sending, c->sending.len);
	trim(&c->sending);
	trim(&c->out);
	if (status < 0)
		client_close(c);
	else
		client_send_more(c);
}

static void client_send_more(struct client *c)
{
	if (c->closing || c->sending_now)
		return;
	if (!c->committed) {
		if (c->hang_up)
			client_close(c);
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
		client_close(c);
}

static unsigned server_clients_of(const struct server *s, uid_t payer)
{
	unsigned n = 0;
	for (const struct client *c = s->clients; c; c = c->next)
		n += client_payer(c) == payer;
	return n;
}

static size_t server_own_places(const struct server *s)
{
	return s->max_clients / 4 < MAX_CLIENTS_PER_USER ? s->max_clients / 4 : MAX_CLIENTS_PER_USER;
}

/* Those whose user is not known yet have half of all places together, for the moment until he is. The new one is counted
 * already. A place is kept for root when others have taken all, who has to be able to look why. */
static bool client_has_place(const struct client *c)
{
	const struct server *s = c->s;
	size_t own = client_payer(c) == NAMES_UNKNOWN ? s->max_clients / 2 : server_own_places(s);
	if (!c->uid)
		return s->n_clients <= s->max_clients + FOR_ROOT;
	if (s->n_clients <= s->max_clients && (client_is_admin(c) || server_clients_of(s, client_payer(c)) <= own))
		return true;
	log_warn_limited("client pid %d (uid %u): too many connections, so this one is closed", (int)c->pid, (unsigned)c->uid);
	return false;
}

/* Who is there, by the kernel's word. Returns false when it may not speak to this daemon. */
static bool client_identify(struct client *c)
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
	if (!client_has_place(c))
		return false;
	if (c->s->ops.payer)	/* not asked for those that are turned away, which may be any number */
		c->s->ops.payer(c->s->ops.ctx, c->uid, true);
	return true;
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
	s->open_handles++;
	uv_pipe_init(s->loop, &c->pipe, 0);
	c->pipe.data = c;
	if (uv_accept(listener, (uv_stream_t *)&c->pipe) || s->failed || !client_identify(c) ||
	    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read))
		client_close(c);
}

/* Waiting -------------------------------------------------------------------------------------------------------------- */

/* What its client sent behind it is done in the loop, since nothing may be answered between a commit and the answers to it. */
static void client_settle_wait(struct client *c)
{
	int64_t began = clock_mono_us();
	if (!awaiting_is_over(c->awaiting))
		return;
	struct walk *walk = awaiting_walk(c->awaiting);
	awaiting_destroy(c->awaiting);
	c->awaiting = NULL;
	client_start_walk(c, walk);
	client_spend(c, began);
	c->settled = true;
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
		client_answer(c, wire_error(&err));
	else
		client_answer_text(c, reply);
	client_decode(c);
}

/* Who turned out to be the subordinate ones of one user are too many perhaps: those that came last go, which are first here. */
static void server_drop_surplus(struct server *s)
{
	struct idmap counts = { 0 };
	for (struct client *c = s->clients; c; c = c->next) {
		int64_t payer = (int64_t)client_payer(c) + 1;
		if (!c->closing)
			idmap_put(&counts, payer, (void *)((uintptr_t)idmap_get(&counts, payer) + 1));
	}
	for (struct client *c = s->clients; c; c = c->next) {
		uid_t payer = client_payer(c);
		uintptr_t n = (uintptr_t)idmap_get(&counts, (int64_t)payer + 1);
		if (c->closing || payer == NAMES_UNKNOWN || n <= server_own_places(s) || client_is_admin(c))
			continue;
		idmap_put(&counts, (int64_t)payer + 1, (void *)(n - 1));
		log_warn_limited("client pid %d (uid %u): too many connections, so this one is closed", (int)c->pid, (unsigned)c->uid);
		client_close(c);
	}
	idmap_free(&counts);
}

/* Of whichever user: the message looks again, and waits on when it was not its own. */
void server_names_changed(struct server *s)
{
	if (s->ops.payer)
		server_drop_surplus(s);
	for (struct client *c = s->clients; c; c = c->next) {
		json_t *message = c->again;
		if (!message || c->closing)
			continue;
		c->again = NULL;
		client_handle(c, message);
		client_decode(c);
	}
}

void server_task_changed(struct server *s)
{
	s->changed = true;
}

bool server_owes(const struct server *s)
{
	for (const struct client *c = s->clients; c; c = c->next)
		if (c->out.len > c->committed || (s->changed && c->awaiting) || c->lookup)
			return true;
	return false;
}

/* Waits are settled here and not in the turn: only now is it true on disk that a task has ended. */
void server_flush(struct server *s)
{
	if (s->changed) {
		s->changed = false;
		for (struct client *c = s->clients; c; c = c->next)
			if (c->awaiting && !c->closing)
				client_settle_wait(c);
	}
	for (struct client *c = s->clients; c; c = c->next) {
		c->committed = c->out.len;
		client_send_more(c);
	}
}

/* What was committed goes out as it is; several later answers become one error, so the count no longer fits. */
static void client_fail(struct client *c, const struct error *why)
{
	bool told = c->out.len > c->committed || (client_is_busy(c) && !c->awaiting);
	c->out.len = c->committed;
	client_forget(c);
	c->hang_up = true;
	if (told)
		client_answer(c, wire_error(why));
	c->committed = c->out.len;
	client_send_more(c);
}

void server_fail(struct server *s, const struct error *why)
{
	s->failed = true;
	for (struct client *c = s->clients; c; c = c->next)
		if (!c->closing)
			client_fail(c, why);
}

/* Life ----------------------------------------------------------------------------------------------------------------- */

/* Half of the descriptors stay for tasks, whose shims are watched through one each. */
static size_t most_clients(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > MAX_CLIENTS)
		return MAX_CLIENTS;
	return (size_t)limit.rlim_cur / 2;
}

static void on_handle_closed(uv_handle_t *h)
{
	server_handle_closed(h->data);
}

struct server *server_create(uv_loop_t *loop, const char *path, const struct server_ops *ops, struct error *err)
{
	int fd = server_socket_open(path, err);
	if (fd < 0)
		return NULL;
	struct server *s = alloc_zero(sizeof *s);
	*s = (struct server){ .loop = loop, .path = alloc_string(path), .ops = *ops, .usages = usages_create(),
			      .max_clients = most_clients(), .open_handles = 3 };
	uv_timer_init(loop, &s->rest);
	uv_idle_init(loop, &s->slices);
	uv_pipe_init(loop, &s->listener, 0);
	s->listener.data = s->rest.data = s->slices.data = s;
	int rc = uv_pipe_open(&s->listener, fd);
	if (rc)
		close(fd);
	else
		rc = uv_listen((uv_stream_t *)&s->listener, 512, on_connection);
	if (!rc)
		return s;
	error_set(err, ERR_SYSTEM, "%s: %s", path, uv_strerror(rc));
	server_destroy(s);
	return NULL;
}

/* The file goes first: while it is there, and nobody listens, another radd may take its place. */
void server_destroy(struct server *s)
{
	if (!s)
		return;
	unlink(s->path);
	for (struct client *c = s->clients; c; c = c->next)
		client_close(c);
	uv_close((uv_handle_t *)&s->listener, on_handle_closed);
	uv_close((uv_handle_t *)&s->rest, on_handle_closed);
	uv_close((uv_handle_t *)&s->slices, on_handle_closed);
}
