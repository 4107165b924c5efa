/* SPDX-License-Identifier: MIT
 *
 * Long looks into the history (`acct`, `series`), by processes of their own: `radd --read` opens the store for reading alone
 * and makes the whole reply, while the daemon goes on.
 */
#ifndef RAD_DAEMON_READING_H
#define RAD_DAEMON_READING_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define READING_AT_ONCE 2
#define READING_DEADLINE_MS (15 * 60 * 1000)

struct reading;
struct reading_job;

/* `program` is run with the argument --read. */
struct reading *reading_create(uv_loop_t *loop, const char *program);
/* Ends the workers. Takes NULL. */
void reading_destroy(struct reading *r);

/* `why` NULL: the text of a reply; else why there is none. */
typedef void (*reading_done)(void *ctx, const struct buf *reply, const char *why);

/* Takes over the text of the request: its "op", what that wants, and "state": the folder. `done` comes from the loop, never
 * from within this call; users take turns. */
struct reading_job *reading_ask(struct reading *r, uid_t uid, char *request, reading_done done, void *ctx);
/* Nobody waits for it any more: `done` does not come. Takes NULL. */
void reading_cancel(struct reading_job *j);
/* Starts what is due. Called after a commit, so that what was answered before is what is read. */
void reading_start(struct reading *r);

/* The worker's main: answers one request. Returns its exit code. */
int reading_worker(void);

#endif
