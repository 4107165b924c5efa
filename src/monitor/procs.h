/* SPDX-License-Identifier: MIT
 *
 * Who the processes of a snapshot are: start time, owner, RAD_TASK_ID, MPS server. Not for the daemon's loop: what reads
 * another process's memory waits for it, so long and no longer (peek.h).
 */
#ifndef RAD_MONITOR_PROCS_H
#define RAD_MONITOR_PROCS_H

#include "device/reading.h"

struct procs;

/* `mps_process`: the program of MPS servers here; NULL: there are none. It must outlive the object. */
struct procs *procs_create(const char *mps_process);
void procs_destroy(struct procs *p);	/* takes NULL */

/* Fills start time, uid, program, claim and mps_server of every process of the snapshot. Each is looked at once in its life;
 * one whose memory could not be read then, again and ever more seldom. A process that has ended but is still listed by the
 * driver keeps the identity it had; one that was never seen alive (another pid namespace) gets start time 0 and uid -1. In a
 * container, where the driver's numbers are the machine's, no process is left, and the snapshot says that none is known. */
void procs_fill(struct procs *p, struct snapshot *s);

#endif
