/* SPDX-License-Identifier: MIT
 *
 * Attempts in the loop: what follows from EV_PLACED and EV_STOP_ASKED once they are on disk. Every effect may be run again
 * after a crash: launching is exactly-once by the claim file, signals are harmless twice.
 */
#ifndef RAD_DAEMON_RUNNER_H
#define RAD_DAEMON_RUNNER_H

#include "device/reading.h"
#include "task/task.h"

struct daemon;
struct runner;

struct runner *runner_create(struct daemon *d);
void runner_destroy(struct runner *r);

/* An event happened; what has to be done about it is noted and done by runner_work. */
void runner_note(struct runner *r, const struct event *ev, const struct task *t);
/* After the commit. Returns whether anything was done that may have made new events. */
bool runner_work(struct runner *r);
/* A running task came back from the store: finds its shim, or what it left. */
void runner_adopt(struct runner *r, struct task *t);
/* All of them did: what a former radd started and nobody uses is stopped. */
void runner_adopted(struct runner *r);
/* Whose process that is (core_ops.owner). */
task_id runner_owner(struct runner *r, const struct proc_reading *p);
/* Sends a running task a signal (core_ops.signal). */
void runner_signal(struct runner *r, const struct task *t, int signal);

#endif
