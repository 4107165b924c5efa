/* SPDX-License-Identifier: MIT
 *
 * Long looks into the history (`acct`, `series`), by processes of their own: `radd --read` opens the store for reading alone
 * and makes the whole reply, while the daemon goes on.
 */
#ifndef RAD_DAEMON_LOOKUP_H
#define RAD_DAEMON_LOOKUP_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define LOOKUP_AT_ONCE 2
#define LOOKUP_DEADLINE_MS (15 * 60 * 1000)

struct lookups;
struct lookup;

/* `program` is run with the argument --read, and with the folder in RAD_STATE: a path need not be UTF-8, as JSON is. */
struct lookups *lookups_create(uv_loop_t *loop, const char *program, const char *state_dir);
/* Ends the workers. Takes NULL. */
void lookups_destroy(struct lookups *r);

/* `why` NULL: the text of a reply; else why there is none. */
typedef void (*lookup_done)(void *ctx, const struct buf *reply, const char *why);

/* Takes over the text of the request: its "op", and what that wants. `done` comes from the loop, never
 * from within this call. Users take turns, one lookup each, however many they have asked for; each with all uids that he
 * answers for (`payer`). */
struct lookup *lookups_ask(struct lookups *r, uid_t payer, char *request, lookup_done done, void *ctx);
/* Nobody waits for it any more: `done` does not come. Takes NULL. */
void lookup_cancel(struct lookup *j);
/* Starts what is due. Called after a commit, so that what was answered before is what is read. */
void lookups_start(struct lookups *r);

/* The worker's main: answers one request. Returns its exit code. */
int lookup_worker(void);

#endif
