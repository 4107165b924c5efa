/* SPDX-License-Identifier: MIT
 *
 * What former radds left behind, looked for once, at the start: what is ours and ended is given to be forgotten, what is not
 * ours is told, in the log and to `rad doctor`, and left alone.
 */
#ifndef RAD_DAEMON_SWEEPING_H
#define RAD_DAEMON_SWEEPING_H

#include "daemon/forgetting.h"
#include "launch/launch.h"

#include <jansson.h>

struct sweeping;

/* `keep`: the launch_name of every running task. `remove` false: only looks, as when a task's log could not be read, whose
 * attempt may be among them. */
struct sweeping *sweeping_start(struct forgetting *forgetting, const struct launch_home *home, char *const *keep, size_t n_keep,
				bool remove);
/* Takes NULL. */
void sweeping_destroy(struct sweeping *s);

/* Whether that process is the shim of an attempt that no task of ours has. NULL: there is none. */
bool sweeping_is_stray(const struct sweeping *s, struct proc_id id);
/* Appends {"check","text"} for what a person should look after. Takes NULL. */
void sweeping_tell(const struct sweeping *s, json_t *troubles);

#endif
