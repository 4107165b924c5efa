/* SPDX-License-Identifier: MIT
 *
 * The socket and its clients. Replies are kept until the turn they were made in is committed. A client that is slow, silent or
 * broken costs bounded memory and nobody's time; a long answer is made in pieces, or by another process.
 */
#ifndef RAD_DAEMON_SERVER_H
#define RAD_DAEMON_SERVER_H

#include "base/error.h"
#include "task/task.h"

#include <jansson.h>
#include <sys/types.h>

struct daemon;
struct server;
struct client;

/* Opens the socket; refuses when another radd answers on it. */
struct server *server_create(struct daemon *d, const char *path, struct error *err);
void server_destroy(struct server *s);

/* After the commit: sends what was answered, and answers those who wait for tasks. */
void server_flush(struct server *s);
/* Tasks changed in this turn: waiting clients may be done. */
void server_task_changed(struct server *s);
/* The commit failed, so what is in memory is ahead of the disk and nothing of it may be told. Who was answered since the last
 * commit, or was being told a list, gets the error; who waits for tasks gets no answer and is to ask the next radd. Nobody is
 * heard any more. */
void server_fail(struct server *s, const struct error *why);

/* One request, as requests.c sees it. */
struct request {
	struct daemon *d;
	struct client *client;
	const json_t *json;
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

/* Whether the peer may act for everybody: root, or the user the daemon runs as. */
bool request_is_admin(const struct request *r);

/* Answers a request: a new reference to the reply, NULL with an error, or REQUEST_LATER when the answer comes by one
 * of the functions below. */
#define REQUEST_LATER ((json_t *)-1)
/* Or nothing was done, and it is to be run again when a name of a user has come. */
#define REQUEST_AGAIN ((json_t *)-2)
json_t *request_run(const struct request *r, struct error *err);

/* The client is answered when none of these tasks is pending (`until_start`) or alive any more. */
void server_wait(struct client *c, const task_id *ids, size_t n, bool until_start);
/* The tasks of that wait, told when it is over (requests.c): server_tell, or -1. */
int request_wait_reply(struct daemon *d, struct client *c, const task_id *ids, size_t n, struct error *err);
/* The client is told these tasks, a piece a turn. Takes over the list; `living`: see walk_create. */
void server_tell(struct client *c, task_id *ids, size_t n, bool living);
/* The client is told what a lookup makes of that request, whose text is taken over. */
void server_read(struct client *c, char *request);
/* Requests that wait for the name of a user are run again. */
void server_names_changed(struct server *s);

#endif
