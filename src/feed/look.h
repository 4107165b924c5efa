/* SPDX-License-Identifier: MIT
 *
 * Looking at feeds from outside, with the caller's own rights: nobody is asked, nothing is made, changed or held up. Who lives
 * is read from the locks of the feed's file, how it goes from the first pages of the writer's ring, which the kernel shows
 * to the same user as /proc/PID/fd/N; so a writer that hangs in its loader is seen as well as one that does not.
 */
#ifndef RAD_FEED_LOOK_H
#define RAD_FEED_LOOK_H

#include "feed/figures.h"

#include <sys/types.h>

enum { FEED_LOOK_NAME_MAX = FEED_NAME_MAX + 1 + FEED_NAME_MAX };	/* "GROUP:NAME" */

enum feed_look_state {
	FEED_LOOK_NOBODY,	/* nobody writes: its tasks wait for one that does, or there are none */
	FEED_LOOK_BEGINS,	/* there is a writer, and no item of it yet */
	FEED_LOOK_RUNS,
	FEED_LOOK_HIDDEN,	/* there is a writer whose figures cannot be read from here: another user's, container, or version */
};

struct feed_look {
	char name[FEED_LOOK_NAME_MAX + 1];
	char sign[FEED_SIGN_MAX + 1];	/* what its data are; "": not known */
	enum feed_look_state state;
	pid_t writer;			/* 0: none, or not known */
	size_t tasks;			/* that have joined, or ask to */
	uint64_t now_us;		/* when it was looked at; monotonic */
	struct feed_figures figures;	/* in FEED_LOOK_RUNS; else zero */
};

/* The feeds of this user, and "GID:NAME" of the groups that this process is of: an array of names that ends with NULL, by
 * folders and in their order there, to be freed as a whole. NULL with an error if the user's folder is not to be trusted; no
 * folder is no feed. */
char **feed_look_names(struct error *err);
/* ERR_NOT_FOUND: no such feed. */
int feed_look(const char *name, struct feed_look *out, struct error *err);

#endif
