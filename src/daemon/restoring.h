/* SPDX-License-Identifier: MIT
 *
 * A start: what the store holds goes into the core, and what runs is found again.
 */
#ifndef RAD_DAEMON_RESTORING_H
#define RAD_DAEMON_RESTORING_H

#include "base/error.h"
#include "core/core.h"
#include "daemon/runner.h"
#include "store/store.h"

/* All unfinished tasks, and what ended ones taught; then each running task is adopted, or its end is read. A task whose log
 * cannot be read is told and left alone. -1: the store cannot be read. */
int restoring_run(struct store *store, struct core *core, struct runner *runner, struct error *err);

#endif
