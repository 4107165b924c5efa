/* SPDX-License-Identifier: MIT
 *
 * Processes of tasks that do not descend from their shims: a container's, which the container's own daemon started, as whatever
 * user. One is known by the token that its attempt was given (RAD_TASK_TOKEN), which nobody but the task's user can have passed
 * on: a task id alone would let anybody have his memory counted as another's.
 */
#ifndef RAD_DAEMON_OUTSIDERS_H
#define RAD_DAEMON_OUTSIDERS_H

#include "device/reading.h"
#include "launch/launch.h"

#include <uv.h>

struct outsiders;

/* `home` is copied; what it points at outlives the object. */
struct outsiders *outsiders_create(uv_loop_t *loop, const struct launch_home *home);
/* Frees itself once the loop has closed its handles. Takes NULL. */
void outsiders_destroy(struct outsiders *o);

/* Whether the process has the token of that running task's attempt; then it is remembered as the task's. */
bool outsiders_prove(struct outsiders *o, const struct task *t, const struct proc_reading *p);
/* Signals those of the task that still run. Returns how many got it. */
int outsiders_signal(struct outsiders *o, const struct task *t, int signal);
/* How many are remembered, of all tasks. */
size_t outsiders_count(const struct outsiders *o);
/* The attempt is over. Those of it that still run are told in the log; where it was to stop, they are killed after
 * kill_wait_ms: until then they may do what SIGTERM, which they got, asks of them. */
void outsiders_end(struct outsiders *o, const struct task *t, int64_t kill_wait_ms);

#endif
