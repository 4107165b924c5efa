/* SPDX-License-Identifier: MIT
 *
 * The verbs' side of the connection to radd.
 */
#ifndef RAD_CLI_CLIENT_H
#define RAD_CLI_CLIENT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What tells that the daemon to speak to is the server's, which the caller may not start; NULL: it is the caller's own, or
 * another that RAD_SOCKET names. */
const char *client_server(void);
/* Why that one is not there, and will not be by itself: in its own words, else in systemd's. NULL: that is not known. Takes a
 * second at most. Free it. */
char *client_why_down(void);
/* Connects to the daemon. Returns a descriptor, or -1. If it is the server's and does not answer (it crashed, is being
 * restarted or was stopped), waits for it for a while, the first time, unless it left word why it is not there: the caller's
 * own radd beside it would put tasks on GPUs that it holds for others, and give out the same ids. */
int client_connect(struct error *err);
/* The same without waiting, for callers that can say something without a daemon; the descriptor does not block. */
int client_connect_now(struct error *err);
/* As client_connect. If no daemon can be reached, starts the caller's own in the background and says so on stderr, unless
 * RAD_NO_START=1. On a machine with a server's daemon, only where RAD_SOCKET asks for the caller's own. */
int client_connect_or_start(struct error *err);
/* Starts the caller's own, whatever RAD_NO_START says. 0 with *started false: it runs already. */
int client_start(bool *started, struct error *err);

/* Call it before something is done to a task of the server's radd: -1 with an explanation if the id may have been meant for the
 * caller's own radd, which has an unfinished task of that number too. */
int client_check_which(const char *id, struct error *err);

/* One operation on that connection (-1: *err has its error already); takes over the reference of `request`. Returns the answer
 * without the members of the protocol, a new reference; or NULL. Waits for a radd that hangs, and says so, since it may still
 * do what it was asked. */
json_t *client_call_on(int fd, json_t *request, struct error *err);
/* The same on a connection of its own. */
json_t *client_call(json_t *request, struct error *err);
/* The same for callers that only look, and can do without an answer: waits for so many seconds at most. The connection may be
 * one that does not block. */
json_t *client_call_within(int fd, int seconds, json_t *request, struct error *err);
/* An operation that only needs an id. */
json_t *client_call_id(const char *op, const char *id, struct error *err);
/* The same with a limit, for callers that a signal is to end whether radd hangs or not. */
json_t *client_call_id_within(int seconds, const char *op, const char *id, struct error *err);
/* For operations that change nothing, one after the other over one connection: *fd is -1 before the first, and the caller's to
 * close after the last. If radd goes away between two of them (a restart), it is waited for, for at most a minute, and asked
 * again. */
json_t *client_look_on(int *fd, json_t *request, struct error *err);
json_t *client_look_id_on(int *fd, const char *op, const char *id, struct error *err);

/* The path of a program of ours: beside this one, else in PATH. NULL if it is in neither. The caller frees it. */
char *client_find_program(const char *name);

/* Requests (borrowed) that were sent over one connection, and whose answers are taken as they come; NULL with an error. */
struct client_asked;
struct client_asked *client_ask(json_t *const requests[], size_t n, struct error *err);
void client_asked_end(struct client_asked *a);
/* What to wait for; -1 for NULL. */
int client_asked_fd(const struct client_asked *a);
/* 1: *reply is the next answer, a new reference; 0: it has not come; -1. Never waits. */
int client_asked_take(struct client_asked *a, json_t **reply, struct error *err);
/* Whether it has not come, and will not, as radd hung up. */
bool client_asked_away(const struct client_asked *a);

/* A wait for tasks, which can be polled. */
struct client_wait;
/* Asks radd for the answer when all these tasks (a JSON list of ids; borrowed) have ended, or, with until_start, run. */
struct client_wait *client_wait_create(json_t *ids, bool until_start, struct error *err);
void client_wait_destroy(struct client_wait *w);
int client_wait_fd(const struct client_wait *w);
/* Reads what has come, without blocking. 1: *reply is the answer, a new reference; 0: not yet; -1: it failed. When radd went
 * away (a restart), it is asked again as soon as it is back, for at most a minute. */
int client_wait_poll(struct client_wait *w, json_t **reply, struct error *err);
/* Waits until these tasks have ended, at most for_ms (-1: for ever). Returns the answer, a new reference, or NULL: with
 * ERR_NONE if the time is over. */
json_t *client_wait_ended(json_t *ids, int64_t for_ms, struct error *err);

#endif
