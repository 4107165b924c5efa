/* SPDX-License-Identifier: MIT
 *
 * The signal at the end of a time slot (core/timeslots.h).
 */
#ifndef RAD_DAEMON_ASKING_H
#define RAD_DAEMON_ASKING_H

#include "launch/launch.h"

/* Tells the processes of a running task to save what they did and go. Returns how many have a handler for that. */
int asking_for_place(const struct launch_home *home, const struct task *t);

#endif
