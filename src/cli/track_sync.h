/* SPDX-License-Identifier: MIT
 *
 * One round of `rad track`: what radd has, and MLflow has not yet, is sent.
 *
 * Nothing waits in memory for a server that is away: radd's store has it all, and the cursor says from where on. Nothing is
 * sent twice either: a run is looked for by its key before it is made, and where an answer did not come, or rad was killed, the
 * server is asked for the last point it has before more are sent (log-batch takes a batch of metrics whole or not at all).
 */
#ifndef RAD_CLI_TRACK_SYNC_H
#define RAD_CLI_TRACK_SYNC_H

#include "cli/track_cursor.h"
#include "cli/track_http.h"

#include <signal.h>

struct track {
	struct track_http *http;
	struct track_cursor cursor;
	char *experiment;		/* its id */
	const char *host, *user;	/* whose tasks; NULL: everybody's */
	int64_t uid;			/* the same; -1: everybody's */
	const volatile sig_atomic_t *stop;
	bool radd_failed;		/* out: the failure of a round was radd's */
	size_t runs, points;		/* made and sent so far */
	size_t taken;			/* what the server took so far, of any kind: while it grows, it is not away */
};

/* Returns 0 when all that could be sent was; *left_ms: tasks that ended have points to come yet, in so many. -1 with
 * ERR_UNAVAILABLE: later perhaps; with others: not as things are. What was sent is noted in the cursor either way. A run that
 * the server refuses is told and left out. */
int track_sync_round(struct track *t, int64_t *left_ms, struct error *err);

#endif
