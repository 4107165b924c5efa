/* SPDX-License-Identifier: MIT
 *
 * What `rad top` shows, asked of radd again and again without ever waiting for it.
 */
#ifndef RAD_CLI_TOP_FEED_H
#define RAD_CLI_TOP_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed memory has asked nothing. */
struct top_feed {
	json_t *gpus, *tasks;		/* the lists of the last answers; NULL: none yet. Owned */
	bool truncated;			/* not all tasks are among them */
	char why[400];			/* why there is nothing newer; "": there is */
	struct top_asking *asking;	/* NULL: nothing is under way */
	int64_t due_ms;			/* clock_mono_ms; when to ask next */
};

/* What to wait for: a descriptor (-1: none), and at most until when (clock_mono_ms). */
int top_feed_fd(const struct top_feed *f);
int64_t top_feed_due_ms(const struct top_feed *f);
/* Asks when it is time (`every_ms` after the answer before, and so seldom that neither side is busy with it for more than a
 * tenth of the time), takes what has come. True: something is to be shown. */
bool top_feed_turn(struct top_feed *f, int64_t every_ms);
void top_feed_clear(struct top_feed *f);

#endif
