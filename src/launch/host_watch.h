/* SPDX-License-Identifier: MIT
 *
 * What a task takes of the machine's memory, and whether the kernel's out-of-memory killer struck. With a cgroup that has a
 * limit the kernel counts, and enforces it; without one, the task's processes are added up every few seconds: their resident
 * pages, which count shared ones once for each (data loaders share most of theirs), and where that comes above what the task
 * asked for, their proportional ones, which do not and cost more. Nothing is enforced then, and a peak between two looks is not
 * seen.
 */
#ifndef RAD_LAUNCH_HOST_WATCH_H
#define RAD_LAUNCH_HOST_WATCH_H

#include "launch/cgroup.h"

#include <stdbool.h>
#include <stdint.h>

struct host_watch {
	uint64_t limit_mib;	/* what the task asked for; 0: nothing, and nothing is added up */
	bool enforced;		/* by its cgroup */
	uint64_t peak_mib;	/* the most that was seen; 0: not known */
	uint64_t kills;		/* the machine's count of kills, at the last look */
};

/* As the daemon's user, before the program begins: sets the cgroup's limit, where there is one to set. */
void host_watch_start(struct host_watch *w, const struct cgroup *c, uint64_t limit_mib);
/* A look, while the program runs; `shim` is its ancestor. */
void host_watch_look(struct host_watch *w, const struct cgroup *c, pid_t shim);
/* At its end: the cgroup's own peak, where that is counted. Returns whether the machine's out-of-memory killer struck since the
 * last look, somewhere. */
bool host_watch_end(struct host_watch *w, const struct cgroup *c);

#endif
