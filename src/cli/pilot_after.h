/* SPDX-License-Identifier: MIT
 *
 * What keeps a task of a queue of files from being begun, wherever there were room: other tasks (--dependency), its own time,
 * the limit of its array. Nobody sees to that while no pilot runs, and nobody has to: it is asked when a task is to be claimed,
 * and when a person asks why it waits.
 */
#ifndef RAD_CLI_PILOT_AFTER_H
#define RAD_CLI_PILOT_AFTER_H

#include "cli/pilot_known.h"

enum pilot_after {
	PILOT_READY,
	PILOT_BEGIN_TIME,	/* its --begin has not come */
	PILOT_DEPENDENCY,	/* what it waits for may come */
	PILOT_DEPENDENCY_NEVER,	/* it cannot come any more, unless a person has another task run again */
	PILOT_ARRAY_LIMIT,
};

/* As far as is known; why (NULL: nobody asks) has a text for people. */
enum pilot_after pilot_after(const struct pilot_known *k, const struct pilot_known_task *t, char why[SPOOL_TEXT]);
/* How many elements of that array may be claimed at once; 0: all. */
size_t pilot_after_limit(const struct spec *s);
/* Whether older releases, which see to none of this, must leave it alone. */
bool pilot_after_is_needed(const struct spec *s);

/* Whether what it names is there, for a submission: 0, or -1 with what is not. */
int pilot_after_check(const struct spool *s, const struct spec *spec, struct error *err);

/* A queue as it is now: for who asks once. NULL with *err. */
struct pilot_known *pilot_after_open(const struct spool *s, struct error *err);

#endif
