/* SPDX-License-Identifier: MIT
 *
 * What a task takes of the machine's CPUs, and how long its threads were ready to run and got no core: summed over its
 * processes by their shim, which everything descends from. The first is what /proc/PID/stat counts, of children waited for
 * too, so nothing is lost; the second the second number of each thread's schedstat: what one waited between the last look and
 * its end is lost. Of threads that are pinned to fewer cores than there are, it counts no further than those go: many on one
 * starve each other, and no other core would help them, whatever else the task has that is pinned elsewhere or not at all. A
 * look costs some microseconds for each thread, so there are few.
 */
#ifndef RAD_LAUNCH_CPU_WATCH_H
#define RAD_LAUNCH_CPU_WATCH_H

#include "launch/cgroup.h"
#include "task/task.h"

struct cpu_thread { pid_t tid; unsigned place; uint64_t ran_ns, wait_ns; };	/* place: of one look alone */

/* Zeroed: as the program begins. */
struct cpu_watch {
	int64_t began_ms, looked_ms;	/* mono */
	uint64_t wait_ns;
	struct cpu_thread *threads;	/* of the last look, by tid; owned */
	size_t n_threads;
	struct cpu_sums sums;
};

/* Called every few seconds; most of the time it does nothing. `shim`: ourselves. */
void cpu_watch_look(struct cpu_watch *w, const struct cgroup *c, pid_t shim, int64_t mono_ms);

#endif
