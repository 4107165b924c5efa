/* SPDX-License-Identifier: MIT
 *
 * `rad pilot`: what its parts share. It is two processes. The keeper (verb_pilot.c) knows when the allocation ends, signals
 * tasks and ends them, and never touches the queue: a shared file system that hangs does not keep it from that. The agent
 * (pilot_agent.c), its child, does everything with the queue. Both are clients of the pilot's own radd, which runs the tasks,
 * and goes on without them.
 *
 * In STATE, a folder on the node itself:
 *	lock, name		held by the pilot that lives; who it is, over restarts
 *	radd/, radd.sock, rad.conf	its radd
 *	handed/12_3.4		a claim (task and version) that radd was given: {"local": its id there, "signal", "before_s", "code"}
 *	handed/12_3.4.asked	its processes were told that the allocation ends;  .cut: it was ended for that
 */
#ifndef RAD_CLI_PILOT_H
#define RAD_CLI_PILOT_H

#include "base/error.h"
#include "spool/spool.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pilot_options {
	const char *queue, *devices, *state;	/* state NULL: chosen */
	int64_t time_ms;	/* how long it may last where Slurm does not say; 0: for ever */
	int64_t idle_ms;	/* without a task; 0: never leaves for that */
	int64_t margin_ms;	/* before the end, tasks are told */
	int64_t grace_ms;	/* from SIGTERM to the end */
	int64_t lease_ms;	/* a pilot whose heart stands for so long is asked about */
};

/* Who it is, as other pilots read it (the file `pilot`). */
struct pilot_who {
	char name[SPOOL_NAME];		/* "n3-1a2b3c4d" */
	char host[65], boot[40];	/* boot: of this boot of the kernel */
	char job[32], cluster[65];	/* of Slurm; "" without */
	int64_t restarts;		/* of that job: an allocation that was requeued is another one */
};

/* In memory of both processes. */
struct pilot_shared {
	_Atomic int64_t end_ms;		/* mono; when the allocation is over; INT64_MAX: nobody knows */
	_Atomic bool ending;		/* nothing is claimed any more */
};

struct pilot {
	struct pilot_options options;
	struct pilot_who who;
	struct pilot_shared *shared;
	char *state;		/* owned */
	char *dir;		/* of the queue; owned */
	struct spool *s;	/* the agent's; NULL while it cannot be reached */
	struct pilot_notices *notices;	/* the agent's */
};

/* Spans, in ms: from when before the end tasks are told, and ended. */
int64_t pilot_margin_ms(const struct pilot_options *o);
int64_t pilot_cut_ms(const struct pilot_options *o);

#endif
