/* SPDX-License-Identifier: MIT
 *
 * Whose process is whose: what descends from the shim of a task, and what proves by its environment that it belongs to one.
 * Asked for every process on a GPU at every sample; who owns a process does not change, so the answer is kept.
 */
#ifndef RAD_DAEMON_OWNERS_H
#define RAD_DAEMON_OWNERS_H

#include "core/core.h"

struct outsiders;
struct owners;
struct sweeping;

/* The core and `outsiders` are the caller's, and outlive it. */
struct owners *owners_create(const struct core *core, struct outsiders *outsiders);
/* Takes NULL. */
void owners_destroy(struct owners *o);

/* That process is the shim of that task, from now on; or it is no longer. */
void owners_shim(struct owners *o, pid_t shim, task_id task);
void owners_shim_gone(struct owners *o, pid_t shim, task_id task);
/* The task's processes are nobody's from now on. */
void owners_let_go(struct owners *o, task_id task);

/* The running task that owns the process; 0: none of ours. `sweeping` (NULL: none) knows of shims that no task has. */
task_id owners_of(struct owners *o, const struct sweeping *sweeping, const struct proc_reading *p);

#endif
