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
#include <stdint.h>

/* The cgroup of version 2 in the text of a /proc/PID/cgroup, of *len bytes; NULL: it has none. */
const char *cgroup_parse(const char *text, size_t *len);
/* The folder of the cgroup `name` below the one that process `of` is in. Returns 0, or -1 where there is no version 2. */
int cgroup_path(pid_t of, const char *name, char path[PATH_MAX]);

struct cgroup {
	char path[PATH_MAX];	/* "" when there is none */
	/* Opened with the rights of the one who made it; usable after they are dropped. -1: not there. */
	int folder_fd, procs_fd, kill_fd, events_fd, peak_fd;
};

/* Makes it below our own. Whatever fails leaves path empty. */
void cgroup_create(struct cgroup *c, const char *name);
/* Its processes get no more memory together, and end together when they ask for more. -1 where that cannot be had: where the
 * controller is not given to us. */
int cgroup_limit_memory(const struct cgroup *c, uint64_t bytes);
/* The most that they had; 0 where that is not counted. */
uint64_t cgroup_memory_peak(const struct cgroup *c);
/* Has the kernel count memory in the cgroups that are made from now on, where we were given a part of the tree for ourselves:
 * that is, when we stand in the leaf CGROUP_DAEMON of it (DelegateSubgroup= of systemd). A cgroup with processes in it can have
 * no controllers below it, and one that has gets no processes: a restarted daemon that systemd put above its tasks could not
 * start, so where there is no such leaf nothing is changed; only the top of the tree, as in a virtual machine without systemd,
 * may have both, and then somebody else had it counted. Returns whether it is. */
#define CGROUP_DAEMON "rad-daemon"
bool cgroup_take_memory(void);
/* As fork(), with the child in it where that is possible. The kernel stops every fork of the machine for up to some tens of
 * milliseconds to move a process that runs; one that is made there moves nothing. */
pid_t cgroup_fork(const struct cgroup *c);
/* After that: where the process could not be put into it, since only a part of the tree is ours, there is none any more; its
 * folder stays. Else an empty one would be asked what its processes do. */
void cgroup_confirm(struct cgroup *c, pid_t pid);
/* Kills all its processes. -1 where that cannot be done this way. */
int cgroup_kill(const struct cgroup *c);
/* How often the kernel's out-of-memory killer struck in it; 0 where there is no counter. */
int64_t cgroup_oom_kills(const struct cgroup *c);
/* The least limit of memory of our cgroup and those above it, in bytes; 0: none, or not known. */
uint64_t cgroup_memory_limit(void);
/* The same of CPU time, in cores. */
double cgroup_cpu_limit(void);
/* The processes in the cgroup of that path and in those that were made below it: in some hundred of these at most. Returns how
 * many; *pids to be freed. */
size_t cgroup_members(const char *path, pid_t **pids);
/* Whether there is any, by the kernel's count. */
bool cgroup_is_used(const char *path);
/* Moves a process into the cgroup `name` below our own, which is made where it is not there. -1 where that cannot be. */
int cgroup_put(const char *name, pid_t pid);
/* Removes that cgroup, unless something is in it. */
void cgroup_remove(const char *name);
/* Removes it, and kills what is in it. */
void cgroup_end(const char *name);
/* The one of that path, and those that were made below it. False: something is in one of them, or there are so many that some
 * are left for the next time. */
bool cgroup_remove_path(const char *path);
/* Whether the process is in the cgroup of that path, or below it. */
bool cgroup_holds(const char *path, pid_t pid);
/* cgroup_kill for one made by another process. */
int cgroup_kill_path(const char *path);

#endif
