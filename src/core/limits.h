/* SPDX-License-Identifier: MIT
 *
 * Time limits of running attempts: the signal before the end (EV_WARNED), and the end (EV_STOP_ASKED). They run on the
 * monotonic clock from the moment at which the attempt began, so that somebody who sets the wall clock ends nobody's task; what
 * a restart finds running is counted from the time in its log, which moves with that clock. While a task is suspended its time
 * stands still.
 */
#ifndef RAD_CORE_LIMITS_H
#define RAD_CORE_LIMITS_H

#include "core/fleet.h"
#include "core/tasks.h"

struct limits;

/* Tasks and fleet outlive it. */
struct limits *limits_create(const struct core_ops *ops, struct tasks *ts, struct fleet *f);
/* Takes NULL. */
void limits_destroy(struct limits *l);

/* The task's attempt was placed, started, or found again after a restart: its time runs from then. */
void limits_begin(struct limits *l, const struct task *t, struct now now);
/* The limit of a running task was changed. */
void limits_changed(struct limits *l, struct now now);
/* Sends the warnings and asks for the ends that are due. Returns when the next one is (mono), INT64_MAX: none. Costs nothing
 * until then. */
int64_t limits_turn(struct limits *l, struct now now);

#endif
