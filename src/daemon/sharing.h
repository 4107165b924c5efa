/* SPDX-License-Identifier: MIT
 *
 * What GPU time tasks shared: the spans of their attempts, collected from tasks as they are read. For the process that reads
 * accounts (daemon/lookup.h).
 */
#ifndef RAD_DAEMON_SHARING_H
#define RAD_DAEMON_SHARING_H

#include "account/shares.h"
#include "task/task.h"

#include <jansson.h>

/* Zeroed memory holds none. */
struct sharing {
	struct shares_span *list;	/* in the order of the tasks, of their attempts and of these attempts' GPUs */
	size_t n, cap;
	int64_t first_ms, last_ms;	/* of all of them; 0: there is none */
	char (*uuids)[GPU_UUID_LEN];
	size_t n_uuids, cap_uuids;
};

/* Adds the attempts of a task; what runs yet ends at now_ms (wall). */
void sharing_add(struct sharing *s, const struct task *t, unsigned owner, int64_t now_ms);
void sharing_clear(struct sharing *s);
/* When shares are split: adds gpu_s and gpu_share_s to that task object and to its attempts (there a list, in the order of
 * gpus). Its first span is the list's *at, which goes on to the next task's. */
void sharing_tell(const struct sharing *s, size_t *at, json_t *task);

#endif
