/* SPDX-License-Identifier: MIT
 * Memory that a GPU has in use and that none of its processes is listed with. NVML counts managed memory (cudaMallocManaged:
 * optimizers that page their states) and memory that may outlive its maker (a feed's copy on the GPU) for the GPU alone. Taken
 * for a foreigner's it would keep others away, and the task that has it would be learnt, and fenced, without it.
 *
 * So it is the task's that is alone there while it comes: what is not listed, less what was not when nobody was there. In
 * company, be it another daemon's task or any foreign process, nobody can tell, and whoever was known to have some keeps what
 * is still there of it. A GPU that was never seen without anybody tells nothing.
 */
#include "core/fleet_private.h"

#include "base/least.h"

#define LEAST_MIB 256	/* less is the driver's own */

static uint64_t not_listed(const struct slot *s)
{
	uint64_t listed = s->mps_mib + s->foreign_mib + (s->r.valid & GPU_MEM_RESERVED ? s->r.mem_reserved_mib : 0);
	for (size_t i = 0; i < s->n_seen; i++)
		listed += s->seen[i].mib;
	return less_or_zero(s->r.mem_used_mib, listed);
}

/* Memory and processes are not read in the same moment, so while a task takes memory some is in use before it is listed: only
 * what was there in each of the last readings, and all of the same task alone, counts. */
static uint64_t stood(const struct unlisted *u)
{
	uint64_t least = UINT64_MAX;
	for (unsigned i = 0; i < UNLISTED_READINGS && i < u->n; i++)
		least = least_of(least, u->recent_mib[i]);
	return least;
}

/* Whose processes are there: all the task's, or nobody's (0). MPS servers are nobody's. What another daemon's task holds there
 * may not be listed at all. */
static bool has_only(const struct slot *s, task_id task)
{
	for (size_t i = 0; i < s->n_others; i++)
		if (s->others[i].n_tasks)
			return false;
	for (size_t i = 0; i < s->n_procs; i++)
		if (!s->procs[i].mps_server && (!task || s->procs[i].claimed != task))
			return false;
	return true;
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
	task_id alone = s->n_runs == 1 ? s->runs[0]->t->id : 0;
	bool tells = s->n_runs < 2 && has_only(s, alone);
	if (!tells || alone != u->alone)
		u->n = 0;
	u->alone = alone;
	if (tells)
		u->recent_mib[u->n++ % UNLISTED_READINGS] = not_listed(s);
	if (u->task && !runs_there(s, u->task))
		u->task = 0;
	if (tells && !alone) {
		u->before_known = true;
		u->before_mib = stood(u);
	}
	if (alone && u->before_known && u->n >= UNLISTED_READINGS) {
		u->task = alone;
		u->mib = less_or_zero(stood(u), u->before_mib);
		if (u->mib <= LEAST_MIB)
			u->mib = 0;
	}
	struct slot_seen *seen = u->task ? fleet_seen(s, u->task) : NULL;
	if (seen)
		seen->mib += least_of(u->mib, less_or_zero(not_listed(s), u->before_mib));
}
