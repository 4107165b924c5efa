/* SPDX-License-Identifier: MIT
 * See sharing.h. One span for each GPU of each attempt, in the order in which tasks were added: sharing_tell walks the same way
 * again, so no index from task to span is kept.
 */
#include "daemon/sharing.h"

#include "base/alloc.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* A server has few GPUs; the one found last is the most likely. */
static unsigned number_of(struct sharing *s, const char *uuid)
{
	for (size_t i = s->n_uuids; i-- > 0;)
		if (!strcmp(s->uuids[i], uuid))
			return (unsigned)i;
	alloc_grow(s->uuids, s->n_uuids, s->cap_uuids);
	memcpy(s->uuids[s->n_uuids], uuid, GPU_UUID_LEN);
	return (unsigned)s->n_uuids++;
}

/* From the placement on, since the GPU was its own from then; one that runs, until now. */
void sharing_add(struct sharing *s, const struct task *t, unsigned owner, int64_t now_ms)
{
	for (uint32_t i = 0; i < t->n_attempts; i++) {
		const struct attempt *a = &t->attempts[i];
		int64_t end_ms = a->end_ms ? a->end_ms : now_ms;
		s->first_ms = !s->n || a->placed_ms < s->first_ms ? a->placed_ms : s->first_ms;
		s->last_ms = end_ms > s->last_ms ? end_ms : s->last_ms;
		for (uint32_t k = 0; k < a->n_gpus; k++) {
			alloc_grow(s->list, s->n, s->cap);
			s->list[s->n++] = (struct shares_span){ number_of(s, a->gpus[k]), owner, a->placed_ms, end_ms, 0 };
		}
	}
}

void sharing_clear(struct sharing *s)
{
	free(s->list);
	free(s->uuids);
	*s = (struct sharing){ 0 };
}

/* A clock that was set back may have an attempt end before it began: it counts as nothing, and never as less. */
void sharing_tell(const struct sharing *s, size_t *at, json_t *task)
{
	const json_t *attempts = json_object_get(task, "attempts");
	double all_s = 0, all_share_s = 0;
	size_t i;
	json_t *a;
	json_array_foreach(attempts, i, a) {
		json_t *shares = json_array();
		double gpu_s = 0;
		for (size_t k = json_array_size(json_object_get(a, "gpus")); k && *at < s->n; k--, ++*at) {
			const struct shares_span *span = &s->list[*at];
			gpu_s += span->to_ms > span->from_ms ? (double)(span->to_ms - span->from_ms) / 1000 : 0;
			all_share_s += span->share_s;
			json_array_append_new(shares, json_round3(span->share_s));
		}
		all_s += gpu_s;
		json_object_set_new(a, "gpu_s", json_round3(gpu_s));
		json_object_set_new(a, "gpu_share_s", shares);
	}
	json_object_set_new(task, "gpu_s", json_round3(all_s));
	json_object_set_new(task, "gpu_share_s", json_round3(all_share_s));
}
