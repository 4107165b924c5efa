/* SPDX-License-Identifier: MIT
 *
 * Tasks in a reply, as many as a message can carry: one user's long command lines must not make the queue unreadable for
 * everybody. They become text one by one, so a long list can be made a piece at a time.
 */
#ifndef RAD_DAEMON_LISTING_H
#define RAD_DAEMON_LISTING_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* Zeroed memory is an empty one. */
struct listing {
	struct buf text;
	size_t n;
	bool truncated;		/* one did not fit; neither does any after it */
};

/* Of a task only these members (a list of texts; NULL: the task as it is). "estimate.claim_mib" is a member of a member, of a
 * list that of its last; "attempts[].gpus" is that member alone of each in a list; both are left out where they are null. Takes
 * over the reference of `task`, and gives one. */
json_t *listing_pick(const json_t *members, json_t *task);

/* Takes over the reference of `task`. */
void listing_add(struct listing *l, json_t *task);
/* The reply {"v", "schema", "tasks", "truncated"} as text, with the members of `more` (NULL: none; its reference is taken
 * over). It is long, so it is handed over and not copied: free it. The listing is empty then. */
struct buf listing_finish(struct listing *l, json_t *more);
/* Frees what was not made into a reply. */
void listing_clear(struct listing *l);

#endif
