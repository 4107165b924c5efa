/* SPDX-License-Identifier: MIT
 * Memory that a GPU has in use and that none of its processes is listed with. NVML counts managed memory (cudaMallocManaged:
 * optimizers that page their states) and memory that may outlive its maker (a feed's copy on the GPU) for the GPU alone. Taken
 * for a foreigner's it would keep others away, and the task that has it would be learnt, and fenced, without it.
 *
 * So it is the task's that is alone there while it comes: what is not listed, less what was not when nobody ran there. In
 * company nobody can tell, and whoever was known to have some keeps it. A GPU that was never seen without tasks tells nothing.
 */
#include "core/fleet_private.h"

#define LEAST_MIB 256	/* less is the driver's own */

static uint64_t not_listed(const struct slot *s)
{
	uint64_t listed = s->mps_mib + s->foreign_mib + (s->r.valid & GPU_MEM_RESERVED ? s->r.mem_reserved_mib : 0);
	for (size_t i = 0; i < s->n_seen; i++)
		listed += s->seen[i].mib;
	return s->r.mem_used_mib > listed ? s->r.mem_used_mib - listed : 0;
}

/* Memory and processes are not read in the same moment, so while a task takes memory some is in use before it is listed: only
 * what was there in each of the last readings counts. */
static uint64_t stood(const struct unlisted *u)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < UNLISTED_READINGS && i < u->n; i++)
		least = u->recent_mib[i] < least ? u->recent_mib[i] : least;
	return least;
}

static bool runs_there(const struct slot *s, task_id task)
{
	for (size_t i = 0; i < s->n_runs; i++)
		if (s->runs[i]->t->id == task)
			return true;
	return false;
}

void fleet_note_unlisted(struct slot *s)
{
	struct unlisted *u = &s->unlisted;
	if (~s->r.valid & (GPU_MEM_USED | GPU_PROCS | GPU_PROC_MEM))
		return;
	u->recent_mib[u->n++ % UNLISTED_READINGS] = not_listed(s);
	if (u->task && !runs_there(s, u->task))
		u->task = 0;
	uint64_t now = stood(u);
	if (!s->n_runs && !s->n_seen) {
		u->before_known = true;
		u->before_mib = now;
	}
	if (u->before_known && u->n >= UNLISTED_READINGS && s->n_runs == 1) {
		u->task = s->runs[0]->t->id;
		u->mib = now > u->before_mib + LEAST_MIB ? now - u->before_mib : 0;
	}
	struct slot_seen *seen = u->task ? fleet_seen(s, u->task) : NULL;
	if (seen)
		seen->mib += u->mib;
}
