/* SPDX-License-Identifier: MIT
 *
 * A process of one's own for one piece of work that may take long, or hang: it reads one request from its input and writes one
 * answer, within a deadline. It gets none of the caller's descriptors, and nothing of its environment.
 */
#ifndef RAD_LAUNCH_WORKER_H
#define RAD_LAUNCH_WORKER_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct worker;

struct worker_plan {
	const char *program, *flag;	/* what is run: `radd --estimate` */
	char *const *args, *const *env;	/* instead of these words, instead of no environment; NULL: not. For the call */
	bool as_user;			/* with these rights, when we are root */
	uid_t uid;
	gid_t gid;
	const char *cgroup;		/* it is put there, if that can be (cgroup_put), before it reads its request; NULL: not */
	int64_t deadline_ms;
	size_t max_answer;		/* bytes; more are no answer, */
	bool only_end;			/* but where this is said: then the last so many of them are */
};

/* Comes once, from the loop. `why` NULL: the answer is whole, and the program ended with 0; else what went wrong with it. */
typedef void (*worker_done)(void *ctx, const struct buf *answer, const char *why);

/* Takes over the text of the request. NULL, with `why` filled, when it cannot be started. */
struct worker *worker_start(uv_loop_t *loop, const struct worker_plan *plan, char *request, worker_done done, void *ctx,
			    char *why, size_t why_size);
/* Ends it; `done` does not come any more. Its process is collected when it has ended. Not to be called after `done`. Takes
 * NULL. */
void worker_cancel(struct worker *w);
/* The same when the caller ends: nobody waits for the process. */
void worker_stop(struct worker *w);
/* The same, but it may finish its work, for which it has to have a deadline of its own. */
void worker_leave(struct worker *w);

#endif
