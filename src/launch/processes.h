/* SPDX-License-Identifier: MIT
 *
 * The processes of an attempt: what descends from its shim, what is in its cgroup, and what is in the session that its
 * shim began. The last is how they are found when somebody killed the shim.
 */
#ifndef RAD_LAUNCH_PROCESSES_H
#define RAD_LAUNCH_PROCESSES_H

#include "base/proc.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct family {
	struct proc_id shim;	/* may be dead */
	bool keeps;		/* while it lives, who loses his parent becomes its child */
	char cgroup[PATH_MAX];	/* "" without */
};

/* The name of an attempt's cgroup; `label` is launch_name's. The shim's identity keeps two daemons' attempts apart. */
void family_cgroup_name(const char *label, struct proc_id shim, char *name, size_t size);
/* Fills *f for the shim of the attempt in that folder (-1: there is no folder). The folder says where the cgroup is: a daemon
 * that was started anew may stand in another than the one that the shim came from. */
void family_of(struct proc_id shim, int folder, struct family *f);

/* All living members, the shim and ourselves not included, each once. Returns how many; *pids to be freed. */
size_t family_list(const struct family *f, pid_t **pids);
/* Signals all members; `handled`: only those that have a handler for that one, 0: all. Each is asked whether it is one after a
 * pidfd of it was opened, so the signal cannot reach a stranger who got the pid meanwhile. Returns how many got it. Signal 0
 * reaches nobody, and counts them. */
int family_signal(const struct family *f, int signal, int handled);

#endif
