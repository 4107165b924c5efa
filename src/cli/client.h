/* SPDX-License-Identifier: MIT
 *
 * The verbs' side of the connection to radd.
 */
#ifndef RAD_CLI_CLIENT_H
#define RAD_CLI_CLIENT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* What shows that the daemon to speak to is the server's, none that the caller may start; NULL: it is his own, or the one that
 * RAD_SOCKET names. */
const char *client_server(void);
/* Connects to the daemon there is. Returns a descriptor or -1. Where that is the server's and it does not answer (it crashed,
 * is being restarted, or was stopped), it is waited for a while, the first time, unless it left word why it is not there: a
 * radd of the caller's own beside it would put tasks on GPUs that it holds for others, and give them the same ids. */
int client_connect(struct error *err);
/* The same without a wait, for who has something to say of a radd that is away; the descriptor does not block. */
int client_connect_now(struct error *err);
/* As client_connect; with no daemon to reach, the caller's own is started in the background and a line on stderr says so,
 * unless RAD_NO_START=1. Never on a machine that has the server's, but where RAD_SOCKET asks for one's own. */
int client_connect_or_start(struct error *err);
/* Starts the caller's own, whatever RAD_NO_START says. 0, *started false: there is one already. */
int client_start(bool *started, struct error *err);

/* Before something is done to a task: whether that id, which goes to the server's radd, may have been meant for one of the
 * caller's own, which has an unfinished task of that number too. -1 with what to say then. */
int client_check_which(const char *id, struct error *err);

/* One operation; takes the reference of `request`. Returns the answer without what belongs to the protocol, a new reference,
 * or NULL. On that connection (-1: its error is in *err already), or on one of its own. A radd that hangs is waited for, since
 * what it was asked to do it may still do; that is told. */
json_t *client_call_on(int fd, json_t *request, struct error *err);
json_t *client_call(json_t *request, struct error *err);
/* For who only looks, and has something to say without an answer: waits for so many seconds at most. The connection may be one
 * that does not block. */
json_t *client_call_within(int fd, int seconds, json_t *request, struct error *err);
/* An operation that only needs an id. */
json_t *client_call_id(const char *op, const char *id, struct error *err);

/* The path of a program of ours: beside this one, else in PATH. NULL if it is in neither. Free it. */
char *client_find_program(const char *name);

/* A long wait whose answer comes when it comes. */
struct client_wait;
/* Asks radd for the answer when all these tasks (a JSON list of ids; borrowed) have ended, or, with until_start, run. */
struct client_wait *client_wait_create(json_t *ids, bool until_start, struct error *err);
void client_wait_destroy(struct client_wait *w);
int client_wait_fd(const struct client_wait *w);
/* Reads what has come, without blocking. 1: *reply is the answer, a new reference; 0: not yet; -1: it failed. When radd went
 * away (a restart), it is asked again as soon as it is back, for at most a minute. */
int client_wait_poll(struct client_wait *w, json_t **reply, struct error *err);
/* Waits until these tasks have ended, for so long at most (-1: for ever). Returns the answer, a new reference, or NULL; with
 * ERR_NONE, since that time is over. */
json_t *client_wait_ended(json_t *ids, int64_t for_ms, struct error *err);

#endif
