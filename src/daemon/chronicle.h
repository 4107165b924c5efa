/* SPDX-License-Identifier: MIT
 *
 * What the daemon's log says of tasks and of what people did: by whom, with his name, and whether as an administrator.
 */
#ifndef RAD_DAEMON_CHRONICLE_H
#define RAD_DAEMON_CHRONICLE_H

#include "daemon/names.h"
#include "task/task.h"

/* Placements, ends, and every change that a person made. */
void chronicle_event(struct names *names, const struct event *ev, const struct task *t);
/* "WHO: what": something done to the server and not to a task. */
void chronicle_act(struct names *names, uid_t uid, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
