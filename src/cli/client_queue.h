/* SPDX-License-Identifier: MIT
 *
 * A queue of files (spool/spool.h) in the place of a radd: the verbs ask it as they ask radd, and what it has no answer to
 * says so.
 */
#ifndef RAD_CLI_CLIENT_QUEUE_H
#define RAD_CLI_CLIENT_QUEUE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

/* What --queue said; NULL: nothing, and RAD_QUEUE counts. */
extern const char *client_queue_said;
#define CLIENT_QUEUE_OPTION \
	{ "queue", 0, "DIR", "of a queue of files (rad-pilot(1)), not of radd's; default RAD_QUEUE", .value = &client_queue_said }

/* The folder of the queue that is asked; NULL: radd is. */
const char *client_queue(void);
/* Whether that verb is of a radd alone, and a queue is asked: *err then says so, and -1. */
int client_queue_check_verb(const char *verb, struct error *err);

/* As client_call, but `request` is borrowed. */
json_t *client_queue_answer(const json_t *request, struct error *err);
/* The answer to `wait` when all of these have ended (until_start: run); 1; 0: not yet, -1. */
int client_queue_wait(const json_t *ids, bool until_start, json_t **reply, struct error *err);

#endif
