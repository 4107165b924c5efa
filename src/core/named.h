/* SPDX-License-Identifier: MIT
 *
 * Live tasks by their user and name (--dependency=singleton), so that a submission looks at those alone, however many others
 * there are.
 */
#ifndef RAD_CORE_NAMED_H
#define RAD_CORE_NAMED_H

#include "task/task.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct named;

struct named *named_create(void);
/* Takes NULL. */
void named_destroy(struct named *x);

/* The task is known by the name that it has now. It lives, and keeps that name, until named_remove. */
void named_add(struct named *x, const struct task *t);
void named_remove(struct named *x, const struct task *t);
/* Jobs of which the user has a task of that name, in order: `most` at most, to which there may be more. The caller frees
 * *jobs. An array costs as much as one task. */
size_t named_jobs(const struct named *x, uid_t uid, const char *name, size_t most, uint32_t **jobs);

#endif
