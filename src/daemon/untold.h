/* SPDX-License-Identifier: MIT
 *
 * Notices that were not sent, and why: for whose they are, since nobody else misses them. The last ones of each user, until
 * radd ends; the log has all.
 */
#ifndef RAD_DAEMON_UNTOLD_H
#define RAD_DAEMON_UNTOLD_H

#include "task/task.h"

#include <jansson.h>
#include <sys/types.h>

struct untold;

struct untold *untold_create(void);
void untold_destroy(struct untold *u);

/* One about that task of that user's. */
void untold_add(struct untold *u, uid_t uid, task_id id, int64_t t_ms, const char *why);
/* {"12_3": {"time", "text"}}, of that task or of the elements of that job, if they are that user's (-1: anybody's): the last of
 * each, a new reference. NULL: none. */
json_t *untold_json(const struct untold *u, task_id id, int64_t uid);

#endif
