/* SPDX-License-Identifier: MIT
 *
 * radd as the first process of a container. Shims are nobody's children, so there they would become radd's, which would
 * never collect them.
 */
#ifndef RAD_DAEMON_REAPER_H
#define RAD_DAEMON_REAPER_H

/* As process 1: goes on in a child; the parent passes signals on, collects whatever ends, and ends with the child's code.
 * Otherwise does nothing. Call it before anything is opened. */
void reaper_start(void);

#endif
