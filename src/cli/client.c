/* SPDX-License-Identifier: MIT
 * Calls to radd, and waits that survive its restart: see client.h.
 */
#include "cli/client.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/client_private.h"
#include "cli/client_queue.h"
#include "store/store.h"
#include "submit/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define AWAY_MS 60000		/* how long a wait tries to find radd again */
#define RETRY_MS 250
#define AT_ONCE_MS 1000		/* a connection that ends sooner was no answer, */
#define AT_ONCE_MOST 40		/* and that many of them in a row are no restart */
#define ASKED_MOST 3		/* times that the same is asked: then it is the question that radd ends at */
#define SILENT_S 20		/* from when on it is told that there is no answer */
#define LOOK_MS 500		/* between two looks at a queue of files */
#define SERVER_MS 10000		/* how long the server's radd is waited for, */
#define TELL_MS 1000		/* from when on that is told */
#define OWN_MS 3000		/* how long one's own that runs and does not listen: it starts, ends, or makes its socket again */

bool client_may_start(void)
{
	const char *no = getenv("RAD_NO_START");
	return !(no && *no && strcmp(no, "0"));
}

const char *client_server(void)
{
	const char *sign = wire_server_meant();
	/* Root's own is the server's: he may start it, unless systemd does. */
	return sign && (geteuid() || !strcmp(sign, WIRE_SERVER_UNIT)) ? sign : NULL;
}

/* Root tried it once, and made no service of it: then it is not on its way. */
static bool nobody_starts(const char *sign)
{
	return !strcmp(sign, WIRE_SERVER_STORE);
}

char *client_why_down(void)
{
	char *words = wire_last_words();
	return words ? words : client_unit_trouble();
}

/* Whoever asks for its own, or for its own to be forgotten, says so. */
static int server_is_away(const char *sign, struct error *err)
{
	scoped_free char *words = client_why_down();
	if (words && !geteuid())
		return error_set(err, ERR_UNAVAILABLE, "this machine's radd does not run: %s. Then: systemctl restart radd", words);
	if (words)
		return error_set(err, ERR_UNAVAILABLE, "this machine's radd does not run (RAD_SOCKET=own has one of your own beside it). "
				 "Tell its administrator: %s", words);
	if (!geteuid())
		return error_set(err, ERR_UNAVAILABLE, "this machine's radd does not run: systemctl start radd");
	if (nobody_starts(sign))
		return error_set(err, ERR_UNAVAILABLE, "this machine's radd has not run since the machine was started (that it has one, %s "
				 "shows): ask for it to be started (rad start), or for /var/lib/rad to be removed if there is to be none any "
				 "more; RAD_SOCKET=own has one of your own beside it", sign);
	return error_set(err, ERR_UNAVAILABLE, "this machine's radd does not answer (that it has one, %s shows): ask for it to be "
			 "started (systemctl start radd); RAD_SOCKET=own has one of your own beside it", sign);
}

static int wait_for_own(const char *path)
{
	scoped_free char *state = wire_own_state_dir();
	int64_t until = clock_mono_ms() + OWN_MS;
	int fd = -1;
	while (fd < 0 && store_is_locked(state) && clock_mono_ms() < until) {
		poll(NULL, 0, RETRY_MS);
		fd = wire_connect(path, NULL);
	}
	return fd;
}

int client_check_elsewhere(const char *path, struct error *err)
{
	scoped_free char *own = wire_own_socket_path(), *state = wire_own_state_dir();
	if (!strcmp(path, own) || !store_is_locked(state))
		return 0;
	scoped_fd int fd = wire_connect_now(own, NULL);
	scoped_json *status = client_call_within(fd, OWN_MS / 1000, wire_request("status"), NULL);
	const char *kept = json_string_value(json_object_get(status, "state_dir"));
	if (!kept || strcmp(kept, state))
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "no radd listens on %s, which RAD_SOCKET names: yours runs, and listens on %s: "
			 "RAD_SOCKET=own reaches it", path, own);
}

/* Nobody listens there. */
static int is_away(const char *path, const char *sign, struct error *err)
{
	if (sign)
		return server_is_away(sign, err);
	if (client_check_elsewhere(path, err))
		return -1;
	if (client_may_start())
		return error_set(err, ERR_UNAVAILABLE, "no radd listens on %s: 'rad start' or 'rad submit' starts one, or name another "
				 "socket in RAD_SOCKET", path);
	return error_set(err, ERR_UNAVAILABLE, "no radd listens on %s: start one (radd), or name its socket in RAD_SOCKET", path);
}

int client_connect_now(struct error *err)
{
	struct error why = ERROR_INIT;
	scoped_free char *path = wire_socket_path();
	int fd = wire_connect_now(path, &why);
	if (fd < 0 && why.code == ERR_UNAVAILABLE)
		return is_away(path, client_server(), err);
	return fd < 0 ? error_pass(err, &why) : fd;
}

/* One call of rad speaks to one daemon: ids that it was given by one mean nothing to another that came up meanwhile. */
static const char *socket_path(void)
{
	static char *path;
	if (!path)
		path = wire_socket_path();
	return path;
}

/* Until somebody listens: a restart takes a second or two. One that could not start is not waited for.
 * *over: all of the time was spent. */
static int try_again(int for_ms, const char *sign, const char *what, bool *over, struct error *err)
{
	int64_t from = clock_mono_ms(), now = from;
	bool told = false, down = false;
	for (; now - from < for_ms && !down; now = clock_mono_ms()) {
		struct error why = ERROR_INIT;
		int fd = wire_connect(socket_path(), &why);
		if (fd >= 0)
			return fd;
		if (why.code != ERR_UNAVAILABLE)
			return error_pass(err, &why);
		scoped_free char *words = sign ? client_why_down() : NULL;
		down = words;
		if (!told && now - from >= TELL_MS)
			cli_note("%s: waiting for it (%d s at most)", what, for_ms / 1000);
		told = told || now - from >= TELL_MS;
		if (!down)
			poll(NULL, 0, RETRY_MS);
	}
	*over = !down;
	return is_away(socket_path(), sign, err);
}

/* Who was answered once, or has waited once, has a rule of his own for what comes after. */
int client_connect(struct error *err)
{
	static bool was_there;
	struct error why = ERROR_INIT;
	const char *sign = client_server(), *path = socket_path();
	int fd = wire_connect(path, &why);
	bool away = fd < 0 && why.code == ERR_UNAVAILABLE, patient = away && sign && !nobody_starts(sign) && !was_there, over;
	was_there = was_there || fd >= 0 || patient;
	if (patient)
		return try_again(SERVER_MS, sign, "this machine's radd does not answer", &over, err);
	if (away && !sign && client_check_elsewhere(path, err))
		return -1;
	if (away && !sign && (fd = wait_for_own(path)) >= 0)
		return fd;
	if (away)
		return is_away(path, sign, err);
	return fd < 0 ? error_pass(err, &why) : fd;
}

/* What belongs to the protocol is no part of the answer. */
static json_t *strip(json_t *reply)
{
	json_object_del(reply, "v");
	json_object_del(reply, "rad");
	return reply;
}

static json_t *receive(int fd, struct error *err)
{
	json_t *reply = wire_receive(fd, err);
	return reply ? strip(reply) : NULL;
}

/* Whether something comes within that time; an interrupted wait counts as that. */
static bool comes(int fd, int seconds)
{
	struct pollfd p = { fd, POLLIN, 0 };
	return poll(&p, 1, seconds * 1000) != 0;
}

json_t *client_call_on(int fd, json_t *request, struct error *err)
{
	scoped_json *asked = request;
	if (fd < 0 || wire_send(fd, asked, err))
		return NULL;
	if (!comes(fd, SILENT_S))
		cli_note("radd has not answered for %d s: it is waited for (rad doctor tells what is amiss)", SILENT_S);
	return receive(fd, err);
}

static int hangs(int seconds, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "radd is there, but has not answered for %d s", seconds);
}

json_t *client_call_within(int fd, int seconds, json_t *request, struct error *err)
{
	const struct timeval limit = { .tv_sec = seconds };
	scoped_json *asked = request;
	if (fd < 0)
		return NULL;
	if (io_set_nonblocking(fd, false) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit))
		return error_errno(err, "the connection to radd"), NULL;
	if (wire_send(fd, asked, err))
		return NULL;
	if (!comes(fd, seconds))
		return hangs(seconds, err), NULL;
	return receive(fd, err);
}

json_t *client_call(json_t *request, struct error *err)
{
	if (client_queue()) {
		json_t *reply = client_queue_answer(request, err);
		json_decref(request);
		return reply;
	}
	scoped_fd int fd = client_connect(err);
	return client_call_on(fd, request, err);
}

static json_t *ask_of(const char *op, const char *id)
{
	json_t *request = wire_request(op);
	json_t *text = json_exact(id);	/* NULL when it is not UTF-8; the daemon says what it expected */
	json_object_set_new(request, "id", text ? text : json_null());
	return request;
}

json_t *client_call_id(const char *op, const char *id, struct error *err)
{
	return client_call(ask_of(op, id), err);
}

/* Whether the other side hung up; what it said before that was read. */
static bool is_closed(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return !got || (got < 0 && errno == ECONNRESET);
}

static int stays_away(const struct error *why, struct error *err)
{
	return error_set(err, ERR_UNAVAILABLE, "radd went away and did not come back in %d s (%.600s); running tasks go on",
			 AWAY_MS / 1000, why->text);
}

/* A radd that answered a moment ago is gone: perhaps only restarted. */
static int reconnect(const char *sign, struct error *err)
{
	struct error why = ERROR_INIT;
	bool over = false;
	int fd = try_again(AWAY_MS, sign, "radd went away", &over, &why);
	if (fd >= 0)
		return fd;
	if (!over)
		return error_pass(err, &why);
	return stays_away(&why, err);
}

json_t *client_look_on(int *fd, json_t *request, struct error *err)
{
	bool was_there = *fd >= 0;
	if (client_queue())
		return client_call(request, err);
	scoped_json *asked = request;
	if (!was_there)
		*fd = client_connect(err);
	for (int times = 1; *fd >= 0; times++) {
		struct error why = ERROR_INIT;
		json_t *reply = client_call_on(*fd, json_incref(asked), &why);
		if (reply)
			return reply;
		if (!was_there || times == ASKED_MOST || why.code != ERR_UNAVAILABLE || !is_closed(*fd))
			return error_pass(err, &why), NULL;
		close(*fd);
		*fd = reconnect(client_server(), err);
	}
	return NULL;
}

json_t *client_look_id_on(int *fd, const char *op, const char *id, struct error *err)
{
	return client_look_on(fd, ask_of(op, id), err);
}

json_t *client_call_id_within(int seconds, const char *op, const char *id, struct error *err)
{
	if (client_queue())
		return client_call_id(op, id, err);
	scoped_fd int fd = client_connect(err);
	return client_call_within(fd, seconds, ask_of(op, id), err);
}

/* ---- answers that are taken as they come ---- */

struct client_asked { int fd; struct buf in; bool away; };

struct client_asked *client_ask(json_t *const requests[], size_t n, struct error *err)
{
	scoped_buf out = { 0 };
	scoped_fd int fd = client_connect(err);
	int failed = fd < 0;
	for (size_t i = 0; i < n && !failed; i++)
		failed = wire_encode(requests[i], &out, err);
	/* It was there a moment ago: away, then, not absent, as who takes the answer is told. */
	if (!failed && io_write_full(fd, out.data, out.len) && errno != EPIPE && errno != ECONNRESET)
		failed = error_errno(err, "writing to radd");
	if (failed)
		return NULL;
	io_set_nonblocking(fd, true);
	struct client_asked *a = alloc_zero(sizeof *a);
	a->fd = steal_fd(fd);
	return a;
}

void client_asked_end(struct client_asked *a)
{
	if (!a)
		return;
	close(a->fd);
	buf_free(&a->in);
	free(a);
}

int client_asked_fd(const struct client_asked *a)
{
	return a ? a->fd : -1;
}

bool client_asked_away(const struct client_asked *a)
{
	return a->away;
}

int client_asked_take(struct client_asked *a, json_t **reply, struct error *err)
{
	char chunk[65536];
	ssize_t got;
	while ((got = recv(a->fd, chunk, sizeof chunk, 0)) > 0)
		buf_add(&a->in, chunk, (size_t)got);
	bool over = !got || (errno != EAGAIN && errno != EINTR);
	int rc = wire_decode(&a->in, reply, err);
	a->away = !rc && over;
	if (rc == 1 && wire_check(*reply, err)) {
		json_decref(steal(*reply));
		return -1;
	}
	if (rc == 1)
		strip(*reply);
	return rc;
}

/* ---- waits ---- */

struct client_wait {
	json_t *request;
	bool queue;		/* of files: it is looked at again and again */
	struct client_asked *asked;	/* NULL while radd is away */
	int64_t away_since_ms, retry_ms;	/* mono; 0 while connected */
	int64_t since_ms;	/* mono; this connection */
	unsigned closed;	/* connections in a row that ended at once */
};

static int ask(struct client_wait *w, struct error *err)
{
	w->asked = client_ask(&w->request, 1, err);
	if (!w->asked)
		return -1;
	w->away_since_ms = 0;
	w->since_ms = clock_mono_ms();
	return 0;
}

struct client_wait *client_wait_create(json_t *ids, bool until_start, struct error *err)
{
	struct client_wait *w = alloc_zero(sizeof *w);
	w->queue = client_queue();
	w->request = wire_request("wait");
	json_object_set(w->request, "ids", ids);
	if (until_start)
		json_object_set_new(w->request, "until", json_text("start"));
	if (w->queue || !ask(w, err))
		return w;
	client_wait_destroy(w);
	return NULL;
}

void client_wait_destroy(struct client_wait *w)
{
	if (!w)
		return;
	client_asked_end(w->asked);
	json_decref(w->request);
	free(w);
}

int client_wait_fd(const struct client_wait *w)
{
	return client_asked_fd(w->asked);
}

static int look_again(struct client_wait *w, json_t **reply, struct error *err)
{
	int64_t now = clock_mono_ms();
	if (now < w->retry_ms)
		return 0;
	w->retry_ms = now + LOOK_MS;
	return client_queue_wait(json_object_get(w->request, "ids"), json_object_get(w->request, "until"), reply, err);
}

/* Something accepts, and hangs up: a radd that cannot work, or no radd. */
static int note_closed(struct client_wait *w, struct error *err)
{
	if (++w->closed < AT_ONCE_MOST)
		return 0;
	return error_set(err, ERR_UNAVAILABLE, "radd closed %d connections in a row without an answer: look into its log, or see what "
			 "rad doctor tells; running tasks go on", AT_ONCE_MOST);
}

static int hung_up(struct client_wait *w, int64_t now_ms, struct error *err)
{
	bool at_once = now_ms - w->since_ms < AT_ONCE_MS;
	client_asked_end(steal(w->asked));
	if (at_once)
		return note_closed(w, err);
	w->closed = 0;
	return 0;
}

/* radd is gone: perhaps only restarted. */
static int find_again(struct client_wait *w, struct error *err)
{
	int64_t now = clock_mono_ms();
	struct error why = ERROR_INIT;
	if (w->asked && hung_up(w, now, err))
		return -1;
	if (!w->away_since_ms)
		w->away_since_ms = now;
	if (now < w->retry_ms)
		return 0;
	w->retry_ms = now + RETRY_MS;
	if (!ask(w, &why))
		return 0;
	if (now - w->away_since_ms < AWAY_MS)
		return 0;
	return stays_away(&why, err);
}

int client_wait_poll(struct client_wait *w, json_t **reply, struct error *err)
{
	if (w->queue)
		return look_again(w, reply, err);
	int rc = w->asked ? client_asked_take(w->asked, reply, err) : 0;
	return rc || (w->asked && !w->asked->away) ? rc : find_again(w, err);
}

json_t *client_wait_ended(json_t *ids, int64_t for_ms, struct error *err)
{
	int64_t until_ms = for_ms < 0 ? INT64_MAX : clock_mono_ms() + for_ms;
	struct client_wait *w = client_wait_create(ids, false, err);
	json_t *reply = NULL;
	int rc = w ? 0 : -1;
	for (int64_t left_ms; !rc && (left_ms = until_ms - clock_mono_ms()) > 0;) {
		struct pollfd p = { client_wait_fd(w), POLLIN, 0 };
		int most_ms = p.fd < 0 ? RETRY_MS : AWAY_MS;
		poll(&p, 1, left_ms < most_ms ? (int)left_ms : most_ms);
		rc = client_wait_poll(w, &reply, err);
	}
	client_wait_destroy(w);
	return reply;
}
