/* SPDX-License-Identifier: MIT
 *
 * The GPU time that users had lately and when they last started anything (queue/fair.h), kept in the store: whose turn it is,
 * and who is owed a start, must not be forgotten with a restart.
 * Noted once a minute and at the end; what ran meanwhile is counted from the last note on.
 */
#ifndef RAD_DAEMON_REMEMBERING_H
#define RAD_DAEMON_REMEMBERING_H

#include "core/core.h"
#include "store/store.h"

struct remembering;

/* Both outlive it. */
struct remembering *remembering_create(struct store *store, struct core *core);
/* Takes NULL. */
void remembering_destroy(struct remembering *r);
/* Tells the core what was noted; before its tasks are restored. */
int remembering_restore(struct remembering *r, struct now now, struct error *err);
/* Notes what has changed, in the open transaction: if a minute has gone by, or at once. */
void remembering_note(struct remembering *r, struct now now, bool at_once);

#endif
