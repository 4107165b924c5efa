/* SPDX-License-Identifier: MIT
 *
 * Tasks in a reply, as many as a message can carry: one user's long command lines must not make the queue unreadable for
 * everybody.
 */
#ifndef RAD_DAEMON_LISTING_H
#define RAD_DAEMON_LISTING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct listing {
	json_t *tasks;
	size_t bytes;		/* about what they take as text */
	bool truncated;		/* one did not fit; neither does any after it */
};

/* Takes over the reference of `task`. */
void listing_add(struct listing *l, json_t *task);
/* {"schema", "tasks", "truncated"}, a new reference; the listing is empty then. */
json_t *listing_reply(struct listing *l);
/* Frees what was not made into a reply. */
void listing_clear(struct listing *l);

#endif
