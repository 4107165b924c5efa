/* SPDX-License-Identifier: MIT
 *
 * What a user may have at one time. A task that would be more waits, and those of the same user behind it, which would
 * otherwise keep it waiting; others are not held up by it. Pure.
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

/* How much of that he who has `taken` has; of max_queued, which is not counted there, 0. */
uint64_t allowance_has(const struct fair_taken *taken, enum allowance_kind k);
/* What keeps him who has `taken` from having so much more; ALLOWANCE_COUNT: nothing. *never: it is more than he may have in
 * all. max_queued is asked elsewhere. */
enum allowance_kind allowance_refuses(const struct allowance *a, const struct fair_taken *taken, const struct fair_taken *more,
				      bool *never);

#endif
