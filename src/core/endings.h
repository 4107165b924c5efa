/* SPDX-License-Identifier: MIT
 *
 * Ends of attempts: what the device showed is added to what the shim wrote, MPS clients that died get a moment in which others
 * may die of the same cause, and then `recover` judges and says what comes next: EV_ENDED.
 */
#ifndef RAD_CORE_ENDINGS_H
#define RAD_CORE_ENDINGS_H

#include "core/fleet.h"
#include "core/tasks.h"

struct endings;
struct pass;

/* The other owners, and the core's config, outlive it. */
struct endings *endings_create(const struct core_config *config, struct tasks *ts, struct fleet *f, const struct pass *p);
/* Takes NULL. */
void endings_destroy(struct endings *e);

/* An attempt from before a restart was restored: until now nobody could notice its end. */
void endings_restored(struct endings *e, struct now now);
/* The processes of the task's attempt are gone; see core_exited. Does nothing if no attempt of it runs. */
void endings_add(struct endings *e, task_id id, const struct exit_report *report, struct now now);
/* Judges the attempts whose waiting time is over. Returns when the next one is due (mono), INT64_MAX: none. */
int64_t endings_turn(struct endings *e, struct now now);
/* Whether the task's attempt has ended and is not judged yet; if so, *out is what was measured of it. */
bool endings_open(const struct endings *e, task_id id, struct measured *out);
/* How many attempts have ended and are not judged yet. */
size_t endings_count(const struct endings *e);

#endif
