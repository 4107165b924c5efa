/* SPDX-License-Identifier: MIT
 *
 * What a user may have at one time. A task that would exceed it waits, and with it the user's tasks behind it, which would
 * otherwise keep it waiting. Other users' tasks are not held up. Pure.
 */
#ifndef RAD_QUEUE_ALLOWANCE_H
#define RAD_QUEUE_ALLOWANCE_H

#include "queue/fair.h"

#include <stdbool.h>
#include <stdint.h>

/* name, word (of settings and requests), what of, in words */
#define ALLOWANCES(X) \
	X(ALLOWANCE_RUNNING, "max_running", "tasks that run") \
	X(ALLOWANCE_GPUS, "max_gpus", "GPUs of running tasks, one that two of them share counted twice") \
	X(ALLOWANCE_QUEUED, "max_queued", "unfinished tasks") \
	X(ALLOWANCE_MEM, "max_mem", "GPU memory held for running tasks, in MiB")

enum allowance_kind {
#define X(name, word, help) name,
	ALLOWANCES(X)
#undef X
	ALLOWANCE_COUNT
};

struct allowance { uint64_t most[ALLOWANCE_COUNT]; };	/* 0: no limit, so that zeroed it limits nothing */

const char *allowance_word(enum allowance_kind k);
/* '-' and '_' alike; ALLOWANCE_COUNT: none is called so. */
enum allowance_kind allowance_find(const char *word, size_t len);
/* Whether it limits anything. */
bool allowance_limits(const struct allowance *a);

/* How much of that kind a user who has `taken` has; 0 for max_queued, which is not counted there. */
uint64_t allowance_has(const struct fair_taken *taken, enum allowance_kind k);
/* Which limit keeps a user who has `taken` from having `more`; ALLOWANCE_COUNT: none. *never: `more` alone is beyond that
 * limit. max_queued is checked elsewhere. */
enum allowance_kind allowance_refuses(const struct allowance *a, const struct fair_taken *taken, const struct fair_taken *more,
				      bool *never);

#endif
