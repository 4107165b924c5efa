/* SPDX-License-Identifier: MIT
 *
 * A list of tasks that is told a piece at a time, since a long one takes longer than others should have to wait. Each task is
 * told as it is when its piece comes.
 */
#ifndef RAD_DAEMON_WALK_H
#define RAD_DAEMON_WALK_H

#include "base/buf.h"
#include "base/error.h"
#include "core/core.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct walk;

/* Of all tasks that live, in the core's order. Those that have ended when their piece comes are left out. */
struct walk *walk_living(struct core *core);
/* Of none yet. Those that have ended come from the store. */
struct walk *walk_create(struct core *core, struct store *store);
/* Takes NULL. */
void walk_destroy(struct walk *w);
/* The one task of that id, or all elements of an array, finished ones too. Whether there are any shows when they are told. */
void walk_add(struct walk *w, task_id id);
/* How many tasks the id stands for. -1: none (ERR_NOT_FOUND), or the store cannot be read. */
int walk_count(struct store *store, task_id id, size_t *n, struct error *err);
/* Of each task only these members (a list of texts; one reference is taken over): to write, send and read all of them takes
 * longer than to find them out. */
void walk_only(struct walk *w, json_t *members);
/* Of the tasks that it names by id ({"12": value}; one reference is taken over, NULL: of none) that value as a member more. */
void walk_add_member(struct walk *w, const char *name, json_t *by_id);
/* Elements of one array that follow each other and wait for the same are told as one task, the first, with the members
 * "elements" (all their indices, as "0-3,7") and "count". */
void walk_fold(struct walk *w);
/* Goes on until that time (clock_mono_us), at least by one task. 1: that was the last piece; 0: there is more; -1: a task
 * cannot be read, so there is no list: one without it would be taken for whole. */
int walk_step(struct walk *w, int64_t until_us, struct error *err);
/* What it holds so far. */
size_t walk_bytes(const struct walk *w);
/* The whole reply as text; free it. */
struct buf walk_finish(struct walk *w);

#endif
