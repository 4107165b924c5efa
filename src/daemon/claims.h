/* SPDX-License-Identifier: MIT
 *
 * Several daemons of one machine, of users without an administrator, or of a user beside the server's: each publishes what it
 * holds on which GPU (claims_folder.h), and counts what others hold as foreign.
 *
 * Two that place at the same moment would both find a GPU free. So before a task is placed its claim is published, and after
 * that the others' are looked at again:
 *
 *	1. publish all that is held, and the new claim		(seen by every look that begins after this returned)
 *	2. look
 *	3. nothing new on those GPUs: the claim stands, the task is placed
 *	   anything new: publish without the claim, count what was seen, and place anew
 *
 * Of any two claims that stand, one was published first; the look of the other began after its own publishing, so after that,
 * and saw it: it counted it, or did not stand. That holds for each two, so for any number of daemons, without an order among
 * them and without waiting for anybody: one that is stopped between 1 and 3 holds up nobody, and what it published counts
 * meanwhile. When two see each other both withdraw; each looks again after a time of its own by chance, some tens of
 * milliseconds, and the first one finds the GPU free. A claim and the wish for one look alike, so nobody has to understand
 * another's state.
 *
 * A daemon that ends, or is killed, takes its wishes with it. What it holds stands until its last task there ends: its tasks
 * run on, will take what they were given, and are its again when it is started again. What is used by daemons that cannot be
 * reached this way (in a container with a /tmp of its own) is seen by the driver.
 */
#ifndef RAD_DAEMON_CLAIMS_H
#define RAD_DAEMON_CLAIMS_H

#include "core/core.h"

#include <jansson.h>
#include <uv.h>

struct claims;

/* `folder` NULL: there are no others. One that cannot be used is told, and tried again. The core may come later. `mark`: the
 * store's, by which the claims of a former daemon of ours are known; NULL: there was none. */
struct claims *claims_create(uv_loop_t *loop, const char *folder, const char *mark);
/* Takes ours away, but those of tasks that run. Frees itself once the loop has closed its handle. Takes NULL. */
void claims_destroy(struct claims *c);

/* Publishes what the core holds, and tells it what the others do: after each reading. */
void claims_refresh(struct claims *c, struct core *core);
/* A task that was started is published at once, by its shim: what it holds outlives us from then on. Note, and do it after the
 * commit. */
void claims_note(struct claims *c, const struct event *ev);
void claims_work(struct claims *c, const struct core *core);
/* The protocol above, for one task: core_ops.claim. */
bool claims_settle(struct claims *c, struct core *core, const struct core_claim *claims, unsigned n);
/* Appends {"check","text"} where claims cannot be shared. */
void claims_tell(const struct claims *c, json_t *troubles);

#endif
