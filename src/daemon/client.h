/* SPDX-License-Identifier: MIT
 *
 * One connection: what it sends is decoded one message at a time and answered in order, and what takes long is done a piece a
 * turn. Who may connect, and when it is whose turn, is the server's (server.c).
 */
#ifndef RAD_DAEMON_CLIENT_H
#define RAD_DAEMON_CLIENT_H

#include "base/buf.h"
#include "daemon/server.h"

#define CLIENT_TURN_US 5000	/* of the loop, for what is begun */

struct client;
struct parsing;
struct usages;

/* What all connections of a server have in common. */
struct client_home {
	uv_loop_t *loop;
	struct server_ops ops;
	struct usages *usages;		/* of the daemon's time */
	struct client *clients;		/* the newest first */
	bool changed;			/* tasks, in this turn */
	void (*want_turns)(struct client_home *home);	/* a client has more to do: call client_turn in the next turn */
	void (*want_rest)(struct client_home *home);	/* a client has to rest: call client_rest now and then */
	void (*gone)(struct client_home *home);		/* a client has left the list and is freed */
};

/* Freed when the loop has closed its handle, never earlier: whoever walks the list may go on after closing one. */
struct client {
	struct client_home *home;
	struct client *next;
	uv_pipe_t pipe;
	uv_write_t write;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	struct buf in, out, sending;
	size_t committed;	/* bytes of `out` that may go: answered before the last commit */
	/* hang_up: nothing more is read of it, and it is closed once everything was sent. */
	bool sending_now, closing, hang_up, paused;
	bool resting;		/* its user took more than a share of the daemon's time: its next message waits */
	/* What it waits for, at most one of these. Its next message is not looked at until then. */
	struct awaiting *awaiting;	/* tasks */
	struct walk *walk;		/* a long list, in pieces */
	struct lookup *lookup;		/* an answer from the history */
	struct parsing *parsing;	/* its own message, which is large */
	json_t *again;			/* to be run again: in the next turn where `so_far` is set, else when a user's name has come */
	json_t *so_far;			/* what the pieces of `again` that were done have answered */
	size_t asked;			/* bytes of the message that was read last */
	bool settled;			/* its wait is over, and the messages after it were not looked at yet */
};

/* Makes a client, in the list from now on. The caller accepts the connection, fills in uid, gid and pid, and calls
 * client_listen or client_close. */
struct client *client_create(struct client_home *home);
/* Begins to read. Returns 0, or libuv's error. */
int client_listen(struct client *c);
/* It goes from the list when the loop has closed its handle. */
void client_close(struct client *c);

bool client_is_admin(const struct client *c);
/* Who answers for what its user does: whoever may be many uids is one user all the same. */
uid_t client_payer(const struct client *c);

/* Whether a long answer, or a long change, is to go on. */
bool client_wants_turn(const struct client *c);
/* Does its next piece, for so long, if there is one; and looks at messages that were put off until the next turn. */
void client_turn(struct client *c, int64_t for_us);
/* Goes on if its user need not rest any more. Returns whether it still rests. */
bool client_rest(struct client *c);
/* The name of a user has come. */
void client_named(struct client *c);
/* Whether it waits for the next commit: for an answer, or, where tasks changed, for those. */
bool client_is_owed(const struct client *c, bool changed);
/* After the commit, each for all clients: answers those whose tasks are over, */
void client_settle(struct client *c);
/* and sends what was answered. */
void client_flush(struct client *c);
/* The commit failed: as server_fail. */
void client_fail(struct client *c, const struct error *why);

#endif
