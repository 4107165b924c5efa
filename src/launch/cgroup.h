/* SPDX-License-Identifier: MIT
 *
 * A cgroup (version 2) per attempt, below the one the daemon is in: where that is allowed. It tells a task's processes
 * apart for certain, lets all of them be killed at once, and counts what the kernel's out-of-memory killer did.
 * Without the rights, or with version 1, everything works without.
 */
#ifndef RAD_LAUNCH_CGROUP_H
#define RAD_LAUNCH_CGROUP_H

#include "base/proc.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The folder of the cgroup `name` below the one that process `of` is in. Returns 0, or -1 where there is no version 2. */
int cgroup_path(pid_t of, const char *name, char path[PATH_MAX]);

struct cgroup {
	char path[PATH_MAX];	/* "" when there is none */
	/* Opened with the rights of the one who made it; usable after they are dropped. -1: not there. */
	int folder_fd, procs_fd, kill_fd, events_fd;
};

/* Makes it below our own. Whatever fails leaves path empty. */
void cgroup_create(struct cgroup *c, const char *name);
/* As fork(), with the child in it where that is possible. The kernel stops every fork of the machine for up to some tens of
 * milliseconds to move a process that runs; one that is made there moves nothing. */
pid_t cgroup_fork(const struct cgroup *c);
/* Kills all its processes. -1 where that cannot be done this way. */
int cgroup_kill(const struct cgroup *c);
/* How often the kernel's out-of-memory killer struck in it; 0 where there is no counter. */
int64_t cgroup_oom_kills(const struct cgroup *c);
/* The processes in the cgroup of that path. Returns how many; *pids to be freed. */
size_t cgroup_members(const char *path, pid_t **pids);
/* Whether the process is in the cgroup of that path. */
bool cgroup_holds(const char *path, pid_t pid);
/* cgroup_kill for one made by another process. */
int cgroup_kill_path(const char *path);

#endif
