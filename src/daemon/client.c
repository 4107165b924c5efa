/* SPDX-License-Identifier: MIT
 * One connection: see client.h.
 *
 * An answer lies in `out` until the turn it was made in is committed (client_flush), so it may be taken back until then
 * (client_fail). While one takes longer, its client's next message stays undecoded: answers need no numbers, and a client can
 * hold up nobody but itself. What it may hold, in bytes, and take, in time, is bounded for all connections of a user together;
 * for one connection it would be no bound, since he can open another.
 */
#include "daemon/client.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/parsing.h"
#include "daemon/usage.h"
#include "launch/chunk.h"
#include "submit/wire.h"

#include <stdlib.h>

#define MAX_UNSENT ((size_t)64 << 20)	/* a client that does not read its answers is dropped at this many bytes */
#define MAX_USER_BYTES ((size_t)256 << 20)	/* kept for all connections of a user: the one that goes beyond is dropped */
#define LARGE ((size_t)128 << 10)		/* a message that is not read in the loop */
#define READ_AHEAD ((size_t)128 << 10)	/* of a client whose next message is not looked at yet */

bool client_is_admin(const struct client *c)
{
	return request_is_admin(c->uid);
}

uid_t client_payer(const struct client *c)
{
	const struct server_ops *o = &c->home->ops;
	return o->payer ? o->payer(o->ctx, c->uid, false) : c->uid;
}

/* Its life ------------------------------------------------------------------------------------------------------------- */

/* Out of the list here and no sooner: a list that is walked may have its clients closed meanwhile, and none freed. */
static void on_client_closed(uv_handle_t *h)
{
	struct client *c = h->data;
	struct client_home *home = c->home;
	struct client **at = &home->clients;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	buf_free(&c->in);
	buf_free(&c->out);
	buf_free(&c->sending);
	free(c);
	home->gone(home);
}

/* Whatever it waits for: each of these knows the client, and none may tell it anything after this. */
static void client_forget(struct client *c)
{
	awaiting_destroy(c->awaiting);
	walk_destroy(c->walk);
	lookup_cancel(c->lookup);
	parsing_cancel(c->parsing);
	json_decref(c->again);
	json_decref(c->so_far);
	c->awaiting = NULL;
	c->walk = NULL;
	c->lookup = NULL;
	c->parsing = NULL;
	c->again = c->so_far = NULL;
}

/* May be called from anywhere and more than once; the object goes when libuv has closed the pipe, so whoever is in the
 * midst of it may look at `closing` afterwards. */
void client_close(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	client_forget(c);
	uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

/* By what is allocated and not by what is filled: that is what it costs. */
static size_t client_bytes(const struct client *c)
{
	return c->in.cap + c->out.cap + c->sending.cap + awaiting_bytes(c->awaiting) + walk_bytes(c->walk) +
	       parsing_bytes(c->parsing) + (c->again ? c->asked : 0);
}

/* Whether its user's connections hold more than one user may have us hold. */
static bool client_holds_too_much(const struct client *c)
{
	size_t sum = 0;
	uid_t payer = client_payer(c);
	for (const struct client *other = c->home->clients; other; other = other->next)
		sum += client_payer(other) == payer ? client_bytes(other) : 0;
	return sum > MAX_USER_BYTES && !client_is_admin(c);
}

static void client_check_held(struct client *c, const char *does)
{
	if (!client_holds_too_much(c))
		return;
	log_warn_limited("client pid %d (uid %u) %s more than one user may have kept here: dropped", (int)c->pid, (unsigned)c->uid,
			 does);
	client_close(c);
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

/* Time that was spent for a client, whatever for, is his user's: parsing in a thread too, or large messages would be
 * free. */
static void client_spend(const struct client *c, int64_t began_us)
{
	int64_t now = clock_mono_us();
	if (!client_is_admin(c))
		usages_spend(c->home->usages, client_payer(c), now - began_us, now);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk);

/* Who sends on while his next message has to wait is not read from; nor is who was refused, whose answers may go out as slowly
 * as he likes. */
static void client_pause_or_go_on(struct client *c)
{
	bool pause = c->hang_up || ((client_is_busy(c) || c->resting) && c->in.len > READ_AHEAD);
	if (c->closing || pause == c->paused)
		return;
	c->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&c->pipe);
	else if (uv_read_start((uv_stream_t *)&c->pipe, chunk_alloc, on_read))
		client_close(c);
}

/* A piece of the list, and the answer with the last one. */
static void client_tell_more(struct client *c, int64_t for_us)
{
	struct error err = ERROR_INIT;
	size_t held = walk_bytes(c->walk);
	int done = walk_step(c->walk, clock_mono_us() + for_us, &err);
	if (!done && walk_bytes(c->walk) > held)	/* seldom: it doubles */
		client_check_held(c, "asks for");
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

static void client_start_walk(struct client *c, struct walk *walk)
{
	c->walk = walk;
	client_tell_more(c, CLIENT_TURN_US);	/* most are short */
	if (c->walk)
		c->home->want_turns(c->home);
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
		c->home->changed = true;
		break;
	case REPLY_LOOKUP:
		c->lookup = lookups_ask(c->home->ops.lookups, client_payer(c), reply->lookup, on_looked_up, c);
		break;
	case REPLY_AGAIN:
		c->again = json_incref(message);
		break;
	case REPLY_MORE:
		c->again = json_incref(message);
		c->so_far = reply->json;
		c->home->want_turns(c->home);
		break;
	}
}

static void client_decode(struct client *c);

/* Takes over the references. A request that has to wait for a name (AGAIN) or goes on in pieces (MORE) is kept as it
 * came and run again, so each handler may be run more than once; what it did so far is in so_far. */
static void client_handle(struct client *c, json_t *message, json_t *so_far)
{
	struct error err = ERROR_INIT;
	struct message m = { .json = message, .bytes = c->asked, .uid = c->uid, .gid = c->gid, .so_far = so_far };
	struct reply reply;
	int64_t began = clock_mono_us();
	if (c->home->ops.run(c->home->ops.requests, &m, &reply, &err))
		client_answer(c, wire_error(&err));
	else
		client_take_reply(c, &reply, message);
	json_decref(message);
	json_decref(so_far);
	client_spend(c, began);
}

/* The request that waited, and what was done of it. */
static void client_handle_again(struct client *c)
{
	json_t *message = c->again, *so_far = c->so_far;
	c->again = c->so_far = NULL;
	client_handle(c, message, so_far);
	client_decode(c);
}

/* Whether its user has to let others go first. */
static bool client_has_to_rest(struct client *c)
{
	c->resting = !client_is_admin(c) && usages_rest_us(c->home->usages, client_payer(c), clock_mono_us()) > 0;
	if (c->resting)
		c->home->want_rest(c->home);
	return c->resting;
}

static void client_refuse(struct client *c, const struct error *err)
{
	client_answer(c, wire_error(err));
	c->hang_up = true;
}

/* Large messages ------------------------------------------------------------------------------------------------------- */

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
		client_handle(c, message, NULL);
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
		if (is_large(&c->in) && (c->parsing = parsing_start(c->home->loop, &c->in, on_parsed, c)))
			break;
		int64_t began = clock_mono_us();
		rc = wire_decode_request(&c->in, &message, &err);
		client_spend(c, began);
		if (rc != 1)
			break;
		client_handle(c, message, NULL);
	}
	if (rc < 0)
		client_refuse(c, &err);
	trim(&c->in);
	client_pause_or_go_on(c);
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
	client_check_held(c, "sends");
}

/* Turns ---------------------------------------------------------------------------------------------------------------- */

bool client_wants_turn(const struct client *c)
{
	return (c->walk || c->so_far) && !c->closing && !c->resting;
}

/* After a wait that was settled in a commit, its further messages come first here: in the commit nothing may be decoded,
 * since that would make events. */
void client_turn(struct client *c, int64_t for_us)
{
	if (c->settled) {
		c->settled = false;
		client_decode(c);
	}
	if (!client_wants_turn(c) || client_has_to_rest(c))
		return;
	if (c->so_far) {
		client_handle_again(c);
		return;
	}
	int64_t began = clock_mono_us();
	client_tell_more(c, for_us);	/* it may be the list of one whose wait was over just now */
	client_spend(c, began);
	if (!c->walk)
		client_decode(c);
}

bool client_rest(struct client *c)
{
	if (!c->resting || c->closing)
		return false;
	if (client_has_to_rest(c))
		return true;
	if (c->walk || c->so_far)
		c->home->want_turns(c->home);
	else
		client_decode(c);
	return c->resting && !c->closing;
}

void client_named(struct client *c)
{
	if (c->again && !c->so_far && !c->closing)
		client_handle_again(c);
}

/* Sending -------------------------------------------------------------------------------------------------------------- */

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
		if (c->hang_up && !c->out.len)	/* else the refusal waits for its commit */
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

/* What is in `out` now belongs to events that are on disk. What comes later waits for the next commit, even if this is
 * still being sent. */
void client_flush(struct client *c)
{
	c->committed = c->out.len;
	client_send_more(c);
}

/* Waiting -------------------------------------------------------------------------------------------------------------- */

/* What its client sent behind it is done in the loop, since nothing may be answered between a commit and the answers to it. */
void client_settle(struct client *c)
{
	int64_t began = clock_mono_us();
	if (!c->awaiting || c->closing || !awaiting_is_over(c->awaiting))
		return;
	struct walk *walk = awaiting_walk(c->awaiting);
	awaiting_destroy(c->awaiting);
	c->awaiting = NULL;
	client_start_walk(c, walk);
	client_spend(c, began);
	c->settled = true;
	c->home->want_turns(c->home);
}

static void on_looked_up(void *ctx, const struct buf *reply, const char *why)
{
	struct client *c = ctx;
	struct error err = ERROR_INIT;
	c->lookup = NULL;
	if (why)
		error_set(&err, ERR_UNAVAILABLE, "looking into the history: %s", why);
	if (why)
		client_answer(c, wire_error(&err));
	else
		client_answer_text(c, reply);
	client_decode(c);
}

bool client_is_owed(const struct client *c, bool changed)
{
	return c->out.len > c->committed || (changed && c->awaiting) || c->lookup;
}

/* What was committed goes out as it is; several later answers become one error, so the count no longer fits. */
void client_fail(struct client *c, const struct error *why)
{
	if (c->closing)
		return;
	bool told = c->out.len > c->committed || (client_is_busy(c) && !c->awaiting);
	c->out.len = c->committed;
	client_forget(c);
	c->hang_up = true;
	if (told)
		client_answer(c, wire_error(why));
	c->committed = c->out.len;
	client_send_more(c);
}

struct client *client_create(struct client_home *home)
{
	struct client *c = alloc_zero(sizeof *c);
	c->home = home;
	c->next = home->clients;
	home->clients = c;
	uv_pipe_init(home->loop, &c->pipe, 0);
	c->pipe.data = c;
	return c;
}

int client_listen(struct client *c)
{
	return uv_read_start((uv_stream_t *)&c->pipe, chunk_alloc, on_read);
}
