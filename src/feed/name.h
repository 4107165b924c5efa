/* SPDX-License-Identifier: MIT
 *
 * What a feed may be called.
 */
#ifndef RAD_FEED_NAME_H
#define RAD_FEED_NAME_H

#include "base/error.h"

enum {
	FEED_NAME_MAX = 64,	/* letters, digits, '.', '_', '-', not beginning with '.' */
	FEED_STEM_MAX = 60,	/* of a name that a task's further feeds are to have with a number at its end: "imagenet-2" */
};

/* Returns 0, or -1 with what is allowed. `max`: one of the above. */
int feed_name_check(const char *name, int max, struct error *err);

#endif
