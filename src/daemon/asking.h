/* SPDX-License-Identifier: MIT
 *
 * The signal at the end of a time slot (core/timeslots.h).
 */
#ifndef RAD_DAEMON_ASKING_H
#define RAD_DAEMON_ASKING_H

#include "launch/launch.h"

/* Whether a process of the running task has a handler for it. */
bool asking_is_heard(const struct launch_home *home, const struct task *t);
/* Tells the processes of a running task that have one to save what they did and go. */
void asking_for_place(const struct launch_home *home, const struct task *t);
/* Whether they were told since the task was last asked (EV_SLOT_ASKED), by an earlier radd perhaps. */
bool asking_was_told(const struct launch_home *home, const struct task *t, int64_t wall_ms);

#endif
