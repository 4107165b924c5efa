/* SPDX-License-Identifier: MIT
 *
 * A list of tasks that is told a piece at a time, since a long one takes longer than others should have to wait. Each task is
 * told as it is when its piece comes.
 */
#ifndef RAD_DAEMON_WALK_H
#define RAD_DAEMON_WALK_H

#include "base/buf.h"
#include "base/error.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct walk;

/* Takes over the list. `living`: those that have ended when their piece comes are left out, else they come from the store. */
struct walk *walk_create(task_id *ids, size_t n, bool living);
/* Takes NULL. */
void walk_destroy(struct walk *w);
/* Goes on until that time (clock_mono_us), at least by one task. 1: that was the last piece; 0: there is more; -1: a task
 * cannot be read, so there is no list: one without it would be taken for whole. */
int walk_step(struct walk *w, struct daemon *d, int64_t until_us, struct error *err);
/* The whole reply as text; free it. */
struct buf walk_finish(struct walk *w);

#endif
