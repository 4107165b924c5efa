/* SPDX-License-Identifier: MIT
 *
 * The socket and its clients. Replies are kept until the turn they were made in is committed. A client that is slow, silent or
 * broken costs bounded memory and nobody's time; a long answer is made in pieces, or by another process.
 */
#ifndef RAD_DAEMON_SERVER_H
#define RAD_DAEMON_SERVER_H

#include "base/error.h"
#include "daemon/lookup.h"
#include "daemon/requests.h"

#include <uv.h>

struct server;

/* What the server needs of others. */
struct server_ops {
	/* Answers one message: requests_run. */
	int (*run)(const struct requests *q, const struct message *m, struct reply *reply, struct error *err);
	const struct requests *requests;
	struct lookups *lookups;
	/* The user who answers for what that uid does, as names_payer. NULL: each uid for itself. */
	uid_t (*payer)(void *ctx, uid_t uid, bool ask);
	void *ctx;
};

/* Opens the socket; refuses when another radd answers on it. Nobody is heard before the loop runs. */
struct server *server_create(uv_loop_t *loop, const char *path, const struct server_ops *ops, struct error *err);
/* Closes all connections and removes the socket. Frees itself once the loop has closed its handles. Takes NULL. */
void server_destroy(struct server *s);

/* Makes the socket's file again where somebody removed it: with a user's last login may go $XDG_RUNTIME_DIR. */
void server_keep_socket(struct server *s);

/* Whether a client waits for the next commit: for an answer, or for tasks of which some changed. */
bool server_owes(const struct server *s);
/* After the commit: sends what was answered, and answers those who wait for tasks. */
void server_flush(struct server *s);
/* Tasks changed in this turn: waiting clients may be done. */
void server_task_changed(struct server *s);
/* Requests that wait for the name of a user are run again. */
void server_names_changed(struct server *s);
/* The commit failed, so what is in memory is ahead of the disk and must not be told. Clients that were answered since the last
 * commit, or were being told a list, get the error; clients that wait for tasks get no answer, and will ask the next radd. No
 * client is heard any more. */
void server_fail(struct server *s, const struct error *why);

#endif
