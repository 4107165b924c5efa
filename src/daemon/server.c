/* SPDX-License-Identifier: MIT
 * Clients on the Unix socket: who they are comes from the kernel (SO_PEERCRED), how many there may be is bounded by user, and
 * whose turn it is when several want much is shared out here. What one connection does is client.c's.
 */
#include "daemon/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/scope.h"
#include "daemon/client.h"
#include "daemon/names.h"
#include "daemon/polling.h"
#include "daemon/server_socket.h"
#include "daemon/usage.h"
#include "submit/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CLIENTS 1024
#define MAX_CLIENTS_PER_USER 128	/* at most a quarter of all */
#define FOR_ROOT 16			/* connections that only root gets, when all others are taken */
#define SLICE_MAX_US 50000		/* for all long answers together, in one turn of the loop: as long as the rest of the turn took, */
					/* so that half of the time is theirs when there is much else to do; CLIENT_TURN_US at least */
#define REST_MS 20			/* how often those who have to wait for their turn are looked at */
#define DOOR_MOST 64			/* connections that are taken at once; */
#define DOOR_MS 4			/* then those who are there already have so long for themselves */
#define SHORT_MS 50			/* until somebody is let in again where there was no descriptor for him */
#define BACKLOG 512			/* connections that the kernel lets wait */

struct server {
	struct client_home home;	/* first: it is what its clients know of it */
	char *path;
	int fd;			/* clients come through it */
	struct polling *knocks;	/* of fd; NULL: nobody is taken before `door` is over */
	size_t max_clients;
	uv_timer_t rest;
	uv_timer_t door;	/* runs since the first of `n_taken` was */
	unsigned n_taken;
	uv_idle_t slices;	/* while there are long lists, or clients, to go on with */
	int64_t sliced_us;	/* when the last slice was over */
	bool failed, lost;	/* lost: the socket's file, which could not be made again */
	unsigned open_handles;	/* those of its clients among them */
};

static void server_handle_closed(struct server *s)
{
	if (--s->open_handles)
		return;
	usages_destroy(s->home.usages);
	free(s->path);
	free(s);
}

static void on_gone(struct client_home *home)
{
	server_handle_closed((struct server *)home);
}

/* Turns ---------------------------------------------------------------------------------------------------------------- */

/* Long lists, and long changes, all at once and each a piece a turn; and clients whose wait is over go on. Who has to rest is
 * woken by the timer. Pieces take as long as the rest of the turn did, so long answers get half of the time when there is much
 * else to do, and all of it when there is not. */
static void on_slices(uv_idle_t *h)
{
	struct server *s = h->data;
	int64_t n = 0, rest = clock_mono_us() - s->sliced_us;
	int64_t slice = rest < CLIENT_TURN_US ? CLIENT_TURN_US : rest < SLICE_MAX_US ? rest : SLICE_MAX_US;
	for (struct client *c = s->home.clients; c; c = c->next)
		n += client_wants_turn(c);
	if (!n)
		uv_idle_stop(h);
	for (struct client *c = s->home.clients; c; c = c->next)
		client_turn(c, slice / (n ? n : 1));
	s->sliced_us = clock_mono_us();
}

static void on_want_turns(struct client_home *home)
{
	struct server *s = (struct server *)home;
	if (uv_is_active((uv_handle_t *)&s->slices))
		return;
	s->sliced_us = clock_mono_us();
	uv_idle_start(&s->slices, on_slices);
}

static void on_rest(uv_timer_t *timer)
{
	struct server *s = timer->data;
	bool any = false;
	for (struct client *c = s->home.clients; c; c = c->next)
		any |= client_rest(c);
	if (!any)
		uv_timer_stop(timer);
}

static void on_want_rest(struct client_home *home)
{
	struct server *s = (struct server *)home;
	if (!uv_is_active((uv_handle_t *)&s->rest))
		uv_timer_start(&s->rest, on_rest, REST_MS, REST_MS);
}

/* Who may connect ------------------------------------------------------------------------------------------------------ */

/* Those that are there; *own: of whom that user answers for. Who is being closed, as if turned away, takes no place. */
static size_t server_count(const struct server *s, uid_t payer, size_t *own)
{
	size_t n = 0;
	*own = 0;
	for (const struct client *c = s->home.clients; c; c = c->next) {
		n += !c->closing;
		*own += !c->closing && client_payer(c) == payer;
	}
	return n;
}

static size_t server_own_places(const struct server *s)
{
	return s->max_clients / 4 < MAX_CLIENTS_PER_USER ? s->max_clients / 4 : MAX_CLIENTS_PER_USER;
}

/* Those whose user is not known yet have half of all places together, for the moment until he is. The new one is counted
 * already. A place is kept for root when others have taken all, who has to be able to look why. */
static bool server_has_place(const struct client *c)
{
	const struct server *s = (const struct server *)c->home;
	size_t most = client_payer(c) == NAMES_UNKNOWN ? s->max_clients / 2 : server_own_places(s);
	size_t own, n = server_count(s, client_payer(c), &own);
	if (!c->uid)
		return n <= s->max_clients + FOR_ROOT;
	if (n <= s->max_clients && (client_is_admin(c) || own <= most))
		return true;
	log_warn_limited("client pid %d (uid %u): too many connections, so this one is closed", (int)c->pid, (unsigned)c->uid);
	return false;
}

/* Who is there, by the kernel's word. Returns false when it may not speak to this daemon. */
static bool server_identify(struct client *c)
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
	if (!server_has_place(c))
		return false;
	if (c->home->ops.payer)	/* not asked for those that are turned away, which may be any number */
		c->home->ops.payer(c->home->ops.ctx, c->uid, true);
	return true;
}

/* Who turned out to be the subordinate ones of one user are too many perhaps: those that came last go, which are first here. */
static void server_drop_surplus(struct server *s)
{
	struct idmap counts = { 0 };
	for (struct client *c = s->home.clients; c; c = c->next) {
		int64_t payer = (int64_t)client_payer(c) + 1;
		if (!c->closing)
			idmap_put(&counts, payer, (void *)((uintptr_t)idmap_get(&counts, payer) + 1));
	}
	for (struct client *c = s->home.clients; c; c = c->next) {
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

/* Whoever is turned away is closed at once, without a word: those are the ones of which there may be any number, and as fast as
 * somebody connects again and again, who would have all of the loop's time. */
static void server_take(struct server *s, int fd)
{
	struct client *c = client_create(&s->home);
	s->open_handles++;
	if (uv_pipe_open(&c->pipe, fd)) {
		close(fd);
		client_close(c);
	} else if (s->failed || !server_identify(c) || client_listen(c)) {
		client_close(c);
	}
}

static void on_door(uv_timer_t *timer);

static void server_shut_door(struct server *s, int64_t for_ms)
{
	polling_stop(s->knocks);
	s->knocks = NULL;
	uv_timer_start(&s->door, on_door, (uint64_t)for_ms, 0);
}

/* Not libuv's listener: without a descriptor for the next it asks for him again and again, and does nothing else meanwhile; so
 * nobody ends, and there is none ever after. Here he waits in the kernel's list. */
static void on_knock(void *ctx)
{
	struct server *s = ctx;
	struct error err = ERROR_INIT;
	if (!s->n_taken)
		uv_timer_start(&s->door, on_door, DOOR_MS, 0);
	while (s->n_taken < DOOR_MOST) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0) {
			error_errno(&err, "a client is not let in yet");
			log_warn_limited("%s", err.text);
			server_shut_door(s, SHORT_MS);
			return;
		}
		s->n_taken++;
		server_take(s, fd);
	}
	server_shut_door(s, DOOR_MS);
}

static int server_open_door(struct server *s, struct error *err)
{
	s->n_taken = 0;
	if (!s->knocks)
		s->knocks = polling_start(s->home.loop, s->fd, on_knock, s, err);
	return s->knocks ? 0 : -1;
}

static void on_door(uv_timer_t *timer)
{
	struct server *s = timer->data;
	if (server_open_door(s, NULL))
		server_shut_door(s, SHORT_MS);
}

/* Commits -------------------------------------------------------------------------------------------------------------- */

/* Of whichever user: the message looks again, and waits on when it was not its own. */
void server_names_changed(struct server *s)
{
	if (s->home.ops.payer)
		server_drop_surplus(s);
	for (struct client *c = s->home.clients; c; c = c->next)
		client_named(c);
}

void server_task_changed(struct server *s)
{
	s->home.changed = true;
}

bool server_owes(const struct server *s)
{
	for (const struct client *c = s->home.clients; c; c = c->next)
		if (client_is_owed(c, s->home.changed))
			return true;
	return false;
}

/* Waits are settled here and not in the turn: only now is it true on disk that a task has ended. */
void server_flush(struct server *s)
{
	bool changed = s->home.changed;
	s->home.changed = false;
	for (struct client *c = s->home.clients; changed && c; c = c->next)
		client_settle(c);
	for (struct client *c = s->home.clients; c; c = c->next)
		client_flush(c);
}

/* Each client is told instead of what it was promised, or of its next request; nobody new is let in. */
void server_fail(struct server *s, const struct error *why)
{
	s->failed = true;
	for (struct client *c = s->home.clients; c; c = c->next)
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
	*s = (struct server){ .home = { .loop = loop, .ops = *ops, .usages = usages_create(), .want_turns = on_want_turns,
					.want_rest = on_want_rest, .gone = on_gone },
			      .path = alloc_string(path), .fd = fd, .max_clients = most_clients(), .open_handles = 3 };
	uv_timer_init(loop, &s->rest);
	uv_timer_init(loop, &s->door);
	uv_idle_init(loop, &s->slices);
	s->rest.data = s->door.data = s->slices.data = s;
	int rc = listen(fd, BACKLOG) ? error_errno(err, "%s", path) : server_open_door(s, err);
	if (!rc)
		return s;
	server_destroy(s);
	return NULL;
}

static int server_bind_again(struct server *s, struct error *err)
{
	scoped_fd int fd = wire_prepare_folder(s->path, WIRE_OTHER_SOCKET, err) ? -1 : server_socket_open(s->path, err);
	if (fd < 0)
		return -1;
	if (listen(fd, BACKLOG))
		return error_errno(err, "%s", s->path);
	polling_stop(s->knocks);
	s->knocks = NULL;
	close(s->fd);
	s->fd = steal_fd(fd);
	on_door(&s->door);
	return 0;
}

void server_keep_socket(struct server *s)
{
	struct error err = ERROR_INIT;
	if (s->failed || !access(s->path, F_OK) || errno != ENOENT)
		return;
	bool again = !server_bind_again(s, &err);
	if (again)
		log_warn("%s was removed: it is there again", s->path);
	else if (!s->lost)
		log_warn("%s was removed, so nobody finds this radd until it can be made again: %s", s->path, err.text);
	s->lost = !again;
}

/* The file goes first: while it is there, and nobody listens, another radd may take its place. */
void server_destroy(struct server *s)
{
	if (!s)
		return;
	unlink(s->path);
	for (struct client *c = s->home.clients; c; c = c->next)
		client_close(c);
	polling_stop(s->knocks);
	close(s->fd);
	uv_close((uv_handle_t *)&s->rest, on_handle_closed);
	uv_close((uv_handle_t *)&s->door, on_handle_closed);
	uv_close((uv_handle_t *)&s->slices, on_handle_closed);
}
